//! Replays of traces: what must hold of every scheduler, and what fair share is for.

use base::rng::Rng;
use sim::replay::{Figures, Scheduler, Trace, TraceJob, replay};
use std::collections::BTreeMap;

fn job(submitted: i64, ran: i64, cpus: u32, user: u32) -> TraceJob {
    TraceJob { submitted, ran, cpus, user, group: 1, queue: 1 }
}

fn trace_of(cpus: u32, jobs: Vec<TraceJob>) -> Trace {
    Trace { jobs, left_out: 0, cpus }
}

fn schedulers(trace: &Trace) -> [(&'static str, Scheduler); 3] {
    [
        ("backplane", Scheduler::backplane(trace)),
        ("fifo", Scheduler::fifo(trace)),
        ("classic", Scheduler::classic(trace)),
    ]
}

/// Jobs of a few users who submit in bursts.
fn random(seed: u64, count: usize) -> Trace {
    let mut rng = Rng::new(seed);
    let mut at = 0;
    let jobs = (0..count).map(|_| {
        at += if rng.chance(1, 10) { rng.below(600) as i64 } else { 0 };
        job(at, rng.below(3000) as i64, 1 + rng.below(8) as u32, rng.below(6) as u32)
    });
    trace_of(16, jobs.collect())
}

#[test]
fn no_job_starts_before_it_came_and_no_processor_is_given_twice() {
    for seed in 0..20 {
        let trace = random(seed, 400);
        for (name, scheduler) in schedulers(&trace) {
            let started = replay(&trace, scheduler);
            let mut changes: BTreeMap<i64, i64> = BTreeMap::new();
            for (job, start) in trace.jobs.iter().zip(&started) {
                assert!(*start >= job.submitted, "{name}, seed {seed}: {job:?} started at {start}");
                *changes.entry(*start).or_default() += i64::from(job.cpus);
                *changes.entry(start + job.ran.max(1)).or_default() -= i64::from(job.cpus);
            }
            let mut held = 0;
            for (at, change) in changes {
                held += change;
                assert!(held <= i64::from(trace.cpus), "{name}, seed {seed}: {held} processors at {at}");
            }
        }
    }
}

#[test]
fn a_replay_is_the_same_each_time() {
    let trace = random(7, 300);
    let [one, other] = [(); 2].map(|()| replay(&trace, Scheduler::backplane(&trace)));
    assert_eq!(one, other);
}

#[test]
fn one_user_waits_in_the_order_of_submission() {
    let trace = trace_of(2, vec![job(0, 10, 2, 1), job(1, 10, 1, 1), job(2, 10, 2, 1), job(3, 1, 1, 1)]);
    for (name, scheduler) in schedulers(&trace) {
        // The last one would fit beside the second, but a wide job of before holds the slots.
        assert_eq!(replay(&trace, scheduler), [0, 10, 20, 30], "{name}");
    }
}

#[test]
fn who_submits_a_thousand_jobs_does_not_keep_others_waiting() {
    let mut jobs: Vec<_> = (0..1000).map(|_| job(0, 600, 1, 1)).collect();
    jobs.extend((0..10).map(|number| job(3600 * (1 + number), 600, 1, 2)));
    let trace = trace_of(8, jobs);
    let wait_of_second = |scheduler| {
        let figures = Figures::of(&trace, &replay(&trace, scheduler));
        figures.users.iter().find(|user| user.user == 2).expect("they have jobs").wait_mean
    };
    let [ours, fifo, _] = schedulers(&trace).map(|(_, scheduler)| wait_of_second(scheduler));
    assert!(ours <= 600.0, "the next slot that is free is theirs: {ours} s");
    assert!(fifo > 10.0 * 600.0, "{fifo} s");
}

#[test]
fn figures_of_a_known_replay() {
    let trace = trace_of(2, vec![job(0, 100, 2, 1), job(0, 100, 1, 2), job(200, 1, 1, 1)]);
    let figures = Figures::of(&trace, &replay(&trace, Scheduler::fifo(&trace)));
    assert_eq!((figures.wait_p50, figures.wait_p99, figures.makespan), (0, 100, 201));
    assert!((figures.utilisation - 0.75).abs() < 1e-9, "{}", figures.utilisation);
    assert!((figures.wait_mean - 100.0 / 3.0).abs() < 1e-9);
}
