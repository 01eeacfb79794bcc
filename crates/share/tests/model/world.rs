//! A small world: what each process knows, what is on the way, and what may happen next.

use base::ByteRange;
use share::{
    Answer, ClientId, Ended, Fence, Fences, FileGrants, Generation, Incarnation, Mode, ServerId, Stage,
};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: [ClientId; 2] = [ClientId(0), ClientId(1)];
const SERVERS: [ServerId; 2] = [0, 1];
const HALVES: [ByteRange; 2] = [ByteRange { offset: 0, end: 1 }, ByteRange { offset: 1, end: 2 }];
/// Two halves of the file, and all of it.
const WHOLE: ByteRange = ByteRange { offset: 0, end: 2 };
const RANGES: [ByteRange; 3] = [HALVES[0], HALVES[1], WHOLE];

/// What may happen: all of it at once would be more states than anybody can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub modes: &'static [Mode],
    pub ranges: &'static [ByteRange],
    /// Starts of the head.
    pub heads: u64,
    pub servers_are_lost: bool,
    /// Clients cache. Without it they never do, and nobody waits for a lease.
    pub has_leases: bool,
}

impl Scope {
    /// Ranges are given to different writers, and taken from them.
    pub const HALVES: Self =
        Self { modes: &[Mode::Write], ranges: &RANGES, heads: 1, servers_are_lost: false, has_leases: false };
    /// Readers cache, writers come.
    pub const CACHES: Self = Self {
        modes: &[Mode::Read, Mode::Write],
        ranges: &[WHOLE],
        heads: 1,
        servers_are_lost: false,
        has_leases: true,
    };
    /// The head is replaced, and may not know it.
    pub const HEADS: Self = Self {
        modes: &[Mode::Write],
        ranges: &[WHOLE],
        heads: 2,
        servers_are_lost: false,
        has_leases: false,
    };
    /// A disk server comes back without its log.
    pub const LOST: Self =
        Self { modes: &[Mode::Write], ranges: &[WHOLE], heads: 1, servers_are_lost: true, has_leases: false };
    pub const ALL: [Self; 4] = [Self::HALVES, Self::CACHES, Self::HEADS, Self::LOST];
}

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A grant is over as soon as its client is declared dead.
    GrantsWithoutFences,
    /// A returned grant is over at once: nothing of it can be on the way.
    ReturnsWithoutFences,
    /// A head that starts and hears nobody begins with no grants.
    ClearsAtStart,
    /// A head that was replaced commits what it decides.
    CommitsWhenReplaced,
    /// A disk server that starts has forgotten its fences, and serves.
    FencesForgotten,
    /// An acknowledgement counts for whatever is being fenced.
    AcknowledgesAnything,
    /// A range is given away while an evicted client may still serve it from its cache.
    LeaseNotAwaited,
}

impl Mistake {
    /// Each, and where it shows.
    pub const ALL: [(Self, Scope); 7] = [
        (Self::GrantsWithoutFences, Scope::CACHES),
        (Self::ReturnsWithoutFences, Scope::CACHES),
        (Self::ClearsAtStart, Scope::HEADS),
        (Self::CommitsWhenReplaced, Scope::HEADS),
        (Self::FencesForgotten, Scope::LOST),
        (Self::AcknowledgesAnything, Scope::CACHES),
        (Self::LeaseNotAwaited, Scope::CACHES),
    ];
}

#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    pub scope: Scope,
    pub mistake: Option<Mistake>,
    /// No generation after this is asked for.
    pub last: Generation,
}

/// What a client believes to have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    generation: Generation,
    mode: Mode,
    range: ByteRange,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    held: Option<Held>,
    /// By its own clock: it serves from its cache.
    has_lease: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    fences: Fences,
    /// It lost its log: it serves nothing, and nobody hears of it until an operator declares it lost.
    is_lost: bool,
    /// The newest generation that wrote to each half.
    written: [Generation; 2],
    /// A write came after one of a later grant.
    has_stale: bool,
    /// A write under a grant that nobody has ended was refused.
    has_refused: bool,
}

/// What is in the database of the head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    incarnation: Incarnation,
    file: FileGrants,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    store: Store,
    /// Heads that run, with what they believe to be in the database.
    heads: BTreeMap<Incarnation, FileGrants>,
    clients: [Client; 2],
    servers: [Server; 2],
    /// Write grants that a client ever had. All writes that they allow were sent, and come late, again, or never.
    granted: BTreeSet<(Generation, ByteRange)>,
    /// Messages that were ever sent: orders, acknowledgements, returns.
    orders: BTreeSet<(ServerId, Fence)>,
    acknowledged: BTreeSet<(ServerId, Generation)>,
    returned: BTreeSet<(ClientId, Generation)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    HeadStarts,
    HeadDies(Incarnation),
    Asks(Incarnation, ClientId, Mode, ByteRange),
    Returns(ClientId),
    ReturnArrives(Incarnation, ClientId, Generation),
    Evicts(Incarnation, ClientId),
    LeaseEnds(ClientId),
    Renews(ClientId),
    HeadSeesLeaseOver(Incarnation, ClientId),
    FenceArrives(ServerId, Fence),
    AcknowledgementArrives(Incarnation, ServerId, Generation),
    WriteArrives(Generation, ByteRange, ServerId),
    ServerRestarts(ServerId),
    ServerLosesItsLog(ServerId),
    ServerForgotten(Incarnation, ServerId),
}

fn is_within(half: ByteRange, range: ByteRange) -> bool {
    range.offset <= half.offset && half.end <= range.end
}

fn index(client: ClientId) -> usize {
    client.0 as usize
}

impl Protocol {
    fn does(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Lets a head change the grants, if it may.
    fn commit(
        &self,
        world: &mut World,
        head: Incarnation,
        change: impl FnOnce(&mut FileGrants),
    ) -> Option<()> {
        let is_newest = world.store.incarnation == head;
        if !is_newest && !self.does(Mistake::CommitsWhenReplaced) {
            // It learns that it was replaced, and ends.
            world.heads.remove(&head);
            return None;
        }
        let mut file = world.heads.get(&head)?.clone();
        change(&mut file);
        self.hurry(&mut file);
        world.heads.insert(head, file.clone());
        world.store.file = file;
        send_fences(world, head);
        Some(())
    }

    /// What mistakes do to grants that end.
    fn hurry(&self, file: &mut FileGrants) {
        let ending: Vec<_> =
            file.grants().iter().filter(|grant| grant.stage == Stage::Ending).cloned().collect();
        for grant in ending {
            let is_early = self.does(Mistake::GrantsWithoutFences)
                || self.does(Mistake::ReturnsWithoutFences) && grant.is_cache_gone;
            if is_early {
                SERVERS.iter().for_each(|server| file.fenced(*server, grant.generation));
            }
            if self.does(Mistake::LeaseNotAwaited) {
                file.lease_over(grant.client);
            }
        }
    }

    fn events_of_heads(&self, world: &World, events: &mut Vec<Event>) {
        if world.store.incarnation.0 < self.scope.heads {
            events.push(Event::HeadStarts);
        }
        for (head, file) in &world.heads {
            if self.scope.heads > 1 {
                events.push(Event::HeadDies(*head));
            }
            let used = file.grants().iter().map(|grant| grant.generation).max().unwrap_or_default();
            for client in CLIENTS {
                if used < self.last && world.clients[index(client)].held.is_none() {
                    let Scope { modes, ranges, .. } = self.scope;
                    let asks =
                        |mode| ranges.iter().map(move |range| Event::Asks(*head, client, mode, *range));
                    events.extend(modes.iter().flat_map(|mode| asks(*mode)));
                }
                let mine = |stage: fn(Stage) -> bool| {
                    file.grants().iter().any(|grant| grant.client == client && stage(grant.stage))
                };
                if mine(|stage| stage != Stage::Ending) {
                    events.push(Event::Evicts(*head, client));
                }
                if mine(|stage| stage == Stage::Ending) && !world.clients[index(client)].has_lease {
                    events.push(Event::HeadSeesLeaseOver(*head, client));
                }
            }
            for (client, generation) in &world.returned {
                events.push(Event::ReturnArrives(*head, *client, *generation));
            }
            for (server, generation) in &world.acknowledged {
                events.push(Event::AcknowledgementArrives(*head, *server, *generation));
            }
            for server in SERVERS {
                if world.servers[server as usize].is_lost {
                    events.push(Event::ServerForgotten(*head, server));
                }
            }
        }
    }
}

fn events_of_clients(world: &World, scope: Scope, events: &mut Vec<Event>) {
    let Scope { ranges, has_leases, .. } = scope;
    for client in CLIENTS {
        let Client { held, has_lease } = &world.clients[index(client)];
        if *has_lease {
            events.push(Event::LeaseEnds(client));
        } else if held.is_some() && has_leases {
            events.push(Event::Renews(client));
        }
        let Some(held) = held else { continue };
        events.push(Event::Returns(client));
    }
    for (generation, range) in &world.granted {
        let halves = HALVES.into_iter().filter(|half| ranges.contains(half) || *half == HALVES[0]);
        let halves = halves.filter(|half| is_within(*half, *range));
        let arrives = |half| SERVERS.map(|server| Event::WriteArrives(*generation, half, server));
        events.extend(halves.flat_map(arrives));
    }
    for (server, fence) in &world.orders {
        events.push(Event::FenceArrives(*server, fence.clone()));
    }
}

/// A head sends what it wants to be fenced, after it has committed that.
fn send_fences(world: &mut World, head: Incarnation) {
    for server in SERVERS {
        let fences = world.heads[&head].fences(server, head).into_iter();
        world.orders.extend(fences.map(|fence| (server, fence)));
    }
}

/// A disk server carries out a write, or refuses.
fn write_arrives(world: &mut World, generation: Generation, half: ByteRange, server: ServerId) {
    let is_held = world
        .store
        .file
        .grants()
        .iter()
        .any(|grant| grant.generation == generation && grant.stage != Stage::Ending);
    let server = &mut world.servers[server as usize];
    if server.is_lost {
        return;
    }
    if server.fences.admit(generation, half).is_err() {
        server.has_refused |= is_held;
        return;
    }
    let written = &mut server.written[half.offset as usize];
    server.has_stale |= generation < *written;
    *written = generation.max(*written);
}

impl Model for Protocol {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        self.events_of_heads(world, events);
        events_of_clients(world, self.scope, events);
        for server in SERVERS {
            if self.does(Mistake::FencesForgotten) {
                events.push(Event::ServerRestarts(server));
            }
            if self.scope.servers_are_lost && world.servers.iter().all(|server| !server.is_lost) {
                events.push(Event::ServerLosesItsLog(server));
            }
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each event")]
    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::HeadStarts => {
                world.store.incarnation = world.store.incarnation.next();
                if self.does(Mistake::ClearsAtStart) {
                    let used = world.store.file.grants().iter().map(|grant| (grant.client, grant.generation));
                    for (client, generation) in used.collect::<Vec<_>>() {
                        world.store.file.end(client, generation, Ended::Returned);
                        SERVERS.iter().for_each(|server| world.store.file.fenced(*server, generation));
                    }
                }
                let head = world.store.incarnation;
                world.heads.insert(head, world.store.file.clone());
                send_fences(&mut world, head);
            }
            Event::HeadDies(head) => _ = world.heads.remove(&head),
            Event::Asks(head, client, mode, range) => {
                let mut answer = Answer::Wait(Vec::new());
                self.commit(&mut world, head, |file| answer = file.ask(client, mode, range, &SERVERS.into()));
                if let Answer::Granted(generation) = answer {
                    world.clients[index(client)] = Client {
                        held: Some(Held { generation, mode, range }),
                        has_lease: self.scope.has_leases,
                    };
                    if mode == Mode::Write {
                        world.granted.insert((generation, range));
                    }
                }
            }
            Event::Returns(client) => {
                let held = world.clients[index(client)].held.take()?;
                world.clients[index(client)].has_lease = false;
                world.returned.insert((client, held.generation));
            }
            Event::ReturnArrives(head, client, generation) => {
                self.commit(&mut world, head, |file| file.end(client, generation, Ended::Returned));
            }
            Event::Evicts(head, client) => _ = self.commit(&mut world, head, |file| file.evict(client)),
            // It stops to serve what it cached; what it sent is on its way, and it may send more.
            Event::LeaseEnds(client) => world.clients[index(client)].has_lease = false,
            Event::Renews(client) => {
                let held = world.clients[index(client)].held.clone()?;
                let grants = world.store.file.grants();
                let is_known = grants
                    .iter()
                    .any(|grant| grant.generation == held.generation && grant.stage != Stage::Ending);
                let mine = &mut world.clients[index(client)];
                if is_known { mine.has_lease = true } else { *mine = Client::default() }
            }
            Event::HeadSeesLeaseOver(head, client) => {
                self.commit(&mut world, head, |file| file.lease_over(client));
            }
            Event::FenceArrives(server, fence) => {
                let there = &mut world.servers[server as usize];
                if there.is_lost || there.fences.raise(&fence).is_err() {
                    return None;
                }
                world.acknowledged.insert((server, fence.generation));
            }
            Event::AcknowledgementArrives(head, server, generation) => {
                let counts_for = |file: &FileGrants| {
                    let all = file.grants().iter().map(|grant| grant.generation).collect::<Vec<_>>();
                    if self.does(Mistake::AcknowledgesAnything) { all } else { vec![generation] }
                };
                self.commit(&mut world, head, |file| {
                    counts_for(file).into_iter().for_each(|generation| file.fenced(server, generation));
                });
            }
            Event::WriteArrives(generation, half, server) => {
                write_arrives(&mut world, generation, half, server)
            }
            Event::ServerRestarts(server) => world.servers[server as usize].fences = Fences::default(),
            Event::ServerLosesItsLog(server) => world.servers[server as usize].is_lost = true,
            Event::ServerForgotten(head, server) => {
                self.commit(&mut world, head, |file| file.forget_server(server));
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a write came after one of a later grant", |_, world: &World| {
                world.servers.iter().all(|server| !server.has_stale)
            }),
            Property::always("a write under a good grant was refused", |_, world: &World| {
                world.servers.iter().all(|server| !server.has_refused)
            }),
            Property::always("two have grants that conflict", |_, world: &World| have_no_conflict(world)),
            Property::always("what is served from a cache is old", |_, world: &World| {
                CLIENTS.iter().all(|client| !serves_old(world, *client))
            }),
            // A protocol that does nothing is safe, too.
            Property::sometimes("possible", |model: &Self, world: &World| {
                let held = world.clients.iter().filter_map(|client| client.held.as_ref());
                let writers = held.filter(|held| held.mode == Mode::Write).count();
                let written_anew =
                    world.servers.iter().filter(|server| server.written[0] >= Generation(2)).count();
                let Scope { ranges, heads, servers_are_lost, .. } = model.scope;
                let is_shared = ranges.len() < 3 || writers == 2;
                let is_handed_over =
                    ranges.len() == 3 || written_anew == if servers_are_lost { 1 } else { 2 };
                is_shared && is_handed_over && world.store.incarnation.0 == heads
            }),
        ]
    }
}

/// Grants that are not ending exclude each other, in the database of the head.
fn have_no_conflict(world: &World) -> bool {
    let live: Vec<_> =
        world.store.file.grants().iter().filter(|grant| grant.stage != Stage::Ending).collect();
    let overlap = |a: ByteRange, b: ByteRange| a.offset < b.end && b.offset < a.end;
    live.iter().enumerate().all(|(place, one)| {
        let others = live[place + 1..].iter();
        let mut bad = others.filter(|other| {
            overlap(one.range, other.range) && (one.mode == Mode::Write || other.mode == Mode::Write)
        });
        bad.next().is_none()
    })
}

/// A client serves from its cache though somebody else has written since.
fn serves_old(world: &World, client: ClientId) -> bool {
    let Client { held: Some(held), has_lease: true } = &world.clients[index(client)] else { return false };
    let newer = |server: &Server| {
        let halves = HALVES.iter().zip(server.written);
        halves.into_iter().any(|(half, written)| is_within(*half, held.range) && written > held.generation)
    };
    world.servers.iter().any(newer)
}
