//! Callers who carry out their calls themselves.

use super::{Facility, Hold, hold, mkdir, send, support::path, wait};
use base::{ErrorKind, Result};
use head::{Apply, Head, Principal};
use wire::control::Stat;

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
