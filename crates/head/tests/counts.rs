//! What the status says of numbers is exact, however much is listed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::JobId;
use sim::World;
use support::*;
use wire::control::{
    CancelJob, GetStatus, JobSpec, JobState, RequestKind, RequestState, Resources, Status, Submit,
    VolumeState,
};

/// More than the status lists.
const JOBS: usize = 250;

fn submit(world: &mut World, cpus: u32) -> JobId {
    let spec = JobSpec {
        name: "job".into(),
        command: vec!["true".into()],
        resources: Resources { cpus, ..Resources::default() },
        ..JobSpec::default()
    };
    world.user(Submit::new(spec)).unwrap().job
}

fn status(world: &mut World) -> Status {
    world.user(GetStatus {}).unwrap()
}

#[test]
fn jobs_are_counted_beyond_what_is_listed() {
    let mut world = world();
    let jobs: Vec<JobId> = (0..JOBS).map(|_| submit(&mut world, 1)).collect();
    let running = started(&mut world).len();
    assert!(running > 0);
    world.user(CancelJob { job: *jobs.last().unwrap() }).unwrap();
    let status = status(&mut world);
    assert_eq!(status.counts.active_jobs(), JOBS as u64 - 1);
    assert_eq!(status.counts.jobs_in(JobState::Running), running as u64);
    assert_eq!(status.counts.jobs_in(JobState::Queued), (JOBS - 1 - running) as u64);
    assert_eq!(status.workers.iter().map(|worker| worker.cpus_used as usize).sum::<usize>(), running);
    assert_eq!(status.jobs.len(), 200);
    let states: Vec<_> = status.jobs.iter().map(|job| job.state).collect();
    assert!(states[..running].iter().all(|state| *state == JobState::Running), "running ones come first");
    assert!(states[running..].iter().all(|state| *state == JobState::Queued), "then those that wait");
}

#[test]
fn what_ended_comes_after_what_waits_the_last_first() {
    let mut world = world();
    let jobs: Vec<JobId> = (0..4).map(|_| submit(&mut world, 1)).collect();
    for job in [jobs[3], jobs[0]] {
        world.advance(base::Millis(1000));
        world.user(CancelJob { job }).unwrap();
    }
    let listed: Vec<JobId> = status(&mut world).jobs.iter().map(|job| job.id).collect();
    assert_eq!(listed, [jobs[1], jobs[2], jobs[0], jobs[3]]);
}

#[test]
fn requests_and_volumes_are_counted_by_kind_and_state() {
    let mut world = world();
    put_nearline(&mut world, "/a", 10);
    put(&mut world, "/b", 10);
    stage(&mut world, "/a", None).unwrap();
    ask_archive(&mut world, "/b").unwrap();
    let status = status(&mut world);
    assert_eq!((status.requests_len, status.counts.requests_in(RequestState::Queued)), (2, 2));
    let kinds: Vec<_> = status.counts.requests.iter().map(|count| (count.kind, count.requests)).collect();
    assert_eq!(kinds, [(RequestKind::Archive, 1), (RequestKind::Recall, 1)]);
    assert_eq!(status.counts.all_volumes(), status.volumes.len() as u64);
    let used: u64 = status.counts.volumes.iter().map(|count| count.used_bytes).sum();
    assert_eq!(used, status.volumes.iter().map(|volume| volume.used_bytes).sum::<u64>());
    assert!(status.counts.volumes.iter().any(|count| count.state == VolumeState::Appendable));
}
