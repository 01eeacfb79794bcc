//! Downloads: one range, in order, to a sink.

use super::{
    core::{Core, ends_early},
    flight::{InFlightRead, ReadCompletion},
    lane::FileConnection,
};
use crate::xrd::{
    Options,
    mux::{Chunk, Wait},
    retry::Retry,
    route::WaitBudget,
    trouble::RequestError,
};
use base::{ByteRange, Result};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Shortest part of a download that is worth a connection of its own.
const STREAM_BYTES_MIN: u64 = 32 << 20;
/// Connections of one download.
const STREAMS_MAX: u64 = 64;
/// Round trips from which on two, and from which on four connections are used if nobody says how many.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_millis(10);

/// The parts of a download in progress.
struct Download {
    flights: VecDeque<InFlightRead>,
    /// Further connections; pieces are dealt out to them and the first one in turn.
    more: Vec<Arc<FileConnection>>,
    /// How many pieces were dealt out.
    dealt: usize,
    /// The bytes that the sink has.
    done: u64,
    /// The requested bytes.
    asked: u64,
    end: u64,
    /// How long the server makes us wait for the next bytes, if it does.
    waited: Option<WaitBudget>,
}

impl Core {
    /// Hands the bytes of `range` to `sink`, in order. Fewer bytes are a failure.
    pub(in crate::xrd) async fn copy_range<S>(&self, range: ByteRange, sink: &mut S, wait: Wait) -> Result<()>
    where
        S: FnMut(&[u8]) -> Result<()> + ?Sized,
    {
        let mut retry = Retry::new(&self.options);
        let start = range.offset;
        let end = range.end.max(start);
        let more = self.more_lanes(range.length(), wait).await;
        let flights = VecDeque::new();
        let mut download = Download { flights, more, dealt: 0, done: start, asked: start, end, waited: None };
        while download.done < download.end {
            let outcome = match self.next_chunk(&mut download, wait).await {
                Ok(found) => Ok(found),
                Err(trouble) => {
                    // What is under way comes from a connection that is gone.
                    download.flights.clear();
                    download.more.clear();
                    download.asked = download.done;
                    self.recover(trouble, &mut retry, wait).await.map(|()| None)
                }
            };
            let found = outcome.map_err(|trouble| self.failed("read", trouble))?;
            let Some((lane, chunk)) = found else { continue };
            retry.progress();
            let handed = sink(chunk.bytes());
            lane.mux().recycle(chunk);
            handed?;
        }
        Ok(())
    }

    /// The next bytes of a download; keeps a window of requests under way.
    async fn next_chunk(
        &self,
        download: &mut Download,
        wait: Wait,
    ) -> Result<Option<(Arc<FileConnection>, Chunk)>, RequestError> {
        self.top_up(download, wait).await?;
        let Some(flight) = download.flights.pop_front() else { return Ok(None) };
        let (lane, range) = (Arc::clone(&flight.lane), flight.range);
        match flight.arrive(wait, &mut []).await? {
            ReadCompletion::Data(chunk) if chunk.filled as u64 == range.length() => {
                (download.done, download.waited) = (range.end, None);
                Ok(Some((lane, chunk)))
            }
            ReadCompletion::Data(chunk) => {
                Err(ends_early(range.offset + chunk.filled as u64, download.end).into())
            }
            ReadCompletion::Later(span) => {
                let waited = download.waited.get_or_insert_with(|| WaitBudget::new(&self.options));
                waited.more(span, lane.peer(), wait).await?;
                download.flights.push_front(InFlightRead::ask(&lane, range)?);
                lane.mux().flush()?;
                Ok(None)
            }
        }
    }

    /// Asks for more once half of the window is empty: requests leave several at a time.
    async fn top_up(&self, download: &mut Download, wait: Wait) -> Result<(), RequestError> {
        let window = self.options.window_chunks() * (1 + download.more.len());
        if download.asked >= download.end || download.flights.len() > window / 2 {
            return Ok(());
        }
        let first = self.lane(wait).await?;
        let chunk = self.options.chunk() as u64;
        while download.asked < download.end && download.flights.len() < window {
            let end = download.end.min(download.asked + chunk);
            let range = ByteRange { offset: download.asked, end };
            let turn = download.dealt % (1 + download.more.len());
            let lane = turn.checked_sub(1).map_or(&first, |index| &download.more[index]);
            download.flights.push_back(InFlightRead::ask(lane, range)?);
            download.asked = end;
            download.dealt += 1;
        }
        download.more.iter().try_for_each(|lane| lane.mux().flush())?;
        first.mux().flush()
    }

    /// Opens the file on further connections, if that pays for `bytes`. Fewer than wanted are no failure.
    ///
    /// They are sessions of their own; where a server lets connections be bound to one session, this is the place.
    async fn more_lanes(&self, bytes: u64, wait: Wait) -> Vec<Arc<FileConnection>> {
        let mut lanes = Vec::new();
        let Ok(first) = self.lane(wait).await else { return lanes };
        let streams = self.streams(&first, bytes);
        let options =
            Options { connections_max: streams.max(self.options.connections_max), ..self.options.clone() };
        while !self.is_writable() && lanes.len() + 1 < usize::from(streams) {
            match FileConnection::open(&self.url, &options, self.flags, 0, wait).await {
                Ok(lane) if self.check_same(&lane).is_ok() => lanes.push(Arc::new(lane)),
                _ => break,
            }
        }
        lanes
    }

    /// Connections for a download of `bytes`.
    fn streams(&self, lane: &FileConnection, bytes: u64) -> u16 {
        let round_trip = lane.mux().greeting.round_trip;
        let chosen = match self.options.streams {
            0 if lane.mux().is_loopback() || round_trip < NEAR => 1,
            0 if round_trip < FAR => 2,
            0 => 4,
            // More than there are pieces would be idle.
            streams => {
                return streams.min((bytes / self.options.chunk() as u64).clamp(1, STREAMS_MAX) as u16);
            }
        };
        chosen.min((bytes / STREAM_BYTES_MIN).clamp(1, STREAMS_MAX) as u16)
    }
}
