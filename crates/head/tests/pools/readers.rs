//! Readers: sent where the file can be read.

use super::{Pools, SERVERS, online, support::*};
use base::{ErrorKind, Failure, Millis};
use head::Principal;
use std::collections::BTreeSet;
use wire::control::{
    AvoidServers, OpenRead, Pool, ReadGrant, ReadObject, ReportDamage, ReportMissing, ReportSpace,
    RunMaintenance, SetPool,
};

#[test]
fn a_client_that_was_sent_in_vain_is_sent_elsewhere() {
    let mut pools = Pools::new(2, 1);
    pools.write("/f");
    let first = pools.reader("/f");
    let host = first.trim_end_matches(".disk").to_owned();
    let tried = |hosts: &[&str], at: &str| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        AvoidServers { hosts, path: path(at), is_write: false }
    };
    let back = |host: &str, at: &str| AvoidServers { is_write: true, ..tried(&[host], at) };
    pools.world.user(tried(&[&host, "elsewhere.example"], "/f")).unwrap();
    for _ in 0..20 {
        assert_ne!(pools.reader("/f"), first);
        pools.world.advance(Millis(10));
    }
    // If all are avoided there is no elsewhere.
    pools.world.user(tried(&SERVERS, "/f")).unwrap();
    pools.reader("/f");
    assert_eq!(refusal(pools.world.user(tried(&["x"; 17], "/f"))), ErrorKind::Invalid);
    // A write that could not begin is given up, for who was to write it and nobody else.
    for _ in 0..8 {
        pools.tick();
    }
    let grant = begin_write(&mut pools.world, "/new", 100);
    let host = grant.server.unwrap().name;
    pools.world.call(Principal::operator("other"), back(&host, "/new")).unwrap();
    // Who only wants to read has not come back for it.
    pools.world.user(tried(&[&host], "/new")).unwrap();
    assert_eq!(stat(&mut pools.world, "/new").unwrap().entry.size, 0, "somebody writes it");
    pools.world.user(back(&host, "/new")).unwrap();
    assert_eq!(refusal(stat(&mut pools.world, "/new")), ErrorKind::NotFound);
    for number in 0..10 {
        let grant = begin_write(&mut pools.world, &format!("/new{number}"), 100);
        assert_ne!(grant.server.unwrap().name, host);
    }
}

#[test]
fn readers_and_writers_are_sent_where_less_is_to_do() {
    let mut pools = Pools::new(3, 3);
    pools.write("/f");
    let report = ReportSpace { readers: 999, ..pools.report("a") };
    assert!(!pools.host("a", report).unwrap().is_direct);
    let busy = pools.pool().partitions.into_iter().find(|partition| partition.name == "a.disk").unwrap();
    assert_eq!(busy.transfers, 999);
    let policy = Pool { copies: 1, acknowledged_copies: 1, direct: true, ..Pool::default() };
    pools.world.user(SetPool { pool: policy }).unwrap();
    let mut there = BTreeSet::new();
    for number in 0..20 {
        there.insert(pools.reader("/f"));
        there.insert(begin_write(&mut pools.world, &format!("/new{number}"), 100).partition);
        pools.world.advance(Millis(1));
    }
    assert_eq!(there, ["b.disk", "c.disk"].map(str::to_owned).into());
    let report = pools.report("a");
    assert!(pools.host("a", report).unwrap().is_direct, "the pool wants it");
}

#[test]
fn readers_are_not_sent_where_a_replica_is_missing() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let grant = |pools: &mut Pools| pools.world.user(OpenRead { path: path("/f") });
    for left in [1, 0] {
        let Ok(ReadGrant::Online(object)) = grant(&mut pools) else { panic!("{left}") };
        let missing = ReportMissing { partition: object.partition.clone(), object: object.object };
        let server = object.server.unwrap().name;
        let other = SERVERS.into_iter().find(|name| *name != server).unwrap();
        assert_eq!(refusal(pools.host(other, missing.clone())), ErrorKind::Permission);
        pools.host(&server, missing.clone()).unwrap();
        pools.host(&server, missing).unwrap();
        if left == 1 {
            assert_ne!(pools.reader("/f"), object.partition);
        } else {
            let failure = grant(&mut pools).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Corrupt);
            let place = format!("is gone from {} of {server}", object.partition);
            assert!(failure.what.contains("/f has no disk") && failure.what.contains(&place), "{failure}");
        }
    }
    // At its next start a disk server says what it has.
    pools.boot += 1;
    pools.register_all();
    pools.reader("/f");
}

#[test]
fn readers_go_where_somebody_answers() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let version = pools.world.namespace_version();
    let home = pools.reader("/f");
    let name = SERVERS.into_iter().find(|name| home == format!("{name}.disk")).unwrap();
    pools.silent.insert(name);
    (0..10).for_each(|_| pools.tick());
    assert_ne!(pools.reader("/f"), home);
    assert!(pools.world.namespace_version() > version, "kept answers are asked for again");
    assert_eq!(pools.replicas("/f").len(), 2, "silence is not death");
}

#[test]
fn what_a_reader_cannot_read_is_read_elsewhere_and_made_anew() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let node = online(&mut pools.world, "/f");
    let name = node.server.as_ref().unwrap().name.clone();
    let other = SERVERS.into_iter().find(|other| **other != name).unwrap();
    let report = ReportDamage { file: node.file, objects: vec![node.object] };
    assert_eq!(refusal(pools.host(other, report.clone())), ErrorKind::Permission, "of its own only");
    pools.host(&name, report).unwrap();
    assert_ne!(pools.reader("/f"), node.partition);
    pools.until("it is made anew", |pools| pools.pool().files_short == 0);
    assert_eq!(pools.replicas("/f").len(), 2);
    // The only one stays: nobody has anything better.
    let mut lonely = Pools::new(1, 1);
    lonely.write("/f");
    let node = online(&mut lonely.world, "/f");
    let name = node.server.as_ref().unwrap().name.clone();
    lonely.host(&name, ReportDamage { file: node.file, objects: vec![node.object] }).unwrap();
    assert_eq!(lonely.reader("/f"), node.partition);
}

#[test]
fn a_source_that_is_damaged_is_made_anew() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    pools
        .world
        .user(SetPool { pool: Pool { copies: 3, acknowledged_copies: 3, ..Pool::default() } })
        .unwrap();
    while pools.world.room(RunMaintenance {}).unwrap().is_more {}
    let (name, order) = SERVERS.into_iter().find_map(|name| Some((name, pools.orders(name).pop()?))).unwrap();
    pools.end_copy(name, &order, Some(Failure::corrupt("other bytes")));
    assert_eq!(pools.replicas("/f").len(), 1, "the damaged one does not count any more");
    pools.until("three replicas", |pools| pools.replicas("/f").len() == 3);
    pools.until("the damaged one is deleted", |pools| {
        !pools.disks.values().any(|disk| disk.contains(&order.source))
    });
}

#[test]
fn a_damaged_replica_counts_as_long_as_no_other_answers() {
    let mut pools = Pools::new(2, 2);
    pools.write("/f");
    let names: Vec<_> = SERVERS.into_iter().filter(|name| !pools.disks[name].is_empty()).collect();
    let (away, here) = (names[0], names[1]);
    let object = *pools.disks[here].first().unwrap();
    let reader = |pools: &mut Pools| match pools.world.user(OpenRead { path: path("/f") }).unwrap() {
        ReadGrant::Online(grant) => grant.server.unwrap().name,
        ReadGrant::Recalling { .. } => panic!("it is on no tape"),
    };
    pools.silent.insert(away);
    let report = |pools: &mut Pools| {
        let file = pools.world.user(OpenRead { path: path("/f") });
        let ReadGrant::Online(ReadObject { file, .. }) = file.unwrap() else { panic!("it is on no tape") };
        pools.host(here, ReportDamage { file, objects: vec![object] }).unwrap();
    };
    // Past the bound of silence, before and after it is given up.
    for seconds in [600, 2 * 3600] {
        pools.world.advance(Millis::from_seconds(seconds));
        let third = SERVERS.into_iter().find(|name| !names.contains(name)).unwrap();
        pools.silent.insert(third);
        (0..3).for_each(|_| pools.tick());
        report(&mut pools);
        assert_eq!(reader(&mut pools), here, "some of it is better than nothing");
    }
}
