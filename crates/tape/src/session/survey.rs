//! The steps of a session that surveys a volume: it reads file after file and reports them in groups, so that a later session
//! goes on where this one was interrupted.

use super::{Bay, FLUSH_FILES, Head, Session, Step};
use crate::{
    copier::{Disk, stopping},
    drive::TapeDrive,
    fault::Fault,
    label_io::{self, Found},
};
use base::limits::TAPE_FLUSH_BYTES;
use tracing::warn;
use wire::{
    control::{AppendPoint, FILES_FOUND_LEN_MAX, FilesFound, FoundFile, TapePhase, TapeWork, VolumeSurveyed},
    media::bundle::MEMBERS_MAX,
};

/// What is reported holds fewer than so many files, or those and one bundle.
const _: () = assert!(FLUSH_FILES + MEMBERS_MAX <= FILES_FOUND_LEN_MAX);

/// The files that a survey has found.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Not reported yet.
    found: Vec<FoundFile>,
    /// Bytes of these.
    found_bytes: u64,
    /// Bytes of all files of the session.
    read_bytes: u64,
}

impl<H: Head, D: Disk> Session<'_, H, D> {
    pub(super) fn begin_survey(&mut self) -> Result<Step, Fault> {
        self.bay.activity.phase(TapePhase::CheckingLabel);
        if self.end.fseq == 1 {
            // All of it is read, and counted, anew.
            self.used_bytes = 0;
        }
        if label_io::begin_survey(&mut self.bay.drive, &self.orders.vid, self.end)? {
            return Ok(Step::Survey);
        }
        self.report_end(None)
    }

    /// Reads what lies at the end of what is known.
    pub(super) fn survey(&mut self) -> Result<Step, Fault> {
        let TapeWork::Survey { bytes_max, .. } = self.orders.work else { return Ok(Step::Done) };
        let Bay { drive, activity, stop, .. } = &mut *self.bay;
        let mut seen = |bytes: usize| {
            activity.transferred(bytes);
            if stop.is_set() { Err(stopping()) } else { Ok(()) }
        };
        // Files without data are not seen.
        seen(0).map_err(Fault::system)?;
        let files = match label_io::next_file(drive, &self.orders.vid, self.end, &mut seen)? {
            Found::Files(files) => files,
            Found::End { has_leftover } => {
                self.report_found()?;
                return self.report_end(Some(AppendPoint { may_have_leftover: has_leftover, ..self.end }));
            }
        };
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        if let Some(last) = files.last() {
            self.end = AppendPoint { fseq: last.fseq + 1, block: last.end_block, ..self.end };
        }
        self.survey.found_bytes += bytes;
        self.survey.read_bytes += bytes;
        self.used_bytes += bytes;
        self.survey.found.extend(files);
        let is_over = self.survey.read_bytes >= bytes_max;
        if is_over || self.survey.found.len() >= FLUSH_FILES || self.survey.found_bytes >= TAPE_FLUSH_BYTES {
            self.report_found()?;
        }
        Ok(if is_over { Step::Done } else { Step::Survey })
    }

    fn report_found(&mut self) -> Result<(), Fault> {
        if self.survey.found.is_empty() {
            return Ok(());
        }
        let files = std::mem::take(&mut self.survey.found);
        self.survey.found_bytes = 0;
        // A tape server that was killed before its flush leaves files that can be read and are not durable. The head
        // takes what is found for safe copies, so they are made durable before it hears of them.
        self.on_volume(TapeDrive::flush)?;
        let used_bytes = self.used_bytes()?;
        let found = FilesFound { session: self.orders.id, files, used_bytes };
        self.bay.report(&found).map_err(Fault::system)
    }

    fn report_end(&mut self, end: Option<AppendPoint>) -> Result<Step, Fault> {
        let used_bytes = self.used_bytes()?;
        let surveyed = VolumeSurveyed { session: self.orders.id, end, used_bytes };
        self.bay.report(&surveyed).map_err(Fault::system)?;
        Ok(Step::Done)
    }

    /// After a fault: files that were read before it are good.
    pub(super) fn save_found(&mut self) {
        if let Err(fault) = self.report_found() {
            warn!(session = %self.orders.id, cause = %fault, "files found before the fault must be read again");
        }
    }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
