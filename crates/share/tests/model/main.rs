//! Runs the protocol of grants and fences through all orders of events, with the types of the head and the disk
//! servers.
//!
//! One file, two clients, two disk servers, two heads of which one replaces the other. The network keeps every message
//! for ever: it delivers late, again, or never. The head may take a living client for dead at any time. No clock
//! decides whether a write counts.
//!
//! `BP_MODEL_GENERATIONS=3 cargo test --release -p share --test model` looks further.

mod rules;
mod scope;
mod world;

use scope::{Mistake, Scope};
use share::Generation;
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Duration;
use world::Protocol;

/// Half a minute of one processor is enough for two generations.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a protocol with a mistake, or without one, does; and whether it does anything.
fn check(scope: Scope, mistake: Option<Mistake>, generations: u64) -> (Vec<String>, bool) {
    let model = Protocol { scope, mistake, last: Generation(generations) };
    let wanted = if mistake.is_some() { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
    let checker = model.checker().threads(2).finish_when(wanted).timeout(DEADLINE).spawn_bfs().join();
    assert!(mistake.is_some() || checker.is_done(), "all states are seen");
    let mut found = checker.discoveries();
    let is_alive = found.remove("possible").is_some();
    (found.into_iter().map(|(name, path)| format!("{name}: {:?}", path.into_actions())).collect(), is_alive)
}

fn generations() -> u64 {
    std::env::var("BP_MODEL_GENERATIONS")
        .ok()
        .map_or(2, |text| text.parse().expect("generations are a number"))
}

#[test]
fn nothing_stale_is_written_or_read() {
    for scope in Scope::ALL {
        assert_eq!(check(scope, None, generations()), (Vec::new(), true), "{scope:?}");
    }
}

#[test]
fn mistakes_are_found() {
    for (mistake, scope) in Mistake::ALL {
        assert!(!check(scope, Some(mistake), 3).0.is_empty(), "{mistake:?} breaks no rule");
    }
}
