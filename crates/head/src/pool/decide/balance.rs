//! Chooses partitions that are too full, and the files that move.
//!
//! A move is a copy first; [`crate::pool::decide::surplus`] deletes the piece on the fullest partition once the copy is verified.

use crate::pool::decide::{
    budget::{Budget, CopyOrder, Reason},
    fetch::{Fetch, fetch},
    placement::{PlacementRequest, Purpose, place_where},
    promise::good_pieces,
    view::{FileView, PartitionState, PartitionView, PieceView, Snapshot},
};
use base::rng::Rng;
use std::sync::Arc;

/// A partition from which files should move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overfull {
    /// Its name.
    pub partition: Arc<str>,
    /// Bytes that should leave it, besides those that are on their way.
    pub excess_bytes: u64,
}

/// The fill of the pool: of its partitions in use whose servers answer.
#[must_use]
pub fn mean_fill(snapshot: &Snapshot) -> f64 {
    let (used, capacity) = movable(snapshot).fold((0.0, 0.0), |(used, capacity), at| {
        (used + at.used_bytes() as f64, capacity + at.capacity_bytes as f64)
    });
    if capacity > 0.0 { used / capacity } else { 0.0 }
}

fn movable(snapshot: &Snapshot) -> impl Iterator<Item = &PartitionView> {
    snapshot.partitions().iter().filter(|at| at.state == PartitionState::InUse && snapshot.answers(at))
}

/// Partitions that are too full, the fullest first.
///
/// The *spread* is the difference from the pool's fill that the policy allows. A partition has to give bytes for one of
/// these reasons:
///
/// - Its fill is further above the pool's than the spread. It gives all above half the spread.
/// - Other partitions are further below the pool's fill than the spread. Every partition above the pool's fill gives
///   what those lack, so that new servers are filled soon.
/// - It was made smaller. It gives all bytes beyond its new size.
#[must_use]
pub fn overfull(snapshot: &Snapshot, budget: &Budget) -> Vec<Overfull> {
    let mean = mean_fill(snapshot);
    let spread = f64::from(snapshot.pool.spread_permille) / 1000.0;
    let bytes = |at: &PartitionView, fill: f64| (fill.max(0.0) * at.capacity_bytes as f64) as u64;
    let mut wanted: u64 = movable(snapshot)
        .filter(|at| at.fill() < mean - spread)
        .map(|at| bytes(at, mean - spread / 2.0 - at.fill()))
        .sum();
    let mut full: Vec<_> = movable(snapshot).filter(|at| at.fill() > mean).collect();
    full.sort_by(|a, b| b.fill().total_cmp(&a.fill()).then_with(|| a.name.cmp(&b.name)));
    let mut found = Vec::new();
    for at in full {
        let fill = at.fill();
        let must = if fill > mean + spread { bytes(at, fill - mean - spread / 2.0) } else { 0 };
        let may = bytes(at, fill - mean).min(wanted);
        wanted -= may;
        let wanted_bytes = must.max(may).max(at.over_bytes);
        let excess_bytes = wanted_bytes.saturating_sub(budget.relieved_bytes(&at.name));
        if excess_bytes > 0 {
            found.push(Overfull { partition: at.name.clone(), excess_bytes });
        }
    }
    found
}

/// Decides which of `files` move from partitions that are too full, and charges `budget` for the copies.
///
/// `files` are some files with a piece there. Give others each time, because not every file can be placed on every
/// partition. Only complete files without surplus pieces move, the largest first, because fewer moves are cheaper. Once
/// the orders are carried out, the next call orders no more than the bounds still allow.
#[must_use]
pub fn balance(snapshot: &Snapshot, files: &[FileView], budget: &mut Budget, random: u64) -> Vec<CopyOrder> {
    let mut excess = overfull(snapshot, budget);
    let mean = mean_fill(snapshot);
    let mut movers: Vec<_> = files.iter().filter(|file| is_movable(snapshot, file)).collect();
    movers.sort_by_key(|file| {
        (std::cmp::Reverse(file.pieces.iter().map(|piece| piece.size_bytes).max()), file.file)
    });
    movers.dedup_by_key(|file| file.file);
    let mut orders = Vec::new();
    let is_over =
        |piece: &PieceView| snapshot.partition(&piece.partition).is_some_and(|at| at.over_bytes > 0);
    for file in movers {
        let there = file.pieces.iter().filter_map(|piece| {
            let at = excess.iter().position(|over| over.partition == piece.partition)?;
            // What is larger than the excess would only turn the tables; but what was made smaller takes nothing back.
            let excess = excess[at].excess_bytes;
            (piece.size_bytes <= excess || (is_over(piece) && excess > 0)).then_some((piece, at))
        });
        // From the fullest one, whatever the order of the pieces.
        let from = there.min_by_key(|(_, at)| *at);
        let Some((piece, at)) = from else { continue };
        let random = Rng::new(random ^ file.file.0.rotate_left(8)).next_u64();
        let relieve = |below| relieve(snapshot, file, piece, below, budget, random);
        // What is too much leaves also where all others are fuller than the pool.
        let order = relieve(mean).or_else(|| if is_over(piece) { relieve(1.0) } else { None });
        if let Some(order) = order {
            excess[at].excess_bytes = excess[at].excess_bytes.saturating_sub(piece.size_bytes);
            budget.take(&order);
            orders.push(order);
        }
    }
    orders
}

fn is_movable(snapshot: &Snapshot, file: &FileView) -> bool {
    file.pieces.len() == usize::from(file.layout.pieces())
        && good_pieces(snapshot, file) == file.layout.pieces()
        && !file.pieces.iter().any(|piece| piece.is_pinned)
}

/// The copy that lets `piece` go, if the bounds allow it and there is a better place.
fn relieve(
    snapshot: &Snapshot,
    file: &FileView,
    piece: &PieceView,
    below: f64,
    budget: &Budget,
    random: u64,
) -> Option<CopyOrder> {
    let (reason, bytes) = (Reason::Balance, piece.size_bytes);
    if !budget.allows_in_pool(reason, bytes) {
        return None;
    }
    let Fetch::From(sources) = fetch(snapshot, file, piece.index, reason, budget) else { return None };
    let others: Vec<_> = file.pieces.iter().filter(|other| other.object != piece.object).cloned().collect();
    let purpose = Purpose::Balance { below };
    let wish = PlacementRequest { pieces: 1, pieces_min: 1, bytes, beside: &others, purpose };
    let placed = place_where(snapshot, &wish, random, |partition| {
        partition.name != piece.partition && budget.allows_at(reason, &partition.server, bytes)
    });
    let target = snapshot.partition(placed?.partitions.first()?)?;
    Some(CopyOrder {
        file: file.file,
        index: piece.index,
        size_bytes: bytes,
        sources,
        target: target.name.clone(),
        target_server: target.server.clone(),
        reason,
        relieves: Some(piece.partition.clone()),
    })
}

#[cfg(test)]
#[path = "balance_tests.rs"]
mod tests;
