//! When a write is acknowledged, and how whole a file is.

use super::{
    policy::Pool,
    view::{FileView, Layout, Snapshot},
};

/// Whether a writer may be told that its file is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// It may.
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
    let count = |index: u8| {
        file.pieces.iter().filter(|piece| piece.index == index && snapshot.is_good(piece)).count()
    };
    let good: usize = match file.layout {
        Layout::Copies(_) => count(0),
        Layout::Coded(_) => file.layout.indices().filter(|index| count(*index) > 0).count(),
    };
    u8::try_from(good).unwrap_or(u8::MAX)
}

/// Good pieces that may still be lost before the file cannot be read; below zero it cannot be read now.
#[must_use]
pub fn margin(snapshot: &Snapshot, file: &FileView) -> i16 {
    i16::from(good_pieces(snapshot, file)) - i16::from(file.layout.needed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{
        policy::Coding,
        testing::{coded, file, snapshot},
        view::PieceState,
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
