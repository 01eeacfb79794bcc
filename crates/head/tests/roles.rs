//! Workers and drives of hosts that joined: each host speaks for its own, and silence is not death.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, Result, limits::WORKERS_PER_HOST_MAX};
use head::Principal;
use sim::World;
use support::{WORKER, path, put, refusal, run_drive, state, take_in, user, volume, world};
use wire::{
    auth::token::{Right, TokenKey, enrolment},
    control::{
        Archive, Blame, Cartridge, Done, DriveContent, DriveDevice, EndTapeSession, FileRecalled, FileState,
        FilesArchived, FilesFound, GetHosts, GetJobToken, GetStatus, JobEnded, JobExit, JobInfo, JobOrders,
        JobRun, JobSpec, JobStarted, JobState, JobText, JobUsers, NextJob, NextTapeSession, RegisterLibrary,
        RegisterWorker, RemoveHost, RequestFailed, Resources, Role, Submit, TapePhase, TapeProgress,
        TapeSession, Usage, VolumeSurveyed, WorkerInfo, WorkerOrders,
    },
};

const HOUR: Millis = Millis::from_seconds(3600);

// Workers

fn register_worker(world: &mut World, host: &str, worker: &str, runs: &[JobRun]) -> Result<WorkerOrders> {
    let (cpus, memory_bytes, not_enforced, runs) = (16, 1 << 30, Vec::new(), runs.to_vec());
    let users = JobUsers::default();
    let call = RegisterWorker {
        worker: worker.into(),
        cpus,
        memory_bytes,
        not_enforced,
        runs,
        users,
        labels: Vec::new(),
        architecture: String::new(),
    };
    world.call(Principal::host(host), call)
}

/// A job that only a worker on another host can run, of somebody with a group.
fn submit_wide(world: &mut World) -> base::JobId {
    let who = Principal { groups: vec!["prod".into()], ..user("ann") };
    let resources = Resources { cpus: 4, ..Resources::default() };
    let (name, command) = ("wide".into(), vec!["true".into()]);
    let spec = JobSpec { name, command, resources, ..JobSpec::default() };
    world.call(who, Submit::new(spec)).unwrap().job
}

fn ask(world: &mut World, host: &str, worker: &str, runs: &[JobRun]) -> Result<JobOrders> {
    let ask =
        NextJob { worker: worker.into(), runs: runs.to_vec(), killing: Vec::new(), delivered: 0, load: None };
    world.call(Principal::host(host), ask)
}

fn ended(run: JobRun) -> JobEnded {
    JobEnded {
        run,
        exit: JobExit::Code(0),
        usage: Usage::default(),
        text: JobText::default(),
        stored: Vec::new(),
    }
}

/// A world with a worker on a host, which has been given a job.
fn with_remote_job() -> (World, JobRun) {
    let mut world = world();
    take_in(&mut world, "c1", Role::Cpu);
    register_worker(&mut world, "c1", "c1-worker1", &[]).unwrap();
    let job = submit_wide(&mut world);
    let orders = ask(&mut world, "c1", "c1-worker1", &[]).unwrap().start;
    assert_eq!(orders.len(), 1);
    assert_eq!((orders[0].run.job, &*orders[0].owner), (job, "ann"));
    (world, orders[0].run)
}

fn info(world: &mut World, run: JobRun) -> JobInfo {
    support::job(world, run.job)
}

fn remote_worker(world: &mut World) -> WorkerInfo {
    let workers = world.user(GetStatus {}).unwrap().workers;
    workers.into_iter().find(|worker| worker.name == "c1-worker1").unwrap()
}

#[test]
fn a_host_speaks_for_its_own_workers_only() {
    let (mut world, run) = with_remote_job();
    for host in [Principal::host("c2"), Principal::room("room")] {
        let register = RegisterWorker {
            worker: "c1-worker1".into(),
            cpus: 1,
            memory_bytes: 1,
            not_enforced: Vec::new(),
            runs: Vec::new(),
            users: JobUsers::default(),
            labels: Vec::new(),
            architecture: String::new(),
        };
        assert_eq!(refusal(world.call(host.clone(), register)), ErrorKind::Permission);
        let next = NextJob {
            worker: "c1-worker1".into(),
            runs: Vec::new(),
            killing: Vec::new(),
            delivered: 0,
            load: None,
        };
        assert_eq!(refusal(world.call(host.clone(), next)), ErrorKind::Permission);
        assert_eq!(refusal(world.call(host.clone(), JobStarted::new(run))), ErrorKind::Permission);
        assert_eq!(refusal(world.call(host.clone(), ended(run))), ErrorKind::Permission);
        let token = world.call(host, GetJobToken { run }).err().map(|failure| failure.kind);
        assert_eq!(token, Some(ErrorKind::Permission));
    }
    assert_eq!(refusal(ask(&mut world, "c1", WORKER, &[])), ErrorKind::Permission, "that of the head");
    assert_eq!(refusal(register_worker(&mut world, "c1", WORKER, &[])), ErrorKind::Permission);
    assert_eq!(info(&mut world, run).state, JobState::Running);
    world.call(Principal::host("c1"), JobStarted::new(run)).unwrap();
    world.call(Principal::host("c1"), ended(run)).unwrap();
    assert_eq!(info(&mut world, run).state, JobState::Done);
    world.call(Principal::host("c1"), ended(run)).expect("the answer may have been lost");
}

#[test]
fn a_host_has_so_many_workers_and_no_more() {
    let (mut world, _) = with_remote_job();
    for number in 2..=WORKERS_PER_HOST_MAX {
        register_worker(&mut world, "c1", &format!("c1-worker{number}"), &[]).unwrap();
    }
    let refused = register_worker(&mut world, "c1", "c1-worker0", &[]).err().unwrap();
    assert!(refused.kind == ErrorKind::Busy && refused.hint.is_some(), "{refused}");
    register_worker(&mut world, "c1", "c1-worker2", &[]).unwrap();
    register_worker(&mut world, "c2", "c2-worker1", &[]).unwrap();
}

#[test]
fn a_job_has_a_token_of_its_owner_as_long_as_it_runs() {
    let (mut world, run) = with_remote_job();
    let ask = |world: &mut World| world.call(Principal::host("c1"), GetJobToken { run });
    let token = ask(&mut world).map(|token| token.token).unwrap_or_default();
    let claims = TokenKey::derive(&[7; 32]).verify(&token, "sim", world.now).unwrap();
    assert_eq!(
        (&*claims.subject, claims.groups, claims.scopes.is_none()),
        ("ann", vec!["prod".into()], true)
    );
    assert!(claims.is_of_job, "it makes no jobs");
    let host = world.user(GetHosts {}).unwrap().hosts.remove(0);
    assert_eq!(claims.host, Some(enrolment("c1", host.joined)), "it ends with the host");
    assert!(TokenKey::derive(&[7; 32]).verify(&token, "sim", world.now + HOUR).is_ok());
    let old = JobRun { attempt: 0, ..run };
    let refused = world.call(Principal::host("c1"), GetJobToken { run: old }).err();
    assert_eq!(refused.map(|failure| failure.kind), Some(ErrorKind::NotFound));
    world.call(Principal::host("c1"), ended(run)).unwrap();
    assert_eq!(ask(&mut world).err().map(|failure| failure.kind), Some(ErrorKind::NotFound));
}

#[test]
fn a_job_of_the_operator_has_the_files_and_not_the_facility() {
    let mut world = world();
    register_worker(&mut world, "c1", "c1-worker1", &[]).unwrap();
    put(&mut world, "/in", 10);
    let spec = world.submit(&[path("/in")], &path("/out")).map(|job| support::job(&mut world, job).spec);
    // Without inputs: a job goes to the host that has them.
    let spec = JobSpec { inputs: Vec::new(), ..spec.unwrap() };
    world.call(Principal::operator("operator"), Submit::new(spec)).unwrap();
    let orders = ask(&mut world, "c1", "c1-worker1", &[]).unwrap().start;
    let run = orders.iter().find(|order| order.owner == "operator").unwrap().run;
    let token = world.call(Principal::host("c1"), GetJobToken { run }).ok().unwrap();
    let claims = TokenKey::derive(&[7; 32]).verify(&token.token, "sim", world.now).unwrap();
    assert!(claims.scopes.unwrap().allow(Right::Modify, &path("/any/file")));
}

#[test]
fn a_silent_worker_keeps_its_jobs() {
    let (mut world, run) = with_remote_job();
    world.call(Principal::host("c1"), JobStarted::new(run)).unwrap();
    assert_eq!((remote_worker(&mut world).host, info(&mut world, run).reason), ("c1".into(), None));
    world.advance(HOUR);
    assert!(!remote_worker(&mut world).is_available);
    let shown = info(&mut world, run);
    assert_eq!(shown.state, JobState::Running);
    assert!(shown.reason.unwrap().contains("c1-worker1 is silent"));
    world.crash();
    assert_eq!(info(&mut world, run).state, JobState::Running, "nobody but the worker says that it is lost");
    assert_eq!(refusal(ask(&mut world, "c1", "c1-worker1", &[run])), ErrorKind::Unavailable);
    assert!(register_worker(&mut world, "c1", "c1-worker1", &[run]).unwrap().drop.is_empty());
    assert!(ask(&mut world, "c1", "c1-worker1", &[run]).unwrap().start.is_empty(), "not started twice");
    assert!(remote_worker(&mut world).is_available);
    world.call(Principal::host("c1"), ended(run)).unwrap();
    assert_eq!((info(&mut world, run).state, run.attempt), (JobState::Done, 1));
}

#[test]
fn a_worker_that_was_only_slow_asks_on() {
    let (mut world, run) = with_remote_job();
    world.advance(HOUR);
    assert!(ask(&mut world, "c1", "c1-worker1", &[run]).unwrap().start.is_empty());
    assert!(remote_worker(&mut world).is_available);
}

#[test]
fn what_runs_on_a_host_that_is_turned_away_is_lost_and_what_does_not_is_given_to_others() {
    let (mut world, run) = with_remote_job();
    take_in(&mut world, "c1", Role::Cpu);
    let second = submit_wide(&mut world);
    ask(&mut world, "c1", "c1-worker1", &[run]).unwrap();
    world.call(Principal::host("c1"), JobStarted::new(run)).unwrap();
    world.user(RemoveHost { name: "c1".into(), force: true }).unwrap();
    let first = info(&mut world, run);
    assert_eq!((first.state, first.exit), (JobState::Failed, Some(JobExit::Lost)));
    assert!(first.reason.unwrap().contains("c1 was removed"));
    assert_eq!(support::job(&mut world, second).state, JobState::Queued);
    assert_eq!(world.user(GetStatus {}).unwrap().workers.len(), 1);
    register_worker(&mut world, "c2", "c2-worker1", &[]).unwrap();
    let again = ask(&mut world, "c2", "c2-worker1", &[]).unwrap().start;
    assert_eq!(again[0].run, JobRun { job: second, attempt: 2 });
    // The first worker has it, too, and hears before it begins that it is another's now.
    let before = JobRun { job: second, attempt: 1 };
    assert_eq!(refusal(world.call(Principal::host("c1"), JobStarted::new(before))), ErrorKind::NotFound);
}

// Drives

fn register_library(world: &mut World, host: &str, library: &str, vids: &[&str]) -> Result<Done> {
    let cartridge = |vid: &&str| Cartridge { vid: vid.parse().unwrap(), capacity_bytes: 1 << 30 };
    let drives = vec![DriveContent {
        drive: format!("{library}.drive0"),
        loaded: None,
        device: DriveDevice::default(),
    }];
    let call =
        RegisterLibrary { library: library.into(), drives, cartridges: vids.iter().map(cartridge).collect() };
    world.call(Principal::host(host), call)
}

fn next_remote_session(world: &mut World, host: &str) -> Result<Option<TapeSession>> {
    let call = NextTapeSession { drive: "t1-lib1.drive0".into(), loaded: None };
    world.call(Principal::host(host), call).map(|orders| orders.session)
}

/// A world with a drive on a host that has a session.
fn with_remote_session() -> (World, TapeSession) {
    let mut world = world();
    register_library(&mut world, "t1", "t1-lib1", &["TA0001"]).unwrap();
    put(&mut world, "/f", 10);
    world.user(Archive { paths: vec![path("/f")] }).unwrap();
    let session = next_remote_session(&mut world, "t1").unwrap().unwrap();
    assert_eq!(session.vid.as_str(), "TA0001");
    (world, session)
}

#[test]
fn a_host_speaks_for_its_own_drives_only() {
    let (mut world, TapeSession { id: session, .. }) = with_remote_session();
    let request = base::RequestId(1);
    for host in [Principal::host("t2"), Principal::room("room")] {
        let refused = |kind: ErrorKind, what: &str| assert_eq!(kind, ErrorKind::Permission, "{what}");
        let (bytes_done, used_bytes) = (0, 0);
        let next = NextTapeSession { drive: "t1-lib1.drive0".into(), loaded: None };
        refused(refusal(world.call(host.clone(), next)), "asks");
        let progress = TapeProgress { session, phase: TapePhase::Loading, request: None, bytes_done };
        refused(refusal(world.call(host.clone(), progress)), "progress");
        let archived = FilesArchived { session, copies: Vec::new(), used_bytes };
        refused(refusal(world.call(host.clone(), archived)), "archived");
        refused(refusal(world.call(host.clone(), FileRecalled { session, request })), "recalled");
        let (blame, failure) = (Blame::Drive, base::Failure::internal("x"));
        let failed = RequestFailed { session, request, blame, failure };
        refused(refusal(world.call(host.clone(), failed)), "failed");
        refused(
            refusal(world.call(host.clone(), FilesFound { session, files: Vec::new(), used_bytes })),
            "found",
        );
        refused(
            refusal(world.call(host.clone(), VolumeSurveyed { session, end: None, used_bytes })),
            "surveyed",
        );
        let end = EndTapeSession { session, loads: 0, trouble: None };
        refused(refusal(world.call(host, end)), "ends");
    }
    assert_eq!(refusal(register_library(&mut world, "t2", "t1-lib1", &[])), ErrorKind::Permission);
    assert_eq!(refusal(register_library(&mut world, "t2", "lib1", &[])), ErrorKind::Permission);
    let drives = world.user(GetStatus {}).unwrap().drives;
    let remote: Vec<_> = drives.iter().filter(|drive| drive.host == "t1").map(|drive| &*drive.name).collect();
    assert_eq!(remote, ["t1-lib1.drive0"]);
    let end = EndTapeSession { session, loads: 0, trouble: None };
    world.call(Principal::host("t1"), end).unwrap();
}

#[test]
fn names_of_workers_libraries_and_drives_begin_with_that_of_their_host() {
    let mut world = world();
    for name in ["worker2", "c2-worker1", "c1"] {
        assert_eq!(refusal(register_worker(&mut world, "c1", name, &[])), ErrorKind::Permission, "{name}");
    }
    for name in ["lib2", "t2-lib1", "t1"] {
        assert_eq!(refusal(register_library(&mut world, "t1", name, &[])), ErrorKind::Permission, "{name}");
    }
    let drives = vec![DriveContent { drive: "drv9".into(), loaded: None, device: DriveDevice::default() }];
    let call = RegisterLibrary { library: "t1-lib1".into(), drives, cartridges: Vec::new() };
    assert_eq!(refusal(world.call(Principal::host("t1"), call)), ErrorKind::Permission);
}

#[test]
fn a_cartridge_is_in_the_library_of_one_host() {
    let mut world = world();
    register_library(&mut world, "t1", "t1-lib1", &["TA0001", "TA0002"]).unwrap();
    assert_eq!(refusal(register_library(&mut world, "t2", "t2-lib1", &["TA0002"])), ErrorKind::Exists);
    assert!(world.user(GetStatus {}).unwrap().drives.iter().all(|drive| drive.host != "t2"));
    // It was carried over.
    register_library(&mut world, "t1", "t1-lib1", &["TA0001"]).unwrap();
    assert_eq!(volume(&mut world, "TA0002").library, "");
    register_library(&mut world, "t2", "t2-lib1", &["TA0002"]).unwrap();
    assert_eq!(volume(&mut world, "TA0002").library, "t2-lib1");
}

#[test]
fn a_silent_tape_host_keeps_its_session_until_it_registers_anew() {
    let (mut world, session) = with_remote_session();
    let trouble = |world: &mut World| {
        let drives = world.user(GetStatus {}).unwrap().drives;
        drives.into_iter().find(|drive| drive.host == "t1").unwrap().trouble.unwrap_or_default()
    };
    assert_eq!(trouble(&mut world), "");
    world.advance(HOUR);
    assert_eq!(trouble(&mut world), "its tape server is silent");
    let end = EndTapeSession { session: session.id, loads: 1, trouble: None };
    world.call(Principal::host("t1"), end.clone()).expect("what it did meanwhile counts");
    let second = next_remote_session(&mut world, "t1").unwrap().unwrap();
    assert_eq!(trouble(&mut world), "");
    register_library(&mut world, "t1", "t1-lib1", &["TA0001"]).unwrap();
    let progress =
        |session| TapeProgress { session, phase: TapePhase::Loading, request: None, bytes_done: 0 };
    let late = world.call(Principal::host("t1"), progress(second.id));
    assert_eq!(refusal(late), ErrorKind::NotFound, "its tape server was started again");
}

#[test]
fn drives_of_a_host_that_is_turned_away_are_forgotten_and_their_work_is_queued() {
    let (mut world, _) = with_remote_session();
    take_in(&mut world, "t1", Role::Tape);
    world.user(RemoveHost { name: "t1".into(), force: true }).unwrap();
    assert!(world.user(GetStatus {}).unwrap().drives.iter().all(|drive| drive.host != "t1"));
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), FileState::Both, "a drive of the head has done it");
}
