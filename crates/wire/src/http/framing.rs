//! Where requests begin and end in the bytes of a connection (RFC 9112 §3, §6 and §7).
//!
//! If two readers disagree about it, one takes a part of a request for another request. The HTTP library of the door is
//! too lenient: it drops a fragment of the target and accepts one of two lengths. [`Framing`] reads the same bytes and
//! finds the requests that the door must refuse. It only counts the bytes of bodies, to know where the next head
//! begins.

/// Bytes of a line that are looked at: the fields that matter here are short.
const LINE_BYTES_KEPT: usize = 256;
/// Digits of the size of a chunk; more are no size of anything.
const SIZE_DIGITS_MAX: usize = 16;

/// Reads the requests of one connection, in pieces of any size.
///
/// ```
/// use wire::http::Framing;
/// let mut framing = Framing::default();
/// assert_eq!(framing.read(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"), None);
/// assert_eq!(framing.read(b"GET /a#b HTTP/1.1\r\n\r\n"), Some(18));
/// ```
#[derive(Debug, Default)]
pub struct Framing {
    state: State,
    /// The beginning of the present line, without its end.
    line: Vec<u8>,
    /// Bytes of the present line.
    line_bytes: usize,
    head: Head,
}

/// What comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// A request line, perhaps after empty lines.
    #[default]
    Request,
    /// A field, or the end of the head.
    Field,
    /// Bytes of a body.
    Body(u64),
    /// The line with the size of a chunk.
    Size,
    /// Bytes of a chunk, with the line end behind them.
    Chunk(u64),
    /// A field behind the last chunk, or the end.
    Trailer,
    /// Whoever takes the body finds that it makes no sense, and ends the connection.
    Over,
}

/// What the fields of a head say about its body.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    has_target: bool,
    has_fragment: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl Framing {
    /// Reads on. Yields where a request is found to be malformed: that byte, and what follows, must not be taken.
    pub fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Over => return None,
                State::Body(left) => {
                    let taken = left.min((bytes.len() - at) as u64);
                    at += taken as usize;
                    self.state = if taken == left { State::Request } else { State::Body(left - taken) };
                }
                State::Chunk(left) => {
                    let taken = left.min((bytes.len() - at) as u64);
                    at += taken as usize;
                    self.state = if taken == left { State::Size } else { State::Chunk(left - taken) };
                }
                State::Request | State::Field | State::Size | State::Trailer => {
                    let end = bytes[at..].iter().position(|byte| *byte == b'\n');
                    self.add(&bytes[at..end.map_or(bytes.len(), |end| at + end)]);
                    at += end?;
                    if !self.end_line() {
                        self.state = State::Over;
                        return Some(at);
                    }
                    at += 1;
                }
            }
        }
        None
    }

    /// Adds to the present line.
    fn add(&mut self, bytes: &[u8]) {
        if self.state == State::Request {
            for byte in bytes {
                // A method may have this character, a target may not.
                self.head.has_fragment |= self.head.has_target && *byte == b'#';
                self.head.has_target |= *byte == b' ';
            }
        }
        let free = LINE_BYTES_KEPT.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..free]);
        self.line_bytes += bytes.len();
    }

    /// Reads the line that has ended. Whether the request makes sense so far.
    fn end_line(&mut self) -> bool {
        let mut line = std::mem::take(&mut self.line);
        let is_whole = std::mem::take(&mut self.line_bytes) == line.len();
        if is_whole && line.last() == Some(&b'\r') {
            line.pop();
        }
        let is_good = match self.state {
            State::Request => self.end_request(&line),
            State::Field if line.is_empty() => self.end_head(),
            State::Field => self.end_field(&line, is_whole),
            State::Size => {
                self.state = chunk(&line).unwrap_or(State::Over);
                true
            }
            State::Trailer => {
                if line.is_empty() {
                    self.state = State::Request;
                }
                true
            }
            State::Body(_) | State::Chunk(_) | State::Over => true,
        };
        line.clear();
        self.line = line;
        is_good
    }

    fn end_request(&mut self, line: &[u8]) -> bool {
        let is_good = !self.head.has_fragment;
        if !line.is_empty() {
            self.head = Head::default();
            self.state = State::Field;
        }
        is_good
    }

    fn end_field(&mut self, line: &[u8], is_whole: bool) -> bool {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            // Folded onto the line before: RFC 9112 §5.2.
            return false;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            // No field, or one with a very long name: the library knows what to do with it.
            return true;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(digits);
            // Also the same length again: RFC 9112 §6.3 lets us choose.
            let is_first = self.head.length.is_none();
            self.head.length = length;
            return is_whole && is_first && length.is_some() && !self.head.is_chunked;
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.head.is_chunked = true;
            return is_whole && self.head.length.is_none();
        }
        true
    }

    fn end_head(&mut self) -> bool {
        self.state = match std::mem::take(&mut self.head) {
            Head { is_chunked: true, .. } => State::Size,
            Head { length: Some(length), .. } if length > 0 => State::Body(length),
            Head { .. } => State::Request,
        };
        true
    }
}

/// A number as `Content-Length` has it: digits alone.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// What follows the line with the size of a chunk; none if it is no such line.
fn chunk(line: &[u8]) -> Option<State> {
    let end = line.iter().position(|byte| b"; \t".contains(byte)).unwrap_or(line.len());
    let size = std::str::from_utf8(&line[..end]).ok()?;
    if size.len() > SIZE_DIGITS_MAX || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match u64::from_str_radix(size, 16).ok()? {
        0 => Some(State::Trailer),
        size => Some(State::Chunk(size.checked_add(2)?)),
    }
}

/// Fuzz body: no bytes make it panic, and it finds the same however they are cut.
pub fn fuzz_framing(data: &[u8]) {
    let whole = Framing::default().read(data);
    let (mut framing, mut found) = (Framing::default(), None);
    for (at, byte) in data.iter().enumerate() {
        if found.is_none() && framing.read(std::slice::from_ref(byte)).is_some() {
            found = Some(at);
        }
    }
    assert_eq!(whole, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_good(text: &str) -> bool {
        fuzz_framing(text.as_bytes());
        Framing::default().read(text.as_bytes()).is_none()
    }

    #[test]
    fn requests_that_make_sense() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "\r\n\r\nGET /%23 HTTP/1.1\r\nX: #\r\n\r\n",
            "A#B / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nContent-Length: 12\r\n\r\nGET /#a\r\n\r\n\nGET / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nContent-Length:0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=#\r\nGET #\r\n0\r\nA: #\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nGET /#a HTTP/1.1\r\n\r\n",
            "HEAD / HTTP/1.1\r\nX-Content-Length: a\r\nContent-Lengths: 1\r\nContent-Lengths: 1\r\n\r\n",
        ] {
            assert!(is_good(text), "{text:?}");
        }
    }

    #[test]
    fn requests_that_two_readers_take_differently() {
        for text in [
            "DELETE /d/#f HTTP/1.1\r\n\r\n",
            "DELETE http://h/d/#f HTTP/1.1\r\n\r\n",
            "GET /?a#b HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET / HTTP/1.1\r\n\tA: b\r\n\r\n",
            "PUT / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET /#a HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET /#a HTTP/1.1\r\n\r\n",
        ] {
            assert!(!is_good(text), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nContent-Length: {}1\r\n\r\n", " ".repeat(300));
        assert!(!is_good(&long));
        assert!(!is_good(&format!("GET /{}#b HTTP/1.1\r\n\r\n", "a".repeat(9999))));
    }

    proptest! {
        #[test]
        fn noise_is_read_the_same_however_it_is_cut(
            data in prop::collection::vec(prop::sample::select(b"GET /#:\r\n\r\n\r\n015;a".to_vec()), 0..200),
        ) {
            fuzz_framing(&data);
        }
    }
}
