//! Which worker a job goes to, of several that ask.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, JobId, Millis};
use head::Principal;
use sim::World;
use support::{WORKER, path, put, refusal, take_in, user, world};
use wire::control::{
    DrainWorker, GetStatus, JobOrders, JobSpec, JobUsers, Jobs, NextJob, RegisterWorker, Role, Submit,
    WaitCause, WorkerLoad,
};

const OTHER: &str = "c1-worker1";

/// A worker of another host, larger than that of the head.
fn with_other() -> World {
    let mut world = world();
    take_in(&mut world, "c1", Role::Cpu);
    let call = RegisterWorker {
        worker: OTHER.into(),
        cpus: 64,
        memory_bytes: 1 << 40,
        not_enforced: Vec::new(),
        runs: Vec::new(),
        users: JobUsers::default(),
        labels: vec!["gpu".into()],
        architecture: "x86_64".into(),
    };
    world.call(Principal::host("c1"), call).unwrap();
    world
}

fn submit(world: &mut World, constraints: &[&str]) -> JobId {
    let spec = JobSpec {
        name: "j".into(),
        command: vec!["true".into()],
        constraints: constraints.iter().map(|label| (*label).into()).collect(),
        ..JobSpec::default()
    };
    world.call(user("ann"), Submit::new(spec)).unwrap().job
}

fn ask(world: &mut World, worker: &str, running_permille: u64) -> Vec<JobId> {
    let load = Some(WorkerLoad { running_permille, ..WorkerLoad::default() });
    let ask = NextJob { worker: worker.into(), runs: Vec::new(), killing: Vec::new(), delivered: 0, load };
    let who = if worker == OTHER { Principal::host("c1") } else { Principal::room("room") };
    let orders: JobOrders = world.call(who, ask).unwrap();
    orders.start.iter().map(|order| order.run.job).collect()
}

#[test]
fn a_job_goes_to_the_worker_with_the_least_load_that_asks() {
    let mut world = with_other();
    let job = submit(&mut world, &[]);
    assert!(ask(&mut world, WORKER, 0).is_empty(), "the other one has more room");
    assert_eq!(ask(&mut world, OTHER, 0), [job]);
    ask(&mut world, OTHER, 64_000_000);
    let job = submit(&mut world, &[]);
    assert_eq!(ask(&mut world, WORKER, 0), [job], "somebody else uses the other one");
}

#[test]
fn a_worker_that_does_not_ask_any_more_keeps_no_job_waiting() {
    let mut world = with_other();
    let job = submit(&mut world, &[]);
    assert!(ask(&mut world, WORKER, 0).is_empty());
    world.now = world.now + Millis::from_seconds(36);
    assert_eq!(ask(&mut world, WORKER, 0), [job]);
}

#[test]
fn a_drained_worker_gets_no_jobs_until_it_is_resumed() {
    let mut world = with_other();
    let drain = |drain| DrainWorker { worker: OTHER.into(), drain };
    assert_eq!(refusal(world.call(user("ann"), drain(true))), ErrorKind::Permission);
    let unknown = DrainWorker { worker: "none".into(), drain: true };
    assert_eq!(refusal(world.user(unknown)), ErrorKind::NotFound);
    world.user(drain(true)).unwrap();
    let job = submit(&mut world, &[]);
    assert!(ask(&mut world, OTHER, 0).is_empty());
    assert_eq!(ask(&mut world, WORKER, 0), [job]);
    let status = world.user(GetStatus {}).unwrap().workers;
    let other = status.into_iter().find(|worker| worker.name == OTHER).unwrap();
    assert!(other.is_draining && other.load.is_some() && other.labels == ["gpu"]);
    world.user(drain(false)).unwrap();
    let job = submit(&mut world, &[]);
    assert_eq!(ask(&mut world, OTHER, 0), [job]);
}

#[test]
fn a_job_goes_only_where_its_labels_are() {
    let mut world = with_other();
    let wide = submit(&mut world, &["gpu", "x86_64"]);
    ask(&mut world, OTHER, 64_000_000);
    assert!(ask(&mut world, WORKER, 0).is_empty());
    assert_eq!(ask(&mut world, OTHER, 64_000_000), [wide]);
}

#[test]
fn a_job_whose_labels_nobody_has_says_which_worker_comes_nearest() {
    let mut world = with_other();
    let why = |world: &mut World, job| {
        let jobs = world.user(Jobs { ids: vec![job], ..Jobs::default() }).unwrap().jobs;
        (jobs[0].waits_for, jobs[0].reason.clone().unwrap())
    };
    let job = submit(&mut world, &["x86_64", "gpu", "ssd"]);
    let (cause, words) = why(&mut world, job);
    assert_eq!(cause, Some(WaitCause::NoWorker));
    assert!(words.contains("x86_64, gpu, ssd") && words.contains("c1-worker1, which lacks ssd;"), "{words}");
    let job = submit(&mut world, &["gpu"]);
    assert_eq!(why(&mut world, job).0, Some(WaitCause::Priority), "one has them all");
}

#[test]
fn a_job_goes_to_the_host_that_has_its_inputs() {
    let mut world = with_other();
    put(&mut world, "/in", 10);
    let job = world.submit(&[path("/in")], &path("/out")).unwrap();
    assert!(ask(&mut world, OTHER, 0).is_empty(), "the disk server is on the head's host");
    assert_eq!(ask(&mut world, WORKER, 0), [job]);
}
