//! Servers for tests: one that follows a script, and one with a file that breaks when it is told to.

use crate::xrd::{Options, XrdUrl};
use base::{FilePath, rng::Rng};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use wire::xrd::{
    Answer, ErrorCode, HANDSHAKE_BYTES, LoginAnswer, OpenAnswer, ProtocolAnswer, QueryCode,
    REQUEST_HEADER_BYTES, Request, RequestCode, RequestHeader, ServerFlags, StatInfo, Status, StatusKind,
    StreamId, decode_in_place, encode_bad_pages, encode_handshake_answer, encode_pages, encoded_bytes,
};

/// A server that answers every connection as `script` says.
///
/// `script` gets the number of the connection and each request after login; an empty answer closes the connection.
pub(super) fn serve(script: impl Fn(usize, StreamId, Request) -> Vec<u8> + Send + Sync + 'static) -> XrdUrl {
    serve_data(move |number, stream, request, _| {
        let answer = script(number, stream, request);
        let goes_on = !answer.is_empty();
        (answer, goes_on)
    })
}

/// As [`serve`], with the data of writes; whether the connection goes on is said apart from the answer.
fn serve_data(
    script: impl Fn(usize, StreamId, Request, &[u8]) -> (Vec<u8>, bool) + Send + Sync + 'static,
) -> XrdUrl {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("root://{}//f?a=1", listener.local_addr().unwrap()).parse().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let script = Arc::clone(&script);
            thread::spawn(move || {
                // The client may leave at any point of its script.
                let _ = session_data(&mut socket.unwrap(), &|stream, request, data| {
                    script(number, stream, request, data)
                });
            });
        }
    });
    url
}

pub(super) fn session(
    socket: &mut TcpStream,
    script: &dyn Fn(StreamId, Request) -> Vec<u8>,
) -> std::io::Result<()> {
    session_data(socket, &|stream, request, _| {
        let answer = script(stream, request);
        let goes_on = !answer.is_empty();
        (answer, goes_on)
    })
}

type DataScript<'a> = &'a dyn Fn(StreamId, Request, &[u8]) -> (Vec<u8>, bool);

fn session_data(socket: &mut TcpStream, script: DataScript<'_>) -> std::io::Result<()> {
    let mut hello = [0; HANDSHAKE_BYTES];
    socket.read_exact(&mut hello)?;
    socket.write_all(&encode_handshake_answer(true))?;
    loop {
        let mut header = [0; REQUEST_HEADER_BYTES];
        socket.read_exact(&mut header)?;
        let header = RequestHeader::parse(&header);
        let mut body = vec![0; header.body_bytes().unwrap()];
        socket.read_exact(&mut body)?;
        let (args, data) =
            if header.is_data_body() { (&[][..], body.as_slice()) } else { (body.as_slice(), &[][..]) };
        let (answer, goes_on) = match Request::parse(&header, args).unwrap() {
            Request::Protocol(_) => {
                let flags = ServerFlags::SERVER | ServerFlags::PAGE_IO;
                (Answer::Ok(ProtocolAnswer::new(flags).encode()).encode(header.stream), true)
            }
            Request::Login(_) => {
                let answer = LoginAnswer { session: [1; 16], security: String::new() };
                (Answer::Ok(answer.encode()).encode(header.stream), true)
            }
            request => script(header.stream, request, data),
        };
        socket.write_all(&answer)?;
        if !goes_on {
            return Ok(());
        }
    }
}

pub(super) fn options() -> Options {
    Options { progress_timeout: Duration::from_secs(20), ..Options::default() }
}

pub(super) fn opened(size: u64) -> Answer {
    let stat = StatInfo { size, ..StatInfo::default() };
    Answer::Ok(OpenAnswer { handle: wire::xrd::FileHandle::of(3), stat: Some(stat) }.encode())
}

pub(super) fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

/// `length` bytes that differ everywhere.
pub(super) fn sample(length: usize) -> Vec<u8> {
    let mut rng = Rng::new(length as u64);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// What a [`Host`] does instead of answering a data request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It answers.
    None,
    /// It sends so many bytes of the answer and closes the connection.
    Cut(usize),
    /// It asks to come again at once.
    RetryRule,
    /// It sends the answer as late as it can: announced first.
    Late,
    /// A bit of the data flips on the way, if they are pages.
    Flip,
}

/// A server with one file.
pub(super) struct Host {
    pub(super) url: XrdUrl,
    pub(super) file: Arc<Mutex<StoredFile>>,
    pub(super) connections: Arc<AtomicUsize>,
    /// Data requests, of all connections.
    pub(super) requests: Arc<AtomicUsize>,
}

/// The file of a [`Host`].
#[derive(Debug, Default)]
pub(super) struct StoredFile {
    pub(super) bytes: Vec<u8>,
    pub(super) modified_s: i64,
    /// Texts of queries on the open file.
    pub(super) told: Vec<String>,
    pub(super) is_closed: bool,
}

impl StoredFile {
    fn stat(&self) -> StatInfo {
        StatInfo { id: 7, size: self.bytes.len() as u64, modified_s: self.modified_s, ..StatInfo::default() }
    }

    fn range(&self, offset: u64, length: u32) -> &[u8] {
        let start = self.bytes.len().min(offset as usize);
        &self.bytes[start..self.bytes.len().min(start + length as usize)]
    }

    fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Open(_) => {
                let stat = Some(self.stat());
                Answer::Ok(OpenAnswer { handle: wire::xrd::FileHandle::of(3), stat }.encode())
            }
            Request::Stat(_) => Answer::Ok(format!("{}\0", self.stat()).into_bytes()),
            Request::Read(read) => Answer::Ok(self.range(read.offset, read.length).to_vec()),
            Request::Readv(readv) => {
                let mut body = Vec::new();
                for element in &readv.elements {
                    let data = self.range(element.offset, element.length);
                    if data.len() < element.length as usize {
                        return Answer::error(ErrorCode::ArgInvalid, "past the end");
                    }
                    body.extend(element.encode());
                    body.extend(data);
                }
                Answer::Ok(body)
            }
            Request::Query(query) if query.code == QueryCode::Config => Answer::Ok(b"expect\n".to_vec()),
            Request::Query(query) => {
                self.told.push(String::from_utf8(query.args).unwrap());
                Answer::Ok(Vec::new())
            }
            Request::Truncate(truncate) => {
                self.bytes.resize(truncate.size as usize, 0);
                Answer::Ok(Vec::new())
            }
            Request::Close(_) => {
                self.is_closed = true;
                Answer::Ok(Vec::new())
            }
            _ => Answer::Ok(Vec::new()),
        }
    }

    /// Answers a page read or write; a bit of the data flips on its way if `flips`.
    fn pages(&mut self, stream: StreamId, request: &Request, data: &[u8], flips: bool) -> Vec<u8> {
        let (offset, code, mut body) = match request {
            Request::Pgread(read) => {
                let body = encode_pages(read.offset, self.range(read.offset, read.length));
                (read.offset, RequestCode::Pgread, body)
            }
            Request::Pgwrite(write) => (write.offset, RequestCode::Pgwrite, data.to_vec()),
            other => panic!("{other:?} has no pages"),
        };
        if let (true, Some(last)) = (flips, body.last_mut()) {
            *last ^= 1;
        }
        if code == RequestCode::Pgwrite {
            let (length, bad) = decode_in_place(offset, &mut body).unwrap();
            self.write(offset, &body[..length]);
            body = encode_bad_pages(&bad).unwrap_or_default();
        }
        let status = |kind, offset, bytes: &[u8]| {
            let status = Status { stream, request: code, kind, data_bytes: bytes.len() as u32, offset };
            [&status.encode()[..], bytes].concat()
        };
        // What is long enough comes in two parts.
        let first = encoded_bytes(offset, 4096 - offset as usize % 4096);
        if code == RequestCode::Pgread && body.len() > first {
            let (front, back) = body.split_at(first);
            let next = offset + 4096 - offset % 4096;
            return [status(StatusKind::Partial, offset, front), status(StatusKind::Final, next, back)]
                .concat();
        }
        status(StatusKind::Final, offset, &body)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset as usize..end].copy_from_slice(data);
    }
}

impl Host {
    /// A server with `bytes`. `fault` is asked for every data request, with its number.
    pub(super) fn new(bytes: Vec<u8>, fault: impl Fn(usize) -> Fault + Send + Sync + 'static) -> Self {
        let file = Arc::new(Mutex::new(StoredFile { bytes, ..StoredFile::default() }));
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (own, counted, seen) = (Arc::clone(&file), Arc::clone(&requests), Arc::clone(&connections));
        let url = serve_data(move |number, stream, request, data| {
            seen.fetch_max(number + 1, Ordering::SeqCst);
            let mut file = own.lock().unwrap();
            let is_pages = matches!(request, Request::Pgread(_) | Request::Pgwrite(_));
            let is_data =
                is_pages || matches!(request, Request::Read(_) | Request::Readv(_) | Request::Write(_));
            let fault = if is_data { fault(counted.fetch_add(1, Ordering::SeqCst)) } else { Fault::None };
            if is_pages {
                return (file.pages(stream, &request, data, fault == Fault::Flip), true);
            }
            if let Request::Write(write) = &request {
                file.write(write.offset, data);
            }
            let answer = file.answer(request);
            let mut bytes = answer.encode(stream);
            match fault {
                Fault::None => (bytes, true),
                Fault::Cut(length) => {
                    bytes.truncate(length);
                    (bytes, false)
                }
                Fault::RetryRule => {
                    (Answer::Wait { seconds: 0, message: String::new() }.encode(stream), true)
                }
                Fault::Late => {
                    let later = Answer::Later { stream, answer: Box::new(answer) };
                    ([Answer::WaitResp { seconds: 60 }, later].map(|part| part.encode(stream)).concat(), true)
                }
                // Nobody would notice.
                Fault::Flip => (bytes, true),
            }
        });
        Self { url, file, connections, requests }
    }
}
