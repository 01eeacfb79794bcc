//! Commands: their bytes, their names and how long each may take.

use std::time::Duration;

/// The kind of a command, which says how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    /// Asks something that the device knows.
    Ask,
    /// Threads or ejects a medium.
    Load,
    /// Winds the tape.
    Wind,
    /// Moves a block.
    Transfer,
    /// Makes written blocks durable.
    Synchronize,
    /// Moves a cartridge.
    Exchange,
}

impl CommandKind {
    /// Longest that a command of this kind may take: what vendors of LTO drives name, rounded up.
    #[must_use]
    pub fn deadline(self) -> Duration {
        Duration::from_secs(match self {
            Self::Ask => 60,
            Self::Exchange => 900,
            Self::Load => 1200,
            Self::Synchronize => 1800,
            // With all attempts of the drive to recover an error.
            Self::Transfer => 2400,
            // From one end of the tape to the other at the lowest speed.
            Self::Wind => 3000,
        })
    }
}

/// A command descriptor block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    name: &'static str,
    kind: CommandKind,
    bytes: [u8; 16],
    length: u8,
}

/// Its operation code.
const READ_ELEMENT_STATUS: u8 = 0xb8;
/// Largest count of SPACE(6), in either direction.
pub(super) const SPACE_MAX: i64 = (1 << 23) - 1;

impl Command {
    fn new(name: &'static str, kind: CommandKind, cdb: &[u8]) -> Self {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        Self { name, kind, bytes, length: cdb.len() as u8 }
    }

    /// The name in the standard.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> CommandKind {
        self.kind
    }

    /// Whether it changes nothing, so that it can be repeated when nobody knows what became of it.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.kind == CommandKind::Ask || self.bytes[0] == READ_ELEMENT_STATUS
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    /// Is the device ready?
    #[must_use]
    pub fn test_unit_ready() -> Self {
        Self::new("TEST UNIT READY", CommandKind::Ask, &[0x00, 0, 0, 0, 0, 0])
    }

    /// What is the device? `page`: a page of vital product data.
    #[must_use]
    pub fn inquiry(page: Option<u8>, length: u16) -> Self {
        let [high, low] = length.to_be_bytes();
        let cdb = [0x12, page.is_some().into(), page.unwrap_or(0), high, low, 0];
        Self::new("INQUIRY", CommandKind::Ask, &cdb)
    }

    pub(super) fn read_block_limits() -> Self {
        Self::new("READ BLOCK LIMITS", CommandKind::Ask, &[0x05, 0, 0, 0, 0, 0])
    }

    /// Header and block descriptor, without a page.
    pub(super) fn mode_sense(length: u8) -> Self {
        Self::new("MODE SENSE", CommandKind::Ask, &[0x1a, 0, 0, 0, length, 0])
    }

    pub(super) fn mode_select(length: u8) -> Self {
        Self::new("MODE SELECT", CommandKind::Ask, &[0x15, 0x10, 0, 0, length, 0])
    }

    pub(super) fn rewind() -> Self {
        Self::new("REWIND", CommandKind::Wind, &[0x01, 0, 0, 0, 0, 0])
    }

    pub(super) fn load(is_load: bool) -> Self {
        let name = if is_load { "LOAD" } else { "UNLOAD" };
        Self::new(name, CommandKind::Load, &[0x1b, 0, 0, 0, is_load.into(), 0])
    }

    pub(super) fn prevent_removal(is_prevented: bool) -> Self {
        Self::new("PREVENT ALLOW MEDIUM REMOVAL", CommandKind::Ask, &[0x1e, 0, 0, 0, is_prevented.into(), 0])
    }

    /// Reads one block of at most `length` bytes.
    pub(super) fn read(length: u32) -> Self {
        let [_, a, b, c] = length.to_be_bytes();
        Self::new("READ", CommandKind::Transfer, &[0x08, 0, a, b, c, 0])
    }

    /// Writes one block.
    pub(super) fn write(length: u32) -> Self {
        let [_, a, b, c] = length.to_be_bytes();
        Self::new("WRITE", CommandKind::Transfer, &[0x0a, 0, a, b, c, 0])
    }

    /// Writes marks and makes all before them durable; 0 marks only do the second.
    pub(super) fn write_filemarks(count: u32, is_immediate: bool) -> Self {
        let [_, a, b, c] = count.to_be_bytes();
        let kind = if is_immediate { CommandKind::Transfer } else { CommandKind::Synchronize };
        Self::new("WRITE FILEMARKS", kind, &[0x10, is_immediate.into(), a, b, c, 0])
    }

    /// Passes over `count` blocks (code 0) or marks (code 1); goes to the end of the data (code 3).
    pub(super) fn space(code: u8, count: i64) -> Self {
        let [.., a, b, c] = count.to_be_bytes();
        Self::new("SPACE", CommandKind::Wind, &[0x11, code, a, b, c, 0])
    }

    pub(super) fn locate_10(block: u32) -> Self {
        let [a, b, c, d] = block.to_be_bytes();
        Self::new("LOCATE(10)", CommandKind::Wind, &[0x2b, 0, 0, a, b, c, d, 0, 0, 0])
    }

    pub(super) fn locate_16(block: u64) -> Self {
        let mut cdb = [0; 16];
        cdb[0] = 0x92;
        cdb[4..12].copy_from_slice(&block.to_be_bytes());
        Self::new("LOCATE(16)", CommandKind::Wind, &cdb)
    }

    /// The short form: 20 bytes.
    pub(super) fn read_position() -> Self {
        Self::new("READ POSITION", CommandKind::Ask, &[0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Attributes of the medium from `first` on.
    pub(super) fn read_attribute(first: u16, length: u32) -> Self {
        let mut cdb = [0; 16];
        cdb[0] = 0x8c;
        cdb[8..10].copy_from_slice(&first.to_be_bytes());
        cdb[10..14].copy_from_slice(&length.to_be_bytes());
        Self::new("READ ATTRIBUTE", CommandKind::Ask, &cdb)
    }

    /// The cumulative values of a log page.
    pub(super) fn log_sense(page: u8, length: u16) -> Self {
        let [high, low] = length.to_be_bytes();
        Self::new("LOG SENSE", CommandKind::Ask, &[0x4d, 0, 0x40 | page, 0, 0, 0, 0, high, low, 0])
    }

    /// Elements of type `code` from address `first` on, with bar codes, and the identity of drives if `with_identity`.
    pub(super) fn read_element_status(code: u8, first: u16, count: u16, with_identity: bool) -> Self {
        let [first_high, first_low] = first.to_be_bytes();
        let [high, low] = count.to_be_bytes();
        let [_, a, b, c] = super::element::STATUS_BYTES_MAX.to_be_bytes();
        let cdb = [
            READ_ELEMENT_STATUS,
            0x10 | code,
            first_high,
            first_low,
            high,
            low,
            with_identity.into(),
            a,
            b,
            c,
            0,
            0,
        ];
        Self::new("READ ELEMENT STATUS", CommandKind::Exchange, &cdb)
    }

    pub(super) fn move_medium(arm: u16, from: u16, to: u16) -> Self {
        let mut cdb = [0; 12];
        cdb[0] = 0xa5;
        cdb[2..4].copy_from_slice(&arm.to_be_bytes());
        cdb[4..6].copy_from_slice(&from.to_be_bytes());
        cdb[6..8].copy_from_slice(&to.to_be_bytes());
        Self::new("MOVE MEDIUM", CommandKind::Exchange, &cdb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_laid_out_as_the_standard_says() {
        assert_eq!(Command::read(0x01_02_03).bytes(), [0x08, 0, 1, 2, 3, 0]);
        assert_eq!(Command::space(0, -2).bytes(), [0x11, 0, 0xff, 0xff, 0xfe, 0]);
        assert_eq!(Command::locate_10(0x01020304).bytes(), [0x2b, 0, 0, 1, 2, 3, 4, 0, 0, 0]);
        let long = Command::locate_16(0x0102_0304_0506);
        assert_eq!(long.bytes(), [0x92, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0]);
        assert_eq!(Command::move_medium(1, 1000, 500).bytes()[2..8], [0, 1, 0x03, 0xe8, 0x01, 0xf4]);
        assert_eq!(Command::write_filemarks(0, false).kind(), CommandKind::Synchronize);
    }
}
