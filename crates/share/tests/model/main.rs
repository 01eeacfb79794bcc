//! Runs the protocol of grants and fences through all orders of events, with the types of the head and the disk
//! servers.
//!
//! One file, two clients, two disk servers, two heads of which one replaces the other. The network keeps every message
//! for ever: it delivers late, again, or never. The head may take a living client for dead at any time. No clock
//! decides whether a write counts.
//!
//! `BP_MODEL_GENERATIONS=3 cargo test --release -p share --test model` looks further.

mod copies;
mod leases;
mod restarts;
mod rules;
mod scope;
mod world;

use scope::{Mistake, Scope};
use share::Generation;
use stateright::{Checker, HasDiscoveries, Model};
use std::{hash::Hash, time::Duration};
use world::Protocol;

/// Half a minute of one processor is enough for two generations.
const DEADLINE: Duration = Duration::from_secs(600);

/// What a protocol with a mistake, or without one, does; and whether it does anything.
fn check(scope: Scope, mistake: Option<Mistake>, generations: u64) -> (Vec<String>, bool) {
    explore(Protocol { scope, mistake, last: Generation(generations) }, mistake.is_some())
}

/// What a model does that breaks a rule, and whether it does anything.
fn explore<M>(model: M, is_mistaken: bool) -> (Vec<String>, bool)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync + std::fmt::Debug + 'static,
    M::Action: Clone + PartialEq + Send + Sync + std::fmt::Debug,
{
    let wanted = if is_mistaken { HasDiscoveries::AnyFailures } else { HasDiscoveries::All };
    let checker = model.checker().threads(2).finish_when(wanted).timeout(DEADLINE).spawn_bfs().join();
    assert!(is_mistaken || checker.is_done(), "all states are seen");
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

#[test]
fn nothing_old_is_served_from_a_cache_of_names() {
    for scope in leases::Scope::ALL {
        let model = leases::Leases { scope, mistake: None };
        assert_eq!(explore(model, false), (Vec::new(), true), "{scope:?}");
    }
    for (mistake, scope) in leases::Mistake::ALL {
        let found = explore(leases::Leases { scope, mistake: Some(mistake) }, true).0;
        assert!(!found.is_empty(), "{mistake:?} breaks no rule");
    }
}

#[test]
fn copies_of_a_file_are_read_as_one() {
    assert_eq!(explore(copies::Copies { mistake: None }, false), (Vec::new(), true));
    for mistake in copies::Mistake::ALL {
        let found = explore(copies::Copies { mistake: Some(mistake) }, true).0;
        assert!(!found.is_empty(), "{mistake:?} breaks no rule");
    }
}

#[test]
fn a_grant_that_is_returned_without_a_synced_fence_writes_nothing_later() {
    for scope in restarts::Scope::ALL {
        let model = restarts::Restarts { scope, mistake: None };
        assert_eq!(explore(model, false), (Vec::new(), true), "{scope:?}");
    }
    for (mistake, scope) in restarts::Mistake::ALL {
        let found = explore(restarts::Restarts { scope, mistake: Some(mistake) }, true).0;
        assert!(!found.is_empty(), "{mistake:?} breaks no rule");
    }
}
