//! What there is: servers, partitions, files, and the truth about every piece.

use super::{PoolPlan, Year};
use base::{FileId, Millis, ObjectId, Timestamp};
use head::pool::decide::{
    budget::{Budget, CopyOrder},
    policy::Pool,
    repair::Risk,
    view::{FileView, Layout, PartitionState, PartitionView, PieceState, PieceView, Snapshot},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A server that can be reached was heard later than any time that occurs.
const HEARD: Timestamp = Timestamp(i64::MAX);

/// A disk server.
pub(super) struct Server {
    pub(super) name: Arc<str>,
    pub(super) rack: Arc<str>,
    pub(super) is_up: bool,
    /// When it was last cut off, or began to be.
    pub(super) down: Timestamp,
    /// It is back but has not said yet what it has.
    pub(super) is_registering: bool,
}

impl Server {
    pub(super) fn new(number: usize, racks: usize) -> Self {
        Self {
            name: format!("s{number:04}").into(),
            rack: format!("r{:03}", number % racks).into(),
            is_up: true,
            down: Timestamp(0),
            is_registering: false,
        }
    }
}

/// What is really on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    /// Not there yet.
    Coming,
    Good,
    Corrupt,
    Gone,
}

/// A piece, as the catalogue knows it, and as it is.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) object: u64,
    /// Number of the partition in its pool.
    pub(super) at: usize,
    pub(super) index: u8,
    pub(super) state: PieceState,
    pub(super) since: Timestamp,
    pub(super) verified: Timestamp,
    pub(super) truth: Truth,
}

/// A file.
pub(super) struct FileRow {
    pub(super) layout: Layout,
    pub(super) piece_bytes: u64,
    pub(super) created: Timestamp,
    pub(super) used: Timestamp,
    pub(super) since: Timestamp,
    pub(super) is_acknowledged: bool,
    pub(super) is_pinned: bool,
    pub(super) was_whole: bool,
    pub(super) tape_copies: u32,
    /// Pieces whose writer still writes.
    pub(super) pending: u32,
    pub(super) pieces: Vec<Piece>,
    /// When pieces were destroyed, and whether somebody could notice.
    pub(super) destroyed: Vec<(Timestamp, bool)>,
}

/// A pool with its partitions and files.
pub(super) struct PoolSite {
    pub(super) plan: PoolPlan,
    pub(super) snapshot: Snapshot,
    pub(super) budget: Budget,
    /// Server of each partition.
    pub(super) server_of: Vec<usize>,
    /// Pieces on each partition, by when they were looked at.
    pub(super) held: Vec<BTreeSet<(Timestamp, u64, u64)>>,
    /// Bytes of objects that were deleted while the server was away.
    pub(super) orphan_bytes: Vec<u64>,
    pub(super) files: BTreeMap<u64, FileRow>,
    /// Files for which a copy is to be begun.
    pub(super) queue: BTreeSet<Risk>,
    pub(super) queued: BTreeMap<u64, Risk>,
    /// Copies under way by object, and when they began.
    pub(super) copies: BTreeMap<u64, (CopyOrder, Timestamp)>,
    /// Objects that copies are made from, and by how many.
    pub(super) read: BTreeMap<u64, u32>,
    pub(super) kept: Timestamp,
    /// Repairs that faults made necessary.
    pub(super) needed: u64,
    pub(super) repairs: u64,
}

impl PoolSite {
    pub(super) fn new(plan: &PoolPlan, servers: &[Server], now: Timestamp) -> Self {
        plan.policy.check().expect("the policies of plans are legal");
        let mut site = Self {
            plan: plan.clone(),
            snapshot: Snapshot::new(plan.policy.clone(), Vec::new(), now),
            budget: Budget::new(&plan.policy),
            server_of: Vec::new(),
            held: Vec::new(),
            orphan_bytes: Vec::new(),
            files: BTreeMap::new(),
            queue: BTreeSet::new(),
            queued: BTreeMap::new(),
            copies: BTreeMap::new(),
            read: BTreeMap::new(),
            kept: now,
            needed: 0,
            repairs: 0,
        };
        for server in plan.servers.clone() {
            site.add_partition(server, &servers[server]);
        }
        site
    }

    /// Partitions are named so that their order is that of their numbers.
    pub(super) fn add_partition(&mut self, number: usize, server: &Server) {
        let pool: Arc<str> = self.plan.policy.name.as_str().into();
        self.snapshot.put(PartitionView {
            name: format!("{pool}{number:04}").into(),
            server: server.name.clone(),
            domain: server.rack.clone(),
            pool,
            capacity_bytes: self.plan.capacity_bytes,
            over_bytes: 0,
            free_bytes: self.plan.capacity_bytes,
            incoming_bytes: 0,
            leaving_bytes: 0,
            busy: 0,
            state: PartitionState::InUse,
            heard: HEARD,
            is_avoided: false,
            is_given_up: false,
        });
        self.server_of.push(number);
        self.held.push(BTreeSet::new());
        self.orphan_bytes.push(0);
        assert_eq!(self.snapshot.partitions().len(), self.server_of.len(), "a partition was added twice");
    }

    pub(super) fn policy(&self) -> &Pool {
        &self.snapshot.pool
    }

    pub(super) fn at(&mut self, partition: usize) -> &mut PartitionView {
        &mut self.snapshot.partitions_mut()[partition]
    }

    pub(super) fn number(&self, name: &str) -> usize {
        self.snapshot.position(name).expect("decisions name partitions of the pool")
    }

    /// Partitions of a server.
    pub(super) fn partitions_of(&self, server: usize) -> Vec<usize> {
        (0..self.server_of.len()).filter(|at| self.server_of[*at] == server).collect()
    }

    pub(super) fn files_at(&self, partition: usize) -> Vec<u64> {
        self.held[partition].iter().map(|(_, file, _)| *file).collect()
    }

    /// What the catalogue would say of a file.
    pub(super) fn view(&self, file: u64) -> FileView {
        let row = &self.files[&file];
        let pieces = row.pieces.iter().map(|piece| self.piece_view(row, piece));
        FileView {
            file: FileId(file),
            layout: row.layout,
            pieces: pieces.collect(),
            since: row.since,
            created: row.created,
            used: row.used,
            is_pinned: row.is_pinned,
            tape_copies: row.tape_copies,
        }
    }

    pub(super) fn piece_view(&self, row: &FileRow, piece: &Piece) -> PieceView {
        PieceView {
            object: ObjectId(piece.object),
            partition: self.snapshot.partitions()[piece.at].name.clone(),
            index: piece.index,
            state: piece.state,
            size_bytes: row.piece_bytes,
            since: piece.since,
            verified: piece.verified,
            is_pinned: self.read.contains_key(&piece.object),
        }
    }

    /// A copy that the budget was charged for begins.
    pub(super) fn begin_copy(&mut self, object: u64, order: &CopyOrder) {
        for source in &order.sources {
            *self.read.entry(source.object.0).or_default() += 1;
        }
        self.copies.insert(object, (order.clone(), self.snapshot.now));
    }

    /// A copy has ended; `None` if it had already.
    pub(super) fn end_copy(&mut self, object: u64) -> Option<(CopyOrder, Timestamp)> {
        let (order, begun) = self.copies.remove(&object)?;
        self.budget.give_back(&order);
        for source in &order.sources {
            let readers = self.read.get_mut(&source.object.0).expect("a source is read until its copy ends");
            *readers -= 1;
            if *readers == 0 {
                self.read.remove(&source.object.0);
            }
        }
        Some((order, begun))
    }

    /// A piece is coming.
    pub(super) fn add_piece(&mut self, file: u64, object: u64, at: usize, index: u8) {
        let now = self.snapshot.now;
        let row = self.files.get_mut(&file).expect("pieces belong to files that are there");
        let (state, truth) = (PieceState::Coming, Truth::Coming);
        row.pieces.push(Piece { object, at, index, state, since: now, verified: now, truth });
        let bytes = row.piece_bytes;
        self.held[at].insert((now, file, object));
        let partition = self.at(at);
        partition.incoming_bytes += bytes;
        partition.busy += 1;
    }

    /// What was coming has come.
    pub(super) fn complete_piece(&mut self, file: u64, object: u64) {
        let now = self.snapshot.now;
        let row = self.files.get_mut(&file).expect("the file is there");
        let bytes = row.piece_bytes;
        let piece = row.pieces.iter_mut().find(|piece| piece.object == object);
        let piece = piece.expect("the piece is there");
        assert_eq!(piece.truth, Truth::Coming, "a piece comes once");
        let before = piece.verified;
        (piece.state, piece.since, piece.verified, piece.truth) =
            (PieceState::Verified, now, now, Truth::Good);
        let at = piece.at;
        self.held[at].remove(&(before, file, object));
        self.held[at].insert((now, file, object));
        let partition = self.at(at);
        partition.incoming_bytes -= bytes;
        partition.busy -= 1;
        partition.free_bytes -= bytes;
    }

    /// A piece is gone from the catalogue, and from its disk as soon as its server hears of it.
    pub(super) fn remove_piece(&mut self, file: u64, object: u64, is_up: impl Fn(usize) -> bool) {
        let row = self.files.get_mut(&file).expect("the file is there");
        let bytes = row.piece_bytes;
        let position = row.pieces.iter().position(|piece| piece.object == object);
        let piece = row.pieces.remove(position.expect("the piece is there"));
        self.held[piece.at].remove(&(piece.verified, file, object));
        let server = self.server_of[piece.at];
        match piece.truth {
            Truth::Coming => {
                let partition = self.at(piece.at);
                partition.incoming_bytes -= bytes;
                partition.busy -= 1;
            }
            Truth::Gone => {}
            Truth::Good | Truth::Corrupt if is_up(server) => self.at(piece.at).free_bytes += bytes,
            Truth::Good | Truth::Corrupt => self.orphan_bytes[piece.at] += bytes,
        }
    }

    /// A fault takes the bytes of a piece.
    pub(super) fn destroy(&mut self, file: u64, object: u64, truth: Truth) -> bool {
        let now = self.snapshot.now;
        let row = self.files.get_mut(&file).expect("the file is there");
        let bytes = row.piece_bytes;
        let Some(piece) = row.pieces.iter_mut().find(|piece| piece.object == object) else { return false };
        let before = piece.truth;
        if before == truth || !matches!(before, Truth::Good | Truth::Corrupt) {
            return false;
        }
        piece.truth = truth;
        let at = piece.at;
        if before == Truth::Good {
            row.destroyed.push((now, truth == Truth::Gone));
        }
        if truth == Truth::Gone {
            self.at(at).free_bytes += bytes;
        }
        before == Truth::Good
    }
}

impl FileRow {
    /// Different pieces that are really there.
    pub(super) fn true_pieces(&self) -> usize {
        let good = self.pieces.iter().filter(|piece| piece.truth == Truth::Good);
        match self.layout {
            Layout::Copies(_) => good.count(),
            Layout::Coded(_) => good.map(|piece| piece.index).collect::<BTreeSet<_>>().len(),
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.true_pieces() >= usize::from(self.layout.needed())
    }
}

impl Year {
    /// A server cannot be reached from now on.
    pub(super) fn cut_off(&mut self, server: usize) {
        let now = self.now;
        self.servers[server].is_up = false;
        self.servers[server].down = now;
        self.hear(server, now);
    }

    /// A server can be reached.
    pub(super) fn reach(&mut self, server: usize) {
        self.servers[server].is_up = true;
        self.hear(server, HEARD);
    }

    fn hear(&mut self, server: usize, heard: Timestamp) {
        for pool in &mut self.pools {
            for at in pool.partitions_of(server) {
                pool.at(at).heard = heard;
            }
        }
    }

    pub(super) fn object(&mut self) -> u64 {
        self.object_next += 1;
        self.object_next
    }

    /// How long it takes to write or copy so many bytes.
    pub(super) fn duration(&mut self, bytes: u64) -> Millis {
        // 100 to 400 MB/s.
        Millis(1000 + (bytes / (100_000 + self.rng.below(300_000))) as i64)
    }
}
