//! The state of a pool as plain values, copied from the catalogue, with derived properties.
//!
//! | state of a piece | begins no copy: it counts as present | lets others be deleted: it counts as good |
//! | --- | --- | --- |
//! | verified, its server answers | yes | yes |
//! | verified, its server is silent | yes, until the server is given up | no |
//! | coming | yes | no |
//! | suspect | yes, for the pool's `silence_bound` | no |
//! | lost, or its server is given up | no | no |

use crate::pool::decide::policy::{FailureDomain, Pool};
use base::{FileId, ObjectId, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

pub use wire::control::PartitionState;

/// A partition, as the catalogue knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionView {
    /// Its name.
    pub name: Arc<str>,
    /// The disk server that has it.
    pub server: Arc<str>,
    /// What that server shares with others by the label that the pool names: a rack.
    pub domain: Arc<str>,
    /// The pool it belongs to.
    pub pool: Arc<str>,
    /// Size of the file system, or what the operator allows of it.
    pub capacity_bytes: u64,
    /// Bytes on it beyond that: it was made smaller.
    pub over_bytes: u64,
    /// Free of that, by what the server said last.
    pub free_bytes: u64,
    /// Promised to writes and copies under way, not yet taken from `free_bytes`.
    pub incoming_bytes: u64,
    /// Of objects that are to be deleted, not yet given back to `free_bytes`.
    pub leaving_bytes: u64,
    /// Transfers under way.
    pub busy: u32,
    /// What may be done with it.
    pub state: PartitionState,
    /// When its server was last heard.
    pub heard: Timestamp,
    /// A client could not reach its server a moment ago.
    pub is_avoided: bool,
    /// Its server was silent for so long that its pieces were made anew ([`crate::pool::decide::silence`]).
    pub is_given_up: bool,
}

impl PartitionView {
    /// Free and not promised.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        self.free_bytes.saturating_sub(self.incoming_bytes)
    }

    /// Share of the capacity that is taken or promised, above 1 if it was made smaller; what is to be deleted counts as free.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let part = |bytes: u64| bytes as f64 / self.capacity_bytes as f64;
        if self.capacity_bytes == 0 {
            return 1.0;
        }
        if self.over_bytes > 0 {
            return part(self.used_bytes());
        }
        1.0 - part(self.room_bytes().saturating_add(self.leaving_bytes).min(self.capacity_bytes))
    }

    /// Bytes that are taken or promised.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let free = self.room_bytes().saturating_add(self.leaving_bytes);
        self.capacity_bytes.saturating_add(self.over_bytes).saturating_sub(free)
    }
}

/// The state of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceState {
    /// Being written or copied.
    Coming,
    /// Was there with the right checksum when it was last looked at.
    Verified,
    /// Must be looked at before it counts: its server came back, or a read failed.
    Suspect,
    /// Not there, or damaged.
    Lost,
}

/// One object of a file: a replica, or a piece of a coded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceView {
    /// The object.
    pub object: ObjectId,
    /// Where it is.
    pub partition: Arc<str>,
    /// Which piece of a coded file; 0 for replicas.
    pub index: u8,
    /// Its state.
    pub state: PieceState,
    /// Bytes of this object.
    pub size_bytes: u64,
    /// When it came into this state.
    pub since: Timestamp,
    /// When its bytes were last compared with its checksum.
    pub verified: Timestamp,
    /// Somebody counts on this very object: a read under way, a copy from it.
    pub is_pinned: bool,
}

/// A piece that is a whole file.
pub type ReplicaView = PieceView;

/// The pieces of a complete file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// So many replicas.
    Copies(u8),
    /// One of each piece.
    Coded(crate::pool::decide::policy::Coding),
}

impl Layout {
    /// What new files of a pool have.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        pool.pieces().map_or(Self::Copies(pool.copies), Self::Coded)
    }

    /// Pieces of a whole file.
    #[must_use]
    pub fn pieces(self) -> u8 {
        match self {
            Self::Copies(copies) => copies,
            Self::Coded(coding) => coding.pieces(),
        }
    }

    /// Different pieces without which nothing can be read.
    #[must_use]
    pub fn needed(self) -> u8 {
        match self {
            Self::Copies(_) => 1,
            Self::Coded(coding) => coding.data,
        }
    }

    /// Indices of pieces.
    pub(crate) fn indices(self) -> std::ops::Range<u8> {
        match self {
            Self::Copies(_) => 0..1,
            Self::Coded(coding) => 0..coding.pieces(),
        }
    }

    /// Pieces that a whole file has of one index.
    pub(crate) fn per_index(self) -> usize {
        match self {
            Self::Copies(copies) => usize::from(copies),
            Self::Coded(_) => 1,
        }
    }
}

/// A file in one pool, with all its pieces there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileView {
    /// The file.
    pub file: FileId,
    /// The pieces of the complete file.
    pub layout: Layout,
    /// What there is of it, in any order.
    pub pieces: Vec<PieceView>,
    /// Since when something is to be done for it; its creation, if that is not known.
    pub since: Timestamp,
    /// When its content was made.
    pub created: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
    /// Somebody wants it to stay on disk.
    pub is_pinned: bool,
    /// Tape copies that are good.
    pub tape_copies: u32,
}

/// A pool at a moment: its policy, its partitions, the time.
///
/// Keep one and change it as servers report ([`Snapshot::partition_mut`]): decisions read it, they never copy it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The policy.
    pub pool: Pool,
    /// The time.
    pub now: Timestamp,
    partitions: Vec<PartitionView>,
    /// Where each partition is in the list: decisions ask for each piece that they look at.
    index: HashMap<Arc<str>, usize, BuildHasherDefault<NameHasher>>,
}

/// A piece with what follows from its partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceHealth<'a> {
    pub(crate) piece: &'a PieceView,
    pub(crate) partition: Option<&'a PartitionView>,
    /// As [`Snapshot::is_good`].
    pub(crate) is_good: bool,
    /// As [`Snapshot::is_there`].
    pub(crate) is_there: bool,
    /// As [`Snapshot::is_leaving`].
    pub(crate) is_leaving: bool,
}

impl Snapshot {
    /// The partitions of `pool` among those given; the order in which they come does not matter.
    #[must_use]
    pub fn new(pool: Pool, partitions: Vec<PartitionView>, now: Timestamp) -> Self {
        let mut partitions = partitions;
        partitions.retain(|partition| *partition.pool == *pool.name);
        partitions.sort_by(|a, b| a.name.cmp(&b.name));
        partitions.dedup_by(|a, b| a.name == b.name);
        let index = HashMap::with_capacity_and_hasher(partitions.len(), BuildHasherDefault::default());
        let mut snapshot = Self { pool, now, partitions, index };
        snapshot.index_from(0);
        snapshot
    }

    fn index_from(&mut self, first: usize) {
        for (at, partition) in self.partitions.iter().enumerate().skip(first) {
            self.index.insert(partition.name.clone(), at);
        }
    }

    /// All partitions, by name.
    #[must_use]
    pub fn partitions(&self) -> &[PartitionView] {
        &self.partitions
    }

    /// Where the partition `name` is among [`Snapshot::partitions`], if the pool has it.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The partition `name`, if the pool has it.
    #[must_use]
    pub fn partition(&self, name: &str) -> Option<&PartitionView> {
        Some(&self.partitions[self.position(name)?])
    }

    /// The partition `name`, to be changed. Its name and pool must stay.
    pub fn partition_mut(&mut self, name: &str) -> Option<&mut PartitionView> {
        let at = self.position(name)?;
        Some(&mut self.partitions[at])
    }

    /// All partitions, by name, to be changed. Their names and pools must stay.
    pub fn partitions_mut(&mut self) -> &mut [PartitionView] {
        &mut self.partitions
    }

    /// Adds a partition, or replaces the one of its name.
    pub fn put(&mut self, partition: PartitionView) {
        match self.partitions.binary_search_by(|known| known.name.cmp(&partition.name)) {
            Ok(at) => self.partitions[at] = partition,
            Err(at) => {
                self.partitions.insert(at, partition);
                self.index_from(at);
            }
        }
    }

    /// Whether the partition's server was heard lately, and what it has is known.
    #[must_use]
    pub fn answers(&self, partition: &PartitionView) -> bool {
        !partition.is_given_up && self.now - partition.heard <= self.pool.heard_bound
    }

    /// The pool as it will be if all servers are heard again that were not given up.
    #[must_use]
    pub(crate) fn as_if_all_were_heard(&self) -> Self {
        let mut all = self.clone();
        let now = all.now;
        all.partitions.iter_mut().for_each(|partition| partition.heard = now);
        all
    }

    /// The failure domain.
    #[must_use]
    pub fn domain<'a>(&self, partition: &'a PartitionView) -> &'a str {
        match self.pool.failure_domain {
            FailureDomain::Server => &partition.server,
            FailureDomain::Label(_) => &partition.domain,
        }
    }

    /// What follows for a piece from where it is.
    pub(crate) fn standing<'a>(&'a self, piece: &'a PieceView) -> PieceHealth<'a> {
        let partition = self.partition(&piece.partition);
        let used = partition.filter(|partition| partition.state != PartitionState::Retired);
        let is_expected = match piece.state {
            PieceState::Coming | PieceState::Verified => true,
            PieceState::Suspect => self.now - piece.since <= self.pool.silence_bound,
            PieceState::Lost => false,
        };
        PieceHealth {
            piece,
            partition,
            is_good: piece.state == PieceState::Verified && used.is_some_and(|at| self.answers(at)),
            is_there: is_expected && used.is_some_and(|at| !at.is_given_up),
            is_leaving: used.is_some_and(|at| at.state == PartitionState::Draining),
        }
    }

    /// Of all pieces of a file.
    pub(crate) fn standings<'a>(&'a self, file: &'a FileView) -> Vec<PieceHealth<'a>> {
        file.pieces.iter().map(|piece| self.standing(piece)).collect()
    }

    /// Verified on a partition whose server answers: lets others be deleted, can be copied, can be read.
    #[must_use]
    pub fn is_good(&self, piece: &PieceView) -> bool {
        self.standing(piece).is_good
    }

    /// Good, or expected to become so: no copy is begun for it.
    #[must_use]
    pub fn is_there(&self, piece: &PieceView) -> bool {
        self.standing(piece).is_there
    }

    /// Whether the piece is where nothing should stay.
    #[must_use]
    pub fn is_leaving(&self, piece: &PieceView) -> bool {
        self.standing(piece).is_leaving
    }
}

/// A product for each eight bytes, its halves folded into each other: names are short, and nobody chooses them to collide.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(self.0 ^ u64::from_le_bytes(word)) * 0x9e37_79b9_7f4a_7c15;
            self.0 = product as u64 ^ (product >> 64) as u64;
        }
    }

    fn write_u8(&mut self, _end: u8) {
        // What tells where a text ends among others: there is only one.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A number that depends on all of `random` and `text`, as if drawn for that text: order and neighbours do not matter.
pub(crate) fn draw(random: u64, text: &str) -> u64 {
    // FNV-1a, then one step of SplitMix64, which spreads what FNV leaves in the low bits.
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ random;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    base::rng::Rng::new(hash).next_u64()
}

/// When the runner `text` arrives in a race in which the expected speed is its weight: the first ones are a weighted choice without
/// repetition (Efraimidis, Spirakis 2006).
pub(crate) fn arrival(random: u64, text: &str, speed: f64) -> f64 {
    // In 0..=1 without 0, from the upper 53 bits.
    let uniform = ((draw(random, text) >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln() / speed.max(f64::MIN_POSITIVE)
}
