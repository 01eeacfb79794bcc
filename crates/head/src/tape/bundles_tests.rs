//! Which files become bundles, by example.

use super::{
    Bundling,
    plan::{PlannedWork, next_session},
    plan_tests::{NOW, archive, drive, explain, view},
};
use base::{FileId, Millis};

const BUNDLING: Bundling = Bundling { below: 100, bytes: 250, wait: Millis(0) };

fn tape_files(plan: Option<super::plan::Plan>) -> Vec<Vec<u64>> {
    match plan.expect("there is something to do").work {
        PlannedWork::Archive(files) => {
            files.iter().map(|file| file.iter().map(|id| id.0).collect()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn small_files_share_tape_files_and_those_of_a_directory_lie_together() {
    let mut queue: Vec<_> = (1..=6).map(|id| archive(id, 90)).collect();
    queue.insert(2, archive(7, 5000));
    for (work, directory) in queue.iter_mut().zip([8, 9, 8, 9, 8, 9, 8]) {
        work.directory = FileId(directory);
    }
    let mut view = view(vec![drive("a", None)], queue);
    assert_eq!(tape_files(next_session(&view, "a", NOW)).len(), 7, "nobody wants bundles");
    view.bundling = BUNDLING;
    let files = tape_files(next_session(&view, "a", NOW));
    // Two of 90 bytes fit 250 bytes, three do not.
    assert_eq!(files, [vec![7], vec![1, 4], vec![6, 2], vec![3, 5]]);
}

#[test]
fn files_of_a_directory_follow_each_other_on_tape_and_the_oldest_request_comes_first() {
    let mut queue: Vec<_> = (1..=6).map(|id| archive(id, 5000)).collect();
    for (work, directory) in queue.iter_mut().zip([9, 8, 9, 7, 8, 9]) {
        work.directory = FileId(directory);
    }
    let view = view(vec![drive("a", None)], queue);
    let files = tape_files(next_session(&view, "a", NOW)).concat();
    assert_eq!(files, [1, 3, 6, 2, 5, 4]);
}

#[test]
fn a_small_file_waits_for_others_as_long_as_it_may() {
    let mut view = view(vec![drive("a", None)], vec![archive(1, 90), archive(2, 100)]);
    view.bundling = Bundling { wait: Millis::from_seconds(60), ..BUNDLING };
    assert_eq!(tape_files(next_session(&view, "a", NOW)), [vec![2]], "the large one does not wait");
    let why = explain(&view, &view.queue[0], NOW);
    assert_eq!(why, "waits up to 1 min 00 s for other small files, to be written as one with them");
    assert_eq!(tape_files(next_session(&view, "a", NOW + Millis::from_seconds(60))).len(), 2);
    // A bundle that is full waits for nobody.
    view.queue.extend([archive(3, 90), archive(4, 90)]);
    assert_eq!(tape_files(next_session(&view, "a", NOW)), [vec![2], vec![1, 3], vec![4]]);
}
