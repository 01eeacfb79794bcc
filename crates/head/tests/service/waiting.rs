//! Calls that wait for a change.

use super::{Facility, Hold, mkdir, support::path, wait};
use base::{Millis, Result};
use head::{Apply, Context, Core, Head, Principal, Topic};
use serde::{Deserialize, Serialize};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
};
use wire::control::{
    Archive, Audience, Await, Call, Cartridge, CommitWrite, DiskServer, Disposition, DriveContent,
    DriveDevice, Effect, FileState, GetStatus, NextTapeSession, OpenWrite, PathOutcomes, RegisterLibrary,
    RegisterPartition, Remove, RetryRequest, Status, Want,
};

pub(super) fn server() -> DiskServer {
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
        drives: vec![DriveContent { drive: "drv0".into(), loaded: None, device: DriveDevice::default() }],
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
    pub(super) call: C,
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
