//! Repair: no storms, the most endangered first, within bounds, and done when it is done.

use super::*;
use crate::pool::{
    decide::{policy::Coding, surplus::surplus, view::PartitionState},
    testing::{NOW, begin, coded, file, finish, retold, snapshot, world},
};
use base::Millis;
use proptest::prelude::*;

fn ask(snapshot: &Snapshot, files: &[FileView]) -> Repairs {
    repair(snapshot, files, &mut Budget::new(&snapshot.pool), 7)
}

fn ago(span: Millis) -> Timestamp {
    Timestamp(NOW.0 - span.0)
}

#[test]
fn silence_begins_nothing_until_the_server_is_given_up() {
    let mut snapshot = snapshot(4, 4);
    let files = [file(1, 2, &["p0", "p1"])];
    assert_eq!(ask(&snapshot, &files).outlooks, [(FileId(1), Outlook::Whole)]);
    snapshot.partition_mut("p0").unwrap().heard = ago(Millis(snapshot.pool.silence_bound.0 + 1));
    let waits = ask(&snapshot, &files);
    assert_eq!((waits.orders.len(), &waits.outlooks[0].1), (0, &Outlook::Waits));
    snapshot.partition_mut("p0").unwrap().is_given_up = true;
    let begun = ask(&snapshot, &files);
    assert_eq!(begun.outlooks, [(FileId(1), Outlook::Begun)]);
    let order = &begun.orders[0];
    assert_eq!((&*order.sources[0].partition, order.reason), ("p1", Reason::Repair));
    assert!(["p2", "p3"].contains(&&*order.target));
}

#[test]
fn who_comes_back_is_suspect_for_a_while_and_then_surplus() {
    let mut snapshot = snapshot(4, 4);
    let mut files = [file(1, 2, &["p0", "p1", "p2"])];
    files[0].pieces[0].state = PieceState::Suspect;
    files[0].pieces.remove(2);
    assert_eq!(ask(&snapshot, &files).orders, [], "a suspect piece counts as there");
    assert_eq!(surplus(&snapshot, &files[0]), []);
    files[0].pieces[0].since = ago(Millis(snapshot.pool.silence_bound.0 + 1));
    assert_eq!(ask(&snapshot, &files).orders.len(), 1, "not for ever");
    let orders = ask(&snapshot, &files).orders;
    begin(&mut snapshot, &mut files, &orders);
    finish(&mut files[0]);
    assert_eq!(surplus(&snapshot, &files[0]), [], "a suspect piece is not deleted, nor does it count");
    files[0].pieces[0].state = PieceState::Verified;
    assert_eq!(surplus(&snapshot, &files[0]).len(), 1);
}

#[test]
fn the_most_endangered_goes_first_then_the_oldest() {
    let mut snapshot = snapshot(8, 8);
    snapshot.pool.repair.pool_copies = 3;
    let mut files = vec![
        file(1, 3, &["p0", "p1"]),
        file(2, 3, &["p0"]),
        file(3, 3, &["p1", "p2"]),
        file(4, 2, &["p3", "p4"]),
    ];
    files[2].since.0 -= 1;
    let repairs = ask(&snapshot, &files);
    let order: Vec<_> = repairs.orders.iter().map(|order| order.file.0).collect();
    assert_eq!(order, [2, 2, 3]);
    let outlooks: Vec<_> = repairs.outlooks.iter().map(|(file, outlook)| (file.0, outlook)).collect();
    let expected =
        [(2, &Outlook::Begun), (3, &Outlook::Begun), (1, &Outlook::Postponed), (4, &Outlook::Whole)];
    assert_eq!(outlooks, expected);
    let targets: Vec<_> = repairs.orders[..2].iter().map(|order| &order.target).collect();
    assert_ne!(targets[0], targets[1], "both copies of one file go to different places");
    files.push(files[1].clone());
    assert_eq!(ask(&snapshot, &files), repairs, "a file that is given twice counts once");
}

#[test]
fn a_drained_partition_is_copied_first_and_deleted_after() {
    let mut snapshot = snapshot(3, 3);
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    let mut files = [file(1, 2, &["p0", "p1"])];
    let orders = ask(&snapshot, &files).orders;
    assert_eq!((orders.len(), orders[0].reason, &*orders[0].target), (1, Reason::Drain, "p2"));
    begin(&mut snapshot, &mut files, &orders);
    assert_eq!(ask(&snapshot, &files).orders, []);
    assert_eq!(surplus(&snapshot, &files[0]), []);
    finish(&mut files[0]);
    let removals = surplus(&snapshot, &files[0]);
    assert_eq!((removals.len(), &*removals[0].partition), (1, "p0"));
}

#[test]
fn a_lost_piece_is_repaired_before_a_drained_one_moves() {
    let mut snapshot = snapshot(6, 6);
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    snapshot.pool.repair.pool_copies = 1;
    let mut both = file(1, 2, &["p0", "p1"]);
    both.pieces[1].state = PieceState::Lost;
    let repairs = ask(&snapshot, &[both]);
    let reasons: Vec<_> = repairs.orders.iter().map(|order| order.reason).collect();
    assert_eq!(reasons, [Reason::Repair, Reason::Drain]);
}

#[test]
fn copies_in_one_rack_are_spread_when_another_has_room() {
    let mut snapshot = snapshot(4, 2);
    let mut files = [file(1, 2, &["p0", "p2"])];
    let orders = ask(&snapshot, &files).orders;
    assert_eq!((orders.len(), orders[0].reason), (1, Reason::Spread));
    let target = orders[0].target.clone();
    begin(&mut snapshot, &mut files, &orders);
    assert_eq!(ask(&snapshot, &files).orders, []);
    finish(&mut files[0]);
    let removals = surplus(&snapshot, &files[0]);
    assert_eq!(removals.len(), 1);
    assert_ne!(removals[0].partition, target, "what was brought apart stays");
    for name in ["p1", "p3"] {
        snapshot.partition_mut(name).unwrap().free_bytes = 0;
    }
    let full = ask(&snapshot, &[file(1, 2, &["p0", "p2"])]);
    assert_eq!((full.orders.len(), &full.outlooks[0].1), (0, &Outlook::Whole));
}

#[test]
fn a_coded_piece_is_made_from_others_and_moved_from_itself() {
    let mut snapshot = snapshot(8, 8);
    let coding = Coding { data: 3, parity: 2 };
    let mut view = coded(1, coding, &["p0", "p1", "p2", "p3", "p4"]);
    view.pieces[1].state = PieceState::Lost;
    let orders = ask(&snapshot, &[view.clone()]).orders;
    assert_eq!((orders.len(), orders[0].index, orders[0].sources.len()), (1, 1, 3));
    snapshot.partition_mut("p0").unwrap().state = PartitionState::Draining;
    let orders = ask(&snapshot, &[view.clone()]).orders;
    let drain = orders.iter().find(|order| order.index == 0).unwrap();
    assert_eq!((drain.reason, drain.sources.len(), &*drain.sources[0].partition), (Reason::Drain, 1, "p0"));
    for piece in &mut view.pieces[2..4] {
        piece.state = PieceState::Lost;
    }
    assert_eq!(ask(&snapshot, &[view]).outlooks, [(FileId(1), Outlook::Lost)]);
}

#[test]
fn what_cannot_be_copied_is_said_to_wait_to_be_on_tape_or_to_be_lost() {
    let mut snapshot = snapshot(4, 4);
    let mut view = file(1, 2, &["p0"]);
    view.pieces[0].state = PieceState::Lost;
    let outlook = |snapshot: &Snapshot, view: &FileView| {
        ask(snapshot, std::slice::from_ref(view)).outlooks[0].1.clone()
    };
    assert_eq!(outlook(&snapshot, &view), Outlook::Lost);
    view.tape_copies = 1;
    assert_eq!(outlook(&snapshot, &view), Outlook::Recall);
    view.pieces[0].state = PieceState::Suspect;
    assert_eq!(outlook(&snapshot, &view), Outlook::Waits);
    view.tape_copies = 0;
    view.pieces[0].state = PieceState::Verified;
    snapshot.partition_mut("p0").unwrap().is_given_up = true;
    assert_eq!(outlook(&snapshot, &view), Outlook::Waits, "its server may come back");
    let full = file(2, 2, &["p1"]);
    for name in ["p0", "p2", "p3"] {
        snapshot.partition_mut(name).unwrap().free_bytes = 0;
    }
    assert!(matches!(outlook(&snapshot, &full), Outlook::NoRoom(_)));
}

/// Whether nothing under way is above the bounds.
fn is_bounded(pool: &crate::pool::decide::policy::Pool, budget: &Budget) -> bool {
    let fits = |at: crate::pool::decide::budget::ActiveCopies, copies: u32, bytes: u64| {
        at.copies <= copies && (at.bytes <= bytes || at.copies == 1)
    };
    [(true, pool.repair), (false, pool.moves)].into_iter().all(|(is_repair, rate)| {
        fits(budget.under_way(is_repair), rate.pool_copies, rate.pool_bytes)
            && budget
                .servers(is_repair)
                .all(|(_, at)| fits(at, u32::from(rate.server_copies), rate.server_bytes))
    })
}

proptest! {
    #[test]
    fn decisions_do_not_depend_on_order_and_are_empty_when_repeated(seed: u64, random: u64) {
        let (mut snapshot, mut files) = world(seed);
        let mut budget = Budget::new(&snapshot.pool);
        let repairs = repair(&snapshot, &files, &mut budget, random);
        let (again, retold) = retold(&snapshot, &files, seed ^ random);
        prop_assert_eq!(&repair(&again, &retold, &mut Budget::new(&again.pool), random), &repairs);
        prop_assert!(is_bounded(&snapshot.pool, &budget));
        prop_assert_eq!(&Budget::with(&snapshot.pool, &repairs.orders), &budget);
        begin(&mut snapshot, &mut files, &repairs.orders);
        let repeated = repair(&snapshot, &files, &mut budget, random.wrapping_add(1));
        prop_assert_eq!(repeated.orders, vec![]);
    }

    #[test]
    fn repair_goes_on_until_files_are_whole_and_then_ends(seed: u64) {
        let (mut snapshot, mut files) = world(seed);
        // As after all faults: everybody is back, and has room.
        for name in snapshot.partitions().iter().map(|at| at.name.clone()).collect::<Vec<_>>() {
            let at = snapshot.partition_mut(&name).unwrap();
            (at.is_given_up, at.heard, at.free_bytes) = (false, NOW, at.capacity_bytes);
            if at.state == PartitionState::Retired {
                at.state = PartitionState::InUse;
            }
        }
        for piece in files.iter_mut().flat_map(|file| &mut file.pieces) {
            piece.is_pinned = false;
            if piece.state == PieceState::Suspect {
                piece.state = PieceState::Verified;
            }
        }
        files.iter_mut().for_each(finish);
        let mut rounds = 0;
        loop {
            let repairs = repair(&snapshot, &files, &mut Budget::new(&snapshot.pool), seed);
            begin(&mut snapshot, &mut files, &repairs.orders);
            files.iter_mut().for_each(finish);
            let mut removed = 0;
            for file in &mut files {
                let removals = surplus(&snapshot, file);
                removed += removals.len();
                file.pieces.retain(|piece| !removals.iter().any(|removal| removal.object == piece.object));
            }
            if repairs.orders.is_empty() && removed == 0 {
                for (file, outlook) in repairs.outlooks {
                    let is_ended = matches!(outlook, Outlook::Whole | Outlook::Lost | Outlook::Recall | Outlook::NoRoom(_));
                    let view = files.iter().find(|view| view.file == file);
                    prop_assert!(is_ended, "{:?}: {:?}", outlook, view);
                }
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 1000, "it goes in circles");
        }
    }
}
