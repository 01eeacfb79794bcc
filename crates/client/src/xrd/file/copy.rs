//! Downloads: one range, in order, to a sink.

use super::{
    core::Core,
    flight::{Arrival, Flight},
    lane::Lane,
};
use crate::xrd::{
    mux::{Chunk, Wait},
    retry::Retry,
    route::Waited,
    trouble::Trouble,
};
use base::{ByteRange, Failure, Result};
use std::{collections::VecDeque, sync::Arc};

/// What is under way of a download.
struct Download {
    flights: VecDeque<Flight>,
    /// What the sink has.
    done: u64,
    /// What was asked for.
    asked: u64,
    end: u64,
}

impl Core {
    /// Hands the bytes of `range` to `sink`, in order. Fewer bytes are a failure.
    pub(in crate::xrd) async fn copy_range<S>(&self, range: ByteRange, sink: &mut S, wait: Wait) -> Result<()>
    where
        S: FnMut(&[u8]) -> Result<()> + ?Sized,
    {
        let mut retry = Retry::new(&self.options);
        let start = range.offset;
        let mut download =
            Download { flights: VecDeque::new(), done: start, asked: start, end: range.end.max(start) };
        while download.done < download.end {
            let outcome = match self.next_chunk(&mut download, wait).await {
                Ok(found) => Ok(found),
                Err(trouble) => {
                    // What is under way comes from a connection that is gone.
                    download.flights.clear();
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
    ) -> Result<Option<(Arc<Lane>, Chunk)>, Trouble> {
        self.top_up(download, wait).await?;
        let Some(flight) = download.flights.pop_front() else { return Ok(None) };
        let (lane, range) = (Arc::clone(&flight.lane), flight.range);
        match flight.arrive(wait, &mut []).await? {
            Arrival::Data(chunk) if chunk.filled as u64 == range.length() => {
                download.done = range.end;
                Ok(Some((lane, chunk)))
            }
            Arrival::Data(chunk) => {
                let end = range.offset + chunk.filled as u64;
                let missing = download.end - end;
                Err(Failure::corrupt(format!("the file ends at {end}, {missing} bytes early"))
                    .hint("it was changed while it was read; read it again")
                    .into())
            }
            Arrival::Later(span) => {
                Waited::new(&self.options).more(span, lane.peer(), wait).await?;
                download.flights.push_front(Flight::ask(&lane, range)?);
                lane.mux().flush()?;
                Ok(None)
            }
        }
    }

    /// Asks for more once half of the window is empty: requests leave several at a time.
    async fn top_up(&self, download: &mut Download, wait: Wait) -> Result<(), Trouble> {
        let window = self.options.window_chunks();
        if download.asked >= download.end || download.flights.len() > window / 2 {
            return Ok(());
        }
        let lane = self.lane(wait).await?;
        let chunk = self.options.chunk() as u64;
        while download.asked < download.end && download.flights.len() < window {
            let end = download.end.min(download.asked + chunk);
            let range = ByteRange { offset: download.asked, end };
            download.flights.push_back(Flight::ask(&lane, range)?);
            download.asked = end;
        }
        lane.mux().flush()
    }
}
