//! Reports the output of a running job to the head while a client follows it.
//!
//! The job writes plain files, which nobody can wait for: they are looked at five times a second, and only while they are followed.

use crate::{
    room::{Backoff, Shared},
    run::Run,
    run_dir::STREAMS,
};
use base::Result;
use std::{
    io,
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tracing::{debug, warn};
use wire::control::{
    OUTPUT_KEPT_BYTES_MAX, OUTPUT_PIECE_BYTES_MAX, OutputPiece, OutputReported, ReportOutput,
};

/// Pause between two looks: what somebody reads along need not come faster.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The head is asked at least this often whether anybody still follows.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Pieces that are reported when the job is over: as many as the head keeps.
const LAST_PIECES_MAX: u64 = OUTPUT_KEPT_BYTES_MAX / OUTPUT_PIECE_BYTES_MAX as u64 + 1;

/// Begins to report what a run prints, unless that is done already.
pub(crate) fn begin(shared: &Arc<Shared>, run: &Arc<Run>) {
    match run.reported.try_lock() {
        Ok(mut reported) if reported.is_none() => *reported = Some([0; 2]),
        // It is being reported.
        _ => return,
    }
    let id = run.id();
    let name = format!("report-{}.{}", id.job, id.attempt);
    let (shared, followed) = (Arc::clone(shared), Arc::clone(run));
    let thread = thread::Builder::new().name(name).spawn(move || report(&shared, &followed));
    if let Err(cause) = thread {
        // The head repeats its order.
        stop(run);
        warn!(job = %id.job, %cause, "cannot start a thread; this job's output is not shown while it runs");
    }
}

fn stop(run: &Run) {
    *run.reported.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Reports what a run prints until nobody follows it, the run is over or the room stops.
fn report(shared: &Shared, run: &Run) {
    let (mut backoff, mut asked) = (Backoff::new(), None::<Instant>);
    while !shared.is_stopping() && shared.has_run(run.id()) {
        let what = match asked {
            None => OutputReport::Nothing,
            Some(asked) if asked.elapsed() > ASK_EVERY => OutputReport::Any,
            Some(_) => OutputReport::New,
        };
        let outcome = report_next(shared, run, what);
        if matches!(outcome, Ok(ReportOutcome::Rest | ReportOutcome::More)) {
            (backoff, asked) = (Backoff::new(), Some(Instant::now()));
        }
        let pause = match outcome {
            Ok(ReportOutcome::Nothing | ReportOutcome::Rest) => LOOK_EVERY,
            Ok(ReportOutcome::More) => continue,
            Ok(ReportOutcome::Unfollowed) => break,
            Err(failure) => {
                debug!(job = %run.id().job, %failure, "could not send a job's output to the head");
                backoff.next()
            }
        };
        shared.pause(pause, &|| !shared.has_run(run.id()));
    }
    stop(run);
}

/// Reports the rest of what a job has printed that is over. Whoever follows it may miss it; what is kept is in the report.
pub(crate) fn report_rest(shared: &Shared, run: &Run) {
    for _ in 0..LAST_PIECES_MAX {
        match report_next(shared, run, OutputReport::Last) {
            Ok(ReportOutcome::More) => {}
            Ok(_) => return,
            Err(failure) => {
                debug!(job = %run.id().job, %failure, "could not send the end of a job's output to the head");
                return;
            }
        }
    }
}

/// One report of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputReport {
    /// Nothing yet: the head says how many bytes it has.
    Nothing,
    /// What is new, if anything is.
    New,
    /// What is new, or that nothing is.
    Any,
    /// What is new of a job that is over.
    Last,
}

/// The outcome of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportOutcome {
    /// There was nothing new.
    Nothing,
    /// The whole output was reported.
    Rest,
    /// Not all: there is more to report at once.
    More,
    /// No client follows the run.
    Unfollowed,
}

/// Reports what comes next of both streams.
fn report_next(shared: &Shared, run: &Run, what: OutputReport) -> Result<ReportOutcome> {
    // Locked during a report: pieces reach it in their order, whether the job is over or not.
    let mut reported = run.reported.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(next) = *reported else { return Ok(ReportOutcome::Unfollowed) };
    let mut is_all = what != OutputReport::Nothing;
    let mut pieces = [None, None];
    for (index, piece) in pieces.iter_mut().enumerate().filter(|_| what != OutputReport::Nothing) {
        let is_rest;
        (*piece, is_rest) = piece_of(run, STREAMS[index], next[index], what == OutputReport::Last);
        is_all &= is_rest;
    }
    if matches!(what, OutputReport::New | OutputReport::Last) && pieces.iter().all(Option::is_none) {
        return Ok(ReportOutcome::Nothing);
    }
    let call = ReportOutput { run: run.id(), pieces, is_all };
    let outcome = match shared.ask(move |control| control.call(&call)) {
        Some(outcome) => outcome?,
        None => return Ok(ReportOutcome::Unfollowed),
    };
    let OutputReported { is_followed, next } = outcome;
    *reported = is_followed.then_some(next);
    Ok(match (is_followed, is_all) {
        (false, _) => ReportOutcome::Unfollowed,
        (true, true) => ReportOutcome::Rest,
        (true, false) => ReportOutcome::More,
    })
}

/// The next piece of a stream from byte `next` on, and whether nothing comes after it. Output that grows faster than it can be
/// reported is reported with gaps.
fn piece_of(run: &Run, name: &str, next: u64, is_over: bool) -> (Option<OutputPiece>, bool) {
    let read = || -> io::Result<(Option<OutputPiece>, bool)> {
        let output = run.dir.open_output(name)?;
        let size = output.size()?;
        let start = next.max(size.saturating_sub(OUTPUT_KEPT_BYTES_MAX));
        let length = size.saturating_sub(start).min(OUTPUT_PIECE_BYTES_MAX as u64);
        let mut bytes = output.read(start, length)?;
        let is_rest = start + length >= size;
        if !(is_over && is_rest) {
            bytes.truncate(whole_len(&bytes));
        }
        if bytes.is_empty() {
            return Ok((None, true));
        }
        let end = start + bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((Some(OutputPiece { start, end, text }), is_rest))
    };
    // It was cut, or is not there yet: it is looked at again.
    read().unwrap_or((None, true))
}

/// How many bytes are left without a character that is not complete yet.
fn whole_len(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3)..bytes.len();
    for start in last.rev() {
        match std::str::from_utf8(&bytes[start..]) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => return start,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::whole_len;

    #[test]
    fn characters_are_not_cut_in_two() {
        let text = "a€😀".as_bytes();
        let whole: Vec<_> = (0..=text.len()).map(|length| whole_len(&text[..length])).collect();
        assert_eq!(whole, [0, 1, 1, 1, 4, 4, 4, 4, 8]);
        // What is no text is no reason to wait.
        assert_eq!(whole_len(b"\xff\xff"), 2);
    }
}
