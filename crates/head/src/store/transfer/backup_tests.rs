//! Backups are taken while the head works, and come back whole on either engine.

use crate::store::{
    Catalogue, NewNode, Store, StoreError,
    engine::{Engine, Shape, Sqlite},
    relocate, restore,
    testing::TestCatalogue,
    transfer::loader::Loader,
};
use base::{ErrorKind, FileId, Result, Timestamp};
use std::collections::BTreeMap;
use wire::{backup::Content, control::NodeKind};

const NOW: Timestamp = Timestamp(1000);

fn make(store: &Store, name: &str) -> FileId {
    let (parent, kind, owner, now) = (FileId(1), NodeKind::File, "ada", Timestamp(5));
    store.insert_node(&NewNode { parent, name, kind, owner, mode: 0, now }).unwrap()
}

fn has(store: &Store, name: &str) -> bool {
    store.child(FileId(1), name).unwrap().is_some()
}

/// The word that a column may hold, if its table limits them.
fn allowed<'a>(table: &'a str, column: &str) -> Option<&'a str> {
    let (_, rest) = table.split_once(&format!("CHECK ({column} IN ('"))?;
    rest.split('\'').next()
}

/// Rows in every table that the schema has, also in those that were added after this was written.
fn fill(place: &TestCatalogue) {
    let mut store = place.create();
    store.begin();
    for sequence in 0..3 {
        make(&store, &format!("file {sequence} é\u{10348}"));
    }
    store.commit().unwrap();
    let sample = TestCatalogue::file();
    drop(sample.create());
    let Catalogue::File(file) = &sample.catalogue else { panic!("it is in a file") };
    let schema = Sqlite::open(file, false).unwrap();
    store.engine.begin().unwrap();
    for shape in schema.shapes().unwrap() {
        let mut sql = String::new();
        let mut kinds = BTreeMap::new();
        let named = [crate::store::engine::Cell::Text(&shape.name)];
        let query = "SELECT s.sql, i.name, i.type FROM sqlite_schema s, pragma_table_info(s.name) i WHERE s.name = ?1";
        schema
            .query(query, &named, &mut |row| {
                sql = row.get(0)?;
                kinds.insert(row.get::<String>(1)?, row.get::<String>(2)?);
                Ok(())
            })
            .unwrap();
        let value = |column: &String| match (allowed(&sql, column), kinds[column].as_str()) {
            (Some(word), _) => format!("'{word}'"),
            _ if column == "only_row" => "1".to_owned(),
            (None, "TEXT") => "'t''\u{e9}'".to_owned(),
            (None, "REAL") => "0.1".to_owned(),
            (None, "BLOB") => "CAST('b' AS BYTEA)".to_owned(),
            (None, _) => "700".to_owned(),
        };
        let columns = shape.columns.join(", ");
        let mut values = shape.columns.iter().map(value).collect::<Vec<_>>().join(", ");
        if matches!(place.catalogue, Catalogue::File(_)) {
            values = values.replace("CAST('b' AS BYTEA)", "x'62'");
        }
        let table = &shape.name;
        let insert = format!("INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING");
        store.engine.execute(&insert, &[]).unwrap();
    }
    store.engine.commit().unwrap();
}

/// What each table holds.
fn contents(catalogue: &Catalogue) -> BTreeMap<String, Content> {
    let engine = catalogue.open(false).unwrap();
    engine.begin().unwrap();
    let content = |shape: Shape| {
        (shape.name.clone(), crate::store::transfer::backup::content(&*engine, &shape).unwrap())
    };
    engine.shapes().unwrap().into_iter().map(content).collect()
}

fn backup_of(catalogue: &Catalogue) -> Vec<u8> {
    let store = Store::open(catalogue).unwrap();
    let mut bytes = Vec::new();
    store
        .snapshot(NOW)
        .unwrap()
        .write(&mut |part| {
            bytes.extend(part);
            Ok(())
        })
        .unwrap();
    bytes
}

fn restored(to: &Catalogue, backup: &[u8]) -> Result<crate::store::Restored> {
    restore(to, Some("f"), &mut &backup[..], NOW)
}

/// Tables that a restore changes, as its purpose is.
const CHANGED: [&str; 4] = ["facility", "restored", "sequence", "volume"];

#[test]
fn every_table_of_the_schema_comes_back_on_either_engine() {
    for from in TestCatalogue::all() {
        fill(&from);
        let before = contents(&from.catalogue);
        let empty: Vec<_> = before.iter().filter(|(_, content)| content.rows == 0).collect();
        assert!(empty.is_empty(), "{empty:?}");
        let backup = backup_of(&from.catalogue);
        for to in TestCatalogue::all() {
            let done = restored(&to.catalogue, &backup).unwrap();
            assert_eq!(done.rows, before.values().map(|content| content.rows).sum::<u64>());
            let mut after = contents(&to.catalogue);
            for table in CHANGED {
                assert_ne!(after.insert(table.to_owned(), before[table]), Some(before[table]), "{table}");
            }
            assert_eq!(after, before);
            let again = restored(&to.catalogue, &backup).unwrap_err();
            assert_eq!(again.kind, ErrorKind::Exists, "{again}");
        }
    }
}

#[test]
fn a_catalogue_moves_from_engine_to_engine_and_back() {
    let Some(database) = TestCatalogue::database() else { return };
    let (first, last) = (TestCatalogue::file(), TestCatalogue::file());
    fill(&first);
    let before = contents(&first.catalogue);
    let starts =
        |place: &TestCatalogue| Store::open(&place.catalogue).unwrap().facility().unwrap().incarnation;
    let old = starts(&first);
    let rows = relocate(&first.catalogue, &database.catalogue).unwrap();
    assert_eq!(rows, before.values().map(|content| content.rows).sum::<u64>());
    assert!(starts(&database) > old);
    // A head that runs on the database all the same.
    let mut head = Store::open(&database.catalogue).unwrap();
    head.begin();
    head.next_incarnation().unwrap();
    head.commit().unwrap();
    relocate(&database.catalogue, &last.catalogue).unwrap();
    assert!(starts(&last) > starts(&database));
    head.begin();
    let (parent, kind, owner, now) = (FileId(1), NodeKind::File, "ada", Timestamp(5));
    let late = head.insert_node(&NewNode { parent, name: "late", kind, owner, mode: 0, now });
    assert!(matches!(late.and_then(|_| head.commit()), Err(StoreError::Superseded)));
    let mut after = contents(&last.catalogue);
    after.insert("facility".to_owned(), before["facility"]);
    assert_eq!(after, before);
    assert_eq!(relocate(&first.catalogue, &last.catalogue).unwrap_err().kind, ErrorKind::Exists);
    assert!(has(&Store::open(&first.catalogue).unwrap(), "file 0 é\u{10348}"), "the old one is as it was");
}

#[test]
fn groups_go_on_while_a_backup_is_read_and_it_holds_one_moment() {
    for place in TestCatalogue::all() {
        drop(place.create());
        let mut store = Store::open(&place.catalogue).unwrap();
        for round in 0..3 {
            store.begin();
            make(&store, &format!("before {round}"));
            store.commit().unwrap();
            let snapshot = store.snapshot(NOW).unwrap();
            store.begin();
            make(&store, &format!("after {round}"));
            store.commit().unwrap();
            let (mut backup, mut parts) = (Vec::new(), 0);
            let rows = snapshot.write(&mut |part| {
                // Each part that is taken meets a group.
                store.begin();
                make(&store, &format!("during {round} {parts}"));
                store.commit().unwrap();
                parts += 1;
                backup.extend(part);
                Ok(())
            });
            assert!(rows.unwrap() > 0 && parts > 20, "{parts}");
            store.begin();
            make(&store, &format!("alone again {round}"));
            store.commit().unwrap();
            let to = TestCatalogue::file();
            restored(&to.catalogue, &backup).unwrap();
            let reader = Store::open(&to.catalogue).unwrap();
            assert!(has(&reader, &format!("before {round}")));
            assert!(!has(&reader, &format!("after {round}")) && !has(&reader, &format!("during {round} 0")));
            assert!(has(&store, &format!("during {round} 0")));
        }
        if matches!(place.catalogue, Catalogue::File(_)) {
            assert!(Store::open(&place.catalogue).is_err(), "the file is held alone again");
        }
    }
}

#[test]
fn numbers_go_on_beyond_all_that_were_given_since() {
    for place in TestCatalogue::all() {
        drop(place.create());
        let backup = backup_of(&place.catalogue);
        let mut store = Store::open(&place.catalogue).unwrap();
        store.begin();
        let since: Vec<_> = (0..3000).map(|n| make(&store, &n.to_string())).collect();
        store.next_incarnation().unwrap();
        store.commit().unwrap();
        let incarnation = store.facility().unwrap().incarnation;
        let to = TestCatalogue::file();
        restored(&to.catalogue, &backup).unwrap();
        let mut again = Store::open(&to.catalogue).unwrap();
        again.begin();
        assert!(make(&again, "new") > *since.last().unwrap());
        again.commit().unwrap();
        assert!(again.facility().unwrap().incarnation > incarnation);
    }
}

#[test]
fn what_is_not_whole_or_not_ours_leaves_nothing() {
    let from = TestCatalogue::file();
    fill(&from);
    let backup = backup_of(&from.catalogue);
    for to in TestCatalogue::all() {
        let mut damaged = backup.clone();
        let at = damaged.len() / 2;
        damaged[at] ^= 1;
        for bad in
            [&backup[..backup.len() - 1], &backup[..at], &damaged, &[&backup[..], b"x"].concat(), b"text"]
        {
            assert!(restored(&to.catalogue, bad).is_err());
            assert!(Store::open(&to.catalogue).is_err(), "it is no catalogue yet");
        }
        let foreign = restore(&to.catalogue, Some("g"), &mut &backup[..], NOW).unwrap_err();
        assert_eq!(foreign.kind, ErrorKind::Permission, "{foreign}");
        restored(&to.catalogue, &backup).unwrap();
    }
}

#[test]
fn a_backup_of_an_older_schema_is_brought_up_to_date() {
    for to in TestCatalogue::all() {
        // What release 0 had: the first schema that both engines knew.
        let old = TestCatalogue::file();
        let Catalogue::File(file) = &old.catalogue else { panic!("it is in a file") };
        let engine = Sqlite::open_up_to(file, true, 3).unwrap();
        for sql in [
            "INSERT INTO facility VALUES (1, 'f', 'test', 'ada', 1, 0)",
            "INSERT INTO node (id, parent, name, kind, owner, grp, mode, modified)
             VALUES (1, 1, '/', 'directory', 'ada', 'ada', 493, 1)",
        ] {
            engine.execute(sql, &[]).unwrap();
        }
        let mut backup = Vec::new();
        let mut write = |frame: wire::backup::Frame| {
            if let wire::backup::Frame::Begin(mut begin) = frame {
                begin.schema = [("sqlite".to_owned(), 3), ("postgresql".to_owned(), 1)].into();
                wire::backup::Frame::Begin(begin).put(&mut backup);
            } else {
                frame.put(&mut backup);
            }
        };
        let mut decoder = wire::backup::Decoder::default();
        crate::store::Snapshot::new(engine.snapshot().unwrap(), NOW)
            .write(&mut |part| {
                decoder.push(&part);
                while let Some(frame) = decoder.next_frame()? {
                    write(frame);
                }
                Ok(())
            })
            .unwrap();
        restored(&to.catalogue, &backup).unwrap();
        let store = Store::open(&to.catalogue).unwrap();
        assert_eq!(store.facility().unwrap().name, "test");
        assert!(store.hosts().unwrap().is_empty(), "tables that came later are there");
    }
}

#[test]
fn a_table_that_was_forgotten_is_noticed() {
    for place in TestCatalogue::all() {
        drop(place.create());
        let engine = place.catalogue.open(false).unwrap();
        engine.begin().unwrap();
        let mut loader = Loader::new(&*engine, false).unwrap();
        let mut shapes = engine.shapes().unwrap();
        let forgotten = shapes.pop().unwrap();
        let mut expected = BTreeMap::new();
        for shape in shapes {
            loader.begin_table(&shape.name, &shape.columns).unwrap();
            expected.insert(shape.name, Content::default());
        }
        let failure = loader.finish(&expected).err().unwrap();
        assert!(failure.what.contains(&forgotten.name), "{failure}");
        engine.rollback().unwrap();
    }
}
