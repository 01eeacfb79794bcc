//! Surplus: never the last, never below the promise, never what is only hoped for.

use super::*;
use crate::pool::{
    decide::{promise::good_pieces, view::PieceView},
    testing::{file, retold, snapshot, world},
};
use proptest::prelude::*;

#[test]
fn only_verified_ones_on_servers_that_answer_count() {
    let mut snapshot = snapshot(4, 4);
    let mut view = file(1, 2, &["p0", "p1", "p2"]);
    assert_eq!(surplus(&snapshot, &view).len(), 1);
    for state in [PieceState::Coming, PieceState::Suspect] {
        view.pieces[0].state = state;
        assert_eq!(surplus(&snapshot, &view), [], "{state:?}");
    }
    view.pieces[0].state = PieceState::Lost;
    let lost = Removal { object: view.pieces[0].object, partition: "p0".into() };
    assert_eq!(surplus(&snapshot, &view), [lost], "what is lost goes when the file is whole");
    snapshot.partition_mut("p1").unwrap().heard.0 -= snapshot.pool.heard_bound.0 + 1;
    assert_eq!(surplus(&snapshot, &view), [], "not before");
}

#[test]
fn pinned_ones_stay_and_the_fullest_partition_is_relieved() {
    let mut snapshot = snapshot(4, 4);
    let mut view = file(1, 2, &["p0", "p1", "p2"]);
    snapshot.partition_mut("p1").unwrap().free_bytes /= 2;
    let at = |snapshot: &Snapshot, view: &FileView| surplus(snapshot, view)[0].partition.to_string();
    assert_eq!(at(&snapshot, &view), "p1");
    view.pieces[1].is_pinned = true;
    assert_eq!(at(&snapshot, &view), "p2", "equal ones by name");
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    assert_eq!(at(&snapshot, &view), "p0");
    snapshot.partition_mut("p0").unwrap().state = PartitionState::ReadOnly;
    assert_eq!(at(&snapshot, &view), "p2", "a read-only file system deletes nothing");
    for piece in &mut view.pieces {
        piece.is_pinned = true;
    }
    assert_eq!(surplus(&snapshot, &view), []);
}

#[test]
fn what_cannot_go_yet_is_not_replaced_by_what_would_have_to_be_made_again() {
    let mut snapshot = snapshot(4, 4);
    let mut view = file(1, 2, &["p0", "p1", "p2"]);
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    view.pieces[0].is_pinned = true;
    assert_eq!(surplus(&snapshot, &view), [], "while the drained one is read");
    view.pieces[0].is_pinned = false;
    assert_eq!(surplus(&snapshot, &view).len(), 1);
}

proptest! {
    #[test]
    fn no_deletion_lowers_good_pieces_below_the_promise(seed: u64) {
        let (snapshot, files) = world(seed);
        for before in &files {
            let removals = surplus(&snapshot, before);
            let mut after = before.clone();
            after.pieces.retain(|piece| !removals.iter().any(|removal| removal.object == piece.object));
            prop_assert_eq!(before.pieces.len() - after.pieces.len(), removals.len());
            let target = before.layout.pieces();
            let (was, is) = (good_pieces(&snapshot, before), good_pieces(&snapshot, &after));
            prop_assert!(is >= was.min(target), "{} good of {} became {}", was, target, is);
            let is_gone = |piece: &&PieceView| removals.iter().any(|removal| removal.object == piece.object);
            for piece in before.pieces.iter().filter(is_gone) {
                prop_assert!(!piece.is_pinned);
                prop_assert!(snapshot.is_good(piece) || piece.state == PieceState::Lost);
            }
            prop_assert_eq!(surplus(&snapshot, &after), vec![], "once is enough");
            let (again, retold) = retold(&snapshot, std::slice::from_ref(before), seed);
            prop_assert_eq!(surplus(&again, &retold[0]), removals);
        }
    }
}
