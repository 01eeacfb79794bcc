//! The steps of a session that archives: files, and bundles of small ones, are appended, flushed, and then reported.

use super::{
    Bay, FLUSH_FILES, Head, LabelStyle, Session, Step,
    small_files::{self, Gathered},
};
use crate::{
    copier::{self, Disk},
    drive::TapeDrive,
    fault::Fault,
    label_io::{self, Appended, Bundle, Style, TapeFile},
};
use base::{Failure, RequestId, limits::TAPE_FLUSH_BYTES};
use tracing::warn;
use wire::control::{
    AppendPoint, ArchiveFile, ArchivedCopy, FILES_ARCHIVED_LEN_MAX, FilesArchived, TapeMember, TapePhase,
    TapeWork,
};

/// Copies after which a flush is due, however few tape files hold them: what is written again after a failure is bounded.
const FLUSH_COPIES: usize = 20_000;

/// Written, not flushed.
#[derive(Debug, Default)]
pub(super) struct Pending {
    copies: Vec<ArchivedCopy>,
    /// Tape files that hold them.
    files: usize,
    bytes: u64,
}

impl Pending {
    fn is_due(&self) -> bool {
        self.files >= FLUSH_FILES || self.bytes >= TAPE_FLUSH_BYTES || self.copies.len() >= FLUSH_COPIES
    }

    /// As they are reported: a bundle is never divided.
    fn reports(self) -> Vec<Vec<ArchivedCopy>> {
        let mut reports: Vec<Vec<ArchivedCopy>> = Vec::new();
        for file in self.copies.chunk_by(|one, next| one.fseq == next.fseq) {
            match reports.last_mut() {
                Some(last) if last.len() + file.len() <= FILES_ARCHIVED_LEN_MAX => {
                    last.extend_from_slice(file);
                }
                _ => reports.push(file.to_vec()),
            }
        }
        reports
    }
}

impl<H: Head, D: Disk> Session<'_, H, D> {
    pub(super) fn archive(&mut self, index: usize) -> Result<Step, Fault> {
        let orders = self.orders;
        let TapeWork::Archive { files, .. } = &orders.work else {
            return Ok(Step::Done);
        };
        let Some(file) = files.get(index) else {
            return Ok(Step::Flush(index));
        };
        self.bay.activity.file(file.request);
        let mut next = index + 1;
        if file.bundle.is_some() {
            next += files[next..].iter().take_while(|other| other.bundle == file.bundle).count();
            self.archive_bundle(&files[index..next])?;
        } else if let Err(fault) = self.archive_file(file) {
            self.file_failed(file.request, fault)?;
        }
        Ok(if self.pending.is_due() || self.is_nearly_full { Step::Flush(next) } else { Step::Archive(next) })
    }

    fn archive_file(&mut self, file: &ArchiveFile) -> Result<(), Fault> {
        let AppendPoint { fseq, block, .. } = self.end;
        let on_tape = TapeFile {
            vid: self.orders.vid.clone(),
            fseq,
            file_id: file.file,
            block,
            size: file.size,
            checksums: file.checksums,
        };
        self.go_to_end()?;
        let style = self.style();
        let Bay { drive, disk, activity, stop, .. } = &mut *self.bay;
        let is_dirty = &mut self.is_dirty;
        let appended = copier::from_disk(disk.as_ref(), &file.source, stop, |source| {
            *is_dirty = true;
            let mut counted =
                |buffer: &mut [u8]| source(buffer).inspect(|bytes| activity.transferred(*bytes));
            label_io::append_file(drive, &on_tape, &style, &mut counted)
        })?;
        self.appended(appended, file.size, vec![(file.request, None)]);
        Ok(())
    }

    /// Writes small files as one tape file.
    fn archive_bundle(&mut self, files: &[ArchiveFile]) -> Result<(), Fault> {
        let Some((first, label)) = files.first().and_then(|file| Some((file, file.bundle?))) else {
            return Ok(());
        };
        let AppendPoint { fseq, block, .. } = self.end;
        let bundle = Bundle { vid: self.orders.vid.clone(), fseq, label, block };
        if let Err(fault) = self.go_to_end() {
            return self.file_failed(first.request, fault);
        }
        let style = self.style();
        let mut gathered = Gathered::default();
        let Bay { drive, disk, activity, stop, .. } = &mut *self.bay;
        let is_dirty = &mut self.is_dirty;
        let outcome = small_files::fetch(disk.as_ref(), files, stop, |next| {
            let mut counted = || {
                let file = gathered.next(files, next)?;
                *is_dirty = true;
                activity.transferred(file.data.len());
                Some(file)
            };
            label_io::append_bundle(drive, &bundle, &style, &mut counted)
        });
        match outcome {
            Ok(Some((appended, members))) => {
                let bytes = gathered.taken.iter().map(|index| files[*index].size).sum();
                let requests = gathered.taken.iter().map(|index| files[*index].request);
                self.appended(appended, bytes, requests.zip(members.into_iter().map(Some)).collect());
            }
            Ok(None) => {}
            // It is the fault of the tape, for which one file of the bundle stands.
            Err(fault) => self.file_failed(first.request, fault)?,
        }
        gathered
            .failed
            .into_iter()
            .try_for_each(|(index, fault)| self.file_failed(files[index].request, fault))
    }

    /// Notes what was written at the end, by requests.
    fn appended(&mut self, appended: Appended, bytes: u64, copies: Vec<(RequestId, Option<TapeMember>)>) {
        let AppendPoint { fseq, block, .. } = self.end;
        let end_block = appended.end_block;
        let copies = copies.into_iter();
        self.pending.copies.extend(copies.map(|(request, member)| ArchivedCopy {
            request,
            fseq,
            block,
            end_block,
            member,
        }));
        self.pending.files += 1;
        self.pending.bytes += bytes;
        self.used_bytes += bytes;
        self.end = AppendPoint { fseq: fseq + 1, block: end_block, may_have_leftover: true };
        (self.is_dirty, self.is_nearly_full, self.system_faults) = (false, appended.is_nearly_full, 0);
    }

    /// Goes back to the end of what is good, if something was written behind it.
    fn go_to_end(&mut self) -> Result<(), Fault> {
        if !self.is_dirty {
            return Ok(());
        }
        let block = self.end.block;
        self.on_volume(|drive| drive.locate(block))
    }

    fn style(&self) -> Style {
        let LabelStyle { site, host, block_bytes, today } = &self.bay.style;
        let writer = label_io::writer(&self.bay.drive, site, host);
        Style { block_bytes: *block_bytes, today: today(), writer }
    }

    pub(super) fn flush(&mut self, next: usize) -> Result<Step, Fault> {
        self.flush_pending()?;
        let TapeWork::Archive { files, .. } = &self.orders.work else {
            return Ok(Step::Done);
        };
        if self.is_nearly_full {
            let failure =
                Failure::no_space(format!("volume {} is full: the drive warned of its end", self.orders.vid));
            return Err(Fault::volume(failure));
        }
        Ok(if next < files.len() { Step::Archive(next) } else { Step::Done })
    }

    /// Makes what was written durable, and only then reports it.
    fn flush_pending(&mut self) -> Result<(), Fault> {
        if self.pending.copies.is_empty() {
            return Ok(());
        }
        self.bay.activity.phase(TapePhase::Flushing);
        let pending = std::mem::take(&mut self.pending);
        self.on_volume(TapeDrive::flush)?;
        let used_bytes = self.used_bytes()?;
        for copies in pending.reports() {
            let archived = FilesArchived { session: self.orders.id, copies, used_bytes };
            self.bay.report(&archived).map_err(Fault::system)?;
        }
        Ok(())
    }

    /// After a fault: files that were written before it are good, if the drive can still flush them.
    pub(super) fn save_pending(&mut self) {
        if let Err(fault) = self.flush_pending() {
            warn!(session = %self.orders.id, cause = %fault, "files written before the fault must be written again");
        }
    }

    /// At the end of a good session nothing may lie behind the last file, for the head takes it so.
    pub(super) fn close_end(&mut self) -> Result<(), Fault> {
        if !self.is_dirty {
            return Ok(());
        }
        label_io::close_end(&mut self.bay.drive, &self.orders.vid, self.end.block)
    }
}
