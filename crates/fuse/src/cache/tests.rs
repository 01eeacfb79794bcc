use super::*;
use base::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ME: ClientId = ClientId(1);
const DIRECTORY: FileId = FileId(2);
const LEASE: Millis = Millis(1000);

fn entry(id: u64, name: &str) -> Entry {
    Entry {
        id: FileId(id),
        name: name.into(),
        kind: NodeKind::File,
        owner: "ada".into(),
        group: "ada".into(),
        mode: 0o644,
        size: id,
        modified: Timestamp(0),
        source_modified: None,
        checksums: None,
        state: None,
        posix: wire::control::PosixFields::default(),
    }
}

fn cache() -> Cache {
    let cache = Cache::default();
    cache.clear(ME);
    cache
}

#[test]
fn what_was_told_is_known_as_long_as_the_lease() {
    let (cache, file) = (cache(), entry(7, "f"));
    let asked = cache.asked(ME, 100);
    assert_eq!(cache.keep_node(asked, &file, LEASE), 1100);
    assert_eq!(cache.keep_name(asked, (DIRECTORY, "f"), Some(file.id), LEASE), 1100);
    assert_eq!(cache.keep_name(asked, (DIRECTORY, "g"), None, LEASE), 1100);
    assert_eq!(cache.node(ME, file.id, 1099).map(|found| found.1), Some(1100));
    assert_eq!(cache.name(ME, (DIRECTORY, "f"), 1099), Name::Node(file.id, 1100));
    assert_eq!(cache.name(ME, (DIRECTORY, "g"), 1099), Name::Absent(1100));
    assert_eq!(cache.name(ME, (DIRECTORY, "h"), 1099), Name::Unknown);
    assert!(cache.node(ME, file.id, 1100).is_none());
    assert_eq!(cache.name(ME, (DIRECTORY, "f"), 1100), Name::Unknown);
    assert!(cache.node(ClientId(2), file.id, 200).is_none(), "leases of another session");
    assert_eq!(cache.keep_node(asked, &entry(8, "x"), Millis(0)), 0, "no lease");
}

#[test]
fn an_answer_that_crosses_an_invalidation_is_not_kept() {
    let (cache, file) = (cache(), entry(7, "f"));
    let asked = cache.asked(ME, 100);
    cache.forget(&[file.id, DIRECTORY]);
    assert!(!cache.is_current(asked, file.id));
    assert_eq!(cache.keep_node(asked, &file, LEASE), 0);
    assert_eq!(cache.keep_name(asked, (DIRECTORY, "f"), Some(file.id), LEASE), 0);
    cache.keep_names(asked, DIRECTORY, std::slice::from_ref(&file), LEASE);
    assert!(cache.listing(ME, DIRECTORY, 101).is_none());
    assert_eq!(cache.made(asked, (DIRECTORY, "g"), &entry(8, "g"), (LEASE, LEASE)), 0);
    let asked = cache.asked(ME, 100);
    assert!(cache.keep_node(asked, &file, LEASE) > 0);
    cache.clear(ClientId(2));
    assert_eq!(cache.keep_node(asked, &file, LEASE), 0, "of an older session");
}

#[test]
fn a_directory_that_is_known_whole_has_no_other_names() {
    let cache = cache();
    let asked = cache.asked(ME, 100);
    let directory = Entry { kind: NodeKind::Directory, ..entry(9, "d") };
    cache.made(asked, (DIRECTORY, "d"), &directory, (LEASE, LEASE));
    assert_eq!(cache.name(ME, (FileId(9), "x"), 101), Name::Absent(1100));
    let asked = cache.asked(ME, 200);
    let other = cache.asked(ME, 200);
    cache.made(asked, (FileId(9), "y"), &entry(11, "y"), (LEASE, LEASE));
    cache.made(other, (FileId(9), "x"), &entry(10, "x"), (LEASE, LEASE));
    let names = |cache: &Cache| {
        let all = cache.listing(ME, FileId(9), 201)?;
        Some(all.into_iter().map(|entry| entry.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&cache), Some(vec!["x".to_owned(), "y".to_owned()]));
    cache.moved((FileId(9), "x"), (FileId(9), "y"));
    assert_eq!(names(&cache), None, "attributes of what was moved are not known");
    assert_eq!(cache.name(ME, (FileId(9), "y"), 201), Name::Node(FileId(10), 1200));
    cache.made(asked, (FileId(9), "z"), &entry(12, "z"), (LEASE, Millis(0)));
    assert_eq!(cache.name(ME, (FileId(9), "z"), 201), Name::Unknown, "without a lease nothing is known");
    cache.keep_names(cache.asked(ME, 200), FileId(9), &[], LEASE);
    cache.removed((FileId(9), "y"));
    assert_eq!(names(&cache), Some(Vec::new()));
    cache.doubt(FileId(9));
    assert_eq!(cache.name(ME, (FileId(9), "y"), 201), Name::Unknown);
}

#[test]
fn own_changes_are_crossed_by_answers_to_other_threads() {
    let (cache, file) = (cache(), entry(7, "f"));
    let asked = cache.asked(ME, 100);
    cache.removed((DIRECTORY, "f"));
    assert_eq!(cache.keep_name(asked, (DIRECTORY, "f"), Some(file.id), LEASE), 0);
    let asked = cache.asked(ME, 100);
    cache.changed(file.id);
    assert_eq!(cache.keep_node(asked, &file, LEASE), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Look(u8),
    List,
    Make(u8),
    Remove(u8),
    Move(u8, u8),
    Exchange(u8, u8),
    /// Another host makes or removes a name.
    Other(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6u8;
    prop_oneof![
        name.clone().prop_map(Step::Look),
        Just(Step::List),
        name.clone().prop_map(Step::Make),
        name.clone().prop_map(Step::Remove),
        (name.clone(), name.clone()).prop_map(|(from, to)| Step::Move(from, to)),
        (name.clone(), name.clone()).prop_map(|(one, other)| Step::Exchange(one, other)),
        name.prop_map(Step::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn what_is_known_is_so(steps in proptest::collection::vec(step(), 1..60)) {
        let (cache, mut truth, mut next) = (cache(), BTreeMap::<u8, FileId>::new(), 100);
        let text = |name: u8| name.to_string();
        for step in steps {
            let asked = cache.asked(ME, 100);
            let mut new = || { next += 1; FileId(next) };
            match step {
                Step::Look(name) => {
                    let file = truth.get(&name).copied();
                    cache.keep_name(asked, (DIRECTORY, &text(name)), file, LEASE);
                }
                Step::List => {
                    let entries: Vec<_> = truth.iter().map(|(name, file)| entry(file.0, &text(*name))).collect();
                    cache.keep_names(asked, DIRECTORY, &entries, LEASE);
                }
                Step::Make(name) if !truth.contains_key(&name) => {
                    let file = new();
                    truth.insert(name, file);
                    cache.made(asked, (DIRECTORY, &text(name)), &entry(file.0, &text(name)), (LEASE, LEASE));
                }
                Step::Remove(name) if truth.remove(&name).is_some() => cache.removed((DIRECTORY, &text(name))),
                Step::Move(from, to) if from != to => {
                    let Some(file) = truth.remove(&from) else { continue };
                    truth.insert(to, file);
                    cache.moved((DIRECTORY, &text(from)), (DIRECTORY, &text(to)));
                }
                Step::Exchange(one, other) if one != other => {
                    let (Some(first), Some(second)) = (truth.get(&one).copied(), truth.get(&other).copied()) else {
                        continue;
                    };
                    truth.extend([(one, second), (other, first)]);
                    cache.exchanged((DIRECTORY, &text(one)), (DIRECTORY, &text(other)));
                }
                Step::Other(name) => {
                    cache.forget(&[DIRECTORY]);
                    let file = new();
                    if truth.remove(&name).is_none() {
                        truth.insert(name, file);
                    }
                }
                _ => {}
            }
            for name in 0..6 {
                match cache.name(ME, (DIRECTORY, &text(name)), 101) {
                    Name::Node(file, _) => prop_assert_eq!(truth.get(&name), Some(&file)),
                    Name::Absent(_) => prop_assert_eq!(truth.get(&name), None),
                    Name::Unknown => {}
                }
            }
            let inner = cache.lock();
            prop_assert_eq!(inner.names, inner.directories.values().map(|it| it.names.len()).sum::<usize>());
        }
    }
}
