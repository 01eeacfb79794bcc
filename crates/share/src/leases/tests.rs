use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const ANN: ClientId = ClientId(1);
const BOB: ClientId = ClientId(2);
const NODE: FileId = FileId(7);
const START: Timestamp = Timestamp(1_000_000);

fn both() -> Leases {
    let mut leases = Leases::default();
    leases.begin(ANN, START, true);
    leases.begin(BOB, START, true);
    leases
}

#[test]
fn a_change_waits_until_the_others_have_forgotten() {
    let mut leases = both();
    assert!(leases.is_idle() && leases.give(ANN, NODE, START) && leases.give(BOB, NODE, START));
    let found = leases.ask_back(NODE, Some(ANN), START);
    assert_eq!((&found.sessions[..], &found.to_tell[..]), (&[BOB][..], &[BOB][..]));
    assert!(leases.ask_back(NODE, Some(ANN), START).to_tell.is_empty(), "it is told once");
    assert_eq!(leases.asked(BOB), (1, vec![NODE]));
    assert!(!leases.give(BOB, NODE, START), "it is about to change");
    assert_eq!(leases.acknowledge(BOB, 0), []);
    assert_eq!(leases.acknowledge(BOB, 1), [NODE]);
    assert!(leases.ask_back(NODE, Some(ANN), START).sessions.is_empty());
    leases.changed(NODE);
    assert!(leases.give(BOB, NODE, START));
    assert_eq!(leases.ask_back(NODE, None, START).sessions, [ANN, BOB], "doors have no session");
}

#[test]
fn who_does_not_answer_is_in_the_way_until_its_lease_is_over() {
    let mut leases = both();
    assert!(leases.give(BOB, NODE, START));
    let late = START + Session::LEASE + Session::MARGIN;
    let found = leases.ask_back(NODE, Some(ANN), late);
    assert_eq!((found.sessions, found.next), (vec![BOB], Some(Millis(1))));
    assert!(leases.ask_back(NODE, Some(ANN), late + Millis(1)).sessions.is_empty());
    assert!(!leases.give(BOB, FileId(8), late), "it must renew first");
    assert_eq!(leases.renew(BOB, late + Millis(1)), [NODE], "it has forgotten all");
    assert!(leases.ask_back(NODE, Some(ANN), late + Millis(2)).sessions.is_empty());
}

#[test]
fn after_a_start_everybody_may_have_cached_everything() {
    let mut leases = Leases::default();
    leases.begin(ANN, START, false);
    leases.begin(BOB, START, false);
    assert!(!leases.give(ANN, NODE, START), "it has not forgotten what it had");
    assert_eq!(leases.ask_back(NODE, Some(ANN), START).sessions, [BOB]);
    assert!(leases.renew(BOB, START + Millis(5)).is_empty());
    assert!(leases.confirm(BOB, START + Millis(5)) && !leases.confirm(BOB, START));
    assert!(leases.ask_back(NODE, Some(ANN), START).sessions.is_empty() && !leases.is_idle());
    let over = START + Session::LEASE + Session::MARGIN + Millis(1);
    assert!(leases.ask_back(NODE, None, over).sessions.is_empty());
    leases.forget(ANN);
    leases.changed(NODE);
    assert!(leases.is_idle());
}

#[test]
fn who_was_evicted_alive_counts_until_its_lease_is_over() {
    let mut leases = both();
    assert!(leases.give(BOB, NODE, START));
    leases.end(BOB);
    let found = leases.ask_back(NODE, None, START);
    assert_eq!((found.sessions.len(), found.to_tell.len()), (1, 0));
    assert!(!leases.give(BOB, FileId(8), START));
}

#[test]
fn a_session_that_has_too_many_gets_no_more() {
    let mut leases = both();
    for node in 0..OF_SESSION_MAX as u64 {
        assert!(leases.give(ANN, FileId(node), START));
    }
    let next = FileId(OF_SESSION_MAX as u64);
    assert!(!leases.give(ANN, next, START) && leases.give(ANN, NODE, START), "one that it has goes on");
    assert!(leases.give(BOB, next, START));
    let later = START + Leases::SPAN + Session::MARGIN + Millis(1);
    leases.renew(ANN, later);
    assert_eq!(leases.count_of(ANN), 0);
}

#[test]
fn a_clock_that_is_set_ends_no_lease() {
    let mut leases = both();
    assert!(leases.give(BOB, NODE, START));
    leases.shift(Millis::from_seconds(7200));
    let now = START + Millis::from_seconds(7201);
    assert_eq!(leases.ask_back(NODE, Some(ANN), now).sessions, [BOB]);
}

/// What happens to two mounts that cache one node each, and to the state that they cache.
#[derive(Debug, Clone)]
enum Step {
    Read(u64),
    Write(Option<u64>),
    /// A mount asks what to forget, does so, and acknowledges it with its next question.
    Ask(u64),
    /// The same, but the answer is lost.
    Lose(u64),
    Wait(i64),
    StartHead,
}

fn step() -> impl Strategy<Value = Step> {
    let mount = 1..4u64;
    prop_oneof![
        mount.clone().prop_map(Step::Read),
        proptest::option::of(mount.clone()).prop_map(Step::Write),
        mount.clone().prop_map(Step::Ask),
        mount.prop_map(Step::Lose),
        (0..12_000i64).prop_map(Step::Wait),
        Just(Step::StartHead),
    ]
}

/// A mount as it should be.
#[derive(Debug, Default)]
struct Mount {
    cached: Option<u64>,
    renewed: Timestamp,
    acknowledged: u64,
    start: u64,
}

#[derive(Debug)]
struct World {
    leases: Leases,
    mounts: BTreeMap<u64, Mount>,
    value: u64,
    start: u64,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        let mut world =
            Self { leases: Leases::default(), mounts: BTreeMap::new(), value: 0, start: 1, now: START };
        for number in 1..4 {
            world.leases.begin(ClientId(number), START, true);
            world.mounts.insert(number, Mount { renewed: START, start: 1, ..Mount::default() });
        }
        world
    }

    fn do_step(&mut self, step: &Step) {
        match step {
            Step::Wait(span) => self.now = self.now + Millis(*span),
            Step::Read(number) => {
                let mount = self.mounts.get_mut(number).expect("there are three");
                if mount.cached.is_none() && self.leases.give(ClientId(*number), NODE, self.now) {
                    mount.cached = Some(self.value);
                }
            }
            Step::Write(own) => {
                let own = own.map(ClientId);
                if self.leases.ask_back(NODE, own, self.now).sessions.is_empty() {
                    self.value += 1;
                    self.leases.changed(NODE);
                    if let Some(mount) = own.and_then(|own| self.mounts.get_mut(&own.0)) {
                        mount.cached = None;
                    }
                }
            }
            Step::Ask(number) => self.ask(*number, true),
            Step::Lose(number) => self.ask(*number, false),
            Step::StartHead => {
                self.start += 1;
                self.leases = Leases::default();
                for number in self.mounts.keys() {
                    self.leases.begin(ClientId(*number), self.now, false);
                }
            }
        }
    }

    fn ask(&mut self, number: u64, is_answered: bool) {
        let mount = self.mounts.get_mut(&number).expect("there are three");
        let client = ClientId(number);
        self.leases.renew(client, self.now);
        let must_forget = mount.start != self.start;
        if !must_forget {
            self.leases.confirm(client, self.now);
            self.leases.acknowledge(client, mount.acknowledged);
        }
        let (last, asked) = self.leases.asked(client);
        if !is_answered {
            return;
        }
        if must_forget || self.now - mount.renewed >= Session::LEASE || asked.contains(&NODE) {
            mount.cached = None;
        }
        mount.acknowledged = if must_forget { 0 } else { last };
        (mount.start, mount.renewed) = (self.start, self.now);
    }

    /// Nobody serves what is not so any more.
    fn check(&self) {
        let served = self.mounts.values().filter(|mount| self.now - mount.renewed < Session::LEASE);
        for mount in served.filter(|mount| mount.cached.is_some()) {
            assert_eq!(mount.cached, Some(self.value));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn nobody_serves_what_has_changed(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &steps {
            world.do_step(step);
            world.check();
        }
    }

    #[test]
    fn the_table_counts_right(steps in proptest::collection::vec((0..4u8, 1..4u64, 0..5u64), 1..200)) {
        let mut leases = Leases::default();
        for (kind, client, node) in steps {
            let (client, node) = (ClientId(client), FileId(node));
            match kind {
                0 => leases.begin(client, START, true),
                1 => drop(leases.give(client, node, START)),
                2 => drop(leases.ask_back(node, Some(client), START)),
                _ => drop(leases.acknowledge(client, node.0)),
            }
            let of_nodes: BTreeSet<_> = leases.nodes.iter().flat_map(|(node, all)| all.iter().map(|one| (one.0, *node))).collect();
            let of_holders: BTreeSet<_> = leases.holders.iter().flat_map(|(client, holder)| holder.nodes.iter().map(|node| (*client, *node))).collect();
            prop_assert_eq!(&of_nodes, &of_holders);
            prop_assert_eq!(of_nodes.len(), leases.count);
        }
    }
}
