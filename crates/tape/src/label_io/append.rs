//! Appends a file behind the known end of a volume.

use super::{
    Appended, FIRST_FILE_BLOCK, LABELS, OBJECTS_AROUND_DATA, Style, TapeFile, context::LabelContext,
    volume::check_label,
};
use crate::{
    drive::{Read, TapeDrive, Written},
    fault::Fault,
};
use base::{Checksums, Failure, Result, Vid};
use wire::{
    control::AppendPoint,
    media::{
        awstape::BLOCK_BYTES_MAX,
        label::{FileLabels, Hdr1, LABEL_BYTES, LabelName, Side, Uhl1},
    },
};

/// Moves to where the next file goes and checks that it is the right position (§3.4).
///
/// What must lie before it is the trailer of the file before; what may lie behind it, only `point` knows.
pub fn seek_append(drive: &mut dyn TapeDrive, vid: &Vid, point: AppendPoint) -> Result<(), Fault> {
    let context = LabelContext::file(drive, vid, point.fseq);
    check_before(drive, &context, point)?;
    if point.may_have_leftover {
        return Ok(());
    }
    if !is_free(drive, &context, point.block)? {
        let failure = Failure::corrupt(format!(
            "{context}: found data at block {}, expected the end of the data",
            point.block
        ));
        return Err(Fault::volume(failure.hint("the volume holds files that the catalogue does not know")));
    }
    context.locate(drive, point.block)
}

/// Checks what lies before a position where a file may begin: the label of the volume, or the trailer of the file before.
pub(super) fn check_before(
    drive: &mut dyn TapeDrive,
    context: &LabelContext,
    point: AppendPoint,
) -> Result<(), Fault> {
    let is_first = point.fseq == 1;
    let block_min = if is_first { FIRST_FILE_BLOCK } else { FIRST_FILE_BLOCK + OBJECTS_AROUND_DATA };
    if point.fseq == 0 || point.block < block_min || is_first && point.block != FIRST_FILE_BLOCK {
        let failure = Failure::internal(format!("{context}: it cannot begin at block {}", point.block));
        return Err(Fault::system(failure.hint("the catalogue's end of this volume is wrong")));
    }
    if is_first {
        check_label(drive, &context.vid).map(drop)
    } else {
        check_end_of_previous(drive, context, point)
    }
}

/// Checks UTL1 and the mark that end the file before; the position is then the append point.
fn check_end_of_previous(
    drive: &mut dyn TapeDrive,
    context: &LabelContext,
    point: AppendPoint,
) -> Result<(), Fault> {
    context.locate(drive, point.block - 2)?;
    let mut block = Vec::new();
    context.expect_block(drive, &mut block, "UTL1 of the file before")?;
    let label = Uhl1::decode(&block).map_err(|error| context.mismatch(&error.to_string()))?;
    if (label.side, label.fseq) != (Side::Trailer, point.fseq - 1) {
        let found = format!("{:?} of file {}", label.side, label.fseq);
        return Err(
            context.mismatch(&format!("found {found}, expected the trailer of file {}", point.fseq - 1))
        );
    }
    context.expect_mark(drive, "the mark behind the file before")
}

/// Whether no file lies from object `block` on: nothing, a closing mark (§3.5), or the HDR1 of an empty volume and its
/// mark (§3.1), or part of it.
pub(super) fn is_free(drive: &mut dyn TapeDrive, context: &LabelContext, block: u64) -> Result<bool, Fault> {
    context.locate(drive, block)?;
    let mut label = Vec::new();
    let mut read = |label: &mut Vec<u8>| {
        drive.read_block(label).map_err(|failure| Fault::of_drive(failure.during(context)))
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
    let context = LabelContext::volume(drive, vid);
    context.locate(drive, block)?;
    let closed = drive.write_filemarks(1).and_then(|_| drive.flush());
    closed.map_err(|failure| Fault::of_drive(failure.during(&context)))
}

/// Writes `file` at the position, which [`seek_append`] or the file before has reached (§3.2).
///
/// `source` fills the start of its buffer and says how much; 0 is the end. The trailer is written only if size and
/// checksums are those of the catalogue, so a file with a trailer is a good one. After a failure the position is
/// somewhere in the file, and [`TapeDrive::locate`] of `file.block` makes the position free for the next.
pub fn append_file(
    drive: &mut dyn TapeDrive,
    file: &TapeFile,
    style: &Style,
    source: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<Appended, Fault> {
    let context = LabelContext::file(drive, &file.vid, file.fseq);
    let labels = file.labels(style.block_bytes);
    let mut open = OpenFile::begin(drive, &context, (&labels, file.block), style)?;
    let mut block = vec![0; style.block_bytes as usize];
    let (mut size, mut checksums) = (0u64, Checksums::EMPTY);
    loop {
        let filled = fill(&mut block, source)?;
        size += filled as u64;
        if filled == 0 || size > file.size {
            break;
        }
        checksums = checksums.extend(&block[..filled]);
        open.block(&block[..filled])?;
    }
    let source_differs =
        |failure: Failure| Fault::of_disk(failure.hint("the replica on disk is not the file"));
    context.compare_file(file, size, checksums, "source").map_err(source_differs)?;
    open.end()
}

/// A file whose headers are written.
pub(super) struct OpenFile<'a> {
    pen: LabelWriter<'a>,
    labels: &'a FileLabels,
    style: &'a Style,
    /// Of its first label.
    first: u64,
    blocks: u64,
}

impl<'a> OpenFile<'a> {
    /// Writes the headers at object `first`, where the drive must stand.
    pub(super) fn begin(
        drive: &'a mut dyn TapeDrive,
        context: &'a LabelContext,
        (labels, first): (&'a FileLabels, u64),
        style: &'a Style,
    ) -> Result<Self, Fault> {
        let block_bytes = style.block_bytes as usize;
        if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Err(Fault::system(Failure::invalid(format!(
                "{context}: blocks cannot have {block_bytes} bytes"
            ))));
        }
        let position = drive.position().map_err(|failure| context.of_drive(failure))?.block;
        if position != first {
            let what =
                format!("{context}: it is to begin at block {first}, and the drive stands at {position}");
            return Err(Fault::system(Failure::internal(what)));
        }
        let mut pen = LabelWriter { drive, context, is_nearly_full: false };
        pen.labels(&labels.headers(style.today, &style.writer))?;
        pen.mark()?;
        Ok(Self { pen, labels, style, first, blocks: 0 })
    }

    /// Writes a block of data.
    pub(super) fn block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.blocks += 1;
        self.pen.block(block)
    }

    /// Writes the trailers: from here on the file is whole.
    pub(super) fn end(self) -> Result<Appended, Fault> {
        let Self { mut pen, labels, style, first, blocks } = self;
        pen.mark()?;
        pen.labels(&labels.trailers(blocks, style.today, &style.writer))?;
        pen.mark()?;
        let LabelWriter { drive, context, is_nearly_full } = pen;
        let end_block = first + OBJECTS_AROUND_DATA + blocks;
        let position = drive.position().map_err(|failure| context.of_drive(failure))?.block;
        if position != end_block {
            let what =
                format!("{context}: it should end at block {end_block}, and the drive stands at {position}");
            return Err(Fault { blame: wire::control::Blame::Drive, failure: Failure::corrupt(what) });
        }
        Ok(Appended { end_block, blocks, is_nearly_full })
    }
}

/// Fills `block` from `source`, less only at the end of the file.
pub(super) fn fill(
    block: &mut [u8],
    source: &mut dyn FnMut(&mut [u8]) -> Result<usize>,
) -> Result<usize, Fault> {
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
    pub(super) drive: &'a mut dyn TapeDrive,
    context: &'a LabelContext,
    pub(super) is_nearly_full: bool,
}

impl LabelWriter<'_> {
    pub(super) fn block(&mut self, block: &[u8]) -> Result<(), Fault> {
        let written = self.drive.write_block(block);
        self.note(written)
    }

    pub(super) fn labels(&mut self, labels: &[[u8; LABEL_BYTES]; LABELS]) -> Result<(), Fault> {
        labels.iter().try_for_each(|label| self.block(label))
    }

    pub(super) fn mark(&mut self) -> Result<(), Fault> {
        let written = self.drive.write_filemarks(1);
        self.note(written)
    }

    fn note(&mut self, written: Result<Written>) -> Result<(), Fault> {
        let written = written.map_err(|failure| Fault::of_drive(failure.during(self.context)))?;
        self.is_nearly_full |= written == Written::EarlyWarning;
        Ok(())
    }
}
