//! Garbage collection: to the high water of free space, in order, never what is not safe elsewhere.

use super::*;
use crate::pool::{
    decide::policy::{Collection, Pool},
    testing::{NOW, file, retold, snapshot, world},
};
use base::Timestamp;
use proptest::prelude::*;

const GB: u64 = 1_000_000_000;

/// Files of one GB on `p0` that are on tape; each was used a day later than the one before.
fn archived(count: u64) -> Vec<FileView> {
    let files = (1..=count).map(|id| {
        let mut file = file(id, 1, &["p0"]);
        file.tape_copies = 1;
        file.created = Timestamp(NOW.0 - 400 * 86_400_000);
        file.used = Timestamp(NOW.0 - (300 - id as i64) * 86_400_000);
        file
    });
    files.collect()
}

fn with(order: CollectionOrder) -> Snapshot {
    let mut snapshot = snapshot(2, 2);
    snapshot.pool = Pool { collection: Some(Collection { order, ..Collection::default() }), ..snapshot.pool };
    snapshot
}

fn ids(files: Vec<FileId>) -> Vec<u64> {
    files.into_iter().map(|file| file.0).collect()
}

#[test]
fn collection_begins_at_one_water_and_ends_at_the_other() {
    let mut snapshot = with(CollectionOrder::LeastRecentlyUsed);
    snapshot.partition_mut("p0").unwrap().free_bytes = 50 * GB;
    assert_eq!(shortages(&snapshot), []);
    snapshot.partition_mut("p0").unwrap().free_bytes = 49 * GB;
    assert_eq!(shortages(&snapshot), [Shortage { partition: "p0".into(), bytes: 51 * GB }]);
    let files = archived(100);
    let evicted = collect(&snapshot, &files, &shortages(&snapshot));
    assert_eq!(ids(evicted), (1..=51).collect::<Vec<_>>());
    // What is to be deleted counts as free: asking again gives nothing.
    snapshot.partition_mut("p0").unwrap().leaving_bytes = 51 * GB;
    assert_eq!(shortages(&snapshot), []);
    // A person need not wait for the low water.
    snapshot.partition_mut("p0").unwrap().leaving_bytes = 11 * GB;
    assert_eq!(shortages(&snapshot), []);
    assert_eq!(shortages_now(&snapshot), [Shortage { partition: "p0".into(), bytes: 40 * GB }]);
    snapshot.pool.collection = None;
    assert_eq!(shortages_now(&snapshot), []);
    assert_eq!(shortages(&snapshot), []);
}

#[test]
fn each_order_has_its_first() {
    let mut files = archived(3);
    files[1].created.0 -= 1;
    files[2].pieces[0].size_bytes += 1;
    let one = [Shortage { partition: "p0".into(), bytes: 1 }];
    for (order, first) in
        [(CollectionOrder::LeastRecentlyUsed, 1), (CollectionOrder::Age, 2), (CollectionOrder::Size, 3)]
    {
        assert_eq!(ids(collect(&with(order), &files, &one)), [first], "{order:?}");
    }
}

#[test]
fn what_is_not_safe_or_wanted_stays() {
    let snapshot = with(CollectionOrder::LeastRecentlyUsed);
    let all = [Shortage { partition: "p0".into(), bytes: u64::MAX }];
    let wrong: [fn(&mut FileView); 6] = [
        |file| file.tape_copies = 0,
        |file| file.is_pinned = true,
        |file| file.pieces[0].is_pinned = true,
        |file| file.pieces[0].state = PieceState::Coming,
        |file| file.used = NOW,
        |file| file.pieces.clear(),
    ];
    for (index, change) in wrong.iter().enumerate() {
        let mut files = archived(1);
        assert_eq!(collect(&snapshot, &files, &all).len(), 1);
        change(&mut files[0]);
        assert_eq!(collect(&snapshot, &files, &all), [], "change {index}");
    }
    let mut file = archived(1).remove(0);
    file.used = NOW;
    assert_eq!(may_evict(&snapshot, &file, Millis(0)), Ok(()), "a person may evict what was just used");
    file.tape_copies = 0;
    let refused = may_evict(&snapshot, &file, Millis(0)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Busy);
    assert!(refused.what.contains("has no tape copy"), "{}", refused.what);
}

#[test]
fn a_write_that_finds_no_room_frees_the_least() {
    let mut snapshot = with(CollectionOrder::LeastRecentlyUsed);
    snapshot.pool.reserved_bytes = GB;
    snapshot.partition_mut("p0").unwrap().free_bytes = 3 * GB;
    snapshot.partition_mut("p1").unwrap().free_bytes = 2 * GB;
    assert_eq!(shortage_for(&snapshot, GB), None);
    assert_eq!(shortage_for(&snapshot, 4 * GB), Some(Shortage { partition: "p0".into(), bytes: 2 * GB + 1 }));
    assert_eq!(shortage_for(&snapshot, 5000 * GB), None, "that never fits");
}

proptest! {
    #[test]
    fn no_collection_takes_what_is_only_on_disk(seed: u64) {
        let (mut snapshot, files) = world(seed);
        snapshot.pool.collection = Some(Collection {
            begin_free_permille: 400,
            end_free_permille: 600,
            ..Collection::default()
        });
        let wanted = shortages(&snapshot);
        let evicted = collect(&snapshot, &files, &wanted);
        for id in &evicted {
            let file = files.iter().find(|file| file.file == *id).unwrap();
            prop_assert!(file.tape_copies > 0 && !file.is_pinned);
        }
        let (again, retold) = retold(&snapshot, &files, seed);
        prop_assert_eq!(collect(&again, &retold, &shortages(&again)), evicted.clone());
        // Carried out, it is not asked for again.
        for file in files.iter().filter(|file| evicted.contains(&file.file)) {
            for piece in &file.pieces {
                if let Some(at) = snapshot.partition_mut(&piece.partition) {
                    at.leaving_bytes += piece.size_bytes;
                }
            }
        }
        let left: Vec<_> = files.iter().filter(|file| !evicted.contains(&file.file)).cloned().collect();
        prop_assert_eq!(collect(&snapshot, &left, &shortages(&snapshot)), vec![]);
    }
}
