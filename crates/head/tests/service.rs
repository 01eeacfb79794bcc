//! Rules of the head on its thread: groups of calls, replies after the commit, waiting calls, bounds.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{ErrorKind, Millis, Result, Timestamp, limits::HEAD_QUEUE_LEN_MAX};
use head::{Apply, Context, Core, Head, HeadConfig, Principal, Topic, store::FacilityRow};
use serde::{Deserialize, Serialize};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    thread::JoinHandle,
};
use support::{as_owner, path};
use wire::{
    auth::{capability::CapKeys, token::TokenKey},
    control::{
        Archive, Audience, Await, Call, Cartridge, CommitWrite, DiskServer, Disposition, Done, DriveContent,
        Effect, FileState, GetStatus, Mkdir, NextTapeSession, OpenWrite, PathOutcomes, RegisterLibrary,
        RegisterPartition, Remove, RetryRequest, Stat, Status, Want,
    },
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

/// Makes a call on this thread as soon as the head has nothing else to do.
fn call_inline<C: Apply>(head: &Head, who: &Principal, call: &C) -> Result<C::Reply> {
    loop {
        match head.call_inline(who, call.clone()) {
            Some(outcome) => return outcome,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_caller_does_it_alone_only_if_nobody_else_is_there() {
    let facility = Facility::new();
    let (head, _thread, groups) = facility.start();
    wait(send(&head, &facility.owner, mkdir("/a"))).unwrap();
    let stat = Stat { path: path("/a") };
    assert_eq!(call_inline(&head, &facility.owner, &stat).unwrap().entry.name, "a");
    call_inline(&head, &facility.owner, &mkdir("/b")).unwrap();
    assert_eq!(*groups.lock().unwrap(), 3, "each was committed");
    let (blocker, is_reached, go_on) = hold(false);
    let first = send(&head, &facility.owner, blocker);
    is_reached.recv().unwrap();
    assert!(head.call_inline(&facility.owner, stat.clone()).is_none(), "it would wait for the thread");
    go_on.send(()).unwrap();
    wait(first).unwrap();
    call_inline(&head, &facility.owner, &Stat { path: path("/b") }).unwrap();
}

#[test]
fn a_caller_that_waits_for_another_caller_goes_on_when_that_one_leaves() {
    // Whether one has come to wait already cannot be seen: in most rounds it has.
    const ROUNDS: usize = 100;
    let facility = Facility::new();
    let (head, _thread, groups) = facility.start();
    let stat = Stat { path: path("/") };
    for _ in 0..ROUNDS {
        let (blocker, is_reached, go_on) = hold(false);
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| call_inline(&head, &facility.owner, &blocker));
            is_reached.recv().unwrap();
            let beside = scope.spawn(|| call_inline(&head, &facility.owner, &stat));
            (0..100).for_each(|_| std::thread::yield_now());
            go_on.send(()).unwrap();
            holder.join().unwrap().unwrap();
            beside.join().unwrap().unwrap();
        });
    }
    assert_eq!(*groups.lock().unwrap() as usize, 2 * ROUNDS, "who comes later is no part of the group");
}

#[test]
fn no_caller_is_forgotten() {
    const CALLERS: usize = 8;
    const CALLS: usize = 2000;
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    let stat = Stat { path: path("/") };
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (head, stat, owner) = (&head, &stat, &facility.owner);
            scope.spawn(move || {
                for call in 0..CALLS {
                    // Some go through the head's thread, so that both ways to the seat meet.
                    if call % CALLERS == caller {
                        wait(head.call(owner, stat.clone())).unwrap();
                    } else if let Some(outcome) = head.call_inline(owner, stat.clone()) {
                        outcome.unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn callers_that_wait_for_one_that_dies_are_told() {
    let facility = Facility::new();
    let (head, thread, _) = facility.start();
    let (dying, is_reached, go_on) = hold(true);
    let stat = Stat { path: path("/") };
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| call_inline(&head, &facility.owner, &dying));
        is_reached.recv().unwrap();
        let beside: Vec<_> =
            (0..4).map(|_| scope.spawn(|| call_inline(&head, &facility.owner, &stat))).collect();
        go_on.send(()).unwrap();
        assert!(holder.join().is_err());
        for caller in beside {
            assert_eq!(caller.join().unwrap().unwrap_err().kind, ErrorKind::Unavailable);
        }
    });
    assert_eq!(call_inline(&head, &facility.owner, &stat).unwrap_err().kind, ErrorKind::Unavailable);
    drop(head);
    thread.join().unwrap();
}

#[test]
fn a_head_that_dies_on_the_thread_of_a_caller_goes_on_with_nothing() {
    let facility = Facility::new();
    let (head, thread, _) = facility.start();
    let dies = || call_inline(&head, &facility.owner, &Hold { gate: None, dies: true });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(dies)).is_err());
    let failure = wait(head.call(&facility.owner, mkdir("/d"))).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unavailable, "{failure}");
    thread.join().unwrap();
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

fn server() -> DiskServer {
    DiskServer { name: "here".into(), root: "test:1094".into(), https: "test:8443".into() }
}

/// A head with a disk, a drive and a file of no bytes.
fn with_rooms(facility: &Facility) -> Head {
    let (head, _, _) = facility.start();
    let partition = RegisterPartition {
        server: server(),
        boot: 1,
        pool: "main".into(),
        partition: "disk1".into(),
        total_bytes: 1000,
        free_bytes: 1000,
    };
    let library = RegisterLibrary {
        library: "lib1".into(),
        drives: vec![DriveContent { drive: "drv0".into(), loaded: None }],
        cartridges: vec![Cartridge { vid: "SIM001".parse().unwrap(), capacity_bytes: 1 << 20 }],
    };
    wait(head.call(&facility.owner, partition)).unwrap();
    wait(head.call(&facility.owner, library)).unwrap();
    let open = OpenWrite {
        path: path("/f"),
        mode: 0o644,
        disposition: Disposition::CreateNew,
        parents: false,
        expected_bytes: 0,
        source_modified: None,
    };
    let object = wait(head.call(&facility.owner, open)).unwrap().object;
    let commit = CommitWrite {
        object,
        size: 0,
        checksums: base::Checksums::EMPTY,
        mirrors: Vec::new(),
        pieces: Vec::new(),
    };
    wait(head.call(&facility.owner, commit)).unwrap();
    head
}

/// The topics that a call touches.
fn touched<C: Apply>(head: &Head, who: &Principal, call: C) -> Vec<Topic> {
    let watches = Topic::ALL.map(|topic| head.watch(topic));
    wait(head.call(who, call)).unwrap();
    // Announced after the answers: the next group begins after that.
    wait(head.call(who, Hold { gate: None, dies: false })).unwrap();
    let has_changed = |topic: &Topic| watches[topic.index()].has_changed().unwrap();
    Topic::ALL.into_iter().filter(has_changed).collect()
}

#[test]
fn a_change_wakes_those_who_wait_for_its_topic_only() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    assert_eq!(touched(&head, owner, mkdir("/d")), [Topic::Files]);
    assert_eq!(touched(&head, owner, Archive { paths: vec![path("/f")] }), [Topic::Tape, Topic::Jobs]);
    assert_eq!(touched(&head, owner, GetStatus {}), []);
    let all = touched(&head, owner, Remove { path: path("/f") });
    assert!(all.contains(&Topic::Files) && all.contains(&Topic::Removals));
}

#[test]
fn a_waiting_call_is_answered_when_what_it_waits_for_is_there() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    wait(head.call(owner, Archive { paths: vec![path("/f")] })).unwrap();
    let awaited = Await { paths: vec![path("/f")], want: Want::Archived };
    wait(async {
        let hour = Millis::from_seconds(3600);
        let waiting = head.call_waiting(owner, awaited, hour);
        let (reply, ()) = both(waiting, remove_file(&head, owner)).await;
        let file = &reply.unwrap().files[0];
        assert!(file.failure.is_some(), "the file is gone: waiting for it is over");
    });
}

/// A call that counts how often it is carried out.
#[derive(Clone, Serialize, Deserialize)]
struct Counted<C> {
    call: C,
    #[serde(skip)]
    looks: Arc<AtomicU32>,
}

impl<C: Call> Call for Counted<C> {
    const NAME: &'static str = "counted";
    const AUDIENCE: Audience = Audience::Rooms;
    const EFFECT: Effect = Effect::Reads;
    const NAMED: &'static [&'static str] = &[];
    type Reply = C::Reply;

    fn is_pending(reply: &Self::Reply) -> bool {
        C::is_pending(reply)
    }
}

impl<C: Apply> Apply for Counted<C> {
    const TOPIC: Topic = C::TOPIC;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Self::Reply> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.call.apply(core, context)
    }
}

#[test]
fn whoever_waits_for_one_file_does_not_look_when_others_change() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    wait(head.call(owner, Archive { paths: vec![path("/f")] })).unwrap();
    let call = Await { paths: vec![path("/f")], want: Want::Archived };
    let counted = Counted { call, looks: Arc::default() };
    let waiting = head.call_waiting(owner, counted.clone(), Millis::from_seconds(3600));
    let others = async {
        for n in 0..50 {
            head.call(owner, mkdir(&format!("/d{n}"))).await.unwrap();
        }
        remove_file(&head, owner).await;
    };
    let (reply, ()) = wait(both(waiting, others));
    assert!(reply.unwrap().files[0].failure.is_some(), "the file is gone");
    assert_eq!(counted.looks.load(Ordering::Relaxed), 2, "once at the beginning, once when it was removed");
}

#[test]
fn a_drive_without_work_looks_when_there_is_some_and_not_by_the_clock() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    let call = NextTapeSession { drive: "drv0".into(), loaded: None };
    let counted = Counted { call, looks: Arc::default() };
    let waiting = head.call_waiting(owner, counted.clone(), Millis::from_seconds(3600));
    let others = async {
        for n in 0..50 {
            head.call(owner, mkdir(&format!("/d{n}"))).await.unwrap();
        }
        head.call(owner, Archive { paths: vec![path("/f")] }).await.unwrap();
    };
    let (orders, ()) = wait(both(waiting, others));
    assert!(orders.unwrap().session.is_some());
    assert_eq!(counted.looks.load(Ordering::Relaxed), 2, "once at the beginning, once when there was work");
}

#[test]
fn whoever_wants_news_is_given_a_pending_reply_as_soon_as_something_changes() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    wait(head.call(owner, Archive { paths: vec![path("/f")] })).unwrap();
    let awaited = Await { paths: vec![path("/f")], want: Want::Archived };
    let looks = AtomicU32::new(0);
    let is_news = |_: &PathOutcomes| looks.fetch_add(1, Ordering::Relaxed) > 0;
    let waiting = head.call_until(owner, awaited, Millis::from_seconds(3600), is_news);
    let change = async {
        let status = head.call(owner, GetStatus {}).await.unwrap();
        head.call(owner, RetryRequest { request: status.requests[0].id }).await.unwrap();
    };
    let (reply, ()) = wait(both(waiting, change));
    assert!(Await::is_pending(&reply.unwrap()));
}

/// Waits for both, without a crate for it.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    let (mut a, mut b) = (None, None);
    std::future::poll_fn(|context| {
        if a.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(context)
        {
            a = Some(value);
        }
        if b.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(context)
        {
            b = Some(value);
        }
        match (a.is_some(), b.is_some()) {
            (true, true) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    (a.expect("both are ready here"), b.expect("both are ready here"))
}

async fn remove_file(head: &Head, owner: &Principal) {
    let status: Status = head.call(owner, GetStatus {}).await.unwrap();
    assert_eq!(status.requests.len(), 1);
    head.call(owner, Remove { path: path("/f") }).await.unwrap();
}

#[test]
fn a_waiting_call_gives_the_pending_reply_when_its_time_is_over() {
    let facility = Facility::new();
    let head = with_rooms(&facility);
    let owner = &facility.owner;
    wait(head.call(owner, Archive { paths: vec![path("/f")] })).unwrap();
    let awaited = Await { paths: vec![path("/f")], want: Want::Archived };
    let reply = wait(head.call_waiting(owner, awaited, Millis(0))).unwrap();
    assert!(Await::is_pending(&reply));
    assert_eq!(reply.files[0].state, Some(FileState::Online));
}

#[test]
fn a_reply_that_is_not_pending_is_not_waited_for() {
    let facility = Facility::new();
    let (head, _thread, _) = facility.start();
    let hour = Millis::from_seconds(3600);
    wait(head.call_waiting(&facility.owner, mkdir("/d"), hour)).unwrap();
}
