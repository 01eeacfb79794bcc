//! Sense data: what a device says about a command that did not simply succeed.

use std::fmt;

/// The kind of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenseKey {
    /// Nothing is wrong; flags say what is to be noted.
    NoSense,
    /// It worked, after retries.
    Recovered,
    /// The device is not ready.
    NotReady,
    /// The medium is at fault.
    Medium,
    /// The device is at fault.
    Hardware,
    /// The command is not understood or makes no sense now.
    IllegalRequest,
    /// Something happened since the last command.
    UnitAttention,
    /// The medium must not be written, or not be read: it is encrypted.
    DataProtect,
    /// Nothing was ever written here.
    BlankCheck,
    /// The device gave the command up.
    Aborted,
    /// The medium is full.
    VolumeOverflow,
    /// Another one.
    Other(u8),
}

impl SenseKey {
    fn from_byte(byte: u8) -> Self {
        match byte & 0x0f {
            0x0 => Self::NoSense,
            0x1 => Self::Recovered,
            0x2 => Self::NotReady,
            0x3 => Self::Medium,
            0x4 => Self::Hardware,
            0x5 => Self::IllegalRequest,
            0x6 => Self::UnitAttention,
            0x7 => Self::DataProtect,
            0x8 => Self::BlankCheck,
            0xb => Self::Aborted,
            0xd => Self::VolumeOverflow,
            other => Self::Other(other),
        }
    }

    /// The number in sense data.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::NoSense => 0x0,
            Self::Recovered => 0x1,
            Self::NotReady => 0x2,
            Self::Medium => 0x3,
            Self::Hardware => 0x4,
            Self::IllegalRequest => 0x5,
            Self::UnitAttention => 0x6,
            Self::DataProtect => 0x7,
            Self::BlankCheck => 0x8,
            Self::Aborted => 0xb,
            Self::VolumeOverflow => 0xd,
            Self::Other(byte) => byte,
        }
    }
}

impl fmt::Display for SenseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSense => "no error",
            Self::Recovered => "recovered error",
            Self::NotReady => "not ready",
            Self::Medium => "medium error",
            Self::Hardware => "hardware error",
            Self::IllegalRequest => "illegal request",
            Self::UnitAttention => "unit attention",
            Self::DataProtect => "data protected",
            Self::BlankCheck => "blank medium",
            Self::Aborted => "command aborted",
            Self::VolumeOverflow => "end of medium",
            Self::Other(_) => "unknown error",
        })
    }
}

/// Sense data, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    /// The kind.
    pub key: SenseKey,
    /// Additional sense code and its qualifier.
    pub code: (u8, u8),
    /// They are about an earlier command; the one that was answered has not been carried out.
    pub is_deferred: bool,
    /// A mark was met.
    pub filemark: bool,
    /// The end of the medium is near, or the beginning was met.
    pub end_of_medium: bool,
    /// The block has another length than the one asked for.
    pub incorrect_length: bool,
    /// What was not done, in the unit of the command; negative: more than that.
    pub information: Option<i64>,
}

impl Sense {
    /// Sense data with nothing but a key and a code.
    #[must_use]
    pub const fn new(key: SenseKey, code: (u8, u8)) -> Self {
        Self {
            key,
            code,
            is_deferred: false,
            filemark: false,
            end_of_medium: false,
            incorrect_length: false,
            information: None,
        }
    }

    /// Decodes sense data in fixed or in descriptor format; `None` if they are neither.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? & 0x7f {
            code @ (0x70 | 0x71) => Self::decode_fixed(bytes, code == 0x71),
            code @ (0x72 | 0x73) => Self::decode_descriptors(bytes, code == 0x73),
            _ => None,
        }
    }

    fn decode_fixed(bytes: &[u8], is_deferred: bool) -> Option<Self> {
        let flags = *bytes.get(2)?;
        let code = (bytes.get(12).copied().unwrap_or(0), bytes.get(13).copied().unwrap_or(0));
        let is_valid = bytes[0] & 0x80 != 0;
        let information = be_32(bytes, 3).filter(|_| is_valid).map(|value| i64::from(value as i32));
        Some(Self {
            is_deferred,
            filemark: flags & 0x80 != 0,
            end_of_medium: flags & 0x40 != 0,
            incorrect_length: flags & 0x20 != 0,
            information,
            ..Self::new(SenseKey::from_byte(flags), code)
        })
    }

    fn decode_descriptors(bytes: &[u8], is_deferred: bool) -> Option<Self> {
        let key = SenseKey::from_byte(*bytes.get(1)?);
        let code = (*bytes.get(2)?, *bytes.get(3)?);
        let mut sense = Self { is_deferred, ..Self::new(key, code) };
        let mut rest = bytes.get(8..).unwrap_or_default();
        while let [kind, length, ..] = *rest {
            let end = rest.len().min(usize::from(length) + 2);
            sense.take_descriptor(kind, &rest[..end]);
            rest = &rest[end..];
        }
        Some(sense)
    }

    fn take_descriptor(&mut self, kind: u8, descriptor: &[u8]) {
        match kind {
            // Information.
            0x00 if descriptor.get(2).is_some_and(|flags| flags & 0x80 != 0) => {
                let value = descriptor.get(4..12).and_then(|bytes| bytes.try_into().ok());
                self.information = value.map(i64::from_be_bytes);
            }
            // Stream commands.
            0x04 => {
                let flags = descriptor.get(3).copied().unwrap_or(0);
                self.filemark = flags & 0x80 != 0;
                self.end_of_medium = flags & 0x40 != 0;
                self.incorrect_length = flags & 0x20 != 0;
            }
            _ => {}
        }
    }

    /// Writes them in fixed format, as the emulation answers.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 18];
        bytes[0] = if self.is_deferred { 0x71 } else { 0x70 };
        bytes[2] = self.key.byte()
            | u8::from(self.filemark) << 7
            | u8::from(self.end_of_medium) << 6
            | u8::from(self.incorrect_length) << 5;
        if let Some(information) = self.information {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&(information as i32).to_be_bytes());
        }
        bytes[7] = 10;
        (bytes[12], bytes[13]) = self.code;
        bytes
    }

    /// What was not done of `count`. Devices give it with either sign where the count was negative.
    #[must_use]
    pub fn residual(&self, count: u64) -> u64 {
        self.information.unwrap_or(0).unsigned_abs().min(count)
    }

    /// Whether the device has forgotten its position, or has another medium now: it was reset, or the medium was changed.
    #[must_use]
    pub fn is_position_lost(&self) -> bool {
        self.key == SenseKey::UnitAttention && matches!(self.code.0, 0x28 | 0x29)
    }

    /// Whether the medium must not be written, and can be read: its switch is set, or it is of a kind that this drive only reads. An
    /// encrypted medium without a key has the same sense key.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        self.key == SenseKey::DataProtect
            && matches!(self.code, (0x27, _) | (0x30, 0x05 | 0x0c) | (0x5a, 0x02))
    }

    /// Whether the device does not know the command, or a field of it.
    #[must_use]
    pub fn is_not_offered(&self) -> bool {
        self.key == SenseKey::IllegalRequest && matches!(self.code.0, 0x20 | 0x24 | 0x26)
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asc, ascq) = self.code;
        write!(f, "{}", self.key)?;
        if self.is_deferred {
            f.write_str(" of an earlier command")?;
        }
        if let Some(meaning) = meaning(self.code) {
            write!(f, ", {meaning}")?;
        }
        write!(f, " (sense {:X}/{asc:02X}/{ascq:02X})", self.key.byte())
    }
}

fn be_32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The words of the standard for codes that drives and changers use: code, qualifier or any, meaning. The first that fits counts.
const MEANINGS: [(u8, Option<u8>, &str); 68] = [
    (0x00, Some(0x01), "filemark detected"),
    (0x00, Some(0x02), "end of partition detected"),
    (0x00, Some(0x04), "beginning of partition detected"),
    (0x00, Some(0x05), "end of data detected"),
    (0x04, Some(0x01), "becoming ready"),
    (0x04, Some(0x02), "initializing command required"),
    (0x04, Some(0x03), "manual intervention required"),
    (0x04, Some(0x07), "operation in progress"),
    (0x04, Some(0x12), "offline"),
    (0x04, None, "logical unit not ready"),
    (0x08, None, "communication failure"),
    (0x09, None, "track following error"),
    (0x0c, Some(0x00), "write error"),
    (0x0c, None, "write error, recovery failed"),
    (0x11, Some(0x00), "unrecovered read error"),
    (0x11, None, "read error"),
    (0x14, Some(0x00), "recorded entity not found"),
    (0x14, Some(0x03), "end of data not found"),
    (0x15, Some(0x01), "mechanical positioning error"),
    (0x15, None, "positioning error"),
    (0x17, None, "data recovered with retries"),
    (0x18, None, "data recovered with retries"),
    (0x1a, None, "parameter list length error"),
    (0x20, None, "invalid command"),
    (0x21, Some(0x01), "invalid element address"),
    (0x24, None, "invalid field in the command"),
    (0x25, None, "logical unit not supported"),
    (0x26, None, "invalid field in the parameters"),
    (0x27, None, "write-protected"),
    (0x28, Some(0x01), "import or export element accessed"),
    (0x28, None, "medium may have changed"),
    (0x29, None, "power on or reset"),
    (0x2a, None, "parameters changed"),
    (0x30, Some(0x03), "cleaning cartridge installed"),
    (0x30, Some(0x05), "cannot write medium, incompatible format"),
    (0x30, Some(0x07), "cleaning failed"),
    (0x30, Some(0x0c), "WORM medium, overwrite attempted"),
    (0x30, None, "incompatible medium"),
    (0x31, None, "medium format corrupted"),
    (0x33, None, "tape length error"),
    (0x3a, None, "medium not present"),
    (0x3b, Some(0x00), "sequential positioning error"),
    (0x3b, Some(0x0d), "destination element is full"),
    (0x3b, Some(0x0e), "source element is empty"),
    (0x3b, Some(0x11), "magazine not accessible"),
    (0x3b, Some(0x12), "magazine removed"),
    (0x3b, Some(0xa0), "medium transport element is full"),
    (0x3b, None, "positioning error"),
    (0x3e, None, "logical unit failure"),
    (0x3f, None, "operating conditions changed"),
    (0x40, None, "diagnostic failure"),
    (0x44, None, "internal failure"),
    (0x47, None, "data transfer error"),
    (0x4b, None, "data transfer error"),
    (0x50, None, "append error"),
    (0x51, None, "erase failure"),
    (0x52, None, "cartridge fault"),
    (0x53, Some(0x00), "load or eject failed"),
    (0x53, Some(0x01), "unload failed"),
    (0x53, Some(0x02), "medium removal prevented"),
    (0x53, Some(0x03), "medium removal prevented by the data transfer element"),
    (0x53, None, "load or eject failed"),
    (0x5a, Some(0x02), "operator selected write protect"),
    (0x5a, None, "operator request"),
    (0x5d, None, "failure predicted"),
    (0x74, Some(0x01), "unable to decrypt data"),
    (0x74, None, "security error"),
    (0x83, None, "vendor's code"),
];

fn meaning((asc, ascq): (u8, u8)) -> Option<&'static str> {
    let fits = |known: &&(u8, Option<u8>, &str)| known.0 == asc && known.1.is_none_or(|known| known == ascq);
    MEANINGS.iter().find(fits).map(|(_, _, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_name_key_and_code() {
        let sense = Sense::new(SenseKey::Medium, (0x11, 0x00));
        assert_eq!(sense.to_string(), "medium error, unrecovered read error (sense 3/11/00)");
        let sense = Sense::new(SenseKey::DataProtect, (0x27, 0x00));
        assert_eq!(sense.to_string(), "data protected, write-protected (sense 7/27/00)");
        let sense = Sense { is_deferred: true, ..Sense::new(SenseKey::Hardware, (0x99, 0x01)) };
        assert_eq!(sense.to_string(), "hardware error of an earlier command (sense 4/99/01)");
    }

    #[test]
    fn descriptor_format_says_the_same() {
        let mut bytes = vec![0x72, 0x00, 0x00, 0x01, 0, 0, 0, 16];
        bytes.extend([0x00, 0x0a, 0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        bytes.extend([0x04, 0x02, 0, 0x80]);
        let sense = Sense::decode(&bytes).unwrap();
        assert_eq!((sense.filemark, sense.information, sense.residual(5)), (true, Some(-2), 2));
        assert_eq!(sense.code, (0, 1));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Sense::decode(&bytes).map(|sense| sense.to_string());
        }

        #[test]
        fn what_is_encoded_is_decoded(key in 0u8..16, asc: u8, ascq: u8, flags: [bool; 4],
            information in prop::option::of(any::<i32>())) {
            let sense = Sense {
                is_deferred: flags[0], filemark: flags[1], end_of_medium: flags[2], incorrect_length: flags[3],
                information: information.map(i64::from),
                ..Sense::new(SenseKey::from_byte(key), (asc, ascq))
            };
            prop_assert_eq!(Sense::decode(&sense.encode()), Some(sense));
        }
    }
}
