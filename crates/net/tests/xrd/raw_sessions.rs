//! Hand-made bytes: malformed frames, hostile lengths, bad page checksums, pipelines.

use crate::door::{Door, sample};
use net::xrd::ReadMethod;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::Ordering,
    time::Duration,
};
use wire::xrd::{
    self, Answer, AnswerCode, AnswerHeader, ErrorCode, FileHandle, HANDSHAKE, Login, Mkdir, Open, OpenAnswer,
    OpenFlags, Page, Pgread, Pgwrite, Protocol, ProtocolAnswer, Read as ReadRequest, Readv, Request,
    RequestHeader, ServerFlags, Status, StatusKind, StreamId, Target, VectorElement, Writev, decode_in_place,
    encode_pages, parse_bad_pages,
};

/// More sessions than a door moves at a time.
const MANY_SESSIONS: usize = 140;

/// A client that sends whatever it is told.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(door: &Door) -> Self {
        let socket = TcpStream::connect(door.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(socket)
    }

    fn login(door: &Door) -> Self {
        Self::login_as(door, "")
    }

    pub(crate) fn login_as(door: &Door, username: &str) -> Self {
        let mut raw = Self::connect(door);
        let protocol = Protocol { client_version: 0x520, flags: 0, expect: 3 };
        let login = Login { capability: 133, username: username.to_owned(), ..Login::default() };
        // All in one segment: every answer must come, in order.
        let hello = [
            HANDSHAKE.to_vec(),
            Request::Protocol(protocol).encode(StreamId::of(1)),
            Request::Login(login).encode(StreamId::of(2)),
        ];
        raw.send(&hello.concat());
        let (header, body) = raw.receive();
        assert_eq!((header.stream, body.len()), (StreamId::of(0), 8));
        let (_, body) = raw.receive();
        assert!(ProtocolAnswer::parse(&body).unwrap().flags.contains(ServerFlags::PAGE_IO));
        assert_eq!(raw.receive().1.len(), 16);
        raw
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> (AnswerHeader, Vec<u8>) {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).unwrap();
        let header = AnswerHeader::parse(&header).unwrap();
        let mut body = vec![0; header.length as usize];
        self.0.read_exact(&mut body).unwrap();
        (header, body)
    }

    /// The answer, now or later.
    pub(crate) fn call(&mut self, request: &Request) -> Answer {
        self.send(&request.encode(StreamId::of(9)));
        loop {
            let (header, body) = self.receive();
            match Answer::parse(&header, &body).unwrap() {
                Answer::WaitResp { .. } => {}
                Answer::Later { stream, answer } if stream == StreamId::of(9) => return *answer,
                answer => {
                    assert_eq!(header.stream, StreamId::of(9));
                    return answer;
                }
            }
        }
    }

    fn open(&mut self, name: &str, flags: OpenFlags) -> FileHandle {
        let (template, target) = (FileHandle::default(), Target::new(name));
        let Answer::Ok(body) =
            self.call(&Request::Open(Open { mode: 0o644, flags, flags2: 0, template, target }))
        else {
            panic!("{name} was not opened")
        };
        OpenAnswer::parse(&body).unwrap().handle
    }

    /// The data of an answer, all its frames.
    fn data(&mut self) -> Vec<u8> {
        let mut data = Vec::new();
        loop {
            let (header, body) = self.receive();
            data.extend(body);
            match header.code {
                AnswerCode::Ok => return data,
                code => assert_eq!(code, AnswerCode::OkSoFar),
            }
        }
    }

    /// A status and the data that follow it.
    fn receive_status(&mut self) -> (Status, Vec<u8>) {
        let (header, body) = self.receive();
        let Answer::Status(status) = Answer::parse(&header, &body).unwrap() else { panic!("no status") };
        let mut data = vec![0; status.data_bytes as usize];
        self.0.read_exact(&mut data).unwrap();
        (status, data)
    }

    fn pgwrite(&mut self, handle: FileHandle, offset: u64, encoded: &[u8], is_retry: bool) -> Vec<Page> {
        let write = Pgwrite { handle, offset, path_id: 0, is_retry, length: encoded.len() as u32 };
        self.send(&[Request::Pgwrite(write).encode(StreamId::of(9)), encoded.to_vec()].concat());
        let (status, list) = self.receive_status();
        assert_eq!((status.kind, status.offset), (StatusKind::Final, offset));
        parse_bad_pages(&list).unwrap()
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 4096]), Ok(0) | Err(_))
    }
}

pub(crate) fn code_of(answer: &Answer) -> u32 {
    match answer {
        Answer::Error { code, .. } => *code,
        other => panic!("no error but {other:?}"),
    }
}

const CREATE: OpenFlags = OpenFlags(0x2a);

#[test]
fn a_page_with_a_wrong_checksum_keeps_the_file_from_closing_until_it_is_corrected() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", CREATE);
    let bytes = sample(3 * 4096 + 10);
    let start = 100;
    let mut encoded = encode_pages(start, &bytes);
    // The second page: after the first, which is short, and its checksum.
    let at = (4096 - 100) + 4 + 4 + 17;
    encoded[at] ^= 1;
    let bad = raw.pgwrite(handle, start, &encoded, false);
    assert_eq!(bad, [Page { offset: 4096, length: 4096 }]);
    assert_eq!(code_of(&raw.call(&Request::Close(handle))), ErrorCode::ChecksumError.code());
    let from = 4096 - start as usize;
    let page = encode_pages(4096, &bytes[from..from + 4096]);
    assert_eq!(raw.pgwrite(handle, 4096, &page, true), []);
    assert_eq!(raw.call(&Request::Close(handle)), Answer::Ok(Vec::new()));
    assert!(fs::read(door.path("f")).unwrap()[start as usize..] == bytes);
}

#[test]
fn a_long_write_lists_every_bad_page_and_writes_the_others() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", CREATE);
    let bytes = sample(2_000_000);
    let mut encoded = encode_pages(0, &bytes);
    let pages: Vec<_> = [0, 3, 64, 200, 488].map(|number| number * 4096).into();
    for page in &pages {
        encoded[page / 4096 * 4100 + 50] ^= 1;
    }
    let bad = raw.pgwrite(handle, 0, &encoded, false);
    let length = |page: &usize| bytes.len().saturating_sub(*page).min(4096);
    let expected: Vec<_> =
        pages.iter().map(|page| Page { offset: *page as u64, length: length(page) }).collect();
    assert_eq!(bad, expected);
    for page in bad {
        let good = encode_pages(page.offset, &bytes[page.offset as usize..][..page.length]);
        assert_eq!(raw.pgwrite(handle, page.offset, &good, true), []);
    }
    assert_eq!(raw.call(&Request::Close(handle)), Answer::Ok(Vec::new()));
    assert!(fs::read(door.path("f")).unwrap() == bytes);
}

#[test]
fn page_reads_carry_checksums_from_any_offset() {
    let door = Door::open();
    let bytes = sample(3_000_000);
    fs::write(door.path("f"), &bytes).unwrap();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", OpenFlags::READ);
    let ranges = [(0, 1), (4095, 2), (100, 10_000), (5, 2_900_000), (0, 3_000_000), (2_800_000, 1_000_000)];
    // The sums of some pages are known when they are asked for a second time.
    for (offset, length) in [ranges, ranges].concat().into_iter().chain([(3_000_000, 9)]) {
        let read = Pgread { handle, offset, length, path_id: 0, is_retry: false };
        raw.send(&Request::Pgread(read).encode(StreamId::of(9)));
        let mut back = Vec::new();
        loop {
            let (status, mut data) = raw.receive_status();
            assert_eq!(status.offset, offset + back.len() as u64);
            if !data.is_empty() {
                let (count, bad) = decode_in_place(status.offset, &mut data).unwrap();
                assert!(bad.is_empty());
                back.extend_from_slice(&data[..count]);
            }
            if status.kind == StatusKind::Final {
                break;
            }
        }
        let end = bytes.len().min(offset as usize + length as usize);
        assert!(back == bytes[offset as usize..end], "{length} bytes at {offset} differ");
    }
}

#[test]
fn every_method_sends_the_same_bytes() {
    use ReadMethod::{Automatic, IoUring, Mmap, Pread, Sendfile};
    let bytes = sample(3_000_000);
    for method in [Automatic, Pread, IoUring, Sendfile, Mmap] {
        let door = Door::reading_by(method);
        fs::write(door.path("f"), &bytes).unwrap();
        let mut raw = Raw::login(&door);
        let handle = raw.open("/f", OpenFlags::READ);
        for (offset, length) in
            [(0, 10), (4095, 100_000), (7, 2_000_000), (2_900_000, 200_000), (3_000_000, 9)]
        {
            let read = ReadRequest { handle, offset, length: length as u32, path_id: 0 };
            raw.send(&Request::Read(read).encode(StreamId::of(9)));
            let start = offset as usize;
            assert!(raw.data() == bytes[start..bytes.len().min(start + length)], "{method:?} at {offset}");
        }
        let elements: Vec<_> = (0..100u64)
            .map(|number| VectorElement { handle, length: 20_000 + number as u32, offset: number * 29_000 })
            .collect();
        let mut expected = Vec::new();
        for element in &elements {
            expected.extend(element.encode());
            expected.extend_from_slice(&bytes[element.offset as usize..][..element.length as usize]);
        }
        raw.send(&Request::Readv(Readv { elements, path_id: 0 }).encode(StreamId::of(9)));
        assert!(raw.data() == expected, "vector by {method:?}");
    }
}

#[test]
fn fifty_requests_in_one_segment_are_all_answered() {
    let door = Door::open();
    let bytes = sample(1 << 20);
    fs::write(door.path("f"), &bytes).unwrap();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", OpenFlags::READ);
    let requests = (0..50u16).map(|index| {
        let read = ReadRequest { handle, offset: u64::from(index) * 20_000, length: 1000, path_id: 0 };
        Request::Read(read).encode(StreamId::of(100 + index))
    });
    raw.send(&requests.collect::<Vec<_>>().concat());
    for index in 0..50 {
        let (header, body) = raw.receive();
        // Data requests are answered in order.
        assert_eq!((header.stream, header.code), (StreamId::of(100 + index), AnswerCode::Ok));
        assert!(body == bytes[usize::from(index) * 20_000..][..1000]);
    }
}

#[test]
fn a_recall_does_not_hold_up_other_requests() {
    let door = Door::open();
    fs::write(door.path("tape"), b"x").unwrap();
    let mut raw = Raw::login(&door);
    let (flags, template) = (OpenFlags::READ, FileHandle::default());
    let open = Open { mode: 0, flags, flags2: 0, template, target: Target::new("/tape") };
    raw.send(&Request::Open(open).encode(StreamId::of(7)));
    raw.send(&Request::Ping.encode(StreamId::of(8)));
    let first = [raw.receive().0, raw.receive().0];
    let has = |stream, code| {
        first.iter().any(|header| (header.stream, header.code) == (StreamId::of(stream), code))
    };
    assert!(has(7, AnswerCode::WaitResp) && has(8, AnswerCode::Ok), "{first:?}");
    door.service.recall();
    let (header, body) = raw.receive();
    let Answer::Later { stream, answer } = Answer::parse(&header, &body).unwrap() else {
        panic!("not later")
    };
    assert_eq!(stream, StreamId::of(7));
    let Answer::Ok(body) = *answer else { panic!("not opened: {answer:?}") };
    let handle = OpenAnswer::parse(&body).unwrap().handle;
    assert_eq!(raw.call(&Request::Close(handle)), Answer::Ok(Vec::new()));
}

#[test]
fn after_a_failed_write_the_close_fails_and_nothing_is_kept() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/full", CREATE);
    let data = sample(3 << 20);
    let write = wire::xrd::Write { handle, offset: 0, path_id: 0, length: data.len() as u32 };
    raw.send(&[Request::Write(write).encode(StreamId::of(9)), data].concat());
    let (header, body) = raw.receive();
    assert_eq!(code_of(&Answer::parse(&header, &body).unwrap()), ErrorCode::NoSpace.code());
    assert_eq!(code_of(&raw.call(&Request::Close(handle))), ErrorCode::IoError.code());
    assert_eq!(code_of(&raw.call(&Request::Sync(handle))), ErrorCode::FileNotOpen.code());
    door.stop();
    assert!(door.pending() == 0 && !door.path("full").exists());
}

#[test]
fn peers_that_take_nothing_keep_no_turns() {
    /// More than sessions that have a turn, and more than threads.
    const STALLED: usize = 200;
    let door = Door::open();
    let bytes = sample(1 << 20);
    fs::write(door.path("f"), &bytes).unwrap();
    let ask = |number: u16| {
        let mut raw = Raw::login(&door);
        let handle = raw.open("/f", OpenFlags::READ);
        let read = ReadRequest { handle, offset: 0, length: 1 << 20, path_id: 0 };
        let requests = (0..number).map(|index| Request::Read(read.clone()).encode(StreamId::of(index)));
        raw.send(&requests.collect::<Vec<_>>().concat());
        raw
    };
    let mut stalled: Vec<_> = (0..STALLED).map(|_| ask(8)).collect();
    let mut fast = ask(64);
    for _ in 0..64 {
        assert!(fast.data() == bytes);
    }
    assert_eq!(fast.call(&Request::Ping), Answer::Ok(Vec::new()));
    for raw in stalled.iter_mut().step_by(50) {
        for _ in 0..8 {
            assert!(raw.data() == bytes);
        }
    }
}

#[test]
fn a_peer_that_takes_no_answers_is_not_answered_without_bound() {
    let door = Door::open();
    let bytes = sample(1 << 20);
    fs::write(door.path("f"), &bytes).unwrap();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", OpenFlags::READ);
    let read = |index| {
        Request::Read(ReadRequest { handle, offset: 0, length: 1 << 20, path_id: 0 })
            .encode(StreamId::of(index))
    };
    raw.send(&(0..200).flat_map(read).collect::<Vec<_>>());
    // Another session is served while this one waits to be read.
    assert_eq!(Raw::login(&door).call(&Request::Ping), Answer::Ok(Vec::new()));
    for index in 0..200 {
        let (header, body) = raw.receive();
        assert_eq!(header.stream, StreamId::of(index));
        assert!(body == bytes);
    }
}

#[test]
fn vector_writes_reach_the_file() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let handle = raw.open("/f", CREATE);
    let element = |offset, length| VectorElement { handle, offset, length };
    let write = |elements, data: &[u8]| {
        [Request::Writev(Writev { is_sync: true, elements }).encode(StreamId::of(9)), data.to_vec()].concat()
    };
    raw.send(&write(vec![element(0, 3), element(5, 2)], b"abcde"));
    assert_eq!(raw.receive().0.code, AnswerCode::Ok);
    // A refused one is answered once and its data are thrown away.
    let wrong = VectorElement { handle: FileHandle::of(77), ..element(0, 3) };
    raw.send(&write(vec![wrong, element(5, 2)], b"zzzzz"));
    assert_eq!(raw.receive().0.code, AnswerCode::Error);
    assert_eq!(raw.call(&Request::Close(handle)), Answer::Ok(Vec::new()));
    assert_eq!(fs::read(door.path("f")).unwrap(), b"abc\0\0de");
}

#[test]
fn a_vector_write_flushes_every_file_of_it() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let (first, last) = (raw.open("/unsafe", CREATE), raw.open("/f", CREATE));
    let element = |handle| VectorElement { handle, offset: 0, length: 2 };
    let elements = vec![element(first), element(last)];
    let write = Request::Writev(Writev { is_sync: true, elements }).encode(StreamId::of(9));
    raw.send(&[write, b"abcd".to_vec()].concat());
    assert_eq!(raw.receive().0.code, AnswerCode::Error);
}

#[test]
fn data_of_a_vector_write_that_cannot_be_read_are_not_taken_for_requests() {
    let door = Door::open();
    fs::write(door.path("kept"), b"x").unwrap();
    for (params, body) in [([0; 16], vec![0x7f; 16]), ([0; 16], vec![0; 17]), ([0; 16], vec![0; 100_000])] {
        let mut raw = Raw::login(&door);
        let header = RequestHeader { stream: StreamId::of(9), code: 3031, params, length: body.len() as i32 };
        // Its data look like a request.
        let data = Request::Rm(Target::new("/kept")).encode(StreamId::of(10));
        raw.send(&[&header.encode()[..], &body, &data].concat());
        assert_eq!(raw.receive().0.code, AnswerCode::Error);
        assert!(raw.is_closed());
    }
    assert!(door.path("kept").exists());
}

#[test]
fn what_is_malformed_is_refused_and_the_session_goes_on() {
    let door = Door::open();
    let mut raw = Raw::login(&door);
    let send = |raw: &mut Raw, code: u16, params: [u8; 16], body: &[u8]| {
        let header = RequestHeader { stream: StreamId::of(9), code, params, length: body.len() as i32 };
        raw.send(&[&header.encode()[..], body].concat());
        let (header, body) = raw.receive();
        code_of(&Answer::parse(&header, &body).unwrap())
    };
    assert_eq!(send(&mut raw, 3999, [0; 16], b"x"), ErrorCode::InvalidRequest.code());
    assert_eq!(send(&mut raw, 3010, [0; 16], b""), ErrorCode::ArgMissing.code());
    assert_eq!(send(&mut raw, 3010, [0; 16], b"/a\0b"), ErrorCode::ArgInvalid.code());
    assert_eq!(send(&mut raw, 3013, [0x7f; 16], b""), ErrorCode::ArgInvalid.code());
    assert_eq!(send(&mut raw, 3013, [0; 16], b""), ErrorCode::FileNotOpen.code());
    assert_eq!(send(&mut raw, 3019, [0; 16], &[1; 5000]), ErrorCode::FileNotOpen.code());
    assert_eq!(send(&mut raw, 3026, [0; 16], &[1; 3]), ErrorCode::ArgInvalid.code());
    assert_eq!(send(&mut raw, 3025, [0; 16], &[0; 17]), ErrorCode::ArgInvalid.code());
    assert_eq!(send(&mut raw, 3017, [0; 16], &vec![b'a'; 100_000]), ErrorCode::ArgTooLong.code());
    assert_eq!(send(&mut raw, 3008, [0; 16], b"/a/../b"), ErrorCode::ArgInvalid.code());
    assert_eq!(raw.call(&Request::Ping), Answer::Ok(Vec::new()));
    assert!(door.counters.malformed_total.load(Ordering::Relaxed) >= 5);
}

#[test]
fn lost_framing_and_strangers_end_only_their_own_connection() {
    let door = Door::open();
    for length in [-1, i32::MAX] {
        let mut raw = Raw::login(&door);
        let header = RequestHeader { stream: StreamId::of(9), code: 3010, params: [0; 16], length };
        raw.send(&header.encode());
        assert_eq!(raw.receive().0.code, AnswerCode::Error);
        assert!(raw.is_closed());
    }
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n  "[..], &[0xff; 64]] {
        let mut raw = Raw::connect(&door);
        raw.send(bytes);
        assert!(raw.is_closed());
    }
    let mut before_login = Raw::connect(&door);
    before_login.send(&HANDSHAKE);
    before_login.receive();
    let mkdir = Mkdir { make_path: false, mode: 0o755, target: Target::new("/x") };
    assert_eq!(code_of(&before_login.call(&Request::Mkdir(mkdir))), ErrorCode::InvalidRequest.code());
    assert!(!door.path("x").exists());
    assert_eq!(Raw::login(&door).call(&Request::Ping), Answer::Ok(Vec::new()));
}

#[test]
fn another_session_of_the_client_can_end_one() {
    let door = Door::open();
    let mut raw = Raw::connect(&door);
    raw.send(&[HANDSHAKE.to_vec(), Request::Login(Login::default()).encode(StreamId::of(1))].concat());
    raw.receive();
    let (_, id) = raw.receive();
    let id: [u8; 16] = id.try_into().unwrap();
    let mut other = Raw::login(&door);
    assert_eq!(other.call(&Request::Endsess(id)), Answer::Ok(Vec::new()));
    assert!(raw.is_closed());
    assert_eq!(
        other.call(&Request::Endsess([7; 16])),
        Answer::Ok(Vec::new()),
        "it is not there: that is what was asked for"
    );
}

#[test]
fn what_comes_before_its_login_is_refused_and_ends_the_connection() {
    let door = Door::open();
    let handle = FileHandle::default();
    let write = xrd::Write { handle, offset: 0, path_id: 0, length: 4 };
    let early: [(Request, &[u8]); 3] =
        [(Request::Ping, b""), (Request::Close(handle), b""), (Request::Write(write), b"data")];
    for (request, data) in early {
        let mut raw = Raw::connect(&door);
        raw.send(&[&HANDSHAKE[..], &request.encode(StreamId::of(9)), data].concat());
        raw.receive();
        let (header, body) = raw.receive();
        assert_eq!((header.stream, header.code), (StreamId::of(9), AnswerCode::Error), "{request:?}");
        assert_eq!(body[..4], 3006_u32.to_be_bytes(), "{request:?}");
        assert!(raw.is_closed(), "{request:?}");
    }
}

#[test]
fn random_requests_end_no_session_but_their_own() {
    let door = Door::open();
    let mut rng = base::rng::Rng::new(7);
    for _ in 0..20 {
        let mut raw = Raw::login(&door);
        let mut bytes = Vec::new();
        for stream in 0..50 {
            let noise = sample(rng.below(200) as usize);
            let mut params = [0; 16];
            // Small numbers hit handles, options and lengths that exist.
            params.fill_with(|| if rng.chance(1, 2) { 0 } else { rng.next_u64() as u8 });
            let (stream, code) = (StreamId::of(stream), 2999 + rng.below(36) as u16);
            bytes.extend(RequestHeader { stream, code, params, length: noise.len() as i32 }.encode());
            bytes.extend(noise);
        }
        // The server may close while we still send.
        let _ = raw.0.write_all(&bytes);
    }
    assert_eq!(Raw::login(&door).call(&Request::Ping), Answer::Ok(Vec::new()));
    door.stop();
}

#[test]
fn reads_that_wait_for_other_servers_leave_threads_for_files_that_are_here() {
    let door = Door::open();
    fs::write(door.path("peer"), sample(100)).unwrap();
    fs::write(door.path("here"), sample(100)).unwrap();
    let read = |file| Request::Read(ReadRequest { handle: file, offset: 0, length: 100, path_id: 0 });
    let mut waiting: Vec<_> = (0..MANY_SESSIONS)
        .map(|_| {
            let mut raw = Raw::login(&door);
            let file = raw.open("/peer", OpenFlags::READ);
            raw.send(&read(file).encode(StreamId::of(9)));
            raw
        })
        .collect();
    let mut here = Raw::login(&door);
    let file = here.open("/here", OpenFlags::READ);
    assert_eq!(here.call(&read(file)), Answer::Ok(sample(100)));
    door.service.answer_as_peer();
    for raw in &mut waiting {
        assert_eq!(raw.receive().1, sample(100));
    }
}

#[test]
fn what_is_announced_is_done_and_what_is_not_is_refused() {
    let door = Door::open();
    fs::write(door.path("f"), sample(100)).unwrap();
    let mut raw = Raw::login(&door);
    let Answer::Ok(body) = raw.call(&Request::Protocol(Protocol::default())) else { panic!("no protocol") };
    let version = ProtocolAnswer::parse(&body).unwrap().version;
    assert_eq!(version, 0x0511, "5.2.0 promises clones and duplicated handles");
    let handle = raw.open("/f", OpenFlags::READ);
    assert_eq!(raw.call(&Request::Sync(handle)), Answer::Ok(Vec::new()), "nothing is to be flushed");
    for flags2 in [1, 2, 3] {
        let (flags, target) = (OpenFlags::READ, Target::new("/f"));
        let open = Open { mode: 0, flags, flags2, template: handle, target };
        assert_eq!(code_of(&raw.call(&Request::Open(open))), ErrorCode::Unsupported.code());
    }
    raw.send(&[&[0, 9, 0x0b, 0xd8][..], &[0; 20]].concat());
    let (header, body) = raw.receive();
    assert_eq!(code_of(&Answer::parse(&header, &body).unwrap()), ErrorCode::InvalidRequest.code());
}

#[test]
fn whatever_mode_a_client_sends_the_owner_can_use_what_it_makes() {
    use std::os::unix::fs::PermissionsExt;
    let door = Door::open();
    let mut raw = Raw::login(&door);
    for (mode, file, directory) in [(0, 0o600, 0o700), (0o444, 0o644, 0o744), (0o050, 0o650, 0o750)] {
        let (name, template) = (format!("/f{mode:o}"), FileHandle::default());
        let open = Open { mode, flags: CREATE, flags2: 0, template, target: Target::new(&name) };
        let Answer::Ok(body) = raw.call(&Request::Open(open)) else { panic!("{name} was not opened") };
        let handle = OpenAnswer::parse(&body).unwrap().handle;
        assert_eq!(raw.call(&Request::Close(handle)), Answer::Ok(Vec::new()));
        let made = Mkdir { make_path: false, mode, target: Target::new(format!("/d{mode:o}")) };
        assert_eq!(raw.call(&Request::Mkdir(made)), Answer::Ok(Vec::new()));
        let bits = |name: String| fs::metadata(door.path(&name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((bits(format!("f{mode:o}")), bits(format!("d{mode:o}"))), (file, directory));
    }
}
