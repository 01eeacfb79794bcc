//! Bytes of one file that programs have written and its disk server does not have yet. Pure: no clock, no connection.
//!
//! Extents that do not overlap, none across a boundary of pieces, so that what is sent is aligned. What is on its way stays readable
//! until it has arrived, and what is written over it meanwhile is sent after it.

use base::ByteRange;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes that are sent at once, and their alignment: as large as a message of the kernel, so that large writes stay whole.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// What an extent takes beside its bytes, so that many small ones are bounded, too.
const EXTENT_BYTES: u64 = 128;

/// Bytes that are on their way.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    /// Its number.
    pub(crate) number: u64,
    /// Where they go.
    pub(crate) offset: u64,
    /// Number of the first write that is in it.
    first: u64,
    /// They themselves.
    pub(crate) data: Arc<Vec<u8>>,
}

impl Flight {
    fn range(&self) -> ByteRange {
        ByteRange { offset: self.offset, end: self.offset + self.data.len() as u64 }
    }
}

#[derive(Debug)]
struct Extent {
    /// Number of the first write that is in it.
    first: u64,
    data: Vec<u8>,
}

/// What is written and not stored.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// By offset.
    extents: BTreeMap<u64, Extent>,
    /// Offsets of extents by the number of their first write: the oldest is sent first.
    ages: BTreeMap<u64, u64>,
    flights: Vec<Flight>,
    /// Writes and flights so far.
    last: u64,
    bytes: u64,
    /// Bytes of all buffers of the mount.
    all: Arc<AtomicU64>,
}

/// Bytes of a range that a buffer has.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    parts: Vec<(u64, Vec<u8>)>,
}

impl Overlay {
    /// Puts them over `buffer`, which was read from `offset` on. Yields where the last one ends.
    pub(crate) fn apply(&self, offset: u64, buffer: &mut [u8]) {
        for (start, data) in &self.parts {
            let at = (start - offset) as usize;
            buffer[at..at + data.len()].copy_from_slice(data);
        }
    }

    /// Whether they have all of a range.
    pub(crate) fn covers(&self, range: ByteRange) -> bool {
        self.gap(range).is_none()
    }

    /// The first byte of a range that they do not have.
    pub(crate) fn gap(&self, range: ByteRange) -> Option<u64> {
        let mut parts: Vec<_> =
            self.parts.iter().map(|(start, data)| (*start, start + data.len() as u64)).collect();
        parts.sort_unstable();
        let mut at = range.offset;
        for (start, end) in parts {
            if start > at {
                break;
            }
            at = at.max(end);
        }
        (at < range.end).then_some(at)
    }
}

impl Buffer {
    /// An empty one; `all` counts the bytes of all buffers.
    pub(crate) fn new(all: Arc<AtomicU64>) -> Self {
        let mut buffer = Self::default();
        buffer.all = all;
        buffer
    }

    /// Whether there is nothing in it, nor on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty() && self.flights.is_empty()
    }

    /// Whether something is on its way.
    pub(crate) fn is_sending(&self) -> bool {
        !self.flights.is_empty()
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the last write.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether everything up to a write was stored.
    pub(crate) fn is_stored(&self, write: u64) -> bool {
        self.flights.iter().all(|flight| flight.first > write)
            && self.ages.first_key_value().is_none_or(|(first, _)| *first > write)
    }

    /// Takes bytes.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let (mut offset, mut rest) = (offset, data);
        while !rest.is_empty() {
            let room = PIECE_BYTES - offset % PIECE_BYTES;
            let (part, behind) = rest.split_at(rest.len().min(room as usize));
            self.write_part(offset, part);
            offset += part.len() as u64;
            rest = behind;
        }
    }

    /// Takes bytes of one piece: joins the extents that they touch.
    fn write_part(&mut self, offset: u64, data: &[u8]) {
        self.last += 1;
        let (number, end) = (self.last, offset + data.len() as u64);
        let piece = offset - offset % PIECE_BYTES;
        let touched: Vec<u64> = self
            .extents
            .range(piece..=end.min(piece + PIECE_BYTES - 1))
            .filter(|(start, extent)| **start + extent.data.len() as u64 >= offset)
            .map(|(start, _)| *start)
            .collect();
        let mut extents = touched.into_iter().filter_map(|start| Some((start, self.remove(start)?)));
        let (start, extent) = match extents.next() {
            // Most programs write on where they stopped.
            Some((start, extent)) if start <= offset => (start, extent),
            other => {
                let mut merged = Extent { first: number, data: Vec::with_capacity(data.len()) };
                if let Some((start, extent)) = other {
                    merged.data.resize((start - offset) as usize, 0);
                    merged.data.extend_from_slice(&extent.data);
                    merged.first = extent.first;
                }
                (offset, merged)
            }
        };
        let mut merged = extent;
        let others: Vec<_> = extents.collect();
        for (other, extent) in others {
            let at = (other - start) as usize;
            merged.data.resize(merged.data.len().max(at + extent.data.len()), 0);
            merged.data[at..at + extent.data.len()].copy_from_slice(&extent.data);
            merged.first = merged.first.min(extent.first);
        }
        let at = (offset - start) as usize;
        if at == merged.data.len() {
            merged.data.extend_from_slice(data);
        } else {
            merged.data.resize(merged.data.len().max(at + data.len()), 0);
            merged.data[at..at + data.len()].copy_from_slice(data);
        }
        self.insert(start, merged);
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        self.count(extent.data.len() as u64 + EXTENT_BYTES, true);
        self.ages.insert(extent.first, start);
        self.extents.insert(start, extent);
    }

    fn remove(&mut self, start: u64) -> Option<Extent> {
        let extent = self.extents.remove(&start)?;
        self.ages.remove(&extent.first);
        self.count(extent.data.len() as u64 + EXTENT_BYTES, false);
        Some(extent)
    }

    fn count(&mut self, bytes: u64, is_more: bool) {
        if is_more {
            self.bytes += bytes;
            self.all.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.bytes -= bytes;
            self.all.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Forgets what is written behind `size`. Nothing may be on its way there.
    pub(crate) fn cut(&mut self, size: u64) {
        let behind: Vec<u64> = self.extents.range(size..).map(|(start, _)| *start).collect();
        for start in behind {
            self.remove(start);
        }
        let across = self.extents.range(..size).next_back().map(|(start, _)| *start);
        if let Some(start) = across
            && let Some(mut extent) = self.remove(start)
        {
            extent.data.truncate((size - start) as usize);
            self.insert(start, extent);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.cut(0);
        for flight in std::mem::take(&mut self.flights) {
            self.count(flight.data.len() as u64, false);
        }
    }

    /// What of a range is here and not stored, the newest of each byte last.
    pub(crate) fn overlay(&self, range: ByteRange) -> Overlay {
        let mut parts = Vec::new();
        let mut add = |start: u64, data: &[u8]| {
            let end = start + data.len() as u64;
            let (from, to) = (start.max(range.offset), end.min(range.end));
            if from < to {
                parts.push((from, data[(from - start) as usize..(to - start) as usize].to_vec()));
            }
        };
        for flight in &self.flights {
            add(flight.offset, &flight.data);
        }
        let before = range.offset - range.offset % PIECE_BYTES;
        for (start, extent) in self.extents.range(before..range.end.max(before)) {
            add(*start, &extent.data);
        }
        Overlay { parts }
    }

    /// Takes the oldest extent that can be sent: it is on its way until [`Self::landed`]. `is_any`: also one that can still grow.
    pub(crate) fn take(&mut self, is_any: bool) -> Option<Flight> {
        let can_go = |start: u64| {
            let end = start + self.extents.get(&start).map_or(0, |extent| extent.data.len() as u64);
            let is_free = |flight: &Flight| flight.range().end <= start || end <= flight.offset;
            (is_any || end.is_multiple_of(PIECE_BYTES)) && self.flights.iter().all(is_free)
        };
        let start = self.ages.values().copied().find(|start| can_go(*start))?;
        let Extent { first, data } = self.remove(start)?;
        self.count(data.len() as u64, true);
        self.last += 1;
        let flight = Flight { number: self.last, offset: start, first, data: Arc::new(data) };
        self.flights.push(flight.clone());
        Some(flight)
    }

    /// What was on its way is stored.
    pub(crate) fn landed(&mut self, number: u64) {
        if let Some(flight) = self.end_flight(number) {
            self.count(flight.data.len() as u64, false);
        }
    }

    fn end_flight(&mut self, number: u64) -> Option<Flight> {
        let index = self.flights.iter().position(|flight| flight.number == number)?;
        Some(self.flights.swap_remove(index))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a file is on its disk server, and what it should be.
    #[derive(Default)]
    struct World {
        buffer: Buffer,
        stored: Vec<u8>,
        wanted: Vec<u8>,
        flights: Vec<Flight>,
    }

    fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
        bytes.resize(bytes.len().max(offset + data.len()), 0);
        bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    impl World {
        fn land(&mut self, index: usize) {
            if !self.flights.is_empty() {
                let flight = self.flights.swap_remove(index % self.flights.len());
                put(&mut self.stored, flight.offset as usize, &flight.data);
                self.buffer.landed(flight.number);
            }
        }

        fn land_all(&mut self) {
            while !self.flights.is_empty() {
                self.land(0);
            }
        }

        fn read(&self) -> Vec<u8> {
            let mut bytes = self.stored.clone();
            bytes.resize(self.wanted.len(), 0);
            self.buffer.overlay(ByteRange { offset: 0, end: bytes.len() as u64 }).apply(0, &mut bytes);
            bytes
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(usize, usize, u8),
        Cut(usize),
        Take(bool),
        Land(usize),
    }

    /// Around the end of the first piece, where extents are split.
    const BASE: usize = PIECE_BYTES as usize - 40;

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0_usize..80, 1_usize..30, 1_u8..=255).prop_map(|(at, length, byte)| Step::Write(BASE + at, length, byte)),
            1 => (0_usize..100).prop_map(|size| Step::Cut(BASE + size)),
            2 => any::<bool>().prop_map(Step::Take),
            2 => (0_usize..9).prop_map(Step::Land),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
        /// Whatever is written, cut, sent, refused: what is read is what was written, and so is what is stored in the end.
        #[test]
        fn a_buffered_file_reads_like_a_plain_one(steps in prop::collection::vec(step(), 1..60)) {
            let mut world = World::default();
            for step in steps {
                match step {
                    Step::Write(offset, length, byte) => {
                        let data = vec![byte; length];
                        world.buffer.write(offset as u64, &data);
                        put(&mut world.wanted, offset, &data);
                    }
                    Step::Cut(size) => {
                        world.land_all();
                        world.buffer.cut(size as u64);
                        world.stored.resize(size, 0);
                        world.wanted.resize(size, 0);
                    }
                    Step::Take(is_any) => world.flights.extend(world.buffer.take(is_any)),
                    Step::Land(index) => world.land(index),
                }
                prop_assert_eq!(&world.read()[..], &world.wanted[..]);
                prop_assert_eq!(world.buffer.bytes(), world.buffer.all.load(Ordering::Relaxed));
            }
            world.land_all();
            while let Some(flight) = world.buffer.take(true) {
                world.flights.push(flight);
                world.land_all();
            }
            prop_assert!(world.buffer.is_empty() && world.buffer.bytes() == 0);
            world.stored.resize(world.wanted.len(), 0);
            prop_assert_eq!(world.stored, world.wanted);
        }
    }

    #[test]
    fn what_is_written_in_order_is_sent_in_whole_pieces() {
        let mut buffer = Buffer::default();
        let piece = PIECE_BYTES as usize;
        for number in 0..5 {
            buffer.write((number * piece / 2) as u64, &vec![number as u8; piece / 2]);
        }
        let mut sent = Vec::new();
        while let Some(flight) = buffer.take(false) {
            sent.push((flight.offset, flight.data.len()));
        }
        assert_eq!(sent, [(0, piece), (PIECE_BYTES, piece)]);
        assert!(!buffer.is_stored(1));
        assert_eq!(buffer.take(true).map(|flight| flight.data.len()), Some(piece / 2));
    }

    #[test]
    fn what_is_written_over_bytes_on_their_way_is_sent_after_them() {
        let mut buffer = Buffer::default();
        buffer.write(0, b"first");
        let first = buffer.take(true).unwrap();
        buffer.write(2, b"x");
        buffer.write(100, b"other");
        assert_eq!(buffer.take(true).map(|flight| flight.offset), Some(100), "it is not in the way");
        assert!(buffer.take(true).is_none());
        buffer.landed(first.number);
        assert_eq!(buffer.take(true).map(|flight| flight.offset), Some(2));
        let overlay = buffer.overlay(ByteRange { offset: 0, end: 10 });
        assert_eq!(overlay.gap(ByteRange { offset: 2, end: 10 }), Some(3));
        assert!(overlay.covers(ByteRange { offset: 2, end: 3 }));
    }
}
