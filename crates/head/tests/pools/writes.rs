//! Writes: acknowledged with their mirrors.

use super::{Pools, server_of, support::*};
use base::{ErrorKind, ObjectId};
use sim::Content;
use wire::control::{AbandonWrite, AvoidServers, BeginWrite, PlaceMirrors, Rename};

#[test]
fn mirrors_wait_for_disk_servers_that_were_not_heard_yet_if_they_were_promised() {
    for acknowledged in [2, 1] {
        let mut pools = Pools::new(2, acknowledged);
        let grant = begin_write(&mut pools.world, "/f", 100);
        pools.world.crash();
        let Content { size, sums: checksums } = Content::numbered(100, 1);
        let call = PlaceMirrors { object: grant.object, size, checksums, failed: Vec::new() };
        let home = grant.server.clone().unwrap().name;
        let placed = pools.host(&home, call);
        if acknowledged == 2 {
            assert_eq!(refusal(placed), ErrorKind::Unavailable);
        } else {
            assert_eq!(placed.unwrap().mirrors, [], "who is content with one need not wait");
        }
        pools.register_all();
        let mirrors = pools.place(&grant, Vec::new());
        pools.commit(&grant, &[mirrors[0].object]).unwrap();
    }
}

#[test]
fn a_write_is_acknowledged_with_its_mirrors_only() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    assert!(grant.is_mirrored);
    assert_eq!(refusal(pools.commit(&grant, &[])), ErrorKind::NoSpace);
    let mirrors = pools.place(&grant, Vec::new());
    assert_eq!(mirrors.len(), 1);
    assert_ne!(format!("{}.disk", server_of(&mirrors[0])), grant.partition);
    assert_eq!(pools.place(&grant, Vec::new())[0].object, mirrors[0].object, "asking twice places once");
    assert_eq!(refusal(pools.commit(&grant, &[ObjectId(999)])), ErrorKind::NoSpace, "a mirror of nobody");
    pools.commit(&grant, &[mirrors[0].object]).unwrap();
    assert_eq!(pools.replicas("/f").len(), 2);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_mirror_that_fails_is_placed_on_another_disk_server() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let first = pools.place(&grant, Vec::new()).remove(0);
    let second = pools.place(&grant, vec![first.object]).remove(0);
    assert_ne!(server_of(&first), server_of(&second));
    assert_eq!(refusal(pools.commit(&grant, &[first.object])), ErrorKind::NoSpace);
    pools.commit(&grant, &[second.object]).unwrap();
}

#[test]
fn a_write_that_is_given_up_takes_its_mirrors_with_it() {
    let mut pools = Pools::new(2, 2);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let mirror = pools.place(&grant, Vec::new()).remove(0);
    let name = server_of(&mirror);
    pools.store(&format!("{name}.disk"), mirror.object);
    pools.world.room(AbandonWrite { object: grant.object }).unwrap();
    pools.tick();
    assert!(pools.disks[name].is_empty());
    assert_eq!(refusal(stat(&mut pools.world, "/f")), ErrorKind::NotFound);
}

#[test]
fn what_was_acknowledged_with_fewer_replicas_is_copied_after() {
    let mut pools = Pools::new(3, 1);
    let grant = begin_write(&mut pools.world, "/f", 100);
    pools.store(&grant.partition.clone(), grant.object);
    pools.commit(&grant, &[]).unwrap();
    assert_eq!(pools.pool().files_short, 1);
    pools.until("three replicas", |pools| pools.replicas("/f").len() == 3);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_write_that_has_begun_is_not_given_up_for_who_comes_back_for_it() {
    let mut pools = Pools::new(1, 1);
    let grant = begin_write(&mut pools.world, "/f", 100);
    let host = grant.server.clone().unwrap().name;
    pools.world.room(BeginWrite { object: grant.object, is_update: false }).unwrap();
    let back = AvoidServers { hosts: vec![host], path: path("/f"), is_write: true };
    pools.world.user(back.clone()).unwrap();
    // Its disk server says every two seconds what it writes.
    pools.writing.push(grant.object);
    (0..5).for_each(|_| pools.tick());
    pools.world.user(back.clone()).unwrap();
    pools.store(&grant.partition.clone(), grant.object);
    pools.commit(&grant, &[]).unwrap();
    assert_eq!(stat(&mut pools.world, "/f").unwrap().entry.size, 100);
}

#[test]
fn a_disk_server_is_told_how_the_file_is_called_that_it_writes() {
    let mut pools = Pools::new(1, 1);
    let grant = begin_write(&mut pools.world, "/d/f", 100);
    assert_eq!(grant.path, path("/d/f"));
    pools.world.user(Rename { from: path("/d"), to: path("/e"), is_new: false, parents: false }).unwrap();
    let begun = pools.world.room(BeginWrite { object: grant.object, is_update: false }).unwrap();
    assert_eq!((begun.path.clone(), begun.label().path), (path("/e/f"), path("/e/f")));
}
