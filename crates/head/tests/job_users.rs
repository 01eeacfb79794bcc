//! Whose jobs a worker runs: what is refused at submission, what a worker is given, and what jobs wait for.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, JobId, Millis};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    GetStatus, JobExit, JobRun, JobSpec, JobStarted, JobState, JobUsers, RegisterWorker, Submit,
};

fn spec() -> JobSpec {
    JobSpec {
        name: "job".into(),
        command: vec!["true".into()],
        resources: wire::control::Resources::default(),
        ..JobSpec::default()
    }
}

fn submit(world: &mut World, who: Principal) -> base::Result<JobId> {
    world.call(who, Submit::new(spec())).map(|submitted| submitted.job)
}

/// The only worker registers and says whose jobs it runs.
fn register(world: &mut World, users: JobUsers) {
    let call = RegisterWorker {
        worker: WORKER.into(),
        cpus: 4,
        memory_bytes: 1 << 30,
        not_enforced: Vec::new(),
        runs: Vec::new(),
        users,
        labels: Vec::new(),
        architecture: String::new(),
    };
    world.room(call).unwrap();
}

fn only(users: &[&str]) -> JobUsers {
    JobUsers {
        everybody: false,
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        why: "is not root".into(),
        hint: "run it as root".into(),
        ..JobUsers::default()
    }
}

fn refuse(world: &mut World, run: JobRun) {
    end_run(world, run, JobExit::Refused(Failure::permission("host c1 does not know ann").hint("add ann")));
}

#[test]
fn a_job_that_no_worker_runs_is_refused_with_reason_and_hint() {
    let mut world = world();
    register(&mut world, only(&["ann"]));
    assert!(submit(&mut world, user("ann")).is_ok());
    let refused = submit(&mut world, user("bob")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Permission);
    assert_eq!(refused.what, format!("no worker runs jobs of user bob: {WORKER} is not root"));
    assert_eq!(refused.hint.as_deref(), Some("run it as root"));
    let status = world.user(GetStatus {}).unwrap();
    assert_eq!(status.workers[0].users, only(&["ann"]));
}

#[test]
fn a_worker_is_given_only_jobs_that_it_runs_and_the_others_say_why_they_wait() {
    let mut world = world();
    let bob = submit(&mut world, user("bob")).unwrap();
    let ann = submit(&mut world, user("ann")).unwrap();
    register(&mut world, only(&["ann"]));
    let runs = started(&mut world);
    assert_eq!(runs.iter().map(|run| run.job).collect::<Vec<_>>(), [ann], "the older one is not for it");
    let waiting = job(&mut world, bob);
    assert_eq!(waiting.state, JobState::Queued);
    assert_eq!(waiting.reason.unwrap(), format!("no worker runs jobs of user bob: {WORKER} is not root"));
    register(&mut world, JobUsers::default());
    assert!(started(&mut world).iter().any(|run| run.job == bob));
}

#[test]
fn who_submitted_is_proven_at_submission_and_told_to_the_worker() {
    let mut world = world();
    let owner = "operator";
    register(&mut world, JobUsers::default());
    submit(&mut world, Principal::operator(owner)).unwrap();
    submit(&mut world, user(owner)).unwrap();
    submit(&mut world, Principal::operator("somebody")).unwrap();
    let start = orders(&mut world, &[]).start;
    let mut proven: Vec<_> =
        start.iter().map(|order| (order.run.job.0, order.is_of_facility_owner)).collect();
    proven.sort_unstable();
    assert_eq!(proven.iter().map(|(_, is_proven)| *is_proven).collect::<Vec<_>>(), [true, false, false]);
    register(&mut world, JobUsers { owner: true, ..only(&[]) });
    assert!(submit(&mut world, Principal::operator(owner)).is_ok());
    assert_eq!(submit(&mut world, user(owner)).unwrap_err().kind, ErrorKind::Permission);
}

#[test]
fn a_job_that_the_worker_refuses_waits_and_the_next_one_is_refused_at_once() {
    let mut world = world();
    register(&mut world, JobUsers { maybe_others: true, ..only(&[]) });
    let id = submit(&mut world, user("ann")).unwrap();
    let run = started(&mut world)[0];
    refuse(&mut world, run);
    let waiting = job(&mut world, id);
    assert_eq!((waiting.state, waiting.worker), (JobState::Queued, None));
    assert!(waiting.reason.unwrap().ends_with(&format!("{WORKER} refused: host c1 does not know ann")));
    assert!(started(&mut world).is_empty(), "it is not asked again and again");
    let refused = submit(&mut world, user("ann")).unwrap_err();
    assert_eq!((refused.kind, refused.hint.as_deref()), (ErrorKind::Permission, Some("add ann")));
    // Somebody may have added the user since.
    world.now = world.now + Millis::from_seconds(601);
    assert_eq!(started(&mut world), [JobRun { job: id, attempt: 2 }]);
}

#[test]
fn a_worker_that_registers_again_is_asked_again() {
    let mut world = world();
    let id = submit(&mut world, user("ann")).unwrap();
    let run = started(&mut world)[0];
    refuse(&mut world, run);
    assert!(started(&mut world).is_empty());
    register(&mut world, JobUsers::default());
    assert_eq!(started(&mut world), [JobRun { job: id, attempt: 2 }]);
}

#[test]
fn a_job_shows_whom_it_runs_as_and_what_is_not_enforced() {
    let mut world = world();
    let id = submit(&mut world, user("ann")).unwrap();
    let run = started(&mut world)[0];
    let not_enforced = vec!["memory".to_owned()];
    world.room(JobStarted { run, run_as: Some("60001".into()), not_enforced: not_enforced.clone() }).unwrap();
    let info = job(&mut world, id);
    assert_eq!((info.run_as.as_deref(), &info.not_enforced), (Some("60001"), &not_enforced));
    end_run(&mut world, run, JobExit::Limit("scratch".into()));
    let info = job(&mut world, id);
    assert_eq!(info.reason.as_deref(), Some("exceeded a limit: scratch"));
    assert_eq!(info.not_enforced, not_enforced);
}
