//! The planner, by example and by property.

use super::{
    Bundling,
    archiving::{never_fit, tape_bytes},
    explain::{Explainer, Pace},
    plan::{DriveView, Plan, PlannedWork, Target, View, VolumeView, Work, look_again_in, next_session},
};
use base::{FileId, Millis, RequestId, Timestamp, Vid};
use proptest::prelude::*;
use wire::control::{RequestKind, VolumeState};

pub(super) const NOW: Timestamp = Timestamp(1_000_000_000);
const GB: u64 = 1_000_000_000;

fn vid(n: u32) -> Vid {
    format!("V{n:05}").parse().unwrap()
}

pub(super) fn drive(name: &str, loaded: Option<u32>) -> DriveView {
    DriveView {
        name: name.into(),
        library: "lib".into(),
        loaded: loaded.map(vid),
        leaving: None,
        busy_with: None,
        busy_since: None,
        is_writing: false,
        trouble: None,
        is_down: false,
        serving: None,
    }
}

fn volume(n: u32, state: VolumeState) -> (Vid, VolumeView) {
    let (used_bytes, free_bytes) = (u64::from(n) * GB, 100 * GB);
    let library = "lib".into();
    (
        vid(n),
        VolumeView {
            vid: vid(n),
            library,
            pool: String::new(),
            state,
            reason: None,
            used_bytes,
            free_bytes,
            end_block: 1000,
        },
    )
}

pub(super) fn archive(id: u64, size: u64) -> Work {
    Work {
        id: RequestId(id),
        kind: RequestKind::Archive,
        size,
        directory: FileId(1),
        group: "cms".into(),
        created: NOW,
        not_before: NOW,
        attempts: 0,
        reason: None,
        target: None,
        not_on: Vec::new(),
        routes: Vec::new(),
        can_wait: false,
    }
}

fn recall(id: u64, volume: u32, block: u64) -> Work {
    let target = Some(Target { vid: vid(volume), fseq: 1, block, offset: 0 });
    Work { kind: RequestKind::Recall, target, ..archive(id, GB) }
}

pub(super) fn view(drives: Vec<DriveView>, queue: Vec<Work>) -> View {
    let volumes = [
        volume(1, VolumeState::Appendable),
        volume(2, VolumeState::Appendable),
        volume(3, VolumeState::Blank),
    ];
    let free_disk_bytes = 100 * GB;
    View {
        drives,
        volumes: volumes.into(),
        surveys: Vec::new(),
        verifications: Vec::new(),
        queue,
        free_disk_bytes,
        recall_session: None,
        bundling: Bundling::default(),
        quotas: Vec::new(),
    }
}

pub(super) fn explain(view: &View, work: &Work, now: Timestamp) -> String {
    Explainer::new(view.clone(), now).explain(work.id, now).unwrap()
}

fn files(plan: Option<Plan>) -> (String, Vec<u64>) {
    let plan = plan.expect("there is something to do");
    let ids = match plan.work {
        PlannedWork::Archive(files) => files.concat(),
        PlannedWork::Recall(ids) => ids,
        PlannedWork::Label | PlannedWork::Survey | PlannedWork::Verify => Vec::new(),
    };
    (plan.vid.to_string(), ids.iter().map(|id| id.0).collect())
}

#[test]
fn one_load_serves_everything_on_the_volume_in_the_order_of_the_tape() {
    let view = view(vec![drive("a", None)], vec![recall(1, 1, 90), recall(2, 2, 5), recall(3, 1, 10)]);
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00001".into(), vec![3, 1]));
}

#[test]
fn a_file_that_fits_nowhere_keeps_nobody_back() {
    // Larger than what is free on any volume, twice, before and between small ones.
    let queue = vec![archive(1, 101 * GB), archive(2, 1), archive(3, 200 * GB), archive(4, 2)];
    let view = view(vec![drive("a", None)], queue);
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00002".into(), vec![2, 4]));
}

#[test]
fn a_file_for_which_the_volume_is_too_full_is_passed_over() {
    let mut view = view(vec![drive("a", Some(1))], vec![archive(1, 1), archive(2, 90 * GB), archive(3, 2)]);
    view.volumes.get_mut(&vid(1)).unwrap().free_bytes = GB;
    view.volumes.get_mut(&vid(2)).unwrap().state = VolumeState::Full;
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00001".into(), vec![1, 3]));
}

#[test]
fn only_what_no_volume_can_hold_is_given_up() {
    let queue = vec![archive(1, 102 * GB), archive(2, 104 * GB), recall(3, 1, 5)];
    let mut view = view(vec![drive("a", None)], queue);
    // The third one has 103 GB, of which 3 are taken: a file of 102 GB waits until there is another like it.
    let given_up: Vec<_> = never_fit(&view).into_iter().map(|(id, _)| id.0).collect();
    assert_eq!(given_up, [2]);
    let failure = &never_fit(&view)[0].1;
    assert!(failure.what.contains("GiB") && failure.what.contains("the largest volume holds"), "{failure}");
    view.volumes.clear();
    assert_eq!(never_fit(&view), [], "nobody knows what the first volume will hold");
}

#[test]
fn a_volume_in_another_drive_is_left_there() {
    let view = view(vec![drive("a", None), drive("b", Some(1))], vec![recall(1, 1, 90)]);
    assert_eq!(next_session(&view, "a", NOW), None);
    assert!(next_session(&view, "b", NOW).is_some());
}

#[test]
fn the_loaded_volume_goes_first_until_another_starves() {
    let mut view = view(vec![drive("a", Some(2))], vec![recall(1, 1, 90), recall(2, 2, 5)]);
    assert_eq!(files(next_session(&view, "a", NOW)).0, "V00002");
    view.queue[0].created = Timestamp(NOW.0 - 3_600_000);
    assert_eq!(files(next_session(&view, "a", NOW)).0, "V00001");
}

#[test]
fn files_go_to_the_fullest_volume_with_room_and_a_blank_one_is_labelled_first() {
    let mut view = view(vec![drive("a", None)], vec![archive(1, GB)]);
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00002".into(), vec![1]));
    for n in [1, 2] {
        view.volumes.get_mut(&vid(n)).unwrap().state = VolumeState::Full;
    }
    let plan = next_session(&view, "a", NOW).unwrap();
    assert_eq!((plan.vid, plan.work), (vid(3), PlannedWork::Label));
}

#[test]
fn a_second_drive_writes_only_when_enough_waits() {
    let writing = DriveView { busy_with: Some(vid(1)), is_writing: true, ..drive("a", Some(1)) };
    let few = view(vec![writing.clone(), drive("b", None)], vec![archive(1, GB)]);
    assert_eq!(next_session(&few, "b", NOW), None);
    assert!(explain(&few, &few.queue[0], NOW).contains("drive a is writing"));
    let many = view(vec![writing, drive("b", None)], (0..500).map(|id| archive(id, 1)).collect());
    assert!(next_session(&many, "b", NOW).is_some());
}

#[test]
fn an_idle_drive_with_a_volume_that_has_room_writes_rather_than_one_that_must_load() {
    let view = view(vec![drive("a", None), drive("b", Some(1))], vec![archive(1, GB)]);
    assert_eq!(next_session(&view, "a", NOW), None);
    assert_eq!(files(next_session(&view, "b", NOW)), ("V00001".into(), vec![1]));
}

#[test]
fn a_blank_volume_that_happens_to_be_loaded_is_not_begun_while_another_drive_can_append() {
    let mut view = view(vec![drive("a", Some(3)), drive("b", Some(1))], vec![archive(1, 1)]);
    view.volumes.remove(&vid(2));
    assert_eq!(next_session(&view, "a", NOW), None);
    assert_eq!(files(next_session(&view, "b", NOW)), ("V00001".into(), vec![1]));
    // A file that has starved waits for no drive, and no file waits for a drive that is busy.
    let label = Some(Plan { vid: vid(3), work: PlannedWork::Label });
    assert_eq!(next_session(&view, "a", NOW + Millis::from_seconds(601)), label);
    view.drives[1].busy_with = Some(vid(1));
    assert_eq!(next_session(&view, "a", NOW), label);
}

#[test]
fn nothing_is_recalled_that_has_no_room_on_disk() {
    let mut view = view(vec![drive("a", None)], vec![recall(1, 1, 1), recall(2, 1, 2)]);
    view.free_disk_bytes = GB;
    assert_eq!(files(next_session(&view, "a", NOW)).1, [1]);
    view.free_disk_bytes = 0;
    assert_eq!(next_session(&view, "a", NOW), None);
    assert!(explain(&view, &view.queue[0], NOW).contains("no space on disk"));
}

#[test]
fn who_waits_for_a_volume_is_told_its_place_and_when() {
    let mut view = view(vec![drive("a", Some(1))], vec![recall(1, 2, 1), recall(2, 2, 2), recall(3, 3, 1)]);
    let second = |view: &View| explain(view, &view.queue[2], NOW);
    view.queue[2].created = NOW + Millis(1);
    let why = "waits for volume V00003; number 2 of 2 volumes in line";
    assert_eq!(second(&view), format!("{why}; the drive is free"));
    view.recall_session = Some(Millis::from_seconds(300));
    assert_eq!(second(&view), format!("{why}, begins in about 5 min 00 s; the drive is free"));
    let first = explain(&view, &view.queue[0], NOW);
    assert_eq!(
        first,
        "waits for volume V00002, with 1 other file; next of 2 volumes in line; the drive is free"
    );
    // The running session is nearly over; one that takes longer than usual may end at any time.
    (view.drives[0].busy_with, view.drives[0].busy_since) =
        (Some(vid(1)), Some(NOW + Millis::from_seconds(-240)));
    assert_eq!(second(&view), format!("{why}, begins in about 6 min 00 s; the drive is busy"));
    view.drives[0].busy_since = Some(NOW + Millis::from_seconds(-10_000));
    assert_eq!(second(&view), format!("{why}, begins in about 5 min 00 s; the drive is busy"));
    // Two drives share the line.
    view.drives.push(drive("b", None));
    assert_eq!(second(&view), format!("{why}; 1 of 2 drives free"));
}

#[test]
fn the_usual_session_is_one_of_the_last() {
    let mut pace = Pace::default();
    assert_eq!(pace.usual(), None);
    for seconds in [-5, 7, 1000] {
        pace.note(Millis::from_seconds(seconds));
    }
    assert_eq!(pace.usual(), Some(Millis::from_seconds(7)));
    for _ in 0..100 {
        pace.note(Millis::from_seconds(60));
    }
    assert_eq!(pace.usual(), Some(Millis::from_seconds(60)));
}

#[test]
fn every_reason_names_what_is_waited_for() {
    let mut view =
        view(vec![drive("a", None)], vec![recall(1, 1, 1), recall(2, 9, 2), archive(3, 1000 * GB)]);
    assert!(explain(&view, &view.queue[0], NOW).contains("V00001"));
    assert!(explain(&view, &view.queue[1], NOW).contains("not in any library"));
    assert!(explain(&view, &view.queue[2], NOW).contains("blank cartridge"));
    view.volumes.get_mut(&vid(1)).unwrap().state = VolumeState::Suspect;
    assert!(explain(&view, &view.queue[0], NOW).contains("suspect"));
    view.drives[0].trouble = Some("motor".into());
    assert!(explain(&view, &view.queue[0], NOW).contains("motor"));
    view.drives.clear();
    assert!(explain(&view, &view.queue[0], NOW).contains("no tape server"));
}

#[test]
fn surveys_are_for_drives_that_have_nothing_else_to_do() {
    let mut view = view(vec![drive("a", None), drive("b", Some(4))], vec![recall(1, 1, 90), archive(2, GB)]);
    view.volumes.extend([volume(4, VolumeState::Unread), volume(5, VolumeState::Unread)]);
    view.surveys = vec![vid(4), vid(5)];
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00001".into(), vec![1]));
    view.queue.remove(0);
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00002".into(), vec![2]));
    view.queue.clear();
    let survey = |n| Some(Plan { vid: vid(n), work: PlannedWork::Survey });
    assert_eq!(next_session(&view, "a", NOW), survey(5), "the other one lies in drive b");
    assert_eq!(next_session(&view, "b", NOW), survey(4), "what is loaded goes first");
    view.drives[1].busy_with = Some(vid(4));
    assert_eq!(next_session(&view, "b", NOW), None);
    view.surveys.clear();
    assert_eq!(next_session(&view, "a", NOW), None, "not all that is unread may be read now");
    view.verifications = vec![vid(4), vid(2), vid(1)];
    let verify = Some(Plan { vid: vid(2), work: PlannedWork::Verify });
    assert_eq!(next_session(&view, "a", NOW), verify, "the first one lies in drive b");
}

#[test]
fn files_of_a_serpentine_tape_are_read_as_they_lie_beside_each_other() {
    // Wraps hold 10 objects: 0 to 9 lie forward, 10 to 19 backward beside them.
    let queue = vec![recall(1, 1, 1), recall(2, 1, 9), recall(3, 1, 10), recall(4, 1, 18)];
    let mut view = view(vec![drive("a", None)], queue);
    let full = view.volumes.get_mut(&vid(1)).unwrap();
    (full.used_bytes, full.free_bytes, full.end_block) = (2_800_000 * 1_000_000, 0, 2800);
    // The last one lies beside the first, and no way back is needed at the end.
    assert_eq!(files(next_session(&view, "a", NOW)).1, [1, 4, 2, 3]);
}

/// 100,000 recalls of 1,000 volumes.
#[test]
#[ignore = "a measurement"]
fn planning_of_a_long_queue() {
    let queue = (0..100_000).map(|id| recall(id, (id % 1000) as u32, id * 7919 % 100_000)).collect();
    let mut view = view((0..20).map(|n| drive(&format!("d{n}"), None)).collect(), queue);
    view.volumes = (0..1000).map(|n| volume(n, VolumeState::Full)).collect();
    for volume in view.volumes.values_mut() {
        (volume.free_bytes, volume.used_bytes) = (0, 18_000 * GB);
    }
    view.free_disk_bytes = u64::MAX;
    let begun = std::time::Instant::now();
    let plan = next_session(&view, "d0", NOW);
    eprintln!("{:?}, {} files", begun.elapsed(), files(plan).1.len());
}

#[test]
fn what_can_wait_is_for_drives_that_nobody_needs() {
    let mut view = view(vec![drive("a", Some(2))], vec![recall(1, 2, 90), recall(2, 1, 5)]);
    view.queue[0].can_wait = true;
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00001".into(), vec![2]), "though it is not loaded");
    view.queue.remove(1);
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00002".into(), vec![1]));
}

#[test]
fn a_second_copy_goes_to_another_volume() {
    let mut second = archive(1, GB);
    second.not_on = vec![vid(2), vid(3)];
    let view = view(vec![drive("a", Some(2))], vec![second, archive(2, GB)]);
    // The volume of the oldest file is taken; the other one has no copy there.
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00001".into(), vec![1, 2]));
}

#[test]
fn an_unread_volume_is_read_and_not_written() {
    let mut view = view(vec![drive("a", None)], vec![recall(1, 4, 90), archive(2, GB)]);
    view.volumes = [volume(4, VolumeState::Unread)].into();
    assert_eq!(files(next_session(&view, "a", NOW)), ("V00004".into(), vec![1]));
    assert!(explain(&view, &view.queue[1], NOW).ends_with("volumes that wait for a survey: 1"));
}

prop_compose! {
    fn any_work()(id in 0u64..1000, size in 0u64..50 * GB, age in 0i64..10_000_000, late in any::<bool>(),
        target in prop::option::of((0u32..6, 0u64..100))) -> Work {
        let target = target.map(|(volume, block)| Target { vid: vid(volume), fseq: 1, block, offset: 0 });
        let kind = if target.is_some() { RequestKind::Recall } else { RequestKind::Archive };
        let not_before = if late { Timestamp(NOW.0 + 1) } else { NOW };
        Work { kind, size, created: Timestamp(NOW.0 - age), not_before, target, ..archive(id, size) }
    }
}

proptest! {
    #[test]
    fn a_drive_that_was_given_nothing_misses_nothing_until_it_looks_again(
        queue in prop::collection::vec(any_work(), 0..40), free in 0u64..200 * GB, after in 0.0f64..1.0,
        loaded in prop::option::of(0u32..5), other in prop::option::of(0u32..5), wait in 0i64..1_000_000) {
        let loaded = loaded.filter(|n| other != Some(*n));
        let mut view = view(vec![drive("a", loaded), drive("b", other)], queue);
        view.bundling = Bundling { below: 10 * GB, bytes: 40 * GB, wait: Millis(wait) };
        view.drives[1].is_writing = true;
        view.free_disk_bytes = free;
        if next_session(&view, "a", NOW).is_none() {
            let quiet = look_again_in(&view, NOW).map_or(1_000_000, |span| span.0 - 1);
            let later = NOW + Millis((quiet as f64 * after) as i64);
            prop_assert_eq!(next_session(&view, "a", later), None);
        }
    }

    #[test]
    fn plans_are_always_possible(mut queue in prop::collection::vec(any_work(), 0..40), free in 0u64..200 * GB,
        loaded in prop::option::of(0u32..5), other in prop::option::of(0u32..5), busy in any::<bool>()) {
        for (id, work) in queue.iter_mut().enumerate() {
            work.id = RequestId(id as u64);
        }
        let mut other = drive("b", other);
        if busy {
            other.busy_with.clone_from(&other.loaded);
        }
        let loaded = loaded.filter(|n| other.loaded != Some(vid(*n)));
        let mut view = view(vec![drive("a", loaded), other.clone()], queue);
        view.volumes.extend([volume(4, VolumeState::Suspect), volume(5, VolumeState::Unread)]);
        view.surveys = vec![vid(5)];
        view.free_disk_bytes = free;
        view.bundling = Bundling { below: 10 * GB, bytes: 40 * GB, wait: Millis(0) };
        for work in &view.queue {
            prop_assert!(!explain(&view, work, NOW).is_empty());
        }
        let Some(plan) = next_session(&view, "a", NOW) else { return Ok(()) };
        prop_assert!(other.loaded.as_ref() != Some(&plan.vid), "the volume is in the other drive");
        let volume = &view.volumes[&plan.vid];
        let find = |id: &RequestId| view.queue.iter().find(|work| work.id == *id).unwrap();
        match &plan.work {
            PlannedWork::Survey => prop_assert_eq!(volume.state, VolumeState::Unread),
            PlannedWork::Verify => prop_assert!(false, "nothing is to be verified"),
            PlannedWork::Label => prop_assert_eq!(volume.state, VolumeState::Blank),
            PlannedWork::Archive(files) => {
                let ids = files.concat();
                prop_assert!(files.iter().all(|file| !file.is_empty()));
                prop_assert_eq!(volume.state, VolumeState::Appendable);
                prop_assert!(!ids.is_empty());
                let bytes: u64 = ids.iter().map(|id| tape_bytes(find(id).size)).sum();
                prop_assert!(bytes <= volume.free_bytes);
                prop_assert!(ids.iter().all(|id| find(id).not_before <= NOW));
            }
            PlannedWork::Recall(ids) => {
                prop_assert!(volume.state != VolumeState::Suspect && !ids.is_empty());
                prop_assert!(ids.iter().map(|id| find(id).size).sum::<u64>() <= free);
                let blocks: Vec<_> = ids.iter().map(|id| find(id).target.as_ref().unwrap().block).collect();
                prop_assert!(blocks.is_sorted());
            }
        }
    }
}

#[test]
fn a_drive_looks_again_when_time_may_give_it_work_and_not_before() {
    let idle = view(vec![drive("a", None)], Vec::new());
    assert_eq!(look_again_in(&idle, NOW), None, "an empty queue changes by what is announced only");
    let later = Work { not_before: NOW + Millis(250), ..recall(1, 1, 1) };
    assert_eq!(look_again_in(&view(vec![drive("a", None)], vec![later]), NOW), Some(Millis(250)));
    let mut full = view(vec![drive("a", None)], vec![recall(1, 1, 1)]);
    full.free_disk_bytes = GB - 1;
    assert_eq!(look_again_in(&full, NOW), Some(Millis(1000)), "space comes without a word");
    full.volumes.extend([volume(1, VolumeState::Suspect)]);
    assert_eq!(look_again_in(&full, NOW), Some(Millis(600_001)), "space would not help");
}
