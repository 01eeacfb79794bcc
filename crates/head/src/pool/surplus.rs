//! What to delete. Besides eviction ([`super::collection`]) this is the only way in which a good piece of a file ends.

use super::{
    promise::good_pieces,
    view::{FileView, PartitionView, PieceState, PieceView, Snapshot},
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

/// Pieces that a file does not need. Ask after each change of one of its pieces: a copy that has come, a server that is
/// back and has said what it has, a piece that was looked at.
///
/// Nothing is deleted of a file that is not whole by its good pieces alone, and it stays whole. Only good pieces are deleted,
/// and lost ones. Pieces that are pinned, coming, suspect or silent stay. First goes what is to leave its partition, then what
/// shares a failure domain, then what is on the fullest partition.
#[must_use]
pub fn surplus(snapshot: &Snapshot, file: &FileView) -> Vec<Removal> {
    if good_pieces(snapshot, file) < file.layout.pieces() {
        // Until it is whole, even a damaged piece may be what somebody can still save.
        return Vec::new();
    }
    let (lost, mut kept): (Vec<_>, Vec<_>) =
        file.pieces.iter().partition(|piece| piece.state == PieceState::Lost);
    let mut removals: Vec<_> = lost.into_iter().filter(|piece| !piece.is_pinned).map(removal).collect();
    for index in file.layout.indices() {
        loop {
            let good = kept.iter().filter(|piece| piece.index == index && snapshot.is_good(piece));
            let good: Vec<_> = good.copied().collect();
            if good.len() <= file.layout.per_index() {
                break;
            }
            let Some(worst) = worst(snapshot, &good, &kept) else { break };
            kept.retain(|piece| piece.object != worst.object);
            removals.push(removal(worst));
        }
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
    let fill = |piece: &PieceView| snapshot.partition(&piece.partition).map_or(1.0, PartitionView::fill);
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
