//! One tape session: a volume, a drive, and what to do with it, as a state machine.
//!
//! ```text
//! Load ─► CheckLabel ─► SeekEnd ─► Archive(0) ─► Archive(1) ─► … ─► Flush ─► Done
//!   │          └──────► Recall(0) ─► Recall(1) ─► … ─► Done         │  ▲
//!   ├─► Label ─► Done                                 Archive(i) ◄──┘──┘
//!   └─► BeginSurvey ─► Survey ─► Survey ─► … ─► Done
//! ```
//!
//! A file that fails for its own or the disk's reasons is reported, and the session goes on. A fault of the volume or
//! the drive ends it. Copies are reported after a flush and never before, recalled files after the disk server has
//! committed them.

mod archive;
mod report;
mod small_files;
mod survey;
mod verify;

use crate::{
    activity::Activity,
    copier::{self, Disk},
    drive::TapeDrive,
    fault::Fault,
    label_io::{self, OpenBundle, Relabel, TapeFile},
    loading::{self, Robot},
    watchdog::{Watchdog, WatchedDrive},
};
use base::{Millis, RequestId, Result};
use client::{Control, Stop};
use std::sync::Arc;
use tracing::{info, warn};
use wire::{
    control::{
        AppendPoint, Blame, Call, EndTapeSession, FileRecalled, RecallFile, RequestFailed, TapePhase,
        TapeSession, TapeWork,
    },
    media::label::LabelDate,
};

/// Tape files written between flushes: what CTA does.
const FLUSH_FILES: usize = 200;
/// Faults of disk servers in a row after which a session gives up: they may all be gone.
const SYSTEM_FAULTS_MAX: u32 = 3;

/// The head, as the tape room sees it.
pub trait Head: Send + Sync + 'static {
    /// Makes a call; a pending reply may be held back for `wait`.
    fn call<C: Call>(&self, call: &C, wait: Millis) -> Result<C::Reply>;
}

impl Head for Control {
    fn call<C: Call>(&self, call: &C, wait: Millis) -> Result<C::Reply> {
        self.call_waiting(call, wait)
    }
}

/// What goes into the labels, and how files are blocked.
#[derive(Debug, Clone)]
pub struct LabelStyle {
    /// Site.
    pub site: String,
    /// Host.
    pub host: String,
    /// Bytes of a data block.
    pub block_bytes: u32,
    /// Tells the day.
    pub today: fn() -> LabelDate,
}

/// A drive and all that its sessions need.
pub(crate) struct Bay<H, D> {
    pub(crate) drive: WatchedDrive,
    pub(crate) watchdog: Watchdog,
    pub(crate) robot: Robot,
    pub(crate) head: Arc<H>,
    pub(crate) disk: Arc<D>,
    pub(crate) style: LabelStyle,
    pub(crate) activity: Activity,
    pub(crate) stop: Stop,
}

/// The next step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Load,
    Label,
    CheckLabel,
    SeekEnd,
    Archive(usize),
    /// Flush and report, then go on with this file.
    Flush(usize),
    Recall(usize),
    Verify(usize),
    BeginSurvey,
    /// Read the file that lies at the end of what is known.
    Survey,
    Done,
}

struct Session<'a, H, D> {
    bay: &'a mut Bay<H, D>,
    orders: &'a TapeSession,
    loads: u32,
    /// Where the next file goes, or lies.
    end: AppendPoint,
    pending: archive::Pending,
    /// The bundle of which a file was read last.
    bundle: Option<OpenBundle>,
    survey: survey::Survey,
    verification: verify::Verification,
    /// Something that the catalogue does not know may lie behind `end`.
    is_dirty: bool,
    is_nearly_full: bool,
    system_faults: u32,
    /// Bytes of the cartridge that are used, if the drive does not tell.
    used_bytes: u64,
}

/// Runs a session to its end and reports that.
pub(crate) fn run<H: Head, D: Disk>(bay: &mut Bay<H, D>, orders: &TapeSession) {
    bay.activity.begin(orders.id);
    let end = match &orders.work {
        TapeWork::Archive { append, .. } => *append,
        TapeWork::Survey { from, .. } => *from,
        _ => AppendPoint { fseq: 1, block: label_io::FIRST_FILE_BLOCK, may_have_leftover: true },
    };
    let mut session = Session {
        bay,
        orders,
        loads: 0,
        end,
        pending: archive::Pending::default(),
        bundle: None,
        survey: survey::Survey::default(),
        verification: verify::Verification::default(),
        is_dirty: matches!(&orders.work, TapeWork::Archive { append, .. } if append.may_have_leftover),
        is_nearly_full: false,
        system_faults: 0,
        used_bytes: orders.used_bytes,
    };
    let trouble = session.run();
    let (drive, vid) = (session.bay.drive.name(), &orders.vid);
    match &trouble {
        None => info!(session = %orders.id, %drive, %vid, "tape session done"),
        Some(fault) => {
            warn!(session = %orders.id, %drive, %vid, blame = ?fault.blame, cause = %fault, "tape session ended early");
        }
    }
    let trouble = trouble.map(|fault| (fault.blame, fault.failure));
    let over = EndTapeSession { session: orders.id, loads: session.loads, trouble };
    if let Err(failure) = session.bay.report(&over) {
        // The head notices when the drive asks for the next one.
        warn!(session = %orders.id, cause = %failure, "could not report the end of a tape session to the head");
    }
    session.bay.activity.end();
}

impl<H: Head, D: Disk> Session<'_, H, D> {
    /// Goes from step to step; returns what ended it early.
    fn run(&mut self) -> Option<Fault> {
        let mut step = Step::Load;
        let fault = loop {
            match self.take(step) {
                Ok(Step::Done) => break None,
                Ok(next) => step = next,
                Err(fault) => break Some(fault),
            }
        };
        match fault {
            None => self.close_end().err(),
            Some(fault) => {
                self.save_pending();
                self.save_found();
                Some(fault)
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<Step, Fault> {
        match step {
            Step::Load => self.load(),
            Step::Label => self.label(),
            Step::CheckLabel => self.check_label(),
            Step::SeekEnd => self.seek_end(),
            Step::Archive(index) => self.archive(index),
            Step::Flush(index) => self.flush(index),
            Step::Recall(index) => self.recall(index),
            Step::Verify(index) => self.verify(index),
            Step::BeginSurvey => self.begin_survey(),
            Step::Survey => self.survey(),
            Step::Done => Ok(Step::Done),
        }
    }

    fn load(&mut self) -> Result<Step, Fault> {
        let Bay { robot, drive, watchdog, .. } = &mut *self.bay;
        self.loads = loading::load(robot, drive, watchdog, &self.orders.vid)?;
        Ok(match self.orders.work {
            TapeWork::Label => Step::Label,
            TapeWork::Survey { .. } => Step::BeginSurvey,
            _ => Step::CheckLabel,
        })
    }

    fn label(&mut self) -> Result<Step, Fault> {
        self.bay.activity.phase(TapePhase::Transferring);
        let today = (self.bay.style.today)();
        label_io::label_volume(&mut self.bay.drive, &self.orders.vid, Relabel::Refuse, today)?;
        Ok(Step::Done)
    }

    fn check_label(&mut self) -> Result<Step, Fault> {
        self.bay.activity.phase(TapePhase::CheckingLabel);
        label_io::check_label(&mut self.bay.drive, &self.orders.vid)?;
        Ok(match self.orders.work {
            TapeWork::Recall { .. } => Step::Recall(0),
            TapeWork::Verify { .. } => Step::Verify(0),
            _ => Step::SeekEnd,
        })
    }

    fn seek_end(&mut self) -> Result<Step, Fault> {
        self.bay.activity.phase(TapePhase::Locating);
        label_io::seek_append(&mut self.bay.drive, &self.orders.vid, self.end)?;
        Ok(Step::Archive(0))
    }

    /// Asks something of the drive; what fails names the volume.
    fn on_volume<T>(&mut self, call: impl FnOnce(&mut WatchedDrive) -> Result<T>) -> Result<T, Fault> {
        let vid = &self.orders.vid;
        call(&mut self.bay.drive)
            .map_err(|failure| Fault::of_drive(failure.during(format_args!("volume {vid}"))))
    }

    /// Bytes of the cartridge that are used: as the drive says, or as the catalogue knew and was added since.
    fn used_bytes(&mut self) -> Result<u64, Fault> {
        let capacity = self.on_volume(TapeDrive::capacity)?;
        Ok(capacity.map_or(self.used_bytes, |capacity| capacity.used_bytes))
    }

    fn recall(&mut self, index: usize) -> Result<Step, Fault> {
        let orders = self.orders;
        let TapeWork::Recall { files } = &orders.work else {
            return Ok(Step::Done);
        };
        let Some(file) = files.get(index) else {
            return Ok(Step::Done);
        };
        self.bay.activity.file(file.request);
        self.bay.activity.phase(TapePhase::Locating);
        match self.recall_file(file) {
            Ok(()) => {
                self.system_faults = 0;
                let recalled = FileRecalled { session: orders.id, request: file.request };
                self.bay.report(&recalled).map_err(Fault::system)?;
            }
            Err(fault) => self.file_failed(file.request, fault)?,
        }
        Ok(Step::Recall(index + 1))
    }

    fn recall_file(&mut self, file: &RecallFile) -> Result<(), Fault> {
        let on_tape = TapeFile {
            vid: self.orders.vid.clone(),
            fseq: file.fseq,
            file_id: file.file,
            block: file.block,
            size: file.size,
            checksums: file.checksums,
        };
        let bundle = &mut self.bundle;
        let Bay { drive, disk, activity, stop, .. } = &mut *self.bay;
        copier::to_disk(disk.as_ref(), &file.sink, stop, |sink| {
            let mut counted = |block: &[u8]| sink(block).inspect(|()| activity.transferred(block.len()));
            label_io::read_copy(drive, (&on_tape, file.member), bundle, &mut counted)
        })
    }

    /// Reports a file that failed, and decides whether the session goes on.
    fn file_failed(&mut self, request: RequestId, fault: Fault) -> Result<(), Fault> {
        if self.bay.stop.is_set() {
            // Not the file's fault; the head puts back what is not reported.
            return Err(fault);
        }
        let Fault { blame, failure } = fault.clone();
        let failed = RequestFailed { session: self.orders.id, request, blame, failure };
        self.bay.report(&failed).map_err(Fault::system)?;
        self.system_faults = if blame == Blame::System { self.system_faults + 1 } else { 0 };
        let goes_on = match blame {
            Blame::File => true,
            Blame::System => self.system_faults < SYSTEM_FAULTS_MAX,
            Blame::Volume | Blame::Drive => false,
        };
        if goes_on { Ok(()) } else { Err(fault) }
    }
}

#[cfg(test)]
mod bundle_tests;
#[cfg(test)]
mod scsi_tests;
#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
