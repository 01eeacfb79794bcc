//! The thread that watches the drives of a library, and tells the head how far their sessions are.

use crate::{
    activity::Activity,
    session::Head,
    watchdog::{Alarm, Watchdog},
};
use base::Millis;
use client::Stop;
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};
use tracing::{debug, error, warn};
use wire::control::TapePhase;

/// Interval between checks of the supervisor.
const TICK: Duration = Duration::from_secs(1);

/// Tells the supervisor that a drive's thread has ended, however that came.
pub(super) struct Exit {
    pub(super) drive: String,
    pub(super) exit: Sender<String>,
}

impl Drop for Exit {
    fn drop(&mut self) {
        // The supervisor outlives the drives; if it does not, nobody needs to know.
        let _ = self.exit.send(std::mem::take(&mut self.drive));
    }
}

/// A drive as the supervisor sees it.
pub(super) struct WatchedSession {
    pub(super) name: String,
    pub(super) watchdog: Watchdog,
    pub(super) activity: Activity,
}

pub(super) struct Supervisor<H> {
    pub(super) watched: Vec<WatchedSession>,
    pub(super) head: Arc<H>,
    pub(super) stop: Stop,
    pub(super) exits: Receiver<String>,
}

impl<H: Head> Supervisor<H> {
    pub(super) fn run(mut self) {
        while !self.watched.is_empty() {
            match self.exits.recv_timeout(TICK) {
                Ok(name) => {
                    self.watched.retain(|drive| drive.name != name);
                    if !self.stop.is_set() {
                        error!(drive = %name, "the thread of a tape drive ended unexpectedly; restart the tape server");
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.watched.iter().for_each(|drive| self.look_at(drive)),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look_at(&self, drive: &WatchedSession) {
        match drive.watchdog.check(Instant::now()) {
            Some(Alarm::Stuck { operation, since }) => {
                let seconds = since.as_secs();
                error!(drive = %drive.name, %operation, seconds, "tape drive hangs; check the drive, then \
                    restart the tape server");
            }
            Some(Alarm::Recovered) => warn!(drive = %drive.name, "tape drive responds again"),
            None => {}
        }
        let Some(mut progress) = drive.activity.now() else {
            return;
        };
        if drive.watchdog.is_stuck() {
            progress.phase = TapePhase::Stuck;
        }
        if let Err(failure) = self.head.call(&progress, Millis(0)) {
            debug!(drive = %drive.name, cause = %failure, "could not report progress to the head");
        }
    }
}
