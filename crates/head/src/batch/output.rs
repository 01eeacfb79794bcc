//! Output of running jobs for the clients that follow it: kept in memory, as far as workers have reported it.
//!
//! A worker reports no output unless it is ordered to. When a client follows a job, the head orders the worker of the
//! job to report ([`NextJob`]). The worker stops when no client has asked for a while.
//!
//! [`NextJob`]: wire::control::NextJob

use super::{
    calls::{known, require_owner},
    room::current,
};
use crate::{Apply, Context, Core, Topic, waiters::Awaited};
use base::{ErrorKind, Failure, JobId, Millis, Result, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use wire::control::{
    FollowJob, FollowedJob, JobRun, JobState, OUTPUT_KEPT_BYTES_MAX, OUTPUT_PIECE_BYTES_MAX, OutputPiece,
    OutputReported, ReportOutput,
};

/// Jobs that are followed at the same time: what is kept of all of them stays below 200 MiB, even if nothing of it is text.
const FOLLOWED_MAX: usize = 32;
/// A job is followed for so long after somebody has asked: twice as long as a call waits.
const FOLLOWED_FOR: Millis = Millis::from_seconds(60);
/// Pieces of each output in one answer: it stays far below what a client takes.
const PIECES_SENT_MAX: usize = 8;

/// The output of followed jobs.
#[derive(Debug, Default)]
pub(crate) struct Outputs(BTreeMap<JobId, FollowedOutput>);

/// The output of one run.
#[derive(Debug)]
struct FollowedOutput {
    attempt: u32,
    /// When somebody asked last.
    asked: Timestamp,
    /// Its worker knows that it is followed.
    is_ordered: bool,
    /// What is here is all that its worker had a moment ago.
    is_all: bool,
    streams: [Stream; 2],
}

/// The newest pieces of standard output or standard error.
#[derive(Debug, Default)]
struct Stream {
    pieces: VecDeque<OutputPiece>,
    next: u64,
}

impl Stream {
    /// Takes what comes next; what is known already is left out.
    fn put(&mut self, piece: OutputPiece) {
        if piece.start < self.next || piece.end <= piece.start {
            return;
        }
        self.next = piece.end;
        self.pieces.push_back(piece);
        while self.pieces.front().is_some_and(|first| self.next - first.start > OUTPUT_KEPT_BYTES_MAX) {
            self.pieces.pop_front();
        }
    }

    /// What begins there or later, as far as it fits an answer; and whether that is all.
    fn after(&self, after: u64) -> (Vec<OutputPiece>, bool) {
        let rest = self.pieces.iter().filter(|piece| piece.start >= after);
        (rest.clone().take(PIECES_SENT_MAX).cloned().collect(), rest.count() <= PIECES_SENT_MAX)
    }
}

impl Outputs {
    /// Somebody wants to know what a run prints; yields whether that is new.
    fn follow(&mut self, run: JobRun, now: Timestamp) -> Result<bool> {
        self.0.retain(|_, followed| now - followed.asked <= FOLLOWED_FOR);
        if let Some(known) = self.0.get_mut(&run.job).filter(|known| known.attempt == run.attempt) {
            known.asked = now;
            return Ok(false);
        }
        if self.0.len() >= FOLLOWED_MAX && !self.0.contains_key(&run.job) {
            return Err(Failure::busy(format!("{FOLLOWED_MAX} jobs are being followed")).hint(format!(
                "try again in a minute, or see with `bp log {}` what it printed when it is over",
                run.job
            )));
        }
        let streams = Default::default();
        let attempt = run.attempt;
        self.0.insert(
            run.job,
            FollowedOutput { attempt, asked: now, is_ordered: false, is_all: false, streams },
        );
        Ok(true)
    }

    /// Whether the worker of a run must still be told that it is followed.
    pub(super) fn needs_order(&self, run: JobRun, now: Timestamp) -> bool {
        self.of(run).is_some_and(|followed| !followed.is_ordered && now - followed.asked <= FOLLOWED_FOR)
    }

    /// A worker that starts does not know any more what is followed.
    pub(super) fn worker_began(&mut self, runs: &[JobRun]) {
        for run in runs {
            if let Some(followed) = self.0.get_mut(&run.job) {
                followed.is_ordered = false;
            }
        }
    }

    fn of(&self, run: JobRun) -> Option<&FollowedOutput> {
        self.0.get(&run.job).filter(|followed| followed.attempt == run.attempt)
    }

    /// Takes what a worker tells.
    fn put(&mut self, report: ReportOutput, now: Timestamp) -> OutputReported {
        let ReportOutput { run, pieces, is_all } = report;
        let followed = self.0.get_mut(&run.job).filter(|followed| followed.attempt == run.attempt);
        let Some(followed) = followed.filter(|followed| now - followed.asked <= FOLLOWED_FOR) else {
            self.0.remove(&run.job);
            return OutputReported { is_followed: false, next: [0; 2] };
        };
        (followed.is_ordered, followed.is_all) = (true, is_all);
        for (stream, piece) in followed.streams.iter_mut().zip(pieces) {
            if let Some(piece) = piece {
                stream.put(piece);
            }
        }
        OutputReported { is_followed: true, next: followed.streams.each_ref().map(|stream| stream.next) }
    }
}

impl Apply for FollowJob {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<FollowedJob> {
        let job = known(core, self.job)?;
        require_owner(&job, context, "read the output of")?;
        core.awaits(Awaited::Job(job.id));
        let run = job.run();
        if job.state == JobState::Running && core.live.outputs.follow(run, context.now)? {
            // Its worker waits for orders.
            core.touch(Topic::Jobs);
        }
        let goes_on = matches!(job.state, JobState::Held | JobState::Queued | JobState::Running);
        let followed = core.live.outputs.of(run);
        let after = if self.attempt == run.attempt { self.after } else { [0; 2] };
        let told = |index: usize| match followed {
            Some(followed) => followed.streams[index].after(after[index]),
            None => (Vec::new(), true),
        };
        let ((stdout, is_all_stdout), (stderr, is_all_stderr)) = (told(0), told(1));
        let is_enough = !goes_on || !self.more && followed.is_some_and(|followed| followed.is_all);
        let is_all = is_enough && is_all_stdout && is_all_stderr;
        let pieces = [stdout, stderr];
        Ok(FollowedJob { state: job.state, attempt: run.attempt, pieces, is_all })
    }
}

impl Apply for ReportOutput {
    fn apply(self, core: &mut Core, context: &Context) -> Result<OutputReported> {
        let job = current(core, context, self.run)?;
        if let Some(long) =
            self.pieces.iter().flatten().find(|piece| piece.text.len() > 3 * OUTPUT_PIECE_BYTES_MAX)
        {
            let what = format!("a piece of the output of job {} has {} bytes", job.id, long.text.len());
            return Err(Failure::new(ErrorKind::Invalid, what));
        }
        core.store.note_changed(Awaited::Job(job.id));
        Ok(core.live.outputs.put(self, context.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: JobRun = JobRun { job: JobId(7), attempt: 1 };

    fn piece(start: u64, text: &str) -> ReportOutput {
        let piece = OutputPiece { start, end: start + text.len() as u64, text: text.to_owned() };
        ReportOutput { run: RUN, pieces: [Some(piece), None], is_all: true }
    }

    #[test]
    fn a_worker_is_told_once_and_tells_as_long_as_somebody_asks() {
        let mut outputs = Outputs::default();
        let at = Timestamp;
        assert!(!outputs.put(piece(0, "early"), at(0)).is_followed, "nobody has asked");
        assert!(outputs.follow(RUN, at(0)).unwrap() && outputs.needs_order(RUN, at(0)));
        assert_eq!(outputs.put(piece(0, "one"), at(1)), OutputReported { is_followed: true, next: [3, 0] });
        assert!(!outputs.needs_order(RUN, at(1)) && !outputs.follow(RUN, at(2)).unwrap());
        // The worker was started anew, and learns where it was.
        outputs.worker_began(&[RUN]);
        assert!(outputs.needs_order(RUN, at(2)));
        assert_eq!(outputs.put(piece(0, "one, two"), at(3)).next, [3, 0]);
        outputs.put(piece(3, ", two"), at(3));
        let told = |after| outputs.of(RUN).unwrap().streams[0].after(after).0;
        assert_eq!(told(0).iter().map(|piece| &*piece.text).collect::<String>(), "one, two");
        assert_eq!((told(3).len(), told(8).len()), (1, 0));
        let late = at(3 + FOLLOWED_FOR.0);
        assert!(!outputs.put(piece(8, "late"), late).is_followed);
        assert!(outputs.0.is_empty());
    }

    #[test]
    fn the_newest_output_is_kept_and_no_more_jobs_than_there_is_memory_for() {
        let mut outputs = Outputs::default();
        outputs.follow(RUN, Timestamp(0)).unwrap();
        let text = "x".repeat(OUTPUT_PIECE_BYTES_MAX);
        for index in 0..100 {
            outputs.put(piece(index * OUTPUT_PIECE_BYTES_MAX as u64, &text), Timestamp(0));
        }
        let stream = &outputs.of(RUN).unwrap().streams[0];
        let (first, is_all) = stream.after(0);
        assert_eq!((first.len(), is_all), (PIECES_SENT_MAX, false));
        let (rest, is_all) = stream.after(first.last().unwrap().end);
        assert!(is_all);
        assert_eq!((first.len() + rest.len()) as u64 * OUTPUT_PIECE_BYTES_MAX as u64, OUTPUT_KEPT_BYTES_MAX);
        for number in 1..FOLLOWED_MAX as u64 {
            outputs.follow(JobRun { job: JobId(100 + number), attempt: 1 }, Timestamp(0)).unwrap();
        }
        let next = JobRun { job: JobId(9), attempt: 1 };
        assert_eq!(outputs.follow(next, Timestamp(0)).unwrap_err().kind, ErrorKind::Busy);
        // Another run of a job that is followed begins anew.
        assert!(outputs.follow(JobRun { attempt: 2, ..RUN }, Timestamp(0)).unwrap());
        assert!(outputs.follow(next, Timestamp(FOLLOWED_FOR.0 + 1)).unwrap());
    }
}
