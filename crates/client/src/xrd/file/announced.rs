//! Ranges that the caller announced: they are asked for ahead by vector reads, in the order in which they were announced.

use super::{
    core::Core,
    lane::FileConnection,
    vector::{self, Plan},
};
use crate::xrd::{
    mux::{Chunk, Outcome, Ticket, Wait},
    process::lock,
};
use base::{ByteRange, Failure, Result};
use std::{collections::VecDeque, sync::Arc};
use wire::xrd::VECTOR_ELEMENT_BYTES;

/// Ranges that may be announced and not yet asked for.
const RANGES_MAX: usize = 1 << 20;
/// Longer ranges are read as well in the ordinary way.
const RANGE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of one request: little, so that the first are there soon.
const BATCH_BYTES: u64 = 1 << 20;
/// Ranges of one request.
const BATCH_RANGES: usize = 512;
/// How far we look for a range that the caller jumped to.
const JUMP_MAX: usize = 4096;

/// The ranges announced for one file.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Not yet asked for.
    queue: VecDeque<ByteRange>,
    /// Asked for, in the order of the caller.
    batches: VecDeque<Batch>,
    last_id: u64,
}

/// Ranges that were asked for together.
#[derive(Debug)]
struct Batch {
    id: u64,
    plan: Arc<Plan>,
    bytes: u64,
    /// Bytes that the caller has not read.
    left: u64,
    load: Load,
}

#[derive(Debug)]
enum Load {
    Flying(Arc<FileConnection>, Ticket),
    /// Another thread waits for it.
    Taken,
    Here(Arc<VectorCompletion>),
}

/// The answer to a vector read.
#[derive(Debug)]
struct VectorCompletion {
    lane: Arc<FileConnection>,
    chunk: Chunk,
    plan: Arc<Plan>,
    /// Where in the buffer the data of each element begin.
    starts: Vec<usize>,
}

impl VectorCompletion {
    /// Copies `range`, which the plan covers.
    fn copy(&self, range: ByteRange, buffer: &mut [u8]) {
        let elements = &self.plan.elements;
        let mut index = elements.partition_point(|element| element.end <= range.offset);
        let mut filled = 0;
        while filled < buffer.len() {
            let element = elements[index];
            let from = (range.offset + filled as u64 - element.offset) as usize;
            let count = (element.length() as usize - from).min(buffer.len() - filled);
            let start = self.starts[index] + from;
            buffer[filled..filled + count].copy_from_slice(&self.chunk.bytes()[start..start + count]);
            filled += count;
            index += 1;
        }
    }
}

impl Drop for VectorCompletion {
    fn drop(&mut self) {
        self.lane.mux().recycle(std::mem::take(&mut self.chunk));
    }
}

/// Whether `elements`, sorted and apart, have every byte of `range`.
fn covers(elements: &[ByteRange], range: ByteRange) -> bool {
    let mut at = range.offset;
    let first = elements.partition_point(|element| element.end <= at);
    for element in &elements[first..] {
        if element.offset > at {
            return false;
        }
        at = element.end;
        if at >= range.end {
            return true;
        }
    }
    false
}

impl Announced {
    /// The batch that has `range`. The caller has come there: what lies well before it will not be read any more.
    fn find(&mut self, range: ByteRange) -> Option<&mut Batch> {
        if self.batches.is_empty() && self.queue.is_empty() {
            return None;
        }
        let Some(index) = self.batches.iter().position(|batch| covers(&batch.plan.elements, range)) else {
            self.jump(range);
            return None;
        };
        // One batch before it is kept: the order of reads may be a little different.
        self.batches.drain(..index.saturating_sub(1));
        self.batches.iter_mut().find(|batch| covers(&batch.plan.elements, range))
    }

    /// If the caller jumped to a range that was not asked for yet, what was announced before it is forgotten.
    fn jump(&mut self, range: ByteRange) {
        let holds = |announced: &ByteRange| announced.offset <= range.offset && range.end <= announced.end;
        if let Some(index) = self.queue.iter().take(JUMP_MAX).position(holds) {
            self.queue.drain(..=index);
            self.batches.clear();
        }
    }

    /// The next ranges to ask for, if there is room for them.
    fn next(&mut self, window_max: u64) -> Option<(Plan, u64)> {
        let held: u64 = self.batches.iter().map(|batch| batch.bytes).sum();
        if held >= window_max {
            return None;
        }
        let (mut ranges, mut bytes) = (Vec::new(), 0);
        while let Some(range) = self.queue.front().copied() {
            if ranges.len() >= BATCH_RANGES || (bytes > 0 && bytes + range.length() > BATCH_BYTES) {
                break;
            }
            self.queue.pop_front();
            bytes += range.length();
            ranges.push(range);
        }
        (!ranges.is_empty()).then(|| (Plan::new(&ranges), bytes))
    }

    fn landed(&mut self, id: u64, landed: &Arc<VectorCompletion>) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == id) {
            batch.load = Load::Here(Arc::clone(landed));
        }
    }

    fn forget(&mut self, id: u64) {
        self.batches.retain(|batch| batch.id != id);
    }

    /// Takes note that `bytes` of a batch were read.
    fn consume(&mut self, id: u64, bytes: u64) {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.id == id) {
            batch.left = batch.left.saturating_sub(bytes);
        }
        self.batches.retain(|batch| batch.left > 0);
    }
}

impl Core {
    /// Announces what will be read, in this order; nothing announced takes back what was.
    pub(in crate::xrd) async fn preseek(&self, ranges: &[ByteRange], wait: Wait) -> Result<()> {
        if self.is_writable() {
            return Ok(());
        }
        let size = self.size();
        let ranges = ranges.iter().map(|range| range.clip(size));
        let useful: Vec<_> =
            ranges.filter(|range| !range.is_empty() && range.length() <= RANGE_BYTES_MAX).collect();
        {
            let announced = &mut lock(&self.state().ahead).announced;
            if useful.is_empty() {
                *announced = Announced::default();
                return Ok(());
            }
            if announced.queue.len() + useful.len() > RANGES_MAX {
                let failure = Failure::busy(format!("more than {RANGES_MAX} ranges are announced"));
                return Err(self.failed("preseek of", failure).hint("announce them in parts"));
            }
            announced.queue.extend(useful);
        }
        self.ask_announced(wait).await;
        Ok(())
    }

    /// Reads a range that was announced; `false` if it must be read in the ordinary way.
    pub(super) async fn read_announced(&self, range: ByteRange, buffer: &mut [u8], wait: Wait) -> bool {
        let (id, plan, load) = {
            let announced = &mut lock(&self.state().ahead).announced;
            let Some(batch) = announced.find(range) else { return false };
            let load = match &batch.load {
                Load::Here(landed) => Load::Here(Arc::clone(landed)),
                _ => std::mem::replace(&mut batch.load, Load::Taken),
            };
            (batch.id, Arc::clone(&batch.plan), load)
        };
        let landed = match load {
            Load::Here(landed) => Some(landed),
            Load::Taken => return false,
            Load::Flying(lane, ticket) => land(lane, ticket, plan, wait).await.map(Arc::new),
        };
        let Some(landed) = landed else {
            lock(&self.state().ahead).announced.forget(id);
            return false;
        };
        landed.copy(range, buffer);
        {
            let announced = &mut lock(&self.state().ahead).announced;
            announced.landed(id, &landed);
            announced.consume(id, range.length());
        }
        self.ask_announced(wait).await;
        true
    }

    /// Asks for announced ranges while the window has room. Failing costs nothing but time.
    async fn ask_announced(&self, wait: Wait) {
        let mut asked = None;
        loop {
            let next = lock(&self.state().ahead).announced.next(self.options.window_bytes as u64);
            let Some((plan, bytes)) = next else { break };
            let Ok(lane) = self.lane(wait).await else { break };
            let Ok(ticket) = vector::enqueue(&lane, &plan.elements) else { break };
            let announced = &mut lock(&self.state().ahead).announced;
            announced.last_id += 1;
            let load = Load::Flying(Arc::clone(&lane), ticket);
            let batch = Batch { id: announced.last_id, plan: Arc::new(plan), bytes, left: bytes, load };
            announced.batches.push_back(batch);
            asked = Some(lane);
        }
        if let Some(lane) = asked {
            // If it cannot be sent the tickets tell.
            let _ = lane.mux().flush();
        }
    }
}

/// Waits for the answer to a vector read; `None` if it is not what it must be.
async fn land(
    lane: Arc<FileConnection>,
    ticket: Ticket,
    plan: Arc<Plan>,
    wait: Wait,
) -> Option<VectorCompletion> {
    let Ok(Outcome::Data(chunk)) = ticket.answer(wait, &mut []).await else { return None };
    vector::scatter(&lane, &plan.elements, &chunk, |_, _| {}).ok()?;
    let mut end = 0;
    let starts = plan.elements.iter().map(|element| {
        let start = end + VECTOR_ELEMENT_BYTES;
        end = start + element.length() as usize;
        start
    });
    let starts = starts.collect();
    Some(VectorCompletion { lane, chunk, plan, starts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn covered_is_what_every_byte_is_in(asked in prop::collection::vec((0u64..200, 1u64..20), 1..9), at in 0u64..220, len in 1u64..30) {
            let ranges: Vec<_> = asked.iter().map(|(at, len)| ByteRange { offset: *at, end: at + len }).collect();
            let elements = Plan::new(&ranges).elements;
            let is_in = |byte: u64| ranges.iter().any(|range| range.offset <= byte && byte < range.end);
            prop_assert_eq!(covers(&elements, ByteRange { offset: at, end: at + len }), (at..at + len).all(is_in));
        }
    }
}
