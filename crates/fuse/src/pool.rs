//! Threads that answer the kernel: a request that waits holds up no other.

use base::{Failure, Result};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
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

/// The threads: as many as are busy at a time, up to a bound. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    sleepers: Arc<AtomicUsize>,
}

struct Shared {
    name: &'static str,
    threads_max: usize,
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_over: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one job after the other.
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.lock();
                continue;
            }
            if queue.is_over {
                return;
            }
            queue.idle += 1;
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Pool {
    /// At most `threads_max` threads; the first is started now.
    pub(crate) fn start(name: &'static str, threads_max: usize) -> Result<Self> {
        let shared = Shared { name, threads_max, queue: Mutex::default(), ready: Condvar::new() };
        let pool = Self { shared: Arc::new(shared), sleepers: Arc::default() };
        pool.shared.lock().threads = 1;
        pool.add_thread()?;
        Ok(pool)
    }

    /// Has a thread do it. Yields whether there was room for it.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.shared.lock();
        if queue.jobs.len() >= QUEUE_LEN {
            return false;
        }
        queue.jobs.push_back(Box::new(job));
        let is_short = queue.jobs.len() > queue.idle && queue.threads < self.shared.threads_max;
        queue.threads += usize::from(is_short);
        drop(queue);
        self.shared.ready.notify_one();
        // If there is none to be had, one that ends its job does it.
        if is_short && self.add_thread().is_err() {
            self.shared.lock().threads -= 1;
        }
        true
    }

    fn add_thread(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        spawn(self.shared.name.to_owned(), move || shared.work())
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

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.ready.notify_all();
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(work);
    thread.map(drop).map_err(|cause| Failure::io("start a thread of the mount", &cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_that_wait_for_each_other_all_find_a_thread() {
        let pool = Pool::start("test", 8).unwrap();
        let (done, results) = mpsc::channel();
        let doors: Vec<_> = (0..6).map(|_| mpsc::channel::<()>()).collect();
        let (keys, locks): (Vec<_>, Vec<_>) = doors.into_iter().unzip();
        for (number, lock) in locks.into_iter().enumerate() {
            let (done, next) = (done.clone(), keys.get(number + 1).cloned());
            assert!(pool.run(move || {
                lock.recv().unwrap();
                next.map_or(Ok(()), |next| next.send(())).unwrap();
                done.send(number).unwrap();
            }));
        }
        keys[0].send(()).unwrap();
        let all: Vec<_> = results.iter().take(6).collect();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    }
}
