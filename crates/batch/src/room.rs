//! The worker: registers, asks for runs, and keeps one thread per run.

mod config;
mod shared;

use crate::{
    load, output_report,
    processors::Processors,
    run::{self, Run},
    run_dir::RunStore,
    sandbox::probe,
    slurm::Slurm,
    users::{self, Users},
};
use base::{ErrorKind, Failure, Result};
use client::{Control, Stop, control::WAIT_MAX};
pub use config::WorkerConfig;
pub(crate) use shared::{Backoff, Shared};
use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tracing::{error, info, warn};
use wire::control::{
    JobEnded, JobExit, JobOrder, JobOrders, JobRun, NextJob, RegisterWorker, RunDelivery, WorkerOrders,
};

/// How often the end of threads is looked for during a stop.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(25);
/// How long a stop waits for the threads of runs: those in the middle of a network call come later, or never.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after an answer that brought nothing new: whatever the head thinks, we do not ask in a tight loop.
const REPEATED_PAUSE: Duration = Duration::from_millis(500);
/// Runs that one worker takes, whatever the head believes: each has a thread.
const RUNS_MAX: usize = 1024;

/// Serves as a worker until `stop` is set. Jobs go on without us; the next call on the same directory takes them up.
///
/// Fails if the directory is in use or the head refuses us; a head that cannot be reached is waited for.
pub fn run_worker(config: WorkerConfig, control: Control, stop: Stop) -> Result<()> {
    users::check(&config.users)?;
    let store = RunStore::open(&config.directory)?;
    let finding = probe(&config.shepherd, store.directory(), &config.hidden);
    let users = Users::new(config.users.clone(), finding, &store.identities()?);
    let processors = Processors::of_this_process();
    let slurm = config.slurm.clone().map(|slurm| Slurm::new(slurm, store.directory()));
    // The nodes of a cluster are not asked what they can.
    let can_mount = if slurm.is_some() { Err(not_on_nodes()) } else { users.can_mount() };
    if let Err(failure) = &can_mount {
        info!(%failure, "jobs cannot have the facility mounted here");
    }
    let (runs, door, keys, delivered) = Default::default();
    let can_mount = can_mount.is_ok();
    let shared = Arc::new(Shared {
        config,
        control,
        store,
        users,
        processors,
        slurm,
        stop,
        runs,
        door,
        keys,
        can_mount,
        delivered,
    });
    let mut room = Room { shared, threads: Vec::new() };
    room.recover()?;
    let served = room.serve();
    room.leave();
    served
}

fn not_on_nodes() -> Failure {
    Failure::unsupported("runs are started by Slurm, on its nodes")
}

struct Room {
    shared: Arc<Shared>,
    threads: Vec<(JobRun, JoinHandle<()>)>,
}

impl Room {
    /// Takes up every run that an earlier room left.
    fn recover(&mut self) -> Result<()> {
        for (dir, order) in self.shared.store.all()? {
            info!(job = %order.run.job, attempt = order.run.attempt, phase = ?dir.phase(), "resumed a run that \
                was in progress before the restart");
            if let Some(order) = dir.run_order()? {
                self.shared.processors.restore(dir.id(), order.processors);
            }
            let run = Run::new(dir, order, self.shared.config.log_bytes);
            self.start(run)?;
        }
        Ok(())
    }

    fn start(&mut self, run: Run) -> Result<()> {
        let (id, run) = (run.id(), Arc::new(run));
        self.shared.runs().insert(id, Arc::clone(&run));
        let shared = Arc::clone(&self.shared);
        let body = move || {
            // Out of the list even after a panic: a run that nobody drives must not be announced as held.
            let _listed = RunListEntry { shared: &shared, id };
            run::drive(&shared, &run);
        };
        let thread = thread::Builder::new()
            .name(format!("run-{}.{}", id.job, id.attempt))
            .spawn(body)
            .map_err(|cause| {
                self.shared.runs().remove(&id);
                Failure::io(format!("start a thread for job {}", id.job), &cause)
            })?;
        self.threads.push((id, thread));
        Ok(())
    }

    fn serve(&mut self) -> Result<()> {
        let mut backoff = Backoff::new();
        let (mut is_registered, mut was_registered) = (false, false);
        let mut listed_at = users::list_changed_at();
        while !self.shared.is_stopping() {
            self.collect_threads();
            let changed_at = users::list_changed_at();
            // The head refuses jobs of users whom we did not name.
            is_registered &= changed_at == listed_at;
            listed_at = changed_at;
            let done = if is_registered { self.take_orders() } else { self.register() };
            match done {
                Ok(()) if is_registered => backoff = Backoff::new(),
                Ok(()) => (is_registered, was_registered) = (true, true),
                // A wrong key at the start is for a person to see; later it is the head that is confused.
                Err(failure) if failure.kind == ErrorKind::Permission && !was_registered => {
                    return Err(failure);
                }
                Err(failure) => {
                    if self.shared.is_stopping() {
                        break;
                    }
                    let pause = backoff.next();
                    warn!(%failure, pause_ms = pause.as_millis() as u64, "the head is unreachable or refused \
                        the call; retrying");
                    is_registered = false;
                    self.shared.pause(pause, &|| false);
                }
            }
        }
        Ok(())
    }

    /// Announces every run we hold, and drops what the head gave up.
    fn register(&mut self) -> Result<()> {
        let config = &self.shared.config;
        let call = RegisterWorker {
            worker: config.name.clone(),
            cpus: config.cpus,
            memory_bytes: config.memory_bytes,
            not_enforced: self.shared.not_enforced(None),
            runs: self.shared.runs().keys().copied().collect(),
            users: self.shared.users.job_users(),
            labels: self.shared.labels(),
            architecture: std::env::consts::ARCH.to_owned(),
        };
        let Some(answer) = self.shared.ask(move |control| control.call(&call)) else {
            return Ok(());
        };
        let WorkerOrders { drop, root } = answer?;
        *self.shared.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(root);
        info!(
            worker = config.name,
            head = self.shared.control.address(),
            dropped = drop.len(),
            "worker registered with the head"
        );
        for id in drop {
            if let Some(run) = self.run(id) {
                run.abandon();
                self.shared.stop.nudge();
            }
        }
        Ok(())
    }

    fn take_orders(&mut self) -> Result<()> {
        let call = {
            let run = self.shared.runs();
            let killing = run.values().filter(|run| run.is_cancelled());
            NextJob {
                worker: self.shared.config.name.clone(),
                runs: run.keys().copied().collect(),
                killing: killing.map(|run| run.id()).collect(),
                delivered: self.shared.delivered.load(Ordering::Relaxed),
                // That of this host says nothing of the nodes of a cluster.
                load: match self.shared.slurm {
                    Some(_) => None,
                    None => load::of_this_host(self.shared.store.directory()),
                },
            }
        };
        let Some(answer) = self.shared.ask(move |control| control.call_waiting(&call, WAIT_MAX)) else {
            return Ok(());
        };
        let JobOrders { start, kill, report, deliver, keys } = answer?;
        self.shared.keys.store(keys, Ordering::Release);
        // An order to report is repeated until the head has heard something.
        let is_repeated = !start.is_empty() || !kill.is_empty() || !report.is_empty() || !deliver.is_empty();
        for run in report.into_iter().filter_map(|id| self.run(id)) {
            output_report::begin(&self.shared, &run);
        }
        let mut is_new = false;
        for order in start {
            is_new |= self.accept(order);
        }
        // Behind the orders: a signal may come with the order of its run, whose first answer was lost.
        is_new |= self.deliver(deliver);
        for id in kill {
            is_new |= self.kill(id);
        }
        if is_repeated && !is_new {
            self.shared.pause(REPEATED_PAUSE, &|| false);
        }
        Ok(())
    }

    /// Puts deliveries into the directories of their runs; returns whether one was new. Of a run that is over nothing is left to do.
    fn deliver(&self, deliveries: Vec<RunDelivery>) -> bool {
        let mut last = self.shared.delivered.load(Ordering::Relaxed);
        let before = last;
        for delivery in deliveries {
            let done = self.run(delivery.run).map_or(Ok(()), |run| run.deliver(&delivery));
            match done {
                Err(failure) if failure.kind == ErrorKind::Io && self.run(delivery.run).is_some() => {
                    warn!(job = %delivery.run.job, %failure, "cannot deliver a signal or message; retrying");
                    break;
                }
                Err(failure) => warn!(job = %delivery.run.job, %failure, "dropped a signal or message"),
                Ok(()) => {}
            }
            last = last.max(delivery.number);
        }
        self.shared.delivered.store(last, Ordering::Relaxed);
        last > before
    }

    fn run(&self, id: JobRun) -> Option<Arc<Run>> {
        self.shared.runs().get(&id).cloned()
    }

    /// Takes an order, once; returns whether it was new.
    fn accept(&mut self, order: JobOrder) -> bool {
        let id = order.run;
        if self.run(id).is_some() {
            return false;
        }
        if self.shared.runs().len() >= RUNS_MAX {
            warn!(job = %id.job, runs_max = RUNS_MAX, "too many runs on this worker; the job stays with the head");
            return false;
        }
        let log_bytes = self.shared.config.log_bytes;
        let accepted = self.shared.store.accept(&order);
        let accepted = accepted.and_then(|dir| self.start(Run::new(dir, order, log_bytes)));
        match accepted {
            Ok(()) => info!(job = %id.job, attempt = id.attempt, "job accepted"),
            Err(failure) => {
                error!(job = %id.job, attempt = id.attempt, %failure, "cannot accept a job");
                self.report_ended(id, JobExit::NotStarted(failure));
            }
        }
        true
    }

    /// Ends a run; returns whether that was new.
    fn kill(&mut self, id: JobRun) -> bool {
        match self.run(id) {
            Some(run) => {
                let is_new = run.cancel();
                self.shared.stop.nudge();
                is_new
            }
            None => {
                // The head waits for the end of something that is not here.
                self.report_ended(id, JobExit::Cancelled);
                false
            }
        }
    }

    /// Reports the end of a run that has no directory. If that fails the head repeats its order.
    fn report_ended(&self, id: JobRun, exit: JobExit) {
        let ended = JobEnded::without_text(id, exit);
        if let Some(Err(failure)) = self.shared.ask(move |control| control.call(&ended)) {
            warn!(job = %id.job, attempt = id.attempt, %failure, "the head did not accept the result of a run");
        }
    }

    fn collect_threads(&mut self) {
        for (id, thread) in self.threads.extract_if(.., |(_, thread)| thread.is_finished()) {
            if thread.join().is_err() {
                error!(job = %id.job, attempt = id.attempt, "the thread of a run panicked; the run resumes \
                    when bpd restarts");
            }
        }
    }

    /// Waits a little for the threads of runs. All they have is on disk.
    fn leave(&mut self) {
        let since = Instant::now();
        self.collect_threads();
        while !self.threads.is_empty() && since.elapsed() < STOP_PATIENCE {
            thread::sleep(STOP_LOOK_EVERY);
            self.collect_threads();
        }
        for (id, _) in &self.threads {
            warn!(job = %id.job, attempt = id.attempt, "a network call did not end before shutdown; the run \
                resumes at the next start");
        }
    }
}

/// Takes a run out of the list when its thread ends.
struct RunListEntry<'a> {
    shared: &'a Shared,
    id: JobRun,
}

impl Drop for RunListEntry<'_> {
    fn drop(&mut self) {
        self.shared.runs().remove(&self.id);
        // Wakes the thread that reports what it prints.
        self.shared.stop.nudge();
    }
}
