//! Rules of the head on its thread: groups of calls, replies after the commit, waiting calls, bounds.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod callers;
#[path = "../support/mod.rs"]
mod support;
mod waiting;

use base::{ErrorKind, Result, Timestamp, limits::HEAD_QUEUE_LEN_MAX};
use head::{Apply, Context, Core, Head, HeadConfig, Principal, store::FacilityRow};
use serde::{Deserialize, Serialize};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Poll, Waker},
    thread::JoinHandle,
};
use support::{as_owner, path};
use waiting::server;
use wire::{
    auth::{capability::CapKeys, token::TokenKey},
    control::{Audience, Call, Done, Effect, GetStatus, Mkdir, Stat},
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// A facility in a directory of its own, and who may do everything there.
struct Facility {
    directory: tempfile::TempDir,
    owner: Principal,
}

impl Facility {
    fn new() -> Self {
        let facility = Self { directory: tempfile::tempdir().unwrap(), owner: as_owner("ada") };
        let row = FacilityRow {
            id: "f".into(),
            name: "test".into(),
            owner: "ada".into(),
            created: NOW,
            incarnation: 0,
        };
        Core::create(&facility.catalogue(), &row).unwrap();
        facility
    }

    fn catalogue(&self) -> std::path::PathBuf {
        self.directory.path().join("catalogue")
    }

    fn core(&self) -> Core {
        let config = HeadConfig {
            keys: CapKeys::derive(&[7; 32]),
            tokens: TokenKey::derive(&[7; 32]),
            server: server(),
            pool: "main".into(),
        };
        Core::open(&self.catalogue(), config, NOW).unwrap()
    }

    /// Starts the head. Every group asks the clock once, so the counter counts groups.
    fn start(&self) -> (Head, JoinHandle<()>, Arc<Mutex<u32>>) {
        let groups = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&groups);
        let clock = move || {
            *counter.lock().unwrap() += 1;
            NOW
        };
        let (head, thread) = Head::start(self.core(), Arc::new(clock)).unwrap();
        (head, thread, groups)
    }
}

/// A call that says when it is being carried out and goes on when it is told to, or dies.
#[derive(Clone, Serialize, Deserialize)]
struct Hold {
    #[serde(skip)]
    gate: Option<Arc<Gate>>,
    dies: bool,
}

struct Gate {
    reached: mpsc::Sender<()>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Call for Hold {
    const NAME: &'static str = "hold";
    const AUDIENCE: Audience = Audience::Rooms;
    const EFFECT: Effect = Effect::Reads;
    const NAMED: &'static [&'static str] = &[];
    type Reply = Done;
}

impl Apply for Hold {
    fn apply(self, _: &mut Core, _: &Context) -> Result<Done> {
        if let Some(gate) = self.gate {
            gate.reached.send(()).unwrap();
            gate.go.lock().unwrap().recv().unwrap();
        }
        assert!(!self.dies, "the test wants the head to die here");
        Ok(Done {})
    }
}

/// A holding call, the news that it is reached, and the word to go on.
fn hold(dies: bool) -> (Hold, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (reached, is_reached) = mpsc::channel();
    let (go_on, go) = mpsc::channel();
    let gate = Gate { reached, go: Mutex::new(go) };
    (Hold { gate: Some(Arc::new(gate)), dies }, is_reached, go_on)
}

type Pending<T> = Pin<Box<dyn Future<Output = Result<T>>>>;

/// Sends a call now; its answer comes later.
fn send<C: Apply>(head: &Head, who: &Principal, call: C) -> Pending<C::Reply> {
    let (head, who) = (head.clone(), who.clone());
    let mut answer: Pending<C::Reply> = Box::pin(async move { head.call(&who, call).await });
    if let Some(answer) = poll(&mut answer) {
        return Box::pin(async { answer });
    }
    answer
}

/// The answer, if it is there.
fn poll<T>(answer: &mut Pending<T>) -> Option<Result<T>> {
    let mut context = std::task::Context::from_waker(Waker::noop());
    match answer.as_mut().poll(&mut context) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn mkdir(at: &str) -> Mkdir {
    Mkdir { path: path(at), mode: 0o755, parents: false }
}

#[test]
fn calls_that_wait_are_carried_out_as_one_group() {
    let facility = Facility::new();
    let (head, _thread, groups) = facility.start();
    let (blocker, is_reached, go_on) = hold(false);
    let first = send(&head, &facility.owner, blocker);
    is_reached.recv().unwrap();
    let waiting: Vec<_> = (0..100).map(|n| send(&head, &facility.owner, mkdir(&format!("/d{n}")))).collect();
    go_on.send(()).unwrap();
    wait(first).unwrap();
    for answer in waiting {
        wait(answer).unwrap();
    }
    assert_eq!(*groups.lock().unwrap(), 2);
}

#[test]
fn a_reply_comes_only_after_the_commit_of_its_group() {
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    let (first, first_is_reached, first_go_on) = hold(false);
    let (last, last_is_reached, last_go_on) = hold(false);
    let first = send(&head, &facility.owner, first);
    first_is_reached.recv().unwrap();
    // Both wait, so they make one group, in this order.
    let mut made = send(&head, &facility.owner, mkdir("/d"));
    let last = send(&head, &facility.owner, last);
    first_go_on.send(()).unwrap();
    wait(first).unwrap();
    last_is_reached.recv().unwrap();
    assert!(poll(&mut made).is_none(), "carried out, not committed");
    last_go_on.send(()).unwrap();
    wait(made).unwrap();
    wait(last).unwrap();
}

#[test]
fn the_namespace_has_its_new_version_when_the_first_caller_of_a_group_is_answered() {
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    let (blocker, is_reached, go_on) = hold(false);
    let (last, last_is_reached, last_go_on) = hold(false);
    let first = send(&head, &facility.owner, blocker);
    is_reached.recv().unwrap();
    let reader = send(&head, &facility.owner, Stat { path: path("/") });
    let made = send(&head, &facility.owner, mkdir("/d"));
    let last = send(&head, &facility.owner, last);
    go_on.send(()).unwrap();
    wait(first).unwrap();
    last_is_reached.recv().unwrap();
    let before = head.namespace_version();
    last_go_on.send(()).unwrap();
    wait(reader).unwrap();
    assert_eq!(head.namespace_version(), before + 1, "the reader of the group is answered first");
    wait(made).unwrap();
    wait(last).unwrap();
    wait(head.call(&facility.owner, GetStatus {})).unwrap();
    assert_eq!(head.clone().namespace_version(), before + 1);
}

#[test]
fn a_head_that_dies_in_a_group_has_acknowledged_nothing_of_it() {
    let facility = Facility::new();
    let (head, thread, _) = facility.start();
    let (first, is_reached, go_on) = hold(false);
    let first = send(&head, &facility.owner, first);
    is_reached.recv().unwrap();
    let made = send(&head, &facility.owner, mkdir("/d"));
    let dead = send(&head, &facility.owner, Hold { gate: None, dies: true });
    go_on.send(()).unwrap();
    wait(first).unwrap();
    assert_eq!(wait(made).unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(wait(dead).unwrap_err().kind, ErrorKind::Unavailable);
    thread.join().unwrap_err();
    let late = wait(head.call(&facility.owner, GetStatus {}));
    assert_eq!(late.unwrap_err().kind, ErrorKind::Unavailable, "a stopped head says so");
    let context = Context { who: facility.owner.clone(), now: NOW };
    let found = facility.core().call(&context, Stat { path: path("/d") });
    assert_eq!(found.unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_refused_call_does_not_take_its_group_with_it() {
    let facility = Facility::new();
    let (head, thread, groups) = facility.start();
    let (blocker, is_reached, go_on) = hold(false);
    let first = send(&head, &facility.owner, blocker);
    is_reached.recv().unwrap();
    let good = send(&head, &facility.owner, mkdir("/a"));
    let bad = send(&head, &facility.owner, mkdir("/missing/a"));
    let other = send(&head, &facility.owner, mkdir("/b"));
    go_on.send(()).unwrap();
    wait(first).unwrap();
    wait(good).unwrap();
    assert_eq!(wait(bad).unwrap_err().kind, ErrorKind::NotFound);
    wait(other).unwrap();
    assert_eq!(*groups.lock().unwrap(), 2);
    drop(head);
    thread.join().unwrap();
    let context = Context { who: facility.owner.clone(), now: NOW };
    let mut core = facility.core();
    for name in ["/a", "/b"] {
        core.call(&context, Stat { path: path(name) }).unwrap();
    }
}

#[test]
fn a_full_queue_is_busy() {
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    let (blocker, is_reached, go_on) = hold(false);
    let first = send(&head, &facility.owner, blocker);
    is_reached.recv().unwrap();
    let nothing = || Hold { gate: None, dies: false };
    let mut waiting: Vec<_> =
        (0..HEAD_QUEUE_LEN_MAX).map(|_| send(&head, &facility.owner, nothing())).collect();
    assert!(waiting.iter_mut().all(|answer| poll(answer).is_none()));
    let refused = wait(head.call(&facility.owner, nothing()));
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Busy);
    go_on.send(()).unwrap();
    wait(first).unwrap();
    for answer in waiting {
        wait(answer).unwrap();
    }
}

#[test]
fn what_a_caller_asked_for_is_done_even_if_it_has_gone() {
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    drop(send(&head, &facility.owner, mkdir("/d")));
    wait(head.call(&facility.owner, Stat { path: path("/d") })).unwrap();
}
