//! The simulated worker.

use crate::{Content, World, world::WORKER};
use base::{Millis, rng::Rng};
use std::collections::BTreeMap;
use wire::control::{JobEnded, JobExit, JobOrder, JobRun, JobStarted, JobText, NextJob, Usage};

/// How far a run is on the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The order is on disk, nothing runs.
    Ordered,
    /// A shepherd runs it.
    Running,
    /// The exit record is there.
    Exited(i32),
}

/// Runs by number: their directories, which survive a crash.
#[derive(Default)]
pub struct Worker {
    pub(crate) runs: BTreeMap<JobRun, (JobOrder, Stage)>,
}

impl Worker {
    /// Shepherds outlive the daemon: what ran has gone on, some have ended meanwhile.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        for (_, stage) in self.runs.values_mut() {
            if *stage == Stage::Running && rng.chance(1, 2) {
                *stage = Stage::Exited(0);
            }
        }
    }
}

impl World {
    /// Lets the worker ask for orders and move one run a step on. With `crash_between`, dies between two steps of it.
    pub fn work_on_jobs(&mut self, crash_between: bool) {
        let runs: Vec<_> = self.worker.runs.keys().copied().collect();
        let ask = NextJob { worker: WORKER.into(), runs, killing: Vec::new(), delivered: 0, load: None };
        let orders = self.room(ask).expect("a registered worker may ask");
        if crash_between && self.rng.chance(1, 2) {
            return self.crash();
        }
        for order in orders.start {
            for source in &order.inputs {
                let object = self.object(&source.url);
                assert!(
                    self.disk.objects.contains_key(&object),
                    "a job starts before its inputs are on disk"
                );
            }
            let old = self.worker.runs.insert(order.run, (order, Stage::Ordered));
            assert!(old.is_none(), "a run that is held is ordered again");
        }
        for run in orders.kill {
            self.end(run, JobExit::Cancelled);
        }
        let choice = self.rng.below(self.worker.runs.len() as u64) as usize;
        let Some((run, (order, stage))) =
            self.worker.runs.iter().nth(choice).map(|(run, row)| (*run, row.clone()))
        else {
            return;
        };
        match stage {
            Stage::Ordered => {
                self.room(JobStarted::new(run)).expect("a worker may report a start");
                self.set_stage(run, Stage::Running);
            }
            Stage::Running => {
                let code = i32::from(self.rng.chance(1, 10));
                self.set_stage(run, Stage::Exited(code));
            }
            Stage::Exited(code) => {
                if code == 0 {
                    self.store_outputs(&order);
                }
                if crash_between {
                    return self.crash();
                }
                self.end(run, JobExit::Code(code));
            }
        }
    }

    fn set_stage(&mut self, run: JobRun, stage: Stage) {
        if let Some(row) = self.worker.runs.get_mut(&run) {
            row.1 = stage;
        }
    }

    fn store_outputs(&mut self, order: &JobOrder) {
        for output in &order.spec.outputs {
            let content = Content::numbered(100 + self.rng.below(5000), self.rng.next_u64());
            // A full disk or a busy file fails the job in real life; here the output is then simply tried again.
            let _ = self.write(&output.path, content);
        }
    }

    fn end(&mut self, run: JobRun, exit: JobExit) {
        let usage = Usage { cpu: Millis(1000), wall: Millis(2000), memory_bytes_max: 0 };
        let ended = JobEnded { run, exit, usage, text: JobText::default(), stored: Vec::new() };
        self.room(ended).expect("a worker may report an end");
        self.worker.runs.remove(&run);
    }
}
