//! Reads ahead of the caller: sequences and strides that it notices, and ranges that the caller announced.
//!
//! Data that was read ahead is only copied from. Missing and broken ranges are read in the ordinary way. So a wrong
//! guess costs time, never a wrong byte.

use super::{
    announced::Announced,
    core::Core,
    flight::{InFlightRead, ReadCompletion},
    lane::FileConnection,
    pattern::{Forecast, Pattern, ReadMode},
};
use crate::xrd::{
    mux::{Chunk, Wait},
    process::lock,
};
use base::{ByteRange, Result};
use std::{collections::VecDeque, sync::Arc};

/// Shortest block that is read ahead.
const BLOCK_BYTES_MIN: u64 = 64 << 10;
/// Blocks of one window.
const WINDOW_BLOCKS: u64 = 4;

/// The read-ahead state of one file.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    pattern: Pattern,
    /// In the order in which they will be wanted.
    blocks: VecDeque<Block>,
    pub(super) announced: Announced,
}

/// A range that was read ahead.
#[derive(Debug)]
struct Block {
    range: ByteRange,
    load: Load,
}

#[derive(Debug)]
enum Load {
    Flying(InFlightRead),
    Here(Arc<FileConnection>, Chunk),
}

impl ReadAhead {
    /// Takes out the block that has the byte at `offset`. Those before it were passed over.
    fn take(&mut self, offset: u64) -> Option<Block> {
        let has = |block: &Block| block.range.offset <= offset && offset < block.range.end;
        let index = self.blocks.iter().position(has)?;
        for passed in self.blocks.drain(..index) {
            passed.recycle();
        }
        self.blocks.pop_front()
    }

    /// Forgets what was read ahead.
    fn clear(&mut self) {
        self.blocks.drain(..).for_each(Block::recycle);
    }

    /// The ranges to ask for so that what `forecast` says is under way. `from` is what is wanted next.
    fn plan(&mut self, forecast: Forecast, last: ByteRange, from: u64, limits: Limits) -> Vec<ByteRange> {
        match forecast {
            Forecast::Nothing => {
                if self
                    .blocks
                    .iter()
                    .all(|block| block.range.end <= last.offset || block.range.offset >= last.end)
                {
                    self.clear();
                }
                Vec::new()
            }
            Forecast::Onward(bytes) => self.plan_onward(bytes, from, limits),
            Forecast::Strided { stride, count } => {
                let next = (1..=count as i64).map_while(|number| {
                    let offset = last.offset.checked_add_signed(stride.checked_mul(number)?)?;
                    ByteRange::at(offset, last.length())
                });
                // What is short of the end is not worth a guess.
                let next: Vec<_> = next.take_while(|range| range.end <= limits.size).collect();
                self.blocks.retain(|block| next.contains(&block.range));
                let is_there = |range: &ByteRange| self.blocks.iter().any(|block| block.range == *range);
                next.iter().copied().filter(|range| !is_there(range)).collect()
            }
        }
    }

    fn plan_onward(&mut self, bytes: u64, from: u64, limits: Limits) -> Vec<ByteRange> {
        // Only what follows without a gap counts.
        let is_next =
            self.blocks.front().is_some_and(|block| block.range.offset <= from && from <= block.range.end);
        if !is_next {
            self.clear();
        }
        let mut frontier = self.blocks.back().map_or(from, |block| block.range.end);
        let until = from.saturating_add(bytes).min(limits.size);
        let block = (bytes / WINDOW_BLOCKS).clamp(BLOCK_BYTES_MIN.min(limits.chunk), limits.chunk);
        let mut ranges = Vec::new();
        // A rest that is no whole block waits until it is one, unless the file ends there.
        while frontier < until && (until - frontier >= block || until == limits.size) {
            let end = limits.size.min(frontier + block);
            ranges.push(ByteRange { offset: frontier, end });
            frontier = end;
        }
        ranges
    }
}

impl Block {
    fn recycle(self) {
        if let Load::Here(lane, chunk) = self.load {
            lane.mux().recycle(chunk);
        }
    }
}

/// The limits of reading ahead.
#[derive(Debug, Clone, Copy)]
struct Limits {
    size: u64,
    chunk: u64,
}

impl Core {
    pub(in crate::xrd) fn advise(&self, mode: ReadMode) {
        let mut ahead = lock(&self.state().ahead);
        ahead.pattern.advise(mode);
        ahead.clear();
    }

    /// Reads from `offset`; fewer bytes than the buffer holds only at the end of the file.
    pub(in crate::xrd) async fn read_at(&self, offset: u64, buffer: &mut [u8], wait: Wait) -> Result<usize> {
        let range = ByteRange { offset, end: offset.saturating_add(buffer.len() as u64) };
        // What is written must be read from the server; and there is nothing behind the end.
        if self.is_writable() || range.is_empty() || range.end > self.size() {
            return self.read_now(offset, buffer, wait).await;
        }
        if self.read_announced(range, buffer, wait).await {
            return Ok(buffer.len());
        }
        let mut filled = self.read_ahead(range, buffer, wait).await;
        let forecast = lock(&self.state().ahead).pattern.note(range, self.window_max());
        let rest = buffer.len() - filled;
        // What is longer than a chunk goes straight to its place.
        if rest > 0 && rest < self.options.chunk() && matches!(forecast, Forecast::Onward(_)) {
            let from = offset + filled as u64;
            self.foresee(forecast, range, from, wait).await;
            let missing = ByteRange { offset: from, end: range.end };
            filled += self.read_ahead(missing, &mut buffer[filled..], wait).await;
        }
        if filled < buffer.len() {
            filled += self.read_now(offset + filled as u64, &mut buffer[filled..], wait).await?;
        }
        self.foresee(forecast, range, range.end, wait).await;
        Ok(filled)
    }

    fn window_max(&self) -> u64 {
        self.options.window_bytes as u64
    }

    /// Copies what was read ahead to the front of `buffer`; returns how much that is.
    async fn read_ahead(&self, range: ByteRange, buffer: &mut [u8], wait: Wait) -> usize {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = range.offset + filled as u64;
            let Some(block) = lock(&self.state().ahead).take(at) else { break };
            let (lane, chunk) = match block.load {
                Load::Here(lane, chunk) => (lane, chunk),
                Load::Flying(flight) => {
                    let lane = Arc::clone(&flight.lane);
                    match flight.arrive(wait, &mut []).await {
                        Ok(ReadCompletion::Data(chunk)) if chunk.filled as u64 == block.range.length() => {
                            (lane, chunk)
                        }
                        // The ordinary way has better means, and better words.
                        _ => {
                            let mut ahead = lock(&self.state().ahead);
                            ahead.clear();
                            ahead.pattern.collapse();
                            break;
                        }
                    }
                }
            };
            let from = (at - block.range.offset) as usize;
            let count = (chunk.filled - from).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&chunk.bytes()[from..from + count]);
            filled += count;
            if from + count < chunk.filled {
                let load = Load::Here(lane, chunk);
                lock(&self.state().ahead).blocks.push_front(Block { range: block.range, load });
            } else {
                lane.mux().recycle(chunk);
            }
        }
        filled
    }

    /// Asks for what will probably be read. Failing costs nothing but time: who reads it will hear of it.
    async fn foresee(&self, forecast: Forecast, last: ByteRange, from: u64, wait: Wait) {
        let limits = Limits { size: self.size(), chunk: self.options.chunk() as u64 };
        let ranges = lock(&self.state().ahead).plan(forecast, last, from, limits);
        if ranges.is_empty() {
            return;
        }
        let Ok(lane) = self.lane(wait).await else { return };
        for range in ranges {
            let Ok(flight) = InFlightRead::ask(&lane, range) else { return };
            lock(&self.state().ahead).blocks.push_back(Block { range, load: Load::Flying(flight) });
        }
        // If it cannot be sent the flights tell.
        let _ = lane.mux().flush();
    }
}
