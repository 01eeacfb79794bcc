//! Placement: apart, weighted, repeatable, refused with a reason.

use super::*;
use crate::pool::testing::{file, retold, snapshot, world};
use base::{ErrorKind, rng::Rng};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MB: u64 = 1_000_000;

fn wish(pieces: u8) -> PlacementRequest<'static> {
    PlacementRequest { pieces, pieces_min: 1, bytes: MB, beside: &[], purpose: Purpose::Write }
}

#[test]
fn copies_stand_in_different_racks() {
    let snapshot = snapshot(12, 3);
    for random in 0..500 {
        let placed = place(&snapshot, &wish(3), random).unwrap();
        let racks: BTreeSet<_> =
            placed.partitions.iter().map(|name| &*snapshot.partition(name).unwrap().domain).collect();
        assert_eq!((racks.len(), placed.is_spread), (3, true), "{placed:?}");
    }
}

#[test]
fn with_too_few_racks_copies_stand_on_different_servers_and_it_is_said() {
    let snapshot = snapshot(4, 1);
    let placed = place(&snapshot, &wish(3), 1).unwrap();
    let servers: BTreeSet<_> = placed.partitions.iter().collect();
    assert_eq!((servers.len(), placed.is_spread), (3, false));
    let spread = PlacementRequest { purpose: Purpose::Spread, ..wish(3) };
    assert_eq!(place(&snapshot, &spread, 1).unwrap().partitions.len(), 1, "no second one in the same rack");
}

#[test]
fn new_pieces_stay_away_from_old_ones_but_not_from_leaving_or_lost_ones() {
    let mut snapshot = snapshot(4, 2);
    let old = file(1, 2, &["p0"]);
    let beside = PlacementRequest { beside: &old.pieces, ..wish(1) };
    let found = |snapshot: &Snapshot, wish: &PlacementRequest<'_>| {
        let placed = (0..200).map(|random| place(snapshot, wish, random).unwrap().partitions[0].to_string());
        placed.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(&snapshot, &beside), "p1 p3");
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    assert_eq!(found(&snapshot, &beside), "p1 p2 p3", "what leaves makes room for its successor");
    snapshot.partition_mut("p0").unwrap().state = PartitionState::InUse;
    let mut lost = old.clone();
    lost.pieces[0].state = PieceState::Lost;
    let beside = PlacementRequest { beside: &lost.pieces, ..wish(1) };
    assert_eq!(found(&snapshot, &beside), "p0 p1 p2 p3");
}

#[test]
fn more_room_and_less_load_are_taken_more_often() {
    let mut snapshot = snapshot(3, 3);
    snapshot.pool.reserved_bytes = 0;
    snapshot.partition_mut("p0").unwrap().free_bytes /= 4;
    snapshot.partition_mut("p1").unwrap().busy = 1;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for random in 0..7000 {
        let placed = place(&snapshot, &wish(1), random).unwrap();
        *counts.entry(placed.partitions[0].to_string()).or_default() += 1;
    }
    // Weights are 1, 2 and 4 of 7.
    for (name, expected) in [("p0", 1000), ("p1", 2000), ("p2", 4000)] {
        let found = counts[name];
        assert!(found.abs_diff(expected) < 150, "{name}: {found} instead of {expected}");
    }
}

#[test]
fn what_must_not_be_written_is_not() {
    let mut snapshot = snapshot(6, 6);
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    snapshot.partition_mut("p1").unwrap().state = PartitionState::ReadOnly;
    snapshot.partition_mut("p2").unwrap().state = PartitionState::Retired;
    snapshot.partition_mut("p3").unwrap().heard.0 -= snapshot.pool.heard_bound.0 + 1;
    snapshot.partition_mut("p4").unwrap().is_given_up = true;
    let placed = place(&snapshot, &wish(3), 9).unwrap();
    assert_eq!(placed.partitions, ["p5".into()]);
    let all = PlacementRequest { pieces_min: 3, ..wish(3) };
    assert_eq!(place(&snapshot, &all, 9).unwrap_err().kind, ErrorKind::NoSpace);
}

#[test]
fn reserved_and_promised_space_is_kept() {
    let mut snapshot = snapshot(1, 1);
    snapshot.pool.reserved_bytes = 10 * MB;
    let at = snapshot.partition_mut("p0").unwrap();
    (at.free_bytes, at.incoming_bytes) = (31 * MB, 15 * MB);
    let bytes = |bytes, purpose| PlacementRequest { bytes, purpose, ..wish(1) };
    assert!(place(&snapshot, &bytes(5 * MB, Purpose::Write), 1).is_ok());
    let refused = place(&snapshot, &bytes(6 * MB, Purpose::Write), 1).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NoSpace);
    assert_eq!(
        refused.what,
        "pool main has 5.72 MiB free, 5.72 MiB on one partition; 5.72 MiB are needed on one partition"
    );
    assert!(refused.hint.is_some());
    assert!(place(&snapshot, &bytes(6 * MB, Purpose::Repair), 1).is_ok(), "repair may use what is reserved");
    assert!(place(&snapshot, &bytes(16 * MB, Purpose::Repair), 1).is_err());
}

#[test]
fn nobody_there_is_another_refusal_than_no_room() {
    let mut snapshot = snapshot(2, 2);
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    snapshot.partition_mut("p1").unwrap().heard.0 -= snapshot.pool.heard_bound.0 + 1;
    let refused = place(&snapshot, &wish(1), 1).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert!(refused.what.contains("of 2, 1 are silent and 1 draining"), "{}", refused.what);
    let nothing = Snapshot::new(snapshot.pool.clone(), Vec::new(), snapshot.now);
    assert_eq!(place(&nothing, &wish(1), 1).unwrap_err().kind, ErrorKind::Unavailable);
}

proptest! {
    #[test]
    fn placement_is_apart_legal_and_repeatable(seed: u64, random: u64, pieces in 1u8..6) {
        let (snapshot, files) = world(seed);
        let file = &files[0];
        let wish = PlacementRequest { beside: &file.pieces, ..wish(pieces) };
        let placed = place(&snapshot, &wish, random);
        let (again, retold) = retold(&snapshot, &files, Rng::new(seed).next_u64());
        let same = retold.iter().find(|same| same.file == file.file).unwrap();
        prop_assert_eq!(&place(&again, &PlacementRequest { beside: &same.pieces, ..wish }, random), &placed);
        let Ok(placed) = placed else { return Ok(()) };
        let chosen: Vec<_> = placed.partitions.iter().map(|name| snapshot.partition(name).unwrap()).collect();
        for at in &chosen {
            prop_assert!(at.state == PartitionState::InUse && snapshot.answers(at));
            prop_assert!(at.room_bytes() > wish.bytes + snapshot.pool.reserved_bytes);
            prop_assert!(!file.pieces.iter().any(|piece| piece.partition == at.name && piece.state != PieceState::Lost));
        }
        let names: BTreeSet<_> = placed.partitions.iter().collect();
        prop_assert_eq!(names.len(), chosen.len());
        // Every domain that could take a piece and has none is used before any is used twice.
        let free = snapshot.partitions().iter().filter(|at| takes(&snapshot, at, &wish));
        let staying = file.pieces.iter().filter(|piece| snapshot.is_there(piece) && !snapshot.is_leaving(piece));
        let taken: BTreeSet<_> =
            staying.map(|piece| snapshot.domain(snapshot.partition(&piece.partition).unwrap())).collect();
        let open: BTreeSet<_> = free.map(|at| snapshot.domain(at)).filter(|domain| !taken.contains(domain)).collect();
        let fresh: BTreeSet<_> =
            chosen.iter().map(|at| snapshot.domain(at)).filter(|domain| !taken.contains(domain)).collect();
        prop_assert_eq!(fresh.len(), open.len().min(usize::from(pieces)));
    }
}
