//! Chooses the replica for a reader.

use crate::pool::decide::view::{PartitionState, PieceState, PieceView, Snapshot, arrival};

/// The reader.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader<'a> {
    /// The disk server on the reader's host.
    pub server: Option<&'a str>,
    /// The label of the reader's host.
    pub domain: Option<&'a str>,
}

/// Pieces that can be read now, the best first.
///
/// Pieces on servers that clients can reach come first, then those on the reader's host, then those near it. Chance
/// decides between the others, weighted by the load of their servers. The known loads are some time old, and meanwhile
/// not all readers may go to the server that had the least load.
///
/// Only verified pieces on servers that answer are given. If there is none, suspect pieces are: a reader compares
/// checksums, so a damaged piece fails there, and the reader of a good piece need not wait for its verification.
#[must_use]
pub fn readable<'a>(
    snapshot: &Snapshot,
    pieces: &'a [PieceView],
    reader: Reader<'_>,
    random: u64,
) -> Vec<&'a PieceView> {
    let in_state = |state: PieceState| {
        let mut found: Vec<_> = pieces
            .iter()
            .filter(|piece| piece.state == state)
            .filter_map(|piece| Some((piece, snapshot.partition(&piece.partition)?)))
            .filter(|(_, partition)| {
                partition.state != PartitionState::Retired && snapshot.answers(partition)
            })
            .map(|(piece, partition)| {
                let distance = if reader.server == Some(&*partition.server) {
                    0
                } else if reader.domain == Some(&*partition.domain) {
                    1
                } else {
                    2
                };
                let arrival = arrival(random, &partition.name, 1.0 / (1.0 + f64::from(partition.busy)));
                ((partition.is_avoided, distance), arrival, piece)
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.object.cmp(&b.2.object)));
        found.into_iter().map(|(_, _, piece)| piece).collect::<Vec<_>>()
    };
    let verified = in_state(PieceState::Verified);
    if verified.is_empty() { in_state(PieceState::Suspect) } else { verified }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::{file, piece, snapshot};

    fn names<'a>(found: &[&'a PieceView]) -> Vec<&'a str> {
        found.iter().map(|piece| &*piece.partition).collect()
    }

    #[test]
    fn the_nearest_is_read_and_more_often_the_idle_one() {
        let mut snapshot = snapshot(4, 2);
        snapshot.partition_mut("p0").unwrap().busy = 9;
        let view = file(1, 2, &["p0", "p1", "p2"]);
        let count = |reader: Reader<'_>, name: &str| {
            let first = |random| names(&readable(&snapshot, &view.pieces, reader, random))[0];
            (0..2100).filter(|random| first(*random) == name).count()
        };
        // As 1 to 10: of 21 readers 1, 10 and 10.
        assert!((60..160).contains(&count(Reader::default(), "p0")));
        assert_eq!(count(Reader { server: Some("s0"), domain: None }, "p0"), 2100);
        // p0 and p2 stand in one rack, of which p2 is the idler.
        assert_eq!(count(Reader { server: None, domain: Some("rack0") }, "p1"), 0);
        assert!((1800..2000).contains(&count(Reader { server: None, domain: Some("rack0") }, "p2")));
    }

    #[test]
    fn silent_lost_and_coming_ones_are_not_read_and_suspects_only_alone() {
        let mut snapshot = snapshot(4, 4);
        let mut view = file(1, 2, &["p0", "p1", "p2", "p3"]);
        view.pieces[0].state = PieceState::Suspect;
        view.pieces[1].state = PieceState::Coming;
        view.pieces[2].state = PieceState::Lost;
        let read =
            |snapshot: &Snapshot| names(&readable(snapshot, &view.pieces, Reader::default(), 7)).join(" ");
        assert_eq!(read(&snapshot), "p3");
        snapshot.partition_mut("p3").unwrap().heard.0 -= snapshot.pool.heard_bound.0 + 1;
        assert_eq!(read(&snapshot), "p0");
        snapshot.partition_mut("p0").unwrap().is_given_up = true;
        assert_eq!(read(&snapshot), "");
    }

    #[test]
    fn who_was_not_reached_comes_last() {
        let mut snapshot = snapshot(2, 2);
        snapshot.partition_mut("p0").unwrap().is_avoided = true;
        let view = file(1, 2, &["p0", "p1"]);
        let reader = Reader { server: Some("s0"), domain: None };
        assert_eq!(names(&readable(&snapshot, &view.pieces, reader, 7)), ["p1", "p0"]);
    }

    #[test]
    fn equal_ones_are_read_in_turns() {
        let snapshot = snapshot(2, 2);
        let pieces = [piece(1, "p0"), piece(2, "p1")];
        let first = |random| readable(&snapshot, &pieces, Reader::default(), random)[0].object.0;
        let firsts = (0..1000).filter(|random| first(*random) == 1).count();
        assert!((400..600).contains(&firsts), "{firsts} of 1000");
    }
}
