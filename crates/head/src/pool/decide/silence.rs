//! Decides which servers are given up: those silent for so long that their pieces are replaced.

use crate::pool::decide::view::{PartitionState, Snapshot};
use std::{collections::BTreeMap, sync::Arc};

/// Partitions to be given up now, by name.
///
/// A partition is given up when the head has not heard from it for longer than the pool's bound. While more than half
/// of the pool's servers are silent, none is given up: more likely the head itself is cut off. A partition stays given
/// up until its server has registered it and reported its objects. The registration makes its pieces suspect.
#[must_use]
pub fn to_give_up(snapshot: &Snapshot) -> Vec<Arc<str>> {
    let used = snapshot.partitions().iter().filter(|partition| partition.state != PartitionState::Retired);
    let silent = used.filter(|partition| {
        !partition.is_given_up && snapshot.now - partition.heard > snapshot.pool.silence_bound
    });
    let silent: Vec<_> = silent.map(|partition| partition.name.clone()).collect();
    if silent.is_empty() || is_cut_off(snapshot) { Vec::new() } else { silent }
}

/// Whether more than half of the pool's servers are silent.
#[must_use]
pub fn is_cut_off(snapshot: &Snapshot) -> bool {
    // A server is silent if nothing was heard of any of its partitions.
    let mut servers: BTreeMap<&str, bool> = BTreeMap::new();
    for partition in snapshot.partitions() {
        if partition.state != PartitionState::Retired {
            let is_silent = snapshot.now - partition.heard > snapshot.pool.heard_bound;
            *servers.entry(&partition.server).or_insert(true) &= is_silent;
        }
    }
    let silent = servers.values().filter(|is_silent| **is_silent).count();
    2 * silent > servers.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::snapshot;
    use base::Millis;

    fn silence(snapshot: &mut Snapshot, name: &str, span: Millis) {
        let heard = base::Timestamp(snapshot.now.0 - span.0);
        snapshot.partition_mut(name).unwrap().heard = heard;
    }

    #[test]
    fn a_server_is_given_up_after_the_bound_and_once() {
        let mut snapshot = snapshot(4, 4);
        let bound = snapshot.pool.silence_bound;
        silence(&mut snapshot, "p1", bound);
        assert_eq!(to_give_up(&snapshot), Vec::<Arc<str>>::new());
        silence(&mut snapshot, "p1", Millis(bound.0 + 1));
        assert_eq!(to_give_up(&snapshot), ["p1".into()]);
        snapshot.partition_mut("p1").unwrap().is_given_up = true;
        assert_eq!(to_give_up(&snapshot), Vec::<Arc<str>>::new());
    }

    #[test]
    fn nobody_is_given_up_while_most_are_silent() {
        let mut snapshot = snapshot(4, 4);
        let long = Millis(10 * snapshot.pool.silence_bound.0);
        silence(&mut snapshot, "p0", long);
        silence(&mut snapshot, "p1", long);
        assert_eq!(to_give_up(&snapshot).len(), 2, "half of them may be given up");
        let bound = snapshot.pool.heard_bound;
        silence(&mut snapshot, "p2", Millis(bound.0 + 1));
        assert_eq!(to_give_up(&snapshot), Vec::<Arc<str>>::new());
        // Partitions that nobody uses any more do not vote.
        snapshot.partition_mut("p2").unwrap().state = PartitionState::Retired;
        snapshot.partition_mut("p1").unwrap().state = PartitionState::Retired;
        assert_eq!(to_give_up(&snapshot), ["p0".into()]);
    }
}
