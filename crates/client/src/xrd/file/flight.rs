//! A read that is under way.

use super::lane::{FileConnection, refused};
use crate::xrd::{
    mux::{Chunk, Outcome, Piece, Sink, Ticket, Wait},
    trouble::RequestError,
};
use base::{ByteRange, Failure};
use std::{sync::Arc, time::Duration};
use wire::xrd::{Page, Pgread, Read, Request, decode_in_place, encoded_bytes};

/// A read that is under way.
#[derive(Debug)]
pub(super) struct InFlightRead {
    pub(super) lane: Arc<FileConnection>,
    ticket: Ticket,
    pub(super) range: ByteRange,
}

/// The result of a read.
pub(super) enum ReadCompletion {
    /// The bytes that did not go straight to their place.
    Data(Chunk),
    /// Nothing came; ask again after this.
    Later(Duration),
}

impl InFlightRead {
    /// Asks for `range`, which is at most 1 GiB long; the request leaves with the next flush of the connection.
    pub(super) fn ask(lane: &Arc<FileConnection>, range: ByteRange) -> Result<Self, RequestError> {
        if lane.has_pages {
            return Self::ask_pages(lane, range, false);
        }
        let length = range.length() as u32;
        let read = Read { handle: lane.handle, offset: range.offset, length, path_id: 0 };
        let sink = Sink::Data { wanted: length as usize };
        let ticket = lane.mux().enqueue(&Request::Read(read), sink)?;
        Ok(Self { lane: Arc::clone(lane), ticket, range })
    }

    fn ask_pages(lane: &Arc<FileConnection>, range: ByteRange, is_retry: bool) -> Result<Self, RequestError> {
        let length = range.length() as u32;
        let read = Pgread { handle: lane.handle, offset: range.offset, length, path_id: 0, is_retry };
        let sink = Sink::Data { wanted: encoded_bytes(range.offset, length as usize) };
        let ticket = lane.mux().enqueue(&Request::Pgread(read), sink)?;
        Ok(Self { lane: Arc::clone(lane), ticket, range })
    }

    pub(super) fn stream(&self) -> u16 {
        self.ticket.stream()
    }

    /// Waits for the data; those of `pieces` may go straight to their places.
    pub(super) async fn arrive(
        self,
        wait: Wait,
        pieces: &mut [Piece<'_>],
    ) -> Result<ReadCompletion, RequestError> {
        // Pages are longer on the wire than their places, and nothing goes there that was not checked.
        let pieces = if self.lane.has_pages { &mut [] } else { pieces };
        match self.ticket.answer(wait, pieces).await? {
            Outcome::Data(chunk) if self.lane.has_pages => {
                Ok(ReadCompletion::Data(checked(&self.lane, self.range, chunk, wait).await?))
            }
            Outcome::Data(chunk) => Ok(ReadCompletion::Data(chunk)),
            Outcome::AgainAfter(span) => Ok(ReadCompletion::Later(span)),
            outcome => Err(refused(&self.lane, outcome)),
        }
    }
}

/// The data of a page read; pages that do not match their checksums are read once more.
async fn checked(
    lane: &Arc<FileConnection>,
    range: ByteRange,
    chunk: Chunk,
    wait: Wait,
) -> Result<Chunk, RequestError> {
    let (mut chunk, bad) = decode(lane, range.offset, chunk)?;
    for page in bad {
        tracing::warn!(
            server = lane.peer(),
            offset = page.offset,
            "a page arrived damaged; reading it again"
        );
        let again = ByteRange { offset: page.offset, end: page.offset + page.length as u64 };
        let flight = InFlightRead::ask_pages(lane, again, true)?;
        lane.mux().flush()?;
        let outcome = flight.ticket.answer(wait, &mut []).await?;
        let Outcome::Data(found) = outcome else { return Err(refused(lane, outcome)) };
        let (found, bad) = decode(lane, page.offset, found)?;
        if !bad.is_empty() || found.filled != page.length {
            let what =
                format!("server {}: the page at {} does not match its checksum", lane.peer(), page.offset);
            return Err(Failure::corrupt(what)
                .hint("tell the operator: the network to the server damages data")
                .into());
        }
        let start = (page.offset - range.offset) as usize;
        chunk.buffer[start..start + page.length].copy_from_slice(found.bytes());
        lane.mux().recycle(found);
    }
    Ok(chunk)
}

/// Takes the checksums out of what arrived from `offset` on; returns the pages that do not match.
fn decode(
    lane: &Arc<FileConnection>,
    offset: u64,
    mut chunk: Chunk,
) -> Result<(Chunk, Vec<Page>), RequestError> {
    let (mut from, mut to, mut bad) = (0, 0, Vec::new());
    let parts = std::mem::take(&mut chunk.parts);
    if parts.iter().map(|(_, length)| length).sum::<usize>() != chunk.filled {
        let why = "a page read was answered with data without checksums";
        return Err(lane.mux().break_off(lane.mux().nonsense(why)));
    }
    for (start, length) in parts {
        if length == 0 {
            continue;
        }
        let part = &mut chunk.buffer[from..from + length];
        let decoded = decode_in_place(start, part);
        // Parts must follow each other.
        let Some((count, wrong)) = decoded.ok().filter(|_| start == offset + to as u64) else {
            return Err(lane.mux().break_off(lane.mux().nonsense("a page read was answered out of order")));
        };
        chunk.buffer.copy_within(from..from + count, to);
        bad.extend(wrong);
        from += length;
        to += count;
    }
    chunk.filled = to;
    Ok((chunk, bad))
}
