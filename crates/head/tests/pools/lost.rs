//! Disk servers and disks that go away, come back, or are emptied.

use super::{Pools, SERVERS, support::*};
use base::{ErrorKind, Millis, ObjectId};
use std::collections::BTreeSet;
use wire::control::{
    DiskServer, OpenRead, PartitionState, PartitionTrouble, Pool, ReadGrant, RegisterPartition, Remove,
    ReportDamage, ReportObjects, RunMaintenance, SetPartition, SetPool,
};

#[test]
fn a_disk_that_is_not_mounted_is_neither_read_nor_emptied_nor_taken_for_empty() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.troubles.insert(name, PartitionTrouble::Gone);
    pools.tick();
    assert_ne!(pools.reader("/f"), home, "at once");
    assert_eq!(pools.replicas("/f").len(), 2, "what lies there is not lost");
    let other = pools.reader("/f");
    pools.world.user(Remove { path: path("/f") }).unwrap();
    pools.tick();
    let held = |pools: &Pools, partition: &str| pools.disks[&partition[..1]].len();
    assert_eq!((held(&pools, &home), held(&pools, &other)), (1, 0), "nothing is deleted there");
    pools.write("/g");
    assert!(!pools.replicas("/g").iter().any(|replica| replica.ends_with(&home)));
    pools.until("it is given up", |pools| pools.pool().partitions.iter().any(|one| one.is_given_up));
    pools.troubles.clear();
    pools.until("it is cleaned", |pools| pools.disks.values().map(BTreeSet::len).sum::<usize>() == 2);
    assert_eq!(pools.pool().files_short, 0);
}

#[test]
fn a_disk_that_became_read_only_is_read_and_takes_nothing() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.troubles.insert(name, PartitionTrouble::ReadOnly);
    pools.tick();
    assert_eq!(pools.reader("/f"), home);
    for number in 0..10 {
        pools.write(&format!("/g{number}"));
        assert!(!pools.replicas(&format!("/g{number}")).iter().any(|replica| replica.ends_with(&home)));
    }
    let info = pools.pool().partitions.into_iter().find(|one| one.name == home).unwrap();
    assert_eq!((info.trouble, info.is_available), (Some(PartitionTrouble::ReadOnly), true));
    assert_eq!(info.state, PartitionState::InUse, "what a person said of it stays");
    pools.world.user(Remove { path: path("/f") }).unwrap();
    pools.tick();
    assert_eq!(pools.disks[name].len(), 1, "it cannot be deleted");
    pools.troubles.clear();
    pools.until("it is cleaned", |pools| pools.disks[name].is_empty());
}

#[test]
fn a_server_that_is_silent_for_long_is_given_up_and_what_is_too_much_goes_when_it_is_back() {
    let mut pools = Pools::new(2, 2);
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    pools.silent.insert("a");
    let held = pools.disks["a"].len();
    assert!(held > 0, "something must be at stake");
    pools.until("a is given up", |pools| pools.pool().partitions.iter().any(|one| one.is_given_up));
    pools.until("all are whole", |pools| {
        let elsewhere = pools.disks["b"].len() + pools.disks["c"].len();
        elsewhere == 40 && pools.pool().files_short == 0
    });
    pools.silent.clear();
    pools.until("it is back, and what is too much is gone", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 40
    });
    for number in 0..20 {
        assert_eq!(pools.replicas(&format!("/f{number}")).len(), 2);
    }
    assert!(!pools.pool().partitions.iter().any(|one| one.is_given_up));
}

#[test]
fn what_is_too_much_goes_when_a_silent_server_is_heard_again() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    pools.silent.insert("a");
    (0..10).for_each(|_| pools.tick());
    pools
        .world
        .user(SetPool { pool: Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() } })
        .unwrap();
    (0..10).for_each(|_| pools.tick());
    assert_eq!(pools.replicas("/f").len(), 3, "the silent one may be gone");
    pools.silent.clear();
    pools.until("one goes", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn nobody_is_given_up_while_most_are_silent() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    pools.silent.extend(["a", "b"]);
    // The disk server of the simulation answers, and is one of four.
    pools.silent.insert("c");
    (0..600).for_each(|_| pools.tick());
    assert!(!pools.pool().partitions.iter().any(|one| one.is_given_up));
}

#[test]
fn a_disk_that_comes_back_empty_is_filled_again() {
    let mut pools = Pools::new(2, 2);
    (0..10).for_each(|number| pools.write(&format!("/f{number}")));
    pools.world.advance(Millis(1));
    pools.disks.get_mut("b").unwrap().clear();
    pools.boot = 2;
    pools.register_all();
    pools.until("all are whole", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 20 && pools.pool().files_short == 0
    });
}

#[test]
fn what_a_server_had_lets_nothing_be_deleted_before_it_has_said_that_it_is_there() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    pools.world.advance(Millis(1));
    let (partition, boot) = ("a.disk".to_owned(), 2);
    let server = DiskServer { name: "a".into(), root: "a:1094".into(), https: "a:8443".into() };
    let (total_bytes, free_bytes, pool) = (1_000_000, 900_000, "main".into());
    let register = RegisterPartition { server, boot, pool, partition, total_bytes, free_bytes };
    pools.host("a", register).unwrap();
    // One too many, if what `a` had counts.
    pools
        .world
        .user(SetPool { pool: Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() } })
        .unwrap();
    while pools.world.room(RunMaintenance {}).unwrap().is_more {}
    assert_eq!(pools.replicas("/f").len(), 3);
    assert_eq!(pools.pool().files_short, 0, "no copy is begun either");
    let call = ReportObjects {
        partition: "a.disk".into(),
        boot,
        after: ObjectId(0),
        upto: None,
        objects: pools.disks["a"].iter().copied().collect(),
    };
    pools.host("a", call).unwrap();
    pools.until("one goes", |pools| pools.replicas("/f").len() == 2);
}

#[test]
fn an_object_that_is_missing_and_comes_back_counts_again() {
    let mut pools = Pools::new(1, 1);
    pools.write("/f");
    let home = pools.replicas("/f").remove(0);
    let name = SERVERS.into_iter().find(|name| home == format!("main/{name}.disk")).unwrap();
    let disk = std::mem::take(pools.disks.get_mut(name).unwrap());
    pools.world.advance(Millis(1));
    pools.register(name);
    assert!(pools.replicas("/f").is_empty());
    pools.tick();
    pools.disks.insert(name, disk);
    pools.register(name);
    assert_eq!(pools.replicas("/f").len(), 1);
}

#[test]
fn a_drained_partition_gets_empty_and_can_be_retired() {
    let mut pools = Pools::new(1, 1);
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    let partition = "a.disk".to_owned();
    assert!(!pools.disks["a"].is_empty());
    let retire = SetPartition { partition: partition.clone(), state: PartitionState::Retired };
    assert_eq!(refusal(pools.world.user(retire.clone())), ErrorKind::Busy);
    pools.world.user(SetPartition { partition, state: PartitionState::Draining }).unwrap();
    pools.until("a is empty", |pools| pools.disks["a"].is_empty());
    pools.world.user(retire).unwrap();
    for number in 0..20 {
        assert_eq!(pools.replicas(&format!("/f{number}")).len(), 1);
    }
}

#[test]
fn a_replica_that_was_given_up_counts_again_when_it_is_the_last_one() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let names: Vec<_> = SERVERS.into_iter().filter(|name| !pools.disks[name].is_empty()).collect();
    let object = *pools.disks[names[0]].first().unwrap();
    let read = |pools: &mut Pools| match pools.world.user(OpenRead { path: path("/f") }).unwrap() {
        ReadGrant::Online(grant) => (grant.file, grant.server.unwrap().name),
        ReadGrant::Recalling { .. } => panic!("it is on no tape"),
    };
    let (file, _) = read(&mut pools);
    pools.host(names[0], ReportDamage { file, objects: vec![object] }).unwrap();
    assert_eq!(read(&mut pools).1, names[1]);
    pools.silent.extend(SERVERS);
    pools.world.advance(Millis::from_seconds(600));
    pools.boot += 1;
    pools.register(names[0]);
    assert_eq!(read(&mut pools).1, names[0]);
}
