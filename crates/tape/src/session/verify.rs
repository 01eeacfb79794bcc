//! The steps of a session that verifies a volume: files are read and compared with the catalogue, and go nowhere.

use super::{Bay, FLUSH_FILES, Head, Session, Step};
use crate::{
    copier::{Disk, stopping},
    fault::Fault,
    label_io::{self, TapeFile},
};
use wire::control::{Blame, DamagedFile, FilesVerified, TapePhase, TapeWork, VerifyFile};

/// Damaged files in a row after which it is the volume that cannot be read, or the drive that cannot read.
const DAMAGED_IN_A_ROW_MAX: usize = 10;

/// The damage that a session has found.
#[derive(Debug, Default)]
pub(super) struct Verification {
    /// Not reported yet.
    damaged: Vec<DamagedFile>,
    in_a_row: usize,
    /// Tape files since the last report.
    files: usize,
}

impl<H: Head, D: Disk> Session<'_, H, D> {
    pub(super) fn verify(&mut self, index: usize) -> Result<Step, Fault> {
        let orders = self.orders;
        let TapeWork::Verify { files } = &orders.work else { return Ok(Step::Done) };
        let Some(file) = files.get(index) else {
            if let Some(last) = files.last() {
                self.report_verified(last.fseq + 1)?;
            }
            return Ok(Step::Done);
        };
        // A tape file counts when all that lies in it was read.
        if index > 0 && files[index - 1].fseq != file.fseq {
            self.verification.files += 1;
            if self.verification.files >= FLUSH_FILES {
                self.report_verified(file.fseq)?;
            }
        }
        match self.verify_file(file) {
            Ok(()) => self.verification.in_a_row = 0,
            Err(fault) if fault.blame == Blame::Volume => self.note_damage(file, fault)?,
            Err(fault) => {
                self.report_verified(file.fseq)?;
                return Err(fault);
            }
        }
        Ok(Step::Verify(index + 1))
    }

    fn verify_file(&mut self, file: &VerifyFile) -> Result<(), Fault> {
        let on_tape = TapeFile {
            vid: self.orders.vid.clone(),
            fseq: file.fseq,
            file_id: file.file,
            block: file.block,
            size: file.size,
            checksums: file.checksums,
        };
        let bundle = &mut self.bundle;
        let Bay { drive, activity, stop, .. } = &mut *self.bay;
        activity.phase(TapePhase::Transferring);
        let mut counted = |block: &[u8]| {
            activity.transferred(block.len());
            if stop.is_set() { Err(stopping()) } else { Ok(()) }
        };
        // Files without data are not seen.
        counted(&[]).map_err(Fault::system)?;
        label_io::read_copy(drive, (&on_tape, file.member), bundle, &mut counted)
    }

    fn note_damage(&mut self, file: &VerifyFile, fault: Fault) -> Result<(), Fault> {
        let offset = file.member.map_or(0, |member| member.offset);
        let failure = fault.failure.clone();
        self.verification.damaged.push(DamagedFile { fseq: file.fseq, offset, failure });
        self.verification.in_a_row += 1;
        if self.verification.in_a_row < DAMAGED_IN_A_ROW_MAX {
            return Ok(());
        }
        self.report_verified(file.fseq)?;
        Err(fault)
    }

    fn report_verified(&mut self, next_fseq: u32) -> Result<(), Fault> {
        self.verification.files = 0;
        let damaged = std::mem::take(&mut self.verification.damaged);
        let verified = FilesVerified { session: self.orders.id, next_fseq, damaged };
        self.bay.report(&verified).map_err(Fault::system)
    }
}
