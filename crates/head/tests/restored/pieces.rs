//! Pieces of coded files, taken in after the catalogue was lost.

use super::{Place, stray};
use base::{FileId, ObjectId};
use head::Core;
use proptest::prelude::*;
use wire::{
    control::{Coding, FileState, FoundObject, GetStatus, SettleCatalogue, Stat},
    media::object::Piece,
};

/// A piece of a coded file with 10 000 bytes, which describes itself.
pub(super) fn stray_piece(object: u64, index: u8, generation: u64) -> FoundObject {
    let whole = base::Checksums::of(&generation.to_be_bytes());
    let coding = Coding { data: 2, parity: 1 };
    let piece = Piece { coding, cell_bytes: 4096, index, file_bytes: 10_000, file_checksums: whole };
    let shape = piece.shape(FileId(50), generation).unwrap();
    let mut found = stray(object, 50, "/coded", generation);
    let described = found.described.as_mut().unwrap();
    described.label.piece = Some(piece);
    FoundObject { size: shape.piece_bytes(), ..found }
}

/// The same file as it was written, before it was cut.
fn stray_whole(object: u64, generation: u64) -> FoundObject {
    let mut found = stray(object, 50, "/coded", generation);
    found.described.as_mut().unwrap().checksums = base::Checksums::of(&generation.to_be_bytes());
    FoundObject { size: 10_000, ..found }
}

/// A piece that was cut when its pool was coded otherwise.
fn stray_other_coding(object: u64, index: u8, generation: u64) -> FoundObject {
    let mut found = stray_piece(object, index, generation);
    let piece = found.described.as_mut().unwrap().label.piece.as_mut().unwrap();
    piece.coding = Coding { data: 2, parity: 2 };
    found
}

fn whole_sums(generation: u64) -> base::Checksums {
    base::Checksums::of(&generation.to_be_bytes())
}

fn coded(place: &Place, core: &mut Core) -> wire::control::FileInfo {
    place.call(core, Stat { path: "/coded".parse().unwrap() }).unwrap()
}

#[test]
fn pieces_are_taken_in_with_the_file_that_they_are_of() {
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    let wrong = FoundObject { size: 4096, ..stray_piece(63, 1, 60) };
    assert_eq!(
        place.tell(&mut core, &[stray_piece(61, 0, 60), wrong.clone()]),
        2,
        "one of two is not enough"
    );
    assert!(place.names(&mut core, "/").is_empty());
    let all = [stray_piece(62, 2, 60), stray_piece(61, 0, 60), wrong];
    assert_eq!(place.tell(&mut core, &all), 1, "no piece is that short");
    let info = coded(&place, &mut core);
    assert_eq!((info.entry.state, info.entry.size, info.pieces.len()), (Some(FileState::Online), 10_000, 2));
    assert_eq!(info.entry.checksums, Some(base::Checksums::of(&60u64.to_be_bytes())));
    // What was written later counts, as soon as it can be read, and nothing of the two is put together.
    assert_eq!(place.tell(&mut core, &[stray_piece(71, 1, 70), stray_piece(64, 1, 60)]), 1);
    let info = coded(&place, &mut core);
    assert_eq!((info.entry.checksums, info.pieces.len()), (Some(whole_sums(60)), 3));
    assert_eq!(place.tell_more(&mut core, "q", &[stray_piece(72, 0, 70)]), 0, "the first one waited for it");
    let info = coded(&place, &mut core);
    assert_eq!((info.entry.state, info.entry.checksums), (Some(FileState::Online), Some(whole_sums(70))));
    assert_eq!(info.pieces.len(), 2);
    let restored = place.call(&mut core, GetStatus {}).unwrap().restored.unwrap();
    assert_eq!(restored.partitions.iter().map(|said| said.shown.len()).sum::<usize>(), 0);
}

#[test]
fn a_stray_piece_of_a_write_that_ended_early_replaces_nothing() {
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    let acknowledged = [stray_piece(61, 0, 60), stray_piece(62, 1, 60)];
    place.tell(&mut core, &acknowledged);
    let all = [stray_piece(71, 0, 70), stray_piece(72, 0, 70), stray_other_coding(73, 1, 70)];
    assert_eq!(place.tell(&mut core, &all), 3, "twice the same, and one that was cut otherwise");
    let info = coded(&place, &mut core);
    assert_eq!((info.entry.state, info.entry.checksums), (Some(FileState::Online), Some(whole_sums(60))));
    // Nor a replica, nor what tape has; and what was put aside is forgotten when all is settled.
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    place.tell(&mut core, &[stray_piece(71, 0, 70), stray_whole(60, 60)]);
    let info = coded(&place, &mut core);
    assert_eq!((info.coding, info.entry.checksums), (None, Some(whole_sums(60))));
    place.call(&mut core, SettleCatalogue { unknown: 1, without_absent: true }).unwrap();
    assert_eq!(coded(&place, &mut core).entry.checksums, Some(whole_sums(60)));
}

#[test]
fn pieces_that_wait_join_the_whole_that_they_were_cut_from() {
    let mut place = Place::new();
    let mut core = place.lose_the_catalogue();
    assert_eq!(place.tell(&mut core, &[stray_piece(71, 0, 70)]), 1);
    assert_eq!(place.tell_more(&mut core, "q", &[stray_whole(70, 70)]), 0);
    let info = coded(&place, &mut core);
    assert_eq!((info.coding, info.replicas.len(), info.pieces.len()), (None, 1, 1));
    // Nothing will ever be made of it: it goes.
    place.settle(&mut core, &[71]);
    let info = coded(&place, &mut core);
    assert_eq!((info.entry.state, info.replicas.len(), info.pieces.len()), (Some(FileState::Online), 1, 0));
    assert_eq!(place.removals(&mut core).objects, [ObjectId(71)]);
}

#[test]
fn what_was_written_before_it_was_cut_goes_once_all_pieces_are_there() {
    let pieces = [stray_piece(61, 0, 60), stray_piece(62, 1, 60), stray_piece(63, 2, 60)];
    for first in [false, true] {
        let mut place = Place::new();
        let mut core = place.lose_the_catalogue();
        if first {
            place.tell(&mut core, &[stray_whole(60, 60)]);
            assert_eq!(coded(&place, &mut core).coding, None);
        }
        assert_eq!(place.tell(&mut core, &pieces[..1]), u64::from(!first));
        assert_eq!(place.names(&mut core, "/").is_empty(), !first);
        place.tell(&mut core, &pieces);
        if !first {
            place.tell(&mut core, &[stray_whole(60, 60)]);
        }
        let info = coded(&place, &mut core);
        assert_eq!((info.coding.is_some(), info.pieces.len(), info.replicas.len()), (true, 3, 1));
        place.settle(&mut core, &[60, 61, 62, 63]);
        assert_eq!(place.removals(&mut core).objects, [ObjectId(60)]);
        assert_eq!(coded(&place, &mut core).pieces.len(), 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever survived of the writes of a file, and in whatever order it is found, over whatever starts of the head: it has the
    /// last content that can be read, all that there is of it. If none can be, it keeps what the catalogue knows of it.
    #[test]
    fn a_file_has_the_last_content_of_which_enough_has_survived(
        // Of each write: which of its pieces survived, each on one of three partitions, and whether what was cut did.
        writes in prop::collection::vec((prop::collection::vec(prop::option::of(0usize..3), 3), prop::option::weighted(0.2, 0usize..3)), 1..6),
        order in Just((0..24usize).collect::<Vec<_>>()).prop_shuffle(),
        restart in 0usize..6,
        is_known in any::<bool>(),
    ) {
        const PARTITIONS: [&str; 3] = ["p", "q", "r"];
        let mut place = Place::new();
        let mut core = if is_known { place.older_catalogue() } else { place.lose_the_catalogue() };
        let (mut objects, mut last) = (Vec::new(), is_known.then_some((5, 3)));
        for (at, (pieces, whole)) in writes.iter().enumerate() {
            let generation = 10 + 10 * at as u64;
            let survived = pieces.iter().enumerate().filter_map(|(index, on)| Some((index as u8, (*on)?)));
            objects.extend(whole.map(|on| (on, stray_whole(generation, generation))));
            let of_write: Vec<_> = survived.map(|(index, on)| (on, stray_piece(generation + 1 + u64::from(index), index, generation))).collect();
            if of_write.len() >= 2 || whole.is_some() {
                last = Some((generation, of_write.len() + usize::from(whole.is_some())));
            }
            objects.extend(of_write);
        }
        let found: Vec<_> = order.iter().filter_map(|at| objects.get(*at)).collect();
        for (round, name) in PARTITIONS.iter().enumerate().chain(PARTITIONS.iter().enumerate().map(|(at, name)| (at + 3, name))) {
            let here: Vec<_> = found.iter().filter(|(on, _)| PARTITIONS[*on] == *name).map(|(_, found)| found.clone()).collect();
            if round == restart {
                // In the middle of what it says.
                let half = &here[..here.len() / 2];
                place.tell_more(&mut core, name, half);
                drop(core);
                core = place.start();
            }
            place.tell_more(&mut core, name, &here);
        }
        let unknown = place.call(&mut core, GetStatus {}).unwrap().restored.unwrap().unknown();
        match last {
            None => prop_assert!(place.names(&mut core, "/").is_empty()),
            Some((generation, count)) => {
                let info = coded(&place, &mut core);
                prop_assert_eq!(info.entry.checksums, Some(whole_sums(generation)));
                prop_assert_eq!(info.entry.state, Some(FileState::Online));
                prop_assert_eq!(info.pieces.len() + info.replicas.len(), count);
            }
        }
        if restart < PARTITIONS.len() {
            // All have said twice what they have.
            let taken = last.filter(|(generation, _)| *generation > 5).map_or(0, |(_, count)| count);
            prop_assert_eq!(unknown, (objects.len() - taken) as u64);
        }
    }
}
