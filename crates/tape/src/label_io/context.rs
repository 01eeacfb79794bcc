//! Where a drive stands on a volume: blocks, marks and labels are read, and failures say where.

use super::{LABELS, TapeFile};
use crate::{
    drive::{Read, TapeDrive},
    fault::Fault,
};
use base::{Checksums, Failure, Result, Vid, units::counted};
use std::fmt;
use wire::media::{
    awstape::BLOCK_BYTES_MAX,
    label::{FileLabels, Side, Uhl1},
};

/// The volume, drive and file that failures name.
pub(super) struct LabelContext {
    pub(super) vid: Vid,
    pub(super) fseq: Option<u32>,
    pub(super) drive: String,
}

impl fmt::Display for LabelContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}", self.vid)?;
        if let Some(fseq) = self.fseq {
            write!(f, " file {fseq}")?;
        }
        write!(f, " (drive {})", self.drive)
    }
}

impl LabelContext {
    pub(super) fn volume(drive: &dyn TapeDrive, vid: &Vid) -> Self {
        Self { vid: vid.clone(), fseq: None, drive: drive.name().to_owned() }
    }

    pub(super) fn file(drive: &dyn TapeDrive, vid: &Vid, fseq: u32) -> Self {
        Self { fseq: Some(fseq), ..Self::volume(drive, vid) }
    }

    /// The fault for what the drive said, which then names the volume.
    pub(super) fn of_drive(&self, failure: Failure) -> Fault {
        Fault::of_drive(failure.during(self))
    }

    pub(super) fn mismatch(&self, what: &str) -> Fault {
        let failure = Failure::corrupt(format!("{self}: {what}"));
        Fault::volume(failure.hint("the volume differs from the catalogue; disable it and check it"))
    }

    /// The size of the data blocks, which only UHL1 gives in full.
    pub(super) fn block_bytes(&self, headers: &[Vec<u8>; LABELS]) -> Result<u32, Fault> {
        let label = Uhl1::decode(&headers[2]).map_err(|error| self.mismatch(&error.to_string()))?;
        if (1..=BLOCK_BYTES_MAX).contains(&(label.block_bytes as usize)) {
            return Ok(label.block_bytes);
        }
        Err(self.mismatch(&format!("label UHL1 says block size {}, which cannot be", label.block_bytes)))
    }

    pub(super) fn locate(&self, drive: &mut dyn TapeDrive, block: u64) -> Result<(), Fault> {
        drive.locate(block).map_err(|failure| Fault::of_drive(failure.during(self)))
    }

    /// Reads an object; the end of the data is a mismatch.
    pub(super) fn read(
        &self,
        drive: &mut dyn TapeDrive,
        block: &mut Vec<u8>,
        expected: &str,
    ) -> Result<Read, Fault> {
        match drive.read_block(block).map_err(|failure| Fault::of_drive(failure.during(self)))? {
            Read::End => Err(self.mismatch(&format!("the data end, expected {expected}"))),
            read => Ok(read),
        }
    }

    pub(super) fn expect_block(
        &self,
        drive: &mut dyn TapeDrive,
        block: &mut Vec<u8>,
        expected: &str,
    ) -> Result<(), Fault> {
        match self.read(drive, block, expected)? {
            Read::Block(_) => Ok(()),
            _ => Err(self.mismatch(&format!("found a tape mark, expected {expected}"))),
        }
    }

    pub(super) fn expect_mark(&self, drive: &mut dyn TapeDrive, expected: &str) -> Result<(), Fault> {
        match self.read(drive, &mut Vec::new(), expected)? {
            Read::Block(length) => {
                Err(self.mismatch(&format!("found a block of {length} bytes, expected {expected}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn read_labels(&self, drive: &mut dyn TapeDrive) -> Result<[Vec<u8>; LABELS], Fault> {
        let mut labels: [Vec<u8>; LABELS] = Default::default();
        for label in &mut labels {
            self.expect_block(drive, label, "a label")?;
        }
        Ok(labels)
    }

    pub(super) fn check_labels(
        &self,
        expected: &FileLabels,
        side: Side,
        blocks: u64,
        found: &[Vec<u8>; LABELS],
    ) -> Result<(), Fault> {
        for (index, label) in found.iter().enumerate() {
            let checked = expected.check(side, index, label, blocks);
            checked.map_err(|mismatch| self.mismatch(&mismatch.to_string()))?;
        }
        Ok(())
    }

    pub(super) fn compare_file(
        &self,
        file: &TapeFile,
        size: u64,
        checksums: Checksums,
        whose: &str,
    ) -> Result<()> {
        if size != file.size {
            let more = if size > file.size { "at least " } else { "" };
            let found = format!(
                "{self}: {whose} has {more}{}, expected {}",
                counted(size, "byte", "bytes"),
                file.size
            );
            return Err(Failure::corrupt(found));
        }
        if checksums != file.checksums {
            let (found, expected) = (checksums, file.checksums);
            return Err(Failure::corrupt(format!(
                "{self}: {whose} has {:?} {:?}, expected {:?} {:?}",
                found.adler32, found.crc32c, expected.adler32, expected.crc32c
            )));
        }
        Ok(())
    }
}
