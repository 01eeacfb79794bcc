//! Refuses requests whose data follow.

use super::{Phase, Session, Task};
use crate::xrd::{
    Service,
    session::End,
    writing::{Form, Part, WriteTask},
};
use wire::xrd::{Answer, ErrorCode, RequestCode, RequestHeader, StreamId};

impl<S: Service> Session<S> {
    /// The last answer: how many bytes of data follow is not known.
    pub(super) fn strand(&mut self, header: &RequestHeader, refusal: &Answer) -> End {
        self.answer(header.stream, refusal);
        End::Stranded
    }

    /// Refuses a request that could not be parsed; data that follow it are thrown away.
    pub(super) fn refuse_data(&mut self, header: &RequestHeader, refusal: Answer) -> Result<(), End> {
        if header.is_data_body() && !(self.is_proven && matches!(self.phase, Phase::Open(_))) {
            return Err(self.refuse_early_data(header.stream));
        }
        // Its data are not counted in its length but told by what could not be read, or must not be believed.
        if header.request_code() == Some(RequestCode::Writev) {
            return Err(self.strand(header, &refusal));
        }
        let body = if header.is_data_body() { header.body_bytes()? } else { 0 };
        self.throw_away(header.stream, body, refusal);
        Ok(())
    }

    /// The last answer to data of a peer that cannot have opened a file: they would only be thrown away.
    pub(super) fn refuse_early_data(&mut self, stream: StreamId) -> End {
        match self.phase {
            Phase::Open(_) => {
                let refusal = Answer::error(ErrorCode::NotAuthorized, "authenticate first");
                self.answer(stream, &refusal);
                End::Stranded
            }
            Phase::Greeting => self.refuse_early(stream),
            Phase::Handshake | Phase::Bound(_) => End::Stranger,
        }
    }

    /// Receives `bytes` for nothing, then sends `refusal`.
    pub(in crate::xrd) fn throw_away(&mut self, stream: StreamId, bytes: usize, refusal: Answer) {
        let parts = [Part { handle: None, offset: 0, left: bytes }].into_iter().filter(|part| part.left > 0);
        let buffer = std::mem::take(&mut self.spare);
        let task = WriteTask::new(stream, Form::Plain, parts.collect(), Some(refusal), buffer);
        self.task = Some(Task::Write(task));
    }
}
