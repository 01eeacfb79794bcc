//! Surveys a volume: reads the files of an unknown volume one by one, by their labels (`spec/tape.md` §3.6).

use super::{Data, FIRST_FILE_BLOCK, LABELS, LabelContext, check_before, check_label};
use crate::{
    drive::{Read, TapeDrive},
    fault::Fault,
};
use base::{FileId, Result, Vid};
use wire::{
    control::{AppendPoint, FoundFile, TapeMember},
    media::{
        bundle,
        label::{FileLabels, Hdr1, LabelName, Side},
    },
};

/// The label or data found where a file may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A whole tape file; several files if it is a bundle. The position is behind it.
    Files(Vec<FoundFile>),
    /// No file, or one that is not whole; nothing lies behind it.
    End {
        /// Whether an append was interrupted here: what it left is written over by the next.
        has_leftover: bool,
    },
}

/// Why a file could not be read to its end.
enum Truncation {
    /// The data of the tape end in it.
    Torn,
    /// The labels are not those of a file.
    Fault(Fault),
}

impl From<Fault> for Truncation {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Checks what lies before `from`. False for a medium that is blank: without even a label.
pub fn begin_survey(drive: &mut dyn TapeDrive, vid: &Vid, from: AppendPoint) -> Result<bool, Fault> {
    if from.fseq == 1 {
        let context = LabelContext::volume(drive, vid);
        drive.rewind().map_err(|failure| context.of_drive(failure))?;
        let first = drive.read_block(&mut Vec::new());
        if first.map_err(|failure| Fault::of_drive(failure.during(&context)))? == Read::End {
            return Ok(false);
        }
    } else {
        check_label(drive, vid)?;
    }
    let context = LabelContext::file(drive, vid, from.fseq);
    check_before(drive, &context, from)?;
    Ok(true)
}

/// Reads what lies at `point` to its end. `seen` is told of every block of data, and can end it.
///
/// A file counts if its trailers say what its headers do, with the number of blocks that were read. What is no file, and no
/// end of a volume either, is a fault of the volume.
pub fn next_file(
    drive: &mut dyn TapeDrive,
    vid: &Vid,
    point: AppendPoint,
    seen: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Found, Fault> {
    let context = LabelContext::file(drive, vid, point.fseq);
    context.locate(drive, point.block)?;
    let mut reader = Reader { drive, context: &context };
    let mut first = Vec::new();
    let outcome = match reader.object(&mut first)? {
        Some(Read::Block(_)) => reader.file(point, first, seen),
        // The closing mark (§3.5), or nothing at all.
        Some(_) => reader
            .end("the closing mark")
            .map(|()| Found::End { has_leftover: false })
            .map_err(Truncation::Fault),
        None => Ok(Found::End { has_leftover: false }),
    };
    match outcome {
        Ok(found) => Ok(found),
        Err(Truncation::Torn) => Ok(Found::End { has_leftover: true }),
        Err(Truncation::Fault(fault)) => Err(fault),
    }
}

struct Reader<'a> {
    drive: &'a mut dyn TapeDrive,
    context: &'a LabelContext,
}

impl Reader<'_> {
    /// Reads the file whose first block was read, or the label of a volume without files.
    fn file(
        &mut self,
        point: AppendPoint,
        first: Vec<u8>,
        seen: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Found, Truncation> {
        let hdr1 = Hdr1::decode(&first).map_err(|error| self.context.mismatch(&error.to_string()))?;
        let LabelName::File(file) = hdr1.file else { return Ok(self.prelabel(point, &hdr1)?) };
        let labels = self.headers(point, file, first)?;
        let mut bundle = bundle::number_of(file).map(|_| bundle::Scanner::default());
        let data = self.data(labels.block_bytes, bundle.as_mut(), seen)?;
        let trailers = [self.label()?, self.label()?, self.label()?];
        self.context.check_labels(&labels, Side::Trailer, data.blocks, &trailers)?;
        self.mark("the mark behind the trailers")?;
        let end_block = self.drive.position().map_err(|failure| self.context.of_drive(failure))?.block;
        let AppendPoint { fseq, block, .. } = point;
        let (size, checksums, created) = (data.size, data.checksums, hdr1.created.begins());
        let whole = FoundFile { file, fseq, block, end_block, size, checksums, created, member: None };
        let Some(bundle) = bundle else { return Ok(Found::Files(vec![whole])) };
        let members = bundle.finish().map_err(|error| self.context.mismatch(&error.to_string()))?;
        if members.is_empty() {
            return Err(self.context.mismatch("a bundle without files").into());
        }
        Ok(Found::Files(members.into_iter().map(|member| in_bundle(&whole, &member)).collect()))
    }

    /// The label of a volume without files (§3.1) stands at its beginning, and nothing but a mark behind it.
    fn prelabel(&mut self, point: AppendPoint, hdr1: &Hdr1) -> Result<Found, Fault> {
        let context = self.context;
        if point.block != FIRST_FILE_BLOCK || hdr1.side != Side::Header || hdr1.vsn != context.vid {
            let what = format!("found PRELABEL of volume {} at block {}", hdr1.vsn, point.block);
            return Err(context.mismatch(&format!("{what}, expected a file or the end of the data")));
        }
        match self.object(&mut Vec::new())? {
            Some(Read::Block(length)) => Err(context
                .mismatch(&format!("found a block of {length} bytes, expected the mark behind PRELABEL"))),
            Some(_) => self.end("PRELABEL").map(|()| Found::End { has_leftover: false }),
            None => Ok(Found::End { has_leftover: false }),
        }
    }

    /// Reads HDR2 and UHL1, checks all three and goes to the data.
    fn headers(
        &mut self,
        point: AppendPoint,
        file_id: FileId,
        first: Vec<u8>,
    ) -> Result<FileLabels, Truncation> {
        let context = self.context;
        let vid = context.vid.clone();
        let mut labels = FileLabels { vid, fseq: point.fseq, file_id, block_bytes: 0 };
        // Before the next is read: what is torn must be known to be a file of this volume.
        let checked = labels.check(Side::Header, 0, &first, 0);
        checked.map_err(|mismatch| context.mismatch(&mismatch.to_string()))?;
        let headers: [Vec<u8>; LABELS] = [first, self.label()?, self.label()?];
        labels.block_bytes = context.block_bytes(&headers)?;
        context.check_labels(&labels, Side::Header, 0, &headers)?;
        self.mark("the mark behind the headers")?;
        Ok(labels)
    }

    /// Reads the data and the mark behind them.
    fn data(
        &mut self,
        block_bytes: u32,
        mut bundle: Option<&mut bundle::Scanner>,
        seen: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Data, Truncation> {
        let mut data = Data::new(block_bytes as usize);
        let mut block = Vec::with_capacity(data.block_bytes);
        while let Read::Block(length) = self.object(&mut block)?.ok_or(Truncation::Torn)? {
            data.add(self.context, &block)?;
            if let Some(bundle) = &mut bundle {
                bundle.push(&block).map_err(|error| self.context.mismatch(&error.to_string()))?;
            }
            seen(length).map_err(Fault::system)?;
        }
        Ok(data)
    }

    /// Reads an object; `None` is the end of the data.
    fn object(&mut self, block: &mut Vec<u8>) -> Result<Option<Read>, Fault> {
        let read = self.drive.read_block(block);
        let read = read.map_err(|failure| Fault::of_drive(failure.during(self.context)))?;
        Ok((read != Read::End).then_some(read))
    }

    fn label(&mut self) -> Result<Vec<u8>, Truncation> {
        let mut label = Vec::new();
        match self.object(&mut label)?.ok_or(Truncation::Torn)? {
            Read::Block(_) => Ok(label),
            _ => Err(self.context.mismatch("found a tape mark, expected a label").into()),
        }
    }

    fn mark(&mut self, expected: &str) -> Result<(), Truncation> {
        match self.object(&mut Vec::new())?.ok_or(Truncation::Torn)? {
            Read::Block(length) => {
                let what = format!("found a block of {length} bytes, expected {expected}");
                Err(self.context.mismatch(&what).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that nothing lies behind `what`.
    fn end(&mut self, what: &str) -> Result<(), Fault> {
        match self.object(&mut Vec::new())? {
            None => Ok(()),
            Some(_) => Err(self.context.mismatch(&format!("data lie behind {what}, expected their end"))),
        }
    }
}

/// A file of a bundle, which was found as a whole.
fn in_bundle(bundle: &FoundFile, member: &bundle::Member) -> FoundFile {
    let place = TapeMember { bundle: bundle.file, offset: member.offset };
    let (file, size, checksums) = (member.file, member.size, member.checksums);
    FoundFile { file, size, checksums, member: Some(place), ..bundle.clone() }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
