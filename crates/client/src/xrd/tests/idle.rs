//! What is left on a connection that nobody uses, and a server that hangs in the middle of it.

use super::server::{Fault, Host, options, path, sample, serve};
use crate::xrd::{
    FileSystem, Options, XrdUrl,
    connections::{self, Key, Lease, Purpose},
    mux::{Sink, Wait},
    process::lock,
    task::now,
};
use std::{
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};
use wire::xrd::{Answer, FileHandle, Read, Request, Stat, Subject, Target};

/// Longer than what is tested takes, unless it hangs.
const HANGS: Duration = Duration::from_secs(10);

/// A server that ends in the middle of its answer to the first request, and keeps the connection.
fn hanging() -> XrdUrl {
    let first = OnceLock::new();
    serve(move |_, stream, _| {
        if first.set(stream).is_ok() {
            return Answer::Message("busy".into()).encode(stream);
        }
        let half = Answer::Ok(vec![1; 100]).encode(*first.get().unwrap());
        [&Answer::Ok(b"1 2 3 4".to_vec()).encode(stream), &half[..50]].concat()
    })
}

fn lease(url: &XrdUrl, options: &Options) -> Lease {
    now(connections::take(&Key::of(url, options), options, Purpose::Call, Wait::Thread)).unwrap()
}

fn stat() -> Request {
    let subject = Subject::Path(Target::new("/f"));
    Request::Stat(Stat { subject, is_filesystem: false })
}

/// Asks for what `request` wants and does not wait for it; half of the answer is there when this returns.
fn leave_half(lease: &Lease, request: &Request, sink: Sink) {
    let ticket = lease.mux().submit(request, sink).unwrap();
    let second = lease.mux().submit(&stat(), Sink::Gather { max: 1000 }).unwrap();
    now(second.answer(Wait::Thread, &mut [])).unwrap();
    drop(ticket);
}

/// What `act` returns, unless it hangs.
fn in_time<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(act()));
    receiver.recv_timeout(HANGS).expect("it hangs for ever")
}

#[test]
fn data_that_nobody_wants_are_not_waited_for() {
    let options = options();
    let lease = lease(&hanging(), &options);
    let read = Read { handle: FileHandle::of(3), offset: 0, length: 100, path_id: 0 };
    leave_half(&lease, &Request::Read(read), Sink::Data { wanted: 100 });
    let mux = Arc::clone(lease.mux());
    assert!(!in_time(move || mux.is_fresh()));
}

#[test]
fn half_an_answer_that_nobody_wants_is_waited_for_as_long_as_any() {
    let options = Options { progress_timeout: Duration::from_millis(50), ..options() };
    let lease = lease(&hanging(), &options);
    leave_half(&lease, &stat(), Sink::Gather { max: 1000 });
    let mux = Arc::clone(lease.mux());
    assert!(!in_time(move || mux.is_fresh()));
}

#[test]
fn who_looks_at_one_connection_keeps_nobody_from_another() {
    let host = Host::new(sample(5), |_| Fault::None);
    let (url, options) = (hanging(), options());
    let idle = lease(&url, &options);
    leave_half(&idle, &stat(), Sink::Gather { max: 1000 });
    let mux = Arc::downgrade(idle.mux());
    drop(idle);
    // It was not used for so long that it is looked at.
    let long_ago = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
    *lock(&mux.upgrade().unwrap().idle_since) = long_ago;
    let (again, own) = (url.clone(), options.clone());
    thread::spawn(move || lease(&again, &own));
    let patience = Instant::now() + HANGS;
    while !mux.upgrade().is_some_and(|mux| mux.is_led()) && Instant::now() < patience {
        thread::yield_now();
    }
    let other = host.url.clone();
    assert_eq!(in_time(move || FileSystem::new(&other, &options).stat(&path("/f")).unwrap().size), 5);
}
