//! One session: keeps its window full and checks what comes back.

use base::{Failure, Result};
use std::time::{Duration, Instant};
use wire::xrd::{AnswerCode, FileHandle, OpenAnswer, Request, StreamId, VECTOR_ELEMENT_BYTES, VectorElement};

use crate::{
    answers::{Answers, Frame},
    link::Link,
    pattern,
    report::Tally,
    work::{Item, Mode, Work},
};

/// When to stop asking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    /// Requests of each session.
    pub(crate) items: Option<u64>,
    /// A time.
    pub(crate) deadline: Option<Instant>,
}

/// A request that is not answered yet; its place in the window is its stream id.
#[derive(Debug)]
struct Waiting {
    item: Item,
    asked: Instant,
    answered_bytes: u64,
    /// The file that an open gave and a close now returns.
    is_closing: bool,
}

/// A session that is logged in and has its file open.
#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    work: Work,
    answers: Answers,
    window: Vec<Option<Waiting>>,
    free: Vec<u16>,
    /// Files that were opened and are to be closed, by place in the window.
    to_close: Vec<(u16, FileHandle)>,
    is_write: bool,
    has_pattern: bool,
    opened: Option<FileHandle>,
    items_left: u64,
    deadline: Option<Instant>,
    /// Time from one request to the next, and when the next one is due.
    pace: Option<(Duration, Instant)>,
    /// Its place among all sessions: they take turns.
    turn: f64,
    outgoing: Vec<u8>,
    /// When the first request went out.
    began: Option<Instant>,
    tally: Tally,
}

/// What a session needs to know before it connects.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// What to do.
    pub(crate) mode: Mode,
    /// On which file.
    pub(crate) path: String,
    /// Random numbers in the path are below this.
    pub(crate) files: u64,
    /// Whether the file has the pattern, so that data can be checked.
    pub(crate) has_pattern: bool,
    /// Which of all sessions this is, and how many there are.
    pub(crate) number: (usize, usize),
    /// Time from one request of the session to the next; else it asks as soon as it was answered.
    pub(crate) between: Option<Duration>,
}

impl Session {
    /// Makes a session on a link: opens the file.
    pub(crate) fn open(mut link: Link, setup: &Setup) -> Result<Self> {
        let mode = setup.mode;
        let answer = match mode.open_flags() {
            Some(flags) => Some(link.open(&setup.path, flags)?),
            None => None,
        };
        let handle = answer.as_ref().map(|answer| answer.handle);
        let size = match mode {
            Mode::Write { size, .. } | Mode::Pgwrite { size, .. } => size.0,
            _ => answer.and_then(|answer| answer.stat).map_or(0, |stat| stat.size),
        };
        if size == 0 && handle.is_some() {
            return Err(Failure::invalid(format!("{} is empty", setup.path)).hint("name a file with data"));
        }
        let (number, count) = setup.number;
        let start = if mode.is_write() { 0 } else { size / count as u64 * number as u64 };
        let path = (setup.path.clone(), setup.files);
        let work = Work::new(mode, path, handle.unwrap_or_default(), size, start, number as u64);
        Ok(Self {
            link,
            work,
            answers: Answers::default(),
            window: (0..mode.depth()).map(|_| None).collect(),
            free: (0..mode.depth()).rev().collect(),
            to_close: Vec::new(),
            is_write: mode.is_write(),
            has_pattern: setup.has_pattern,
            opened: handle,
            items_left: 0,
            deadline: None,
            pace: setup.between.map(|between| (between, Instant::now())),
            turn: number as f64 / count as f64,
            outgoing: Vec::new(),
            began: None,
            tally: Tally::default(),
        })
    }

    /// Sends the first window.
    pub(crate) fn start(&mut self, until: Until) -> Result<()> {
        let one_pass = self.work.items_of_one_pass();
        self.items_left = match (until.items, until.deadline) {
            (Some(items), _) => items,
            // A file is written once: what comes after its end would be another file.
            (None, Some(_)) if !self.is_write => u64::MAX,
            (None, _) => one_pass,
        };
        self.deadline = until.deadline;
        let now = Instant::now();
        self.began = Some(now);
        self.pace = self.pace.map(|(between, _)| (between, now + between.mul_f64(self.turn)));
        self.refill()
    }

    /// Whether requests are due at times of their own.
    pub(crate) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// When the next request is due, if only that is waited for.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (_, due) = self.pace?;
        (self.items_left > 0 && !self.free.is_empty()).then_some(due)
    }

    /// Whether all that was asked is answered and nothing more is to be asked.
    pub(crate) fn is_done(&self) -> bool {
        self.items_left == 0 && self.free.len() == self.window.len()
    }

    /// Waits for as much of a frame that has begun as `buffer` holds: for sessions that are alone.
    pub(crate) fn wait(&self, buffer_bytes: usize) -> Result<()> {
        self.link.wait(self.answers.due(), buffer_bytes)
    }

    /// Receives once into `buffer`, takes what came, asks for more.
    pub(crate) fn visit(&mut self, buffer: &mut [u8]) -> Result<()> {
        let length = self.link.receive(buffer)?;
        let before = self.answers.data_bytes();
        let mut answers = std::mem::take(&mut self.answers);
        let now = Instant::now();
        let taken = answers.feed(&buffer[..length], |frame| self.take(frame, now));
        if before == 0 && answers.data_bytes() > 0 {
            self.tally.first_byte = self.began.map(|began| now - began);
        }
        self.answers = answers;
        taken?;
        self.refill()
    }

    /// Where to wait for answers.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Closes the file and says what was done.
    pub(crate) fn finish(mut self) -> Result<Tally> {
        if let Some(handle) = self.opened {
            self.link.ask(&Request::Close(handle)).map_err(|failure| failure.during("close"))?;
        }
        Ok(self.tally)
    }

    /// Puts as many requests on their way as the window takes, with one send where they have no data.
    pub(crate) fn refill(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.items_left = 0;
        }
        self.outgoing.clear();
        for (place, handle) in self.to_close.drain(..) {
            self.outgoing.extend(Request::Close(handle).encode(StreamId::of(place)));
        }
        while self.items_left > 0
            && self.pace.is_none_or(|(_, due)| due <= now)
            && let Some(place) = self.free.pop()
        {
            self.items_left -= 1;
            // Who asks late has kept its user waiting.
            let asked = self.pace.map_or(now, |(_, due)| due);
            self.pace = self.pace.map(|(between, due)| (between, due + between));
            let item = self.work.next_item();
            let request = item.request.encode(StreamId::of(place));
            if self.is_write {
                self.link.send_two(&request, self.work.payload(&item))?;
            } else {
                self.outgoing.extend(request);
            }
            let waiting = Waiting { item, asked, answered_bytes: 0, is_closing: false };
            self.window[usize::from(place)] = Some(waiting);
        }
        if self.outgoing.is_empty() { Ok(()) } else { self.link.send(&self.outgoing) }
    }

    /// Takes a frame of an answer.
    fn take(&mut self, frame: Frame<'_>, now: Instant) -> Result<()> {
        frame.data()?;
        let waiting = self.window.get_mut(usize::from(frame.stream)).and_then(Option::as_mut);
        let Some(waiting) = waiting else {
            return Err(Failure::corrupt(format!(
                "an answer to stream {}, which asked nothing",
                frame.stream
            )));
        };
        if self.has_pattern {
            check_pattern(&waiting.item, waiting.answered_bytes, &frame)?;
        }
        waiting.answered_bytes += frame.data_bytes;
        if !frame.is_last {
            return Ok(());
        }
        let is_open = matches!(waiting.item.request, Request::Open(_));
        if frame.code == AnswerCode::Redirect {
            if !is_open {
                return Err(Failure::unsupported("the server answers data requests with redirects")
                    .hint("name the disk server"));
            }
            self.tally.redirected += 1;
        } else if is_open && !waiting.is_closing {
            waiting.is_closing = true;
            self.to_close.push((frame.stream, OpenAnswer::parse(frame.head)?.handle));
            return Ok(());
        }
        let answered = waiting.answered_bytes;
        if let Some(expected) = waiting.item.answer_bytes.filter(|expected| *expected != answered) {
            let what = format!("{answered} bytes instead of {expected} at {}", waiting.item.offset);
            return Err(Failure::corrupt(what));
        }
        self.tally.take(waiting.item.file_bytes, now - waiting.asked);
        self.window[usize::from(frame.stream)] = None;
        self.free.push(frame.stream);
        Ok(())
    }
}

/// Compares the first bytes of a frame with what the file must have there.
fn check_pattern(item: &Item, answered_bytes: u64, frame: &Frame<'_>) -> Result<()> {
    const CRC_BYTES: usize = 4;
    match &item.request {
        Request::Read(_) => pattern::check(item.offset + answered_bytes, frame.head),
        Request::Pgread(_) if frame.code == AnswerCode::Status => {
            let data = frame.head.get(CRC_BYTES..).unwrap_or_default();
            pattern::check(frame.offset.unwrap_or(item.offset), data)
        }
        Request::Readv(_) => {
            let Some((element, data)) = frame.head.split_first_chunk::<VECTOR_ELEMENT_BYTES>() else {
                return Ok(());
            };
            pattern::check(VectorElement::parse(element)?.offset, data)
        }
        _ => Ok(()),
    }
}
