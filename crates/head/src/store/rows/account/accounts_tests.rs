//! Accounts by month, and what older releases have left.

use crate::store::{
    AccountKey, AccountUsage, Charge, Payer, Store,
    rows::account::ledger::{Account, Ledger, spread},
    testing::TestCatalogue,
};
use base::{Month, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000;
const PAYER: Payer<'_> = Payer { user: "ada", group: "ada", project: "", pool: "main" };

/// All rows of the only account, as they are written when something happens.
#[derive(Default)]
struct Book {
    ledger: Ledger,
    rows: BTreeMap<u64, Account>,
}

impl Book {
    fn post(&mut self, disk_bytes: i64, now: Timestamp, is_written: bool) {
        let held = AccountUsage { disk_bytes, ..AccountUsage::default() };
        self.ledger.post(PAYER, (held, Charge { jobs: 1, ..Charge::default() }), now, drop);
        if is_written {
            self.write();
        }
    }

    fn write(&mut self) {
        for row in self.ledger.take_changed(drop) {
            self.rows.insert(row.row.unwrap(), row);
        }
    }

    /// Byte-days and jobs by month, and what is held at its end.
    fn months(&mut self, until: Timestamp) -> BTreeMap<String, (f64, u64, i64)> {
        self.write();
        let mut rows: Vec<_> = self.rows.values().cloned().collect();
        rows.sort_by_key(|row| row.month);
        assert!(rows.windows(2).all(|pair| pair[0].month < pair[1].month), "a month has one row");
        let mut months = BTreeMap::<_, (f64, u64, i64)>::new();
        spread(&rows, until, |month, charge, held| {
            let sum = months.entry(month.to_string()).or_default();
            sum.0 += charge.disk_byte_ms / DAY as f64;
            sum.1 += charge.jobs;
            sum.2 = held.disk_bytes;
        });
        months
    }
}

#[test]
fn months_in_which_nothing_changes_are_charged_all_the_same() {
    let mut book = Book::default();
    // 1970-01-11 until 1970-04-02, and the month before the end is asked for while it lasts.
    book.post(1000, Timestamp(10 * DAY), true);
    let until_march = book.months(Timestamp(59 * DAY + 5 * DAY));
    assert_eq!(until_march["1970-01"], (21_000.0, 1, 1000));
    assert_eq!(until_march["1970-02"], (28_000.0, 0, 1000));
    assert_eq!(until_march["1970-03"], (5000.0, 0, 1000));
    book.post(-1000, Timestamp(91 * DAY), true);
    let all = book.months(Timestamp(500 * DAY));
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(all["1970-03"], (31_000.0, 0, 1000));
    assert_eq!(all["1970-04"], (1000.0, 1, 0));
}

#[test]
fn a_clock_that_is_set_back_charges_nothing_twice() {
    let mut book = Book::default();
    book.post(1000, Timestamp(40 * DAY), true);
    book.post(0, Timestamp(10 * DAY), true);
    book.post(0, Timestamp(42 * DAY), true);
    let months = book.months(Timestamp(42 * DAY));
    assert_eq!(months, BTreeMap::from([("1970-02".to_owned(), (2000.0, 3, 1000))]));
}

proptest! {
    #[test]
    fn months_add_up_whenever_rows_are_written(
        posts in prop::collection::vec((0i64..40 * DAY, 0i64..1_000_000, any::<bool>()), 1..30)
    ) {
        let (mut book, mut expected) = (Book::default(), BTreeMap::<String, f64>::new());
        let (mut now, mut held) = (0, 0);
        for (pause, bytes, is_written) in posts {
            let end = now + pause;
            while now < end {
                let month = Month::of(Timestamp(now));
                let stop = end.min(month.next().start().0);
                *expected.entry(month.to_string()).or_default() += held as f64 * (stop - now) as f64 / DAY as f64;
                now = stop;
            }
            book.post(bytes - held, Timestamp(now), is_written);
            held = bytes;
        }
        for (month, (byte_days, ..)) in book.months(Timestamp(now)) {
            let expected = expected.get(&month).copied().unwrap_or_default();
            prop_assert!((byte_days - expected).abs() <= 1e-9 * expected.max(1.0), "{month}: {byte_days} {expected}");
        }
    }
}

/// What the release before accounts has left: its schema, and rows.
fn before(place: &TestCatalogue) {
    let is_file = matches!(place.catalogue, crate::store::Catalogue::File(_));
    let schema: &[&str] = if is_file {
        &[
            include_str!("../../migrations/0001.sql"),
            include_str!("../../migrations/0002.sql"),
            include_str!("../../migrations/0003.sql"),
            include_str!("../../migrations/0004.sql"),
            "PRAGMA user_version = 4;",
        ]
    } else {
        &[
            include_str!("../../migrations/postgres/0001.sql"),
            include_str!("../../migrations/postgres/0002.sql"),
            "CREATE TABLE schema (version BIGINT NOT NULL); INSERT INTO schema VALUES (2);",
        ]
    };
    place.sql(&schema.join("\n"));
    place.sql(
        "INSERT INTO facility VALUES (1, 'f', 'test', 'ada', 1000, 1);
         INSERT INTO partition (name, pool, total, free) VALUES ('p', 'main', 100, 100);
         INSERT INTO node (id, parent, name, kind, owner, grp, mode, size, modified) VALUES
             (1, 1, '/', 'directory', 'ada', 'ada', 493, 0, 1000),
             (2, 1, 'a', 'file', 'ada', 'ada', 420, 500, 1000), (3, 1, 'b', 'file', 'ada', 'ada', 420, 70, 1000);
         INSERT INTO replica (object, file, partition, state, owner, size, created, used) VALUES
             (1, 2, 'p', 'online', 'ada', 500, 2000, 2000), (2, 3, 'p', 'online', 'ada', 70, 3000, 3000),
             (3, 2, 'p', 'online', 'bob', 500, 3000, 3000), (4, 3, 'p', 'writing', 'ada', 100, 3000, 3000);
         INSERT INTO account (owner, jobs, cpu_ms, tape_loads, bytes_in, disk_byte_ms) VALUES ('ada', 2, 30, 0.5, 570, 11.0);",
    );
}

#[test]
fn what_was_charged_before_accounts_were_kept_by_month_stands_as_earlier() {
    for place in TestCatalogue::all() {
        before(&place);
        let store = Store::open(&place.catalogue).unwrap();
        let mut found = Vec::new();
        let now = Timestamp(10_000);
        store
            .each_account_month(now, |key, month, charge, held| {
                let AccountKey { user, group, project, pool } = key;
                assert_eq!((user, project.as_str()), (if user == "bob" { user } else { group }, ""));
                let line = (user.clone(), pool.clone(), month.to_string(), charge.jobs, charge.disk_byte_ms);
                found.push((line, (held.files, held.bytes, held.replicas, held.disk_bytes)));
            })
            .unwrap();
        let line = |user: &str, pool: &str, month: &str, jobs, space| {
            (user.to_owned(), pool.to_owned(), month.to_owned(), jobs, space)
        };
        let (names, ada, bob) = ((2, 570, 0, 0), (0, 0, 2, 570), (0, 0, 1, 500));
        let expected = vec![
            (line("ada", "", "earlier", 2, 11.0), names),
            (line("ada", "", "1970-01", 0, 0.0), names),
            (line("ada", "main", "earlier", 0, 500.0 * 1000.0), ada),
            (line("ada", "main", "1970-01", 0, 570.0 * 7000.0), ada),
            (line("bob", "main", "earlier", 0, 0.0), bob),
            (line("bob", "main", "1970-01", 0, 500.0 * 7000.0), bob),
        ];
        assert_eq!(found, expected);
        store.load_ledger().unwrap();
        let pending = store.pending.borrow();
        let reserved: i64 =
            pending.ledger().unwrap().accounts().iter().map(|account| account.held.reserved).sum();
        assert_eq!(reserved, 30, "what is being written makes the file longer by so much");
    }
}
