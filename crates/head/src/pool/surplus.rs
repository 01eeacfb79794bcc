//! What to delete. Besides eviction ([`super::collection`]) this is the only way in which a good piece of a file ends.

use super::view::{FileView, PieceState, PieceView, Snapshot};
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

/// Pieces that a file does not need. Ask after each change of one of its pieces: a copy that has come, a server that is
/// back and has said what it has, a piece that was looked at.
///
/// Only good pieces count, and as many as make the file whole are always left; only good ones are deleted, and what is lost
/// once the file is whole. Pieces that are pinned, coming, suspect or silent stay. First goes what is to leave its
/// partition, then what shares a failure domain, then what is on the fullest partition.
#[must_use]
pub fn surplus(snapshot: &Snapshot, file: &FileView) -> Vec<Removal> {
    let mut kept: Vec<_> = file.pieces.iter().filter(|piece| piece.state != PieceState::Lost).collect();
    let mut removals = Vec::new();
    let mut is_whole = true;
    let target = file.layout.per_index();
    for index in file.layout.indices() {
        loop {
            let good = kept.iter().filter(|piece| piece.index == index && snapshot.is_good(piece));
            let good: Vec<_> = good.copied().collect();
            is_whole &= good.len() >= target;
            if good.len() <= target {
                break;
            }
            let Some(worst) = worst(snapshot, &good, &kept) else { break };
            kept.retain(|piece| piece.object != worst.object);
            removals.push(removal(worst));
        }
    }
    if is_whole {
        // Until then even a damaged piece may be what somebody can still save.
        let lost = file.pieces.iter().filter(|piece| piece.state == PieceState::Lost && !piece.is_pinned);
        removals.extend(lost.map(removal));
    }
    removals.sort();
    removals
}

fn removal(piece: &PieceView) -> Removal {
    Removal { object: piece.object, partition: piece.partition.clone() }
}

/// Which of several good pieces goes.
fn worst<'a>(snapshot: &Snapshot, good: &[&'a PieceView], kept: &[&PieceView]) -> Option<&'a PieceView> {
    let domain = |piece: &PieceView| snapshot.partition(&piece.partition).map(|at| snapshot.domain(at));
    let shares = |piece: &PieceView| {
        kept.iter().any(|other| {
            other.object != piece.object
                && snapshot.is_there(other)
                && !snapshot.is_leaving(other)
                && domain(other) == domain(piece)
        })
    };
    let fill = |piece: &PieceView| snapshot.partition(&piece.partition).map_or(1.0, |at| at.fill());
    let free = good.iter().copied().filter(|piece| !piece.is_pinned);
    free.max_by(|a, b| {
        let order = |piece: &PieceView| (snapshot.is_leaving(piece), shares(piece));
        order(a)
            .cmp(&order(b))
            .then_with(|| fill(a).total_cmp(&fill(b)))
            .then_with(|| a.partition.cmp(&b.partition))
            .then_with(|| a.object.cmp(&b.object))
    })
}

#[cfg(test)]
#[path = "surplus_tests.rs"]
mod tests;
