//! Peers that do not prove who they are: what they cost, and that nobody else notices them.

use crate::{
    directory::NOBODY,
    door::Door,
    raw_sessions::{Raw, code_of},
};
use base::limits::{UNPROVEN_CALLS_MAX, UNPROVEN_REQUEST_BYTES_MAX};
use net::unproven::{Limits, PROOF_DEADLINE};
use std::{net::TcpStream, sync::atomic::Ordering, time::Duration};
use wire::xrd::{
    Answer, ErrorCode, FileHandle, HANDSHAKE, Login, Open, OpenFlags, Prepare, PrepareOptions, Query,
    QueryCode, Request, StreamId, Target, Write as WriteRequest,
};

const FEW: Limits = Limits {
    sessions_max: 32,
    sessions_per_address_max: 16,
    bytes_max: 1 << 20,
    requests_per_s_max: 100,
    deadline: PROOF_DEADLINE,
};

/// A request with a body of so many bytes.
fn prepare(bytes: usize) -> Request {
    let lines = vec![format!("/{}", "x".repeat(199)); bytes.div_ceil(201)];
    Request::Prepare(Prepare { options: PrepareOptions(8), is_evict: false, priority: 0, port: 0, lines })
}

#[test]
fn whoever_is_silent_locks_nobody_out() {
    let door = Door::with_places(8, FEW);
    let mut silent: Vec<_> = (0..100).map(|_| Raw(TcpStream::connect(door.address).unwrap())).collect();
    let mut ann = Raw::login_as(&door, "ann");
    assert!(matches!(ann.call(&Request::Ping), Answer::Ok(_)));
    assert!(silent[0].is_closed(), "the oldest is gone");
    assert!(door.budget.sessions() <= 16 && door.budget.displaced() >= 84);
}

#[test]
fn whoever_logs_in_and_proves_nothing_locks_nobody_out() {
    let door = Door::with_places(8, FEW);
    let mut nobodies: Vec<_> = (0..100).map(|_| Raw::login_as(&door, NOBODY)).collect();
    let mut ann = Raw::login_as(&door, "ann");
    assert!(matches!(ann.call(&Request::Ping), Answer::Ok(_)));
    assert!(nobodies[0].is_closed());
    assert!(matches!(nobodies[99].call(&Request::Ping), Answer::Ok(_)), "the newest is still served");
    assert!(door.budget.sessions() <= 16);
}

#[test]
fn a_full_door_says_so_at_the_login() {
    let door = Door::with_places(1, Limits { requests_per_s_max: u32::MAX, ..FEW });
    // Both are accepted while the one place is free.
    let mut raws = [Raw::connect(&door), Raw::connect(&door)];
    for raw in &mut raws {
        raw.send(&HANDSHAKE);
        raw.receive();
    }
    let [mut first, mut second] = raws;
    let login = Request::Login(Login { capability: 133, ..Login::default() });
    assert!(matches!(first.call(&login), Answer::Ok(_)));
    assert!(!matches!(second.call(&login), Answer::Ok(_)));
    drop(first);
    // The session ends in a moment.
    while !matches!(second.call(&login), Answer::Ok(_)) {}
}

#[test]
fn a_proof_has_to_come_in_time() {
    let door = Door::with_places(8, Limits { deadline: Duration::from_millis(500), ..FEW });
    let mut ann = Raw::login_as(&door, "ann");
    let mut late = [Raw::connect(&door), Raw::login_as(&door, NOBODY)];
    // Half a request does not buy time, nor does a whole one.
    late[0].send(&HANDSHAKE[..4]);
    late[1].call(&Request::Ping);
    assert!(late.iter_mut().all(Raw::is_closed));
    assert!(matches!(ann.call(&Request::Ping), Answer::Ok(_)));
    assert_eq!(door.budget.displaced(), 0);
}

#[test]
fn a_long_request_is_for_those_who_are_proven() {
    let door = Door::open();
    let long = prepare(2 * UNPROVEN_REQUEST_BYTES_MAX);
    let mut ann = Raw::login_as(&door, "ann");
    assert!(!matches!(ann.call(&long), Answer::Error { code, .. } if code == ErrorCode::ArgTooLong.code()));
    let mut nobody = Raw::login_as(&door, NOBODY);
    assert_eq!(code_of(&nobody.call(&long)), ErrorCode::ArgTooLong.code());
    assert!(nobody.is_closed());
    let mut nobody = Raw::login_as(&door, NOBODY);
    nobody.call(&prepare(UNPROVEN_REQUEST_BYTES_MAX / 2));
    assert!(matches!(nobody.call(&Request::Ping), Answer::Ok(_)));
}

#[test]
fn data_of_nobody_are_not_received() {
    let door = Door::open();
    let mut nobody = Raw::login_as(&door, NOBODY);
    let write = WriteRequest { handle: FileHandle::of(0), offset: 0, path_id: 0, length: 1 << 20 };
    assert_eq!(code_of(&nobody.call(&Request::Write(write))), ErrorCode::NotAuthorized.code());
    assert!(nobody.is_closed());
}

#[test]
fn requests_that_are_kept_in_memory_are_bounded_as_a_whole() {
    let limits = Limits { sessions_per_address_max: 512, sessions_max: 512, ..FEW };
    let door = Door::with_places(8, limits);
    let (body, held) = (prepare(UNPROVEN_REQUEST_BYTES_MAX - 300).encode(StreamId::of(1)), 60_000);
    // Nearly all of a request, again and again: each is kept until the rest comes.
    let mut nobodies: Vec<_> = (0..100).map(|_| Raw::login_as(&door, NOBODY)).collect();
    for nobody in &mut nobodies {
        // Those before it may be gone, never itself.
        nobody.send(&body[..held]);
        nobody.0.set_nonblocking(false).unwrap();
    }
    let mut ann = Raw::login_as(&door, "ann");
    assert!(matches!(ann.call(&prepare(500_000)), Answer::Ok(_) | Answer::Error { .. }));
    assert!(nobodies[0].is_closed());
    // 1 MiB is for some 17 of them.
    assert!(door.budget.displaced() >= 80, "{}", door.budget.displaced());
}

#[test]
fn whoever_asks_for_too_much_is_ended() {
    let door = Door::with_places(8, FEW);
    let mut nobody = Raw::login_as(&door, NOBODY);
    let pings = Request::Ping.encode(StreamId::of(1)).repeat(1000);
    nobody.send(&pings);
    let answers = std::iter::from_fn(|| (!nobody.is_closed()).then_some(())).count();
    assert!(answers < 1000, "its connection ended");
    let mut ann = Raw::login_as(&door, "ann");
    ann.send(&pings);
    (0..1000).for_each(|_| assert_eq!(ann.receive().1.len(), 0));
}

#[test]
fn few_calls_of_nobody_are_under_way() {
    let door = Door::open();
    let mut nobody = Raw::login_as(&door, NOBODY);
    let (template, flags) = (FileHandle::default(), OpenFlags(0x10));
    for number in 0..=UNPROVEN_CALLS_MAX {
        let target = Target::new(format!("/tape{number}"));
        let open = Open { mode: 0, flags, flags2: 0, template, target };
        nobody.send(&Request::Open(open).encode(StreamId::of(100 + number as u16)));
    }
    let answer = loop {
        let (header, body) = nobody.receive();
        match Answer::parse(&header, &body).unwrap() {
            Answer::WaitResp { .. } => {}
            answer => break answer,
        }
    };
    assert!(matches!(answer, Answer::Wait { .. }), "{answer:?}");
}

#[test]
fn a_proof_that_comes_later_counts_for_all_connections_of_the_session() {
    let door = Door::with_places(8, FEW);
    let mut nobody = Raw::connect(&door);
    let login = Login { username: NOBODY.to_owned(), capability: 133, ..Login::default() };
    nobody.send(&[HANDSHAKE.to_vec(), Request::Login(login).encode(StreamId::of(1))].concat());
    nobody.receive();
    let id: [u8; 16] = nobody.receive().1[..16].try_into().unwrap();
    let mut second = Raw::connect(&door);
    second.send(&[HANDSHAKE.to_vec(), Request::Bind(id).encode(StreamId::of(1))].concat());
    second.receive();
    assert_eq!(second.receive().1, [1]);
    assert_eq!(door.budget.sessions(), 2);
    door.service.is_everybody_proven.store(true, Ordering::Relaxed);
    assert!(matches!(nobody.call(&Request::Ping), Answer::Ok(_)));
    let config = Query { code: QueryCode::Config, handle: FileHandle::default(), args: b"tpc".to_vec() };
    assert!(matches!(nobody.call(&Request::Query(config)), Answer::Ok(_)));
    // The further connection is told by a thread of its own.
    while door.budget.sessions() > 0 {
        std::thread::yield_now();
    }
}
