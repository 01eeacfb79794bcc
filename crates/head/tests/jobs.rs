//! Rules of jobs: their states, what runs where, what happens when a run is lost or cancelled.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, JobId, Millis};
use sim::{Mishap, World};
use support::*;
use wire::control::{
    AwaitJobs, Call, CancelJob, FileState, GetBill, GetShares, GetStatus, JobExit, JobLog, JobRun, JobSpec,
    JobStarted, JobState, JobUsers, Jobs, RegisterWorker, SetShare, Submit,
};

fn spec(cpus: u32) -> JobSpec {
    let resources = wire::control::Resources { cpus, ..Default::default() };
    JobSpec { name: "job".into(), command: vec!["true".into()], resources, ..JobSpec::default() }
}

fn submit_as(world: &mut World, owner: &str, cpus: u32) -> JobId {
    world.call(user(owner), Submit::new(spec(cpus))).unwrap().job
}

#[test]
fn what_is_in_the_environment_of_a_job_is_nobody_elses_business() {
    let mut world = world();
    let mut secret = spec(1);
    secret.environment.insert("KEY".into(), "secret".into());
    let job = world.call(user("ann"), Submit::new(secret)).unwrap().job;
    let seen = |world: &mut World, name: &str| {
        let ids = vec![job];
        let mut jobs = world.call(user(name), Jobs { ids, ..Jobs::default() }).unwrap().jobs;
        jobs.remove(0).spec.environment.len()
    };
    assert_eq!((seen(&mut world, "ann"), seen(&mut world, "bob")), (1, 0));
    let awaited = world.call(user("bob"), AwaitJobs { ids: vec![job], ..AwaitJobs::default() }).unwrap();
    assert!(awaited.jobs[0].spec.environment.is_empty());
    let status = world.call(user("ann"), GetStatus {}).unwrap();
    assert!(status.jobs[0].spec.environment.is_empty(), "everybody on the host may see it");
}

/// A job that waits for a nearline input, and whose output is to be archived.
fn held_job(world: &mut World) -> JobId {
    put_nearline(world, "/in", 10);
    world.submit(&[path("/in")], &path("/out")).unwrap()
}

fn queued_job(world: &mut World) -> JobId {
    put(world, "/in", 10);
    world.submit(&[path("/in")], &path("/out")).unwrap()
}

/// The worker starts the only job that can run.
fn start(world: &mut World) -> JobRun {
    let runs = started(world);
    assert_eq!(runs.len(), 1);
    world.room(JobStarted::new(runs[0])).unwrap();
    runs[0]
}

fn cancel(world: &mut World, job: JobId) -> base::Result<wire::control::Done> {
    world.user(CancelJob { job })
}

/// The worker registers after a restart and knows `runs`.
fn register(world: &mut World, runs: &[JobRun]) -> Vec<JobRun> {
    let register = RegisterWorker {
        worker: WORKER.into(),
        cpus: 2,
        memory_bytes: 1 << 30,
        not_enforced: Vec::new(),
        runs: runs.to_vec(),
        users: JobUsers::default(),
        labels: Vec::new(),
        architecture: String::new(),
    };
    world.room(register).unwrap().drop
}

#[test]
fn a_job_is_held_queued_running_archiving_done() {
    let mut world = world();
    let id = held_job(&mut world);
    let held = job(&mut world, id);
    assert_eq!(held.state, JobState::Held);
    assert!(held.reason.unwrap().contains("1 of 1 inputs are not online; /in"));
    assert_eq!(started(&mut world), []);
    run_drive(&mut world);
    assert_eq!(job(&mut world, id).state, JobState::Queued);
    let run = start(&mut world);
    assert_eq!((run.job, run.attempt, job(&mut world, id).state), (id, 1, JobState::Running));
    put(&mut world, "/out", 20);
    end_run(&mut world, run, JobExit::Code(0));
    let archiving = job(&mut world, id);
    assert_eq!(archiving.state, JobState::Archiving);
    assert!(archiving.reason.unwrap().contains("1 of 1 outputs are not on tape; /out"));
    run_drive(&mut world);
    let done = job(&mut world, id);
    assert_eq!((done.state, done.reason, done.exit), (JobState::Done, None, Some(JobExit::Code(0))));
    assert_eq!(state(&mut world, "/out"), FileState::Both);
}

#[test]
fn a_job_waits_for_all_its_inputs() {
    let mut world = world();
    put_nearline(&mut world, "/a", 10);
    put_nearline(&mut world, "/b", 10);
    let id = world.submit(&[path("/a"), path("/b")], &path("/out")).unwrap();
    let session = next_session(&mut world).unwrap();
    let requests = request_ids(&session);
    for (request, expected) in requests.into_iter().zip([JobState::Held, JobState::Queued]) {
        let recalled = wire::control::FileRecalled { session: session.id, request };
        world.room(recalled).unwrap();
        assert_eq!(job(&mut world, id).state, expected);
    }
}

#[test]
fn a_job_with_a_missing_input_fails_at_once() {
    let mut world = world();
    let refused = world.submit(&[path("/missing")], &path("/out"));
    assert_eq!(refusal(refused), ErrorKind::NotFound);
    assert_eq!(world.jobs_active(), 0);
}

#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let mut world = world();
    let mut refused = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = spec(1);
        change(&mut spec);
        assert_eq!(refusal(world.user(Submit::new(spec))), ErrorKind::Invalid);
    };
    refused(&|spec| spec.command.clear());
    refused(&|spec| spec.command.push("a\0b".into()));
    refused(&|spec| drop(spec.environment.insert("A=B".into(), String::new())));
    refused(&|spec| spec.resources.wall = Millis(-1));
    refused(&|spec| spec.resources.cpus = 3);
    refused(&|spec| spec.resources.memory_bytes = 2 << 30);
    refused(&|spec| spec.name = "x".repeat(256));
    refused(&|spec| spec.name = "a\nb".into());
    refused(&|spec| spec.command.push("x".repeat(128 << 10)));
    refused(&|spec| spec.command.extend(std::iter::repeat_n("x".repeat(100_000), 11)));
    refused(&|spec| drop(spec.environment.insert("A".into(), "x".repeat(128 << 10))));
    for name in ["", ".", "..", "/a", "a//b", "a/../b", "./a", "a//", "/", "a\nb", "../*"] {
        refused(&|spec| {
            spec.outputs.push(wire::control::JobOutput { name: name.into(), path: path("/out") });
        });
    }
    refused(&|spec| {
        for at in ["/a", "/b"] {
            spec.outputs.push(wire::control::JobOutput { name: "same".into(), path: path(at) });
        }
    });
    for (first, second) in [
        (("a", "/o"), ("b", "/o")),
        (("a", "/o"), ("b", "/o/b")),
        (("a", "/o/x"), ("b/", "/o/x")),
        (("*", "/o/x/y"), ("b", "/o/x")),
    ] {
        refused(&|spec| {
            for (name, at) in [first, second] {
                spec.outputs.push(wire::control::JobOutput { name: name.into(), path: path(at) });
            }
        });
    }
}

#[test]
fn an_output_does_not_replace_a_file_unless_told_to() {
    let mut world = world();
    put(&mut world, "/there", 10);
    let with = |name: &str, at: &str, replace: bool| {
        let mut spec = spec(1);
        spec.outputs.push(wire::control::JobOutput { name: name.into(), path: path(at) });
        Submit::new(JobSpec { replace, ..spec })
    };
    assert_eq!(refusal(world.user(with("o", "/there", false))), ErrorKind::Exists);
    assert_eq!(refusal(world.user(with("o/", "/there", true))), ErrorKind::NotDirectory);
    assert_eq!(refusal(world.user(with("*.root", "/there", true))), ErrorKind::NotDirectory);
    world.user(with("o", "/there", true)).unwrap();
    world.user(with("o/", "/", false)).unwrap();
    world.user(with("*.root", "/new/directory", false)).unwrap();
}

#[test]
fn a_job_needs_the_right_to_read_its_inputs() {
    let mut world = world();
    put(&mut world, "/in", 10);
    world.user(wire::control::SetMode { path: path("/in"), mode: 0o600 }).unwrap();
    let mut spec = spec(1);
    spec.inputs.push(wire::control::JobInput { path: path("/in"), name: "in".into() });
    assert_eq!(refusal(world.call(user("eve"), Submit::new(spec))), ErrorKind::Permission);
}

#[test]
fn an_order_that_was_lost_on_the_way_is_given_again() {
    let mut world = world();
    queued_job(&mut world);
    let first = started(&mut world);
    assert_eq!(started(&mut world), first);
    assert_eq!(orders(&mut world, &first).start, [], "not once the worker holds it");
}

#[test]
fn a_run_that_a_restarted_worker_never_began_is_begun_again() {
    let mut world = world();
    let id = queued_job(&mut world);
    started(&mut world);
    register(&mut world, &[]);
    assert_eq!(job(&mut world, id).state, JobState::Queued);
    assert_eq!(started(&mut world), [JobRun { job: id, attempt: 2 }]);
}

#[test]
fn a_run_that_had_begun_and_is_lost_is_never_begun_again_unasked() {
    let mut world = world();
    let id = queued_job(&mut world);
    start(&mut world);
    register(&mut world, &[]);
    let lost = job(&mut world, id);
    assert_eq!((lost.state, lost.exit), (JobState::Failed, Some(JobExit::Lost)));
    assert!(lost.reason.unwrap().contains("lost by worker worker1"));
    assert_eq!(started(&mut world), []);
}

#[test]
fn a_run_that_the_worker_still_holds_goes_on_and_an_old_one_is_dropped() {
    let mut world = world();
    let id = queued_job(&mut world);
    let run = start(&mut world);
    let old = JobRun { job: id, attempt: run.attempt - 1 };
    assert_eq!(register(&mut world, &[old, run]), [old]);
    assert_eq!(job(&mut world, id).state, JobState::Running);
}

#[test]
fn a_run_survives_a_crash_of_the_head() {
    let mut world = world();
    put(&mut world, "/in", 10);
    let id = world.submit(&[path("/in")], &path("/out")).unwrap();
    world.work_on_jobs(false);
    assert_eq!(job(&mut world, id).state, JobState::Running);
    world.crash();
    assert_eq!(job(&mut world, id).state, JobState::Running);
}

#[test]
fn a_held_job_is_cancelled_at_once_and_lets_its_inputs_go() {
    let mut world = world();
    let id = held_job(&mut world);
    cancel(&mut world, id).unwrap();
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
    assert_eq!(stat(&mut world, "/in").unwrap().pins, Vec::<String>::new());
}

#[test]
fn a_queued_job_is_cancelled_at_once() {
    let mut world = world();
    let id = queued_job(&mut world);
    cancel(&mut world, id).unwrap();
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
    assert_eq!(started(&mut world), []);
}

#[test]
fn a_running_job_is_killed_then_cancelled() {
    let mut world = world();
    let id = queued_job(&mut world);
    let run = start(&mut world);
    cancel(&mut world, id).unwrap();
    let running = job(&mut world, id);
    assert_eq!((running.state, running.reason.as_deref()), (JobState::Running, Some("is being ended")));
    assert_eq!(orders(&mut world, &[run]).kill, [run]);
    end_run(&mut world, run, JobExit::Cancelled);
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
}

#[test]
fn a_job_that_is_cancelled_before_its_order_arrives_never_runs() {
    let mut world = world();
    let id = queued_job(&mut world);
    started(&mut world);
    cancel(&mut world, id).unwrap();
    assert_eq!(started(&mut world), []);
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
}

#[test]
fn a_job_that_is_cancelled_before_its_worker_restarts_never_runs() {
    let mut world = world();
    let id = queued_job(&mut world);
    started(&mut world);
    cancel(&mut world, id).unwrap();
    register(&mut world, &[]);
    assert_eq!(started(&mut world), []);
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
}

#[test]
fn an_archiving_job_is_cancelled_at_once() {
    let mut world = world();
    let id = queued_job(&mut world);
    let run = start(&mut world);
    put(&mut world, "/out", 20);
    end_run(&mut world, run, JobExit::Code(0));
    cancel(&mut world, id).unwrap();
    run_drive(&mut world);
    assert_eq!(job(&mut world, id).state, JobState::Cancelled);
}

#[test]
fn a_job_that_is_over_is_not_cancelled_and_only_its_owner_cancels_it_before() {
    let mut world = world();
    let id = submit_as(&mut world, "bob", 1);
    let cancel = CancelJob { job: id };
    assert_eq!(refusal(world.call(user("eve"), cancel.clone())), ErrorKind::Permission);
    assert_eq!(refusal(world.call(user("eve"), JobLog { job: id })), ErrorKind::Permission);
    world.call(user("bob"), cancel.clone()).unwrap();
    assert_eq!(refusal(world.call(user("bob"), cancel)), ErrorKind::Invalid);
}

#[test]
fn an_end_that_is_reported_twice_counts_once() {
    let mut world = world();
    submit_as(&mut world, "bob", 2);
    let run = start(&mut world);
    end_run(&mut world, run, JobExit::Code(0));
    end_run(&mut world, run, JobExit::Code(1));
    assert_eq!(job(&mut world, run.job).state, JobState::Done);
    let lines = world.user(GetBill {}).unwrap().lines;
    let bob = lines.iter().find(|line| line.owner == "bob").unwrap();
    assert_eq!((bob.jobs, bob.cpu, bob.slot_wall), (1, Millis(3000), Millis(10_000)));
}

#[test]
fn a_job_fails_with_the_reason_of_its_end() {
    let failure = base::Failure::no_space("pool main is full");
    for (exit, why) in [
        (JobExit::Code(3), "exit code 3"),
        (JobExit::Signal(9), "ended by signal 9"),
        (JobExit::WallLimit, "exceeded its wall time limit"),
        (JobExit::NotStarted(failure.clone()), "could not be started: pool main is full"),
        (JobExit::OutputFailed(failure), "output was not stored: pool main is full"),
    ] {
        let mut world = world();
        let id = submit_as(&mut world, "bob", 1);
        let run = start(&mut world);
        end_run(&mut world, run, exit);
        let job = job(&mut world, id);
        assert_eq!((job.state, job.reason.as_deref()), (JobState::Failed, Some(why)));
    }
}

#[test]
fn a_job_whose_output_is_not_there_fails() {
    let mut world = world();
    let id = queued_job(&mut world);
    let run = start(&mut world);
    end_run(&mut world, run, JobExit::Code(0));
    let job = job(&mut world, id);
    assert_eq!(job.state, JobState::Failed);
    assert!(job.reason.unwrap().contains("output /out is not there"));
}

#[test]
fn a_job_whose_output_is_removed_before_it_is_on_tape_fails() {
    let mut world = world();
    let id = queued_job(&mut world);
    let run = start(&mut world);
    put(&mut world, "/out", 20);
    end_run(&mut world, run, JobExit::Code(0));
    world.user(wire::control::Remove { path: path("/out") }).unwrap();
    assert_eq!(job(&mut world, id).state, JobState::Failed);
}

#[test]
fn owners_take_turns_and_slots_are_never_overcommitted() {
    let mut world = world();
    let ada: Vec<_> = (0..3).map(|_| submit_as(&mut world, "ada", 1)).collect();
    let bob = submit_as(&mut world, "bob", 1);
    let runs = started(&mut world);
    assert_eq!(runs.iter().map(|run| run.job).collect::<Vec<_>>(), [ada[0], bob]);
    assert_eq!(orders(&mut world, &runs).start, []);
    end_run(&mut world, runs[1], JobExit::Code(0));
    let next = orders(&mut world, &runs[..1]).start;
    assert_eq!(next.iter().map(|order| order.run.job).collect::<Vec<_>>(), [ada[1]]);
    let waits = job(&mut world, ada[2]).reason.unwrap();
    let place = "no job goes before it; group ada (share 1) has used 0.0 s of slot time lately";
    assert_eq!(waits, format!("waits for 1 of the CPU slots; 2 of 2 busy; {place}"));
}

/// Starts and ends a run for each free slot again and again; yields how many went to each of two users.
fn serve(world: &mut World, rounds: usize) -> [usize; 2] {
    let (mut runs, mut served) = (Vec::new(), [0, 0]);
    for _ in 0..rounds {
        let start = orders(world, &runs).start;
        for order in &start {
            served[usize::from(order.owner == "bob")] += 1;
        }
        runs.extend(start.iter().map(|order| order.run));
        world.advance(Millis::from_seconds(60));
        let ended = runs.remove(0);
        end_run(world, ended, JobExit::Code(0));
    }
    served
}

/// What all groups have used.
fn group_seconds(world: &mut World) -> f64 {
    let shares = world.user(GetShares {}).unwrap().shares;
    shares.iter().filter(|share| share.user.is_none()).map(|share| share.used_seconds).sum()
}

#[test]
fn slots_are_given_by_share_and_what_was_used_outlives_the_head() {
    let mut world = world();
    let set = |share| SetShare { group: "ada".into(), user: None, share };
    assert_eq!(refusal(world.call(user("ada"), set(9.0))), ErrorKind::Permission);
    assert_eq!(refusal(world.user(set(-1.0))), ErrorKind::Invalid);
    world.user(set(3.0)).unwrap();
    for _ in 0..100 {
        submit_as(&mut world, "ada", 1);
        submit_as(&mut world, "bob", 1);
    }
    let [ada, bob] = serve(&mut world, 80);
    assert!((55..=65).contains(&ada), "{ada} to {bob}");
    let before = group_seconds(&mut world);
    world.crash();
    let after = group_seconds(&mut world);
    assert!((after - before).abs() < 5.0, "{before} and {after}");
    assert!((after - 2.0 * 80.0 * 60.0).abs() < 200.0, "two slots for 80 minutes: {after}");
}

#[test]
fn a_wide_job_is_not_starved_by_narrow_ones() {
    let mut world = world();
    let narrow = submit_as(&mut world, "ada", 1);
    let wide = submit_as(&mut world, "ada", 2);
    submit_as(&mut world, "ada", 1);
    let runs = started(&mut world);
    assert_eq!(runs.iter().map(|run| run.job).collect::<Vec<_>>(), [narrow]);
    assert_eq!(orders(&mut world, &runs).start, [], "the free slot is kept for the wide one");
    end_run(&mut world, runs[0], JobExit::Code(0));
    assert_eq!(started(&mut world), [JobRun { job: wide, attempt: 1 }]);
}

#[test]
fn inputs_are_let_go_when_the_process_is_over() {
    let mut world = world();
    let id = queued_job(&mut world);
    let pins = stat(&mut world, "/in").unwrap().pins;
    assert_eq!(pins, [format!("job {id}")]);
    let run = start(&mut world);
    put(&mut world, "/out", 20);
    end_run(&mut world, run, JobExit::Code(0));
    assert_eq!(job(&mut world, id).state, JobState::Archiving);
    assert_eq!(stat(&mut world, "/in").unwrap().pins, Vec::<String>::new());
}

#[test]
fn a_worker_that_has_not_registered_gets_no_work() {
    let mut world = world();
    let ask = wire::control::NextJob {
        worker: "stranger".into(),
        runs: Vec::new(),
        killing: Vec::new(),
        delivered: 0,
        load: None,
    };
    assert_eq!(refusal(world.room(ask)), ErrorKind::Unavailable);
}

#[test]
fn waiting_ends_when_all_named_jobs_are_over() {
    let mut world = world();
    let ids: Vec<_> = (0..2).map(|_| submit_as(&mut world, "ada", 1)).collect();
    for run in started(&mut world) {
        let reply = world.user(AwaitJobs { ids: ids.clone(), ..AwaitJobs::default() }).unwrap();
        assert!(AwaitJobs::is_pending(&reply));
        end_run(&mut world, run, JobExit::Code(0));
    }
    let reply = world.user(AwaitJobs { ids, ..AwaitJobs::default() }).unwrap();
    assert!(!AwaitJobs::is_pending(&reply));
    assert_eq!(
        refusal(world.user(AwaitJobs { ids: vec![JobId(99)], ..AwaitJobs::default() })),
        ErrorKind::NotFound
    );
}

#[test]
fn a_held_job_says_when_its_recall_failed_for_good() {
    let mut world = world();
    let id = held_job(&mut world);
    for _ in 0..base::limits::TAPE_ATTEMPTS_MAX {
        world.drive(DRIVE, Mishap::FileFails);
        world.advance(Millis::from_seconds(3600));
    }
    let reason = job(&mut world, id).reason.unwrap();
    assert!(reason.contains("recall failed 3 times"), "{reason}");
}
