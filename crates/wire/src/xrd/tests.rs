//! Round trips of every request and answer, and bytes that are none.

use super::*;
use proptest::{collection::vec, prelude::*, strategy::Union};

fn target() -> impl Strategy<Value = Target> {
    let pair = ("[a-z.]{1,8}", "[a-zA-Z0-9/:=.-]{0,12}");
    ("/[a-zA-Z0-9_./ü-]{0,40}", vec(pair, 0..4)).prop_map(|(path, pairs)| Target {
        path,
        opaque: pairs.into_iter().fold(Opaque::default(), |opaque, (key, value)| opaque.with(key, value)),
    })
}

fn handle() -> impl Strategy<Value = FileHandle> {
    any::<u32>().prop_map(FileHandle::of)
}

fn subject() -> impl Strategy<Value = Subject> {
    prop_oneof![target().prop_map(Subject::Path), handle().prop_map(Subject::Handle)]
}

fn offset() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}

fn length() -> impl Strategy<Value = u32> {
    0..=i32::MAX as u32
}

fn elements() -> impl Strategy<Value = Vec<VectorElement>> {
    let element = (handle(), 0u32..1 << 20, offset());
    vec(element.prop_map(|(handle, length, offset)| VectorElement { handle, length, offset }), 1..20)
}

fn line() -> impl Strategy<Value = String> {
    "/[a-z/]{0,20}"
}

fn session_request() -> BoxedStrategy<Request> {
    let login = (any::<i32>(), "[a-z]{0,8}", any::<[u8; 3]>(), "[a-z&=?.]{0,20}").prop_map(
        |(pid, username, a, token)| {
            Request::Login(Login { pid, username, ability2: a[0], ability: a[1], capability: a[2], token })
        },
    );
    let protocol = any::<(u32, u8, u8)>().prop_map(|(client_version, flags, expect)| {
        Request::Protocol(Protocol { client_version, flags, expect })
    });
    let auth = (any::<[u8; 4]>(), vec(any::<u8>(), 0..40))
        .prop_map(|(kind, credentials)| Request::Auth(Auth { kind, credentials }));
    let sigver = (any::<(u16, bool, u64, u8)>(), vec(any::<u8>(), 1..SIGNATURE_BYTES_MAX)).prop_map(
        |((request, covers_data, number, crypto), signature)| {
            Request::Sigver(Sigver { request, covers_data, number, crypto, signature })
        },
    );
    let query = (prop::sample::select(QueryCode::ALL), handle(), vec(any::<u8>(), 0..40))
        .prop_map(|(code, handle, args)| Request::Query(Query { code, handle, args }));
    let prepare = (any::<(u8, bool, u8, u16)>(), vec(line(), 1..5)).prop_map(
        |((options, is_evict, priority, port), lines)| {
            Request::Prepare(Prepare { options: PrepareOptions(options), is_evict, priority, port, lines })
        },
    );
    let name = || "[a-z.]{1,12}";
    let action = prop_oneof![
        vec(name(), 1..5).prop_map(FattrAction::Remove),
        vec(name(), 1..5).prop_map(FattrAction::Get),
        any::<bool>().prop_map(|with_values| FattrAction::List { with_values }),
        (any::<bool>(), vec((name(), vec(any::<u8>(), 0..20)), 1..5))
            .prop_map(|(is_new, pairs)| FattrAction::Set { is_new, pairs }),
    ];
    let fattr = (subject(), action).prop_map(|(subject, action)| Request::Fattr(Fattr { subject, action }));
    let ids = prop_oneof![
        any::<[u8; 16]>().prop_map(Request::Endsess),
        any::<[u8; 16]>().prop_map(Request::Bind),
        (any::<bool>(), "[a-z ]{0,20}")
            .prop_map(|(is_of_cache, text)| Request::Set(Setting { is_of_cache, text })),
        Just(Request::Ping),
    ];
    Union::new([
        protocol.boxed(),
        login.boxed(),
        auth.boxed(),
        sigver.boxed(),
        query.boxed(),
        prepare.boxed(),
        fattr.boxed(),
        ids.boxed(),
    ])
    .boxed()
}

fn name_request() -> BoxedStrategy<Request> {
    let open = (any::<(u16, u16, u16)>(), handle(), target()).prop_map(
        |((mode, flags, flags2), template, target)| {
            Request::Open(Open { mode, flags: OpenFlags(flags), flags2, template, target })
        },
    );
    let truncate =
        (subject(), offset()).prop_map(|(subject, size)| Request::Truncate(Truncate { subject, size }));
    let stat = (subject(), any::<bool>())
        .prop_map(|(subject, is_filesystem)| Request::Stat(Stat { subject, is_filesystem }));
    let dirlist = (any::<u8>(), target())
        .prop_map(|(options, target)| Request::Dirlist(Dirlist { options: DirlistOptions(options), target }));
    let mkdir = (any::<(bool, u16)>(), target())
        .prop_map(|((make_path, mode), target)| Request::Mkdir(Mkdir { make_path, mode, target }));
    let mv = (target(), target()).prop_map(|(from, to)| Request::Mv(Mv { from, to }));
    let chmod = (any::<u16>(), target()).prop_map(|(mode, target)| Request::Chmod(Chmod { mode, target }));
    let locate = (any::<u16>(), target())
        .prop_map(|(options, target)| Request::Locate(Locate { options: OpenFlags(options), target }));
    Union::new([
        open.boxed(),
        truncate.boxed(),
        stat.boxed(),
        vec(target(), 1..5).prop_map(Request::Statx).boxed(),
        dirlist.boxed(),
        mkdir.boxed(),
        target().prop_map(Request::Rm).boxed(),
        target().prop_map(Request::Rmdir).boxed(),
        mv.boxed(),
        chmod.boxed(),
        locate.boxed(),
    ])
    .boxed()
}

fn data_request() -> BoxedStrategy<Request> {
    let range = || (handle(), offset(), length(), any::<u8>());
    prop_oneof![
        range().prop_map(|(handle, offset, length, path_id)| Request::Read(Read {
            handle,
            offset,
            length,
            path_id
        })),
        (range(), any::<bool>()).prop_map(|((handle, offset, length, path_id), is_retry)| {
            Request::Pgread(Pgread { handle, offset, length, path_id, is_retry })
        }),
        range().prop_map(|(handle, offset, length, path_id)| Request::Write(Write {
            handle,
            offset,
            path_id,
            length
        })),
        (range(), any::<bool>()).prop_map(|((handle, offset, length, path_id), is_retry)| {
            Request::Pgwrite(Pgwrite { handle, offset, path_id, is_retry, length })
        }),
        (elements(), any::<u8>()).prop_map(|(elements, path_id)| Request::Readv(Readv { elements, path_id })),
        (elements(), any::<bool>())
            .prop_map(|(elements, is_sync)| Request::Writev(Writev { is_sync, elements })),
        handle().prop_map(Request::Close),
        handle().prop_map(Request::Sync),
    ]
    .boxed()
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![session_request(), name_request(), data_request()]
}

fn plain_answer() -> impl Strategy<Value = Answer> {
    let bytes = || vec(any::<u8>(), 0..60);
    let message = || "[a-zA-Z ü:]{0,40}";
    prop_oneof![
        bytes().prop_map(Answer::Ok),
        bytes().prop_map(Answer::OkSoFar),
        bytes().prop_map(Answer::AuthMore),
        (any::<u32>(), message()).prop_map(|(code, message)| Answer::Error { code, message }),
        ("[a-z.]{1,20}", any::<u16>(), "([a-z]=[a-z]){0,3}")
            .prop_map(|(host, port, opaque)| Answer::Redirect(Redirect { host, port, opaque })),
        (any::<u32>(), message()).prop_map(|(seconds, message)| Answer::Wait { seconds, message }),
        any::<u32>().prop_map(|seconds| Answer::WaitResp { seconds }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let later = (any::<u16>(), plain_answer()).prop_map(|(stream, answer)| Answer::Later {
        stream: StreamId::of(stream),
        answer: Box::new(answer),
    });
    prop_oneof![plain_answer(), later, "[a-z ]{0,40}".prop_map(Answer::Message)]
}

/// Parses what `encode` made: header, then body.
fn parse_request(bytes: &[u8]) -> Result<(StreamId, Request), Malformed> {
    let (header, body) = bytes.split_first_chunk().expect("encoded requests have a header");
    let header = RequestHeader::parse(header);
    let body = if header.is_data_body() { &[] } else { body };
    Ok((header.stream, Request::parse(&header, body)?))
}

proptest! {
    #[test]
    fn requests_round_trip(request in request(), stream: u16) {
        let bytes = request.encode(StreamId::of(stream));
        prop_assert_eq!(parse_request(&bytes).unwrap(), (StreamId::of(stream), request));
    }

    #[test]
    fn answers_round_trip(answer in answer(), stream: u16) {
        let bytes = answer.encode(StreamId::of(stream));
        let (header, body) = bytes.split_first_chunk().unwrap();
        let header = AnswerHeader::parse(header).unwrap();
        prop_assert_eq!(header.length as usize, body.len());
        prop_assert_eq!(Answer::parse(&header, body).unwrap(), answer);
    }

    #[test]
    fn statuses_round_trip_and_notice_every_flipped_bit(
        stream: u16, data_bytes in length(), offset: u64, is_final: bool, at in 8usize..STATUS_BYTES, bit in 0u8..8,
    ) {
        let kind = if is_final { StatusKind::Final } else { StatusKind::Partial };
        let status = Status { stream: StreamId::of(stream), request: RequestCode::Pgread, kind, data_bytes, offset };
        let mut bytes = status.encode();
        prop_assert_eq!(Status::parse(&bytes[8..]).unwrap(), status);
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(Status::parse(&bytes[8..]), Err(Malformed::Checksum("status")));
    }

    /// A stream of requests is cut by header and length alone, wherever it is split on its way.
    #[test]
    fn requests_are_found_in_a_split_stream(requests in vec(name_request(), 1..6), cuts in vec(1usize..30, 1..40)) {
        let stream: Vec<u8> = requests.iter().flat_map(|request| request.encode(StreamId::of(7))).collect();
        let (mut received, mut found, mut sent, mut cuts) = (Vec::new(), Vec::new(), 0, cuts.iter().cycle());
        while sent < stream.len() {
            let end = stream.len().min(sent + cuts.next().unwrap());
            received.extend_from_slice(&stream[sent..end]);
            sent = end;
            while let Some((header, body)) = received.split_first_chunk::<REQUEST_HEADER_BYTES>() {
                let header = RequestHeader::parse(header);
                let length = header.body_bytes().unwrap();
                let Some(body) = body.get(..length) else { break };
                found.push(Request::parse(&header, body).unwrap());
                received.drain(..REQUEST_HEADER_BYTES + length);
            }
        }
        prop_assert!(received.is_empty());
        prop_assert_eq!(found, requests);
    }

    #[test]
    fn random_bytes_never_panic(data in vec(any::<u8>(), 0..300)) {
        fuzz_request(&data);
        fuzz_response(&data);
    }

    #[test]
    fn changed_messages_never_panic(
        request in request(), answer in answer(), at: prop::sample::Index, value: u8, cut: prop::sample::Index,
    ) {
        for mut bytes in [request.encode(StreamId::of(1)), answer.encode(StreamId::of(1))] {
            let at = at.index(bytes.len());
            bytes[at] = value;
            fuzz_request(&bytes);
            fuzz_response(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            fuzz_request(&bytes);
            fuzz_response(&bytes);
        }
    }

    #[test]
    fn stats_round_trip(id: u64, size: u64, flags: u32, modified_s: i64, owner: Option<(i64, i64, u16)>) {
        let owner = owner.map(|(changed_s, accessed_s, mode)| StatOwner {
            changed_s, accessed_s, mode: u32::from(mode), user: "u".into(), group: "g".into(),
        });
        let stat = StatInfo { id, size, flags: StatFlags(flags), modified_s, owner };
        prop_assert_eq!(StatInfo::parse(&stat.to_string()).unwrap(), stat.clone());
        let open = OpenAnswer { handle: FileHandle::of(3), stat: Some(stat) };
        prop_assert_eq!(OpenAnswer::parse(&open.encode()).unwrap(), open);
    }
}

#[test]
fn a_read_is_these_bytes() {
    let read = Read { handle: FileHandle::of(2), offset: 0x0102_0304_0506, length: 0x1000, path_id: 0 };
    let bytes = Request::Read(read).encode(StreamId::of(5));
    let expected = [0, 5, 0x0b, 0xc5, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0x10, 0, 0, 0, 0, 0];
    assert_eq!(bytes, expected);
}

#[test]
fn names_with_spaces_are_split_by_the_length_given() {
    let mv = Request::Mv(Mv { from: Target::new("/a b"), to: Target::new("/c d") });
    assert_eq!(parse_request(&mv.encode(StreamId::of(1))).unwrap().1, mv);
    let mut header = RequestHeader { stream: StreamId::of(1), code: 3009, params: [0; 16], length: 5 };
    let old = Request::parse(&header, b"/a /b").unwrap();
    assert_eq!(old, Request::Mv(Mv { from: Target::new("/a"), to: Target::new("/b") }));
    header.params[15] = 1;
    assert!(Request::parse(&header, b"/a /b").is_err());
    header.params[15] = 200;
    assert!(Request::parse(&header, b"/a /b").is_err());
}

#[test]
fn negative_and_excessive_arguments_are_refused() {
    let mut header = RequestHeader { stream: StreamId::of(1), code: 3013, params: [0; 16], length: 0 };
    header.params[4] = 0x80;
    assert_eq!(Request::parse(&header, &[]).unwrap_err().code(), ErrorCode::ArgInvalid);
    header.params = [0; 16];
    header.params[12] = 0xff;
    assert_eq!(Request::parse(&header, &[]).unwrap_err().code(), ErrorCode::ArgInvalid);
    let vector = RequestHeader { code: 3025, params: [0; 16], ..header };
    assert_eq!(Request::parse(&vector, &[0; 16 * 1025]).unwrap_err().code(), ErrorCode::ArgTooLong);
    assert_eq!(Request::parse(&vector, &[0; 17]).unwrap_err().code(), ErrorCode::ArgInvalid);
    let unknown = RequestHeader { code: 3999, ..header };
    assert_eq!(Request::parse(&unknown, &[]), Err(Malformed::UnknownRequest(3999)));
    assert!(RequestHeader { length: -1, ..header }.body_bytes().is_err());
}

#[test]
fn failures_keep_their_kind_and_hint() {
    let failure = base::Failure::busy("drive drv2 is in use").hint("wait for it");
    assert_eq!(Answer::failure(&failure).to_failure(), Some(failure));
}

#[test]
fn redirects_carry_opaque_and_token() {
    let body = [&1095u32.to_be_bytes()[..], b"disk1?cap=x?token"].concat();
    let header =
        AnswerHeader { stream: StreamId::of(1), code: AnswerCode::Redirect, length: body.len() as u32 };
    let Ok(Answer::Redirect(redirect)) = Answer::parse(&header, &body) else { panic!("no redirect") };
    assert_eq!(
        (redirect.host.as_str(), redirect.port, redirect.opaque.as_str()),
        ("disk1", 1095, "cap=x&token")
    );
    assert!(!format!("{redirect:?}").contains("cap"));
}

#[test]
fn a_long_name_is_cut_between_characters() {
    for (name, sent) in
        [("maria_goeppert", "maria_go"), ("schrödinger", "schrödi"), ("schröde\u{308}r", "schröde")]
    {
        let bytes =
            Request::Login(Login { username: name.into(), ..Login::default() }).encode(StreamId::default());
        let header = RequestHeader::parse(bytes.first_chunk().unwrap());
        let Request::Login(login) = Request::parse(&header, &[]).unwrap() else {
            panic!("a login stays a login");
        };
        assert_eq!(login.username, sent);
    }
}
