//! Pools for tests.

use super::decide::{
    budget::CopyOrder,
    policy::{Coding, Pool},
    view::{FileView, Layout, PartitionState, PartitionView, PieceState, PieceView, Snapshot},
};
use base::{FileId, ObjectId, Timestamp, rng::Rng};

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);
const GB: u64 = 1_000_000_000;

/// Partition `pN` on server `sN` in one of `racks` racks, half full.
pub(crate) fn partition(number: usize, racks: usize) -> PartitionView {
    PartitionView {
        name: format!("p{number}").into(),
        server: format!("s{number}").into(),
        domain: format!("rack{}", number % racks).into(),
        pool: "main".into(),
        capacity_bytes: 1000 * GB,
        over_bytes: 0,
        free_bytes: 500 * GB,
        incoming_bytes: 0,
        leaving_bytes: 0,
        busy: 0,
        state: PartitionState::InUse,
        heard: NOW,
        is_avoided: false,
        is_given_up: false,
    }
}

/// A pool of two copies on `partitions` servers; the label is what copies do not share.
pub(crate) fn snapshot(partitions: usize, racks: usize) -> Snapshot {
    let pool = Pool {
        copies: 2,
        acknowledged_copies: 2,
        failure_domain: super::decide::policy::FailureDomain::Label("rack".to_owned()),
        ..Pool::default()
    };
    Snapshot::new(pool, (0..partitions).map(|number| partition(number, racks)).collect(), NOW)
}

pub(crate) fn piece(object: u64, partition: &str) -> PieceView {
    PieceView {
        object: ObjectId(object),
        partition: partition.into(),
        index: 0,
        state: PieceState::Verified,
        size_bytes: GB,
        since: NOW,
        verified: NOW,
        is_pinned: false,
    }
}

/// A file with good pieces on these partitions.
pub(crate) fn file(id: u64, copies: u8, partitions: &[&str]) -> FileView {
    let pieces = partitions.iter().zip(0..).map(|(partition, number)| piece(100 * id + number, partition));
    FileView {
        file: FileId(id),
        layout: Layout::Copies(copies),
        pieces: pieces.collect(),
        since: NOW,
        created: Timestamp(NOW.0 - 86_400_000),
        used: Timestamp(NOW.0 - 86_400_000),
        is_pinned: false,
        tape_copies: 0,
    }
}

/// A coded file with one piece on each partition.
pub(crate) fn coded(id: u64, coding: Coding, partitions: &[&str]) -> FileView {
    let mut view = file(id, 1, partitions);
    view.layout = Layout::Coded(coding);
    for (piece, index) in view.pieces.iter_mut().zip(0..) {
        piece.index = index;
    }
    view
}

/// A random pool with random files: replicated or coded, with servers in every state and pieces in every state.
pub(crate) fn world(seed: u64) -> (Snapshot, Vec<FileView>) {
    let mut rng = Rng::new(seed);
    let partitions = 2 + rng.below(12) as usize;
    let racks = 1 + rng.below(partitions as u64) as usize;
    let mut snapshot = snapshot(partitions, racks);
    snapshot.pool.copies = 1 + rng.below(3) as u8;
    snapshot.pool.acknowledged_copies = 1 + rng.below(u64::from(snapshot.pool.copies)) as u8;
    if rng.chance(1, 3) {
        let parity = rng.below(3) as u8;
        // Without parity it is a stripe.
        let coding = Coding { data: 1 + rng.below(4).max(u64::from(parity == 0)) as u8, parity };
        snapshot.pool.coding = Some(coding);
    }
    if rng.chance(1, 3) {
        snapshot.pool.failure_domain = super::decide::policy::FailureDomain::Server;
    }
    let bound = |rng: &mut Rng, most| 1 + rng.below(most) as u32;
    for rate in [&mut snapshot.pool.repair, &mut snapshot.pool.moves] {
        rate.pool_copies = bound(&mut rng, 12);
        rate.server_copies = bound(&mut rng, 4) as u16;
        rate.pool_bytes = rng.below(12 * GB);
        rate.server_bytes = rng.below(4 * GB);
    }
    for number in 0..partitions {
        let at = snapshot.partition_mut(&format!("p{number}")).expect("the partition was just made");
        disturb(at, &mut rng);
    }
    let files = (1..=1 + rng.below(12)).map(|id| some_file(&snapshot, id, &mut rng)).collect();
    (snapshot, files)
}

fn disturb(at: &mut PartitionView, rng: &mut Rng) {
    at.free_bytes = rng.below(at.capacity_bytes);
    at.busy = rng.below(5) as u32;
    at.state = match rng.below(10) {
        0 => PartitionState::Draining,
        1 => PartitionState::ReadOnly,
        2 => PartitionState::Retired,
        _ => PartitionState::InUse,
    };
    match rng.below(8) {
        0 => at.heard.0 -= 600_000,
        1 => at.is_given_up = true,
        _ => {}
    }
}

fn some_file(snapshot: &Snapshot, id: u64, rng: &mut Rng) -> FileView {
    let layout = Layout::of(&snapshot.pool);
    let mut view = file(id, 1, &[]);
    view.layout = layout;
    view.since.0 -= rng.below(1000) as i64;
    view.tape_copies = rng.below(2) as u32;
    view.is_pinned = rng.chance(1, 8);
    // A partition holds one piece of a file at most.
    for (number, at) in snapshot.partitions().iter().enumerate() {
        if !rng.chance(u64::from(layout.pieces()) + 1, snapshot.partitions().len() as u64) {
            continue;
        }
        let mut piece = piece(100 * id + number as u64, &at.name);
        piece.index = rng.below(u64::from(layout.indices().end)) as u8;
        piece.state = match rng.below(10) {
            0 => PieceState::Coming,
            1 => PieceState::Suspect,
            2 => PieceState::Lost,
            _ => PieceState::Verified,
        };
        piece.is_pinned = rng.chance(1, 10);
        view.pieces.push(piece);
    }
    view
}

/// The same things in another order.
pub(crate) fn shuffled<T: Clone>(items: &[T], rng: &mut Rng) -> Vec<T> {
    let mut items = items.to_vec();
    for at in (1..items.len()).rev() {
        items.swap(at, rng.below(at as u64 + 1) as usize);
    }
    items
}

/// The same pool and files, told in another order.
pub(crate) fn retold(snapshot: &Snapshot, files: &[FileView], seed: u64) -> (Snapshot, Vec<FileView>) {
    let mut rng = Rng::new(seed);
    let partitions = shuffled(snapshot.partitions(), &mut rng);
    let again = Snapshot::new(snapshot.pool.clone(), partitions, snapshot.now);
    let mut files = shuffled(files, &mut rng);
    for file in &mut files {
        file.pieces = shuffled(&file.pieces, &mut rng);
    }
    (again, files)
}

/// Carries out orders: what is ordered is coming.
pub(crate) fn begin(snapshot: &mut Snapshot, files: &mut [FileView], orders: &[CopyOrder]) {
    for (order, number) in orders.iter().zip(0..) {
        let at = snapshot.partition_mut(&order.target).expect("orders name partitions of the pool");
        at.incoming_bytes += order.size_bytes;
        let file = files.iter_mut().find(|file| file.file == order.file).expect("orders name given files");
        let mut coming = piece(1_000_000 + 100 * order.file.0 + number, &order.target);
        (coming.index, coming.state, coming.size_bytes) = (order.index, PieceState::Coming, order.size_bytes);
        file.pieces.push(coming);
    }
}

/// What was coming has come.
pub(crate) fn finish(file: &mut FileView) {
    for piece in &mut file.pieces {
        if piece.state == PieceState::Coming {
            piece.state = PieceState::Verified;
        }
    }
}
