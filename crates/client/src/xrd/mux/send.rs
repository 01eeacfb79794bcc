//! Requests to the server: small ones are sent together, whoever they are from.

use super::{Mux, table::Sink, ticket::Ticket};
use crate::xrd::{process::lock, trouble::RequestError};
use base::Failure;
use std::{
    io::{ErrorKind, IoSlice},
    sync::{Arc, TryLockError},
    time::{Duration, Instant},
};
use wire::xrd::{Request, StreamId};

/// Longest that a sender sleeps before it looks at its deadline.
const SEND_TICK: Duration = Duration::from_secs(1);

impl Mux {
    /// Puts a request into the outbox; it leaves with the next [`Mux::flush`].
    pub(in crate::xrd) fn enqueue(
        self: &Arc<Self>,
        request: &Request,
        sink: Sink,
    ) -> Result<Ticket, RequestError> {
        let stream = lock(&self.table).add(sink, Instant::now())?;
        lock(&self.outbox).extend_from_slice(&request.encode(StreamId::of(stream)));
        Ok(Ticket::new(self, stream))
    }

    /// Sends a request at once.
    pub(in crate::xrd) fn submit(
        self: &Arc<Self>,
        request: &Request,
        sink: Sink,
    ) -> Result<Ticket, RequestError> {
        let ticket = self.enqueue(request, sink)?;
        self.flush()?;
        Ok(ticket)
    }

    /// Sends a request and the data that follow it.
    pub(in crate::xrd) fn submit_with(
        self: &Arc<Self>,
        request: &Request,
        data: &[IoSlice<'_>],
        sink: Sink,
    ) -> Result<Ticket, RequestError> {
        let stream = lock(&self.table).add(sink, Instant::now())?;
        let ticket = Ticket::new(self, stream);
        let header = request.encode(StreamId::of(stream));
        {
            let _sending = lock(&self.sending);
            let before = std::mem::take(&mut *lock(&self.outbox));
            let mut parts = Vec::with_capacity(data.len() + 2);
            parts.extend([IoSlice::new(&before), IoSlice::new(&header)]);
            parts.extend_from_slice(data);
            self.send_all(&mut parts)?;
        }
        // Others may have put something into the outbox meanwhile and left it to us.
        self.flush()?;
        Ok(ticket)
    }

    /// Sends what is in the outbox, unless another thread is at it: that one looks again when it has finished.
    pub(in crate::xrd) fn flush(&self) -> Result<(), RequestError> {
        while !lock(&self.outbox).is_empty() {
            let _sending = match self.sending.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            let mut bytes = std::mem::take(&mut *lock(&self.outbox));
            self.send_all(&mut [IoSlice::new(&bytes)])?;
            bytes.clear();
            let mut outbox = lock(&self.outbox);
            if outbox.is_empty() {
                *outbox = bytes;
            }
        }
        Ok(())
    }

    /// Sends all `parts`, one after the other. The caller holds `sending`.
    fn send_all(&self, parts: &mut [IoSlice<'_>]) -> Result<(), RequestError> {
        let mut rest = parts;
        IoSlice::advance_slices(&mut rest, 0);
        let mut progress = Instant::now();
        loop {
            let outcome =
                if rest.is_empty() { self.transport.flush().map(|()| 0) } else { self.transport.send(rest) };
            match outcome {
                Ok(_) if rest.is_empty() => return Ok(()),
                Ok(0) => return Err(self.unsent("connection closed")),
                Ok(count) => {
                    IoSlice::advance_slices(&mut rest, count);
                    progress = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_to_send(progress)?,
                Err(error) => return Err(self.unsent(error)),
            }
        }
    }

    /// Waits until the server takes more. It may not do so before somebody takes its answers, so we do that meanwhile.
    fn wait_to_send(&self, progress: Instant) -> Result<(), RequestError> {
        let leads = {
            let mut table = lock(&self.table);
            if let Some(failure) = &table.broken {
                return Err(RequestError::Broken(failure.clone()));
            }
            !std::mem::replace(&mut table.is_led, true)
        };
        let tick = SEND_TICK.min(self.progress_timeout);
        let ready = self.transport.wait(leads, tick);
        let mut led = Ok(());
        if leads {
            let mut receiver = lock(&self.receiver);
            if receiver.has_more() || ready.as_ref().is_ok_and(|ready| ready.input) {
                led = self.receive_frame(&mut receiver, &mut []);
            }
            drop(receiver);
            let mut table = lock(&self.table);
            table.is_led = false;
            table.hand_on();
        }
        led.map_err(|failure| self.break_off(failure))?;
        match ready {
            Ok(ready) if !ready.output && progress.elapsed() >= self.progress_timeout => {
                let what = format!("{} accepts no more data: no progress", self.greeting.peer);
                let seconds = self.progress_timeout.as_secs_f64();
                Err(self.break_off(Failure::timeout(format!("{what} for {seconds:.0} s"))))
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.unsent(error)),
        }
    }

    fn unsent(&self, why: impl std::fmt::Display) -> RequestError {
        self.break_off(Failure::unavailable(format!("send to {}: {why}", self.greeting.peer)))
    }
}
