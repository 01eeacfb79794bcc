//! Adoption: what the head lets disk servers take into the namespace, and what is left when they end in the middle.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, FileId, ObjectId, Result, Timestamp};
use head::Principal;
use sim::{Content, World};
use support::*;
use wire::control::{
    AdoptedContent, AdoptedFile, AdoptionInfo, AdoptionOrder, AdoptionPlace, AdoptionState, Amount,
    BeginAdopted, EndAdopted, FileState, FoundEntry, GetAdoptions, GetLeftAlone, GetQuotas, GetScans,
    GetSpace, LEFT_ALONE_PAGE, LeftAlone, Mkdir, NextAdoption, NextRemovals, NodeKind, PartitionState,
    QuotaKind, Remove, ReportAdoption, SetPartition, SetQuota, StartAdoption, StopAdoption, WithdrawAdopted,
};

const THEN: Timestamp = Timestamp(1_500_000_000_000);

fn start() -> StartAdoption {
    let (directory, path) = ("/data/old".to_owned(), path("/old"));
    StartAdoption { partition: None, directory, path, is_moving: false, bytes_per_s: 1 }
}

fn next(world: &mut World) -> Option<AdoptionOrder> {
    let (partition, boot) = (PARTITION.into(), world.boot());
    world.room(NextAdoption { partition, boot }).unwrap().order
}

/// A facility whose disk server has begun to adopt.
fn adopting() -> (World, u64) {
    let mut world = world();
    world.user(start()).unwrap();
    let order = next(&mut world).unwrap();
    (world, order.adoption)
}

fn entry(at: &str, kind: NodeKind) -> FoundEntry {
    let owner = Some("bob".to_owned());
    FoundEntry { path: path(at), kind, owner, group: Some("staff".into()), mode: 0o640, modified: THEN }
}

fn begin_all(world: &mut World, adoption: u64, entries: Vec<FoundEntry>) -> Vec<AdoptionPlace> {
    world.room(BeginAdopted { partition: PARTITION.into(), adoption, entries }).unwrap().places
}

fn begin(world: &mut World, adoption: u64, entry: FoundEntry) -> AdoptionPlace {
    begin_all(world, adoption, vec![entry]).remove(0)
}

#[track_caller]
fn object(place: &AdoptionPlace) -> (ObjectId, FileId) {
    match place {
        AdoptionPlace::Make { object, file } => (*object, *file),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(place: AdoptionPlace) -> Failure {
    match place {
        AdoptionPlace::Refused(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn end(world: &mut World, adoption: u64, object: ObjectId, content: Option<Content>) -> Option<Failure> {
    let content =
        content.map(|Content { size, sums: checksums }| AdoptedContent { size, checksums, modified: THEN });
    let files = vec![AdoptedFile { object, content }];
    world.room(EndAdopted { partition: PARTITION.into(), adoption, files }).unwrap().refused.remove(0)
}

/// Adopts a file.
#[track_caller]
fn adopt(world: &mut World, adoption: u64, at: &str, size: u64) -> ObjectId {
    begin(world, adoption, entry("/old", NodeKind::Directory));
    let (object, _) = object(&begin(world, adoption, entry(at, NodeKind::File)));
    assert_eq!(end(world, adoption, object, Some(Content::numbered(size, 1))), None);
    object
}

fn shown(world: &mut World) -> AdoptionInfo {
    world.user(GetAdoptions {}).unwrap().adoptions.remove(0)
}

fn report(adoption: u64, left: Vec<LeftAlone>, is_done: bool) -> ReportAdoption {
    let (partition, total) = (PARTITION.into(), Some(Amount { files: 5, bytes: 50 }));
    let (seen, unowned, trouble, is_refused) = (Amount { files: 2, bytes: 20 }, 1, None, false);
    ReportAdoption { partition, adoption, total, seen, unowned, left, is_done, trouble, is_refused }
}

fn free(world: &mut World) -> u64 {
    world.user(GetSpace {}).unwrap().free_bytes
}

#[test]
fn a_file_is_there_as_it_was_found_once_it_is_durable() {
    let (mut world, adoption) = adopting();
    let before = free(&mut world);
    assert_eq!(begin(&mut world, adoption, entry("/old", NodeKind::Directory)), AdoptionPlace::Directory);
    let place = begin(&mut world, adoption, entry("/old/f", NodeKind::File));
    let (object, file) = object(&place);
    assert_eq!(state(&mut world, "/old/f"), FileState::Writing);
    assert_eq!(free(&mut world), before, "its bytes are there: no room is promised");
    let content = Content::numbered(4000, 1);
    assert_eq!(end(&mut world, adoption, object, Some(content)), None);
    assert_eq!(end(&mut world, adoption, object, Some(content)), None, "saying it again is fine");
    assert_eq!(free(&mut world), before, "and none is taken");
    let info = stat(&mut world, "/old/f").unwrap();
    assert_eq!((info.entry.id, info.entry.size, info.entry.modified), (file, 4000, THEN));
    assert_eq!(
        (info.entry.owner.as_str(), info.entry.group.as_str(), info.entry.mode),
        ("bob", "staff", 0o640)
    );
    assert_eq!((info.entry.checksums, info.entry.state), (Some(content.sums), Some(FileState::Online)));
    let directory = stat(&mut world, "/old").unwrap().entry;
    assert_eq!((directory.owner.as_str(), directory.mode, directory.modified), ("bob", 0o640, THEN));
    assert_eq!(shown(&mut world).adopted, Amount { files: 1, bytes: 4000 });
    // Another pass finds it.
    let known = AdoptionPlace::Known { object, size: 4000, modified: THEN };
    assert_eq!(begin(&mut world, adoption, entry("/old/f", NodeKind::File)), known);
    assert!(world.user(GetScans {}).unwrap().scans.is_empty(), "it is no scan");
}

#[test]
fn what_was_not_finished_leaves_nothing() {
    let (mut world, adoption) = adopting();
    begin(&mut world, adoption, entry("/old", NodeKind::Directory));
    let places = begin_all(
        &mut world,
        adoption,
        ["/old/a", "/old/b", "/old/c"].map(|at| entry(at, NodeKind::File)).into(),
    );
    let [(a, _), (b, _), (c, _)] = [0, 1, 2].map(|at| object(&places[at]));
    assert_eq!(end(&mut world, adoption, a, None), None, "given up");
    assert_eq!(refusal(stat(&mut world, "/old/a")), ErrorKind::NotFound);
    // The disk server begins anew without having ended.
    assert_eq!(next(&mut world).unwrap().adoption, adoption);
    assert_eq!(refusal(stat(&mut world, "/old/b")), ErrorKind::NotFound);
    let late = end(&mut world, adoption, b, Some(Content::numbered(1, 1))).unwrap();
    assert_eq!(late.kind, ErrorKind::NotFound);
    assert!(late.hint.is_some());
    let again = object(&begin(&mut world, adoption, entry("/old/b", NodeKind::File))).0;
    assert!(again > c);
    world.crash();
    for at in ["/old/b", "/old/c"] {
        assert_eq!(refusal(stat(&mut world, at)), ErrorKind::NotFound);
    }
    let removals = world.room(NextRemovals { partition: PARTITION.into() }).unwrap().objects;
    assert_eq!(removals, [a, b, c, again], "whatever lies there of them goes");
    let order = next(&mut world).unwrap();
    assert_eq!((order.adoption, order.directory.as_str()), (adoption, "/data/old"), "it goes on");
    adopt(&mut world, adoption, "/old/b", 7);
    // A disk server that the head does not know yet gets nothing: what it begins would be given up.
    let ask = NextAdoption { partition: PARTITION.into(), boot: 999 };
    assert_eq!(world.room(ask).unwrap().order, None);
}

#[test]
fn what_is_in_the_way_is_told_and_stops_nothing_else() {
    let (mut world, adoption) = adopting();
    put(&mut world, "/old/taken", 10);
    put(&mut world, "/old/directory/f", 10);
    begin_write(&mut world, "/old/writing", 10);
    world.user(Mkdir { path: path("/other"), parents: false, mode: 0o755 }).unwrap();
    let entries = [
        ("/old/taken", NodeKind::Directory),
        ("/old/directory", NodeKind::File),
        ("/old/writing", NodeKind::File),
        ("/old/none/f", NodeKind::File),
        ("/other/f", NodeKind::File),
        ("/old/good", NodeKind::File),
    ];
    let entries = entries.map(|(at, kind)| entry(at, kind)).into();
    let mut places = begin_all(&mut world, adoption, entries);
    object(&places.pop().unwrap());
    let kinds: Vec<_> = places.into_iter().map(|place| refused(place).kind).collect();
    let exists = ErrorKind::Exists;
    assert_eq!(kinds, [exists, exists, ErrorKind::Locked, ErrorKind::NotFound, ErrorKind::Permission]);
    // A file of this name is perhaps the very same: the disk server looks.
    let place = begin(&mut world, adoption, entry("/old/taken", NodeKind::File));
    assert!(matches!(place, AdoptionPlace::Known { size: 10, .. }), "{place:?}");
    put_nearline(&mut world, "/old/tape", 10);
    assert_eq!(refused(begin(&mut world, adoption, entry("/old/tape", NodeKind::File))).kind, exists);
}

#[test]
fn names_that_mean_something_else_here_are_not_taken() {
    let mut world = world();
    world.user(StartAdoption { path: path("/"), ..start() }).unwrap();
    let adoption = next(&mut world).unwrap().adoption;
    assert_eq!(begin(&mut world, adoption, entry("/", NodeKind::Directory)), AdoptionPlace::Directory);
    assert_eq!(
        refused(begin(&mut world, adoption, entry("/api", NodeKind::Directory))).kind,
        ErrorKind::Invalid
    );
    let odd = ["host:d1", "", "a\nb", "-rf", "..", "ann eve", "x/y"].map(|name| Some(name.to_owned()));
    for (number, owner) in [None].into_iter().chain(odd).enumerate() {
        let group = owner.clone();
        let at = format!("/{number}");
        let entry = FoundEntry { owner, group, ..entry(&at, NodeKind::File) };
        object(&begin(&mut world, adoption, entry));
        let entry = stat(&mut world, &at).unwrap().entry;
        assert_eq!(
            (entry.owner.as_str(), entry.group.as_str()),
            ("operator", "operator"),
            "the facility's owner"
        );
    }
}

#[test]
fn quotas_bind_adoptions_too() {
    let (mut world, adoption) = adopting();
    let limit = SetQuota { kind: QuotaKind::User, name: "bob".into(), bytes: Some(100), files: None };
    world.user(limit).unwrap();
    adopt(&mut world, adoption, "/old/a", 60);
    let (object, _) = object(&begin(&mut world, adoption, entry("/old/b", NodeKind::File)));
    let failure = end(&mut world, adoption, object, Some(Content::numbered(41, 1))).unwrap();
    assert_eq!(failure.kind, ErrorKind::OverQuota);
    assert_eq!(refusal(stat(&mut world, "/old/b")), ErrorKind::NotFound);
    adopt(&mut world, adoption, "/old/c", 40);
    let quota = world.user(GetQuotas {}).unwrap().quotas.remove(0);
    assert_eq!((quota.bytes, quota.reserved_bytes, quota.files), (100, 0, 2));
    assert_eq!(shown(&mut world).adopted, Amount { files: 2, bytes: 100 });
}

#[test]
fn a_file_that_was_written_by_its_old_name_is_taken_back() {
    let (mut world, adoption) = adopting();
    let object = adopt(&mut world, adoption, "/old/a", 60);
    let withdraw = |object| WithdrawAdopted { partition: PARTITION.into(), adoption, object };
    world.room(withdraw(object)).unwrap();
    world.room(withdraw(object)).unwrap();
    assert_eq!(refusal(stat(&mut world, "/old/a")), ErrorKind::NotFound);
    assert_eq!(shown(&mut world).adopted, Amount::default());
    // What was there before this adoption is not its affair.
    world.advance(base::Millis(1000));
    put(&mut world, "/old/own", 10);
    let own = match begin(&mut world, adoption, entry("/old/own", NodeKind::File)) {
        AdoptionPlace::Known { object, .. } => object,
        other => panic!("{other:?}"),
    };
    world.user(StopAdoption { partition: None }).unwrap();
    world.advance(base::Millis(1000));
    world.user(start()).unwrap();
    let later = next(&mut world).unwrap().adoption;
    world.room(WithdrawAdopted { partition: PARTITION.into(), adoption: later, object: own }).unwrap();
    assert_eq!(state(&mut world, "/old/own"), FileState::Online);
}

#[test]
fn an_adoption_is_shown_stopped_and_begun_again() {
    let (mut world, adoption) = adopting();
    assert_eq!(refusal(world.user(start())), ErrorKind::Busy);
    let left = |name: &str| LeftAlone { name: name.into(), failure: Failure::busy("it changes") };
    let pages = |world: &mut World| {
        let (mut names, mut after) = (Vec::new(), 0);
        loop {
            let page = world.user(GetLeftAlone { partition: PARTITION.into(), after }).unwrap();
            names.extend(page.left.into_iter().map(|left| left.name));
            match page.next {
                Some(next) => after = next,
                None => return names,
            }
        }
    };
    let many: Vec<_> = (0..LEFT_ALONE_PAGE).map(|number| left(&format!("f{number}"))).collect();
    assert!(world.room(report(adoption, many, false)).unwrap().goes_on);
    assert!(world.room(report(adoption, vec![left("last")], false)).unwrap().goes_on);
    let names = pages(&mut world);
    assert_eq!((names.len(), names.last().map(String::as_str)), (LEFT_ALONE_PAGE + 1, Some("last")));
    let info = shown(&mut world);
    assert_eq!((info.left_alone, info.unowned), (LEFT_ALONE_PAGE as u64 + 1, 1));
    assert_eq!((info.total.unwrap().files, info.seen.files), (5, 2));
    // A new pass looks at everything again.
    next(&mut world).unwrap();
    assert_eq!((shown(&mut world).left_alone, pages(&mut world).len()), (0, 0));
    world.user(StopAdoption { partition: Some(PARTITION.into()) }).unwrap();
    assert!(!world.room(report(adoption, vec![left("late")], true)).unwrap().goes_on);
    assert_eq!(shown(&mut world).state, AdoptionState::Stopped);
    assert_eq!(
        (next(&mut world), begin_all(&mut world, adoption, vec![entry("/old", NodeKind::Directory)])),
        (None, vec![])
    );
    assert_eq!(world.user(start()).unwrap().adoption, adoption + 1);
    assert!(!world.room(report(adoption, vec![], true)).unwrap().goes_on, "that was another one");
    next(&mut world).unwrap();
    let refuse = ReportAdoption {
        trouble: Some(Failure::permission("not here")),
        is_refused: true,
        ..report(adoption + 1, Vec::new(), false)
    };
    assert!(!world.room(refuse).unwrap().goes_on);
    let info = shown(&mut world);
    assert_eq!((info.state, info.trouble.unwrap().what.as_str()), (AdoptionState::Refused, "not here"));
    world.user(start()).unwrap();
}

#[test]
fn only_operators_order_and_only_the_host_of_a_partition_adopts() {
    let (mut world, adoption) = adopting();
    for outcome in [
        world.call(user("bob"), start()).map(drop),
        world.call(user("bob"), StopAdoption { partition: None }).map(drop),
        world.call(user("bob"), GetAdoptions {}).map(drop),
        world.call(user("bob"), GetLeftAlone { partition: PARTITION.into(), after: 0 }).map(drop),
    ] {
        assert_eq!(refusal(outcome), ErrorKind::Permission);
    }
    let other = Principal::host("d1");
    let partition = PARTITION.to_owned();
    let entries = vec![entry("/old", NodeKind::Directory)];
    let outcomes: [Result<()>; 3] = [
        world.call(other.clone(), NextAdoption { partition: partition.clone(), boot: 1 }).map(drop),
        world.call(other.clone(), BeginAdopted { partition: partition.clone(), adoption, entries }).map(drop),
        world.call(other, EndAdopted { partition, adoption, files: Vec::new() }).map(drop),
    ];
    for outcome in outcomes {
        assert_eq!(refusal(outcome), ErrorKind::Permission);
    }
    let entries = vec![entry("/old/f", NodeKind::File); 257];
    let many = BeginAdopted { partition: PARTITION.into(), adoption, entries };
    assert_eq!(refusal(world.room(many)), ErrorKind::Invalid);
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let mut world = world();
    put(&mut world, "/file", 1);
    for (ask, kind) in [
        (StartAdoption { bytes_per_s: 0, ..start() }, ErrorKind::Invalid),
        (StartAdoption { directory: "data".into(), ..start() }, ErrorKind::Invalid),
        (StartAdoption { partition: Some("d9".into()), ..start() }, ErrorKind::NotFound),
        (StartAdoption { path: path("/file"), ..start() }, ErrorKind::Exists),
        (StartAdoption { path: path("/none/old"), ..start() }, ErrorKind::NotFound),
    ] {
        assert_eq!(refusal(world.user(ask.clone())), kind, "{ask:?}");
    }
    world.user(SetPartition { partition: PARTITION.into(), state: PartitionState::Draining }).unwrap();
    assert_eq!(refusal(world.user(start())), ErrorKind::Busy);
    assert_eq!(refusal(world.user(StopAdoption { partition: Some("d9".into()) })), ErrorKind::NotFound);
    world.user(Remove { path: path("/file") }).unwrap();
}
