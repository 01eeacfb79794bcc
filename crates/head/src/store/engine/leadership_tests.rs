//! Two heads of one catalogue: who is active, and who follows.

use crate::store::{HeadAddress, NewNode, Store, StoreError, Watch, testing::TestCatalogue};
use base::{ErrorKind, FileId, Millis, Timestamp};
use wire::control::NodeKind;

/// Longer than any test takes.
const LONG: Millis = Millis::from_seconds(3600);

fn at(host: &str) -> HeadAddress {
    HeadAddress { host: host.into(), root: format!("{host}:1094"), https: format!("{host}:8443") }
}

/// A start of the head.
fn start(place: &TestCatalogue, host: &str) -> (Store, u64) {
    let mut store = Store::open(&place.catalogue).unwrap();
    store.begin();
    let incarnation = store.next_incarnation().unwrap();
    store.beat(incarnation, &at(host)).unwrap();
    store.commit().unwrap();
    (store, incarnation)
}

fn make(store: &mut Store, name: &str) -> Result<(), StoreError> {
    let (parent, kind, owner, now) = (FileId(1), NodeKind::File, "ada", Timestamp(5));
    store.begin();
    let made = store.insert_node(&NewNode { parent, name, kind, owner, mode: 0, now });
    made.and_then(|_| store.commit()).inspect_err(|_| drop(store.rollback()))
}

#[test]
fn a_head_that_is_heard_is_followed_by_order_only() {
    let Some(place) = TestCatalogue::database() else { return };
    drop(place.create());
    let watch = Watch::new(&place.catalogue).unwrap();
    assert_eq!(watch.look().unwrap(), None);
    let (mut old, incarnation) = start(&place, "a");
    let seen = watch.look().unwrap().unwrap();
    assert_eq!((seen.incarnation, &seen.address), (incarnation, &at("a")));
    assert!(!seen.may_follow("b", LONG) && !watch.claim(Some(&seen), &at("b"), LONG).unwrap());
    make(&mut old, "goes on").unwrap();
    old.begin();
    old.order_successor(Some("c")).unwrap();
    old.commit().unwrap();
    assert!(!watch.claim(Some(&seen), &at("b"), LONG).unwrap(), "another one is wanted");
    let seen = watch.look().unwrap().unwrap();
    assert!(seen.may_follow("c", LONG) && !seen.may_follow("b", LONG));
    assert!(watch.claim(Some(&seen), &at("c"), LONG).unwrap());
    assert!(matches!(make(&mut old, "late"), Err(StoreError::Superseded)));
    assert!(!watch.claim(Some(&seen), &at("c"), LONG).unwrap(), "it is followed once");
    let (mut new, later) = start(&place, "c");
    assert!(later > incarnation);
    make(&mut new, "new").unwrap();
    let found = |name| new.child(FileId(1), name).unwrap().is_some();
    assert!(found("goes on") && found("new") && !found("late"));
    assert_eq!(watch.look().unwrap().unwrap().successor, None, "an order is carried out once");
}

#[test]
fn of_several_standbys_one_follows_a_head_that_is_silent() {
    let Some(place) = TestCatalogue::database() else { return };
    drop(place.create());
    let (mut old, _) = start(&place, "a");
    let watches: Vec<_> = (0..4).map(|_| Watch::new(&place.catalogue).unwrap()).collect();
    let seen = watches[0].look().unwrap();
    let claims = std::thread::scope(|scope| {
        let claims: Vec<_> = watches
            .into_iter()
            .enumerate()
            // Shorter than any silence: by the clock of the database, which goes on.
            .map(|(number, watch)| {
                let seen = seen.clone();
                scope.spawn(move || {
                    let place = at(&format!("b{number}"));
                    watch.claim(seen.as_ref(), &place, Millis(-1)).unwrap()
                })
            })
            .collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(claims.iter().filter(|claim| **claim).count(), 1, "{claims:?}");
    assert!(make(&mut old, "late").is_err());
}

#[test]
fn a_catalogue_in_a_file_has_no_standby() {
    let place = TestCatalogue::file();
    drop(place.create());
    assert_eq!(Watch::new(&place.catalogue).err().unwrap().kind, ErrorKind::Unsupported);
}
