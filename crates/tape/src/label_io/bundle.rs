//! Bundles: small files written as one tape file, and read alone by position (`spec/tape.md` §6).

use super::{Appended, LabelContext, Style, TapeFile, append::OpenFile, read_file};
use crate::{
    drive::{Read, TapeDrive},
    fault::Fault,
};
use base::{Checksums, Failure, FileId, Result, Vid};
use wire::{
    control::TapeMember,
    media::{
        bundle::{END, INDEX_NAME, MEMBERS_MAX, Member, encode_index, header, padding},
        label::{FileLabels, Side},
    },
};

/// Objects before the data of a tape file: three labels and a mark.
const OBJECTS_BEFORE_DATA: u64 = 4;

/// A bundle to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The volume.
    pub vid: Vid,
    /// File sequence number on the volume.
    pub fseq: u32,
    /// What the labels call it.
    pub label: FileId,
    /// Logical block of its HDR1.
    pub block: u64,
}

/// A small file, with all its bytes, which were compared with the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallFile {
    /// The file.
    pub file: FileId,
    /// Its path without the first slash.
    pub path: String,
    /// Seconds since 1970.
    pub modified: u64,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Of these.
    pub checksums: Checksums,
}

/// Writes a bundle of the files that `next` gives at the position. `None`: there was no file, and nothing is written.
///
/// As with [`append_file`](super::append_file), what has a trailer is whole, and after a failure the position is somewhere in it.
pub fn append_bundle(
    drive: &mut dyn TapeDrive,
    bundle: &Bundle,
    style: &Style,
    next: &mut dyn FnMut() -> Option<SmallFile>,
) -> Result<Option<(Appended, Vec<TapeMember>)>, Fault> {
    let Some(mut file) = next() else { return Ok(None) };
    let context = LabelContext::file(drive, &bundle.vid, bundle.fseq);
    let (vid, fseq, block_bytes) = (bundle.vid.clone(), bundle.fseq, style.block_bytes);
    let labels = FileLabels { vid, fseq, file_id: bundle.label, block_bytes };
    let open = OpenFile::begin(drive, &context, (&labels, bundle.block), style)?;
    let mut out = Blocks { open, block: Vec::with_capacity(block_bytes as usize), at: 0, style };
    let mut members = Vec::new();
    loop {
        let (size, name) = (file.data.len() as u64, file.path);
        out.push(&header(&name, size, file.modified))?;
        let (offset, checksums) = (out.at, file.checksums);
        members.push(Member { file: file.file, offset, size, checksums, path: name });
        out.data(&file.data)?;
        if members.len() == MEMBERS_MAX {
            break;
        }
        let Some(another) = next() else { break };
        file = another;
    }
    let index = encode_index(&members);
    out.push(&header(INDEX_NAME, index.len() as u64, 0))?;
    out.data(&index)?;
    out.push(&END)?;
    let bundle = bundle.label;
    let members = members.into_iter().map(|member| TapeMember { bundle, offset: member.offset }).collect();
    Ok(Some((out.end()?, members)))
}

/// Collects bytes into blocks.
struct Blocks<'a> {
    open: OpenFile<'a>,
    style: &'a Style,
    block: Vec<u8>,
    /// Bytes so far.
    at: u64,
}

impl Blocks<'_> {
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        self.at += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.style.block_bytes as usize - self.block.len();
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(piece);
            bytes = rest;
            if self.block.len() == self.style.block_bytes as usize {
                self.open.block(&self.block)?;
                self.block.clear();
            }
        }
        Ok(())
    }

    /// Writes the data of a member, and zeros up to the next record.
    fn data(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.push(data)?;
        self.push(&vec![0; padding(data.len() as u64)])
    }

    fn end(mut self) -> Result<Appended, Fault> {
        if !self.block.is_empty() {
            self.open.block(&self.block)?;
        }
        self.open.end()
    }
}

/// The bundle that was read last: files of it that follow each other need no winding.
#[derive(Debug)]
pub struct OpenBundle {
    label: FileId,
    fseq: u32,
    block_bytes: u64,
    /// Of the first data.
    first: u64,
    /// The block in memory, by its number in the bundle.
    number: Option<u64>,
    block: Vec<u8>,
    /// The data block that the drive reads next.
    next: u64,
}

impl OpenBundle {
    /// Goes to the headers of the bundle that holds `file`, and compares them.
    fn open(
        drive: &mut dyn TapeDrive,
        context: &LabelContext,
        file: &TapeFile,
        label: FileId,
    ) -> Result<Self, Fault> {
        context.locate(drive, file.block)?;
        let headers = context.read_labels(drive)?;
        let block_bytes = context.block_bytes(&headers)?;
        let labels = FileLabels { vid: file.vid.clone(), fseq: file.fseq, file_id: label, block_bytes };
        context.check_labels(&labels, Side::Header, 0, &headers)?;
        context.expect_mark(drive, "the mark behind the headers")?;
        let (first, block) = (file.block + OBJECTS_BEFORE_DATA, Vec::with_capacity(block_bytes as usize));
        let (fseq, block_bytes) = (file.fseq, u64::from(block_bytes));
        Ok(Self { label, fseq, block_bytes, first, number: None, block, next: 0 })
    }

    /// Has data block `number` in memory.
    fn read(&mut self, drive: &mut dyn TapeDrive, context: &LabelContext, number: u64) -> Result<(), Fault> {
        if self.number == Some(number) {
            return Ok(());
        }
        if self.next != number {
            context.locate(drive, self.first + number)?;
        }
        self.number = None;
        match context.read(drive, &mut self.block, "data of the bundle")? {
            Read::Block(length) if length as u64 <= self.block_bytes => {}
            Read::Block(length) => {
                let (what, most) = (format!("data block {number} has {length} bytes"), self.block_bytes);
                return Err(context.mismatch(&format!("{what}, and the label says {most}")));
            }
            _ => return Err(context.mismatch(&format!("found a mark, expected data block {number}"))),
        }
        (self.number, self.next) = (Some(number), number + 1);
        Ok(())
    }
}

/// Reads a file into `sink`, and compares it with the catalogue; `member`: where it lies in a bundle. `open` is what the last call
/// left there; whoever moves the drive meanwhile sets it to `None`.
pub fn read_copy(
    drive: &mut dyn TapeDrive,
    (file, member): (&TapeFile, Option<TapeMember>),
    open: &mut Option<OpenBundle>,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), Fault> {
    if let Some(member) = member {
        return read_member(drive, (file, member), open, sink);
    }
    *open = None;
    read_file(drive, file, sink)
}

/// Reads one file of a bundle into `sink`, and compares it with the catalogue. `open` is what the last call left there; whoever
/// moves the drive meanwhile sets it to `None`.
fn read_member(
    drive: &mut dyn TapeDrive,
    (file, member): (&TapeFile, TapeMember),
    open: &mut Option<OpenBundle>,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<(), Fault> {
    let context = LabelContext::file(drive, &file.vid, file.fseq);
    let known = open.take().filter(|open| (open.fseq, open.label) == (file.fseq, member.bundle));
    let mut bundle = match known {
        Some(bundle) => bundle,
        None => OpenBundle::open(drive, &context, file, member.bundle)?,
    };
    let (mut at, end) = (member.offset, member.offset.saturating_add(file.size));
    let mut checksums = Checksums::EMPTY;
    while at < end {
        let (number, skipped) = (at / bundle.block_bytes, (at % bundle.block_bytes) as usize);
        bundle.read(drive, &context, number)?;
        let data = bundle.block.get(skipped..).unwrap_or_default();
        let data = &data[..data.len().min(usize::try_from(end - at).unwrap_or(usize::MAX))];
        if data.is_empty() {
            let length = bundle.block.len();
            return Err(
                context.mismatch(&format!("data block {number} has {length} bytes, which is too few"))
            );
        }
        checksums = checksums.extend(data);
        at += data.len() as u64;
        // A short block is the last: what it lacks would be found missing above.
        let is_torn = at < end && bundle.block.len() as u64 != bundle.block_bytes;
        if is_torn {
            return Err(context.mismatch(&format!("the bundle ends at byte {at}, inside of the file")));
        }
        sink(data).map_err(Fault::of_disk)?;
    }
    let hint = "recall another copy if there is one, and check the volume";
    let compared = context.compare_file(file, file.size, checksums, "tape");
    compared.map_err(|failure: Failure| Fault::volume(failure.hint(hint)))?;
    *open = Some(bundle);
    Ok(())
}
