//! VOL1: the label of a volume (`spec/tape.md` §2.1).

use super::fields::{FieldReader, FieldWriter, Label, LabelError, Text};
use base::Vid;

/// Checksum that the drive appends to every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockProtection {
    /// None.
    Off,
    /// Reed-Solomon CRC (ECMA-319).
    ReedSolomon,
    /// CRC-32C.
    Crc32c,
}

/// The first block of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vol1 {
    /// Volume serial number: the volume id.
    pub vsn: Vid,
    /// Who owns the volume.
    pub owner: Text<14>,
    /// Logical block protection.
    pub protection: BlockProtection,
}

impl Vol1 {
    /// The 80 bytes on the medium.
    #[must_use]
    pub fn encode(&self) -> Label {
        let protection = match self.protection {
            BlockProtection::Off => "00",
            BlockProtection::ReedSolomon => "01",
            BlockProtection::Crc32c => "02",
        };
        FieldWriter::new("VOL1")
            .text(self.vsn.as_str(), 6)
            .spaces(1 + 13 + 13)
            .text(self.owner.as_str(), 14)
            .spaces(26)
            .text(protection, 2)
            .text("3", 1)
            .finish()
    }

    /// Takes a block apart that should be VOL1.
    pub fn decode(block: &[u8]) -> Result<Self, LabelError> {
        let (mut fields, _) = FieldReader::new(block, &["VOL1"], "VOL1")?;
        let vsn = fields.vsn()?;
        fields.spaces("accessibility", 1)?;
        fields.spaces("reserved", 13)?;
        fields.spaces("implementation", 13)?;
        let owner = fields.text("owner")?;
        fields.spaces("reserved", 26)?;
        let protection = match fields.raw("LBP method", 2)? {
            "  " | "00" => BlockProtection::Off,
            "01" => BlockProtection::ReedSolomon,
            "02" => BlockProtection::Crc32c,
            other => return Err(fields.refuse("LBP method", other.as_bytes(), "two spaces, 00, 01 or 02")),
        };
        fields.constant("label standard", "3")?;
        Ok(Self { vsn, owner, protection })
    }
}
