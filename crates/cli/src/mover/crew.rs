//! Copies many files in parallel.

use super::{
    bars::Bars,
    copy::{CopyOptions, Moved, Mover},
    plan::Job,
};
use crate::context::Run;
use base::{Failure, Result};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How the copy of one file ended.
pub(crate) struct CopyResult {
    pub(crate) job: Job,
    pub(crate) outcome: Result<Moved>,
    pub(crate) took: Duration,
}

/// Copies `jobs` by `parallel` threads; `told` hears of each as it ends. It may stop the rest.
pub(crate) fn run(
    mover: &Mover,
    jobs: Vec<Job>,
    parallel: usize,
    copy_options: CopyOptions,
    bars: &Bars,
    told: &mut dyn FnMut(CopyResult) -> Run<()>,
) -> Run<()> {
    let queue = Mutex::new(jobs.into_iter());
    let (sender, receiver) = mpsc::sync_channel(parallel);
    let is_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        for number in 0..parallel {
            let (sender, queue, is_over) = (sender.clone(), &queue, &is_over);
            let work = move || {
                while !is_over.load(Ordering::Relaxed) {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = next else { return };
                    // If nobody listens any more there is nothing left to do.
                    if sender.send(copy(mover, job, copy_options, bars)).is_err() {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("copy{number}")).spawn_scoped(scope, work);
            thread.map_err(|cause| Failure::io("start a thread", &cause))?;
        }
        drop(sender);
        let mut outcome = Ok(());
        // Those who are at work are let finish, so that what they have is not lost.
        for ended in receiver {
            if outcome.is_ok() {
                outcome = told(ended);
                is_over.store(outcome.is_err(), Ordering::Relaxed);
            }
        }
        outcome
    });
    bars.finish();
    outcome
}

fn copy(mover: &Mover, job: Job, copy_options: CopyOptions, bars: &Bars) -> CopyResult {
    let began = Instant::now();
    let meter = bars.file(job.source.name().unwrap_or_default(), job.bytes);
    let outcome = mover.copy(&job.source, &job.target, copy_options, &meter);
    meter.finish();
    CopyResult { job, outcome, took: began.elapsed() }
}
