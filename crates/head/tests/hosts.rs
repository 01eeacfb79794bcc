//! Hosts join by invitation, speak for themselves only, and are turned away.

mod support;

use base::{ErrorKind, Millis, Result};
use head::Principal;
use sim::World;
use support::{WORKER, open_write, path, put, refusal, run_drive, state, user, volume, world};
use wire::{
    control::{
        AbandonWrite, AddInvitation, AdmitHost, Archive, BeginWrite, Cartridge, ChangeCertificate,
        CommitWrite, DiskServer, Disposition, Done, DriveContent, EndTapeSession, FileRecalled,
        FilesArchived, FilesFound, GetHosts, GetJobToken, GetStatus, JobEnded, JobExit, JobInfo, JobOrders,
        JobRun, JobSpec, JobStarted, JobState, JobText, NextJob, NextRemovals, NextTapeSession, OpenRead,
        ReadGrant, RegisterLibrary, RegisterPartition, RegisterWorker, RemoveHost, ReportSpace,
        RequestFailed, Resources, Role, Submit, TapePhase, TapeProgress, TapeSession, Usage, VolumeSurveyed,
        WorkerInfo, WorkerOrders, WriteGrant,
    },
    token::{Right, TokenKey},
};

const HOUR: Millis = Millis::from_seconds(3600);

fn invite(world: &mut World, hash: &str) {
    let expires = world.now + HOUR;
    let call = AddInvitation { hash: hash.into(), roles: vec![Role::Disk], expires };
    world.room(call).expect("the head keeps an invitation");
}

fn admit(world: &mut World, hash: &str, name: &str, key: &str) -> Result<Done> {
    let certificate = format!("certificate of {key}");
    let roles = vec![Role::Disk];
    world.room(AdmitHost { hash: hash.into(), name: name.into(), roles, key: key.into(), certificate })
}

/// A partition of `host`, in a pool that nobody else has.
fn registration(host: &str, boot: u64) -> RegisterPartition {
    RegisterPartition {
        server: DiskServer { name: host.into(), root: format!("{host}:1094"), https: format!("{host}:8443") },
        boot,
        pool: "main".into(),
        partition: format!("{host}-disk1"),
        total_bytes: 1 << 40,
        free_bytes: 1 << 40,
    }
}

/// A world in which the most room is on another host.
fn with_far_disk() -> World {
    let mut world = world();
    world.call(Principal::host("d1"), registration("d1", 1)).expect("a host may register its own");
    world
}

fn begin_far(world: &mut World) -> WriteGrant {
    let grant = world.user(open_write("/f", Disposition::Replace, 10)).expect("there is room");
    assert_eq!(grant.server.as_ref().map(|server| &*server.root), Some("d1:1094"));
    grant
}

fn commit(grant: &WriteGrant) -> CommitWrite {
    CommitWrite {
        object: grant.object,
        size: 9,
        checksums: base::Checksums::of(b"123456789"),
        mirrors: Vec::new(),
    }
}

fn report(boot: u64, writing: &[&WriteGrant]) -> ReportSpace {
    ReportSpace {
        partition: "d1-disk1".into(),
        boot,
        writing: writing.iter().map(|grant| grant.object).collect(),
        total_bytes: 1 << 40,
        free_bytes: 1 << 40,
    }
}

#[test]
fn an_invitation_is_good_once() {
    let mut world = world();
    assert_eq!(refusal(admit(&mut world, "h", "d1", "k")), ErrorKind::Permission, "nobody is invited");
    invite(&mut world, "h");
    admit(&mut world, "h", "d1", "k").unwrap();
    assert_eq!(refusal(admit(&mut world, "h", "d2", "k2")), ErrorKind::Permission, "used by another");
    assert_eq!(refusal(admit(&mut world, "h", "d1", "k2")), ErrorKind::Permission, "used with another key");
    admit(&mut world, "h", "d1", "k").unwrap();
    assert_eq!(world.user(GetHosts {}).unwrap().hosts.len(), 1);
}

#[test]
fn an_invitation_ends_and_allows_what_it_says() {
    let mut world = world();
    invite(&mut world, "h");
    let call = AdmitHost {
        hash: "h".into(),
        name: "t1".into(),
        roles: vec![Role::Tape],
        key: "k".into(),
        certificate: "c".into(),
    };
    assert!(world.room(call).unwrap_err().what.contains("not for the role tape"));
    world.advance(HOUR);
    assert!(admit(&mut world, "h", "d1", "k").unwrap_err().what.contains("expired"));
}

#[test]
fn a_name_is_taken_once_and_must_be_plain() {
    let mut world = world();
    for hash in ["a", "b", "c"] {
        invite(&mut world, hash);
    }
    admit(&mut world, "a", "d1", "k").unwrap();
    assert_eq!(refusal(admit(&mut world, "b", "d1", "other")), ErrorKind::Exists);
    for name in ["", "D1", "a b", "a/b", "sim", &"x".repeat(65)] {
        assert!(admit(&mut world, "b", name, "other").is_err(), "{name:?}");
    }
    world.user(RemoveHost { name: "d1".into() }).unwrap();
    let hosts = world.user(GetHosts {}).unwrap().hosts;
    assert!(hosts[0].removed.is_some() && hosts[0].certificates.is_empty());
    assert_eq!(refusal(world.user(RemoveHost { name: "d1".into() })), ErrorKind::NotFound);
    admit(&mut world, "b", "d1", "other").unwrap();
}

#[test]
fn a_new_certificate_replaces_the_old_one_when_it_is_used() {
    let mut world = world();
    invite(&mut world, "h");
    admit(&mut world, "h", "d1", "k").unwrap();
    let change = ChangeCertificate { name: "d1".into(), certificate: "new".into() };
    let shown = |world: &mut World| world.user(GetHosts {}).unwrap().hosts[0].certificates.clone();
    world.call(Principal::host("d1"), change.clone()).unwrap();
    assert_eq!(shown(&mut world), ["certificate of k", "new"]);
    world.call(Principal::host("d1"), change.clone()).unwrap();
    assert_eq!(shown(&mut world), ["new"]);
    assert_eq!(refusal(world.call(Principal::host("d2"), change)), ErrorKind::Permission);
}

#[test]
fn a_host_speaks_for_its_own_partitions_only() {
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
    let stranger = || Principal::host("d2");
    let partition = || "d1-disk1".to_owned();
    assert_eq!(refusal(world.call(stranger(), registration("d1", 2))), ErrorKind::Permission);
    let stolen = RegisterPartition { partition: partition(), ..registration("d2", 1) };
    assert_eq!(refusal(world.call(stranger(), stolen)), ErrorKind::Permission);
    assert_eq!(refusal(world.call(stranger(), report(1, &[]))), ErrorKind::Permission);
    let removals = NextRemovals { partition: partition() };
    assert_eq!(refusal(world.call(stranger(), removals)), ErrorKind::Permission);
    let begin = BeginWrite { object: grant.object, is_update: false };
    assert_eq!(refusal(world.call(stranger(), begin)), ErrorKind::Permission);
    assert_eq!(refusal(world.call(stranger(), commit(&grant))), ErrorKind::Permission);
    let abandon = AbandonWrite { object: grant.object };
    assert_eq!(refusal(world.call(stranger(), abandon)), ErrorKind::Permission);
}

#[test]
fn a_write_elsewhere_is_begun_and_committed_by_its_disk_server() {
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
    let disk = || Principal::host("d1");
    let begun = world.call(disk(), BeginWrite { object: grant.object, is_update: false }).unwrap();
    assert_eq!((begun.object, begun.base, begun.expected_bytes), (grant.object, None, 10));
    world.call(disk(), commit(&grant)).unwrap();
    world.call(disk(), commit(&grant)).unwrap();
    let other = CommitWrite { size: 8, ..commit(&grant) };
    assert_eq!(refusal(world.call(disk(), other)), ErrorKind::NotFound);
    let ReadGrant::Online(object) = world.user(OpenRead { path: path("/f") }).unwrap() else { panic!() };
    assert_eq!((object.object, object.server.unwrap().name.as_str()), (grant.object, "d1"));
    let update = world.user(open_write("/f", Disposition::Update, 0)).unwrap();
    let begun = world.call(disk(), BeginWrite { object: update.object, is_update: true }).unwrap();
    assert_eq!(begun.base.unwrap().object, grant.object);
}

#[test]
fn a_head_that_starts_again_ends_no_write_of_a_disk_server_that_runs_on() {
    let mut world = with_far_disk();
    let grant = begin_far(&mut world);
    world.crash();
    world.call(Principal::host("d1"), registration("d1", 1)).unwrap();
    world.call(Principal::host("d1"), commit(&grant)).unwrap();
    let second = begin_far(&mut world);
    world.call(Principal::host("d1"), registration("d1", 2)).unwrap();
    assert_eq!(refusal(world.call(Principal::host("d1"), commit(&second))), ErrorKind::NotFound);
}

#[test]
fn a_reservation_that_nobody_begins_is_given_up() {
    let mut world = with_far_disk();
    let (begun, other) = (begin_far(&mut world), open_write("/g", Disposition::Replace, 10));
    let unbegun = world.user(other).unwrap();
    let disk = || Principal::host("d1");
    world.call(disk(), report(1, &[&begun])).unwrap();
    world.advance(HOUR);
    world.call(disk(), report(1, &[&begun])).unwrap();
    world.call(disk(), commit(&begun)).unwrap();
    assert_eq!(refusal(world.call(disk(), commit(&unbegun))), ErrorKind::NotFound);
}

#[test]
fn a_disk_server_that_the_head_takes_for_an_earlier_start_registers_again() {
    let mut world = with_far_disk();
    assert_eq!(refusal(world.call(Principal::host("d1"), report(2, &[]))), ErrorKind::NotFound);
    world.crash();
    world.call(Principal::host("d1"), report(1, &[])).unwrap();
    begin_far(&mut world);
}

// Workers

fn register_worker(world: &mut World, host: &str, worker: &str, runs: &[JobRun]) -> Result<WorkerOrders> {
    let (cpus, memory_bytes, not_enforced, runs) = (16, 1 << 30, Vec::new(), runs.to_vec());
    let call = RegisterWorker { worker: worker.into(), cpus, memory_bytes, not_enforced, runs };
    world.call(Principal::host(host), call)
}

/// A job that only a worker on another host can run, of somebody with a group.
fn submit_wide(world: &mut World) -> base::JobId {
    let who = Principal { groups: vec!["prod".into()], ..user("ann") };
    let resources = Resources { cpus: 4, ..Resources::default() };
    let (inputs, outputs, archive) = (Vec::new(), Vec::new(), false);
    let (name, command, environment) = ("wide".into(), vec!["true".into()], Default::default());
    let spec = JobSpec { name, command, resources, inputs, outputs, archive, environment };
    world.call(who, Submit { spec }).unwrap().job
}

fn ask(world: &mut World, host: &str, worker: &str, runs: &[JobRun]) -> Result<JobOrders> {
    let ask = NextJob { worker: worker.into(), runs: runs.to_vec(), killing: Vec::new() };
    world.call(Principal::host(host), ask)
}

fn ended(run: JobRun) -> JobEnded {
    JobEnded { run, exit: JobExit::Code(0), usage: Usage::default(), text: JobText::default() }
}

/// A world with a worker on a host, which has been given a job.
fn with_far_job() -> (World, JobRun) {
    let mut world = world();
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

fn far_worker(world: &mut World) -> WorkerInfo {
    let workers = world.user(GetStatus {}).unwrap().workers;
    workers.into_iter().find(|worker| worker.name == "c1-worker1").unwrap()
}

#[test]
fn a_host_speaks_for_its_own_workers_only() {
    let (mut world, run) = with_far_job();
    for host in [Principal::host("c2"), Principal::room("room")] {
        let register = RegisterWorker {
            worker: "c1-worker1".into(),
            cpus: 1,
            memory_bytes: 1,
            not_enforced: Vec::new(),
            runs: Vec::new(),
        };
        assert_eq!(refusal(world.call(host.clone(), register)), ErrorKind::Permission);
        let next = NextJob { worker: "c1-worker1".into(), runs: Vec::new(), killing: Vec::new() };
        assert_eq!(refusal(world.call(host.clone(), next)), ErrorKind::Permission);
        assert_eq!(refusal(world.call(host.clone(), JobStarted { run })), ErrorKind::Permission);
        assert_eq!(refusal(world.call(host.clone(), ended(run))), ErrorKind::Permission);
        let token = world.call(host, GetJobToken { run }).err().map(|failure| failure.kind);
        assert_eq!(token, Some(ErrorKind::Permission));
    }
    assert_eq!(refusal(ask(&mut world, "c1", WORKER, &[])), ErrorKind::Permission, "that of the head");
    assert_eq!(refusal(register_worker(&mut world, "c1", WORKER, &[])), ErrorKind::Permission);
    assert_eq!(info(&mut world, run).state, JobState::Running);
    world.call(Principal::host("c1"), JobStarted { run }).unwrap();
    world.call(Principal::host("c1"), ended(run)).unwrap();
    assert_eq!(info(&mut world, run).state, JobState::Done);
    world.call(Principal::host("c1"), ended(run)).expect("the answer may have been lost");
}

#[test]
fn a_job_has_a_token_of_its_owner_as_long_as_it_runs() {
    let (mut world, run) = with_far_job();
    let ask = |world: &mut World| world.call(Principal::host("c1"), GetJobToken { run });
    let token = ask(&mut world).map(|token| token.token).unwrap_or_default();
    let claims = TokenKey::derive(&[7; 32]).verify(&token, "sim", world.now).unwrap();
    assert_eq!(
        (&*claims.subject, claims.groups, claims.scopes.is_none()),
        ("ann", vec!["prod".into()], true)
    );
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
    world.call(Principal::operator("operator"), Submit { spec: spec.unwrap() }).unwrap();
    let orders = ask(&mut world, "c1", "c1-worker1", &[]).unwrap().start;
    let run = orders.iter().find(|order| order.owner == "operator").unwrap().run;
    let token = world.call(Principal::host("c1"), GetJobToken { run }).ok().unwrap();
    let claims = TokenKey::derive(&[7; 32]).verify(&token.token, "sim", world.now).unwrap();
    assert!(claims.scopes.unwrap().allow(Right::Modify, &path("/any/file")));
}

#[test]
fn a_silent_worker_keeps_its_jobs() {
    let (mut world, run) = with_far_job();
    world.call(Principal::host("c1"), JobStarted { run }).unwrap();
    assert_eq!((far_worker(&mut world).host, info(&mut world, run).reason), ("c1".into(), None));
    world.advance(HOUR);
    assert!(!far_worker(&mut world).is_available);
    let shown = info(&mut world, run);
    assert_eq!(shown.state, JobState::Running);
    assert!(shown.reason.unwrap().contains("c1-worker1 is silent"));
    world.crash();
    assert_eq!(info(&mut world, run).state, JobState::Running, "nobody but the worker says that it is lost");
    assert_eq!(refusal(ask(&mut world, "c1", "c1-worker1", &[run])), ErrorKind::Unavailable);
    assert!(register_worker(&mut world, "c1", "c1-worker1", &[run]).unwrap().drop.is_empty());
    assert!(ask(&mut world, "c1", "c1-worker1", &[run]).unwrap().start.is_empty(), "not started twice");
    assert!(far_worker(&mut world).is_available);
    world.call(Principal::host("c1"), ended(run)).unwrap();
    assert_eq!((info(&mut world, run).state, run.attempt), (JobState::Done, 1));
}

#[test]
fn a_worker_that_was_only_slow_asks_on() {
    let (mut world, run) = with_far_job();
    world.advance(HOUR);
    assert!(ask(&mut world, "c1", "c1-worker1", &[run]).unwrap().start.is_empty());
    assert!(far_worker(&mut world).is_available);
}

#[test]
fn what_runs_on_a_host_that_is_turned_away_is_lost_and_what_does_not_is_given_to_others() {
    let (mut world, run) = with_far_job();
    invite(&mut world, "h");
    admit(&mut world, "h", "c1", "k").unwrap();
    let second = submit_wide(&mut world);
    ask(&mut world, "c1", "c1-worker1", &[run]).unwrap();
    world.call(Principal::host("c1"), JobStarted { run }).unwrap();
    world.user(RemoveHost { name: "c1".into() }).unwrap();
    let first = info(&mut world, run);
    assert_eq!((first.state, first.exit), (JobState::Failed, Some(JobExit::Lost)));
    assert!(first.reason.unwrap().contains("c1 was turned away"));
    assert_eq!(support::job(&mut world, second).state, JobState::Queued);
    assert_eq!(world.user(GetStatus {}).unwrap().workers.len(), 1);
    register_worker(&mut world, "c2", "c2-worker1", &[]).unwrap();
    let again = ask(&mut world, "c2", "c2-worker1", &[]).unwrap().start;
    assert_eq!(again[0].run, JobRun { job: second, attempt: 2 });
}

// Drives

fn register_library(world: &mut World, host: &str, library: &str, vids: &[&str]) -> Result<Done> {
    let cartridge = |vid: &&str| Cartridge { vid: vid.parse().unwrap(), capacity_bytes: 1 << 30 };
    let drives = vec![DriveContent { drive: format!("{library}.drive0"), loaded: None }];
    let call =
        RegisterLibrary { library: library.into(), drives, cartridges: vids.iter().map(cartridge).collect() };
    world.call(Principal::host(host), call)
}

fn next_far_session(world: &mut World, host: &str) -> Result<Option<TapeSession>> {
    let call = NextTapeSession { drive: "t1-lib1.drive0".into(), loaded: None };
    world.call(Principal::host(host), call).map(|orders| orders.session)
}

/// A world with a drive on a host that has a session.
fn with_far_session() -> (World, TapeSession) {
    let mut world = world();
    register_library(&mut world, "t1", "t1-lib1", &["TA0001"]).unwrap();
    put(&mut world, "/f", 10);
    world.user(Archive { paths: vec![path("/f")] }).unwrap();
    let session = next_far_session(&mut world, "t1").unwrap().unwrap();
    assert_eq!(session.vid.as_str(), "TA0001");
    (world, session)
}

#[test]
fn a_host_speaks_for_its_own_drives_only() {
    let (mut world, TapeSession { id: session, .. }) = with_far_session();
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
        let (blame, failure) = (wire::control::Blame::Drive, base::Failure::internal("x"));
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
    let far: Vec<_> = drives.iter().filter(|drive| drive.host == "t1").map(|drive| &*drive.name).collect();
    assert_eq!(far, ["t1-lib1.drive0"]);
    let end = EndTapeSession { session, loads: 0, trouble: None };
    world.call(Principal::host("t1"), end).unwrap();
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
    let (mut world, session) = with_far_session();
    let trouble = |world: &mut World| {
        let drives = world.user(GetStatus {}).unwrap().drives;
        drives.into_iter().find(|drive| drive.host == "t1").unwrap().trouble.unwrap_or_default()
    };
    assert_eq!(trouble(&mut world), "");
    world.advance(HOUR);
    assert_eq!(trouble(&mut world), "its tape server is silent");
    let end = EndTapeSession { session: session.id, loads: 1, trouble: None };
    world.call(Principal::host("t1"), end.clone()).expect("what it did meanwhile counts");
    let second = next_far_session(&mut world, "t1").unwrap().unwrap();
    assert_eq!(trouble(&mut world), "");
    register_library(&mut world, "t1", "t1-lib1", &["TA0001"]).unwrap();
    let progress =
        |session| TapeProgress { session, phase: TapePhase::Loading, request: None, bytes_done: 0 };
    let late = world.call(Principal::host("t1"), progress(second.id));
    assert_eq!(refusal(late), ErrorKind::NotFound, "its tape server was started again");
}

#[test]
fn drives_of_a_host_that_is_turned_away_are_forgotten_and_their_work_is_queued() {
    let (mut world, _) = with_far_session();
    invite(&mut world, "h");
    admit(&mut world, "h", "t1", "k").unwrap();
    world.user(RemoveHost { name: "t1".into() }).unwrap();
    assert!(world.user(GetStatus {}).unwrap().drives.iter().all(|drive| drive.host != "t1"));
    run_drive(&mut world);
    assert_eq!(state(&mut world, "/f"), wire::control::FileState::Both, "a drive of the head has done it");
}
