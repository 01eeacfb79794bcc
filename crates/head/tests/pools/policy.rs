//! Policies of pools: racks, promises, and who gets the space of what is on tape.

use super::{Pools, server_of, support::*};
use base::{ErrorKind, Millis};
use std::collections::BTreeSet;
use wire::control::{FailureDomain, FileState, LabelHost, PartitionState, Pool, SetPartition, SetPool};

fn label(pools: &mut Pools, host: &str, labels: &[&str]) -> base::Result<()> {
    let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
    pools.world.user(LabelHost { name: host.to_owned(), labels }).map(drop)
}

#[test]
fn copies_that_share_a_rack_are_taken_apart() {
    let mut pools = Pools::new(2, 2);
    let beside = |pools: &mut Pools| {
        let is_on = |places: &[String], name: &str| places.contains(&format!("main/{name}.disk"));
        let names = (0..20).map(|number| format!("/f{number}"));
        let places = names.map(|name| pools.replicas(&name)).collect::<Vec<_>>();
        assert!(places.iter().all(|places| places.len() >= 2), "{places:?}");
        places.iter().filter(|places| !is_on(places, "c")).count()
    };
    (0..20).for_each(|number| pools.write(&format!("/f{number}")));
    assert!(beside(&mut pools) > 0, "something must be at stake");
    label(&mut pools, "a", &["rack=r1", "room=b1"]).unwrap();
    label(&mut pools, "b", &["rack=r1"]).unwrap();
    label(&mut pools, "c", &["rack=r2"]).unwrap();
    (0..20).for_each(|_| pools.tick());
    assert!(beside(&mut pools) > 0, "nobody has said that racks count");
    let failure_domain = FailureDomain::Label("rack".to_owned());
    let policy = Pool { copies: 2, acknowledged_copies: 2, failure_domain, ..Pool::default() };
    pools.world.user(SetPool { pool: policy }).unwrap();
    pools.until("no file is in one rack only", |pools| beside(pools) == 0);
    pools.until("what is too much is gone", |pools| {
        pools.disks.values().map(BTreeSet::len).sum::<usize>() == 40
    });
    assert_eq!(beside(&mut pools), 0);
    let grant = begin_write(&mut pools.world, "/new", 100);
    let mirror = pools.place(&grant, Vec::new()).remove(0);
    assert!(grant.partition == "c.disk" || server_of(&mirror) == "c");
    let domains: Vec<_> = pools.pool().partitions.into_iter().map(|one| one.domain).collect();
    assert_eq!(domains, ["rack=r1", "rack=r1", "rack=r2", "sim"]);
    // A server that moves to another rack.
    label(&mut pools, "b", &["rack=r2"]).unwrap();
    label(&mut pools, "c", &["rack=r1"]).unwrap();
    pools.until("files are apart again", |pools| {
        (0..20).all(|number| pools.replicas(&format!("/f{number}")).contains(&"main/b.disk".to_owned()))
    });
}

#[test]
fn only_known_hosts_are_labelled_and_not_without_end() {
    let mut pools = Pools::new(1, 1);
    assert_eq!(refusal(label(&mut pools, "nobody", &["rack=r1"])), ErrorKind::NotFound);
    let labels: Vec<String> = (0..17).map(|number| format!("l{number}=x")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    assert_eq!(refusal(label(&mut pools, "a", &labels)), ErrorKind::Busy);
    label(&mut pools, "a", &labels[1..]).unwrap();
    label(&mut pools, "a", &["l1=", "l0=x"]).unwrap();
    let asked = LabelHost { name: "a".into(), labels: Vec::new() };
    assert_eq!(refusal(pools.world.call(user("eve"), asked)), ErrorKind::Permission);
}

#[test]
fn only_operators_change_pools_and_nobody_promises_nonsense() {
    let mut pools = Pools::new(1, 1);
    let pool = Pool { copies: 2, acknowledged_copies: 2, ..Pool::default() };
    let asked = pools.world.call(user("eve"), SetPool { pool });
    assert_eq!(refusal(asked), ErrorKind::Permission);
    let state = PartitionState::Draining;
    let asked = pools.world.call(user("eve"), SetPartition { partition: "a.disk".into(), state });
    assert_eq!(refusal(asked), ErrorKind::Permission);
    let pool = Pool { copies: 1, acknowledged_copies: 2, ..Pool::default() };
    assert_eq!(refusal(pools.world.user(SetPool { pool })), ErrorKind::Invalid);
    let pool = Pool { coding: Some(wire::control::Coding { data: 31, parity: 2 }), ..Pool::default() };
    assert_eq!(refusal(pools.world.user(SetPool { pool })), ErrorKind::Invalid);
}

/// Disks that are full of files that are on tape, too.
fn full(copies: u8) -> Pools {
    let mut pools = Pools::new(copies, copies);
    for at in (0..9).map(|number| format!("/old{number}")) {
        pools.write(&at);
        pools.archive(&at);
    }
    // What they do not need any more is gone.
    pools.tick();
    pools.world.advance(Millis(20_000));
    pools.fill(50);
    pools
}

#[test]
fn mirrors_get_the_space_of_files_that_are_safe_on_tape() {
    let mut pools = full(2);
    let grant = begin_write(&mut pools.world, "/new", 100);
    let mirror = pools.place(&grant, Vec::new())[0].object;
    pools.commit(&grant, &[mirror]).unwrap();
    let mut state = |number| state(&mut pools.world, &format!("/old{number}"));
    let gone = (0..9).filter(|number| state(*number) == FileState::Nearline).count();
    assert!((1..9).contains(&gone), "{gone}");
}

#[test]
fn copies_get_the_space_of_files_that_are_safe_on_tape() {
    let mut pools = full(1);
    pools.write("/alone");
    pools.world.user(SetPool { pool: Pool { copies: 2, ..Pool::default() } }).unwrap();
    pools.until("there are two replicas", |pools| pools.replicas("/alone").len() == 2);
}
