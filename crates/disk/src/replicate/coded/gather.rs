//! Reads a coded file: takes cells from this host and from other disk servers, checks them, and computes missing ones.
//!
//! A read asks each piece at once for all that it needs; the client of each piece reads ahead of that. Memory is
//! bounded by [`BATCH_BYTES`] for each read in progress, [`KEPT_CELLS`], and the windows of the clients.

use super::{
    threads,
    window::{Cells, Window},
};
use crate::{ObjectReader, ObjectWriter, Partition, port::Head, remote::objects::PeerClient};
use base::{ErrorKind, Failure, FileId, ObjectId, Result};
use client::xrd::File;
use net::shutdown::Shutdown;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::{debug, warn};
use wire::{
    control::{Pieces, ReportDamage},
    media::coded::{Shape, TAIL_BYTES},
};

/// Content that is put together at a time.
const BATCH_BYTES: u64 = 8 << 20;
/// Cells that are cached because only a part of them was wanted: small reads follow each other.
const KEPT_CELLS: usize = 8;
/// How long a piece is left alone that could not be read.
const REST: Duration = Duration::from_secs(30);

/// Tells the head of damaged pieces.
pub(crate) struct Reporter {
    pub(crate) head: Head,
    pub(crate) tasks: Shutdown,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Reporter {
    fn report(&self, file: FileId, object: ObjectId) {
        let head = self.head.clone();
        let _guard = self.runtime.enter();
        self.tasks.spawn("report damage", async move {
            if let Err(failure) = head.call(ReportDamage { file, objects: vec![object] }).await {
                warn!(%file, %object, %failure, "could not tell the head that a piece is damaged");
            }
        });
    }
}

/// The location of a piece.
enum PieceSource {
    Unopened,
    Local(Arc<ObjectReader>),
    Remote(Arc<File>),
    /// It could not be read then.
    Failed(Instant),
}

/// A piece that somebody has.
struct PieceLocation {
    index: u8,
    object: ObjectId,
    url: String,
    /// The partition, if it is one of this host.
    partition: Option<Arc<Partition>>,
    source: Mutex<PieceSource>,
}

/// A data cell of which a part was read.
struct CachedCell {
    stripe: u64,
    index: u8,
    payload: Arc<[u8]>,
}

/// A coded file, open for reading. Threads may read it at the same time.
pub struct CodedFile {
    shape: Shape,
    locations: Vec<PieceLocation>,
    peers: PeerClient,
    cached: Mutex<VecDeque<CachedCell>>,
    damaged: Mutex<BTreeSet<ObjectId>>,
    reporter: Option<Reporter>,
}

impl CodedFile {
    /// A file with these pieces, of which those on `partitions` are read from the disk.
    pub(crate) fn new(
        pieces: &Pieces,
        partitions: &BTreeMap<String, Arc<Partition>>,
        peers: &PeerClient,
        reporter: Option<Reporter>,
    ) -> Result<Self> {
        let shape = pieces.piece(0).shape(pieces.file, pieces.generation)?;
        let location = |location: &wire::control::PiecePlace| PieceLocation {
            index: location.index,
            object: location.object,
            url: location.url.clone(),
            partition: partitions.get(&location.partition).cloned(),
            source: Mutex::new(PieceSource::Unopened),
        };
        Ok(Self {
            shape,
            locations: pieces.places.iter().map(location).collect(),
            peers: peers.for_pieces(),
            cached: Mutex::default(),
            damaged: Mutex::default(),
            reporter,
        })
    }

    /// Opens the pieces with content, all at once: what is open stays readable when the file is written anew or removed. Those
    /// that cannot be opened are made up for when they are read. Blocks.
    pub(crate) fn open(&self) {
        let with_content = self.locations.iter().filter(|location| location.index < self.shape.data());
        threads::each(with_content.collect(), |location: &PieceLocation| {
            if let Err(failure) = location.open(&self.peers) {
                debug!(object = %location.object, %failure, "cannot open a piece of a coded file");
            }
        });
    }

    /// The layout of the stripes.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Pieces that were found to be damaged.
    pub(crate) fn damaged(&self) -> Vec<ObjectId> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file. Blocks.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = self.shape.coded().bytes.min(offset.saturating_add(buffer.len() as u64));
        let mut at = offset;
        while at < end {
            let part = &mut buffer[(at - offset) as usize..(end - offset) as usize];
            at += match self.take_kept(at, part) {
                0 => self.put_together(at, part)?,
                count => count,
            } as u64;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    /// Writes the whole content to an object. Blocks.
    pub(crate) fn copy_to(&self, writer: &ObjectWriter) -> Result<()> {
        let (mut block, mut at) = (vec![0; BATCH_BYTES as usize], 0);
        loop {
            let count = self.read_at(at, &mut block)?;
            if count == 0 {
                return Ok(());
            }
            writer.write_at(&block[..count], at)?;
            at += count as u64;
        }
    }

    /// The cell that has the byte at `offset`, where in its payload, and how long that is.
    fn cell_of(&self, offset: u64) -> (u64, u8, usize, usize) {
        let (stripe, within) = self.shape.locate(offset);
        let shard = self.shape.cell_bytes(stripe) - TAIL_BYTES;
        (stripe, (within / shard as u64) as u8, within as usize % shard, shard)
    }

    /// Copies what a cached cell has of the front of `buffer`.
    fn take_kept(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let (stripe, index, at, _) = self.cell_of(offset);
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cached.iter().find(|cell| (cell.stripe, cell.index) == (stripe, index));
        let cell = cell.map(|cell| Arc::clone(&cell.payload));
        drop(cached);
        let Some(rest) = cell.as_deref().and_then(|cell| cell.get(at..)) else { return 0 };
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }

    fn keep(&self, stripe: u64, index: u8, payload: &[u8]) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= KEPT_CELLS {
            cached.pop_front();
        }
        cached.push_back(CachedCell { stripe, index, payload: payload.into() });
    }

    /// Puts the front of `buffer`, which is within the file, together from cells. Yields how much that was.
    fn put_together(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = (buffer.len() as u64).min(BATCH_BYTES.max(self.shape.stripe_bytes()));
        let ((first, begin, ..), (last, end, ..)) = (self.cell_of(offset), self.cell_of(offset + bytes - 1));
        let wanted: Vec<u8> =
            if first == last { (begin..=end).collect() } else { (0..self.shape.data()).collect() };
        let window = Window::read(self, self.shape, &(first..last + 1), &wanted)?;
        let mut done = 0;
        while done < bytes as usize {
            let (stripe, index, at, _) = self.cell_of(offset + done as u64);
            let payload = window.payload(stripe, index)?;
            let rest = payload.get(at..).unwrap_or_default();
            let count = rest.len().min(bytes as usize - done);
            if count == 0 {
                return Err(Failure::internal(format!("cell {index} of stripe {stripe} ends at {at}")));
            }
            buffer[done..done + count].copy_from_slice(&rest[..count]);
            if count < rest.len() {
                self.keep(stripe, index, payload);
            }
            done += count;
        }
        Ok(done)
    }

    /// Reads stretches of bytes, a few of them at once. Blocks.
    pub(crate) fn read_many(&self, wanted: &mut [(u64, &mut [u8])]) -> Result<()> {
        let share = wanted.len().div_ceil(usize::from(self.shape.data())).max(1);
        let read = |some: &mut [(u64, &mut [u8])]| {
            some.iter_mut().try_for_each(|(offset, buffer)| {
                if self.read_at(*offset, buffer)? < buffer.len() {
                    return Err(Failure::corrupt(format!(
                        "the file has no {} bytes at {offset}",
                        buffer.len()
                    )));
                }
                Ok(())
            })
        };
        let ended_badly = || Failure::internal("a thread that reads cells panicked");
        let all = threads::each(wanted.chunks_mut(share).collect(), read);
        all.into_iter().try_for_each(|one| one.ok_or_else(ended_badly)?)
    }

    fn note_damaged(&self, location: &PieceLocation) {
        let is_new = self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(location.object);
        if let Some(reporter) = self.reporter.as_ref().filter(|_| is_new) {
            reporter.report(self.shape.coded().file, location.object);
        }
    }
}

impl PieceLocation {
    /// Reads the bytes of stripes. Blocks.
    fn read(&self, shape: &Shape, peers: &PeerClient, stripes: &Range<u64>) -> Result<Vec<u8>> {
        let begin = shape.cell_offset(stripes.start);
        let last = stripes.end.saturating_sub(1);
        let bytes = shape.cell_offset(last) + shape.cell_bytes(last) as u64 - begin;
        let mut buffer = vec![0; bytes as usize];
        let count = match self.open(peers)? {
            OpenPiece::Local(reader) => reader.read_at(&mut buffer, begin)?,
            OpenPiece::Remote(file) => file.read_at(begin, &mut buffer)?,
        };
        buffer.truncate(count);
        Ok(buffer)
    }

    fn open(&self, peers: &PeerClient) -> Result<OpenPiece> {
        // Held while it is opened: others who want it wait instead of opening it a second time.
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match &*source {
            PieceSource::Local(reader) => return Ok(OpenPiece::Local(Arc::clone(reader))),
            PieceSource::Remote(file) => return Ok(OpenPiece::Remote(Arc::clone(file))),
            PieceSource::Failed(when) if when.elapsed() < REST => {
                return Err(Failure::unavailable(format!("object {} could not be read before", self.object)));
            }
            PieceSource::Unopened | PieceSource::Failed(_) => {}
        }
        let opened = match &self.partition {
            Some(partition) => partition.open_object(self.object).map(OpenPiece::Local),
            None => peers.open(&self.url).map(|file| OpenPiece::Remote(Arc::new(file))),
        };
        *source = match &opened {
            Ok(OpenPiece::Local(reader)) => PieceSource::Local(Arc::clone(reader)),
            Ok(OpenPiece::Remote(file)) => PieceSource::Remote(Arc::clone(file)),
            Err(_) => PieceSource::Failed(Instant::now()),
        };
        opened
    }

    fn rest(&self) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = PieceSource::Failed(Instant::now());
    }

    fn is_failed(&self) -> bool {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*source, PieceSource::Failed(when) if when.elapsed() < REST)
    }
}

enum OpenPiece {
    Local(Arc<ObjectReader>),
    Remote(Arc<File>),
}

impl Cells for CodedFile {
    fn cells(&self, index: u8, stripes: &Range<u64>) -> Option<Vec<u8>> {
        for location in self.locations.iter().filter(|location| location.index == index) {
            match location.read(&self.shape, &self.peers, stripes) {
                Ok(bytes) => return Some(bytes),
                Err(failure) => {
                    debug!(object = %location.object, index, %failure, "cannot read a piece of a coded file");
                    location.rest();
                    if failure.kind == ErrorKind::Corrupt {
                        self.note_damaged(location);
                    }
                }
            }
        }
        None
    }

    fn note_damage(&self, index: u8) {
        // Of two with one index the first that could be opened was read.
        let is_read = |location: &&PieceLocation| location.index == index && !location.is_failed();
        if let Some(location) = self.locations.iter().find(is_read) {
            self.note_damaged(location);
        }
    }

    fn others(&self, known: &[u8]) -> Vec<u8> {
        let mut others: Vec<u8> = Vec::new();
        let is_wanted = |location: &&PieceLocation| !known.contains(&location.index);
        let (here, remote): (Vec<_>, Vec<_>) =
            self.locations.iter().filter(is_wanted).partition(|location| location.partition.is_some());
        let (later, now): (Vec<_>, Vec<_>) =
            here.into_iter().chain(remote).partition(|location| location.is_failed());
        for location in now.into_iter().chain(later) {
            if !others.contains(&location.index) {
                others.push(location.index);
            }
        }
        others
    }
}
