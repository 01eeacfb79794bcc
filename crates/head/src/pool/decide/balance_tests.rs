//! Balancing: towards the mean, within bounds, and it ends.

use super::*;
use crate::pool::{
    decide::{policy::Rate, surplus::surplus},
    testing::{begin, file, finish, partition, retold, snapshot, world},
};
use base::rng::Rng;
use proptest::prelude::*;

const GB: u64 = 1_000_000_000;

#[test]
fn equal_partitions_stay() {
    let snapshot = snapshot(4, 4);
    assert!((mean_fill(&snapshot) - 0.5).abs() < 1e-9);
    assert_eq!(overfull(&snapshot, &Budget::new(&snapshot.pool)), []);
}

#[test]
fn the_fullest_gives_what_is_too_much_and_what_is_on_its_way_counts() {
    let mut snapshot = snapshot(4, 4);
    snapshot.partition_mut("p2").unwrap().free_bytes = 100 * GB;
    // The mean is 0.6, and 0.1 from it is borne.
    let mut budget = Budget::new(&snapshot.pool);
    let over = overfull(&snapshot, &budget);
    assert_eq!((&*over[0].partition, (over[0].excess_bytes + GB / 2) / GB), ("p2", 250));
    let mut files = vec![file(1, 2, &["p0", "p2"]), file(2, 2, &["p0", "p1"])];
    files[0].pieces[1].size_bytes = 50 * GB;
    let orders = balance(&snapshot, &files, &mut budget, 1);
    assert_eq!(orders.len(), 1);
    assert_eq!((orders[0].file.0, orders[0].relieves.as_deref()), (1, Some("p2")));
    let less = overfull(&snapshot, &budget);
    assert_eq!((less[0].excess_bytes + GB / 2) / GB, 200);
    begin(&mut snapshot, &mut files, &orders);
    finish(&mut files[0]);
    let removals = surplus(&snapshot, &files[0]);
    assert_eq!((removals.len(), &*removals[0].partition), (1, "p2"));
}

#[test]
fn what_is_too_much_leaves_also_where_all_others_are_fuller() {
    let mut snapshot = snapshot(3, 3);
    let small = snapshot.partition_mut("p0").unwrap();
    (small.capacity_bytes, small.over_bytes, small.free_bytes) = (3 * GB, 4 * GB, 0);
    snapshot.partition_mut("p1").unwrap().free_bytes = 100 * GB;
    // The mean is 0.7, and the only other place of this file is at 0.9.
    let files = [file(1, 2, &["p0", "p2"])];
    let orders = balance(&snapshot, &files, &mut Budget::new(&snapshot.pool), 1);
    assert_eq!(orders.iter().map(|order| &*order.target).collect::<Vec<_>>(), ["p1"]);
}

#[test]
fn a_new_server_is_filled_by_all_others() {
    let mut snapshot = snapshot(4, 4);
    let mut new = partition(9, 10);
    new.free_bytes = new.capacity_bytes;
    snapshot.put(new);
    // The mean is 0.4: the new one wants 0.35 of its capacity, and each other has 0.1 above the mean.
    let over = overfull(&snapshot, &Budget::new(&snapshot.pool));
    let all: u64 = over.iter().map(|over| over.excess_bytes).sum();
    assert_eq!((over.len(), (all + GB / 2) / GB), (4, 350), "{over:?}");
}

proptest! {
    #[test]
    fn balancing_keeps_its_bounds_and_does_not_depend_on_order(seed: u64) {
        let (snapshot, files) = world(seed);
        let mut budget = Budget::new(&snapshot.pool);
        let orders = balance(&snapshot, &files, &mut budget, seed);
        let (again, retold) = retold(&snapshot, &files, seed);
        prop_assert_eq!(&balance(&again, &retold, &mut Budget::new(&again.pool), seed), &orders);
        let Rate { pool_copies, .. } = snapshot.pool.moves;
        prop_assert!(orders.len() <= pool_copies as usize);
        for order in &orders {
            let (from, to) = (order.relieves.clone().unwrap(), snapshot.partition(&order.target).unwrap());
            prop_assert!(snapshot.partition(&from).unwrap().fill() > to.fill());
        }
    }

    #[test]
    fn balancing_comes_to_an_end(seed: u64) {
        let mut snapshot = snapshot(6, 3);
        let mut rng = Rng::new(seed);
        for number in 0..6 {
            let at = snapshot.partition_mut(&format!("p{number}")).unwrap();
            at.free_bytes = 100 * GB + rng.below(800 * GB);
        }
        let mut files: Vec<_> = (1..200)
            .map(|id| {
                let (a, b) = (rng.below(6), 1 + rng.below(2));
                let mut file = file(id, 2, &[&format!("p{a}"), &format!("p{}", (a + b) % 6)]);
                file.pieces.iter_mut().for_each(|piece| piece.size_bytes = 5 * GB);
                file
            })
            .collect();
        for _ in 0..500 {
            let orders = balance(&snapshot, &files, &mut Budget::new(&snapshot.pool), rng.next_u64());
            if orders.is_empty() {
                return Ok(());
            }
            begin(&mut snapshot, &mut files, &orders);
            for file in &mut files {
                finish(file);
                let removals = surplus(&snapshot, file);
                for removal in &removals {
                    let at = snapshot.partition_mut(&removal.partition).unwrap();
                    at.free_bytes += 5 * GB;
                }
                file.pieces.retain(|piece| !removals.iter().any(|removal| removal.object == piece.object));
                prop_assert_eq!(file.pieces.len(), 2);
            }
        }
        prop_assert!(false, "files go in circles");
    }
}
