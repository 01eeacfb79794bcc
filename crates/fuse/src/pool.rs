//! Threads that answer the kernel: a request that waits holds up no other.

use base::{Failure, Result};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

/// Requests that wait for a thread: more than programs of one host make at a time.
const QUEUE_LEN: usize = 8192;
/// Locks that are waited for at a time. Each has a thread of its own, so that those who give locks back always find one.
const SLEEPERS_MAX: usize = 1024;
/// What a thread needs: a request is worked on without recursion.
const STACK_BYTES: usize = 512 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// The threads. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    jobs: mpsc::SyncSender<Job>,
    sleepers: Arc<AtomicUsize>,
}

impl Pool {
    /// Starts threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE_LEN);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            let work = move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = next else { return };
                    job();
                }
            };
            spawn(format!("mount-{number}"), work)?;
        }
        Ok(Self { jobs, sleepers: Arc::default() })
    }

    /// Has a thread do it. Yields whether there was room for it.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.try_send(Box::new(job)).is_ok()
    }

    /// Does what waits for other programs, in a thread of its own. Yields whether there was room for it.
    pub(crate) fn sleep(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let sleepers = Arc::clone(&self.sleepers);
        if sleepers.fetch_add(1, Ordering::Relaxed) >= SLEEPERS_MAX {
            sleepers.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let ended = Arc::clone(&sleepers);
        let started = spawn("mount-lock".to_owned(), move || {
            job();
            ended.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            sleepers.fetch_sub(1, Ordering::Relaxed);
        }
        started.is_ok()
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(work);
    thread.map(drop).map_err(|cause| Failure::io("start a thread of the mount", &cause))
}
