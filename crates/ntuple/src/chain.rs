//! Several files as one table, computed by several threads.

mod agree;

use crate::{
    Plan,
    column::{ColumnCache, ParquetFile, Schema, Source, Values},
    eval::{Compiled, Partial, Worker},
    fill::Histogram,
};
use base::{ErrorKind, Failure, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};

/// Files of one chain.
pub const CHAIN_FILES_MAX: usize = 100_000;
/// Threads of one pass.
pub const THREADS_MAX: usize = 256;
/// Row groups that may be finished ahead of the one that is added next: bounds the results that wait.
const AHEAD_MAX: usize = 256;
/// Files of a facility that are asked for at once whether they changed: on a distant one each takes a while.
const CHECKS_AT_ONCE: usize = 16;
/// How often the caller hears of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Files as one table.
#[derive(Debug)]
pub struct Chain {
    files: Vec<OpenFile>,
    schema: Schema,
    entries: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: ParquetFile,
    /// Index in the file for each column of the schema.
    columns: Vec<usize>,
}

/// One unit of work.
#[derive(Debug, Clone, Copy)]
struct Task {
    file: usize,
    row_group: usize,
    rows: usize,
}

/// How far a pass is. Every entry counts once, when its row group is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Entries done.
    pub done: u64,
    /// Entries of the chain.
    pub total: u64,
}

/// How to run a pass.
pub struct RunOptions<'a> {
    /// Threads to use; 0 for one per processor.
    pub threads: usize,
    /// Where decoded columns are kept.
    pub cache: &'a ColumnCache,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { threads: 0, cache: ColumnCache::shared() }
    }
}

/// What a pass gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Histograms in the order of the plan.
    pub histograms: Vec<Histogram>,
    /// Arrays in the order of the plan, entries in the order of the chain.
    pub arrays: Vec<Values>,
}

impl Chain {
    /// Opens files whose columns must agree: the same names, with types that one column can hold without a change of value.
    /// Files without entries add nothing, and change nothing.
    pub fn open(sources: Vec<Arc<dyn Source>>) -> Result<Self> {
        if sources.is_empty() || sources.len() > CHAIN_FILES_MAX {
            return Err(Failure::invalid(format!(
                "chain of {} files; 1 to {CHAIN_FILES_MAX} are possible",
                sources.len()
            )));
        }
        let mut files = sources.into_iter().map(ParquetFile::open).collect::<Result<Vec<_>>>()?;
        if files.iter().any(|file| file.entries() > 0) {
            files.retain(|file| file.entries() > 0);
        } else {
            files.truncate(1);
        }
        let (schema, indices) = agree::agree(&files)?;
        let entries = files.iter().map(ParquetFile::entries).sum();
        let files =
            files.into_iter().zip(indices).map(|(file, columns)| OpenFile { file, columns }).collect();
        Ok(Self { files, schema, entries })
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows of all files.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Runs `plan` over all entries.
    ///
    /// `progress` is called on this thread several times a second and at the end; if it breaks, the pass stops with a
    /// failure of kind `Busy` that says cancelled. The result does not depend on the number of threads.
    pub fn run(
        &self,
        mut plan: Plan,
        options: &RunOptions<'_>,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Outcome> {
        if plan.schema != self.schema {
            return Err(Failure::invalid("plan was made for another n-tuple"));
        }
        let compiled = Compiled::new(&mut plan);
        let run = Run {
            chain: self,
            cache: options.cache,
            compiled: &compiled,
            columns: plan.column_indices(),
            tasks: self.tasks(),
            next: AtomicUsize::new(0),
            next_check: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            ordered: Mutex::new(Ordered {
                waiting: BTreeMap::new(),
                next: 0,
                histograms: plan.fills.iter().map(|fill| fill.empty.clone()).collect(),
                arrays: compiled.empty_arrays(&self.schema),
            }),
            moved: Condvar::new(),
        };
        run.all(options.threads, &mut progress)
    }

    fn tasks(&self) -> Vec<Task> {
        let groups = self.files.iter().enumerate().flat_map(|(index, open)| {
            (0..open.file.row_groups()).map(move |group| Task {
                file: index,
                row_group: group,
                rows: open.file.rows(group),
            })
        });
        groups.filter(|task| task.rows > 0).collect()
    }
}

/// Results that must be added in order.
struct Ordered {
    waiting: BTreeMap<usize, Partial>,
    next: usize,
    histograms: Vec<Histogram>,
    arrays: Vec<Values>,
}

/// One pass.
struct Run<'a> {
    chain: &'a Chain,
    cache: &'a ColumnCache,
    compiled: &'a Compiled,
    columns: BTreeSet<usize>,
    tasks: Vec<Task>,
    next: AtomicUsize,
    /// The next file to check.
    next_check: AtomicUsize,
    done: AtomicU64,
    is_cancelled: AtomicBool,
    /// Held for an addition only.
    ordered: Mutex<Ordered>,
    /// Told when `ordered.next` moves.
    moved: Condvar,
}

impl Run<'_> {
    fn all(self, threads: usize, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Outcome> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = threads.min(THREADS_MAX).min(self.tasks.len().max(1));
        // A pass counts only if every file turns out to be the one that was opened; nobody waits for that meanwhile.
        let checkers = if self.chain.files.iter().any(|open| open.file.is_remote()) {
            CHECKS_AT_ONCE.min(self.chain.files.len())
        } else {
            1
        };
        let outcome = std::thread::scope(|scope| {
            // Every thread sends once, so none ever waits for room.
            let (send, receive) = sync_channel(threads + checkers);
            for number in 0..threads + checkers {
                let (run, send) = (&self, send.clone());
                let work = if number < threads { Self::work } else { Self::check };
                scope.spawn(move || run.thread(work, &send));
            }
            drop(send);
            self.watch(&receive, threads + checkers, progress)
        });
        outcome?;
        let ordered = self.ordered.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Outcome {
            histograms: ordered.histograms,
            arrays: ordered.arrays.into_iter().map(Values::settled).collect(),
        })
    }

    /// Waits for all threads on the thread of the caller, and tells it how far they are.
    fn watch(
        &self,
        receive: &Receiver<Result<()>>,
        threads: usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut first_failure = None;
        let mut is_broken = false;
        let mut finished = 0;
        while finished < threads {
            match receive.recv_timeout(PROGRESS_INTERVAL) {
                Ok(result) => {
                    finished += 1;
                    if let Err(failure) = result {
                        self.is_cancelled.store(true, Ordering::Relaxed);
                        first_failure.get_or_insert(failure);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if progress(self.progress()).is_break() {
                        is_broken = true;
                        self.is_cancelled.store(true, Ordering::Relaxed);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match first_failure {
            Some(failure) => Err(failure),
            None if is_broken || progress(self.progress()).is_break() => {
                Err(Failure::new(ErrorKind::Busy, "cancelled"))
            }
            None => Ok(()),
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done.load(Ordering::Relaxed), total: self.chain.entries }
    }

    fn thread(&self, work: fn(&Self) -> Result<()>, send: &SyncSender<Result<()>>) {
        // A panic here is our bug; the caller gets it as a failure instead of waiting for ever.
        let result = catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            Err(Failure::internal("a kernel thread panicked").hint("report this with the expressions used"))
        });
        if result.is_err() {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        // The receiver lives until every thread has sent.
        let _ = send.send(result);
    }

    /// Looks whether the files are those that were opened.
    fn check(&self) -> Result<()> {
        while !self.is_cancelled.load(Ordering::Relaxed) {
            let Some(open) = self.chain.files.get(self.next_check.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            open.file.check()?;
        }
        Ok(())
    }

    fn work(&self) -> Result<()> {
        let mut worker = Worker::new(self.compiled);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = self.tasks.get(index).filter(|_| !self.is_cancelled.load(Ordering::Relaxed))
            else {
                break;
            };
            let Some(arrays) = self.decode(*task)? else { break };
            let partial = worker.row_group(&arrays, task.rows, &self.is_cancelled);
            self.add(index, partial);
            self.done.fetch_add(task.rows as u64, Ordering::Relaxed);
        }
        worker.finish(&mut self.lock().histograms);
        Ok(())
    }

    /// The columns of one row group; `None` if the pass was cancelled meanwhile.
    fn decode(&self, task: Task) -> Result<Option<Vec<Option<Arc<Values>>>>> {
        let open = &self.chain.files[task.file];
        let mut arrays = vec![None; self.chain.schema.columns.len()];
        for column in &self.columns {
            if self.is_cancelled.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (own, kind) = (open.columns[*column], self.chain.schema.columns[*column].kind);
            let decode = || open.file.read(task.row_group, own);
            arrays[*column] = Some(match open.file.read_nothing(task.row_group, own, kind) {
                Some(nothing) => Arc::new(nothing),
                None => self.cache.get(open.file.identity(), task.row_group, own, decode)?,
            });
        }
        Ok(Some(arrays))
    }

    /// Adds the result of row group `index` after those of all before it.
    fn add(&self, index: usize, partial: Partial) {
        let mut ordered = self.lock();
        // The thread that holds everybody up is at work, not here: it has the smallest index.
        while index >= ordered.next + AHEAD_MAX && !self.is_cancelled.load(Ordering::Relaxed) {
            let waited = self.moved.wait_timeout(ordered, PROGRESS_INTERVAL);
            ordered = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ordered.waiting.insert(index, partial);
        let Ordered { waiting, next, histograms, arrays } = &mut *ordered;
        while let Some(partial) = waiting.remove(next) {
            partial.add_to(histograms, arrays);
            *next += 1;
        }
        self.moved.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ordered> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
