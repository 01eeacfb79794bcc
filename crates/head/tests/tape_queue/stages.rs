//! Stage requests: their files end alone, survive a crash, and never take a recall from others.

use super::requests::stage_as;
use super::support::*;
use base::{ErrorKind, Millis, Result, limits::TAPE_ATTEMPTS_MAX};
use sim::{Mishap, World};
use wire::control::{
    CancelRequests, CancelStageFiles, DeleteStageRequest, GetLocalities, GetStageRequest, Locality,
    ReleaseStageFiles, STAGE_FILES_MAX, STAGE_REQUEST_KEPT, SetVolumeState, StageFile, StageRequestId,
    StageRequestInfo, StageState, SubmitStageRequest, VolumeState,
};

fn file(at: &str) -> StageFile {
    StageFile { path: at.into(), lifetime: None, metadata: None, refused: None }
}

fn submit(world: &mut World, who: &str, paths: &[&str]) -> StageRequestId {
    let files = paths.iter().map(|at| file(at)).collect();
    world.call(user(who), SubmitStageRequest { files }).unwrap().id
}

fn get(world: &mut World, who: &str, id: StageRequestId) -> Result<StageRequestInfo> {
    world.call(user(who), GetStageRequest { id })
}

fn states(world: &mut World, who: &str, id: StageRequestId) -> Vec<StageState> {
    get(world, who, id).unwrap().files.iter().map(|file| file.state).collect()
}

fn cancel(world: &mut World, who: &str, id: StageRequestId, at: &str) -> Result<()> {
    world.call(user(who), CancelStageFiles { id, paths: vec![at.into()] }).map(drop)
}

fn pins(world: &mut World, at: &str) -> Vec<String> {
    stat(world, at).unwrap().pins
}

#[test]
fn files_of_a_request_end_alone() {
    let mut world = world();
    put_nearline(&mut world, "/tape", 10);
    put(&mut world, "/disk", 10);
    let files = ["//tape/", "/disk", "/missing", "relative", "/tape", "/"].map(file).into();
    let hour = Some(Millis::from_seconds(3600));
    let mut call = SubmitStageRequest { files };
    call.files[1].lifetime = hour;
    call.files[0].metadata = Some("{\"activity\":\"x\"}".into());
    let id = world.call(user("bob"), call).unwrap().id;
    let info = get(&mut world, "bob", id).unwrap();
    let told: Vec<_> = info.files.iter().map(|file| (&*file.path, file.state)).collect();
    assert_eq!(
        told,
        [
            ("//tape/", StageState::Submitted),
            ("/disk", StageState::Completed),
            ("/missing", StageState::Failed),
            ("relative", StageState::Failed),
            ("/", StageState::Failed),
        ],
        "a path that is named twice counts once"
    );
    assert!(info.files[2].error.as_ref().unwrap().contains("/missing"));
    assert_eq!(info.files[0].metadata.as_deref(), Some("{\"activity\":\"x\"}"));
    assert_eq!((info.completed, info.files[0].started), (None, None));
    assert_eq!(pins(&mut world, "/disk"), [format!("stage request {id}")]);
    world.crash();
    let session = next_session(&mut world).unwrap();
    assert_eq!(states(&mut world, "bob", id)[0], StageState::Started);
    end_session(&mut world, &session, 1);
    run_drive(&mut world);
    let info = get(&mut world, "bob", id).unwrap();
    assert_eq!((info.files[0].state, info.completed), (StageState::Completed, info.files[0].finished));
    // The lifetime begins when the file is there.
    world.advance(Millis::from_seconds(3601));
    assert_eq!(pins(&mut world, "/disk"), [""; 0]);
    assert_eq!(pins(&mut world, "/tape"), [format!("stage request {id}")]);
    assert_eq!(refusal(evict(&mut world, "/tape")), ErrorKind::Busy);
}

#[test]
fn a_shared_recall_goes_on_until_nobody_wants_it() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let own = submit(&mut world, "bob", &["/f"]);
    let other = submit(&mut world, "cyd", &["/f"]);
    stage_as(&mut world, "dan", "/f");
    assert_eq!(refusal(cancel(&mut world, "cyd", own, "/f")), ErrorKind::Permission);
    assert_eq!(refusal(cancel(&mut world, "bob", own, "/g")), ErrorKind::Invalid);
    cancel(&mut world, "bob", own, "/f").unwrap();
    assert_eq!(states(&mut world, "bob", own), [StageState::Cancelled]);
    assert_eq!(request(&mut world).owner, "cyd", "whoever still wants the file has the recall now");
    let call = CancelRequests { requests: Vec::new(), paths: vec![path("/f")] };
    world.call(user("dan"), call).unwrap();
    assert_eq!(requests(&mut world).len(), 1);
    world.call(user("cyd"), DeleteStageRequest { id: other }).unwrap();
    assert_eq!(requests(&mut world), []);
    assert_eq!(refusal(get(&mut world, "cyd", other)), ErrorKind::NotFound);
    assert_eq!(pins(&mut world, "/f"), [""; 0]);
}

#[test]
fn a_recall_that_fails_and_a_file_that_is_removed_fail_the_request() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    put_nearline(&mut world, "/g", 10);
    let id = submit(&mut world, "bob", &["/f"]);
    for _ in 0..TAPE_ATTEMPTS_MAX {
        assert!(world.drive(DRIVE, Mishap::FileFails));
        world.advance(Millis::from_seconds(3600));
    }
    let info = get(&mut world, "bob", id).unwrap();
    assert_eq!(info.files[0].state, StageState::Failed);
    assert!(info.files[0].error.as_ref().unwrap().contains("read error"), "{info:?}");
    assert_eq!(pins(&mut world, "/f"), [""; 0]);
    // Until an operator has it tried again, others are told at once.
    let again = submit(&mut world, "cyd", &["/f"]);
    assert_eq!(states(&mut world, "cyd", again), [StageState::Failed]);
    let other = submit(&mut world, "cyd", &["/g"]);
    world.remove(&path("/g")).unwrap();
    let info = get(&mut world, "cyd", other).unwrap();
    assert_eq!(
        (info.files[0].state, info.files[0].error.as_deref()),
        (StageState::Failed, Some("it was removed"))
    );
}

#[test]
fn a_release_ends_the_pins_of_one_request() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    let (own, other) = (submit(&mut world, "bob", &["/f"]), submit(&mut world, "bob", &["/f"]));
    run_drive(&mut world);
    world.call(user("bob"), ReleaseStageFiles { id: Some(own), paths: vec!["/f".into()] }).unwrap();
    assert_eq!(pins(&mut world, "/f"), [format!("stage request {other}")]);
    assert_eq!(states(&mut world, "bob", own), [StageState::Completed]);
    // By path, for clients that have forgotten the number.
    world.call(user("cyd"), ReleaseStageFiles { id: None, paths: vec!["/f".into()] }).unwrap();
    assert_eq!(pins(&mut world, "/f"), [format!("stage request {other}")], "not for others");
    world.call(user("bob"), ReleaseStageFiles { id: None, paths: vec!["/f".into()] }).unwrap();
    assert_eq!(pins(&mut world, "/f"), [""; 0]);
    // Too many are refused: none is left pinned behind an answer that says it is not.
    for id in [Some(own), None] {
        let call = ReleaseStageFiles { id, paths: vec!["/f".into(); STAGE_FILES_MAX + 1] };
        assert_eq!(refusal(world.call(user("bob"), call)), ErrorKind::Invalid);
    }
}

#[test]
fn a_file_is_released_by_path_in_all_requests_of_its_user() {
    let mut world = world();
    for at in ["/f", "/g"] {
        put_nearline(&mut world, at, 10);
    }
    let ids = [submit(&mut world, "bob", &["/f", "/g"]), submit(&mut world, "bob", &["//f/"])];
    let other = submit(&mut world, "cyd", &["/f"]);
    let call = ReleaseStageFiles { id: None, paths: vec!["/f".into(), "/f".into()] };
    world.call(user("bob"), call).unwrap();
    assert_eq!(states(&mut world, "bob", ids[0]), [StageState::Cancelled, StageState::Submitted]);
    assert_eq!(states(&mut world, "bob", ids[1]), [StageState::Cancelled]);
    assert_eq!(pins(&mut world, "/f"), [format!("stage request {other}")]);
    assert_eq!(requests(&mut world).len(), 2, "the recall goes on for the other user");
    cancel(&mut world, "bob", ids[0], "//g/").unwrap();
    assert_eq!(requests(&mut world).len(), 1);
}

#[test]
fn requests_are_bounded_and_forgotten_after_a_week() {
    let mut world = world();
    put(&mut world, "/f", 10);
    let files = vec![file("/f"); STAGE_FILES_MAX + 1];
    assert_eq!(refusal(world.call(user("bob"), SubmitStageRequest { files })), ErrorKind::Invalid);
    assert_eq!(
        refusal(world.call(user("bob"), SubmitStageRequest { files: Vec::new() })),
        ErrorKind::Invalid
    );
    let id = submit(&mut world, "bob", &["/f"]);
    world.advance(Millis(STAGE_REQUEST_KEPT.0 + 1));
    assert!(get(&mut world, "bob", id).is_ok(), "it is forgotten when there is a new one");
    submit(&mut world, "bob", &["/f"]);
    assert_eq!(refusal(get(&mut world, "bob", id)), ErrorKind::NotFound);
}

#[test]
fn localities_are_true() {
    let mut world = world();
    put_nearline(&mut world, "/tape", 10);
    put_archived(&mut world, "/both", 10);
    put(&mut world, "/disk", 10);
    begin_write(&mut world, "/writing", 10);
    let ask = |world: &mut World| {
        let paths = ["/tape", "/both", "/disk", "/writing", "/missing"].map(str::to_owned).into();
        let files = world.call(user("bob"), GetLocalities { paths }).unwrap().files;
        assert!(files[4].failure.as_ref().unwrap().what.contains("/missing"));
        files.into_iter().map(|file| file.locality).collect::<Vec<_>>()
    };
    let set = |world: &mut World, state| {
        let (vid, reason) = ("SIM001".parse().unwrap(), String::new());
        world.user(SetVolumeState { vid, state, reason }).unwrap();
    };
    use Locality::{Disk, DiskAndTape, Lost, Tape, Unavailable};
    let none = Some(Locality::None);
    assert_eq!(ask(&mut world), [Some(Tape), Some(DiskAndTape), Some(Disk), none, None]);
    for state in [VolumeState::Suspect, VolumeState::Disabled, VolumeState::Exported] {
        set(&mut world, state);
        assert_eq!(ask(&mut world), [Some(Unavailable), Some(DiskAndTape), Some(Disk), none, None]);
    }
    set(&mut world, VolumeState::Broken);
    assert_eq!(ask(&mut world), [Some(Lost), Some(Disk), Some(Disk), none, None]);
    assert_eq!(refusal(evict(&mut world, "/both")), ErrorKind::Busy, "its only good content is on disk");
    set(&mut world, VolumeState::ReadOnly);
    assert_eq!(ask(&mut world)[0], Some(Tape));
    world.user(wire::control::DisableDrive { drive: DRIVE.into(), reason: "x".into() }).unwrap();
    world.user(wire::control::DisableDrive { drive: "drv1".into(), reason: "x".into() }).unwrap();
    assert_eq!(ask(&mut world)[0], Some(Unavailable));
}

#[test]
fn an_explanation_asks_for_nothing() {
    let mut world = world();
    put_nearline(&mut world, "/f", 10);
    put(&mut world, "/disk", 10);
    let call = wire::control::ExplainStage { paths: ["/f", "/disk", "/missing"].map(path).into() };
    let files = world.user(call).unwrap().files;
    assert!(files[0].waits.as_ref().unwrap().contains("SIM001"), "{files:?}");
    assert!(files[1].waits.is_none() && files[1].failure.is_none() && files[2].failure.is_some());
    assert_eq!(requests(&mut world), []);
}
