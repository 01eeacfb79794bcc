//! Takes a stream of answers apart without keeping it: only headers and the first bytes of data are looked at.

use base::{ErrorKind, Failure, Result};
use wire::xrd::{
    ANSWER_HEADER_BYTES, AnswerCode, AnswerHeader, MESSAGE_BYTES_MAX, STATUS_BYTES, Status, StatusKind,
};

/// First bytes of data that are kept of each frame: attributes, or a vector element and a word of the file.
const HEAD_BYTES: usize = 256;

/// One frame of an answer, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Which request is answered.
    pub(crate) stream: u16,
    /// What kind of answer.
    pub(crate) code: AnswerCode,
    /// Whether it ends the answer.
    pub(crate) is_last: bool,
    /// Bytes of data that it had, as sent.
    pub(crate) data_bytes: u64,
    /// Where in the file its data start, if it says so.
    pub(crate) offset: Option<u64>,
    /// Its first bytes of data; all of them of a short frame.
    pub(crate) head: &'a [u8],
}

/// The parser. It holds a few bytes, however long the answers are.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    front: Vec<u8>,
    body: Option<Body>,
    head: Vec<u8>,
    data_bytes: u64,
}

/// A frame whose front is known.
#[derive(Debug, Clone, Copy)]
struct Body {
    header: AnswerHeader,
    status: Option<Status>,
    bytes: u64,
    left: u64,
}

impl Answers {
    /// Bytes of data seen so far, also of frames that are not whole yet.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Bytes that are sure to come: the rest of a frame that has begun.
    pub(crate) fn due(&self) -> u64 {
        self.body.map_or(0, |body| body.left)
    }

    /// Whether the stream stands between two frames.
    #[cfg(test)]
    fn is_between_frames(&self) -> bool {
        self.front.is_empty() && self.body.is_none()
    }

    /// Takes bytes in and shows every frame that becomes whole.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut show: impl FnMut(Frame<'_>) -> Result<()>,
    ) -> Result<()> {
        loop {
            if self.body.is_none() {
                self.take_front(&mut bytes)?;
            }
            let Some(body) = &mut self.body else { return Ok(()) };
            let taken = body.left.min(bytes.len() as u64) as usize;
            let room = kept(body.header.code).saturating_sub(self.head.len());
            self.head.extend_from_slice(&bytes[..taken.min(room)]);
            body.left -= taken as u64;
            self.data_bytes += taken as u64;
            bytes = &bytes[taken..];
            if body.left > 0 {
                return Ok(());
            }
            let body = *body;
            self.body = None;
            show(body.frame(&self.head))?;
            self.head.clear();
        }
    }

    /// Moves bytes of the header, and of what a status answer has before its data, out of `bytes`.
    fn take_front(&mut self, bytes: &mut &[u8]) -> Result<()> {
        self.take_up_to(ANSWER_HEADER_BYTES, bytes);
        let Some(header) = self.front.first_chunk() else { return Ok(()) };
        let header = AnswerHeader::parse(header)?;
        let mut status = None;
        if header.code == AnswerCode::Status {
            self.take_up_to(STATUS_BYTES, bytes);
            if self.front.len() < STATUS_BYTES {
                return Ok(());
            }
            status = Some(Status::parse(&self.front[ANSWER_HEADER_BYTES..])?);
        }
        self.front.clear();
        let bytes = u64::from(status.map_or(header.length, |status| status.data_bytes));
        self.body = Some(Body { header, status, bytes, left: bytes });
        Ok(())
    }

    fn take_up_to(&mut self, length: usize, bytes: &mut &[u8]) {
        let missing = length.saturating_sub(self.front.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(missing);
        self.front.extend_from_slice(taken);
        *bytes = rest;
    }
}

/// How much is kept of an answer: of one that is no data, all that people may read.
fn kept(code: AnswerCode) -> usize {
    match code {
        AnswerCode::Ok | AnswerCode::OkSoFar | AnswerCode::Status => HEAD_BYTES,
        _ => MESSAGE_BYTES_MAX,
    }
}

impl Body {
    fn frame<'a>(&self, head: &'a [u8]) -> Frame<'a> {
        let is_last = match self.status {
            Some(status) => status.kind == StatusKind::Final,
            None => self.header.code != AnswerCode::OkSoFar,
        };
        Frame {
            stream: self.header.stream.number(),
            code: self.header.code,
            is_last,
            data_bytes: self.bytes,
            offset: self.status.map(|status| status.offset),
            head,
        }
    }
}

impl Frame<'_> {
    /// Passes data on, and the word to ask elsewhere; everything else is a failure that says what the server said.
    pub(crate) fn data(&self) -> Result<()> {
        match self.code {
            AnswerCode::Ok | AnswerCode::OkSoFar | AnswerCode::Status | AnswerCode::Redirect => Ok(()),
            AnswerCode::Error => {
                let text = self.head.get(4..).unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                Err(Failure::new(
                    ErrorKind::Io,
                    format!("the server refuses: {}", text.trim_end_matches('\0')),
                ))
            }
            other => Err(Failure::new(
                ErrorKind::Io,
                format!("the server answers with {other:?}, which is not followed"),
            )),
        }
    }
}

/// Fuzz body: whatever a server sends, however it is cut, ends in frames or a failure.
#[cfg(test)]
fn fuzz_answers(data: &[u8]) -> Vec<(u16, u64)> {
    let mut seen = Vec::new();
    let mut answers = Answers::default();
    for part in data.chunks(7) {
        let took = answers.feed(part, |frame| {
            assert!(frame.head.len() as u64 <= frame.data_bytes);
            seen.push((frame.stream, frame.data_bytes));
            Ok(())
        });
        if took.is_err() {
            break;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::xrd::{Answer, RequestCode, StreamId};

    /// A stream of answers, and what must be seen of it: stream, bytes of data, whether it is the last frame.
    fn conversation() -> (Vec<u8>, Vec<(u16, u64, bool)>) {
        let mut bytes = Answer::OkSoFar(vec![1; 5000]).encode(StreamId::of(3));
        bytes.extend(Answer::Ok(vec![2; 100]).encode(StreamId::of(3)));
        bytes.extend(Answer::Ok(Vec::new()).encode(StreamId::of(9)));
        let page = [7; 4100];
        for kind in [StatusKind::Partial, StatusKind::Final] {
            let (stream, request) = (StreamId::of(4), RequestCode::Pgread);
            bytes.extend(Status { stream, request, kind, data_bytes: 4100, offset: 8192 }.encode());
            bytes.extend(page);
        }
        let seen = vec![(3, 5000, false), (3, 100, true), (9, 0, true), (4, 4100, false), (4, 4100, true)];
        (bytes, seen)
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_stream_is_cut(cuts in prop::collection::vec(1usize..6000, 1..40)) {
            let (bytes, expected) = conversation();
            let (mut answers, mut seen, mut rest) = (Answers::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, later) = rest.split_at((*cut).min(rest.len()));
                rest = later;
                answers.feed(part, |frame| {
                    seen.push((frame.stream, frame.data_bytes, frame.is_last));
                    Ok(())
                }).unwrap();
            }
            prop_assert!(answers.is_between_frames());
            prop_assert_eq!(answers.data_bytes(), 13_300);
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, with: u8) {
            fuzz_answers(&data);
            let (mut bytes, _) = conversation();
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            fuzz_answers(&bytes);
        }
    }

    #[test]
    fn a_refusal_says_what_the_server_said() {
        let failure = Failure::not_found("/no/such is not there");
        let bytes = Answer::failure(&failure).encode(StreamId::of(0));
        let refused = Answers::default().feed(&bytes, |frame| frame.data()).unwrap_err();
        assert!(refused.what.contains("/no/such is not there"), "{refused}");
    }
}
