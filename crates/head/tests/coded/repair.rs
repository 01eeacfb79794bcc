//! Pieces that are lost, damaged, drained or found again.

use super::{CODING, Coded, SERVERS, sums, support::*};
use base::{Checksums, ErrorKind, ObjectId, Timestamp};
use std::collections::BTreeSet;
use wire::{
    control::{
        AskObjects, CatalogueMark, CompareCatalogue, CompareObjects, Described, FileState, FoundObject,
        GetPieces, GetStatus, Known, OpenRead, PartitionState, ReadGrant, RecoverCatalogue, ReportDamage,
        RunMaintenance, SetPartition,
    },
    media::object::{Holder, Label, Piece},
};

#[test]
fn pieces_of_a_server_that_is_given_up_are_made_anew_and_what_is_too_much_goes() {
    let mut coded = Coded::new(CODING);
    (0..10).for_each(|number| drop(coded.write(&format!("/f{number}"))));
    coded.until("what was cut is deleted", |coded| coded.objects() == 30);
    let lost = coded.server_of("/f0", 0);
    coded.silent.insert(lost);
    coded.until("it is silent", |coded| {
        let pool = coded.pool();
        pool.partitions.iter().any(|one| one.server == lost && !one.is_available)
    });
    assert_ne!(coded.read("/f0").unwrap().server.unwrap().name, lost);
    coded.until("it is given up", |coded| coded.pool().partitions.iter().any(|one| one.is_given_up));
    coded.until("all are whole elsewhere", |coded| {
        let elsewhere: usize =
            coded.disks.iter().filter(|(name, _)| **name != lost).map(|(_, disk)| disk.len()).sum();
        elsewhere == 30 && coded.pool().files_short == 0
    });
    coded.silent.clear();
    coded.until("what is too much is gone", |coded| coded.objects() == 30);
    for number in 0..10 {
        assert_eq!(coded.indices(&format!("/f{number}")), [0, 1, 2]);
        assert_eq!(state(&mut coded.world, &format!("/f{number}")), FileState::Online);
    }
}

#[test]
fn a_drained_piece_is_copied_and_a_damaged_one_is_made_of_the_others() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    let leaving = coded.server_of("/f", 2);
    let partition = format!("{leaving}.disk");
    coded.world.user(SetPartition { partition, state: PartitionState::Draining }).unwrap();
    while coded.world.room(RunMaintenance {}).unwrap().is_more {}
    let (name, order) = SERVERS.into_iter().find_map(|name| Some((name, coded.orders(name).pop()?))).unwrap();
    assert!(order.pieces.is_none() && order.url.starts_with(&format!("root://{leaving}:1094/")));
    assert_eq!(order.label.piece.map(|piece| (piece.index, piece.file_bytes)), Some((2, 100_000)));
    assert_eq!(order.checksums, Some(sums(order.source)));
    coded.copy(name, &order);
    coded.until("it is empty", |coded| coded.disks[leaving].is_empty());
    assert_eq!(coded.indices("/f"), [0, 1, 2]);

    let file = written.grant.file;
    let (victim, object) = (coded.server_of("/f", 0), written.placed.mirrors[0].object);
    let stranger = SERVERS.into_iter().find(|name| !coded.disks[name].iter().any(|_| true)).unwrap();
    let report = ReportDamage { file, objects: vec![object] };
    assert_eq!(refusal(coded.host(stranger, report.clone())), ErrorKind::Permission);
    coded.host(victim, report).unwrap();
    assert_eq!(coded.indices("/f"), [1, 2]);
    while coded.world.room(RunMaintenance {}).unwrap().is_more {}
    let (_, order) = SERVERS.into_iter().find_map(|name| Some((name, coded.orders(name).pop()?))).unwrap();
    let others: BTreeSet<_> = order.pieces.as_ref().unwrap().places.iter().map(|place| place.index).collect();
    assert_eq!((others, order.label.piece.map(|piece| piece.index)), (BTreeSet::from([1, 2]), Some(0)));
    assert_eq!(order.checksums, Some(sums(object)), "it is what it was");
    coded.until("it is whole again", |coded| coded.indices("/f") == [0, 1, 2] && coded.objects() == 3);
    assert!(!coded.disks[victim].contains(&object));
}

#[test]
fn what_cannot_be_spared_is_not_given_up() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let (file, server) = (written.grant.file, coded.server_of("/f", 1));
    let objects = written.placed.mirrors.iter().map(|mirror| mirror.object).collect();
    coded.host(server, ReportDamage { file, objects }).unwrap();
    assert_eq!(coded.indices("/f").len(), 2, "one of three may be lost");
    assert_eq!(state(&mut coded.world, "/f"), FileState::Online);
    coded.disks.values_mut().for_each(BTreeSet::clear);
    coded.restart();
    assert_eq!(state(&mut coded.world, "/f"), FileState::Lost);
    assert_eq!(refusal(coded.read("/f")), ErrorKind::Corrupt);
    let listed = coded.world.user(wire::control::List { path: path("/"), after: String::new() }).unwrap();
    assert_eq!(listed.entries.iter().find(|entry| entry.name == "f").unwrap().state, Some(FileState::Lost));
}

#[test]
fn a_damaged_piece_stays_damaged_when_its_server_starts_anew() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let (file, server) = (written.grant.file, coded.server_of("/f", 0));
    let object = written.placed.mirrors.iter().find(|mirror| mirror.index == 0).unwrap().object;
    coded.host(server, ReportDamage { file, objects: vec![object] }).unwrap();
    assert_eq!(coded.indices("/f"), [1, 2]);
    coded.restart();
    assert_eq!(coded.indices("/f"), [1, 2], "that it is there is no news");
    // Until nothing else is left: readers compare checksums.
    let other = coded.server_of("/f", 1);
    coded.disks.get_mut(other).unwrap().clear();
    coded.restart();
    assert_eq!(state(&mut coded.world, "/f"), FileState::Lost);
    coded.restart();
    assert_eq!(coded.indices("/f"), [0, 2]);
    assert_eq!(state(&mut coded.world, "/f"), FileState::Online);
}

#[test]
fn tape_is_asked_when_too_few_disk_servers_answer_and_no_more_when_they_are_back() {
    let mut coded = Coded::new(CODING);
    coded.write("/f");
    coded.archive("/f");
    let away = [coded.server_of("/f", 0), coded.server_of("/f", 2)];
    coded.silent.extend(away);
    coded.until("they are silent", |coded| {
        coded.pool().partitions.iter().filter(|one| !one.is_available).count() == 2
    });
    let open = OpenRead { path: path("/f") };
    assert!(matches!(coded.world.user(open.clone()), Ok(ReadGrant::Recalling { .. })));
    assert_eq!(requests(&mut coded.world).len(), 1);
    coded.silent.clear();
    coded.tick();
    assert_eq!(requests(&mut coded.world).len(), 0);
    assert!(coded.read("/f").unwrap().is_piece);
}

#[test]
fn what_is_evicted_takes_with_it_what_is_being_made() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    coded.archive("/f");
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    let (file, server) = (written.grant.file, coded.server_of("/f", 0));
    coded.host(server, ReportDamage { file, objects: vec![written.placed.mirrors[0].object] }).unwrap();
    while coded.world.room(RunMaintenance {}).unwrap().is_more {}
    assert_eq!(coded.pool().copies_under_way, 1);
    assert_eq!(evict(&mut coded.world, "/f").unwrap(), FileState::Nearline);
    assert_eq!((coded.pool().copies_under_way, coded.pieces("/f").len()), (0, 0));
    coded.until("nothing is left", |coded| coded.objects() == 0);
    assert_eq!(state(&mut coded.world, "/f"), FileState::Nearline);
}

#[test]
fn pieces_that_are_found_replace_what_a_file_has_only_when_it_can_be_read_from_them() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    // The catalogue was put back to this state; later the file was written again, once to the end and once not.
    let seen = CatalogueMark { epoch: 3, ..CatalogueMark::default() };
    let compare = CompareCatalogue { partition: "a.disk".into(), seen: Some(seen) };
    assert!(!coded.host("a", compare).unwrap().is_settled);
    coded.world.user(RecoverCatalogue {}).unwrap();
    let generation = written.grant.object.0;
    let found = |object, index, generation| {
        FoundPiece { file: written.grant.file, object, index, generation }.found()
    };
    let tell = |coded: &mut Coded, name: &str, objects: Vec<FoundObject>| {
        let (partition, is_first, is_last) = (format!("{name}.disk"), true, true);
        coded.host(name, CompareObjects { partition, is_first, is_last, objects }).unwrap();
        let restored = coded.world.user(GetStatus {}).unwrap().restored.unwrap();
        (restored.recovered(), restored.unknown())
    };
    let (later, last) = (generation + 1000, generation + 2000);
    assert_eq!(tell(&mut coded, "a", vec![found(last + 1, 0, last), found(later + 1, 0, later)]), (0, 2));
    assert_eq!(coded.indices("/f"), [0, 1, 2], "one of two proves nothing");
    assert_eq!(
        coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap().generation,
        generation
    );
    coded.world.crash();
    coded.restart();
    assert_eq!(
        tell(&mut coded, "b", vec![found(later + 2, 2, later)]),
        (1, 0),
        "of the other nobody has spoken since"
    );
    let now = coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap();
    let objects: BTreeSet<_> = now.places.iter().map(|place| place.object.0).collect();
    assert_eq!((now.generation, objects), (later, BTreeSet::from([later + 1, later + 2])));
    assert_eq!(tell(&mut coded, "a", vec![found(last + 1, 0, last)]), (1, 1));
    assert_eq!(
        tell(&mut coded, "c", vec![found(last + 3, 2, last)]),
        (3, 0),
        "the first one is counted no more as unknown"
    );
    let now = coded.world.room(GetPieces { file: written.grant.file, capability: None }).unwrap();
    assert_eq!((now.generation, now.places.len()), (last, 2));
}

/// A piece of a later write, as its disk server finds it.
struct FoundPiece {
    pub(super) file: base::FileId,
    pub(super) object: u64,
    pub(super) index: u8,
    pub(super) generation: u64,
}

impl FoundPiece {
    fn found(self) -> FoundObject {
        let Self { file, object, index, generation } = self;
        let file_checksums = Checksums::of(&generation.to_be_bytes());
        let piece = Piece { coding: CODING, cell_bytes: 4096, index, file_bytes: 10_000, file_checksums };
        let size = piece.shape(file, generation).unwrap().piece_bytes();
        let label =
            Label { file, path: path("/f"), generation, holder: Holder::default(), piece: Some(piece) };
        let described = Some(Described { label, checksums: sums(ObjectId(object)), written: Timestamp(1) });
        FoundObject { object: ObjectId(object), size, described }
    }
}

#[test]
fn scans_know_pieces_by_their_own_size_and_sums() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let server = coded.server_of("/f", 2);
    let object = written.placed.mirrors.iter().find(|mirror| mirror.index == 2).unwrap().object;
    let ask = AskObjects { partition: format!("{server}.disk"), objects: vec![object] };
    let known = coded.host(server, ask).unwrap().known;
    let [Known::Online(known)] = known[..] else { panic!("{known:?}") };
    assert_eq!((known.file, known.checksums), (written.grant.file, sums(object)));
    assert!(known.size > 50_000 && known.size < 60_000, "{}", known.size);
}
