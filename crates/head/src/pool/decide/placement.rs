//! Where new pieces go, as a pure function: weighted by free space and load, apart from each other, the same for the same
//! random number whatever the order of the partitions.

use crate::pool::decide::{
    policy::Pool,
    view::{PartitionState, PartitionView, PieceState, PieceView, Snapshot, arrival},
};
use base::{
    Failure, Result,
    units::{counted, human_bytes},
};
use std::sync::Arc;

/// A request to place pieces.
#[derive(Debug, Clone, Copy)]
pub struct PlacementRequest<'a> {
    /// Pieces.
    pub pieces: u8,
    /// Fewer than `pieces`, but not fewer than this, are better than a refusal.
    pub pieces_min: u8,
    /// Bytes of each.
    pub bytes: u64,
    /// Pieces of the same file that are there already: new ones stay away from them.
    pub beside: &'a [PieceView],
    /// For whom.
    pub purpose: Purpose,
}

/// The purpose of a placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Purpose {
    /// A user's write: leaves the reserved space alone.
    Write,
    /// A copy that restores the promise: may use the reserved space.
    Repair,
    /// A copy that leaves a partition that is drained: may use the reserved space.
    Drain,
    /// A copy that is only worth while in a failure domain that has no other piece of the file.
    Spread,
    /// A copy that leaves a partition that is too full, for one that will be filled less than this, 0 to 1, and away from
    /// the file's other pieces.
    Balance {
        /// The fill of the pool.
        below: f64,
    },
}

/// The chosen partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Partitions, the best first.
    pub partitions: Vec<Arc<str>>,
    /// No two pieces of the file, old ones included, share a failure domain.
    pub is_spread: bool,
}

/// Chooses partitions for new pieces of a file. Each number `random` gives one choice; over many numbers the choices
/// follow the weights.
///
/// Servers that a client could not reach are chosen only if the others are too few. Two pieces share a failure domain
/// only if too few domains have space. They are then on different servers if possible, and never on one partition.
///
/// # Errors
/// `Unavailable` if no server that could take the pieces answers, else `NoSpace`.
pub fn place(snapshot: &Snapshot, wish: &PlacementRequest<'_>, random: u64) -> Result<Placement> {
    if snapshot.partitions().iter().any(|partition| partition.is_avoided)
        && let Some(placed) = place_where(snapshot, wish, random, |partition| !partition.is_avoided)
        && placed.partitions.len() == usize::from(wish.pieces)
    {
        return Ok(placed);
    }
    let chosen = choose(snapshot, wish, random, |_| true);
    placed(snapshot, wish, &chosen).ok_or_else(|| refusal(snapshot, wish, chosen.len()))
}

/// [`place`] on partitions that `is_allowed`; `None` instead of a reason.
pub(crate) fn place_where(
    snapshot: &Snapshot,
    wish: &PlacementRequest<'_>,
    random: u64,
    is_allowed: impl Fn(&PartitionView) -> bool,
) -> Option<Placement> {
    placed(snapshot, wish, &choose(snapshot, wish, random, is_allowed))
}

/// A partition with room, and when it arrives in the [`race`].
type Candidate<'a> = (f64, &'a PartitionView);

/// Candidates that are looked at first.
const FIRST_LEN: usize = 24;

/// The best partitions, as many as there are or are wanted.
fn choose<'a>(
    snapshot: &'a Snapshot,
    wish: &PlacementRequest<'_>,
    random: u64,
    is_allowed: impl Fn(&PartitionView) -> bool,
) -> Vec<&'a PartitionView> {
    let mut candidates = Vec::with_capacity(snapshot.partitions().len());
    let open = snapshot.partitions().iter().filter(|partition| takes(snapshot, partition, wish));
    candidates.extend(open.map(|partition| (race(&snapshot.pool, partition, wish, random), partition)));
    let order =
        |a: &Candidate<'a>, b: &Candidate<'a>| a.0.total_cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name));
    // Of many candidates only the first are looked at, almost always: sorting the others would be most of the work.
    if candidates.len() > FIRST_LEN {
        candidates.select_nth_unstable_by(FIRST_LEN, order);
        let mut first = candidates[..FIRST_LEN].to_vec();
        first.retain(|(_, partition)| is_allowed(partition));
        first.sort_unstable_by(order);
        let chosen = pick(snapshot, &first, wish, 0..1);
        if chosen.len() == usize::from(wish.pieces) {
            return chosen;
        }
    }
    candidates.retain(|(_, partition)| is_allowed(partition));
    candidates.sort_unstable_by(order);
    pick(snapshot, &candidates, wish, 0..3)
}

fn placed(snapshot: &Snapshot, wish: &PlacementRequest<'_>, chosen: &[&PartitionView]) -> Option<Placement> {
    if chosen.is_empty() || chosen.len() < usize::from(wish.pieces_min) {
        return None;
    }
    let is_spread = is_spread(snapshot, chosen, wish.beside);
    Some(Placement { partitions: chosen.iter().map(|partition| partition.name.clone()).collect(), is_spread })
}

/// Room that a write leaves alone.
fn kept_bytes(pool: &Pool, purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Repair | Purpose::Drain => 0,
        Purpose::Write | Purpose::Spread | Purpose::Balance { .. } => pool.reserved_bytes,
    }
}

/// Whether a partition may take one more piece.
fn takes(snapshot: &Snapshot, partition: &PartitionView, wish: &PlacementRequest<'_>) -> bool {
    let room = partition.room_bytes().saturating_sub(kept_bytes(&snapshot.pool, wish.purpose));
    let is_low = match wish.purpose {
        Purpose::Balance { below } => {
            // As it will be filled once the piece is there: or else files would go back and forth.
            partition.fill() + wish.bytes as f64 / partition.capacity_bytes.max(1) as f64 <= below
        }
        _ => true,
    };
    is_writable(snapshot, partition) && room > wish.bytes && is_low && !has_piece(partition, wish.beside)
}

/// A lost piece does not count: it must not keep its successor away, the pool may have no other partition.
fn has_piece(partition: &PartitionView, pieces: &[PieceView]) -> bool {
    pieces.iter().any(|piece| piece.partition == partition.name && piece.state != PieceState::Lost)
}

fn is_writable(snapshot: &Snapshot, partition: &PartitionView) -> bool {
    partition.state == PartitionState::InUse && snapshot.answers(partition)
}

/// When a partition [arrives](arrival) if those with room and without work are fast.
fn race(pool: &Pool, partition: &PartitionView, wish: &PlacementRequest<'_>, random: u64) -> f64 {
    let kept = kept_bytes(pool, wish.purpose);
    let free = partition.room_bytes().saturating_sub(kept) as f64;
    let speed = power(free, pool.weights.free_percent)
        / power(1.0 + f64::from(partition.busy), pool.weights.load_percent);
    arrival(random, &partition.name, speed)
}

fn power(value: f64, percent: u16) -> f64 {
    match percent {
        0 => 1.0,
        100 => value,
        percent => value.powf(f64::from(percent) / 100.0),
    }
}

/// Takes candidates in their order: in the first pass those in new domains, then on new servers, then any.
fn pick<'a>(
    snapshot: &'a Snapshot,
    candidates: &[Candidate<'a>],
    wish: &PlacementRequest<'_>,
    passes: std::ops::Range<u8>,
) -> Vec<&'a PartitionView> {
    // What is leaving keeps nobody away: its successor may stand where it stood.
    let beside = wish.beside.iter().filter(|piece| snapshot.is_there(piece) && !snapshot.is_leaving(piece));
    let beside: Vec<_> = beside.filter_map(|piece| snapshot.partition(&piece.partition)).collect();
    let mut chosen: Vec<&PartitionView> = Vec::new();
    for pass in passes {
        for (_, candidate) in candidates {
            if chosen.len() >= usize::from(wish.pieces) {
                return chosen;
            }
            let others = || beside.iter().chain(&chosen);
            let is_apart = match pass {
                0 => !others().any(|other| snapshot.domain(other) == snapshot.domain(candidate)),
                1 => !others().any(|other| other.server == candidate.server),
                _ => !others().any(|other| other.name == candidate.name),
            };
            if is_apart {
                chosen.push(candidate);
            }
        }
        if matches!(wish.purpose, Purpose::Spread | Purpose::Balance { .. }) {
            break;
        }
    }
    chosen
}

fn is_spread(snapshot: &Snapshot, chosen: &[&PartitionView], beside: &[PieceView]) -> bool {
    let old = beside.iter().filter(|piece| snapshot.is_there(piece) && !snapshot.is_leaving(piece));
    let old = old.filter_map(|piece| snapshot.partition(&piece.partition));
    let mut domains: Vec<_> =
        chosen.iter().copied().chain(old).map(|partition| snapshot.domain(partition)).collect();
    domains.sort_unstable();
    domains.windows(2).all(|pair| pair[0] != pair[1])
}

/// The reason for which not enough partitions were found.
fn refusal(snapshot: &Snapshot, wish: &PlacementRequest<'_>, found: usize) -> Failure {
    let pool = &snapshot.pool.name;
    let all = snapshot.partitions();
    let writable: Vec<_> = all.iter().filter(|partition| is_writable(snapshot, partition)).collect();
    if writable.is_empty() {
        if all.is_empty() {
            return Failure::unavailable(format!("pool {pool} has no partition")).hint(
                "`bp pool move` puts an empty partition into it; new files go to the pool in disk.pool of \
                    the head's host",
            );
        }
        let silent = all.iter().filter(|partition| !snapshot.answers(partition)).count();
        let closed = all.len() - silent;
        return Failure::unavailable(format!(
            "no partition of pool {pool} accepts files: of {}, {silent} are silent and {closed} draining, \
                read-only or retired",
            all.len()
        ))
        .hint("check the logs of its disk servers, or run `bp pool use` for a partition");
    }
    let kept = kept_bytes(&snapshot.pool, wish.purpose);
    let free: u64 = writable.iter().map(|partition| partition.room_bytes().saturating_sub(kept)).sum();
    let largest = writable.iter().map(|partition| partition.room_bytes().saturating_sub(kept)).max();
    let (need, free) = (human_bytes(wish.bytes), human_bytes(free));
    let largest = human_bytes(largest.unwrap_or(0));
    let mut what = format!("pool {pool} has {free} free, {largest} on one partition; {need} are needed on ");
    match wish.pieces_min {
        0 | 1 => what.push_str("one partition"),
        least => {
            let found = counted(found as u64, "has it", "have it");
            what.push_str(&format!("each of {least} partitions, {found}"));
        }
    }
    let taken = writable.iter().filter(|partition| has_piece(partition, wish.beside)).count();
    if taken > 0 {
        let taken = counted(taken as u64, "already has", "already have");
        what.push_str(&format!(" ({taken} a piece of the file)"));
    }
    Failure::no_space(what).hint("archive and evict files, or add a partition to the pool")
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
