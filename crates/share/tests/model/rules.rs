//! What must hold in every state.

use crate::{
    scope::{HALVES, Scope},
    world::{Client, Protocol, Server, World, is_within},
};
use base::ByteRange;
use share::{Generation, Mode, Stage};
use stateright::Property;

pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always("a write came after one of a later grant", |_, world: &World| {
            world.servers.iter().all(|server| !server.has_stale)
        }),
        Property::always("a write under a good grant was refused", |_, world: &World| {
            world.servers.iter().all(|server| !server.has_refused)
        }),
        Property::always("two have grants that conflict", |_, world: &World| have_no_conflict(world)),
        Property::always("what is served from a cache is old", |_, world: &World| {
            world.clients.iter().all(|client| !serves_old(world, client))
        }),
        // A protocol that does nothing is safe, too.
        Property::sometimes("possible", |model: &Protocol, world: &World| {
            let held = world.clients.iter().filter_map(|client| client.held.as_ref());
            let writers = held.filter(|held| held.mode == Mode::Write).count();
            let written_anew =
                world.servers.iter().filter(|server| server.written[0] >= Generation(2)).count();
            let Scope { ranges, heads, servers_are_lost, .. } = model.scope;
            let is_shared = ranges.len() < 3 || writers == 2;
            let is_handed_over = ranges.len() == 3 || written_anew == if servers_are_lost { 1 } else { 2 };
            is_shared && is_handed_over && world.store.incarnation.0 == heads
        }),
    ]
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
fn serves_old(world: &World, client: &Client) -> bool {
    let Client { held: Some(held), has_lease: true, .. } = client else {
        return false;
    };
    let newer = |server: &Server| {
        let halves = HALVES.iter().zip(server.written);
        halves.into_iter().any(|(half, written)| is_within(*half, held.range) && written > held.generation)
    };
    world.servers.iter().any(newer)
}
