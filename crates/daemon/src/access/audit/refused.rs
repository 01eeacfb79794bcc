//! Refusals of unauthenticated peers: in files of their own, several combined in one line.
//!
//! A peer that reaches a door can be refused there without limit. Its refusals go to files of their own, so that they
//! push no other record out of the log. The first refusal of a kind from an address is a line. All that follow within
//! [`WINDOW`] are one line together.

use super::{AuditedPeer, Order, file::Files};
use base::{ErrorKind, Millis, Timestamp, units::counted};
use net::unproven::Source;
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, SystemTime},
};
use wire::audit::Record;

/// How long refusals of one kind from one address become one line.
const WINDOW: Millis = Millis::from_seconds(10);
/// Kinds and addresses at a time; what is refused beyond them is told without its address.
const WINDOWS_MAX: usize = 1024;
/// How often windows that have ended are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The name of an unauthenticated user.
const NOBODY: &str = "nobody";

/// Whether a record is of a refusal of somebody who has proven nothing.
pub(super) fn is_of_nobody(record: &Record) -> bool {
    record.refused.is_some() && record.user == NOBODY
}

type Key = (Cow<'static, str>, Option<Source>, Option<ErrorKind>);

/// Refusals since the one that was written.
struct Window {
    until: Timestamp,
    count: u64,
    last: Option<Record>,
}

/// Makes few records of many.
#[derive(Default)]
pub(super) struct Coalescer {
    windows: HashMap<Key, Window>,
}

impl Coalescer {
    /// Takes a record; yields it if it is the first of its kind.
    pub(super) fn take(&mut self, record: Record) -> Option<Record> {
        let key = |source| (record.door.clone(), source, record.refused);
        let mut own = key(record.address.map(Source::of));
        let mut record = record;
        if self.windows.len() >= WINDOWS_MAX && !self.windows.contains_key(&own) {
            own.1 = None;
            record.address = None;
        }
        match self.windows.get_mut(&own) {
            None => {
                self.windows.insert(own, Window { until: record.at + WINDOW, count: 0, last: None });
                Some(record)
            }
            Some(window) => {
                window.count += 1;
                window.last = Some(record);
                None
            }
        }
    }

    /// What was refused in windows that have ended by `now`.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Record> {
        let mut due = Vec::new();
        self.windows.retain(|_, window| {
            // A clock that was set back must not keep a window open.
            if window.until > now && window.until <= now + WINDOW {
                return true;
            }
            due.extend(window.last.take().map(|last| Record { count: Some(window.count), ..last }));
            false
        });
        due.sort_by_key(|record| record.at);
        due
    }

    fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }
}

/// Writes what comes until it is told to end.
pub(super) fn write(mut files: Files, orders: &Receiver<Order>, lost: &AtomicU64) {
    let mut coalescer = Coalescer::default();
    loop {
        let order = if coalescer.is_empty() {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(LOOK_EVERY)
        };
        let mut is_over = matches!(order, Err(RecvTimeoutError::Disconnected));
        let mut next = order.ok();
        while let Some(order) = next {
            match order {
                Order::Write(record) => {
                    coalescer.take(record).iter().for_each(|record| files.write(&record.line()));
                }
                Order::End => is_over = true,
            }
            next = orders.try_recv().ok();
        }
        let now = Timestamp::from_system(SystemTime::now());
        let due = coalescer.due(if is_over { Timestamp(i64::MAX) } else { now });
        for record in &due {
            files.write(&record.line());
        }
        // Not for each of a flood.
        if is_over || !due.is_empty() {
            note_lost(&mut files, lost, now);
        }
        files.flush();
        if is_over {
            return;
        }
    }
}

fn note_lost(files: &mut Files, lost: &AtomicU64, now: Timestamp) {
    let missing = lost.swap(0, Ordering::Relaxed) + files.take_unwritten();
    if missing > 0 {
        let visitor = AuditedPeer { door: "audit", address: None, user: "audit" };
        files.write(&visitor.record(now, "lost", &counted(missing, "refusal", "refusals")).line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::audit::REFUSED_FILE;

    fn refusal(at: i64, last: u8, refused: ErrorKind) -> Record {
        Record {
            at: Timestamp(at),
            door: "http".into(),
            address: Some([192, 0, 2, last].into()),
            user: NOBODY.to_owned(),
            action: "read".into(),
            what: format!("/{at}"),
            to: None,
            refused: Some(refused),
            why: Some("no".to_owned()),
            count: None,
        }
    }

    #[test]
    fn the_first_is_told_and_those_that_follow_are_one_line() {
        let mut coalescer = Coalescer::default();
        let (no, busy) = (ErrorKind::Permission, ErrorKind::Busy);
        assert!(coalescer.take(refusal(0, 1, no)).is_some());
        assert!((1..2000).all(|at| coalescer.take(refusal(at, 1, no)).is_none()));
        assert!(coalescer.take(refusal(2000, 2, no)).is_some(), "another address");
        assert!(coalescer.take(refusal(2001, 1, busy)).is_some(), "another reason");
        assert!(coalescer.due(Timestamp(9_999)).is_empty());
        let due = coalescer.due(Timestamp(12_001));
        assert_eq!(due, [Record { count: Some(1999), ..refusal(1999, 1, no) }]);
        assert!(coalescer.is_empty() && coalescer.take(refusal(12_002, 1, no)).is_some());
    }

    #[test]
    fn one_lost_refusal_is_said_in_the_singular() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::open(directory.path(), REFUSED_FILE, (1 << 16, 2)).unwrap();
        note_lost(&mut files, &AtomicU64::new(1), Timestamp(0));
        note_lost(&mut files, &AtomicU64::new(2), Timestamp(0));
        files.flush();
        let text = std::fs::read_to_string(directory.path().join(REFUSED_FILE)).unwrap();
        let said: Vec<_> = text.lines().map(|line| Record::parse(line).unwrap().what).collect();
        assert_eq!(said, ["1 refusal", "2 refusals"]);
    }

    #[test]
    fn what_was_done_and_who_is_known_is_kept_elsewhere() {
        let refused = refusal(0, 1, ErrorKind::Permission);
        assert!(is_of_nobody(&refused));
        assert!(!is_of_nobody(&Record { user: "ann".to_owned(), ..refused.clone() }));
        assert!(!is_of_nobody(&Record { refused: None, ..refused }));
    }

    #[test]
    fn addresses_beyond_a_bound_are_told_together() {
        let mut coalescer = Coalescer::default();
        let from = |number: u32| Record {
            address: Some(std::net::Ipv4Addr::from_bits(number).into()),
            ..refusal(0, 1, ErrorKind::Permission)
        };
        let told = (0..5000).filter_map(|number| coalescer.take(from(number)));
        assert_eq!(told.filter(|record| record.address.is_none()).count(), 1);
        assert_eq!(coalescer.windows.len(), WINDOWS_MAX + 1);
        let due = coalescer.due(Timestamp(i64::MAX));
        assert_eq!(due.iter().filter_map(|record| record.count).sum::<u64>(), 5000 - 1025);
    }

    proptest! {
        #[test]
        fn every_refusal_is_counted_once(
            steps in prop::collection::vec((0_i64..30_000, 0_u8..4, any::<bool>()), 0..300)
        ) {
            let (mut coalescer, mut counted) = (Coalescer::default(), 0);
            for (at, last, is_look) in &steps {
                counted += u64::from(coalescer.take(refusal(*at, *last, ErrorKind::Permission)).is_some());
                if *is_look {
                    counted += coalescer.due(Timestamp(*at)).iter().filter_map(|record| record.count).sum::<u64>();
                }
            }
            let rest = coalescer.due(Timestamp(i64::MAX));
            counted += rest.iter().filter_map(|record| record.count).sum::<u64>();
            prop_assert_eq!(counted, steps.len() as u64);
        }
    }
}
