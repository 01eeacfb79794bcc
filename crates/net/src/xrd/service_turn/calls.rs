//! Calls of a session: one on this thread, the others beside it.

use super::Session;
use crate::xrd::{
    Service,
    calls::{self, Context},
    inline_call::Call,
    limits::{CALL_PATIENCE, CALLS_MAX, COME_AGAIN_S},
};
use base::limits::UNPROVEN_CALLS_MAX;
use std::{
    sync::Arc,
    task::{self, Poll, Waker},
    time::{Duration, Instant},
};
use wire::xrd::{Answer, Open, Request, StreamId};

impl<S: Service> Session<S> {
    /// Whether calls are under way.
    pub(in crate::xrd) fn has_calls(&mut self) -> bool {
        while self.calls.try_join_next().is_some() {}
        !self.calls.is_empty()
    }

    /// Starts a call beside the others.
    pub(super) fn call(&mut self, context: &Arc<Context<S>>, stream: StreamId, request: Request) {
        if self.has_room_for_call(stream) {
            self.start(calls::call(Arc::clone(context), stream, request));
        }
    }

    /// Opens a file: here if that needs no waiting, else as a call.
    pub(super) fn open(&mut self, context: &Arc<Context<S>>, stream: StreamId, open: Open) {
        // Not begun without room for a call: an open for writing that is dropped half way leaves a file that waits for its writer.
        if !self.has_room_for_call(stream) {
            return;
        }
        let started = Instant::now();
        let mut opening: calls::Opening = Box::pin(Arc::clone(context).open(open));
        match opening.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                self.counters.request_times.note(started.elapsed());
                self.answer(stream, &answer);
            }
            Poll::Pending => self.start(calls::finish_open(Arc::clone(context), stream, opening)),
        }
    }

    /// Whether there may be one more; if not the client is told to come again.
    fn has_room_for_call(&mut self, stream: StreamId) -> bool {
        let most = if self.is_proven { CALLS_MAX } else { UNPROVEN_CALLS_MAX };
        if self.calls.len() < most || (self.has_calls() && self.calls.len() < most) {
            return true;
        }
        let message = format!("this session has {most} requests under way");
        self.answer(stream, &Answer::Wait { seconds: COME_AGAIN_S, message });
        false
    }

    fn start(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let is_first = !self.has_calls() && self.inline_call.is_none();
        let call = Call::new(work);
        self.hand_over();
        if is_first {
            self.inline_call = Some(call);
        } else {
            self.spawn(call);
        }
    }

    pub(super) fn spawn(&mut self, mut call: Call) {
        // Begun here, so that what a client sends one after the other is carried out in that order: a directory is removed after
        // what was in it, though nobody has waited for the answers.
        if call.carry_on(Duration::ZERO) {
            return;
        }
        self.calls.spawn(call.rest());
        // Its answer would not wake a thread that waits for the peer.
        self.transport.set_hurry(true);
    }

    /// Leaves the call at hand, if there is one, to a task.
    pub(super) fn hand_over(&mut self) {
        if let Some(call) = self.inline_call.take() {
            self.spawn(call);
        }
    }

    /// Carries out the call at hand, if this thread has nothing else to do; whether it has ended.
    pub(super) fn carry_on_with_call(&mut self) -> bool {
        let is_free = self.wait_permit.is_some() && !self.movers.are_wanted(self.is_with_peers);
        if is_free
            && let Some(call) = &mut self.inline_call
            && call.carry_on(CALL_PATIENCE)
        {
            self.inline_call = None;
            return true;
        }
        self.hand_over();
        false
    }
}
