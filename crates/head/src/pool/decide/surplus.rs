//! Chooses surplus pieces to delete. Only this and eviction ([`crate::pool::decide::collection`]) delete a good piece.

use crate::pool::decide::{
    promise::good_among,
    view::{FileView, PartitionState, PartitionView, PieceHealth, PieceState, Snapshot},
};
use base::ObjectId;
use std::sync::Arc;

/// An object to delete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    /// The object.
    pub object: ObjectId,
    /// Where it is.
    pub partition: Arc<str>,
}

/// Pieces that a file does not need. Call it after each change of one of the file's pieces: a copy is finished, a
/// server has returned and reported its objects, a piece was verified.
///
/// A file loses a piece only if its good pieces alone are complete, and they stay complete. Only good and lost pieces
/// are deleted. Pieces that are pinned, coming, suspect, silent or on read-only partitions stay. The first to go is a
/// piece that is to leave its partition, then one that shares a failure domain, then the one on the fullest partition.
#[must_use]
pub fn surplus(snapshot: &Snapshot, file: &FileView) -> Vec<Removal> {
    if file.pieces.len() <= usize::from(file.layout.pieces()) {
        return Vec::new();
    }
    let standings = snapshot.standings(file);
    if good_among(file.layout, standings.iter().copied()) < file.layout.pieces() {
        // Until it is whole, even a damaged piece may be what somebody can still save.
        return Vec::new();
    }
    let (lost, mut kept): (Vec<_>, Vec<_>) =
        standings.into_iter().partition(|at| at.piece.state == PieceState::Lost);
    let mut removals: Vec<_> = lost.iter().filter(|at| !at.piece.is_pinned).map(removal).collect();
    loop {
        let before = removals.len();
        for index in file.layout.indices() {
            let good = |kept: &[PieceHealth<'_>]| {
                kept.iter().filter(|at| at.piece.index == index && at.is_good).count()
            };
            while good(&kept) > file.layout.per_index() {
                let Some(worst) = worst(snapshot, index, &kept) else { break };
                removals.push(removal(&kept.remove(worst)));
            }
        }
        // What went may have shared a failure domain with what should have gone of another index, and could not.
        if removals.len() == before {
            break;
        }
    }
    removals.sort();
    removals
}

fn removal(at: &PieceHealth<'_>) -> Removal {
    Removal { object: at.piece.object, partition: at.piece.partition.clone() }
}

fn domain<'a>(snapshot: &Snapshot, at: &PieceHealth<'a>) -> Option<&'a str> {
    at.partition.map(|partition| snapshot.domain(partition))
}

/// Which of the good pieces of an index goes.
///
/// None, if the one that should go cannot go yet: another in its place would only have to be made again.
fn worst(snapshot: &Snapshot, index: u8, kept: &[PieceHealth<'_>]) -> Option<usize> {
    let shares = |number: usize| {
        kept.iter().enumerate().any(|(other, at)| {
            other != number
                && at.is_there
                && !at.is_leaving
                && domain(snapshot, at) == domain(snapshot, &kept[number])
        })
    };
    let good = (0..kept.len()).filter(|number| kept[*number].piece.index == index && kept[*number].is_good);
    let good: Vec<_> = good.map(|number| ((kept[number].is_leaving, shares(number)), number)).collect();
    let first = good.iter().map(|(order, _)| *order).max()?;
    let goers = good.iter().filter(|(order, number)| *order == first && may_go(&kept[*number]));
    let fill = |number: usize| kept[number].partition.map_or(1.0, PartitionView::fill);
    let goers = goers.map(|(_, number)| *number);
    goers.max_by(|a, b| {
        let (one, other) = (kept[*a].piece, kept[*b].piece);
        fill(*a)
            .total_cmp(&fill(*b))
            .then_with(|| (&one.partition, one.object).cmp(&(&other.partition, other.object)))
    })
}

fn may_go(at: &PieceHealth<'_>) -> bool {
    !at.piece.is_pinned && at.partition.is_some_and(|partition| partition.state != PartitionState::ReadOnly)
}

#[cfg(test)]
#[path = "surplus_tests.rs"]
mod tests;
