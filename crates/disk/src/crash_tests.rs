//! Stops a life of an object before every durable step, as a kill, a power cut and a refusing kernel would.

use crate::{EntryState, Partition, object::durable::BEFORE_STEP};
use base::{Checksums, FileId, ObjectId, Result, Timestamp};
use std::{
    cell::RefCell,
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
};
use wire::media::object::{Holder, Label};

const FACILITY: &str = "f-1";
const OLD: ObjectId = ObjectId(0x101);
const NEW: ObjectId = ObjectId(0x201);

fn old_content() -> Vec<u8> {
    b"old ".repeat(1000)
}

fn new_content() -> Vec<u8> {
    let mut content = old_content();
    content[4..8].copy_from_slice(b"NEW!");
    content
}

fn content_of(object: ObjectId) -> Vec<u8> {
    if object == OLD { old_content() } else { new_content() }
}

/// What the caller was promised so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    Nothing,
    OldStored,
    NewStored,
    OldRemoving,
    OldGone,
}

/// Writes OLD, replaces it by NEW made from it, removes OLD.
fn live(partition: &Partition, promise: &RefCell<Promise>) -> Result<()> {
    let label = Label {
        file: FileId(1),
        path: "/data/a".parse()?,
        generation: 1,
        holder: Holder::default(),
        piece: None,
    };
    let writer = partition.create_object(OLD)?;
    writer.preallocate(4000)?;
    writer.write_at(&old_content(), 0)?;
    writer.commit(&label, Some((4000, Checksums::of(&old_content()))), Timestamp(1))?;
    *promise.borrow_mut() = Promise::OldStored;
    let writer = partition.create_object(NEW)?;
    partition.copy_into(&writer, OLD)?;
    writer.write_at(b"NEW!", 4)?;
    writer.sync()?;
    writer.commit(&label, None, Timestamp(2))?;
    *promise.borrow_mut() = Promise::NewStored;
    drop(writer);
    *promise.borrow_mut() = Promise::OldRemoving;
    partition.remove(OLD)?;
    *promise.borrow_mut() = Promise::OldGone;
    Ok(())
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The last words of a file are lost when the power goes before it is synced.
fn tear_incoming(partition: &Path) {
    for entry in fs::read_dir(partition.join("incoming")).unwrap() {
        let file = fs::OpenOptions::new().write(true).open(entry.unwrap().path()).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }
}

fn check(directory: &Path, promise: Promise, when: &str) {
    let partition = Partition::open(directory, FACILITY).unwrap();
    let mut complete = Vec::new();
    for entry in partition.list() {
        let entry = entry.unwrap();
        let object = entry.object.unwrap_or_else(|| panic!("{when}: {entry:?}"));
        match &entry.state {
            EntryState::Complete(info) => {
                assert_eq!(info.checksums, Checksums::of(&content_of(object)), "{when}");
                partition.verify(object).unwrap();
                complete.push(object);
            }
            state => assert!(state.is_leftover(), "{when}: {entry:?}"),
        }
    }
    let has = |object| complete.contains(&object);
    match promise {
        Promise::Nothing => assert!(!has(NEW), "{when}"),
        Promise::OldStored => assert!(has(OLD), "{when}"),
        Promise::NewStored => assert!(has(OLD) && has(NEW), "{when}"),
        Promise::OldRemoving => assert!(has(NEW), "{when}"),
        Promise::OldGone => assert!(has(NEW) && !has(OLD), "{when}"),
    }
    for object in [OLD, NEW] {
        if !complete.contains(&object) {
            assert_eq!(partition.open_object(object).unwrap_err().kind, base::ErrorKind::NotFound);
        }
        partition.remove(object).unwrap();
    }
    assert_eq!(partition.list().count(), 0, "{when}");
    live(&partition, &RefCell::new(Promise::Nothing)).unwrap();
}

/// Runs `body` with `hook` before every durable step.
pub(crate) fn with_steps<T>(
    hook: impl FnMut(&str) -> io::Result<()> + 'static,
    body: impl FnOnce() -> T,
) -> T {
    BEFORE_STEP.with_borrow_mut(|slot| *slot = Some(Box::new(hook)));
    let result = body();
    BEFORE_STEP.with_borrow_mut(|slot| *slot = None);
    result
}

#[test]
fn every_crash_point_leaves_nothing_a_leftover_or_a_complete_object() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("live");
    let partition = Partition::create(&directory, FACILITY, "p1").unwrap();
    let promise = Rc::new(RefCell::new(Promise::Nothing));
    let snapshots: Rc<RefCell<Vec<(PathBuf, Promise, String)>>> = Rc::default();
    let hook = {
        let (promise, snapshots, root) = (Rc::clone(&promise), Rc::clone(&snapshots), root.path().to_owned());
        move |step: &str| {
            let mut snapshots = snapshots.borrow_mut();
            let copy = root.join(format!("crash{}", snapshots.len()));
            copy_tree(&root.join("live"), &copy);
            let when = format!("before step {}, {step}", snapshots.len());
            snapshots.push((copy, *promise.borrow(), when));
            Ok(())
        }
    };
    with_steps(hook, || live(&partition, &promise)).unwrap();
    let snapshots = snapshots.borrow();
    assert!(snapshots.len() > 20, "only {} steps", snapshots.len());
    for (copy, promise, when) in snapshots.iter() {
        let torn = copy.with_extension("torn");
        copy_tree(copy, &torn);
        tear_incoming(&torn);
        check(copy, *promise, when);
        check(&torn, *promise, &format!("torn {when}"));
    }
}

#[test]
fn every_refused_step_is_reported_and_leaves_the_partition_sound() {
    for stays_broken in [false, true] {
        let mut failures = 0;
        for refused in 0.. {
            let root = tempfile::tempdir().unwrap();
            let partition = Partition::create(root.path(), FACILITY, "p1").unwrap();
            let promise = RefCell::new(Promise::Nothing);
            let mut count = 0;
            let hook = move |_: &str| {
                count += 1;
                if count - 1 == refused || stays_broken && count > refused {
                    return Err(io::Error::from_raw_os_error(28));
                }
                Ok(())
            };
            let result = with_steps(hook, || live(&partition, &promise));
            drop(partition);
            let promise = *promise.borrow();
            if let Err(failure) = &result {
                assert_eq!(failure.kind, base::ErrorKind::NoSpace, "step {refused}: {failure}");
                failures += 1;
            }
            check(root.path(), promise, &format!("step {refused} refused"));
            if result.is_ok() && promise == Promise::OldGone && failures > 20 && refused > 2 * failures {
                break;
            }
        }
    }
}

#[test]
fn a_partition_that_was_being_made_can_be_made_again() {
    for refused in 0.. {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("p");
        let mut count = 0;
        let hook = move |_: &str| {
            count += 1;
            if count - 1 == refused { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        };
        let made = with_steps(hook, || Partition::create(&directory, FACILITY, "p1"));
        if made.is_ok() {
            assert!(refused > 5);
            break;
        }
        // Either it is a whole partition by now, or the next try makes it one.
        if Partition::open(&directory, FACILITY).is_err() {
            Partition::create(&directory, FACILITY, "p1").unwrap();
        }
    }
}
