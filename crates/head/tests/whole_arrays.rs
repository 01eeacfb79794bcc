//! What is done to whole arrays, and what waits for workers while the head is away.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::JobId;
use sim::World;
use support::*;
use wire::control::{
    AddQueue, ArrayRange, CancelJobs, Delivered, DependencyKind, DrainWorker, EventType, GetEvents, HoldJobs,
    HoldKind, JobDependency, JobExit, JobOutcome, JobRun, JobSelection, JobSpec, JobStarted, JobState, Jobs,
    MessageJobs, MoveJobs, NextJob, QueueSettings, ReleaseJobs, Resources, SignalJobs, Submit,
};

fn spec() -> JobSpec {
    let resources = Resources { cpus: 1, ..Resources::default() };
    JobSpec { command: vec!["true".into()], resources, ..JobSpec::default() }
}

fn submit(world: &mut World, spec: JobSpec, range: Option<&str>) -> JobId {
    let array = range.map(|range| range.parse::<ArrayRange>().unwrap());
    world.call(user("ann"), Submit { array, ..Submit::new(spec) }).unwrap().job
}

fn named(job: JobId) -> Vec<JobSelection> {
    vec![job.into()]
}

fn one(outcomes: base::Result<wire::control::JobOutcomes>) -> JobOutcome {
    outcomes.unwrap().outcomes.remove(0)
}

/// States of the elements of an array, by their index.
fn states(world: &mut World, array: JobId) -> Vec<JobState> {
    let ask = Jobs { select: named(array), elements: true, ..Jobs::default() };
    world.user(ask).unwrap().jobs.iter().map(|job| job.state).collect()
}

/// The worker starts what it can.
fn start(world: &mut World) -> Vec<JobRun> {
    let runs = started(world);
    for run in &runs {
        world.room(JobStarted::new(*run)).unwrap();
    }
    runs
}

fn after(kind: DependencyKind, array: JobId) -> JobSpec {
    let job = Some(array.to_string().parse().unwrap());
    JobSpec { dependencies: vec![JobDependency { kind, job }], cancel_if_never: true, ..spec() }
}

#[test]
fn a_cancelled_array_ends_what_waits_and_tells_what_runs() {
    use JobState::{Cancelled, Running};
    let mut world = world();
    put(&mut world, "/in", 10);
    let input = wire::control::JobInput { path: path("/in"), name: "in".into() };
    let array = submit(&mut world, JobSpec { inputs: vec![input], ..spec() }, Some("1-5"));
    let runs = start(&mut world);
    assert_eq!(one(world.call(user("bob"), CancelJobs { jobs: named(array) })).changed, 0, "it is not his");
    let done = one(world.call(user("ann"), CancelJobs { jobs: named(array) }));
    assert_eq!((done.changed, done.failure), (5, None));
    assert_eq!(states(&mut world, array), [Running, Running, Cancelled, Cancelled, Cancelled]);
    assert_eq!(job(&mut world, JobId(array.0 + 4)).reason.unwrap(), "cancelled by ann");
    assert_eq!(orders(&mut world, &runs).kill, runs);
    for run in runs {
        end_run(&mut world, run, JobExit::Cancelled);
    }
    assert_eq!(states(&mut world, array), [Cancelled; 5]);
    assert_eq!(stat(&mut world, "/in").unwrap().pins, Vec::<String>::new(), "its input may go");
    let told = world.user(GetEvents::default()).unwrap().events;
    let told: Vec<_> = told.iter().filter(|event| event.kind == EventType::JobCancelled).collect();
    assert_eq!(told.len(), 3, "one for what waited, one for each that ran: {told:?}");
    assert_eq!(told[0].what, "3 jobs of array 1 of ann: cancelled by ann");
    let again = one(world.call(user("ann"), CancelJobs { jobs: named(array) }));
    assert!(again.failure.unwrap().what.contains("all jobs of array 1 are over"));
}

#[test]
fn jobs_that_waited_for_a_cancelled_array_are_looked_at() {
    let mut world = world();
    let array = submit(&mut world, JobSpec { held: true, ..spec() }, Some("1-3"));
    let [any, ok, not_ok] = [DependencyKind::AfterAny, DependencyKind::AfterOk, DependencyKind::AfterNotOk]
        .map(|kind| submit(&mut world, after(kind, array), None));
    let alike = submit(&mut world, after(DependencyKind::AfterCorr, array), Some("1-3"));
    let last = submit(&mut world, after(DependencyKind::AfterOk, ok), None);
    one(world.call(user("ann"), CancelJobs { jobs: named(array) }));
    let told = [any, ok, not_ok, last].map(|id| job(&mut world, id).state);
    assert_eq!(told, [JobState::Queued, JobState::Cancelled, JobState::Queued, JobState::Cancelled]);
    assert_eq!(states(&mut world, alike), [JobState::Cancelled; 3]);
}

#[test]
fn a_held_array_starts_nothing_until_all_its_holds_are_gone() {
    let mut world = world();
    let array = submit(&mut world, spec(), Some("1-4"));
    let hold = |hold| HoldJobs { jobs: named(array), hold };
    assert_eq!(one(world.call(user("ann"), hold(None))).changed, 4);
    assert_eq!(states(&mut world, array), [JobState::Held; 4]);
    let refused = one(world.call(user("ann"), hold(Some(HoldKind::Operator)))).failure.unwrap();
    assert!(refused.what.contains("operator"), "{refused}");
    assert_eq!(one(world.user(hold(Some(HoldKind::Operator)))).changed, 4);
    assert_eq!(job(&mut world, array).holds, [HoldKind::User, HoldKind::Operator]);
    let release = |hold| ReleaseJobs { jobs: named(array), hold };
    let refused = one(world.call(user("ann"), release(None)));
    assert_eq!(refused.changed, 0);
    assert!(refused.failure.unwrap().what.contains("has the hold of the operator"));
    assert_eq!(one(world.call(user("ann"), release(Some(HoldKind::User)))).changed, 4);
    assert_eq!(start(&mut world), []);
    assert_eq!(one(world.user(release(None))).changed, 4);
    assert_eq!(start(&mut world).len(), 2);
}

#[test]
fn a_moved_array_leaves_what_runs() {
    let mut world = world();
    world.user(AddQueue { queue: "long".into(), settings: QueueSettings::default() }).unwrap();
    let array = submit(&mut world, spec(), Some("1-4"));
    start(&mut world);
    let moved = one(world.call(user("ann"), MoveJobs { jobs: named(array), queue: "long".into() }));
    assert_eq!(moved.changed, 2);
    assert!(moved.failure.unwrap().what.contains("is running and stays in queue"));
    let queues = [0, 3].map(|at| job(&mut world, JobId(array.0 + at)).queue);
    assert_eq!(queues[1], "long");
    assert_ne!(queues[0], "long");
}

#[test]
fn a_large_array_is_held_released_and_cancelled_by_few_statements() {
    let mut world = world();
    let array = submit(&mut world, spec(), Some("1-100000"));
    let changes = [
        one(world.call(user("ann"), HoldJobs { jobs: named(array), hold: None })).changed,
        one(world.call(user("ann"), ReleaseJobs { jobs: named(array), hold: None })).changed,
        one(world.call(user("ann"), CancelJobs { jobs: named(array) })).changed,
    ];
    assert_eq!(changes, [100_000; 3]);
    assert_eq!(start(&mut world), []);
}

#[test]
fn signals_and_messages_survive_the_head() {
    let mut world = world();
    // One that the simulation does not start again by itself.
    world.user(DrainWorker { worker: WORKER.into(), drain: true }).unwrap();
    register(&mut world, &[]);
    let id = submit(&mut world, spec(), None);
    let ask = |world: &mut World, runs: &[JobRun], delivered| {
        let (worker, runs) = (SECOND.into(), runs.to_vec());
        let ask = NextJob { worker, runs, killing: Vec::new(), delivered, load: None };
        world.room(ask).unwrap()
    };
    let run = ask(&mut world, &[], 0).start[0].run;
    world.room(JobStarted::new(run)).unwrap();
    world.call(user("ann"), SignalJobs { jobs: named(id), signal: 10 }).unwrap();
    let message = MessageJobs { jobs: named(id), text: "soon".into(), to_stdout: false };
    world.call(user("ann"), message).unwrap();
    let ask = |world: &mut World, delivered| ask(world, &[run], delivered).deliver;
    let before = ask(&mut world, 0);
    world.crash();
    register(&mut world, &[run]);
    let after = ask(&mut world, 0);
    assert_eq!(after, before);
    assert_eq!(
        after.iter().map(|one| one.what.clone()).collect::<Vec<_>>(),
        [Delivered::Signal(10), Delivered::ToStderr("soon".into())]
    );
    assert_eq!(ask(&mut world, after[0].number), after[1..]);
    assert!(ask(&mut world, after[1].number).is_empty());
    world.call(user("ann"), SignalJobs { jobs: named(id), signal: 12 }).unwrap();
    let next = ask(&mut world, after[1].number);
    assert!(next[0].number > after[1].number, "numbers go on, also when the rows are gone");
}

const SECOND: &str = "second";

fn register(world: &mut World, runs: &[JobRun]) {
    let register = wire::control::RegisterWorker {
        worker: SECOND.into(),
        cpus: 2,
        memory_bytes: 1 << 30,
        not_enforced: Vec::new(),
        runs: runs.to_vec(),
        users: wire::control::JobUsers::default(),
        labels: Vec::new(),
        architecture: String::new(),
    };
    world.room(register).unwrap();
}
