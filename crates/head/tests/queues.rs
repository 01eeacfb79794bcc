//! Queues, arrays, dependencies, holds, times: what may run, and when.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, JobId, Millis};
use head::Principal;
use sim::World;
use support::*;
use wire::control::{
    AddQueue, AlterJobs, AwaitJobs, Call, CancelJobs, DependencyKind, GetQueues, HoldJobs, HoldKind,
    JobChange, JobDependency, JobExit, JobOutcome, JobRun, JobSelection, JobSpec, JobStarted, JobState, Jobs,
    MoveJobs, QueueKind, QueueResources, QueueSettings, ReleaseJobs, RemoveQueue, RerunJobs, Resources,
    SetRunLimit, SignalJobs, Submit, Submitted, SwitchQueue, WaitCause,
};

fn spec() -> JobSpec {
    let resources = Resources { cpus: 1, ..Resources::default() };
    JobSpec { name: "job".into(), command: vec!["true".into()], resources, ..JobSpec::default() }
}

fn operator() -> Principal {
    Principal::operator("operator")
}

fn submit_as(world: &mut World, who: &str, spec: JobSpec) -> JobId {
    world.call(user(who), Submit::new(spec)).unwrap().job
}

fn submit(world: &mut World, spec: JobSpec) -> JobId {
    submit_as(world, "ann", spec)
}

fn array(world: &mut World, range: &str) -> Submitted {
    let submit = Submit { array: Some(range.parse().unwrap()), ..Submit::new(spec()) };
    world.call(user("ann"), submit).unwrap()
}

/// The jobs that the worker starts, beside those that it runs.
fn starts(world: &mut World, runs: &mut Vec<JobRun>) -> Vec<u64> {
    let new: Vec<_> = orders(world, runs).start.into_iter().map(|order| order.run).collect();
    for run in &new {
        world.room(JobStarted::new(*run)).unwrap();
    }
    runs.extend(&new);
    new.into_iter().map(|run| run.job.0).collect()
}

fn end(world: &mut World, runs: &mut Vec<JobRun>, code: i32) {
    let run = runs.remove(0);
    end_run(world, run, JobExit::Code(code));
}

fn named(text: &str) -> Vec<JobSelection> {
    vec![text.parse().unwrap()]
}

fn after(kind: DependencyKind, job: &str) -> JobSpec {
    JobSpec { dependencies: vec![JobDependency { kind, job: Some(job.parse().unwrap()) }], ..spec() }
}

fn queue(world: &mut World, name: &str, settings: QueueSettings) {
    world.call(operator(), AddQueue { queue: name.into(), settings }).unwrap();
}

fn cause(world: &mut World, id: JobId) -> Option<WaitCause> {
    job(world, id).waits_for
}

fn one(outcomes: base::Result<wire::control::JobOutcomes>) -> JobOutcome {
    outcomes.unwrap().outcomes.remove(0)
}

#[test]
fn an_array_with_a_bound_runs_so_many_at_a_time() {
    let mut world = world();
    let submitted = array(&mut world, "1-10%1");
    assert_eq!((submitted.job, submitted.count), (JobId(1), 10));
    let mut runs = Vec::new();
    assert_eq!(starts(&mut world, &mut runs), [1]);
    assert_eq!(cause(&mut world, JobId(2)), Some(WaitCause::ArrayLimit));
    let change = JobChange { running_max: Some(2), ..JobChange::default() };
    one(world.call(user("ann"), AlterJobs { jobs: named("1_2"), change }));
    assert_eq!(starts(&mut world, &mut runs), [2]);
    end(&mut world, &mut runs, 0);
    assert_eq!(starts(&mut world, &mut runs), [3]);
    let first = world.user(Jobs { ids: vec![JobId(1)], ..Jobs::default() }).unwrap().jobs.remove(0);
    assert_eq!((first.state, first.elements), (JobState::Done, None), "an id is one job");
    let first = AwaitJobs { ids: vec![JobId(1)], ..AwaitJobs::default() };
    let awaited = world.user(first.clone()).unwrap();
    assert_eq!(
        (awaited.jobs.len(), AwaitJobs::is_pending(&awaited)),
        (1, false),
        "an id is one job here, too"
    );
    let awaited = world.user(AwaitJobs { select: named("1"), ..first }).unwrap();
    assert_eq!((awaited.jobs.len(), AwaitJobs::is_pending(&awaited)), (10, true), "each element once");
    let shown = world.user(Jobs { select: named("1"), ..Jobs::default() }).unwrap().jobs.remove(0);
    let elements = shown.elements.unwrap();
    assert_eq!((elements.count, elements.states["done"], elements.states["running"]), (10, 1, 2));
    assert_eq!(elements.waiting[0].to_string(), "4-10");
    assert_eq!(world.user(Jobs { elements: true, ..Jobs::default() }).unwrap().jobs.len(), 10);
    assert_eq!(world.user(Jobs::default()).unwrap().jobs.len(), 1, "an array is one entry");
}

#[test]
fn elements_of_an_array_know_their_index_and_are_named_by_it() {
    let mut world = world();
    array(&mut world, "0-8:4,20");
    let shown = world.user(Jobs { select: named("1_[4-8]"), ..Jobs::default() }).unwrap().jobs;
    assert_eq!(shown.iter().map(|job| job.array.unwrap().index).collect::<Vec<_>>(), [4, 8]);
    let order = orders(&mut world, &[]).start.remove(0).array.unwrap();
    assert_eq!((order.element.index, order.count, order.index_min, order.index_max), (0, 4, 0, 20));
    let cancelled = one(world.call(user("ann"), CancelJobs { jobs: named("1_20") }));
    assert_eq!((cancelled.changed, cancelled.failure), (1, None));
    assert_eq!(job(&mut world, JobId(4)).state, JobState::Cancelled);
    let refused = one(world.call(user("ann"), CancelJobs { jobs: named("1_3") }));
    assert_eq!(refused.failure.unwrap().kind, ErrorKind::NotFound);
    let refused = one(world.call(user("eve"), CancelJobs { jobs: named("1") }));
    assert_eq!(refused.failure.unwrap().kind, ErrorKind::Permission);
}

#[test]
fn a_chain_runs_one_after_the_other_and_ends_where_one_fails() {
    let mut world = world();
    let first = submit(&mut world, spec());
    let second = submit(&mut world, after(DependencyKind::AfterOk, "1"));
    let third = submit(&mut world, after(DependencyKind::AfterOk, "2"));
    let cleans_up = submit(&mut world, after(DependencyKind::AfterNotOk, "2"));
    let fourth = submit(&mut world, JobSpec { cancel_if_never: true, ..after(DependencyKind::AfterOk, "3") });
    let mut runs = Vec::new();
    assert_eq!(starts(&mut world, &mut runs), [first.0]);
    assert_eq!(cause(&mut world, second), Some(WaitCause::Dependency));
    assert!(job(&mut world, second).reason.unwrap().contains("job 1 has ended well"));
    end(&mut world, &mut runs, 0);
    assert_eq!(starts(&mut world, &mut runs), [second.0]);
    end(&mut world, &mut runs, 1);
    assert_eq!(cause(&mut world, third), Some(WaitCause::DependencyNeverSatisfied));
    assert_eq!(starts(&mut world, &mut runs), [cleans_up.0]);
    one(world.call(user("ann"), CancelJobs { jobs: named("3") }));
    assert_eq!(job(&mut world, fourth).state, JobState::Cancelled, "it can never run, and asked for that");
}

#[test]
fn jobs_wait_for_whole_arrays_and_elements_for_elements() {
    let mut world = world();
    array(&mut world, "1-2");
    let all = submit(&mut world, after(DependencyKind::AfterOk, "1"));
    let one = submit(&mut world, after(DependencyKind::AfterOk, "1_2"));
    let corresponding =
        Submit { array: Some("1-2".parse().unwrap()), ..Submit::new(after(DependencyKind::AfterCorr, "1")) };
    let corresponding = world.call(user("ann"), corresponding).unwrap().job;
    let mut runs = Vec::new();
    assert_eq!(starts(&mut world, &mut runs), [1, 2]);
    runs.reverse();
    end(&mut world, &mut runs, 0);
    let mut state = |id| {
        let jobs = Jobs { ids: vec![id], elements: true, ..Jobs::default() };
        world.user(jobs).unwrap().jobs.remove(0).state
    };
    let states = [all, one, corresponding, JobId(corresponding.0 + 1)].map(&mut state);
    assert_eq!(states, [JobState::Held, JobState::Queued, JobState::Held, JobState::Queued]);
    end(&mut world, &mut runs, 0);
    assert_eq!([all, corresponding].map(|id| job(&mut world, id).state), [JobState::Queued; 2]);
}

#[test]
fn one_of_a_name_at_a_time() {
    let mut world = world();
    let alone = || JobSpec {
        dependencies: vec![JobDependency { kind: DependencyKind::Singleton, job: None }],
        ..spec()
    };
    for _ in 0..3 {
        submit(&mut world, alone());
    }
    let mut runs = Vec::new();
    for expected in 1..=3 {
        assert_eq!(starts(&mut world, &mut runs), [expected]);
        end(&mut world, &mut runs, 0);
    }
}

#[test]
fn a_hold_keeps_a_job_until_who_may_releases_it() {
    let mut world = world();
    let held = submit(&mut world, JobSpec { held: true, ..spec() });
    let other = submit(&mut world, spec());
    assert_eq!(cause(&mut world, held), Some(WaitCause::HeldByUser));
    let hold = HoldJobs { jobs: named("2"), hold: None };
    assert_eq!(one(world.call(operator(), hold)).failure, None);
    assert_eq!(job(&mut world, other).holds, [HoldKind::Operator]);
    assert_eq!(started(&mut world), []);
    let release = |text: &str| ReleaseJobs { jobs: named(text), hold: None };
    assert_eq!(one(world.call(user("ann"), release("2"))).failure.unwrap().kind, ErrorKind::Permission);
    assert_eq!(one(world.call(user("eve"), release("1"))).failure.unwrap().kind, ErrorKind::Permission);
    assert_eq!(one(world.call(user("ann"), release("1"))).changed, 1);
    assert_eq!(one(world.call(operator(), release("2"))).changed, 1);
    assert_eq!(started(&mut world).len(), 2);
}

#[test]
fn a_job_begins_when_its_time_has_come_and_fails_when_it_has_passed() {
    let mut world = world();
    let now = world.now;
    let hour = Millis::from_seconds(3600);
    let later = submit(&mut world, JobSpec { begin: Some(now + hour), ..spec() });
    assert_eq!(cause(&mut world, later), Some(WaitCause::BeginTime));
    let held = submit(&mut world, JobSpec { deadline: Some(now + hour), held: true, ..spec() });
    assert_eq!(started(&mut world), []);
    world.advance(hour);
    assert_eq!(started(&mut world).len(), 1);
    let failed = job(&mut world, held);
    assert_eq!(failed.state, JobState::Failed);
    assert!(failed.reason.unwrap().contains("deadline"));
}

#[test]
fn a_run_that_is_too_late_is_ended_and_has_failed() {
    let mut world = world();
    let deadline = Some(world.now + Millis::from_seconds(60));
    let id = submit(&mut world, JobSpec { deadline, ..spec() });
    let mut runs = Vec::new();
    starts(&mut world, &mut runs);
    world.advance(Millis::from_seconds(61));
    assert_eq!(orders(&mut world, &runs).kill, runs);
    end_run(&mut world, runs[0], JobExit::Cancelled);
    assert_eq!(job(&mut world, id).state, JobState::Failed);
}

#[test]
fn what_fails_is_tried_again_after_a_pause_as_often_as_asked() {
    let mut world = world();
    let id = submit(&mut world, JobSpec { retries: 1, ..spec() });
    let mut runs = Vec::new();
    starts(&mut world, &mut runs);
    end(&mut world, &mut runs, 3);
    assert_eq!(cause(&mut world, id), Some(WaitCause::Retry));
    assert_eq!(starts(&mut world, &mut runs), [0u64; 0]);
    world.advance(Millis::from_seconds(11));
    assert_eq!(starts(&mut world, &mut runs), [id.0]);
    assert_eq!(runs[0].attempt, 2);
    end(&mut world, &mut runs, 3);
    assert_eq!(job(&mut world, id).state, JobState::Failed);
}

#[test]
fn a_job_runs_again_only_if_it_allows_it() {
    let mut world = world();
    let never = submit(&mut world, spec());
    let again = submit(&mut world, JobSpec { rerunnable: true, ..spec() });
    let mut runs = Vec::new();
    starts(&mut world, &mut runs);
    let rerun = |id: JobId| RerunJobs { jobs: vec![id.into()] };
    assert!(one(world.call(user("ann"), rerun(never))).failure.is_some());
    assert_eq!(one(world.call(user("ann"), rerun(again))).changed, 1);
    assert_eq!(orders(&mut world, &runs).kill, [runs[1]]);
    end_run(&mut world, runs[1], JobExit::Cancelled);
    assert_eq!(job(&mut world, again).state, JobState::Queued);
    runs.pop();
    assert_eq!(starts(&mut world, &mut runs), [again.0]);
    runs.reverse();
    end(&mut world, &mut runs, 0);
    assert_eq!(one(world.call(user("ann"), rerun(again))).changed, 1, "one that is done, too");
    assert_eq!(job(&mut world, again).state, JobState::Queued);
}

#[test]
fn a_stopped_queue_runs_nothing_and_a_disabled_one_accepts_nothing() {
    let mut world = world();
    let id = submit(&mut world, spec());
    let switch = SwitchQueue { queue: "batch".into(), started: Some(false), ..SwitchQueue::default() };
    assert_eq!(refusal(world.call(user("ann"), switch.clone())), ErrorKind::Permission);
    world.call(operator(), switch).unwrap();
    assert_eq!(started(&mut world), []);
    assert_eq!(cause(&mut world, id), Some(WaitCause::QueueStopped));
    let switch = SwitchQueue {
        queue: "batch".into(),
        started: Some(true),
        enabled: Some(false),
        ..SwitchQueue::default()
    };
    world.call(operator(), switch).unwrap();
    let refused = world.call(user("ann"), Submit::new(spec())).unwrap_err();
    assert!(refused.what.contains("queue batch is disabled"), "{refused}");
    assert_eq!(started(&mut world).len(), 1, "what it has accepted runs");
    let unknown = JobSpec { queue: Some("nowhere".into()), ..spec() };
    let refused = world.call(user("ann"), Submit::new(unknown)).unwrap_err();
    assert!(refused.hint.unwrap().contains("the queues are batch"));
}

#[test]
fn limits_hold_per_user_per_queue_and_for_all() {
    let mut world = world();
    let settings = QueueSettings { user_run_limit: Some(1), ..QueueSettings::default() };
    queue(&mut world, "short", settings);
    let short = || JobSpec { queue: Some("short".into()), ..spec() };
    submit(&mut world, short());
    let second = submit(&mut world, short());
    let mut runs = Vec::new();
    assert_eq!(starts(&mut world, &mut runs), [1]);
    assert_eq!(cause(&mut world, second), Some(WaitCause::UserLimit));
    let other = submit_as(&mut world, "bob", short());
    world.call(operator(), SetRunLimit { run_limit: Some(1) }).unwrap();
    assert_eq!(starts(&mut world, &mut runs), [0u64; 0]);
    assert_eq!(cause(&mut world, other), Some(WaitCause::RunLimit));
    world.call(operator(), SetRunLimit { run_limit: None }).unwrap();
    assert_eq!(starts(&mut world, &mut runs), [other.0], "changed while jobs wait");
}

#[test]
fn a_pipe_queue_routes_to_the_least_loaded_that_takes_the_job() {
    let mut world = world();
    let small = QueueResources { cpus: Some(1), ..QueueResources::default() };
    queue(&mut world, "one", QueueSettings { ceilings: small, ..QueueSettings::default() });
    queue(&mut world, "two", QueueSettings::default());
    let destinations = vec!["one".into(), "two".into()];
    queue(
        &mut world,
        "any",
        QueueSettings { kind: QueueKind::Pipe, destinations, ..QueueSettings::default() },
    );
    let any = |cpus| {
        let resources = Resources { cpus, ..Resources::default() };
        JobSpec { queue: Some("any".into()), resources, ..spec() }
    };
    let mut queue_of = |cpus| {
        let id = submit(&mut world, any(cpus));
        job(&mut world, id).queue
    };
    assert_eq!([queue_of(1), queue_of(1), queue_of(2), queue_of(1)], ["one", "two", "two", "one"]);
    for name in ["one", "two"] {
        let switch = SwitchQueue { queue: name.into(), enabled: Some(false), ..SwitchQueue::default() };
        world.call(operator(), switch).unwrap();
    }
    let kept = submit(&mut world, any(1));
    assert_eq!(job(&mut world, kept).queue, "any", "it waits until one accepts it");
    let switch = SwitchQueue { queue: "two".into(), enabled: Some(true), ..SwitchQueue::default() };
    world.call(operator(), switch).unwrap();
    assert_eq!(job(&mut world, kept).queue, "two");
    assert_eq!(refusal(world.call(operator(), RemoveQueue { queue: "two".into() })), ErrorKind::Invalid);
}

#[test]
fn a_queue_gives_defaults_and_refuses_what_is_above_its_ceilings() {
    let mut world = world();
    let defaults = QueueResources { wall: Some(Millis(60_000)), ..QueueResources::default() };
    let ceilings = QueueResources { wall: Some(Millis(120_000)), cpus: Some(1), ..QueueResources::default() };
    queue(&mut world, "short", QueueSettings { defaults, ceilings, ..QueueSettings::default() });
    let wish = |cpus, wall| {
        let resources = Resources { cpus, memory_bytes: 0, wall: Millis(wall) };
        JobSpec { queue: Some("short".into()), resources, ..spec() }
    };
    let id = submit(&mut world, wish(0, 0));
    let given = job(&mut world, id).spec.resources;
    assert_eq!((given.cpus, given.wall), (1, Millis(60_000)));
    for (cpus, wall) in [(2, 0), (1, 120_001)] {
        assert_eq!(refusal(world.call(user("ann"), Submit::new(wish(cpus, wall)))), ErrorKind::Invalid);
    }
    let wide =
        submit(&mut world, JobSpec { resources: Resources { cpus: 2, ..Resources::default() }, ..spec() });
    let moved = one(world.call(user("ann"), MoveJobs { jobs: vec![wide.into()], queue: "short".into() }));
    assert!(moved.failure.unwrap().what.contains("1 CPU slot at most"));
    let narrow = submit(
        &mut world,
        JobSpec { resources: Resources { wall: Millis(1000), ..Resources::default() }, ..spec() },
    );
    assert_eq!(
        one(world.call(user("ann"), MoveJobs { jobs: vec![narrow.into()], queue: "short".into() })).changed,
        1
    );
    let shown = world.user(GetQueues {}).unwrap().queues;
    assert_eq!(
        shown.iter().map(|queue| (queue.name.as_str(), queue.queued)).collect::<Vec<_>>(),
        [("batch", 1), ("short", 2)]
    );
}

#[test]
fn what_no_worker_has_is_refused_and_the_nearest_is_named() {
    let mut world = world();
    let resources = Resources { cpus: 9, ..Resources::default() };
    let refused = world.call(user("ann"), Submit::new(JobSpec { resources, ..spec() })).unwrap_err();
    assert!(refused.hint.as_ref().unwrap().contains("the nearest is"), "{refused:?}");
}

#[test]
fn the_same_key_is_the_same_job_also_after_a_crash() {
    let mut world = world();
    let submit = |key: &str| Submit {
        key: Some(key.into()),
        array: Some("1-3".parse().unwrap()),
        ..Submit::new(spec())
    };
    let first = world.call(user("ann"), submit("k")).unwrap();
    world.crash();
    assert_eq!(world.call(user("ann"), submit("k")).unwrap(), first);
    assert_ne!(world.call(user("bob"), submit("k")).unwrap(), first, "keys are a user's own");
    assert_ne!(world.call(user("ann"), submit("other")).unwrap(), first);
}

#[test]
fn users_lower_priorities_and_operators_raise_them() {
    let mut world = world();
    let wide = || JobSpec { resources: Resources { cpus: 2, ..Resources::default() }, ..spec() };
    let low = submit(&mut world, JobSpec { priority: -5, ..wide() });
    let normal = submit(&mut world, wide());
    let change = |id: JobId, priority| {
        let change = JobChange { priority: Some(priority), ..JobChange::default() };
        AlterJobs { jobs: vec![id.into()], change }
    };
    assert_eq!(
        refusal(world.call(user("ann"), Submit::new(JobSpec { priority: 1, ..spec() }))),
        ErrorKind::Permission
    );
    assert!(one(world.call(user("ann"), change(low, 0))).failure.is_some());
    assert_eq!(orders(&mut world, &[]).start[0].run.job, normal);
    let last = submit(&mut world, spec());
    one(world.call(operator(), change(last, 7)));
    assert_eq!(job(&mut world, last).priority, 7);
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let mut world = world();
    let id = submit(&mut world, spec());
    let change = JobChange { name: Some("other".into()), running_max: Some(2), ..JobChange::default() };
    let refused = one(world.call(user("ann"), AlterJobs { jobs: vec![id.into()], change }));
    assert!(refused.failure.unwrap().what.contains("is not of an array"));
    assert_eq!(job(&mut world, id).spec.name, "job");
}

#[test]
fn an_array_waits_for_other_jobs_as_a_whole() {
    let mut world = world();
    let first = submit(&mut world, JobSpec { held: true, ..spec() });
    let depends = after(DependencyKind::AfterOk, "1");
    let range = Some("1-3".parse().unwrap());
    let array = world.call(user("ann"), Submit { array: range, ..Submit::new(depends) }).unwrap().job;
    let free = JobChange { dependencies: Some(Vec::new()), ..JobChange::default() };
    for part in ["2_1", "3"] {
        let alter = AlterJobs { jobs: named(part), change: free.clone() };
        let refused = world.call(user("ann"), alter).unwrap_err();
        assert!(refused.hint.unwrap().contains("name job 2"), "{}", refused.what);
    }
    assert_eq!(job(&mut world, array).state, JobState::Held);
    let alter = AlterJobs { jobs: vec![array.into()], change: free };
    assert_eq!(one(world.call(user("ann"), alter)).changed, 3);
    assert_eq!(job(&mut world, array).spec.dependencies, []);
    assert_eq!([1, 2].map(|at| job(&mut world, JobId(first.0 + at)).state), [JobState::Queued; 2]);
}

#[test]
fn a_job_whose_input_is_gone_does_not_run_again_and_keeps_nothing() {
    let mut world = world();
    let inputs = ["/a", "/b"].map(|name| {
        put(&mut world, name, 10);
        wire::control::JobInput { path: path(name), name: name[1..].into() }
    });
    let id = submit(&mut world, JobSpec { rerunnable: true, inputs: inputs.into(), ..spec() });
    let mut runs = Vec::new();
    starts(&mut world, &mut runs);
    end(&mut world, &mut runs, 0);
    world.user(wire::control::Remove { path: path("/b") }).unwrap();
    let refused = one(world.call(user("ann"), RerunJobs { jobs: vec![id.into()] })).failure.unwrap();
    assert!(refused.what.contains("input /b of job 1 was removed"), "{}", refused.what);
    assert_eq!(stat(&mut world, "/a").unwrap().pins, Vec::<String>::new());
}

#[test]
fn a_signal_reaches_the_worker_once() {
    let mut world = world();
    let id = submit(&mut world, spec());
    let signal = || SignalJobs { jobs: vec![id.into()], signal: 10 };
    assert!(one(world.call(user("ann"), signal())).failure.unwrap().what.contains("does not run"));
    let mut runs = Vec::new();
    starts(&mut world, &mut runs);
    one(world.call(user("ann"), signal()));
    let ask = |delivered| wire::control::NextJob {
        worker: WORKER.into(),
        runs: runs.clone(),
        killing: Vec::new(),
        delivered,
        load: None,
    };
    let order = world.room(ask(0)).unwrap().deliver.remove(0);
    assert_eq!((order.run, &order.what), (runs[0], &wire::control::Delivered::Signal(10)));
    assert_eq!(world.room(ask(0)).unwrap().deliver.len(), 1, "until the worker says that it has it");
    assert!(world.room(ask(order.number)).unwrap().deliver.is_empty());
}

#[test]
fn a_refused_call_leaves_the_queue_as_it_was() {
    let mut world = world();
    submit(&mut world, spec());
    let before = world.user(GetQueues {}).unwrap();
    let missing = JobSpec { dependencies: after(DependencyKind::AfterOk, "77").dependencies, ..spec() };
    assert_eq!(refusal(world.call(user("ann"), Submit::new(missing))), ErrorKind::NotFound);
    assert_eq!(world.user(GetQueues {}).unwrap(), before);
}

#[test]
fn a_large_array_is_stored_once_and_waits_for_nothing() {
    let mut world = world();
    let submitted = array(&mut world, "1-100000");
    assert_eq!(submitted.count, 100_000);
    assert_eq!(started(&mut world).len(), 2);
    assert_eq!(one(world.call(user("ann"), HoldJobs { jobs: named("1_[1-9]"), hold: None })).changed, 9);
    let listed = world.user(Jobs { active_only: true, ..Jobs::default() }).unwrap().jobs;
    assert_eq!(listed[0].elements.as_ref().unwrap().count, 100_000);
    let some = Jobs { select: named("1"), elements: true, limit: Some(5), ..Jobs::default() };
    let some = world.user(some).unwrap();
    assert_eq!((some.jobs.len(), some.is_cut), (5, true), "what is left out is said");
}

#[test]
fn a_brief_list_leaves_out_what_is_long() {
    let mut world = world();
    let environment = [("X".to_owned(), "1".to_owned())].into();
    let id = submit(&mut world, JobSpec { script: Some("#!/bin/sh".to_owned()), environment, ..spec() });
    let shown = |world: &mut World, brief| {
        world.call(user("ann"), Jobs { ids: vec![id], brief, ..Jobs::default() }).unwrap().jobs.remove(0).spec
    };
    let (whole, brief) = (shown(&mut world, false), shown(&mut world, true));
    assert_eq!((whole.script.as_deref(), whole.environment.len()), (Some("#!/bin/sh"), 1));
    assert_eq!((brief.script.as_deref(), brief.environment.len(), brief.name), (Some(""), 0, whole.name));
}
