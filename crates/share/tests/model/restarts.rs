//! Grants that are returned without a synced fence, and disk servers that start again (`docs/design/0010`, *bytes*).
//!
//! A client that returns a grant has it fenced by the disk server itself, in memory, and says so to the head: the next
//! grant need not wait for a disk. A disk server that starts again has forgotten such fences. So it serves nothing until
//! the head has told it which grants there are, and the head believes in a fence only of the start that it knows.
//!
//! Grants are on whole files, as the code has them. With ranges, one number could not say which of several writers have
//! ended.

use base::ByteRange;
use share::{
    Answer, ClientId, Ended, Fence, Fences, FileGrants, Generation, Incarnation, Mode, RequestId, Stage,
};
use stateright::{Model, Property};
use std::collections::BTreeSet;

const CLIENTS: [ClientId; 2] = [ClientId(0), ClientId(1)];
const SERVER: u32 = 0;
const STARTS: u64 = 3;
const GENERATIONS: Generation = Generation(3);
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
}

impl Mistake {
    pub(crate) const ALL: [Self; 5] = [
        Self::ServesAtOnce,
        Self::BelievesOlderStarts,
        Self::TellsNewest,
        Self::ReturnsWithoutFence,
        Self::TakesOlderAnswers,
    ];
}

#[derive(Debug, Clone)]
pub(crate) struct Restarts {
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
    /// Write grants that a client ever had. All writes that they allow come late, again, or never.
    granted: BTreeSet<Generation>,
    orders: BTreeSet<Fence>,
    acknowledged: BTreeSet<Generation>,
    /// With the start of the disk server that has fenced it, if one has.
    returned: BTreeSet<(ClientId, Generation, Option<u64>)>,
    /// What the head told a start of the disk server: older generations are over.
    floors: BTreeSet<(u64, Generation)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Asks(ClientId),
    WriteArrives(Generation),
    Returns(ClientId),
    /// After the disk server has fenced it in memory.
    ReturnsFenced(ClientId),
    ReturnArrives(ClientId, Generation, Option<u64>),
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
        let live = file.grants().iter().filter(|grant| grant.stage != Stage::Ending);
        let oldest = live.map(|grant| grant.generation).min();
        if self.does(Mistake::TellsNewest) {
            return file.newest();
        }
        oldest.unwrap_or_else(|| file.newest().next())
    }

    fn returns(&self, world: &mut World, client: ClientId, is_fenced: bool) -> Option<()> {
        let start = world.server.start;
        if is_fenced && !world.server.is_serving {
            return None;
        }
        let generation = world.held[client.0 as usize].take()?;
        if is_fenced && !self.does(Mistake::ReturnsWithoutFence) {
            world.server.memory.raise(&order(generation, Generation(0))).ok()?;
        }
        world.returned.insert((client, generation, is_fenced.then_some(start)));
        Some(())
    }

    fn return_arrives(
        &self,
        world: &mut World,
        client: ClientId,
        generation: Generation,
        fenced: Option<u64>,
    ) {
        world.file.end(client, generation, Ended::Returned);
        let is_believed = fenced == Some(world.known) || self.does(Mistake::BelievesOlderStarts);
        if fenced.is_some() && is_believed {
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
        world.granted.insert(generation);
    } else {
        // A question that has no answer leaves no trace.
        world.requests -= 1;
    }
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
            if world.held[client.0 as usize].is_some() {
                events.extend([Event::Returns(client), Event::ReturnsFenced(client)]);
            } else if world.file.newest() < GENERATIONS {
                events.push(Event::Asks(client));
            }
        }
        events.extend(world.granted.iter().map(|generation| Event::WriteArrives(*generation)));
        let returned = world.returned.iter();
        events.extend(
            returned.map(|(client, generation, fenced)| Event::ReturnArrives(*client, *generation, *fenced)),
        );
        events.extend(world.orders.iter().cloned().map(Event::FenceArrives));
        events.extend(world.acknowledged.iter().map(|generation| Event::AcknowledgementArrives(*generation)));
        events.extend(world.floors.iter().map(|(start, floor)| Event::FloorArrives(*start, *floor)));
        if world.server.start < STARTS {
            events.push(Event::ServerStarts);
        }
        if !world.server.is_serving {
            events.push(Event::ServerAsks);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Asks(client) => asks(&mut world, client),
            Event::WriteArrives(generation) => write_arrives(&mut world, generation),
            Event::Returns(client) => self.returns(&mut world, client, false)?,
            Event::ReturnsFenced(client) => self.returns(&mut world, client, true)?,
            Event::ReturnArrives(client, generation, fenced) => {
                self.return_arrives(&mut world, client, generation, fenced);
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
            Property::sometimes("possible", |_, world: &World| {
                // Three grants in turn, without one fence that was synced, over two starts.
                let is_handed_over = world.server.written == GENERATIONS && world.acknowledged.is_empty();
                is_handed_over && world.server.start == 2
            }),
        ]
    }
}
