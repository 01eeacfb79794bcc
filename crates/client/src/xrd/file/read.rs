//! Reads into the caller's memory.

use super::{
    core::{Core, ends_early},
    flight::{InFlightRead, ReadCompletion},
    lane::FileConnection,
};
use crate::xrd::{
    mux::{Piece, Wait},
    retry::Retry,
    route::WaitBudget,
    trouble::RequestError,
};
use base::{ByteRange, Failure, Result};
use std::{collections::VecDeque, sync::Arc};

/// A read of a range, in pieces of a chunk each.
struct Fill<'a> {
    offset: u64,
    chunk: usize,
    pieces: Vec<Piece<'a>>,
    /// Pieces before this are there.
    done: usize,
    is_end: bool,
}

impl Core {
    /// Reads from the server; fewer bytes than the buffer holds only at the end of the file.
    ///
    /// A file that is only read ends where it did when it was opened.
    pub(super) async fn read_now(&self, offset: u64, buffer: &mut [u8], wait: Wait) -> Result<usize> {
        let length = buffer.len();
        let read =
            |trouble: RequestError| self.failed(&format!("read {length} bytes at {offset} of"), trouble);
        if buffer.is_empty() {
            return Ok(0);
        }
        let range = ByteRange::at(offset, length as u64).filter(|range| i64::try_from(range.end).is_ok());
        let range = range.ok_or_else(|| read(Failure::invalid("the range overflows").into()))?;
        let chunk = self.options.chunk();
        let piece = |target| Piece { stream: 0, target, filled: 0 };
        let pieces = buffer.chunks_mut(chunk).map(piece).collect();
        let mut fill = Fill { offset, chunk, pieces, done: 0, is_end: false };
        let mut retry = Retry::new(&self.options);
        loop {
            let outcome = match self.lane(wait).await {
                Ok(lane) => self.fill(&lane, &mut fill, &mut retry, wait).await,
                Err(trouble) => Err(trouble),
            };
            match outcome {
                Ok(()) => {
                    let count = fill.pieces.iter().map(|piece| piece.filled).sum();
                    return self.check_end(range, count).map_err(read);
                }
                Err(trouble) => self.recover(trouble, &mut retry, wait).await.map_err(read)?,
            }
        }
    }

    /// Fails if `count` bytes are fewer than the file had in `range` when it was opened for reading.
    fn check_end(&self, range: ByteRange, count: usize) -> Result<usize, RequestError> {
        let (end, wanted_end) = (range.offset + count as u64, range.end.min(self.size()));
        if end < wanted_end && !self.is_writable() {
            return Err(ends_early(end, wanted_end).into());
        }
        Ok(count)
    }

    /// Asks for all pieces that are missing, with a window of them under way.
    async fn fill(
        &self,
        lane: &Arc<FileConnection>,
        fill: &mut Fill<'_>,
        retry: &mut Retry,
        wait: Wait,
    ) -> Result<(), RequestError> {
        let waited = WaitBudget::new(&self.options);
        let mut flights = VecDeque::new();
        let mut next = fill.done;
        for piece in &mut fill.pieces[next..] {
            piece.filled = 0;
        }
        while fill.done < fill.pieces.len() && !fill.is_end {
            while flights.len() < self.options.window_chunks() && next < fill.pieces.len() {
                flights.push_back(fill.ask(lane, next)?);
                next += 1;
            }
            lane.mux().flush()?;
            let Some(flight) = flights.pop_front() else { break };
            let done = fill.done;
            match flight.arrive(wait, &mut fill.pieces[done..next]).await? {
                ReadCompletion::Data(chunk) => {
                    let piece = &mut fill.pieces[done];
                    let bytes = chunk.bytes();
                    piece.target[piece.filled..piece.filled + bytes.len()].copy_from_slice(bytes);
                    piece.filled += bytes.len();
                    fill.is_end = piece.filled < piece.target.len();
                    fill.done += 1;
                    lane.mux().recycle(chunk);
                    retry.progress();
                }
                ReadCompletion::Later(span) => {
                    waited.more(span, lane.peer(), wait).await?;
                    fill.pieces[done].filled = 0;
                    flights.push_front(fill.ask(lane, done)?);
                }
            }
        }
        // Pieces behind the end may have been filled by a server that lies about it.
        let done = fill.done;
        for piece in &mut fill.pieces[done..] {
            piece.filled = 0;
        }
        Ok(())
    }
}

impl Fill<'_> {
    fn ask(&mut self, lane: &Arc<FileConnection>, index: usize) -> Result<InFlightRead, RequestError> {
        let piece = &mut self.pieces[index];
        let offset = self.offset + (index * self.chunk) as u64;
        let flight = InFlightRead::ask(lane, ByteRange { offset, end: offset + piece.target.len() as u64 })?;
        piece.stream = flight.stream();
        Ok(flight)
    }
}
