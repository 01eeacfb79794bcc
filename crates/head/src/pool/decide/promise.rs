//! Decides when a write is acknowledged, and how complete a file is.

use crate::pool::decide::{
    policy::Pool,
    view::{FileView, Layout, PieceHealth, Snapshot},
};
use base::ObjectId;

/// Whether a writer may be told that its file is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The write may be acknowledged.
    Now,
    /// So many more pieces must be durable first.
    Wait {
        /// Pieces.
        pieces: u8,
    },
}

/// Pieces that must be durable before a write is acknowledged: all of a coded file, of others as many as the pool says.
#[must_use]
pub fn promised_pieces(pool: &Pool, layout: Layout) -> u8 {
    match layout {
        Layout::Copies(copies) => pool.acknowledged_copies.min(copies).max(1),
        Layout::Coded(coding) => coding.pieces(),
    }
}

/// Decides after each durable piece of a write.
#[must_use]
pub fn acknowledge(snapshot: &Snapshot, file: &FileView) -> Acknowledgement {
    let durable = good_pieces(snapshot, file);
    match promised_pieces(&snapshot.pool, file.layout).saturating_sub(durable) {
        0 => Acknowledgement::Now,
        pieces => Acknowledgement::Wait { pieces },
    }
}

/// Good pieces of a file: all good replicas, or different good pieces of a coded file.
#[must_use]
pub fn good_pieces(snapshot: &Snapshot, file: &FileView) -> u8 {
    good_among(file.layout, file.pieces.iter().map(|piece| snapshot.standing(piece)))
}

/// [`good_pieces`] of pieces whose standing is known.
pub(crate) fn good_among<'a>(layout: Layout, standings: impl IntoIterator<Item = PieceHealth<'a>>) -> u8 {
    let good = standings.into_iter().filter(|standing| standing.is_good);
    match layout {
        Layout::Copies(_) => u8::try_from(good.count()).unwrap_or(u8::MAX),
        Layout::Coded(_) => {
            let seen = good.fold([false; 256], |mut seen, standing| {
                seen[usize::from(standing.piece.index)] = true;
                seen
            });
            layout.indices().filter(|index| seen[usize::from(*index)]).count() as u8
        }
    }
}

/// Good pieces of a file besides one object, and whether the file can be read from them.
#[must_use]
pub fn good_without(snapshot: &Snapshot, file: &FileView, object: ObjectId) -> (usize, bool) {
    let others = file.pieces.iter().filter(|piece| piece.object != object);
    let others: Vec<_> = others.map(|piece| snapshot.standing(piece)).collect();
    let count = others.iter().filter(|standing| standing.is_good).count();
    (count, good_among(file.layout, others) >= file.layout.needed())
}

/// Good pieces that may still be lost before the file cannot be read; below zero it cannot be read now.
#[must_use]
pub fn margin(snapshot: &Snapshot, file: &FileView) -> i16 {
    margin_among(file.layout, file.pieces.iter().map(|piece| snapshot.standing(piece)))
}

/// [`margin`] of pieces whose standing is known.
pub(crate) fn margin_among<'a>(layout: Layout, standings: impl IntoIterator<Item = PieceHealth<'a>>) -> i16 {
    i16::from(good_among(layout, standings)) - i16::from(layout.needed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{
        decide::{policy::Coding, view::PieceState},
        testing::{coded, file, snapshot},
    };

    #[test]
    fn a_write_is_acknowledged_when_the_promise_holds() {
        let mut snapshot = snapshot(4, 4);
        snapshot.pool.copies = 3;
        snapshot.pool.acknowledged_copies = 2;
        let mut view = file(1, 3, &["p0", "p1", "p2"]);
        for piece in &mut view.pieces {
            piece.state = PieceState::Coming;
        }
        assert_eq!(acknowledge(&snapshot, &view), Acknowledgement::Wait { pieces: 2 });
        view.pieces[2].state = PieceState::Verified;
        assert_eq!(acknowledge(&snapshot, &view), Acknowledgement::Wait { pieces: 1 });
        view.pieces[0].state = PieceState::Verified;
        assert_eq!(acknowledge(&snapshot, &view), Acknowledgement::Now);
        assert_eq!(margin(&snapshot, &view), 1);
    }

    #[test]
    fn a_coded_file_is_acknowledged_with_all_pieces_and_one_piece_twice_is_one() {
        let snapshot = snapshot(8, 8);
        let mut view = coded(1, Coding { data: 2, parity: 1 }, &["p0", "p1", "p2"]);
        assert_eq!(acknowledge(&snapshot, &view), Acknowledgement::Now);
        assert_eq!(margin(&snapshot, &view), 1);
        view.pieces[2].index = 1;
        assert_eq!(acknowledge(&snapshot, &view), Acknowledgement::Wait { pieces: 1 });
        assert_eq!(margin(&snapshot, &view), 0);
    }
}
