//! Leases on names and attributes (`docs/design/0010`): what a mount caches is broken first, and changed then.
//!
//! One name with versions, two mounts, two heads of which the older one may go on. A door, or a third host, changes the
//! name. The network keeps every message for ever: it delivers late, again, or never.

use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a mount.
type Who = usize;
/// Number of a start of the head.
type Start = u64;

/// What may happen: all of it at once would be more states than anybody can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    mounts: &'static [Who],
    starts: Start,
    versions: u8,
}

impl Scope {
    /// Two mounts, one head.
    pub(crate) const MOUNTS: Self = Self { mounts: &[0, 1], starts: 1, versions: 2 };
    /// One mount, a head that is replaced and may not know it.
    pub(crate) const HEADS: Self = Self { mounts: &[0], starts: 2, versions: 2 };
    pub(crate) const ALL: [Self; 2] = [Self::MOUNTS, Self::HEADS];
}

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The change is carried out while others are being told.
    ChangesFirst,
    /// An answer is cached although an invalidation has come since it was asked for.
    CachesCrossingAnswers,
    /// An acknowledgement counts for leases that were given after it.
    CountsOldAcknowledgements,
    /// A lease is given on what is being broken.
    LeasesWhileBreaking,
    /// A head that starts takes it that nobody has leases.
    ForgetsAtStart,
    /// A mount keeps what it has cached when it renews its lease with another start of the head.
    KeepsCacheOfOldStart,
    /// A mount that was silent renews its lease without being told what has changed.
    RenewsUnheard,
    /// A head that was replaced renews leases.
    RenewsWhenReplaced,
    /// A mount acknowledges an invalidation before it has forgotten.
    AcknowledgesEarly,
}

impl Mistake {
    /// Each, and where it shows.
    pub(crate) const ALL: [(Self, Scope); 9] = [
        (Self::ChangesFirst, Scope::MOUNTS),
        (Self::CachesCrossingAnswers, Scope::MOUNTS),
        (Self::CountsOldAcknowledgements, Scope::MOUNTS),
        (Self::LeasesWhileBreaking, Scope::MOUNTS),
        (Self::ForgetsAtStart, Scope::HEADS),
        (Self::KeepsCacheOfOldStart, Scope::HEADS),
        (Self::RenewsUnheard, Scope::MOUNTS),
        (Self::RenewsWhenReplaced, Scope::HEADS),
        (Self::AcknowledgesEarly, Scope::MOUNTS),
    ];
}

#[derive(Debug, Clone)]
pub(crate) struct Leases {
    pub(crate) scope: Scope,
    pub(crate) mistake: Option<Mistake>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Mount {
    cached: Option<u8>,
    /// By its own clock: it serves from its cache.
    has_lease: bool,
    /// The start of the head that it renewed its lease with.
    start: Start,
    /// The last invalidation of this start that it has carried out.
    heard: u64,
    /// How often it has forgotten something. Numbers of two starts of the head cannot be compared.
    forgets: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Head {
    /// What it believes to be there.
    version: u8,
    /// Who has a lease, and how many invalidations there were when it was given.
    leased: BTreeMap<Who, u64>,
    /// Mounts that may have leases of an earlier start.
    unsure: BTreeSet<Who>,
    is_breaking: bool,
    /// Invalidations so far.
    number: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// In the database.
    version: u8,
    start: Start,
    heads: BTreeMap<Start, Head>,
    mounts: Vec<Mount>,
    /// With how often the mount had forgotten something when it asked.
    answers: BTreeSet<(Who, Start, u64, u8)>,
    invalidations: BTreeSet<(Who, Start, u64)>,
    acknowledged: BTreeSet<(Who, Start, u64)>,
    /// Who has told a start that it has nothing of earlier ones.
    forgotten: BTreeSet<(Who, Start)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    HeadStarts,
    Asks(Start, Who),
    AnswerArrives(Who, Start, u64, u8),
    Changes(Start),
    InvalidationArrives(Who, Start, u64),
    AcknowledgementArrives(Who, Start, u64),
    Renews(Start, Who),
    LeaseEnds(Who),
    HeadSeesLeaseOver(Start, Who),
    ForgottenArrives(Who, Start),
    /// The time for which leases of earlier starts may last is over.
    GraceEnds(Start, Who),
}

impl Leases {
    fn does(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn asks(&self, world: &mut World, head: Start, who: Who) -> Option<()> {
        let forgets = world.mounts[who].forgets;
        let may_lease = self.does(Mistake::LeasesWhileBreaking);
        // A head that was replaced may answer: what it gives ends with leases that it cannot renew.
        let there = world.heads.get_mut(&head)?;
        if there.is_breaking && !may_lease {
            return None;
        }
        if !there.is_breaking {
            there.leased.insert(who, there.number);
        }
        let version = there.version;
        world.answers.insert((who, head, forgets, version));
        Some(())
    }

    fn changes(&self, world: &mut World, head: Start) -> Option<()> {
        // Nobody changes anything without the database.
        if head != world.start {
            world.heads.remove(&head);
            return None;
        }
        let there = world.heads.get_mut(&head)?;
        let is_free = there.leased.is_empty() && there.unsure.is_empty();
        if !is_free && !there.is_breaking {
            there.is_breaking = true;
            there.number += 1;
            let orders = there.leased.keys().map(|who| (*who, head, there.number));
            world.invalidations.extend(orders);
        }
        if is_free || self.does(Mistake::ChangesFirst) {
            there.is_breaking = false;
            there.version += 1;
            world.version = there.version;
        }
        Some(())
    }

    fn renews(&self, world: &mut World, head: Start, who: Who) -> Option<()> {
        let is_unheard = self.does(Mistake::RenewsUnheard);
        let keeps = self.does(Mistake::KeepsCacheOfOldStart);
        if head != world.start && !self.does(Mistake::RenewsWhenReplaced) {
            // It learns from the database that it was replaced, and ends.
            world.heads.remove(&head);
            return None;
        }
        let number = world.heads.get(&head)?.number;
        let mine = &mut world.mounts[who];
        mine.has_lease = true;
        if mine.start != head {
            mine.forgets += 1;
            if !keeps {
                mine.cached = None;
            }
            (mine.start, mine.heard) = (head, number);
            world.forgotten.insert((who, head));
        } else if mine.heard < number && !is_unheard {
            (mine.cached, mine.heard) = (None, number);
            mine.forgets += 1;
            world.acknowledged.insert((who, head, number));
        }
        Some(())
    }

    fn hears(&self, world: &mut World, (who, start, number): (Who, Start, u64)) -> Option<()> {
        let mine = &mut world.mounts[who];
        if mine.start != start || mine.heard >= number {
            return None;
        }
        mine.heard = number;
        mine.forgets += 1;
        if !self.does(Mistake::AcknowledgesEarly) {
            mine.cached = None;
        }
        world.acknowledged.insert((who, start, number));
        Some(())
    }
}

impl Model for Leases {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let mounts = self.scope.mounts.iter().map(|_| Mount { start: 1, ..Mount::default() }).collect();
        vec![World { start: 1, heads: BTreeMap::from([(1, Head::default())]), mounts, ..World::default() }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        if world.start < self.scope.starts {
            events.push(Event::HeadStarts);
        }
        for (head, there) in &world.heads {
            if there.version < self.scope.versions {
                events.push(Event::Changes(*head));
            }
            for who in self.scope.mounts.iter().copied() {
                let mine = &world.mounts[who];
                if mine.cached.is_none() {
                    events.push(Event::Asks(*head, who));
                }
                if !mine.has_lease || mine.start != *head {
                    events.push(Event::Renews(*head, who));
                }
                if !mine.has_lease && there.leased.contains_key(&who) {
                    events.push(Event::HeadSeesLeaseOver(*head, who));
                }
                if (!mine.has_lease || mine.start == *head) && there.unsure.contains(&who) {
                    events.push(Event::GraceEnds(*head, who));
                }
            }
        }
        let leased = self.scope.mounts.iter().filter(|who| world.mounts[**who].has_lease);
        events.extend(leased.map(|who| Event::LeaseEnds(*who)));
        let answers = world.answers.iter().copied();
        events.extend(
            answers.map(|(who, start, forgets, version)| Event::AnswerArrives(who, start, forgets, version)),
        );
        let told = world.invalidations.iter().copied();
        events.extend(told.map(|(who, start, number)| Event::InvalidationArrives(who, start, number)));
        let acknowledged = world.acknowledged.iter().copied();
        events.extend(
            acknowledged.map(|(who, start, number)| Event::AcknowledgementArrives(who, start, number)),
        );
        events.extend(world.forgotten.iter().map(|(who, start)| Event::ForgottenArrives(*who, *start)));
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::HeadStarts => {
                world.start += 1;
                let unsure = if self.does(Mistake::ForgetsAtStart) {
                    BTreeSet::new()
                } else {
                    self.scope.mounts.iter().copied().collect()
                };
                world.heads.insert(world.start, Head { version: world.version, unsure, ..Head::default() });
            }
            Event::Asks(head, who) => drop(self.asks(&mut world, head, who)),
            Event::AnswerArrives(who, start, forgets, version) => {
                let mine = &mut world.mounts[who];
                let is_crossed = mine.forgets != forgets && !self.does(Mistake::CachesCrossingAnswers);
                if mine.start != start || is_crossed {
                    return None;
                }
                mine.cached = Some(version);
            }
            Event::Changes(head) => drop(self.changes(&mut world, head)),
            Event::InvalidationArrives(who, start, number) => self.hears(&mut world, (who, start, number))?,
            Event::AcknowledgementArrives(who, start, number) => {
                let counts_all = self.does(Mistake::CountsOldAcknowledgements);
                let leased = &mut world.heads.get_mut(&start)?.leased;
                // One that comes twice says nothing of a lease that was given after the first.
                leased.retain(|other, given| *other != who || *given >= number && !counts_all);
            }
            Event::Renews(head, who) => drop(self.renews(&mut world, head, who)),
            Event::LeaseEnds(who) => world.mounts[who].has_lease = false,
            Event::HeadSeesLeaseOver(head, who) => {
                let there = world.heads.get_mut(&head)?;
                // What it is told when it comes back.
                if !there.is_breaking {
                    return None;
                }
                there.leased.remove(&who);
            }
            Event::ForgottenArrives(who, start) => {
                world.heads.get_mut(&start)?.unsure.remove(&who);
            }
            Event::GraceEnds(head, who) => {
                world.heads.get_mut(&head)?.unsure.remove(&who);
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is served from a cache is old", |_, world: &World| {
                world
                    .mounts
                    .iter()
                    .all(|mine| !mine.has_lease || mine.cached.is_none_or(|version| version == world.version))
            }),
            // A protocol that does nothing is safe, too.
            Property::sometimes("possible", |model: &Self, world: &World| {
                let Scope { versions, starts, .. } = model.scope;
                let all = world.mounts.iter().all(|mine| mine.has_lease && mine.cached == Some(versions));
                all && world.start == starts
            }),
        ]
    }
}
