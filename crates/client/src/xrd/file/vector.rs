//! Vector reads: many ranges in few requests.

use super::{
    core::Core,
    lane::{FileConnection, refused},
};
use crate::xrd::{
    mux::{Chunk, Outcome, Sink, Ticket, Wait},
    retry::Retry,
    route::WaitBudget,
    trouble::RequestError,
};
use base::{
    ByteRange, Failure, Result,
    limits::{READV_ELEMENT_BYTES_MAX, READV_ELEMENTS_MAX},
};
use std::{collections::VecDeque, sync::Arc};
use wire::xrd::{Readv, Request, VECTOR_ELEMENT_BYTES, VectorElement};

/// Data of one request: enough to be worth it, little enough for several to be under way.
const BATCH_BYTES_MAX: u64 = 4 << 20;
/// Requests under way: their elements must fit the buffers of the connection, whether or not the server reads them.
const BATCHES_MAX: usize = 4;

/// Where a part of an element goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Of which of the caller's ranges.
    index: usize,
    /// First byte in the file.
    offset: u64,
    length: usize,
}

/// The ranges of one vector read as they are asked for: sorted, touching ones merged, cut at the longest element.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) elements: Vec<ByteRange>,
    /// The caller's ranges, sorted by their first byte.
    order: Vec<usize>,
}

impl Plan {
    pub(super) fn new(ranges: &[ByteRange]) -> Self {
        let mut order: Vec<_> = (0..ranges.len()).filter(|index| !ranges[*index].is_empty()).collect();
        order.sort_by_key(|index| (ranges[*index].offset, ranges[*index].end));
        let mut merged: Vec<ByteRange> = Vec::new();
        for range in order.iter().map(|index| ranges[*index]) {
            match merged.last_mut() {
                Some(last) if range.offset <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        let element_max = READV_ELEMENT_BYTES_MAX as u64;
        let elements = merged.into_iter().flat_map(|range| {
            let count = range.length().div_ceil(element_max);
            (0..count).map(move |index| {
                let offset = range.offset + index * element_max;
                ByteRange { offset, end: range.end.min(offset + element_max) }
            })
        });
        Self { elements: elements.collect(), order }
    }

    /// The elements of each request.
    pub(super) fn batches(&self) -> Vec<&[ByteRange]> {
        let mut batches = Vec::new();
        let mut rest = self.elements.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(READV_ELEMENTS_MAX).take_while(|range| {
                bytes += range.length();
                bytes <= BATCH_BYTES_MAX
            });
            let (batch, after) = rest.split_at(fits.count().max(1));
            batches.push(batch);
            rest = after;
        }
        batches
    }

    /// The caller's ranges that `element` has bytes of. `first` is where to begin looking; it moves with the elements.
    fn parts<'a>(
        &'a self,
        ranges: &'a [ByteRange],
        element: ByteRange,
        first: &mut usize,
    ) -> impl Iterator<Item = Part> + 'a {
        while self.order.get(*first).is_some_and(|index| ranges[*index].end <= element.offset) {
            *first += 1;
        }
        let touched =
            self.order[*first..].iter().take_while(move |index| ranges[**index].offset < element.end);
        touched.filter_map(move |index| {
            let range = ranges[*index];
            let (offset, end) = (range.offset.max(element.offset), range.end.min(element.end));
            (offset < end).then(|| Part { index: *index, offset, length: (end - offset) as usize })
        })
    }
}

/// A request of a vector read that is under way.
struct Batch {
    ticket: Ticket,
    /// Which elements of the plan.
    start: usize,
    len: usize,
}

impl Core {
    pub(in crate::xrd) async fn read_vector(&self, ranges: &[ByteRange], wait: Wait) -> Result<Vec<Vec<u8>>> {
        let mut pieces: Vec<_> = ranges.iter().map(|range| vec![0; range.length() as usize]).collect();
        let mut buffers: Vec<_> = pieces.iter_mut().map(Vec::as_mut_slice).collect();
        self.read_vector_into(ranges, &mut buffers, wait).await?;
        Ok(pieces)
    }

    pub(in crate::xrd) async fn read_vector_into(
        &self,
        ranges: &[ByteRange],
        buffers: &mut [&mut [u8]],
        wait: Wait,
    ) -> Result<()> {
        let is_fitting = ranges.len() == buffers.len()
            && ranges.iter().zip(&*buffers).all(|(range, buffer)| range.length() == buffer.len() as u64);
        if !is_fitting || ranges.iter().any(|range| range.end > i64::MAX as u64) {
            let what = "every range needs a buffer of its length, and an end below 2^63";
            return Err(self.failed("vector read of", Failure::invalid(what)));
        }
        let plan = Plan::new(ranges);
        let mut retry = Retry::new(&self.options);
        let mut done = 0;
        while done < plan.elements.len() {
            let outcome = match self.lane(wait).await {
                Ok(lane) => {
                    self.gather(&lane, &plan, &mut done, (ranges, &mut *buffers), &mut retry, wait).await
                }
                Err(trouble) => Err(trouble),
            };
            if let Err(trouble) = outcome {
                let again = self.recover(trouble, &mut retry, wait).await;
                again.map_err(|trouble| self.failed("vector read of", trouble))?;
            }
        }
        Ok(())
    }

    /// Asks for the elements from `done` on, with several requests under way, and puts them where they belong.
    async fn gather(
        &self,
        lane: &Arc<FileConnection>,
        plan: &Plan,
        done: &mut usize,
        (ranges, buffers): (&[ByteRange], &mut [&mut [u8]]),
        retry: &mut Retry,
        wait: Wait,
    ) -> Result<(), RequestError> {
        let waited = WaitBudget::new(&self.options);
        let rest = Plan { elements: plan.elements[*done..].to_vec(), order: Vec::new() };
        let lengths: Vec<_> = rest.batches().iter().map(|batch| batch.len()).collect();
        let mut lengths = lengths.into_iter();
        let mut flights: VecDeque<Batch> = VecDeque::new();
        let (mut asked, mut first) = (*done, 0);
        loop {
            while flights.len() < BATCHES_MAX
                && let Some(len) = lengths.next()
            {
                flights.push_back(ask(lane, plan, asked, len)?);
                asked += len;
            }
            lane.mux().flush()?;
            let Some(Batch { ticket, start, len }) = flights.pop_front() else { return Ok(()) };
            let elements = &plan.elements[start..start + len];
            match ticket.answer(wait, &mut []).await? {
                Outcome::Data(chunk) => {
                    scatter(lane, elements, &chunk, |element, data| {
                        for part in plan.parts(ranges, element, &mut first) {
                            let from = (part.offset - element.offset) as usize;
                            let to = (part.offset - ranges[part.index].offset) as usize;
                            buffers[part.index][to..to + part.length]
                                .copy_from_slice(&data[from..from + part.length]);
                        }
                    })?;
                    lane.mux().recycle(chunk);
                    *done = start + len;
                    retry.progress();
                }
                Outcome::AgainAfter(span) => {
                    waited.more(span, lane.peer(), wait).await?;
                    flights.push_front(ask(lane, plan, start, len)?);
                }
                outcome => return Err(refused(lane, outcome)),
            }
        }
    }
}

/// Asks for `len` elements from `start` on.
fn ask(lane: &Arc<FileConnection>, plan: &Plan, start: usize, len: usize) -> Result<Batch, RequestError> {
    let ticket = enqueue(lane, &plan.elements[start..start + len])?;
    Ok(Batch { ticket, start, len })
}

/// Asks for `ranges`; the request leaves with the next flush.
pub(super) fn enqueue(lane: &Arc<FileConnection>, ranges: &[ByteRange]) -> Result<Ticket, RequestError> {
    let elements = elements(lane, ranges);
    let bytes: usize = elements.iter().map(|element| element.length as usize + VECTOR_ELEMENT_BYTES).sum();
    let request = Request::Readv(Readv { elements, path_id: 0 });
    lane.mux().enqueue(&request, Sink::Data { wanted: bytes })
}

fn elements(lane: &FileConnection, ranges: &[ByteRange]) -> Vec<VectorElement> {
    let element = |range: &ByteRange| VectorElement {
        handle: lane.handle,
        length: range.length() as u32,
        offset: range.offset,
    };
    ranges.iter().map(element).collect()
}

/// Takes an answer apart: every element with its data.
pub(super) fn scatter(
    lane: &FileConnection,
    ranges: &[ByteRange],
    chunk: &Chunk,
    mut each: impl FnMut(ByteRange, &[u8]),
) -> Result<(), RequestError> {
    let mut rest = chunk.bytes();
    for (range, element) in ranges.iter().zip(elements(lane, ranges)) {
        let end = VECTOR_ELEMENT_BYTES + element.length as usize;
        // The handle is the server's business.
        let piece = rest.get(..end).filter(|piece| piece[4..VECTOR_ELEMENT_BYTES] == element.encode()[4..]);
        let Some(piece) = piece else {
            let why = "a vector read was answered out of order or too short";
            return Err(lane.mux().break_off(lane.mux().nonsense(why)));
        };
        each(*range, &piece[VECTOR_ELEMENT_BYTES..]);
        rest = &rest[end..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is asked, the elements hold every byte once, and every range gets its own.
        #[test]
        fn plans_cover_what_was_asked(asked in prop::collection::vec((0u64..9_000_000, 0u64..3_000_000), 0..40)) {
            let ranges: Vec<_> = asked.iter().map(|(at, len)| ByteRange { offset: *at, end: at + len }).collect();
            let plan = Plan::new(&ranges);
            prop_assert!(plan.elements.windows(2).all(|pair| pair[0].end <= pair[1].offset));
            prop_assert!(plan.elements.iter().all(|e| !e.is_empty() && e.length() <= READV_ELEMENT_BYTES_MAX as u64));
            prop_assert_eq!(plan.batches().concat(), plan.elements.clone());
            let mut found = vec![0; ranges.len()];
            let mut first = 0;
            for element in &plan.elements {
                for part in plan.parts(&ranges, *element, &mut first) {
                    // Parts of one range come in order and without gaps.
                    prop_assert_eq!(part.offset, ranges[part.index].offset + found[part.index]);
                    found[part.index] += part.length as u64;
                }
            }
            let wanted: Vec<_> = ranges.iter().map(|range| range.length()).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
