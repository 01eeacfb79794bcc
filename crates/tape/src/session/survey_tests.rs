//! Sessions that survey: what the head has forgotten it learns again.

use super::super::tests::World;
use crate::{fake::vid, watchdog::Operation};
use base::{ErrorKind, Failure};
use proptest::prelude::*;
use std::fs;
use wire::control::{AppendPoint, Blame, TapeWork};

const ALL: u64 = u64::MAX;

impl World {
    fn survey(&mut self, bytes_max: u64) {
        self.sessions += 1;
        let orders = self.head.lock().survey(self.sessions, bytes_max);
        self.run(&orders);
    }

    /// Files that were found, by the request with which they were archived.
    fn found(&self) -> Vec<u64> {
        let head = self.head.lock();
        let disk = &self.disk;
        let found = head.found.iter().map(|found| {
            let file = disk.archive_file(found.file.0 - 100);
            assert_eq!((found.size, found.checksums), (file.size, file.checksums));
            file.request.0
        });
        found.collect()
    }
}

#[test]
fn what_the_head_forgot_is_found_and_writing_goes_on() {
    let mut world = World::new();
    let files = world.files(1, &[0, 1, 512, 70_000]);
    world.archive(&files);
    let end = world.head.lock().append;
    world.head.lock().forget();
    world.bay = None;
    world.survey(ALL);
    assert_eq!((world.head.trouble(), world.found()), (None, files));
    assert_eq!(world.head.lock().surveyed, Some(end));
    let more = world.files(9, &[100]);
    world.archive(&more);
    world.recall(&more);
    assert_eq!(world.head.trouble(), None);
}

#[test]
fn what_is_found_is_made_durable_before_it_is_reported() {
    let mut world = World::new();
    let files = world.files(1, &[10, 20]);
    world.archive(&files);
    world.head.lock().forget();
    let watchdog = world.bay().watchdog.clone();
    watchdog.take_history();
    // The report fails, so what the drive did until then is what it did before the report.
    let closed = Failure::not_found("no such session");
    world.head.lock().refusals.insert("files_found", (closed, 1));
    world.survey(ALL);
    assert!(watchdog.take_history().contains(&Operation::Flush));
    // Nothing was found behind the end, so there is nothing to flush.
    world.survey(ALL);
    watchdog.take_history();
    world.survey(ALL);
    assert_eq!((world.head.trouble(), world.found()), (None, files));
    assert!(!watchdog.take_history().contains(&Operation::Flush));
}

#[test]
fn an_empty_volume_and_a_blank_one_are_told_apart() {
    let mut world = World::new();
    world.survey(ALL);
    let empty = AppendPoint { fseq: 1, block: 1, may_have_leftover: false };
    assert_eq!(world.head.lock().surveyed, Some(Some(empty)));
    world.head.lock().forget();
    let mut orders = world.head.lock().survey(7, ALL);
    orders.vid = vid(2);
    world.run(&orders);
    assert_eq!((world.head.trouble(), world.head.lock().surveyed), (None, Some(None)));
}

#[test]
fn a_session_reads_so_much_and_the_next_goes_on() {
    let mut world = World::new();
    let files = world.files(1, &[1000, 1000, 0, 1000, 1000]);
    world.archive(&files);
    world.head.lock().forget();
    let mut sessions = 0;
    while world.head.lock().surveyed.is_none() {
        world.survey(1500);
        sessions += 1;
        assert_eq!(world.head.trouble(), None);
    }
    assert_eq!((world.found(), sessions), (files, 3));
}

#[test]
fn what_was_found_before_damage_counts() {
    let mut world = World::new();
    let files = world.files(1, &[3000, 3000, 3000]);
    world.archive(&files);
    world.bay = None;
    let mut image = fs::read(world.image()).unwrap();
    // The header of the second file.
    let at =
        image.windows(10).enumerate().filter(|(_, window)| window.starts_with(b"UHL1")).nth(1).unwrap().0;
    image[at + 12] ^= 1;
    fs::write(world.image(), image).unwrap();
    world.head.lock().forget();
    world.survey(ALL);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.kind), (Blame::Volume, ErrorKind::Corrupt));
    assert!(failure.what.contains("volume BP0001 file 2"), "{failure}");
    assert_eq!((world.found(), world.head.lock().surveyed), (vec![1], None));
}

#[test]
fn a_report_that_is_refused_ends_it_and_is_repeated_by_the_next() {
    let mut world = World::new();
    let files = world.files(1, &[10, 20]);
    world.archive(&files);
    world.head.lock().forget();
    let closed = Failure::not_found("no such session");
    world.head.lock().refusals.insert("files_found", (closed, 1));
    world.survey(ALL);
    assert_eq!(world.head.trouble().unwrap().0, Blame::System);
    world.survey(ALL);
    assert_eq!((world.head.trouble(), world.found()), (None, files));
}

#[test]
fn a_stop_ends_it_at_the_next_block() {
    let mut world = World::new();
    let files = world.files(1, &[5000]);
    world.archive(&files);
    world.head.lock().forget();
    world.bay().stop.set();
    world.survey(ALL);
    let (blame, failure) = world.head.trouble().unwrap();
    assert_eq!((blame, failure.what.as_str()), (Blame::System, "the tape server is stopping"));
    assert_eq!(world.head.lock().surveyed, None);
}

#[test]
fn a_swapped_cartridge_is_noticed() {
    let mut world = World::new();
    let files = world.files(1, &[100]);
    world.archive(&files);
    let mut orders = world.head.lock().survey(5, ALL);
    assert!(matches!(orders.work, TapeWork::Survey { from, .. } if from.fseq == 2));
    orders.vid = vid(2);
    world.run(&orders);
    assert_eq!(world.head.trouble().unwrap().0, Blame::Volume);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Archives, some of them with bad replicas or lost reports, surveys in pieces, and a head that forgets: what is found is
    /// what was acknowledged, and perhaps whole files whose reports were lost.
    #[test]
    fn every_acknowledged_copy_is_found(
        sessions in prop::collection::vec((prop::collection::vec(0usize..4000, 1..4), 0u8..4, any::<u64>()), 1..5),
        bytes_max in 1u64..9000,
    ) {
        let mut world = World::new();
        let mut next = 1;
        for (sizes, mishap, chance) in sessions {
            let files = world.files(next, &sizes);
            next += files.len() as u64;
            let one = files[chance as usize % files.len()];
            match mishap {
                0 => { world.disk.lock().believed.insert(one, vec![1, 2, 3]); }
                1 => {
                    let closed = Failure::not_found("no such session");
                    world.head.lock().refusals.insert("files_archived", (closed, 1));
                }
                _ => {}
            }
            world.archive(&files);
        }
        let acknowledged = world.acknowledged();
        world.disk.lock().believed.clear();
        world.head.lock().forget();
        while world.head.lock().surveyed.is_none() {
            world.survey(bytes_max);
            prop_assert_eq!(world.head.trouble(), None);
        }
        let found = world.found();
        prop_assert!(acknowledged.iter().all(|file| found.contains(file)), "{:?} of {:?}", found, acknowledged);
        let more = world.files(next, &[77]);
        world.archive(&more);
        world.recall(&more);
        prop_assert_eq!(world.head.trouble(), None);
    }
}
