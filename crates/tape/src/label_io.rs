//! Labelled volumes and files on any drive (`spec/tape.md` §2 and §3).
//!
//! Every mismatch is a [`Fault`] whose failure names volume, file, drive, what was found and what was expected.
//! Failures of the source or the sink pass through as they are.

mod survey;

pub use survey::{Found, begin_survey, next_file};

use crate::{
    drive::{Read, TapeDrive, Written},
    fault::Fault,
};
use base::{Checksums, Failure, FileId, Result, Vid, units::counted};
use std::fmt;
use wire::{
    control::AppendPoint,
    media::{
        awstape::BLOCK_BYTES_MAX,
        label::{
            BlockProtection, FileLabels, Hdr1, LABEL_BYTES, LabelDate, LabelName, Side, Text, Uhl1, Vol1,
            Writer,
        },
    },
};

/// Logical block of the HDR1 of the first file: behind VOL1.
pub const FIRST_FILE_BLOCK: u64 = 1;
/// Labels on either side of the data.
const LABELS: usize = 3;
/// Objects around the data of a file: two times three labels and a mark, and the mark in the middle.
pub const OBJECTS_AROUND_DATA: u64 = 2 * LABELS as u64 + 3;

/// Whether a volume that has a label, or any data, may be labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relabel {
    /// Refuse: its files would be lost.
    Refuse,
    /// Do it: a person has said so.
    LoseEverything,
}

/// A file on tape, or to be written there, as the catalogue knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeFile {
    /// The volume.
    pub vid: Vid,
    /// File sequence number on the volume, from 1.
    pub fseq: u32,
    /// The file of the namespace.
    pub file_id: FileId,
    /// Logical block of its HDR1.
    pub block: u64,
    /// Bytes.
    pub size: u64,
    /// Of all its bytes.
    pub checksums: Checksums,
}

impl TapeFile {
    /// What its labels say if its data blocks have `block_bytes` bytes.
    fn labels(&self, block_bytes: u32) -> FileLabels {
        FileLabels { vid: self.vid.clone(), fseq: self.fseq, file_id: self.file_id, block_bytes }
    }
}

/// How files are written.
#[derive(Debug, Clone)]
pub struct Style {
    /// Bytes of a data block.
    pub block_bytes: u32,
    /// The day, for the labels.
    pub today: LabelDate,
    /// Who writes, for the labels.
    pub writer: Writer,
}

/// A file that was written; durable after [`TapeDrive::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Logical block behind its last mark: where the next file goes.
    pub end_block: u64,
    /// Data blocks.
    pub blocks: u64,
    /// Whether the end of the medium is near, so that no further file should be begun.
    pub is_nearly_full: bool,
}

/// Notes for the labels about who writes: `site` and `host` are made to fit.
#[must_use]
pub fn writer(drive: &dyn TapeDrive, site: &str, host: &str) -> Writer {
    let identity = drive.identity();
    Writer {
        system: system(),
        site: Text::fitted(site),
        host: Text::fitted(host),
        vendor: identity.vendor.clone(),
        model: identity.model.clone(),
        serial: identity.serial.clone(),
    }
}

/// Program and version, for the labels.
fn system() -> Text<13> {
    let version = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    Text::fitted(&format!("BACKPLANE {version}"))
}

/// Labels the volume in `drive`: VOL1, an HDR1 that says there is no file yet, a mark (§3.1). Durable on return.
///
/// A volume that holds anything but this very label, whole or in part, is refused unless `relabel` says otherwise: so
/// labelling again after an interruption works, and loses nothing.
pub fn label_volume(
    drive: &mut dyn TapeDrive,
    vid: &Vid,
    relabel: Relabel,
    today: LabelDate,
) -> Result<(), Fault> {
    let place = LabelContext::volume(drive, vid);
    drive.rewind().map_err(Fault::of_drive)?;
    if relabel == Relabel::Refuse {
        refuse_used(drive, &place)?;
    }
    drive.rewind().map_err(Fault::of_drive)?;
    let owner = Text::fitted("BACKPLANE");
    let vol1 = Vol1 { vsn: vid.clone(), owner, protection: BlockProtection::Off };
    let hdr1 = Hdr1 {
        side: Side::Header,
        file: LabelName::Prelabel,
        vsn: vid.clone(),
        sequence: 1,
        created: today,
        expires: today,
        blocks: 0,
        system: system(),
    };
    let written = drive
        .write_block(&vol1.encode())
        .and_then(|_| drive.write_block(&hdr1.encode()))
        .and_then(|_| drive.write_filemarks(1))
        .and_then(|_| drive.flush());
    written.map_err(|failure| Fault::of_drive(failure.during(&place)))
}

/// Fails unless the medium is blank or has this volume's label and nothing else.
fn refuse_used(drive: &mut dyn TapeDrive, place: &LabelContext) -> Result<(), Fault> {
    let mut block = Vec::new();
    let found = match drive
        .read_block(&mut block)
        .map_err(|failure| Fault::of_drive(failure.during(place)))?
    {
        Read::End => return Ok(()),
        Read::Mark => "a tape mark".to_owned(),
        Read::Block(_) => match Vol1::decode(&block) {
            Ok(label) if label.vsn == place.vid && is_free(drive, place, FIRST_FILE_BLOCK)? => return Ok(()),
            Ok(label) => format!("the label of volume {}", label.vsn),
            Err(_) => format!("a block of {} bytes that is no label", block.len()),
        },
    };
    let refused =
        Failure::exists(format!("{place}: it should be labelled but is not blank: it begins with {found}"));
    Err(Fault::volume(refused.hint("check its contents; only an operator may order to overwrite it")))
}

/// Checks that the volume in `drive` is `vid`, by its label; the position is then behind VOL1.
pub fn check_label(drive: &mut dyn TapeDrive, vid: &Vid) -> Result<Vol1, Fault> {
    let place = LabelContext::volume(drive, vid);
    drive.rewind().map_err(Fault::of_drive)?;
    let mut block = Vec::new();
    place.expect_block(drive, &mut block, "VOL1")?;
    let label = Vol1::decode(&block).map_err(|error| {
        let failure = Failure::from(error).hint("is the volume blank, or labelled by another system?");
        Fault::volume(failure.during(&place))
    })?;
    if label.vsn == *vid {
        return Ok(label);
    }
    let failure = Failure::corrupt(format!("{place}: label says {}, expected {vid}", label.vsn));
    Err(Fault::volume(failure.hint("compare the bar code with the inventory; two cartridges may be swapped")))
}

/// Moves to where the next file goes and checks that it is the right place (§3.4).
///
/// What must lie before it is the trailer of the file before; what may lie behind it, only `point` knows.
pub fn seek_append(drive: &mut dyn TapeDrive, vid: &Vid, point: AppendPoint) -> Result<(), Fault> {
    let place = LabelContext::file(drive, vid, point.fseq);
    check_before(drive, &place, point)?;
    if point.may_have_leftover {
        return Ok(());
    }
    if !is_free(drive, &place, point.block)? {
        let failure = Failure::corrupt(format!(
            "{place}: found data at block {}, expected the end of the data",
            point.block
        ));
        return Err(Fault::volume(failure.hint("the volume holds files that the catalogue does not know")));
    }
    place.locate(drive, point.block)
}

/// Checks what lies before a place where a file may begin: the label of the volume, or the trailer of the file before.
fn check_before(drive: &mut dyn TapeDrive, place: &LabelContext, point: AppendPoint) -> Result<(), Fault> {
    let is_first = point.fseq == 1;
    let block_min = if is_first { FIRST_FILE_BLOCK } else { FIRST_FILE_BLOCK + OBJECTS_AROUND_DATA };
    if point.fseq == 0 || point.block < block_min || is_first && point.block != FIRST_FILE_BLOCK {
        let failure = Failure::internal(format!("{place}: it cannot begin at block {}", point.block));
        return Err(Fault::system(failure.hint("the catalogue's end of this volume is wrong")));
    }
    if is_first {
        check_label(drive, &place.vid).map(drop)
    } else {
        check_end_of_previous(drive, place, point)
    }
}

/// Checks UTL1 and the mark that end the file before; the position is then the append point.
fn check_end_of_previous(
    drive: &mut dyn TapeDrive,
    place: &LabelContext,
    point: AppendPoint,
) -> Result<(), Fault> {
    place.locate(drive, point.block - 2)?;
    let mut block = Vec::new();
    place.expect_block(drive, &mut block, "UTL1 of the file before")?;
    let label = Uhl1::decode(&block).map_err(|error| place.mismatch(&error.to_string()))?;
    if (label.side, label.fseq) != (Side::Trailer, point.fseq - 1) {
        let found = format!("{:?} of file {}", label.side, label.fseq);
        return Err(
            place.mismatch(&format!("found {found}, expected the trailer of file {}", point.fseq - 1))
        );
    }
    place.expect_mark(drive, "the mark behind the file before")
}

/// Whether no file lies from object `block` on: nothing, a closing mark (§3.5), or the HDR1 of an empty volume and its
/// mark (§3.1), or part of it.
fn is_free(drive: &mut dyn TapeDrive, place: &LabelContext, block: u64) -> Result<bool, Fault> {
    place.locate(drive, block)?;
    let mut label = Vec::new();
    let mut read = |label: &mut Vec<u8>| {
        drive.read_block(label).map_err(|failure| Fault::of_drive(failure.during(place)))
    };
    let mut found = read(&mut label)?;
    if let Read::Block(_) = found {
        let name = Hdr1::decode(&label).ok().map(|label| label.file);
        if block != FIRST_FILE_BLOCK || name != Some(LabelName::Prelabel) {
            return Ok(false);
        }
        found = read(&mut label)?;
    }
    if found == Read::Mark {
        found = read(&mut label)?;
    }
    Ok(found == Read::End)
}

/// Ends the data at `block`, the append point, after an append there failed: what was begun is cut off by a mark
/// (§3.5), so that the volume is again what the catalogue believes. Durable on return.
pub fn close_end(drive: &mut dyn TapeDrive, vid: &Vid, block: u64) -> Result<(), Fault> {
    let place = LabelContext::volume(drive, vid);
    place.locate(drive, block)?;
    let closed = drive.write_filemarks(1).and_then(|_| drive.flush());
    closed.map_err(|failure| Fault::of_drive(failure.during(&place)))
}

/// Writes `file` at the position, which [`seek_append`] or the file before has reached (§3.2).
///
/// `source` fills the start of its buffer and says how much; 0 is the end. The trailer is written only if size and
/// checksums are those of the catalogue, so a file with a trailer is a good one. After a failure the position is
/// somewhere in the file, and [`TapeDrive::locate`] of `file.block` makes the place free for the next.
pub fn append_file(
    drive: &mut dyn TapeDrive,
    file: &TapeFile,
    style: &Style,
    source: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Appended, Fault> {
    let place = LabelContext::file(drive, &file.vid, file.fseq);
    let (labels, block_bytes) = (file.labels(style.block_bytes), style.block_bytes as usize);
    if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
        return Err(Fault::system(Failure::invalid(format!(
            "{place}: blocks cannot have {block_bytes} bytes"
        ))));
    }
    let position = drive.position().map_err(Fault::of_drive)?.block;
    if position != file.block {
        let what =
            format!("{place}: it is to begin at block {}, and the drive stands at {position}", file.block);
        return Err(Fault::system(Failure::internal(what)));
    }
    let mut pen = LabelWriter { drive, place: &place, is_nearly_full: false };
    pen.labels(&labels.headers(style.today, &style.writer))?;
    pen.mark()?;
    let mut block = vec![0; block_bytes];
    let (mut blocks, mut size, mut checksums) = (0, 0u64, Checksums::EMPTY);
    loop {
        let filled = fill(&mut block, source)?;
        size += filled as u64;
        if filled == 0 || size > file.size {
            break;
        }
        checksums = checksums.extend(&block[..filled]);
        pen.block(&block[..filled])?;
        blocks += 1;
    }
    let source_differs =
        |failure: Failure| Fault::of_disk(failure.hint("the replica on disk is not the file"));
    place.compare_file(file, size, checksums, "source").map_err(source_differs)?;
    pen.mark()?;
    pen.labels(&labels.trailers(blocks, style.today, &style.writer))?;
    pen.mark()?;
    let is_nearly_full = pen.is_nearly_full;
    let end_block = file.block + OBJECTS_AROUND_DATA + blocks;
    let position = drive.position().map_err(Fault::of_drive)?.block;
    if position != end_block {
        let what = format!("{place}: it should end at block {end_block}, and the drive stands at {position}");
        return Err(Fault { blame: wire::control::Blame::Drive, failure: Failure::corrupt(what) });
    }
    Ok(Appended { end_block, blocks, is_nearly_full })
}

/// Fills `block` from `source`, less only at the end of the file.
fn fill(block: &mut [u8], source: &mut dyn FnMut(&mut [u8]) -> Result<usize>) -> Result<usize, Fault> {
    let mut filled = 0;
    while filled < block.len() {
        match source(&mut block[filled..]).map_err(Fault::of_disk)? {
            0 => break,
            more => filled = (filled + more).min(block.len()),
        }
    }
    Ok(filled)
}

/// Writes objects and remembers whether the drive has warned.
struct LabelWriter<'a> {
    drive: &'a mut dyn TapeDrive,
    place: &'a LabelContext,
    is_nearly_full: bool,
}

impl LabelWriter<'_> {
    fn block(&mut self, block: &[u8]) -> Result<(), Fault> {
        let written = self.drive.write_block(block);
        self.note(written)
    }

    fn labels(&mut self, labels: &[[u8; LABEL_BYTES]; LABELS]) -> Result<(), Fault> {
        labels.iter().try_for_each(|label| self.block(label))
    }

    fn mark(&mut self) -> Result<(), Fault> {
        let written = self.drive.write_filemarks(1);
        self.note(written)
    }

    fn note(&mut self, written: Result<Written>) -> Result<(), Fault> {
        let written = written.map_err(|failure| Fault::of_drive(failure.during(self.place)))?;
        self.is_nearly_full |= written == Written::EarlyWarning;
        Ok(())
    }
}

/// Reads `file` from the volume in `drive` into `sink`, block by block, and checks everything that is said about it:
/// headers, block lengths, trailers, size, checksums.
///
/// `sink` has got bytes that may be wrong until this returns `Ok`.
pub fn read_file(
    drive: &mut dyn TapeDrive,
    file: &TapeFile,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), Fault> {
    let place = LabelContext::file(drive, &file.vid, file.fseq);
    place.locate(drive, file.block)?;
    let headers = place.read_labels(drive)?;
    let labels = file.labels(place.block_bytes(&headers)?);
    let block_bytes = labels.block_bytes as usize;
    place.check_labels(&labels, Side::Header, 0, &headers)?;
    place.expect_mark(drive, "the mark behind the headers")?;
    let mut block = Vec::with_capacity(block_bytes);
    let mut data = Data::new(block_bytes);
    while let Read::Block(_) = place.read(drive, &mut block, "data or the mark behind them")? {
        data.add(&place, &block)?;
        if data.size > file.size {
            return Err(
                place.mismatch(&format!("data continue after byte {}, where the file ends", file.size))
            );
        }
        sink(&block).map_err(Fault::of_disk)?;
    }
    let Data { blocks, size, checksums, .. } = data;
    let trailers = place.read_labels(drive)?;
    place.check_labels(&labels, Side::Trailer, blocks, &trailers)?;
    place.expect_mark(drive, "the mark behind the trailers")?;
    let hint = "recall another copy if there is one, and check the volume";
    place.compare_file(file, size, checksums, "tape").map_err(|failure| Fault::volume(failure.hint(hint)))
}

/// The data of a file, as far as they were read.
struct Data {
    /// Bytes of every block but the last.
    block_bytes: usize,
    blocks: u64,
    size: u64,
    checksums: Checksums,
    is_short: bool,
}

impl Data {
    fn new(block_bytes: usize) -> Self {
        Self { block_bytes, blocks: 0, size: 0, checksums: Checksums::EMPTY, is_short: false }
    }

    /// Takes the next block, whose length must be right.
    fn add(&mut self, place: &LabelContext, block: &[u8]) -> Result<(), Fault> {
        let (length, block_bytes, blocks) = (block.len(), self.block_bytes, self.blocks);
        if self.is_short || length > block_bytes {
            let rest = if self.is_short {
                "only the last may be shorter"
            } else {
                "which is longer than the label says"
            };
            return Err(
                place.mismatch(&format!("data block {blocks} has {length} bytes of {block_bytes}; {rest}"))
            );
        }
        self.is_short = length < block_bytes;
        self.size += length as u64;
        self.blocks += 1;
        self.checksums = self.checksums.extend(block);
        Ok(())
    }
}

/// The volume, drive and file that failures name.
struct LabelContext {
    vid: Vid,
    fseq: Option<u32>,
    drive: String,
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
    fn volume(drive: &dyn TapeDrive, vid: &Vid) -> Self {
        Self { vid: vid.clone(), fseq: None, drive: drive.name().to_owned() }
    }

    fn file(drive: &dyn TapeDrive, vid: &Vid, fseq: u32) -> Self {
        Self { fseq: Some(fseq), ..Self::volume(drive, vid) }
    }

    fn mismatch(&self, what: &str) -> Fault {
        let failure = Failure::corrupt(format!("{self}: {what}"));
        Fault::volume(failure.hint("the volume differs from the catalogue; disable it and check it"))
    }

    /// The size of the data blocks, which only UHL1 gives in full.
    fn block_bytes(&self, headers: &[Vec<u8>; LABELS]) -> Result<u32, Fault> {
        let label = Uhl1::decode(&headers[2]).map_err(|error| self.mismatch(&error.to_string()))?;
        if (1..=BLOCK_BYTES_MAX).contains(&(label.block_bytes as usize)) {
            return Ok(label.block_bytes);
        }
        Err(self.mismatch(&format!("label UHL1 says block size {}, which cannot be", label.block_bytes)))
    }

    fn locate(&self, drive: &mut dyn TapeDrive, block: u64) -> Result<(), Fault> {
        drive.locate(block).map_err(|failure| Fault::of_drive(failure.during(self)))
    }

    /// Reads an object; the end of the data is a mismatch.
    fn read(&self, drive: &mut dyn TapeDrive, block: &mut Vec<u8>, expected: &str) -> Result<Read, Fault> {
        match drive.read_block(block).map_err(|failure| Fault::of_drive(failure.during(self)))? {
            Read::End => Err(self.mismatch(&format!("the data end, expected {expected}"))),
            read => Ok(read),
        }
    }

    fn expect_block(
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

    fn expect_mark(&self, drive: &mut dyn TapeDrive, expected: &str) -> Result<(), Fault> {
        match self.read(drive, &mut Vec::new(), expected)? {
            Read::Block(length) => {
                Err(self.mismatch(&format!("found a block of {length} bytes, expected {expected}")))
            }
            _ => Ok(()),
        }
    }

    fn read_labels(&self, drive: &mut dyn TapeDrive) -> Result<[Vec<u8>; LABELS], Fault> {
        let mut labels: [Vec<u8>; LABELS] = Default::default();
        for label in &mut labels {
            self.expect_block(drive, label, "a label")?;
        }
        Ok(labels)
    }

    fn check_labels(
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

    fn compare_file(&self, file: &TapeFile, size: u64, checksums: Checksums, whose: &str) -> Result<()> {
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

#[cfg(test)]
#[path = "label_io_tests.rs"]
mod tests;
