//! All six labels of one file: made together, checked together (`spec/tape.md` §3.2).

use super::{
    Hdr1, Hdr2, LabelDate, LabelName, Side, Uhl1,
    fields::{Label, LabelError, Text},
    headers::{BLOCKS_MODULUS, SEQUENCE_MODULUS},
};
use base::{ErrorKind, Failure, FileId, Vid};

/// What wrote a file: notes in the labels, never compared when the file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Program and version.
    pub system: Text<13>,
    /// Site.
    pub site: Text<8>,
    /// Host.
    pub host: Text<10>,
    /// Vendor of the drive.
    pub vendor: Text<8>,
    /// Model of the drive.
    pub model: Text<8>,
    /// Serial number of the drive.
    pub serial: Text<12>,
}

/// What the labels of one file say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLabels {
    /// The volume.
    pub vid: Vid,
    /// File sequence number on the volume, from 1.
    pub fseq: u32,
    /// The file of the namespace.
    pub file_id: FileId,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A label that is well formed and not the one of this file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Not a label, or damaged.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// A field that says something else.
    #[error("label {label} says {field} {found}, expected {expected}")]
    Field {
        /// The label.
        label: &'static str,
        /// The field.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
}

impl From<Mismatch> for Failure {
    fn from(error: Mismatch) -> Self {
        Self::new(ErrorKind::Corrupt, error.to_string())
    }
}

impl FileLabels {
    /// HDR1, HDR2, UHL1.
    #[must_use]
    pub fn headers(&self, created: LabelDate, writer: &Writer) -> [Label; 3] {
        self.labels(Side::Header, 0, created, writer)
    }

    /// EOF1, EOF2, UTL1 behind `blocks` data blocks.
    #[must_use]
    pub fn trailers(&self, blocks: u64, created: LabelDate, writer: &Writer) -> [Label; 3] {
        self.labels(Side::Trailer, blocks, created, writer)
    }

    fn labels(&self, side: Side, blocks: u64, created: LabelDate, writer: &Writer) -> [Label; 3] {
        let hdr1 = Hdr1 {
            side,
            file: LabelName::File(self.file_id),
            vsn: self.vid.clone(),
            sequence: self.fseq % SEQUENCE_MODULUS,
            created,
            expires: created,
            blocks: (blocks % BLOCKS_MODULUS) as u32,
            system: writer.system.clone(),
        };
        let uhl1 = Uhl1 {
            side,
            fseq: self.fseq,
            block_bytes: self.block_bytes,
            record_bytes: self.block_bytes,
            site: writer.site.clone(),
            host: writer.host.clone(),
            vendor: writer.vendor.clone(),
            model: writer.model.clone(),
            serial: writer.serial.clone(),
        };
        [hdr1.encode(), Hdr2::new(side, self.block_bytes, false).encode(), uhl1.encode()]
    }

    /// Checks label `index` (0 to 2) of one side against what this file's must say.
    ///
    /// `blocks` is the number of data blocks that were read; it is 0 on the header side.
    pub fn check(&self, side: Side, index: usize, block: &[u8], blocks: u64) -> Result<(), Mismatch> {
        match index {
            0 => self.check_hdr1(side, block, blocks),
            1 => self.check_hdr2(side, block),
            _ => self.check_uhl1(side, block),
        }
    }

    fn check_hdr1(&self, side: Side, block: &[u8], blocks: u64) -> Result<(), Mismatch> {
        let found = Hdr1::decode(block)?;
        let label = if side == Side::Header { "HDR1" } else { "EOF1" };
        same(label, "side", format!("{:?}", found.side), format!("{side:?}"))?;
        same(label, "VSN", found.vsn.to_string(), self.vid.to_string())?;
        same(label, "file sequence", found.sequence, self.fseq % SEQUENCE_MODULUS)?;
        let id = match found.file {
            LabelName::Prelabel => "PRELABEL".to_owned(),
            LabelName::File(id) => id.to_string(),
        };
        same(label, "file id", id, self.file_id.to_string())?;
        same(label, "block count", u64::from(found.blocks), blocks % BLOCKS_MODULUS)
    }

    fn check_hdr2(&self, side: Side, block: &[u8]) -> Result<(), Mismatch> {
        let found = Hdr2::decode(block)?;
        let expected = Hdr2::new(side, self.block_bytes, found.is_compressed);
        let label = if side == Side::Header { "HDR2" } else { "EOF2" };
        same(label, "side", format!("{:?}", found.side), format!("{side:?}"))?;
        same(label, "block length", found.block_bytes, expected.block_bytes)
    }

    fn check_uhl1(&self, side: Side, block: &[u8]) -> Result<(), Mismatch> {
        let found = Uhl1::decode(block)?;
        let label = if side == Side::Header { "UHL1" } else { "UTL1" };
        same(label, "side", format!("{:?}", found.side), format!("{side:?}"))?;
        same(label, "file sequence", found.fseq, self.fseq)?;
        same(label, "block size", found.block_bytes, self.block_bytes)?;
        same(label, "record length", found.record_bytes, self.block_bytes)
    }
}

fn same<T: PartialEq + ToString>(
    label: &'static str,
    field: &'static str,
    found: T,
    expected: T,
) -> Result<(), Mismatch> {
    if found == expected {
        return Ok(());
    }
    Err(Mismatch::Field { label, field, found: found.to_string(), expected: expected.to_string() })
}
