//! A small world: what each process knows, what is on the way, and what may happen next.

use crate::{
    rules,
    scope::{HALVES, Mistake, Scope},
};
use base::ByteRange;
use share::{
    Answer, ClientId, Ended, Fence, Fences, FileGrants, Generation, Incarnation, Mode, RequestId, ServerId,
    Stage,
};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// Of two mounts. One that was evicted greets anew, as the client two numbers on.
const CLIENTS: [ClientId; 2] = [ClientId(0), ClientId(1)];
const SERVERS: [ServerId; 2] = [0, 1];
#[derive(Debug, Clone)]
pub(crate) struct Protocol {
    pub(crate) scope: Scope,
    pub(crate) mistake: Option<Mistake>,
    /// No generation after this is asked for.
    pub(crate) last: Generation,
}

/// What a client believes to have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Held {
    pub(crate) generation: Generation,
    pub(crate) mode: Mode,
    pub(crate) range: ByteRange,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) held: Option<Held>,
    /// What it asks next, or asks again.
    pub(crate) request: RequestId,
    /// It was asked for this grant and did not know it: it does not take it any more.
    pub(crate) disowned: Generation,
    /// By its own clock: it serves from its cache.
    pub(crate) has_lease: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) fences: Fences,
    /// It lost its log: it serves nothing, and nobody hears of it until an operator declares it lost.
    pub(crate) is_lost: bool,
    /// The newest generation that wrote to each half.
    pub(crate) written: [Generation; 2],
    /// A write came after one of a later grant.
    pub(crate) has_stale: bool,
    /// A write under a grant that nobody has ended was refused.
    pub(crate) has_refused: bool,
}

/// What is in the database of the head.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) incarnation: Incarnation,
    pub(crate) evicted: BTreeSet<ClientId>,
    pub(crate) file: FileGrants,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    /// Heads that run, with what they believe to be in the database.
    pub(crate) heads: BTreeMap<Incarnation, FileGrants>,
    pub(crate) clients: [Client; 2],
    pub(crate) servers: [Server; 2],
    /// Write grants that a client ever had. All writes that they allow were sent, and come late, again, or never.
    pub(crate) granted: BTreeSet<(Generation, ByteRange)>,
    /// Messages that were ever sent: orders, acknowledgements, returns.
    pub(crate) orders: BTreeSet<(ServerId, Fence)>,
    pub(crate) acknowledged: BTreeSet<(ServerId, Generation)>,
    pub(crate) returned: BTreeSet<(ClientId, Generation)>,
    pub(crate) answers: BTreeSet<(ClientId, RequestId, Held)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Beside the one that was there, which may say nothing more: so it has died.
    HeadStarts,
    Asks(Incarnation, ClientId, Mode, ByteRange),
    AnswerArrives(ClientId, RequestId, Held),
    Returns(ClientId),
    Disowns(ClientId, Generation),
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

pub(crate) fn is_within(half: ByteRange, range: ByteRange) -> bool {
    range.offset <= half.offset && half.end <= range.end
}

/// Of the mount that a client is, or was.
fn index(client: ClientId) -> usize {
    client.0 as usize % CLIENTS.len()
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

    /// A client asks. Its lease counts from now on, whenever the answer comes.
    fn ask(&self, world: &mut World, head: Incarnation, client: ClientId, (mode, range): (Mode, ByteRange)) {
        if world.store.evicted.contains(&client) {
            greet_anew(world, client);
            return;
        }
        let mine = &mut world.clients[index(client)];
        mine.has_lease = self.scope.has_leases;
        let (request, mut number) = (mine.request, mine.request);
        if self.does(Mistake::AnswersWithOldGrants) {
            let own = world.heads[&head].grants().iter().find(|grant| grant.client == client);
            number = own.filter(|grant| grant.range == range).map_or(number, |grant| grant.request);
        }
        let mut answer = Answer::Wait(Vec::new());
        self.commit(world, head, |file| {
            answer = file.ask((client, number), (mode, range), &SERVERS.into());
        });
        if let Answer::Granted(generation) = answer {
            world.answers.insert((client, request, Held { generation, mode, range }));
        }
    }

    /// What mistakes do to grants that end.
    fn hurry(&self, file: &mut FileGrants) {
        let ending: Vec<_> =
            file.grants().iter().filter(|grant| grant.stage == Stage::Ending).cloned().collect();
        for grant in ending {
            let is_early = self.does(Mistake::GrantsWithoutFences)
                || self.does(Mistake::ReturnsWithoutFences) && grant.is_cache_gone;
            if is_early {
                for server in SERVERS {
                    file.fenced(server, grant.generation);
                }
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
            for Client { id, held, .. } in &world.clients {
                if file.newest() < self.last && held.is_none() {
                    let Scope { modes, ranges, .. } = self.scope;
                    let asks = |mode| ranges.iter().map(move |range| Event::Asks(*head, *id, mode, *range));
                    events.extend(modes.iter().flat_map(|mode| asks(*mode)));
                }
            }
            for grant in file.grants() {
                let there = &world.clients[index(grant.client)];
                if grant.stage != Stage::Ending {
                    events.push(Event::Evicts(*head, grant.client));
                } else if !(there.id == grant.client && there.has_lease) {
                    events.push(Event::HeadSeesLeaseOver(*head, grant.client));
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

/// A client hears that it was evicted, and drops what it has.
fn greet_anew(world: &mut World, client: ClientId) {
    world.clients[index(client)] =
        Client { id: ClientId(client.0 + CLIENTS.len() as u64), ..Client::default() };
}

fn events_of_clients(world: &World, scope: Scope, events: &mut Vec<Event>) {
    let Scope { ranges, has_leases, .. } = scope;
    for Client { id, held, has_lease, .. } in &world.clients {
        if *has_lease {
            events.push(Event::LeaseEnds(*id));
        } else if held.is_some() && has_leases {
            events.push(Event::Renews(*id));
        }
        if held.is_some() {
            events.push(Event::Returns(*id));
        }
    }
    for (client, request, held) in &world.answers {
        events.push(Event::AnswerArrives(*client, *request, held.clone()));
    }
    // It is asked for something that it does not know to have.
    for grant in world.store.file.grants().iter().filter(|grant| grant.stage == Stage::Recalled) {
        let there = &world.clients[index(grant.client)];
        let is_known = there.held.as_ref().is_some_and(|held| held.generation == grant.generation);
        if there.id == grant.client && !is_known {
            events.push(Event::Disowns(grant.client, grant.generation));
        }
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
        let clients = CLIENTS.map(|id| Client { id, ..Client::default() });
        vec![World { clients, ..World::default() }]
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
                        for server in SERVERS {
                            world.store.file.fenced(server, generation);
                        }
                    }
                }
                let head = world.store.incarnation;
                world.heads.insert(head, world.store.file.clone());
                send_fences(&mut world, head);
            }
            Event::Asks(head, client, mode, range) => self.ask(&mut world, head, client, (mode, range)),
            Event::AnswerArrives(client, request, held) => {
                let mine = &mut world.clients[index(client)];
                if (mine.id, mine.request) != (client, request)
                    || mine.held.is_some()
                    || held.generation <= mine.disowned
                {
                    return None;
                }
                if held.mode == Mode::Write {
                    world.granted.insert((held.generation, held.range));
                }
                mine.held = Some(held);
            }
            Event::Returns(client) => {
                let mine = &mut world.clients[index(client)];
                let held = mine.held.take()?;
                (mine.has_lease, mine.request) = (false, mine.request.next());
                world.returned.insert((client, held.generation));
            }
            Event::Disowns(client, generation) => {
                let mine = &mut world.clients[index(client)];
                mine.disowned = mine.disowned.max(generation);
                world.returned.insert((client, generation));
            }
            Event::ReturnArrives(head, client, generation) => {
                self.commit(&mut world, head, |file| file.end(client, generation, Ended::Returned));
            }
            Event::Evicts(head, client) => {
                self.commit(&mut world, head, |file| file.evict(client))?;
                world.store.evicted.insert(client);
            }
            // It stops to serve what it cached; what it sent is on its way, and it may send more.
            Event::LeaseEnds(client) => world.clients[index(client)].has_lease = false,
            Event::Renews(client) if world.store.evicted.contains(&client) => greet_anew(&mut world, client),
            Event::Renews(client) => world.clients[index(client)].has_lease = true,
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
                    for generation in counts_for(file) {
                        file.fenced(server, generation);
                    }
                });
            }
            Event::WriteArrives(generation, half, server) => {
                write_arrives(&mut world, generation, half, server);
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
        rules::all()
    }
}
