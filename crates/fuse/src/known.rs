//! Nodes that the kernel knows, or is about to: how often each was given to it, less what it has forgotten.
//!
//! A notification that reaches the kernel before the answer that tells it of a node finds nothing to invalidate. As long as the
//! node counts here, such a notification is made again.

use crate::mount::ROOT;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Counts by node, and whether it is a directory. As many as the kernel caches.
#[derive(Debug, Default)]
pub(crate) struct Known {
    nodes: Mutex<HashMap<u64, (u64, bool)>>,
}

impl Known {
    /// A node is given to the kernel.
    pub(crate) fn add(&self, node: u64, is_directory: bool) {
        self.lock().entry(node).or_insert((0, is_directory)).0 += 1;
    }

    /// The kernel has forgotten what it was given so often.
    pub(crate) fn remove(&self, node: u64, count: u64) {
        let mut nodes = self.lock();
        if let Some((known, _)) = nodes.get_mut(&node) {
            *known = known.saturating_sub(count);
            if *known == 0 {
                nodes.remove(&node);
            }
        }
    }

    /// Whether the kernel may know a node.
    pub(crate) fn contains(&self, node: u64) -> bool {
        node == ROOT || self.lock().contains_key(&node)
    }

    /// Whether the kernel may know a node that is a directory.
    pub(crate) fn is_directory(&self, node: u64) -> bool {
        node == ROOT || self.lock().get(&node).is_some_and(|(_, is_directory)| *is_directory)
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.lock().keys().copied().chain([ROOT]).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (u64, bool)>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_until_all_that_was_given_is_forgotten() {
        let known = Known::default();
        known.add(7, true);
        known.add(7, true);
        known.add(8, false);
        known.remove(7, 1);
        assert!(known.contains(7) && known.is_directory(7) && known.contains(8) && !known.is_directory(8));
        known.remove(7, 1);
        known.remove(9, 5);
        assert!(!known.contains(7) && known.contains(ROOT) && known.is_directory(ROOT));
        assert_eq!(known.all().len(), 2);
    }
}
