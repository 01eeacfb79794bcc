//! The client against a scripted server: waits, redirects, late answers, silence and nonsense.

use super::server::{opened, options, path, serve, session};
use crate::xrd::{CreateOptions, File, FileSystem, Options, XrdUrl};
use base::{ErrorKind, Result};
use std::{
    collections::HashSet,
    net::TcpListener,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use wire::xrd::{Answer, ErrorCode, Redirect, Request, StreamId};

#[test]
fn a_late_answer_is_matched_among_messages() {
    let url = serve(|_, stream, _| {
        let later = Answer::Later { stream, answer: Box::new(opened(7)) };
        let answers = [Answer::WaitResp { seconds: 300 }, Answer::Message("drive is busy".into()), later];
        answers.map(|answer| answer.encode(stream)).concat()
    });
    assert_eq!(File::open_read(&url, &options()).unwrap().size(), 7);
}

#[test]
fn redirects_are_followed_with_what_they_add() {
    let data = serve(|_, stream, request| {
        let Request::Open(open) = request else {
            return Vec::new();
        };
        let opaque = &open.target.opaque;
        assert_eq!((opaque.get("a"), opaque.get("cap")), (Some("1"), Some("xyz")));
        opened(9).encode(stream)
    });
    let (host, port) = (data.host.clone(), data.port);
    let head = serve(move |_, stream, _| {
        let redirect = Redirect { host: host.clone(), port, opaque: "cap=xyz".into() };
        Answer::Redirect(redirect).encode(stream)
    });
    let file = File::open_read(&head, &options()).unwrap();
    assert_eq!((file.size(), file.server()), (9, data.authority().as_str()));
}

#[test]
fn whoever_sends_to_a_server_that_is_gone_is_told_and_asked_for_another() {
    let data = serve(|_, stream, _| opened(9).encode(stream));
    let port = data.port;
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let answer = move |request: &Request| {
        let Request::Open(open) = request else { return None };
        Some(open.target.opaque.get("tried").map(str::to_owned))
    };
    let head = serve(move |_, stream, request| match answer(&request) {
        Some(tried) => {
            let port = if tried.as_deref() == Some("127.0.0.1") { port } else { gone };
            let redirect = Redirect { host: "127.0.0.1".into(), port, opaque: String::new() };
            Answer::Redirect(redirect).encode(stream)
        }
        None => Answer::Ok(Vec::new()).encode(stream),
    });
    let file = File::open_read(&head, &options()).unwrap();
    assert_eq!((file.size(), file.server()), (9, data.authority().as_str()));
    // One that knows no other is not asked for ever.
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let stubborn = serve(move |_, stream, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let redirect = Redirect { host: "127.0.0.1".into(), port: gone, opaque: String::new() };
        Answer::Redirect(redirect).encode(stream)
    });
    let failure = File::open_read(&stubborn, &options()).unwrap_err();
    assert!(failure.to_string().contains(&stubborn.authority()), "{failure}");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[test]
fn redirects_in_a_circle_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let redirect = Redirect { host: "127.0.0.1".into(), port, opaque: String::new() };
            let answer = |stream, _| Answer::Redirect(redirect.clone()).encode(stream);
            let _ = session(&mut socket.unwrap(), &answer);
        }
    });
    let url: XrdUrl = format!("root://127.0.0.1:{port}//f").parse().unwrap();
    assert_eq!(File::open_read(&url, &options()).unwrap_err().kind, ErrorKind::Unavailable);
}

#[test]
fn asked_to_come_again_it_comes_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let url = serve(move |_, stream, _| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Answer::Wait { seconds: 0, message: "staging".into() }.encode(stream),
        _ => opened(1).encode(stream),
    });
    assert!(File::open_read(&url, &options()).is_ok());
    let forever = serve(|_, stream, _| Answer::Wait { seconds: 3600, message: String::new() }.encode(stream));
    let impatient = Options { wait_max: Duration::from_secs(60), ..options() };
    assert_eq!(File::open_read(&forever, &impatient).unwrap_err().kind, ErrorKind::Timeout);
}

#[test]
fn answers_in_any_order_are_read_in_order() {
    let held = std::sync::Mutex::new(Vec::new());
    let url = serve(move |_, stream, request| match request {
        Request::Open(_) => opened(40).encode(stream),
        Request::Read(read) => {
            let bytes: Vec<u8> =
                (read.offset..read.offset + u64::from(read.length)).map(|at| at as u8).collect();
            let mut held = held.lock().unwrap();
            // Each answer comes in two parts, all of them in reverse order.
            let (front, back) = bytes.split_at(4);
            let parts = [Answer::OkSoFar(front.to_vec()), Answer::Ok(back.to_vec())];
            held.push(parts.map(|part| part.encode(stream)).concat());
            if held.len() < 4 {
                return Answer::Message("wait".into()).encode(stream);
            }
            held.iter().rev().flatten().copied().collect()
        }
        _ => Vec::new(),
    });
    let options = Options { chunk_bytes: 10, window_bytes: 40, ..options() };
    let file = File::open_read(&url, &options).unwrap();
    let mut all = Vec::new();
    let copied: Result<()> = file.copy_to(&mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    });
    copied.unwrap();
    assert_eq!(all, (0..40).collect::<Vec<u8>>());
}

#[test]
fn a_failed_write_is_reported_at_the_latest_by_finish() {
    let url = serve(|_, stream, request| match request {
        Request::Open(_) => opened(0).encode(stream),
        Request::Write(write) if write.offset == 20 => {
            Answer::error(ErrorCode::NoSpace, "pool main is full; hint: free space").encode(stream)
        }
        _ => Answer::Ok(Vec::new()).encode(stream),
    });
    let options = Options { chunk_bytes: 10, window_bytes: 1000, ..options() };
    let file = File::create(&url, &options, CreateOptions::default()).unwrap();
    let mut writer = file.writer();
    writer.push(&[1; 45]).unwrap();
    let failure = writer.finish().unwrap_err();
    assert_eq!((failure.kind, failure.hint.as_deref()), (ErrorKind::NoSpace, Some("free space")));
    assert!(file.close().is_err());
}

#[test]
fn silence_and_nonsense_are_failures_and_a_new_connection_is_made() {
    let url = serve(|number, stream, _| match number {
        0 => Vec::new(),
        1 => vec![0xff; 64],
        2 => Answer::Ok(vec![0; 8]).encode(StreamId::of(stream.number() + 1)),
        _ => Answer::Ok(b"1 2 3 4\0".to_vec()).encode(stream),
    });
    let names = FileSystem::new(&url, &Options { retry_max: 0, ..options() });
    for _ in 0..3 {
        assert_eq!(names.stat(&path("/f")).unwrap_err().kind, ErrorKind::Unavailable);
    }
    assert_eq!(names.stat(&path("/f")).unwrap().size, 2);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url: XrdUrl = format!("root://{}//f", silent.local_addr().unwrap()).parse().unwrap();
    let impatient = Options { progress_timeout: Duration::from_millis(50), ..options() };
    assert_eq!(File::open_read(&url, &impatient).unwrap_err().kind, ErrorKind::Timeout);
}

#[test]
fn an_open_file_that_is_elsewhere_now_is_opened_again() {
    let opens = AtomicUsize::new(0);
    let url = serve(move |_, stream, request| match request {
        Request::Open(_) => {
            opens.fetch_add(1, Ordering::SeqCst);
            opened(4).encode(stream)
        }
        // What was opened at first is here no more.
        Request::Read(_) if opens.load(Ordering::SeqCst) % 2 == 1 => {
            let redirect = Redirect { host: "127.0.0.1".into(), port: 1, opaque: String::new() };
            Answer::Redirect(redirect).encode(stream)
        }
        Request::Read(_) => Answer::Ok(b"data".to_vec()).encode(stream),
        _ => Answer::Ok(Vec::new()).encode(stream),
    });
    let options = Options { retry_max: 1, ..options() };
    let mut buffer = [0; 4];
    let file = File::open_read(&url, &options).unwrap();
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer, b"data");
    let file = File::open_read(&url, &options).unwrap();
    file.copy_to(&mut |piece| {
        assert_eq!(piece, b"data");
        Ok(())
    })
    .unwrap();
}

#[test]
fn waits_of_a_download_add_up() {
    let began = OnceLock::new();
    let url = serve(move |_, stream, request| match request {
        Request::Open(_) => opened(4).encode(stream),
        Request::Read(_) if began.get_or_init(Instant::now).elapsed() < Duration::from_secs(2) => {
            Answer::Wait { seconds: 0, message: String::new() }.encode(stream)
        }
        _ => Answer::Ok(b"data".to_vec()).encode(stream),
    });
    let file = File::open_read(&url, &Options { wait_max: Duration::from_millis(50), ..options() }).unwrap();
    assert_eq!(file.copy_to(&mut |_| Ok(())).unwrap_err().kind, ErrorKind::Timeout);
}

#[test]
fn a_download_that_gets_on_may_wait_anew() {
    let wait_max = Duration::from_millis(100);
    let asked = Mutex::new(HashSet::new());
    let url = serve(move |_, stream, request| match request {
        Request::Open(_) => opened(20).encode(stream),
        Request::Read(read) if asked.lock().unwrap().insert(read.offset) => {
            Answer::Wait { seconds: 0, message: String::new() }.encode(stream)
        }
        _ => Answer::Ok(vec![7; 10]).encode(stream),
    });
    let options = Options { wait_max, chunk_bytes: 10, window_bytes: 10, ..options() };
    let file = File::open_read(&url, &options).unwrap();
    // Taking the data is no waiting for the server.
    let slow: Result<()> = file.copy_to(&mut |_| {
        let taken = Instant::now() + wait_max;
        while Instant::now() < taken {
            thread::yield_now();
        }
        Ok(())
    });
    slow.unwrap();
}
