//! The labels around the data of a file: HDR1/EOF1, HDR2/EOF2, UHL1/UTL1 (`spec/tape.md` §2.2 to §2.4).

use super::{
    LabelDate,
    fields::{FieldReader, FieldWriter, Label, LabelError, Text},
};
use base::{FileId, Vid};

/// Sequence numbers in HDR1 count modulo this: the field has four digits.
pub(super) const SEQUENCE_MODULUS: u32 = 10_000;
/// Block counts in EOF1 count modulo this: the field has six digits.
pub(super) const BLOCKS_MODULUS: u64 = 1_000_000;
/// Block sizes from here on are written 00000 in HDR2: the field has five digits.
const BLOCK_BYTES_SHOWN_END: u32 = 100_000;
const PRELABEL: &str = "PRELABEL";

/// Before or behind the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// HDR1, HDR2, UHL1: before the data.
    Header,
    /// EOF1, EOF2, UTL1: behind the data.
    Trailer,
}

impl Side {
    fn pick<T>(self, header: T, trailer: T) -> T {
        match self {
            Self::Header => header,
            Self::Trailer => trailer,
        }
    }
}

/// The file id field of HDR1, 17 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelName {
    /// `PRELABEL`: a volume that was labelled and holds no file yet.
    Prelabel,
    /// A file of the namespace, in upper-case hexadecimal.
    File(FileId),
}

impl LabelName {
    fn encode(self) -> String {
        match self {
            Self::Prelabel => PRELABEL.to_owned(),
            Self::File(id) => format!("{:X}", id.0),
        }
    }

    /// Only the one way of writing that we write: no leading zeros, no lower case, as CTA.
    fn decode(text: &str) -> Option<Self> {
        let text = text.trim_end_matches(' ');
        if text == PRELABEL {
            return Some(Self::Prelabel);
        }
        let name = Self::File(FileId(u64::from_str_radix(text, 16).ok()?));
        (name.encode() == text).then_some(name)
    }
}

/// HDR1, or EOF1 on the trailer side: which file this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hdr1 {
    /// HDR1 or EOF1.
    pub side: Side,
    /// The file.
    pub file: LabelName,
    /// The volume.
    pub vsn: Vid,
    /// File sequence number modulo 10,000.
    pub sequence: u32,
    /// Day of writing.
    pub created: LabelDate,
    /// Day from which the file may be overwritten; the field's habit is the day of writing.
    pub expires: LabelDate,
    /// Data blocks modulo 1,000,000; 0 in HDR1.
    pub blocks: u32,
    /// What wrote the file.
    pub system: Text<13>,
}

impl Hdr1 {
    /// The 80 bytes on the medium.
    #[must_use]
    pub fn encode(&self) -> Label {
        FieldWriter::new(self.side.pick("HDR1", "EOF1"))
            .text(&self.file.encode(), 17)
            .text(self.vsn.as_str(), 6)
            .text("0001", 4)
            .number(self.sequence % SEQUENCE_MODULUS, 4)
            .text("0001", 4)
            .text("00", 2)
            .text(&self.created.encode(), 6)
            .text(&self.expires.encode(), 6)
            .spaces(1)
            .number(self.blocks % BLOCKS_MODULUS as u32, 6)
            .text(self.system.as_str(), 13)
            .spaces(7)
            .finish()
    }

    /// Takes a block apart that should be HDR1 or EOF1.
    pub fn decode(block: &[u8]) -> Result<Self, LabelError> {
        let (mut fields, name) = FieldReader::new(block, &["HDR1", "EOF1"], "HDR1 or EOF1")?;
        let side = if name == "HDR1" { Side::Header } else { Side::Trailer };
        let id = fields.raw("file id", 17)?;
        let file = LabelName::decode(id)
            .ok_or_else(|| fields.refuse("file id", id.as_bytes(), "an upper-case hexadecimal number"))?;
        let vsn = fields.vsn()?;
        fields.constant("file section", "0001")?;
        let sequence = fields.number("file sequence", 4)?;
        fields.constant("generation", "0001")?;
        fields.constant("version", "00")?;
        let created = date(&mut fields, "creation date")?;
        let expires = date(&mut fields, "expiration date")?;
        fields.spaces("accessibility", 1)?;
        let blocks = fields.number("block count", 6)?;
        if side == Side::Header && blocks != 0 {
            return Err(fields.refuse("block count", format!("{blocks:06}").as_bytes(), "000000"));
        }
        let system = fields.text("system code")?;
        fields.spaces("reserved", 7)?;
        Ok(Self { side, file, vsn, sequence, created, expires, blocks, system })
    }
}

fn date(fields: &mut FieldReader<'_>, field: &'static str) -> Result<LabelDate, LabelError> {
    let text = fields.raw(field, 6)?;
    LabelDate::decode(text).ok_or_else(|| fields.refuse(field, text.as_bytes(), "a day cyyddd"))
}

/// HDR2, or EOF2 on the trailer side: how the data are blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hdr2 {
    /// HDR2 or EOF2.
    pub side: Side,
    /// Bytes of a block; 0 says that it is 100,000 or more and stands in UHL1.
    pub block_bytes: u32,
    /// Whether the drive compressed.
    pub is_compressed: bool,
}

impl Hdr2 {
    /// The label for blocks of `block_bytes` bytes.
    #[must_use]
    pub fn new(side: Side, block_bytes: u32, is_compressed: bool) -> Self {
        let block_bytes = if block_bytes < BLOCK_BYTES_SHOWN_END { block_bytes } else { 0 };
        Self { side, block_bytes, is_compressed }
    }

    /// The 80 bytes on the medium.
    #[must_use]
    pub fn encode(&self) -> Label {
        let shown = Self::new(self.side, self.block_bytes, self.is_compressed).block_bytes;
        FieldWriter::new(self.side.pick("HDR2", "EOF2"))
            .text("F", 1)
            .number(shown, 5)
            .number(shown, 5)
            .spaces(1 + 18)
            .text(if self.is_compressed { "P" } else { "" }, 2)
            .spaces(14)
            .text("00", 2)
            .spaces(28)
            .finish()
    }

    /// Takes a block apart that should be HDR2 or EOF2.
    pub fn decode(block: &[u8]) -> Result<Self, LabelError> {
        let (mut fields, name) = FieldReader::new(block, &["HDR2", "EOF2"], "HDR2 or EOF2")?;
        let side = if name == "HDR2" { Side::Header } else { Side::Trailer };
        fields.constant("record format", "F")?;
        let block_bytes = fields.number("block length", 5)?;
        let record_bytes = fields.number("record length", 5)?;
        if record_bytes != block_bytes {
            let found = format!("{record_bytes:05}");
            return Err(fields.refuse("record length", found.as_bytes(), "the block length"));
        }
        // The density code is the drive's own and means nothing here; CTA does not look at it either.
        fields.skip(1);
        fields.spaces("reserved", 18)?;
        let is_compressed = match fields.raw("recording technique", 2)? {
            "P " => true,
            "  " => false,
            other => return Err(fields.refuse("recording technique", other.as_bytes(), "P or spaces")),
        };
        fields.spaces("reserved", 14)?;
        fields.constant("aul", "00")?;
        fields.spaces("reserved", 28)?;
        Ok(Self { side, block_bytes, is_compressed })
    }
}

/// UHL1, or UTL1 on the trailer side: the numbers in full, and who wrote the file with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uhl1 {
    /// UHL1 or UTL1.
    pub side: Side,
    /// File sequence number.
    pub fseq: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a record; equal to the block.
    pub record_bytes: u32,
    /// Site.
    pub site: Text<8>,
    /// Host that wrote the file.
    pub host: Text<10>,
    /// Vendor of the drive.
    pub vendor: Text<8>,
    /// Model of the drive.
    pub model: Text<8>,
    /// Serial number of the drive.
    pub serial: Text<12>,
}

impl Uhl1 {
    /// The 80 bytes on the medium.
    #[must_use]
    pub fn encode(&self) -> Label {
        FieldWriter::new(self.side.pick("UHL1", "UTL1"))
            .number(self.fseq, 10)
            .number(self.block_bytes, 10)
            .number(self.record_bytes, 10)
            .text(self.site.as_str(), 8)
            .text(self.host.as_str(), 10)
            .text(self.vendor.as_str(), 8)
            .text(self.model.as_str(), 8)
            .text(self.serial.as_str(), 12)
            .finish()
    }

    /// Takes a block apart that should be UHL1 or UTL1.
    pub fn decode(block: &[u8]) -> Result<Self, LabelError> {
        let (mut fields, name) = FieldReader::new(block, &["UHL1", "UTL1"], "UHL1 or UTL1")?;
        let side = if name == "UHL1" { Side::Header } else { Side::Trailer };
        Ok(Self {
            side,
            fseq: fields.number("file sequence", 10)?,
            block_bytes: fields.number("block size", 10)?,
            record_bytes: fields.number("record length", 10)?,
            site: fields.text("site")?,
            host: fields.text("host")?,
            vendor: fields.text("vendor")?,
            model: fields.text("model")?,
            serial: fields.text("serial number")?,
        })
    }
}
