//! Chooses the copies to begin: for missing pieces, for draining partitions, for pieces that share a failure domain.
//!
//! Keep a queue of the files that may need copies, in the order of [`risk`]. Add a file when one of its pieces or their
//! partition has changed. Give the first files to [`repair`], and again whenever a copy has ended. The [`Outlook`] of a
//! file decides whether it stays in the queue. No decision looks at files that are not given. The caller gives each
//! order a deadline: a piece that is coming counts as present until it is reported as failed.

use crate::pool::decide::{
    budget::{Budget, CopyOrder, Reason},
    fetch::{Fetch, fetch},
    placement::{PlacementRequest, Purpose, place, place_where},
    promise::{good_among, good_pieces, margin, margin_among},
    view::{FileView, Layout, PieceHealth, PieceState, PieceView, Snapshot},
};
use base::{Failure, FileId, ObjectId, Timestamp, rng::Rng};

/// How urgent a file is: the smallest goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Risk {
    /// Pieces that may still be lost before it cannot be read.
    pub margin: i16,
    /// What is to be done for it.
    pub reason: Reason,
    /// Since when.
    pub since: Timestamp,
    /// The file.
    pub file: FileId,
}

/// The decision about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// The file is complete.
    Whole,
    /// Nothing to begin: what is coming, silent or suspect will do, or must be heard of first.
    Waits,
    /// Copies were ordered for all that it misses.
    Begun,
    /// Bounds are reached: give it again when a copy has ended.
    Postponed,
    /// There is no place for what it misses: give it again when there is more room, and tell the operator.
    NoRoom(Failure),
    /// Nothing on disk is or will be good, but it is on tape.
    Recall,
    /// Nothing is left of it.
    Lost,
}

/// The copies to begin, and the decision about each file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Copies to begin, the most urgent first. The budget has been charged for them.
    pub orders: Vec<CopyOrder>,
    /// The decision about each file, the most urgent first.
    pub outlooks: Vec<(FileId, Outlook)>,
}

/// How urgent a file is; `None` if no copy is to be begun for it.
#[must_use]
pub fn risk(snapshot: &Snapshot, file: &FileView) -> Option<Risk> {
    let standings = snapshot.standings(file);
    let reason = missing(snapshot, file, &standings).into_iter().map(|missing| missing.reason).min()?;
    let margin = margin_among(file.layout, standings);
    Some(Risk { margin, reason, since: file.since, file: file.file })
}

/// Decides which copies to begin, and charges `budget` for them.
///
/// Once its orders are carried out (each is a piece that is coming), asking again gives none.
#[must_use]
pub fn repair(snapshot: &Snapshot, files: &[FileView], budget: &mut Budget, random: u64) -> Repairs {
    let (mut queue, mut idle) = (Vec::new(), Vec::new());
    for file in files {
        match risk(snapshot, file) {
            Some(risk) => queue.push((risk, file)),
            None => idle.push((file.file, rest(snapshot, file))),
        }
    }
    // A file that is given twice counts once.
    queue.sort_by_key(|(risk, _)| *risk);
    queue.dedup_by_key(|(risk, _)| *risk);
    idle.sort_by_key(|(file, _)| *file);
    idle.dedup();
    let mut repairs = Repairs::default();
    for (_, file) in queue {
        let outlook = repair_file(snapshot, file, budget, random, &mut repairs.orders);
        repairs.outlooks.push((file.file, outlook));
    }
    repairs.outlooks.extend(idle);
    repairs
}

/// A file for which nothing is to be begun.
fn rest(snapshot: &Snapshot, file: &FileView) -> Outlook {
    let is_whole = is_nearline(file) || good_pieces(snapshot, file) >= file.layout.pieces();
    if is_whole { Outlook::Whole } else { Outlook::Waits }
}

/// On tape alone, as after an eviction: nothing of it is to be on disk.
fn is_nearline(file: &FileView) -> bool {
    file.pieces.is_empty() && file.tape_copies > 0
}

/// A piece that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MissingPiece {
    index: u8,
    reason: Reason,
}

/// The missing pieces of a file.
fn missing(snapshot: &Snapshot, file: &FileView, standings: &[PieceHealth<'_>]) -> Vec<MissingPiece> {
    let target = file.layout.per_index();
    let mut missing = Vec::new();
    if is_nearline(file) {
        return missing;
    }
    for index in file.layout.indices() {
        let count = |is_leaving: bool| {
            let there = standings.iter().filter(|at| at.piece.index == index && at.is_there);
            there.filter(|at| at.is_leaving == is_leaving).count()
        };
        let (leaving, staying) = (count(true), count(false));
        let repairs = target.saturating_sub(staying + leaving);
        for number in 0..target.saturating_sub(staying) {
            let reason = if number < repairs { Reason::Repair } else { Reason::Drain };
            missing.push(MissingPiece { index, reason });
        }
    }
    // What drains must not keep back what repairs.
    missing.sort_by_key(|missing| (missing.reason, missing.index));
    if missing.is_empty() {
        missing.extend(
            crowded(snapshot, file.layout, standings)
                .map(|index| MissingPiece { index, reason: Reason::Spread }),
        );
    }
    missing
}

/// A piece that shares its failure domain, of a file that has all its pieces, for which nothing is under way.
fn crowded(snapshot: &Snapshot, layout: Layout, standings: &[PieceHealth<'_>]) -> Option<u8> {
    let is_coming = standings.iter().any(|at| at.piece.state == PieceState::Coming);
    if is_coming || good_among(layout, standings.iter().copied()) < layout.pieces() {
        return None;
    }
    let staying = standings.iter().filter(|at| at.is_there && !at.is_leaving);
    let mut staying: Vec<_> =
        staying.filter_map(|at| Some((snapshot.domain(at.partition?), at.piece.index))).collect();
    staying.sort_unstable();
    let domains = staying.chunk_by(|a, b| a.0 == b.0).count();
    let shared = staying.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).min();
    shared.filter(|_| domains < usize::from(layout.pieces()))
}

/// Orders the copies that one file needs.
fn repair_file(
    snapshot: &Snapshot,
    file: &FileView,
    budget: &mut Budget,
    random: u64,
    orders: &mut Vec<CopyOrder>,
) -> Outlook {
    // As it will be when the orders are carried out.
    let mut after = file.clone();
    for (number, missing) in missing(snapshot, file, &snapshot.standings(file)).into_iter().enumerate() {
        let random = Rng::new(random ^ file.file.0.rotate_left(8) ^ number as u64).next_u64();
        match order(snapshot, &after, missing, budget, random) {
            Ok(order) => {
                after.pieces.push(coming(snapshot, &order));
                budget.take(&order);
                orders.push(order);
            }
            Err(outlook) => return outlook,
        }
    }
    Outlook::Begun
}

/// The piece that is there once an order is carried out.
fn coming(snapshot: &Snapshot, order: &CopyOrder) -> PieceView {
    PieceView {
        object: ObjectId(0),
        partition: order.target.clone(),
        index: order.index,
        state: PieceState::Coming,
        size_bytes: order.size_bytes,
        since: snapshot.now,
        verified: snapshot.now,
        is_pinned: false,
    }
}

/// One copy, or why there is none.
fn order(
    snapshot: &Snapshot,
    file: &FileView,
    missing: MissingPiece,
    budget: &Budget,
    random: u64,
) -> Result<CopyOrder, Outlook> {
    let MissingPiece { index, reason } = missing;
    let bytes = piece_bytes(file);
    if !budget.allows_in_pool(reason, bytes) {
        // Whether it could be made at all is asked when there is room for it.
        return Err(if margin(snapshot, file) < 0 { unreadable(snapshot, file) } else { Outlook::Postponed });
    }
    let sources = match fetch(snapshot, file, index, reason, budget) {
        Fetch::From(sources) => sources,
        Fetch::Later => return Err(Outlook::Postponed),
        Fetch::Never => return Err(unreadable(snapshot, file)),
    };
    let purpose = match reason {
        Reason::Repair => Purpose::Repair,
        Reason::Drain => Purpose::Drain,
        Reason::Spread | Reason::Balance => Purpose::Spread,
    };
    let wish = PlacementRequest { pieces: 1, pieces_min: 1, bytes, beside: &file.pieces, purpose };
    let is_allowed = |partition: &crate::pool::decide::view::PartitionView| {
        budget.allows_at(reason, &partition.server, bytes)
    };
    let placed = place_where(snapshot, &wish, random, is_allowed).ok_or_else(|| {
        match place(snapshot, &wish, random) {
            Ok(_) => Outlook::Postponed,
            // Where no other domain has room, it is as spread as it can be.
            Err(_) if reason == Reason::Spread => Outlook::Whole,
            Err(failure) => Outlook::NoRoom(failure),
        }
    })?;
    let target =
        placed.partitions.first().and_then(|name| snapshot.partition(name)).ok_or(Outlook::Postponed)?;
    Ok(CopyOrder {
        file: file.file,
        index,
        size_bytes: bytes,
        sources,
        target: target.name.clone(),
        target_server: target.server.clone(),
        reason,
        relieves: None,
    })
}

/// Bytes of a new piece: all pieces of a file have the same size.
fn piece_bytes(file: &FileView) -> u64 {
    file.pieces.iter().map(|piece| piece.size_bytes).max().unwrap_or(0)
}

/// A file that has too few good pieces to make others from.
fn unreadable(snapshot: &Snapshot, file: &FileView) -> Outlook {
    let may_be_good = |piece: &&PieceView| match piece.state {
        PieceState::Coming => snapshot.is_there(piece),
        PieceState::Verified | PieceState::Suspect => true,
        PieceState::Lost => false,
    };
    let mut there: Vec<_> = file.pieces.iter().filter(|piece| snapshot.is_there(piece)).collect();
    let mut ever: Vec<_> = file.pieces.iter().filter(may_be_good).collect();
    let needed = usize::from(file.layout.needed());
    let count = |pieces: &mut Vec<&PieceView>| {
        if matches!(file.layout, Layout::Coded(_)) {
            pieces.sort_by_key(|piece| piece.index);
            pieces.dedup_by_key(|piece| piece.index);
        }
        pieces.len()
    };
    if count(&mut there) >= needed {
        return Outlook::Waits;
    }
    match (file.tape_copies > 0, count(&mut ever) >= needed) {
        (true, _) => Outlook::Recall,
        (false, true) => Outlook::Waits,
        (false, false) => Outlook::Lost,
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
