//! Writes of coded files: acknowledged with all pieces.

use super::{CODING, Coded, SERVERS, Written, host_of, support::*};
use base::ErrorKind;
use sim::Content;
use std::collections::BTreeSet;
use wire::control::{
    AbandonWrite, Allocate, Coding, CommitWrite, Disposition, FileState, Mirrors, Pool, Remove, ReportDamage,
    SetPool,
};

#[test]
fn a_coded_file_is_acknowledged_with_all_pieces_each_on_a_server_of_its_own() {
    let mut coded = Coded::new(CODING);
    let written = coded.begin("/f");
    let cut = written.placed.cut.unwrap();
    assert_eq!((cut.coding, written.placed.mirrors.len()), (CODING, 3));
    let servers: BTreeSet<_> = written.placed.mirrors.iter().map(|mirror| host_of(&mirror.url)).collect();
    assert_eq!(servers.len(), 3);
    let again = coded.place(&written.grant, Vec::new()).unwrap();
    assert_eq!(again, written.placed, "asking twice places once");
    assert_eq!(refusal(coded.commit(&written, 2)), ErrorKind::NoSpace);
    coded.commit(&written, 3).unwrap();
    coded.commit(&written, 3).unwrap();
    assert_eq!(coded.indices("/f"), [0, 1, 2]);
    let info = stat(&mut coded.world, "/f").unwrap();
    assert_eq!((info.coding, info.replicas.len(), info.entry.size), (Some(CODING), 0, 100_000));
    assert_eq!(info.entry.state, Some(FileState::Online));
    assert_eq!(coded.pool().files_short, 0);
    coded.until("what was cut is deleted", |coded| coded.objects() == 3);
    coded.world.user(Remove { path: path("/f") }).unwrap();
    coded.until("all pieces are deleted", |coded| coded.objects() == 0);
}

#[test]
fn a_piece_that_fails_is_placed_elsewhere_and_a_write_that_is_given_up_takes_all_with_it() {
    let mut coded = Coded::new(CODING);
    let first = coded.begin("/f");
    let failed = first.placed.mirrors[1].clone();
    let second = coded.place(&first.grant, vec![failed.object]).unwrap();
    let anew = second.mirrors.iter().find(|mirror| mirror.index == failed.index).unwrap();
    assert_ne!(host_of(&anew.url), host_of(&failed.url));
    assert_eq!(second.mirrors.iter().filter(|mirror| first.placed.mirrors.contains(mirror)).count(), 2);
    assert_eq!(refusal(coded.commit(&first, 3)), ErrorKind::NoSpace, "the failed one does not count");
    coded.world.room(AbandonWrite { object: first.grant.object }).unwrap();
    coded.until("nothing is left", |coded| coded.objects() == 0);
    assert_eq!(refusal(stat(&mut coded.world, "/f")), ErrorKind::NotFound);
}

#[test]
fn with_just_enough_disk_servers_a_piece_that_fails_is_made_there_again_if_its_server_answers() {
    let mut coded = Coded::new(Coding { data: 3, parity: 2 });
    let first = coded.begin("/f");
    let failed = first.placed.mirrors[1].clone();
    let second = coded.place(&first.grant, vec![failed.object]).unwrap();
    let anew = second.mirrors.iter().find(|mirror| mirror.index == failed.index).unwrap().clone();
    assert_eq!(host_of(&anew.url), host_of(&failed.url));
    assert_ne!(anew.object, failed.object, "what is left of the failed one is deleted");
    coded.silent.insert(host_of(&failed.url));
    coded.until("it is silent", |coded| coded.pool().partitions.iter().any(|one| !one.is_available));
    assert!(coded.place(&first.grant, vec![anew.object]).is_err(), "it does not answer");
    coded.silent.clear();
    coded.until("it is back", |coded| coded.pool().partitions.iter().all(|one| one.is_available));
    let placed = coded.place(&first.grant, Vec::new()).unwrap();
    coded.commit(&Written { grant: first.grant, placed }, usize::MAX).unwrap();
    assert_eq!(coded.indices("/f"), [0, 1, 2, 3, 4]);
}

#[test]
fn too_few_disk_servers_are_said_before_anything_is_written() {
    let mut coded = Coded::new(Coding { data: 4, parity: 2 });
    let open = open_write("/f", Disposition::Replace, 100);
    let failure = coded.world.user(open.clone()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NoSpace);
    assert!(
        failure.what.contains("is coded 4+2: each of the 6 pieces needs a different disk server"),
        "{failure}"
    );
    assert!(failure.what.ends_with("5 are there"), "{failure}");
    assert_eq!(refusal(stat(&mut coded.world, "/f")), ErrorKind::NotFound);
    coded.set(Some(Coding { data: 3, parity: 2 }));
    coded.world.user(open).unwrap();
}

#[test]
fn disk_servers_that_are_only_silent_are_waited_for() {
    let mut coded = Coded::new(CODING);
    let grant = begin_write(&mut coded.world, "/f", 100_000);
    coded.world.crash();
    assert_eq!(refusal(coded.place(&grant, Vec::new())), ErrorKind::Unavailable);
    coded.register("a");
    let other = open_write("/g", Disposition::Replace, 100);
    let failure = coded.world.user(other.clone()).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unavailable);
    assert!(failure.what.ends_with("1 are there"), "{failure}");
    for name in SERVERS {
        coded.register(name);
    }
    coded.world.user(other.clone()).unwrap();
    let placed = coded.place(&grant, Vec::new()).unwrap();
    coded.commit(&Written { grant, placed }, 3).unwrap();
    // Once they were given up nobody waits any more.
    coded.set(Some(Coding { data: 3, parity: 2 }));
    coded.silent.insert("e");
    coded.until("it is silent", |coded| coded.pool().partitions.iter().any(|one| !one.is_available));
    let third = open_write("/h", Disposition::Replace, 100);
    assert_eq!(refusal(coded.world.user(third.clone())), ErrorKind::Unavailable);
    coded.lose(&["e"]);
    assert_eq!(refusal(coded.world.user(third)), ErrorKind::NoSpace);
}

#[test]
fn a_write_ends_in_the_form_in_which_it_was_placed() {
    let mut coded = Coded::new(CODING);
    let other = Coding { data: 3, parity: 2 };
    for (at, after) in [("/none", None), ("/other", Some(other))] {
        coded.set(Some(CODING));
        let mut written = coded.begin(at);
        coded.set(after);
        // A piece that fails is placed anew as one of the same file.
        let failed = written.placed.mirrors[0].object;
        let again = coded.place(&written.grant, vec![failed]).unwrap();
        assert_eq!((again.cut.map(|cut| cut.coding), again.mirrors.len()), (Some(CODING), 3));
        written.placed = again;
        coded.commit(&written, 3).unwrap();
        assert_eq!(stat(&mut coded.world, at).unwrap().coding, Some(CODING));
        assert_eq!(coded.indices(at), [0, 1, 2]);
    }
    // What was opened before its pool was coded is a replica; its disk server does not ask for places.
    coded.set(None);
    let grant = begin_write(&mut coded.world, "/whole", 100_000);
    assert!(!grant.is_mirrored);
    coded.set(Some(CODING));
    let placed = Mirrors { mirrors: Vec::new(), cut: None };
    coded.commit(&Written { grant, placed }, 0).unwrap();
    let info = stat(&mut coded.world, "/whole").unwrap();
    assert_eq!((info.coding, info.replicas.len(), info.entry.state), (None, 1, Some(FileState::Online)));
    // What mirrors were placed for keeps them.
    let two =
        |coding| SetPool { pool: Pool { coding, copies: 2, acknowledged_copies: 2, ..Pool::default() } };
    coded.world.user(two(None)).unwrap();
    let grant = begin_write(&mut coded.world, "/two", 100_000);
    let placed = coded.place(&grant, Vec::new()).unwrap();
    coded.world.user(two(Some(CODING))).unwrap();
    assert_eq!(coded.place(&grant, Vec::new()).unwrap(), placed);
    let Content { size, sums: checksums } = Content::numbered(100_000, 1);
    let (object, mirrors, pieces) = (grant.object, vec![placed.mirrors[0].object], Vec::new());
    let name = grant.server.unwrap().name;
    coded.host(&name, CommitWrite { object, size, checksums, mirrors, pieces }).unwrap();
    assert_eq!(stat(&mut coded.world, "/two").unwrap().replicas.len(), 2);
}

#[test]
fn a_commit_that_is_said_again_is_known_by_any_of_its_pieces() {
    let mut coded = Coded::new(CODING);
    let written = coded.write("/f");
    let first = &written.placed.mirrors[0];
    let server = host_of(&first.url);
    let file = written.grant.file;
    coded.host(server, ReportDamage { file, objects: vec![first.object] }).unwrap();
    coded.commit(&written, 3).unwrap();
    coded.until("it is made anew", |coded| {
        coded.indices("/f") == [0, 1, 2] && !coded.disks[server].contains(&first.object)
    });
    coded.commit(&written, 3).unwrap();
    let later = coded.write("/f");
    assert_eq!(refusal(coded.commit(&written, 3)), ErrorKind::NotFound, "that content is gone");
    coded.commit(&later, 3).unwrap();
}

#[test]
fn room_in_a_coded_pool_is_reserved_for_what_is_written() {
    let mut coded = Coded::new(CODING);
    let ask = Allocate {
        path: path("/later"),
        size: 100_000,
        pool: "main".into(),
        parents: false,
        mode: 0o644,
        lifetime: None,
    };
    let reserved = coded.world.user(ask).unwrap();
    assert_eq!(reserved.partitions.len(), 1);
    let written = coded.begin("/later");
    assert_eq!(written.grant.partition, reserved.partitions[0]);
    coded.commit(&written, 3).unwrap();
    assert_eq!(coded.indices("/later"), [0, 1, 2]);
}
