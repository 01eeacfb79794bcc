//! A read that is under way.

use super::lane::{Lane, refused};
use crate::xrd::{
    mux::{Chunk, Outcome, Piece, Sink, Ticket, Wait},
    trouble::Trouble,
};
use base::ByteRange;
use std::{sync::Arc, time::Duration};
use wire::xrd::{Read, Request};

/// A read that is under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) lane: Arc<Lane>,
    ticket: Ticket,
    pub(super) range: ByteRange,
}

/// How a read ended.
pub(super) enum Arrival {
    /// The bytes that did not go straight to their place.
    Data(Chunk),
    /// Nothing came; ask again after this.
    Later(Duration),
}

impl Flight {
    /// Asks for `range`, which is at most 2 GiB long; the request leaves with the next flush of the connection.
    pub(super) fn ask(lane: &Arc<Lane>, range: ByteRange) -> Result<Self, Trouble> {
        let length = range.length() as u32;
        let read = Read { handle: lane.handle, offset: range.offset, length, path_id: 0 };
        let sink = Sink::Data { wanted: length as usize };
        let ticket = lane.mux().enqueue(&Request::Read(read), sink)?;
        Ok(Self { lane: Arc::clone(lane), ticket, range })
    }

    pub(super) fn stream(&self) -> u16 {
        self.ticket.stream()
    }

    /// Waits for the data; those of `pieces` may go straight to their places.
    pub(super) async fn arrive(self, wait: Wait, pieces: &mut [Piece<'_>]) -> Result<Arrival, Trouble> {
        match self.ticket.answer(wait, pieces).await? {
            Outcome::Data(chunk) => Ok(Arrival::Data(chunk)),
            Outcome::AgainAfter(span) => Ok(Arrival::Later(span)),
            outcome => Err(refused(&self.lane, outcome)),
        }
    }
}
