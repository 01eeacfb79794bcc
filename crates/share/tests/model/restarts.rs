//! Grants that are returned without a synced fence, and disk servers that start again (`docs/design/0010`, *bytes*).
//!
//! A client that returns a grant has it fenced by the disk server itself, in memory, and says so to the head: the next
//! grant need not wait for a disk. A disk server that starts again has forgotten such fences. So it serves nothing until
//! the head has told it which grants there are, and the head believes in a fence only of the start that it knows.
//!
//! The client publishes what it has written with the return ([`Scope::CLOSES`]). That message may be repeated, and come when others
//! have written since. A grant with which nothing was ever opened at a disk server needs no fence at all.
//!
//! Grants are on whole files, as the code has them. With ranges, one number could not say which of several writers have
//! ended.

use base::ByteRange;
use share::{Answer, ClientId, Ended, Fence, Fences, FileGrants, Generation, Incarnation, Mode, RequestId};
use stateright::{Model, Property};
use std::collections::BTreeSet;

const CLIENTS: [ClientId; 2] = [ClientId(0), ClientId(1)];
const SERVER: u32 = 0;
const ALL: ByteRange = ByteRange { offset: 0, end: u64::MAX };

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A disk server serves before the head has told it which grants there are.
    ServesAtOnce,
    /// The head believes in a fence of an earlier start of the disk server.
    BelievesOlderStarts,
    /// The head tells the newest generation: that one may be over.
    TellsNewest,
    /// A client says that it was fenced, and was not.
    ReturnsWithoutFence,
    /// A disk server takes what an earlier start of it was told.
    TakesOlderAnswers,
    /// A client says that it has opened nothing with a grant, and has written.
    ReturnsUsedAsUnused,
    /// A return that comes again is committed again.
    CommitsAgain,
    /// A grant is over before what was written under it is committed.
    CommitsAfterTheEnd,
}

impl Mistake {
    pub(crate) const ALL: [(Self, Scope); 8] = [
        (Self::ServesAtOnce, Scope::STARTS),
        (Self::BelievesOlderStarts, Scope::STARTS),
        (Self::TellsNewest, Scope::STARTS),
        (Self::ReturnsWithoutFence, Scope::STARTS),
        (Self::TakesOlderAnswers, Scope::STARTS),
        (Self::ReturnsUsedAsUnused, Scope::CLOSES),
        (Self::CommitsAgain, Scope::CLOSES),
        (Self::CommitsAfterTheEnd, Scope::CLOSES),
    ];
}

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Starts of the disk server.
    starts: u64,
    /// Grants in turn.
    last: Generation,
    /// Returns carry commits, and grants may be returned unused.
    has_closes: bool,
}

impl Scope {
    pub(crate) const STARTS: Self = Self { starts: 3, last: Generation(3), has_closes: false };
    pub(crate) const CLOSES: Self = Self { starts: 2, last: Generation(2), has_closes: true };
    pub(crate) const ALL: [Self; 2] = [Self::STARTS, Self::CLOSES];
}

/// How a grant is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Returned {
    /// The disk server is to be fenced.
    Plain,
    /// This start of the disk server has fenced it in memory.
    Fenced(u64),
    /// Nothing was opened with it.
    Unused,
}

#[derive(Debug, Clone)]
pub(crate) struct Restarts {
    pub(crate) scope: Scope,
    pub(crate) mistake: Option<Mistake>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Server {
    start: u64,
    is_serving: bool,
    memory: Fences,
    disk: Fences,
    written: Generation,
    has_stale: bool,
    has_refused: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    file: FileGrants,
    /// The start of the disk server that the head has told about grants.
    known: u64,
    held: [Option<Generation>; 2],
    requests: u64,
    server: Server,
    /// Write grants that a client ever has opened the object with. All writes that they allow come late, again, or never.
    opened: BTreeSet<Generation>,
    /// The grant under which was written what was committed last.
    committed: Generation,
    /// Returns whose grants are over and whose commits are not done, by mistake.
    late: BTreeSet<Generation>,
    /// What was committed is older than what was committed, or could be read, before.
    has_old_commit: bool,
    orders: BTreeSet<Fence>,
    acknowledged: BTreeSet<Generation>,
    returned: BTreeSet<(ClientId, Generation, Returned)>,
    /// What the head told a start of the disk server: older generations are over.
    floors: BTreeSet<(u64, Generation)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Asks(ClientId),
    /// At the disk server, to write.
    Opens(ClientId),
    WriteArrives(Generation),
    Returns(ClientId),
    /// After the disk server has fenced it in memory.
    ReturnsFenced(ClientId),
    ReturnsUnused(ClientId),
    ReturnArrives(ClientId, Generation, Returned),
    /// What a return brought, by mistake when the grant is over.
    Commits(Generation),
    FenceArrives(Fence),
    AcknowledgementArrives(Generation),
    ServerStarts,
    ServerAsks,
    FloorArrives(u64, Generation),
}

fn order(generation: Generation, oldest: Generation) -> Fence {
    Fence { incarnation: Incarnation(1), generation, range: ALL, oldest }
}

impl Restarts {
    fn does(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// What is older is over.
    fn floor(&self, file: &FileGrants) -> Generation {
        if self.does(Mistake::TellsNewest) { file.newest() } else { file.floor() }
    }

    fn returns(&self, world: &mut World, client: ClientId, how: Returned) -> Option<()> {
        let is_fenced = matches!(how, Returned::Fenced(_));
        if is_fenced && !world.server.is_serving {
            return None;
        }
        let generation = world.held[client.0 as usize].take()?;
        if is_fenced && !self.does(Mistake::ReturnsWithoutFence) {
            world.server.memory.raise(&order(generation, Generation(0))).ok()?;
        }
        let is_used = world.opened.contains(&generation);
        if how == Returned::Unused && is_used && !self.does(Mistake::ReturnsUsedAsUnused) {
            return None;
        }
        world.returned.insert((client, generation, how));
        Some(())
    }

    fn return_arrives(&self, world: &mut World, client: ClientId, generation: Generation, how: Returned) {
        let was_returned = world.file.was_returned(generation);
        if self.scope.has_closes && (!was_returned || self.does(Mistake::CommitsAgain)) {
            if self.does(Mistake::CommitsAfterTheEnd) {
                world.late.insert(generation);
            } else {
                commit(world, generation);
            }
        }
        world.file.end(client, generation, Ended::Returned);
        let is_believed = match how {
            Returned::Plain => false,
            Returned::Fenced(start) => start == world.known || self.does(Mistake::BelievesOlderStarts),
            Returned::Unused => true,
        };
        if is_believed {
            world.file.fenced(SERVER, generation);
        }
        world.orders.extend(world.file.fences(SERVER, Incarnation(1)));
    }

    fn server_starts(&self, world: &mut World) {
        let server = &mut world.server;
        server.start += 1;
        server.memory = server.disk.clone();
        server.is_serving = self.does(Mistake::ServesAtOnce);
    }

    fn floor_arrives(&self, world: &mut World, start: u64, floor: Generation) -> Option<()> {
        let server = &mut world.server;
        if server.is_serving || start != server.start && !self.does(Mistake::TakesOlderAnswers) {
            return None;
        }
        server.memory.raise(&order(Generation(0), floor)).ok()?;
        server.is_serving = true;
        Some(())
    }
}

fn asks(world: &mut World, client: ClientId) {
    world.requests += 1;
    let asked = (client, RequestId(world.requests));
    if let Answer::Granted(generation) = world.file.ask(asked, (Mode::Write, ALL), &BTreeSet::from([SERVER]))
    {
        world.held[client.0 as usize] = Some(generation);
    } else {
        // A question that has no answer leaves no trace.
        world.requests -= 1;
    }
}

/// The head publishes what was written under a grant.
fn commit(world: &mut World, generation: Generation) {
    world.has_old_commit |= generation < world.committed;
    world.committed = generation;
}

fn write_arrives(world: &mut World, generation: Generation) {
    let is_held = world.held.contains(&Some(generation));
    let server = &mut world.server;
    if !server.is_serving {
        return;
    }
    if server.memory.admit(generation, ALL).is_err() {
        server.has_refused |= is_held;
        return;
    }
    server.has_stale |= generation < server.written;
    server.written = generation.max(server.written);
}

impl Model for Restarts {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        let server = Server { start: 1, is_serving: true, ..Server::default() };
        vec![World { known: 1, server, ..World::default() }]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        for client in CLIENTS {
            if let Some(generation) = world.held[client.0 as usize] {
                events.extend([Event::Returns(client), Event::ReturnsFenced(client)]);
                if self.scope.has_closes {
                    events.push(Event::ReturnsUnused(client));
                }
                if !world.opened.contains(&generation) {
                    events.push(Event::Opens(client));
                }
            } else if world.file.newest() < self.scope.last {
                events.push(Event::Asks(client));
            }
        }
        events.extend(world.opened.iter().map(|generation| Event::WriteArrives(*generation)));
        events.extend(world.late.iter().map(|generation| Event::Commits(*generation)));
        let returned = world.returned.iter();
        events.extend(
            returned.map(|(client, generation, how)| Event::ReturnArrives(*client, *generation, *how)),
        );
        events.extend(world.orders.iter().cloned().map(Event::FenceArrives));
        events.extend(world.acknowledged.iter().map(|generation| Event::AcknowledgementArrives(*generation)));
        events.extend(world.floors.iter().map(|(start, floor)| Event::FloorArrives(*start, *floor)));
        if world.server.start < self.scope.starts {
            events.push(Event::ServerStarts);
        }
        if !world.server.is_serving {
            events.push(Event::ServerAsks);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Asks(client) => {
                asks(&mut world, client);
                if !self.scope.has_closes {
                    // Every grant is used.
                    world.opened.extend(world.held[client.0 as usize]);
                }
            }
            Event::Opens(client) => {
                world.opened.extend(world.held[client.0 as usize]);
            }
            Event::WriteArrives(generation) => write_arrives(&mut world, generation),
            Event::Returns(client) => self.returns(&mut world, client, Returned::Plain)?,
            Event::ReturnsFenced(client) => {
                let start = world.server.start;
                self.returns(&mut world, client, Returned::Fenced(start))?;
            }
            Event::ReturnsUnused(client) => self.returns(&mut world, client, Returned::Unused)?,
            Event::ReturnArrives(client, generation, how) => {
                self.return_arrives(&mut world, client, generation, how);
            }
            Event::Commits(generation) => {
                world.late.remove(&generation);
                commit(&mut world, generation);
            }
            Event::FenceArrives(fence) => {
                world.server.disk.raise(&fence).ok()?;
                world.server.memory.raise(&fence).ok()?;
                world.acknowledged.insert(fence.generation);
            }
            Event::AcknowledgementArrives(generation) => world.file.fenced(SERVER, generation),
            Event::ServerStarts => self.server_starts(&mut world),
            Event::ServerAsks => {
                world.known = world.server.start;
                world.floors.insert((world.server.start, self.floor(&world.file)));
            }
            Event::FloorArrives(start, floor) => self.floor_arrives(&mut world, start, floor)?,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a write came after one of a later grant", |_, world: &World| {
                !world.server.has_stale
            }),
            Property::always("a write under a good grant was refused", |_, world: &World| {
                !world.server.has_refused
            }),
            Property::always("an old size was committed over a new one", |_, world: &World| {
                !world.has_old_commit
            }),
            Property::always("a grant was given before all was committed", |_, world: &World| {
                world.held.iter().flatten().all(|held| world.late.iter().all(|late| late >= held))
            }),
            Property::sometimes("possible", |model: &Self, world: &World| {
                // All grants in turn, without one fence that was synced, over two starts.
                let last = model.scope.last;
                let is_handed_over = world.server.written == last && world.acknowledged.is_empty();
                let is_committed = !model.scope.has_closes || world.committed == last;
                is_handed_over && is_committed && world.server.start == 2
            }),
        ]
    }
}
