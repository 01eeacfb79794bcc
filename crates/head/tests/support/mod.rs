//! A small language for the tests of the head: short calls on a simulated facility.

#![allow(dead_code, reason = "each test program uses its part")]

use base::{ErrorKind, FilePath, JobId, Millis, RequestId, Result};
use head::{
    Principal,
    store::{Catalogue, FacilityRow, Store},
};
use sim::{Content, World};
use std::fmt::Debug;
use wire::control::{
    AddInvitation, Admission, AdmitHost, Archive, Disposition, EndTapeSession, Evict, FileInfo, FileState,
    GetHosts, GetStatus, HostNames, JobEnded, JobExit, JobInfo, JobOrders, JobRun, JobText, Jobs, NextJob,
    NextTapeSession, OpenWrite, PathOutcomes, RequestInfo, Role, Stage, Stat, TapeSession, TapeWork, Usage,
    VolumeInfo, WriteGrant,
};

/// The partition, the drive and the worker of the simulation.
pub(crate) const PARTITION: &str = "disk1";
pub(crate) const DRIVE: &str = "drv0";
pub(crate) const WORKER: &str = "worker1";

#[allow(clippy::unwrap_used, clippy::print_stderr, reason = "in a test a panic is the report")]
#[path = "../../src/store/testing.rs"]
mod testing;

/// A facility that is up. Nothing in these tests depends on chance.
pub(crate) fn world() -> World {
    // There they are all carried out once more.
    if module_path!().starts_with("on_postgresql")
        && let Some(place) = testing::TestCatalogue::database()
    {
        return World::with_catalogue(1, place.catalogue.clone(), Box::new(place));
    }
    World::new(1)
}

/// Takes a host in, as the head's door does, if it has not joined.
pub(crate) fn take_in(world: &mut World, name: &str, role: Role) {
    let hosts = world.user(GetHosts {}).expect("hosts are listed").hosts;
    if hosts.iter().any(|host| host.name == name && host.removed.is_none()) {
        return;
    }
    let (hash, roles) = (format!("invitation of {name} at {}", world.now.0), vec![role]);
    let expires = world.now + Millis::from_seconds(60);
    world.room(AddInvitation { hash: hash.clone(), roles: roles.clone(), expires }).expect("it is kept");
    let (key, certificate) = (format!("key of {name}"), format!("certificate of {name}"));
    let (head, reached) =
        (HostNames::default(), HostNames { names: vec![name.into()], addresses: Vec::new() });
    let admission = Admission { hash, name: name.into(), roles, key, reached, head };
    world.room(AdmitHost { admission, certificate }).expect("the host was invited");
}

pub(crate) fn path(text: &str) -> FilePath {
    text.parse().expect("tests use legal paths")
}

/// Somebody whom permissions bind.
pub(crate) fn user(name: &str) -> Principal {
    Principal::user(name)
}

/// The owner of the facility under another name: makes things that belong to `name`.
pub(crate) fn as_owner(name: &str) -> Principal {
    Principal::operator(name)
}

/// Why a call was refused.
#[track_caller]
pub(crate) fn refusal<T: Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.expect_err("the call is refused").kind
}

pub(crate) fn stat(world: &mut World, at: &str) -> Result<FileInfo> {
    world.user(Stat { path: path(at) })
}

#[track_caller]
pub(crate) fn state(world: &mut World, at: &str) -> FileState {
    let info = stat(world, at).expect("the file exists");
    info.entry.state.expect("a file has a state")
}

/// Writes a file as ada, who is the operator.
#[track_caller]
pub(crate) fn put(world: &mut World, at: &str, size: u64) -> Content {
    let content = Content::numbered(size, 1);
    world.write(&path(at), content).expect("the file can be written");
    content
}

pub(crate) fn open_write(at: &str, disposition: Disposition, expected_bytes: u64) -> OpenWrite {
    OpenWrite {
        path: path(at),
        mode: 0o644,
        disposition,
        parents: true,
        expected_bytes,
        source_modified: None,
    }
}

/// Reserves an object and writes nothing.
#[track_caller]
pub(crate) fn begin_write(world: &mut World, at: &str, size: u64) -> WriteGrant {
    let open = open_write(at, Disposition::Replace, size);
    world.user(open).expect("the file can be opened for writing")
}

/// The outcome of the only path of a call.
#[track_caller]
fn only(outcomes: Result<PathOutcomes>) -> Result<FileState> {
    let files = outcomes.expect("the call itself is not refused").files;
    assert_eq!(files.len(), 1);
    match &files[0].failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(files[0].state.expect("a path that is not refused has a state")),
    }
}

pub(crate) fn ask_archive(world: &mut World, at: &str) -> Result<FileState> {
    only(world.user(Archive { paths: vec![path(at)] }))
}

pub(crate) fn stage(world: &mut World, at: &str, pin: Option<Millis>) -> Result<FileState> {
    only(world.user(Stage { paths: vec![path(at)], pin }))
}

pub(crate) fn evict(world: &mut World, at: &str) -> Result<FileState> {
    only(world.user(Evict { paths: vec![path(at)], releases: false }))
}

/// Writes a file and brings it to tape.
#[track_caller]
pub(crate) fn put_archived(world: &mut World, at: &str, size: u64) -> Content {
    let content = put(world, at, size);
    ask_archive(world, at).expect("the file can be archived");
    run_drive(world);
    assert_eq!(state(world, at), FileState::Both);
    content
}

/// Writes a file that is on tape only.
#[track_caller]
pub(crate) fn put_nearline(world: &mut World, at: &str, size: u64) -> Content {
    let content = put_archived(world, at, size);
    evict(world, at).expect("an archived file can be evicted");
    world.clean(false);
    content
}

/// Lets the drive work until it has nothing to do.
pub(crate) fn run_drive(world: &mut World) {
    while world.drive(DRIVE, sim::Mishap::None) {}
}

pub(crate) fn requests(world: &mut World) -> Vec<RequestInfo> {
    world.user(GetStatus {}).expect("the status can be shown").requests
}

/// The only row of the tape queue.
#[track_caller]
pub(crate) fn request(world: &mut World) -> RequestInfo {
    let mut requests = requests(world);
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests.remove(0)
}

#[track_caller]
pub(crate) fn volume(world: &mut World, vid: &str) -> VolumeInfo {
    let volumes = world.user(GetStatus {}).expect("the status can be shown").volumes;
    let volume = volumes.into_iter().find(|volume| volume.vid.as_str() == vid);
    volume.expect("the library has this volume")
}

/// What the drive is given to do, without doing it.
pub(crate) fn next_session(world: &mut World) -> Option<TapeSession> {
    let ask = NextTapeSession { drive: DRIVE.into(), loaded: None };
    world.room(ask).expect("a registered drive may ask").session
}

pub(crate) fn end_session(world: &mut World, session: &TapeSession, loads: u32) {
    let end = EndTapeSession { session: session.id, loads, trouble: None };
    world.room(end).expect("a drive may end its session");
}

/// The next session, which writes files; blank volumes are labelled on the way, as the drive would.
#[track_caller]
pub(crate) fn archive_session(world: &mut World) -> TapeSession {
    let session = next_session(world).expect("there is something to do");
    if session.work != TapeWork::Label {
        return session;
    }
    end_session(world, &session, 1);
    next_session(world).expect("there is something to write")
}

/// The requests of a session.
pub(crate) fn request_ids(session: &TapeSession) -> Vec<RequestId> {
    match &session.work {
        TapeWork::Label | TapeWork::Survey { .. } | TapeWork::Verify { .. } => Vec::new(),
        TapeWork::Archive { files, .. } => files.iter().map(|file| file.request).collect(),
        TapeWork::Recall { files } => files.iter().map(|file| file.request).collect(),
    }
}

#[track_caller]
pub(crate) fn job(world: &mut World, id: JobId) -> JobInfo {
    let jobs = world.user(Jobs { ids: vec![id], ..Jobs::default() });
    jobs.expect("the job can be shown").jobs.remove(0)
}

/// The worker asks for work and says that it holds `runs`.
pub(crate) fn orders(world: &mut World, runs: &[JobRun]) -> JobOrders {
    let ask =
        NextJob { worker: WORKER.into(), runs: runs.to_vec(), killing: Vec::new(), delivered: 0, load: None };
    world.room(ask).expect("a registered worker may ask")
}

/// The runs that a worker without work is told to start.
pub(crate) fn started(world: &mut World) -> Vec<JobRun> {
    orders(world, &[]).start.into_iter().map(|order| order.run).collect()
}

/// The worker reports the end of a run that used 3 s of CPU in 5 s.
pub(crate) fn end_run(world: &mut World, run: JobRun, exit: JobExit) {
    let usage = Usage { cpu: Millis(3000), wall: Millis(5000), memory_bytes_max: 1 };
    let ended = JobEnded { run, exit, usage, text: JobText::default(), stored: Vec::new() };
    world.room(ended).expect("a worker may report an end");
}
