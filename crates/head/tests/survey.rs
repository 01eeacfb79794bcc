//! Surveys: what a catalogue takes in of what labels say, and what becomes of the volume.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Failure, FileId, Millis, ObjectId, Result, Timestamp};
use proptest::prelude::*;
use sim::{Content, Mishap, World};
use std::collections::BTreeMap;
use support::*;
use wire::{
    control::{
        AppendPoint, Blame, CatalogueMark, CompareCatalogue, CompareObjects, Described, Done, EndTapeSession,
        Entry, FileState, FilesFound, FoundFile, FoundObject, GetStatus, List, NextTapeSession,
        RecoverCatalogue, Remove, RequestState, SetVolumeState, SettleCatalogue, SurveyVolumes, TapeSession,
        TapeWork, VolumeState, VolumeSurveyed,
    },
    media::object::{Holder, Label},
};

const DAY: i64 = 86_400_000;
/// No catalogue in these tests comes so far by itself.
const LOST_FILE: u64 = 1_000_000;

/// It turns out that the catalogue was put back to an older state.
fn restore(world: &mut World) {
    let seen = Some(CatalogueMark { epoch: 3, ..CatalogueMark::default() });
    let compare = CompareCatalogue { partition: PARTITION.into(), seen };
    assert!(!world.room(compare).unwrap().is_settled);
}

/// And an operator has all taken in that is found.
fn recover(world: &mut World) {
    restore(world);
    world.user(RecoverCatalogue {}).unwrap();
}

fn set_volume(world: &mut World, vid: &str, state: VolumeState) -> Result<Done> {
    world.user(SetVolumeState { vid: vid.parse().unwrap(), state, reason: String::new() })
}

fn order(world: &mut World, vid: &str) -> Result<Vec<String>> {
    let call = SurveyVolumes { vids: vec![vid.parse().unwrap()], all: false };
    world.user(call).map(|ordered| ordered.vids.iter().map(ToString::to_string).collect())
}

/// A survey of a volume of which the catalogue knows nothing.
fn survey(world: &mut World, vid: &str) -> TapeSession {
    set_volume(world, vid, VolumeState::Suspect).unwrap();
    assert_eq!(order(world, vid).unwrap(), [vid]);
    assert_eq!(volume(world, vid).state, VolumeState::Unread);
    let session = next_session(world).expect("there is something to survey");
    assert!(session.vid.as_str() == vid && matches!(session.work, TapeWork::Survey { .. }), "{session:?}");
    session
}

/// The file at `fseq` of a volume on which all files have one block.
fn found(fseq: u32, file: FileId, content: Content, day: i64) -> FoundFile {
    let block = 1 + 10 * (u64::from(fseq) - 1);
    let (size, checksums, created) = (content.size, content.sums, Timestamp(day * DAY));
    FoundFile { file, fseq, block, end_block: block + 10, size, checksums, created, member: None }
}

fn report(world: &mut World, session: &TapeSession, files: &[FoundFile]) -> Result<Done> {
    world.room(FilesFound { session: session.id, files: files.to_vec(), used_bytes: 1000 })
}

/// The survey has come to the end behind `files` files.
fn finish(world: &mut World, session: &TapeSession, files: u32) -> Result<Done> {
    let (fseq, block) = (files + 1, 1 + 10 * u64::from(files));
    let end = Some(AppendPoint { fseq, block, may_have_leftover: true });
    world.room(VolumeSurveyed { session: session.id, end, used_bytes: 1000 })?;
    end_session(world, session, 1);
    Ok(Done {})
}

/// One file is on a volume, and nothing else.
fn survey_one(world: &mut World, vid: &str, found: FoundFile) {
    let session = survey(world, vid);
    report(world, &session, &[found]).unwrap();
    finish(world, &session, 1).unwrap();
}

/// A disk server tells of an object of a file.
fn tell(world: &mut World, object: u64, file: u64, path: &str, content: Content, written: i64) -> u64 {
    let holder = Holder { owner: "bob".into(), group: "atlas".into(), mode: 0o640 };
    let label =
        Label { file: FileId(file), path: path.parse().unwrap(), generation: object, holder, piece: None };
    let described = Some(Described { label, checksums: content.sums, written: Timestamp(written) });
    let objects = vec![FoundObject { object: ObjectId(object), size: content.size, described }];
    let partition = PARTITION.into();
    world.room(CompareObjects { partition, is_first: true, is_last: true, objects }).unwrap();
    world.user(GetStatus {}).unwrap().restored.unwrap().unknown()
}

fn entries(world: &mut World, at: &str) -> BTreeMap<String, Entry> {
    let listing = world.user(List { path: path(at), after: String::new() });
    let entries = listing.map(|listing| listing.entries).unwrap_or_default();
    entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect()
}

fn names(world: &mut World, at: &str) -> Vec<String> {
    entries(world, at).into_keys().collect()
}

#[test]
fn a_copy_of_what_is_known_counts_again() {
    let mut world = world();
    let content = put(&mut world, "/f", 10);
    let file = stat(&mut world, "/f").unwrap().entry.id;
    let session = survey(&mut world, "SIM001");
    ask_archive(&mut world, "/f").unwrap();
    let other = Content::numbered(10, 9);
    let files =
        [found(1, file, other, 19_000), found(2, file, content, 19_000), found(3, file, content, 19_000)];
    report(&mut world, &session, &files[..1]).unwrap();
    assert_eq!(state(&mut world, "/f"), FileState::Online, "an old content");
    report(&mut world, &session, &files).unwrap();
    report(&mut world, &session, &files).unwrap();
    let copies = stat(&mut world, "/f").unwrap().copies;
    assert_eq!(copies.iter().map(|copy| (copy.vid.as_str(), copy.fseq)).collect::<Vec<_>>(), [("SIM001", 2)]);
    assert_eq!((state(&mut world, "/f"), requests(&mut world)), (FileState::Both, vec![]));
    finish(&mut world, &session, 3).unwrap();
    let info = volume(&mut world, "SIM001");
    assert_eq!((info.state, info.reason, info.used_bytes), (VolumeState::Appendable, None, 1000));
    // What is written next goes behind what was found.
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    let TapeWork::Archive { append, .. } = next_session(&mut world).unwrap().work else {
        panic!("it writes")
    };
    assert_eq!(append, AppendPoint { fseq: 4, block: 31, may_have_leftover: true });
}

#[test]
fn what_was_removed_long_ago_does_not_come_back() {
    let mut world = world();
    survey_one(&mut world, "SIM001", found(1, FileId(LOST_FILE), Content::numbered(5, 1), 19_000));
    assert_eq!(names(&mut world, "/"), [""; 0]);
    assert_eq!(volume(&mut world, "SIM001").files, 0);
}

#[test]
fn nothing_is_surveyed_before_an_operator_has_things_taken_in() {
    let mut world = world();
    let session = survey(&mut world, "SIM001");
    restore(&mut world);
    let file = found(1, FileId(LOST_FILE), Content::numbered(5, 1), 19_000);
    assert_eq!(refusal(report(&mut world, &session, std::slice::from_ref(&file))), ErrorKind::Invalid);
    end_session(&mut world, &session, 1);
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::Suspect);
    assert_eq!(refusal(order(&mut world, "SIM001")), ErrorKind::Busy);
    world.user(RecoverCatalogue {}).unwrap();
    survey_one(&mut world, "SIM001", file);
    assert_eq!(names(&mut world, "/lost+found"), [format!("file.{LOST_FILE}")]);
}

#[test]
fn nothing_is_written_to_volumes_that_may_hold_later_files() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    restore(&mut world);
    let states = |world: &mut World| -> Vec<_> {
        let volumes = world.user(GetStatus {}).unwrap().volumes;
        volumes.into_iter().map(|volume| (volume.state, volume.reason.is_some())).collect()
    };
    let suspect = (VolumeState::Suspect, true);
    assert_eq!(states(&mut world), [(VolumeState::Full, true), suspect, suspect, suspect]);
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    assert_eq!(next_session(&mut world), None);
    world.user(RecoverCatalogue {}).unwrap();
    assert_eq!(world.user(SurveyVolumes { vids: Vec::new(), all: true }).unwrap().vids.len(), 4);
    assert!(request(&mut world).reason.ends_with("volumes that wait for a survey: 4"));
    run_drive(&mut world);
    let blank = (VolumeState::Blank, false);
    assert_eq!(states(&mut world), [(VolumeState::Appendable, false), blank, blank, blank]);
    assert_eq!(stat(&mut world, "/g").unwrap().copies[0].fseq, 2);
}

#[test]
fn a_lost_file_is_found_and_can_be_staged() {
    let mut world = world();
    recover(&mut world);
    let content = Content::numbered(5, 1);
    survey_one(&mut world, "SIM001", found(1, FileId(LOST_FILE), content, 19_000));
    let at = format!("/lost+found/file.{LOST_FILE}");
    let info = stat(&mut world, &at).unwrap();
    let Entry { id, owner, mode, size, checksums, modified, .. } = info.entry;
    assert_eq!((id, &*owner, mode), (FileId(LOST_FILE), "operator", 0o600));
    assert_eq!((size, checksums, modified), (5, Some(content.sums), Timestamp(19_000 * DAY)));
    assert_eq!(state(&mut world, &at), FileState::Nearline);
    assert_eq!(
        refusal(world.call(user("bob"), wire::control::Stat { path: path(&at) })),
        ErrorKind::Permission
    );
    // What is made from now on gets other numbers.
    put(&mut world, "/new", 1);
    assert!(stat(&mut world, "/new").unwrap().entry.id > FileId(LOST_FILE));
    stage(&mut world, &at, None).unwrap();
    let TapeWork::Recall { files } = next_session(&mut world).unwrap().work else { panic!("it reads") };
    assert_eq!((files[0].file, files[0].fseq, files[0].block), (FileId(LOST_FILE), 1, 1));
}

#[test]
fn numbers_that_no_file_has_are_passed_over() {
    let mut world = world();
    recover(&mut world);
    let session = survey(&mut world, "SIM001");
    let content = Content::numbered(5, 1);
    let odd = [0, 1, u64::MAX, 1 << 62];
    let files: Vec<_> = (1..).zip(odd).map(|(fseq, file)| found(fseq, FileId(file), content, 1)).collect();
    report(&mut world, &session, &files).unwrap();
    finish(&mut world, &session, 4).unwrap();
    assert_eq!(names(&mut world, "/"), [""; 0]);
}

#[test]
fn an_object_that_is_found_later_tells_the_name() {
    let mut world = world();
    recover(&mut world);
    let content = Content::numbered(5, 1);
    survey_one(&mut world, "SIM001", found(1, FileId(LOST_FILE), content, 19_000));
    let written = 19_000 * DAY + 5;
    assert_eq!(tell(&mut world, 77, LOST_FILE, "/d/f", content, written), 0);
    assert_eq!(names(&mut world, "/lost+found"), [""; 0]);
    let info = stat(&mut world, "/d/f").unwrap();
    let Entry { owner, group, mode, modified, .. } = info.entry;
    assert_eq!((&*owner, &*group, mode, modified), ("bob", "atlas", 0o640, Timestamp(written)));
    assert_eq!((info.replicas.len(), info.copies.len()), (1, 1));
    // Once it has a name, that is nobody else's business.
    world
        .user(wire::control::Rename { from: path("/d/f"), to: path("/mine"), is_new: false, parents: false })
        .unwrap();
    assert_eq!(tell(&mut world, 78, LOST_FILE, "/d/f", content, written), 0);
    assert_eq!(stat(&mut world, "/mine").unwrap().replicas.len(), 2);
}

#[test]
fn of_two_contents_the_later_one_counts() {
    for (tape_day, is_tape_later) in [(18_999, false), (19_000, false), (19_001, true)] {
        for is_tape_first in [true, false] {
            let mut world = world();
            recover(&mut world);
            let (on_disk, on_tape) = (Content::numbered(5, 1), Content::numbered(6, 2));
            let file = found(1, FileId(LOST_FILE), on_tape, tape_day);
            if is_tape_first {
                survey_one(&mut world, "SIM001", file.clone());
            }
            let unknown = tell(&mut world, 77, LOST_FILE, "/f", on_disk, 19_000 * DAY + 5);
            assert_eq!(unknown, u64::from(is_tape_first && is_tape_later));
            if !is_tape_first {
                survey_one(&mut world, "SIM001", file);
            }
            let expected = if is_tape_later { (6, FileState::Nearline) } else { (5, FileState::Online) };
            let entry = stat(&mut world, "/f").unwrap().entry;
            assert_eq!((entry.size, entry.state.unwrap()), expected, "{tape_day} {is_tape_first}");
            assert_eq!((&*entry.owner, names(&mut world, "/lost+found")), ("bob", vec![]));
        }
    }
}

#[test]
fn what_is_being_written_is_later_than_any_tape() {
    let mut world = world();
    let content = put(&mut world, "/f", 10);
    let file = stat(&mut world, "/f").unwrap().entry.id;
    recover(&mut world);
    let grant = begin_write(&mut world, "/f", 20);
    survey_one(&mut world, "SIM001", found(1, file, Content::numbered(6, 2), 30_000));
    let (object, new) = (grant.object, Content::numbered(20, 2));
    let commit = wire::control::CommitWrite {
        object,
        size: 20,
        checksums: new.sums,
        mirrors: Vec::new(),
        pieces: Vec::new(),
    };
    world.room(commit).unwrap();
    assert_eq!(stat(&mut world, "/f").unwrap().entry.size, 20);
    assert_ne!(new, content);
}

#[test]
fn only_operators_have_volumes_surveyed_and_not_all_of_them_can_be() {
    let mut world = world();
    let all = SurveyVolumes { vids: Vec::new(), all: true };
    assert_eq!(refusal(world.call(user("eve"), all.clone())), ErrorKind::Permission);
    assert_eq!(world.user(all.clone()).unwrap().vids, []);
    assert_eq!(refusal(order(&mut world, "SIM001")), ErrorKind::Invalid, "it is blank");
    assert_eq!(refusal(order(&mut world, "NOBODY")), ErrorKind::NotFound);
    put_archived(&mut world, "/f", 10);
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    let session = archive_session(&mut world);
    assert_eq!(refusal(order(&mut world, "SIM001")), ErrorKind::Busy);
    assert_eq!(refusal(set_volume(&mut world, "SIM002", VolumeState::Unread)), ErrorKind::Invalid);
    end_session(&mut world, &session, 0);
    for (vid, state) in [("SIM001", VolumeState::Full), ("SIM002", VolumeState::Suspect)] {
        set_volume(&mut world, vid, state).unwrap();
    }
    let vids = world.user(all.clone()).unwrap().vids;
    assert_eq!(vids.iter().map(base::Vid::as_str).collect::<Vec<_>>(), ["SIM002"]);
    assert_eq!(world.user(all).unwrap().vids, vids, "it can be said again");
}

#[test]
fn what_becomes_of_a_volume() {
    let mut world = world();
    put_archived(&mut world, "/f", 10);
    // It was full and stays so, and is read meanwhile.
    set_volume(&mut world, "SIM001", VolumeState::Full).unwrap();
    order(&mut world, "SIM001").unwrap();
    evict(&mut world, "/f").unwrap();
    stage(&mut world, "/f", None).unwrap();
    assert!(world.drive(DRIVE, Mishap::None));
    assert_eq!(
        (state(&mut world, "/f"), volume(&mut world, "SIM001").state),
        (FileState::Both, VolumeState::Unread)
    );
    run_drive(&mut world);
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::Full);
    // It was in use.
    set_volume(&mut world, "SIM001", VolumeState::Appendable).unwrap();
    order(&mut world, "SIM001").unwrap();
    run_drive(&mut world);
    assert_eq!(volume(&mut world, "SIM001").state, VolumeState::Appendable);
    // Nothing is on it.
    set_volume(&mut world, "SIM002", VolumeState::Suspect).unwrap();
    order(&mut world, "SIM002").unwrap();
    run_drive(&mut world);
    assert_eq!(volume(&mut world, "SIM002").state, VolumeState::Blank);
    // There is no room.
    let session = survey(&mut world, "SIM003");
    let end = Some(AppendPoint { fseq: 1, block: 1, may_have_leftover: false });
    let used_bytes = volume(&mut world, "SIM003").capacity_bytes - 10;
    world.room(VolumeSurveyed { session: session.id, end, used_bytes }).unwrap();
    assert_eq!(volume(&mut world, "SIM003").state, VolumeState::Full);
}

#[test]
fn an_end_that_is_not_the_known_one_is_refused() {
    let mut world = world();
    let session = survey(&mut world, "SIM001");
    let content = Content::numbered(5, 1);
    for (fseq, block) in [(2, 1), (1, 2)] {
        let file = FoundFile { fseq, block, ..found(1, FileId(9), content, 1) };
        assert_eq!(refusal(report(&mut world, &session, &[file])), ErrorKind::Corrupt);
    }
    report(&mut world, &session, &[found(1, FileId(9), content, 1)]).unwrap();
    assert_eq!(refusal(finish(&mut world, &session, 2)), ErrorKind::Corrupt);
    let blank = VolumeSurveyed { session: session.id, end: None, used_bytes: 0 };
    assert_eq!(refusal(world.room(blank)), ErrorKind::Corrupt);
    // An operator has thought better of it.
    set_volume(&mut world, "SIM001", VolumeState::Suspect).unwrap();
    assert_eq!(refusal(finish(&mut world, &session, 1)), ErrorKind::Invalid);
}

#[test]
fn damage_makes_a_volume_suspect_and_what_was_found_before_counts() {
    let mut world = world();
    recover(&mut world);
    let session = survey(&mut world, "SIM001");
    let files =
        [1, 2].map(|fseq| found(fseq, FileId(LOST_FILE + u64::from(fseq)), Content::numbered(5, 1), 1));
    report(&mut world, &session, &files).unwrap();
    let trouble = Some((Blame::Volume, Failure::corrupt("noise at file 3")));
    world.room(EndTapeSession { session: session.id, loads: 1, trouble }).unwrap();
    let info = volume(&mut world, "SIM001");
    assert_eq!((info.state, info.reason.as_deref()), (VolumeState::Suspect, Some("noise at file 3")));
    assert_eq!((names(&mut world, "/lost+found").len(), info.files), (2, 2));
    // Nothing is written over what lies behind the damage, whoever says that it may be written.
    set_volume(&mut world, "SIM001", VolumeState::Appendable).unwrap();
    put(&mut world, "/g", 10);
    ask_archive(&mut world, "/g").unwrap();
    let TapeWork::Archive { append, .. } = next_session(&mut world).unwrap().work else {
        panic!("it writes")
    };
    assert_eq!(append, AppendPoint { fseq: 3, block: 21, may_have_leftover: false });
}

#[test]
fn an_interrupted_survey_goes_on_where_it_was() {
    let mut world = world();
    let session = survey(&mut world, "SIM001");
    report(&mut world, &session, &[found(1, FileId(9), Content::numbered(5, 1), 1)]).unwrap();
    let reason = volume(&mut world, "SIM001").reason.unwrap();
    assert_eq!(reason, "is being surveyed in drive drv0, file 2");
    let trouble = Some((Blame::System, Failure::unavailable("the tape server is stopping")));
    world.room(EndTapeSession { session: session.id, loads: 1, trouble }).unwrap();
    assert_eq!(next_session(&mut world), None, "not at once");
    world.advance(Millis::from_seconds(5));
    let from = |session: Option<TapeSession>| match session.unwrap().work {
        TapeWork::Survey { from, .. } => (from.fseq, from.block),
        work => panic!("{work:?}"),
    };
    assert_eq!(from(next_session(&mut world)), (2, 11));
    world.crash();
    assert_eq!(from(next_session(&mut world)), (2, 11));
    // Another drive does not get it meanwhile.
    let ask = NextTapeSession { drive: "drv1".into(), loaded: None };
    assert_eq!(world.room(ask).unwrap().session, None);
}

#[test]
fn a_catalogue_is_not_settled_while_volumes_are_unread() {
    let mut world = world();
    recover(&mut world);
    let call = CompareObjects { partition: PARTITION.into(), is_first: true, is_last: true, objects: vec![] };
    world.room(call).unwrap();
    let session = survey(&mut world, "SIM001");
    assert_eq!(world.user(GetStatus {}).unwrap().restored.unwrap().volumes, 4);
    let settle = |without_absent| SettleCatalogue { unknown: 0, without_absent };
    assert_eq!(refusal(world.user(settle(false))), ErrorKind::Busy);
    finish(&mut world, &session, 0).unwrap();
    assert_eq!(world.user(GetStatus {}).unwrap().restored.unwrap().volumes, 3, "nobody must survey all");
    world.user(settle(false)).unwrap();
}

#[test]
fn whatever_comes_in_between_all_files_are_found() {
    for mishap in [Mishap::None, Mishap::SessionEnds, Mishap::AnswerLost, Mishap::Crash, Mishap::FileFails] {
        let mut world = world();
        let all: Vec<_> = (0..6).map(|n| path(&format!("/f{n}"))).collect();
        let mut sums = Vec::new();
        for (n, at) in (0..).zip(&all) {
            put_nearline(&mut world, at.as_str(), n * 100);
            sums.push(stat(&mut world, at.as_str()).unwrap().entry.checksums);
        }
        // The catalogue forgets them.
        for at in &all {
            world.user(Remove { path: at.clone() }).unwrap();
        }
        world.acknowledged.clear();
        set_volume(&mut world, "SIM001", VolumeState::Blank).unwrap();
        set_volume(&mut world, "SIM001", VolumeState::Suspect).unwrap();
        recover(&mut world);
        order(&mut world, "SIM001").unwrap();
        world.drive(DRIVE, mishap);
        world.advance(Millis::from_seconds(5));
        run_drive(&mut world);
        let found = entries(&mut world, "/lost+found");
        assert_eq!(found.values().map(|entry| entry.checksums).collect::<Vec<_>>(), sums);
        for name in found.keys() {
            stage(&mut world, &format!("/lost+found/{name}"), None).unwrap();
        }
        run_drive(&mut world);
        assert!(requests(&mut world).iter().all(|request| request.state != RequestState::Failed));
        assert!(
            entries(&mut world, "/lost+found").values().all(|entry| entry.state == Some(FileState::Both))
        );
        // The volume is written behind them.
        put_archived(&mut world, "/g", 10);
        assert_eq!(stat(&mut world, "/g").unwrap().copies[0].fseq, 7);
    }
}

/// Something that is left of a write.
#[derive(Debug, Clone)]
enum Trace {
    Object { file: u64, write: u64 },
    Volume(Vec<(u64, u64, i64)>),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Files are written again and again; of each write objects or copies are left, or nothing. In whatever order these are
    /// found, each file has the content of the last write of which something is left.
    #[test]
    fn the_order_in_which_things_are_found_does_not_matter(
        writes in prop::collection::vec((0u64..3, any::<bool>(), 0usize..4, 0i64..2), 1..10),
        order in Just((0..14usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut traces = Vec::new();
        let mut volumes: [Vec<(u64, u64, i64)>; 4] = Default::default();
        let mut expected = BTreeMap::new();
        for (write, (file, is_on_disk, volume, later)) in (0u64..).zip(&writes) {
            let file = LOST_FILE + file;
            if *is_on_disk {
                traces.push(Trace::Object { file, write });
            }
            if let Some(volume) = volumes.get_mut(*volume).filter(|_| *volume < 3) {
                // On the day of the write, or on the one after.
                volume.push((file, write, 19_000 + 2 * write as i64 + later));
            }
            if *is_on_disk || *volume < 3 {
                expected.insert(file, write);
            }
        }
        traces.extend(volumes.into_iter().map(Trace::Volume));
        let mut world = world();
        recover(&mut world);
        let content = |write: u64| Content::numbered(write, 100 + write);
        let mut surveyed = 0;
        for at in order {
            match traces.get(at) {
                Some(Trace::Object { file, write }) => {
                    let written = (19_000 + 2 * *write as i64) * DAY + 5;
                    tell(&mut world, 10 + write, *file, &format!("/f{file}"), content(*write), written);
                }
                Some(Trace::Volume(files)) => {
                    surveyed += 1;
                    let vid = format!("SIM{surveyed:03}");
                    let session = survey(&mut world, &vid);
                    let files: Vec<_> = (1..).zip(files).map(|(fseq, (file, write, day))| found(fseq, FileId(*file), content(*write), *day)).collect();
                    report(&mut world, &session, &files).unwrap();
                    finish(&mut world, &session, files.len() as u32).unwrap();
                }
                None => {}
            }
        }
        let mut seen = BTreeMap::new();
        for at in ["/", "/lost+found"] {
            for entry in entries(&mut world, at).into_values().filter(|entry| entry.id.0 >= LOST_FILE && entry.checksums.is_some()) {
                prop_assert!(matches!(entry.state, Some(FileState::Online | FileState::Nearline | FileState::Both)));
                seen.insert(entry.id.0, entry.size);
            }
        }
        prop_assert_eq!(seen, expected);
    }
}
