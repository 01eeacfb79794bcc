//! One pass: threads take row groups, and what they give is added in the order of the chain.

use super::{Chain, Part, Progress, RunOptions, Sums, THREADS_MAX, packets};
use crate::{
    Plan,
    column::{Column, ColumnCache, Kind, Values},
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

/// Row groups that may be finished ahead of the one that is added next: bounds the results that wait.
const AHEAD_MAX: usize = 256;
/// Files of a facility that are asked for at once whether they changed: on a distant one each takes a while.
const CHECKS_AT_ONCE: usize = 16;
/// How often the caller hears of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// One unit of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) packet: usize,
    pub(super) file: usize,
    pub(super) row_group: usize,
    pub(super) rows: usize,
}

/// Runs `plan` over `tasks`, which are in the order of the chain.
pub(super) fn run(
    chain: &Chain,
    plan: &mut Plan,
    tasks: Vec<Task>,
    options: &RunOptions<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Part> {
    let compiled = Compiled::new(plan);
    let run = Run {
        chain,
        cache: options.cache,
        compiled: &compiled,
        columns: plan.column_indices(),
        total: tasks.iter().map(|task| task.rows as u64).sum(),
        tasks,
        next: AtomicUsize::new(0),
        next_check: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        is_cancelled: AtomicBool::new(false),
        ordered: Mutex::new(Ordered {
            waiting: BTreeMap::new(),
            next: 0,
            packet: None,
            nodes: packets::Nodes::default(),
            histograms: plan.fills.iter().map(|fill| fill.empty.clone()).collect(),
            arrays: compiled.empty_arrays(&chain.schema),
            counts: compiled.empty_counts(),
        }),
        moved: Condvar::new(),
    };
    run.all(options.threads, progress)
}

/// Results that must be added in order.
struct Ordered {
    waiting: BTreeMap<usize, Partial>,
    next: usize,
    /// The packet that is not complete yet, and its sums so far.
    packet: Option<(usize, Sums)>,
    nodes: packets::Nodes,
    histograms: Vec<Histogram>,
    arrays: Vec<Values>,
    counts: Vec<Option<Vec<u32>>>,
}

impl Ordered {
    /// Takes the next row group, which belongs to `packet`.
    fn take(&mut self, packet: usize, partial: Partial) {
        self.next += 1;
        let sums = partial.into_sums(&mut self.arrays, &mut self.counts);
        match &mut self.packet {
            Some((now, all)) if *now == packet => packets::add_sums(all, sums),
            _ => {
                self.close();
                self.packet = Some((packet, sums));
            }
        }
    }

    fn close(&mut self) {
        if let Some((packet, sums)) = self.packet.take() {
            self.nodes.push(packet, sums);
        }
    }
}

/// One pass.
struct Run<'a> {
    chain: &'a Chain,
    cache: &'a ColumnCache,
    compiled: &'a Compiled,
    columns: BTreeSet<usize>,
    /// Entries of the tasks.
    total: u64,
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
    fn all(self, threads: usize, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Part> {
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
        let mut ordered = self.ordered.into_inner().unwrap_or_else(PoisonError::into_inner);
        ordered.close();
        Ok(Part {
            histograms: ordered.histograms,
            nodes: ordered.nodes.into_vec(),
            arrays: ordered.arrays.into_iter().map(Values::settled).collect(),
            counts: ordered.counts,
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
        Progress { done: self.done.load(Ordering::Relaxed), total: self.total }
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
            arrays[*column] = Some(match open.columns[*column] {
                Some(own) => self.column(task, own, self.chain.schema.columns[*column].kind)?,
                None => Arc::new(self.default(task, *column)?),
            });
        }
        self.check_lists(task, &arrays)?;
        Ok(Some(arrays))
    }

    /// The column `own` of the file of `task`.
    fn column(&self, task: Task, own: usize, kind: Kind) -> Result<Arc<Values>> {
        let file = &self.chain.files[task.file].file;
        let decode = || file.read(task.row_group, own);
        match file.read_nothing(task.row_group, own, kind) {
            Some(nothing) => Ok(Arc::new(nothing)),
            None => {
                let (identity, number) = file.cache_key(own);
                self.cache.get(identity, task.row_group, number, decode)
            }
        }
    }

    /// What a column is in a file that lacks it. Its lists are as long as those of its collection, and empty if the file
    /// has none of them.
    fn default(&self, task: Task, column: usize) -> Result<Values> {
        let Column { name, kind, default, collection, .. } = &self.chain.schema.columns[column];
        let Some(default) = default else {
            return Err(Failure::internal(format!("column {name:?} has no default")));
        };
        let Some(collection) = collection else { return Ok(default.repeat(*kind, task.rows)) };
        let of_file = &self.chain.files[task.file].columns;
        let beside = self.chain.schema.columns.iter().zip(of_file).find_map(|(other, own)| {
            let own = (*own)?;
            (other.collection.as_ref() == Some(collection)).then_some((own, other.kind))
        });
        let offsets = match beside {
            Some((own, kind)) => self.column(task, own, kind)?.offsets.clone(),
            None => None,
        };
        let offsets = offsets.unwrap_or_else(|| Arc::new(vec![0; task.rows + 1]));
        let elements = offsets.last().map_or(0, |end| *end as usize);
        Ok(Values { offsets: Some(offsets), ..default.repeat(*kind, elements) })
    }

    /// Lists of one collection must have the same lengths: their elements belong together.
    fn check_lists(&self, task: Task, arrays: &[Option<Arc<Values>>]) -> Result<()> {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, column) in self.chain.schema.columns.iter().enumerate() {
            let (Some(collection), Some(values)) = (&column.collection, &arrays[index]) else { continue };
            let first = *known.entry(collection).or_insert(index);
            let (Some(own), Some(other)) =
                (&values.offsets, arrays[first].as_ref().and_then(|values| values.offsets.as_ref()))
            else {
                continue;
            };
            if !Arc::ptr_eq(own, other)
                && let Some(row) = (0..task.rows).find(|row| own[row + 1] != other[row + 1])
            {
                return Err(self.uneven(task, row, [(first, other), (index, own)]));
            }
        }
        Ok(())
    }

    fn uneven(&self, task: Task, row: usize, lists: [(usize, &Arc<Vec<u32>>); 2]) -> Failure {
        let file = &self.chain.files[task.file].file;
        let before: usize = (0..task.row_group).map(|group| file.rows(group)).sum();
        let [a, b] = lists.map(|(column, offsets)| {
            let name = &self.chain.schema.columns[column].name;
            format!("{name:?} has {} elements", offsets[row + 1] - offsets[row])
        });
        Failure::invalid(format!("{}: entry {}: {a}, {b}", file.name(), before + row))
            .hint("lists whose names begin alike, up to the first underscore, are taken for one collection")
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
        while let Some(partial) = {
            let next = ordered.next;
            ordered.waiting.remove(&next)
        } {
            let packet = self.tasks[ordered.next].packet;
            ordered.take(packet, partial);
        }
        self.moved.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ordered> {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
