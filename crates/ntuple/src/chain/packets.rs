//! Packets: the units in which several processes share a pass, and the order in which their sums are added.
//!
//! Adding floats in another order gives another sum, so the order must not depend on who computes what. Packets follow from
//! the files alone; the row groups of one are added in their order, and packets as a binary tree over their numbers: node
//! `(level, index)` is the sum over packets `index << level .. (index + 1) << level`. Whoever has both halves of a node may
//! add them, so a range of packets is a few nodes whatever its length. (Pairwise summation is also the more exact one: N. Higham,
//! SIAM J. Sci. Comput. 14, 1993.)

use crate::fill::add;
use base::{Failure, Result};
use std::ops::Range;

/// Entries from which a packet is full: a few milliseconds of work, so that a task is some packets and never part of one.
pub const PACKET_ENTRIES: u64 = 1 << 18;

/// Row groups of one file that belong to one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroups {
    /// Number of the packet.
    pub packet: usize,
    /// Index of the file in the chain.
    pub file: usize,
    /// Which of its row groups.
    pub groups: Range<usize>,
}

/// Divides row groups, given as file, number and rows, into packets: one is closed when it is full.
pub(super) fn divide(groups: impl Iterator<Item = (usize, usize, usize)>) -> Vec<RowGroups> {
    let mut all: Vec<RowGroups> = Vec::new();
    let (mut packet, mut entries) = (0, 0);
    for (file, group, rows) in groups {
        match all.last_mut() {
            Some(last) if (last.packet, last.file, last.groups.end) == (packet, file, group) => {
                last.groups.end += 1;
            }
            _ => all.push(RowGroups { packet, file, groups: group..group + 1 }),
        }
        entries += rows as u64;
        if entries >= PACKET_ENTRIES {
            (packet, entries) = (packet + 1, 0);
        }
    }
    all
}

/// Fails unless packets follow each other and their row groups exist; `counts` has the number of row groups of each file.
pub(super) fn check(groups: &[RowGroups], counts: &[usize]) -> Result<()> {
    let is_known = |one: &RowGroups| {
        counts
            .get(one.file)
            .is_some_and(|count| one.groups.start < one.groups.end && one.groups.end <= *count)
    };
    let follows = |pair: &[RowGroups]| {
        (pair[0].packet..=pair[0].packet.saturating_add(1)).contains(&pair[1].packet)
            && (pair[0].packet < pair[1].packet
                || (pair[0].file, pair[0].groups.end) <= (pair[1].file, pair[1].groups.start))
    };
    if groups.iter().all(is_known) && groups.windows(2).all(follows) {
        return Ok(());
    }
    Err(Failure::invalid("packets do not belong to these files").hint("open the n-tuple again"))
}

/// Bins of the weighted histograms of a pass, in their order.
pub type Sums = Vec<Vec<[f64; 2]>>;

/// The sums over `2^level` packets from number `index << level`.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Height in the tree; 0 for a packet.
    pub level: u32,
    /// Number among the nodes of this level.
    pub index: usize,
    /// What was summed.
    pub sums: Sums,
}

/// Nodes that are not halves of one that is complete, in the order of their packets.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Adds the packet after all others.
    pub(super) fn push(&mut self, packet: usize, sums: Sums) {
        let mut node = Node { level: 0, index: packet, sums };
        while let Some(mut left) =
            self.0.pop_if(|left| left.level == node.level && left.index ^ 1 == node.index)
        {
            add_sums(&mut left.sums, node.sums);
            node = Node { level: left.level + 1, index: left.index / 2, sums: left.sums };
        }
        self.0.push(node);
    }

    pub(super) fn into_vec(self) -> Vec<Node> {
        self.0
    }
}

/// The sum over all nodes, in their order; `None` if there is none.
pub(super) fn total(nodes: Vec<Node>) -> Option<Sums> {
    nodes.into_iter().map(|node| node.sums).reduce(|mut all, more| {
        add_sums(&mut all, more);
        all
    })
}

/// Adds sums that come after `all`.
pub(crate) fn add_sums(all: &mut Sums, more: Sums) {
    for (all, more) in all.iter_mut().zip(more) {
        all.iter_mut().zip(more).for_each(|(bin, more)| add(bin, more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn packets_are_full_and_go_across_files() {
        let full = PACKET_ENTRIES as usize;
        let rows = [(0, 0, 1), (0, 1, full - 1), (0, 2, 5), (1, 0, 7), (1, 1, full), (2, 0, 1)];
        let one = |packet, file, groups| RowGroups { packet, file, groups };
        let expected = [one(0, 0, 0..2), one(1, 0, 2..3), one(1, 1, 0..2), one(2, 2, 0..1)];
        assert_eq!(divide(rows.into_iter()), expected);
        assert!(check(&expected, &[3, 2, 1]).is_ok());
        assert!(check(&expected, &[3, 2]).is_err());
        assert!(check(&expected, &[3, 1, 1]).is_err());
        assert!(check(&[expected[1].clone(), expected[0].clone()], &[3]).is_err());
        assert!(check(&[expected[1].clone(), expected[1].clone()], &[3]).is_err());
    }

    fn sums(values: &[f64], packets: Range<usize>) -> Vec<Node> {
        let mut nodes = Nodes::default();
        for packet in packets {
            nodes.push(packet, vec![vec![[values[packet], 1.0]]]);
        }
        nodes.into_vec()
    }

    proptest! {
        /// What each of several processes summed gives the same as one pass, to the last bit.
        #[test]
        fn any_division_gives_the_same_sum(
            values in prop::collection::vec(-1e9f64..1e9, 1..70), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(values.len())).chain([0, values.len()]).collect();
            at.sort_unstable();
            let mut nodes: BTreeMap<(u32, usize), Sums> = BTreeMap::new();
            for pair in at.windows(2) {
                for node in sums(&values, pair[0]..pair[1]) {
                    let (mut key, mut own) = ((node.level, node.index), node.sums);
                    while let Some(other) = nodes.remove(&(key.0, key.1 ^ 1)) {
                        let (mut left, right) = if key.1 & 1 == 1 { (other, own) } else { (own, other) };
                        add_sums(&mut left, right);
                        (key, own) = ((key.0 + 1, key.1 / 2), left);
                    }
                    nodes.insert(key, own);
                }
            }
            let mut joined: Vec<Node> =
                nodes.into_iter().map(|((level, index), sums)| Node { level, index, sums }).collect();
            joined.sort_by_key(|node| node.index << node.level);
            prop_assert_eq!(&joined, &sums(&values, 0..values.len()));
            prop_assert_eq!(total(joined).unwrap()[0][0][1], values.len() as f64);
        }
    }
}
