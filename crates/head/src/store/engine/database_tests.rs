//! What only a database server can do: serve two heads, and go away.

use crate::store::{
    NewNode, Store, StoreError,
    testing::{TestCatalogue, cut},
};
use base::{FileId, Timestamp};
use std::thread;
use wire::control::NodeKind;

fn make(store: &Store, name: &str) {
    let (parent, kind, owner, now) = (FileId(1), NodeKind::File, "ada", Timestamp(5));
    store.insert_node(&NewNode { parent, name, kind, owner, mode: 0, now }).unwrap();
}

fn has(store: &Store, name: &str) -> bool {
    store.child(FileId(1), name).unwrap().is_some()
}

/// A start of the head.
fn start(place: &TestCatalogue) -> Store {
    let mut store = Store::open(&place.catalogue).unwrap();
    store.begin();
    store.next_incarnation().unwrap();
    store.commit().unwrap();
    store
}

#[test]
fn a_head_that_was_replaced_commits_nothing() {
    let Some(place) = TestCatalogue::database() else { return };
    drop(place.create());
    let mut old = start(&place);
    old.begin();
    make(&old, "before");
    old.commit().unwrap();
    // Both alive at once, by force.
    let mut new = start(&place);
    for _ in 0..2 {
        old.begin();
        old.set_mode(FileId(1), 0o700).unwrap();
        make(&old, "after");
        assert!(matches!(old.commit(), Err(StoreError::Superseded)));
        old.rollback().unwrap();
    }
    new.begin();
    make(&new, "new");
    new.commit().unwrap();
    let reader = Store::open(&place.catalogue).unwrap();
    assert!(has(&reader, "before") && has(&reader, "new") && !has(&reader, "after"));
}

#[test]
fn who_takes_over_waits_for_the_group_under_way() {
    let Some(place) = TestCatalogue::database() else { return };
    drop(place.create());
    let mut old = start(&place);
    old.begin();
    make(&old, "acknowledged");
    // The group is in the database, and holds the head's row.
    assert_eq!(old.children(FileId(1), "", 9).unwrap().len(), 1);
    let watcher = Store::open(&place.catalogue).unwrap();
    let waiting =
        || watcher.one_now("SELECT count(*) FROM pg_locks WHERE NOT granted", (), |row| row.get::<u64>(0));
    thread::scope(|scope| {
        let taken = scope.spawn(|| start(&place));
        while waiting().unwrap() == 0 {
            assert!(!taken.is_finished(), "it took over from a head that has a group under way");
            thread::yield_now();
        }
        old.commit().unwrap();
        assert!(has(&taken.join().unwrap(), "acknowledged"));
    });
    old.begin();
    make(&old, "late");
    assert!(old.commit().is_err());
}

#[test]
fn a_lost_connection_fails_its_group_alone() {
    let Some(place) = TestCatalogue::database() else { return };
    drop(place.create());
    let mut store = start(&place);
    store.begin();
    make(&store, "lost");
    assert_eq!(store.children(FileId(1), "", 9).unwrap().len(), 1);
    cut(&place);
    assert!(store.commit().is_err());
    store.rollback().unwrap();
    store.begin();
    make(&store, "kept");
    store.commit().unwrap();
    assert!(has(&store, "kept") && !has(&store, "lost"));
}

#[test]
fn what_the_database_refuses_fails_the_group_and_nothing_else() {
    let Some(place) = TestCatalogue::database() else { return };
    let mut store = place.create();
    store.begin();
    store.begin_call();
    make(&store, "kept in vain");
    store.end_call(true).unwrap();
    store.begin_call();
    store.run("INSERT INTO facility SELECT * FROM facility", ()).unwrap();
    store.end_call(true).unwrap();
    store.begin_call();
    // It is told to whoever asks next, and to those who wait for the commit.
    assert!(store.children(FileId(1), "", 9).is_err());
    drop(store.end_call(false));
    assert!(store.commit().is_err());
    store.rollback().unwrap();
    assert!(!has(&store, "kept in vain"));
    store.begin();
    store.begin_call();
    make(&store, "kept");
    store.end_call(true).unwrap();
    store.begin_call();
    store.run("INSERT INTO facility SELECT * FROM facility", ()).unwrap();
    assert!(store.children(FileId(1), "", 9).is_err());
    store.end_call(false).unwrap();
    store.commit().unwrap();
    assert!(has(&store, "kept"), "a refused call leaves nothing, and the group goes on");
}

/// `table.column` of all tables that both engines have.
fn columns(store: &Store, sql: &str) -> Vec<String> {
    store.all_now(sql, (), |row| Ok(format!("{}.{}", row.get::<&str>(0)?, row.get::<&str>(1)?))).unwrap()
}

#[test]
fn both_engines_have_the_same_columns() {
    let Some(place) = TestCatalogue::database() else { return };
    let (file, database) = (TestCatalogue::file().create(), place.create());
    let mut here = columns(
        &file,
        "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
         WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY 1, 2",
    );
    // Rows of long values have a number in SQLite.
    here.retain(|column| column != "attribute.id");
    let mut there = columns(
        &database,
        "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name <> 'schema' ORDER BY 1, 2",
    );
    here.sort();
    there.sort();
    assert_eq!(here, there);
}

#[test]
fn one_facility_lives_in_a_database() {
    let Some(place) = TestCatalogue::database() else { return };
    let missing = Store::open(&place.catalogue).err().unwrap();
    assert_eq!(missing.kind, base::ErrorKind::NotFound, "{missing}");
    drop(place.create());
    let facility = Store::open(&place.catalogue).unwrap().facility().unwrap();
    assert_eq!(Store::create(&place.catalogue, &facility).err().unwrap().kind, base::ErrorKind::Exists);
}
