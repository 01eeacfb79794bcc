//! Accounts: what is held and used, by user, group, project, pool and month.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, Month};
use sim::World;
use support::*;
use wire::control::{
    AccountLine, AccountPart, Accounts, GetAccounts, GetBill, Mkdir, OpenRead, ReadGrant, Remove, Rename,
    ReportTraffic, ReportUse, SetProject,
};

const DAY: Millis = Millis::from_seconds(86_400);

fn accounts(world: &mut World, ask: GetAccounts) -> Vec<AccountLine> {
    let Accounts { lines, lines_len, .. } = world.user(ask).unwrap();
    assert_eq!(lines.len() as u64, lines_len);
    lines
}

fn by(parts: &[AccountPart]) -> GetAccounts {
    GetAccounts { by: parts.to_vec(), ..GetAccounts::default() }
}

/// The line of one project, over all pools and months.
fn project(world: &mut World, name: &str) -> AccountLine {
    let ask = GetAccounts { project: Some(name.into()), ..GetAccounts::default() };
    accounts(world, ask).pop().unwrap_or_default()
}

fn mark(world: &mut World, at: &str, name: &str) {
    world.user(SetProject { path: path(at), project: Some(name.parse().unwrap()) }).unwrap();
}

#[test]
fn what_is_held_follows_writes_overwrites_evictions_and_removals() {
    let mut world = world();
    let held = |world: &mut World| {
        let line = accounts(world, by(&[])).pop().unwrap_or_default();
        (line.files, line.bytes, line.replicas, line.disk_bytes)
    };
    put(&mut world, "/a", 100);
    put(&mut world, "/b", 50);
    assert_eq!(held(&mut world), (2, 150, 2, 150));
    put(&mut world, "/a", 30);
    assert_eq!(held(&mut world), (2, 80, 2, 80));
    put_archived(&mut world, "/c", 1000);
    evict(&mut world, "/c").unwrap();
    assert_eq!(held(&mut world), (3, 1080, 2, 80), "what is on tape is held, but not on disk");
    world.user(Remove { path: path("/c") }).unwrap();
    world.user(Remove { path: path("/b") }).unwrap();
    begin_write(&mut world, "/new", 500);
    assert_eq!(held(&mut world), (2, 30, 1, 30), "a file that is being written is one, without bytes yet");
    world.crash();
    assert_eq!(held(&mut world), (1, 30, 1, 30), "and it goes with its writer");
}

#[test]
fn what_is_made_in_a_project_belongs_to_it_wherever_it_goes() {
    let mut world = world();
    put(&mut world, "/cms/old", 1000);
    mark(&mut world, "/cms", "cms");
    put(&mut world, "/cms/a/b/f", 100);
    put(&mut world, "/other", 7);
    let line = project(&mut world, "cms");
    assert_eq!(
        (line.files, line.bytes, line.disk_bytes, line.in_bytes, line.in_transfers),
        (1, 100, 100, 100, 1)
    );
    assert_eq!(project(&mut world, "").bytes, 1007, "what was there before stays where it was");
    assert_eq!(stat(&mut world, "/cms/a/b").unwrap().project, "cms");
    world
        .user(Rename { from: path("/cms/a/b/f"), to: path("/moved"), is_new: false, parents: false })
        .unwrap();
    mark(&mut world, "/cms/old", "cms");
    assert_eq!(project(&mut world, "cms").bytes, 1100);
    world.user(SetProject { path: path("/moved"), project: None }).unwrap();
    let (cms, none) = (project(&mut world, "cms"), project(&mut world, ""));
    assert_eq!((cms.bytes, cms.disk_bytes, none.bytes), (1000, 1000, 107));
    let ask = SetProject { path: path("/other"), project: None };
    assert_eq!(refusal(world.call(user("bob"), ask)), ErrorKind::Permission);
}

#[test]
fn months_tell_apart_what_each_has_cost() {
    let mut world = world();
    let start = Month::of(world.now);
    put(&mut world, "/f", 500_000);
    world.advance(Millis((start.next().start() - world.now).0));
    world.advance(Millis(DAY.0 * 40));
    world.user(Remove { path: path("/f") }).unwrap();
    world.advance(Millis(DAY.0 * 400));
    let lines = accounts(&mut world, by(&[AccountPart::Month]));
    let months: Vec<_> = lines.iter().map(|line| line.month.unwrap()).collect();
    assert_eq!(months, [start, start.next(), start.next().next()]);
    // 2023-12 has 31 days; 9 more in the next.
    let day = 0.0005 * 24.0;
    for (line, days) in lines[1..].iter().zip([31.0, 9.0]) {
        assert!((line.disk_gb_hours - days * day).abs() < 1e-9, "{line:?}");
    }
    assert_eq!((lines[0].bytes, lines[1].bytes, lines[2].bytes), (500_000, 500_000, 0));
    let whole = accounts(&mut world, by(&[])).pop().unwrap();
    let sum: f64 = lines.iter().map(|line| line.disk_gb_hours).sum();
    assert!((whole.disk_gb_hours - sum).abs() < 1e-9);
    assert_eq!(whole.bytes, 0);
    let bill = world.user(GetBill {}).unwrap().lines;
    assert!((bill[0].disk_gb_hours - sum).abs() < 1e-9, "the bill is the sum of all months");
    let one = GetAccounts { month: Some(start.next()), ..by(&[AccountPart::User]) };
    assert_eq!(accounts(&mut world, one)[0].bytes, 500_000, "as it was when the month ended");
}

#[test]
fn reads_are_charged_to_the_reader_in_the_project_and_pool_of_the_file() {
    let mut world = world();
    world.user(Mkdir { path: path("/cms"), parents: false, mode: 0o755 }).unwrap();
    mark(&mut world, "/cms", "cms");
    put(&mut world, "/cms/f", 100);
    let ReadGrant::Online(grant) = world.user(OpenRead { path: path("/cms/f") }).unwrap() else {
        panic!("it is online");
    };
    let line = |object| ReportTraffic { owner: "bob".into(), out_bytes: 100, out_transfers: 2, object };
    let traffic = vec![line(Some(grant.object)), line(None)];
    world.room(ReportUse { traffic, opened: Vec::new() }).unwrap();
    let ask = GetAccounts { user: Some("bob".into()), ..by(&[AccountPart::Project, AccountPart::Pool]) };
    let lines = accounts(&mut world, ask);
    let mut found: Vec<_> = lines
        .iter()
        .map(|line| (line.project.as_deref(), line.pool.as_deref(), line.out_transfers))
        .collect();
    found.sort();
    assert_eq!(found, [(Some(""), Some(""), 2), (Some("cms"), Some("main"), 2)]);
}

#[test]
fn the_largest_come_first_and_the_rest_is_counted() {
    let mut world = world();
    for (name, owner, size) in [("/a", "ada", 10), ("/b", "bob", 1000), ("/c", "eve", 100)] {
        let open = open_write(name, wire::control::Disposition::Replace, size);
        let grant = world.call(as_owner(owner), open).unwrap();
        let checksums = sim::Content::numbered(size, 1).sums;
        world
            .room(wire::control::CommitWrite {
                object: grant.object,
                size,
                checksums,
                mirrors: Vec::new(),
                pieces: Vec::new(),
            })
            .unwrap();
    }
    world.advance(DAY);
    let ask = GetAccounts { top: Some(2), ..by(&[AccountPart::User]) };
    let Accounts { lines, lines_len, .. } = world.user(ask).unwrap();
    let users: Vec<_> = lines.iter().map(|line| line.user.as_deref().unwrap()).collect();
    assert_eq!((users, lines_len), (vec!["bob", "eve"], 3));
}
