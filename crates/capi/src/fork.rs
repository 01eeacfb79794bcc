//! Forks: the child has the tables of its parent, but not the threads that may hold their locks.

use crate::{
    descriptor::{self, Descriptor},
    directory::{self, Directory},
    foreign,
    table::Table,
};
use std::{
    cell::RefCell,
    panic,
    sync::{MutexGuard, Once},
};

/// The tables, held by the thread that forks: in the child it is the only one, and finds them whole.
struct LockedTables {
    files: MutexGuard<'static, Table<Descriptor>>,
    directories: MutexGuard<'static, Table<Directory>>,
}

thread_local! {
    static HELD: RefCell<Option<LockedTables>> = const { RefCell::new(None) };
}

/// Has every fork from now on prepared for.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| foreign::on_fork(before, in_parent, in_child));
}

extern "C" fn before() {
    quietly(|| {
        // Nobody else takes both.
        let (files, directories) = (descriptor::table(), directory::table());
        let _ = HELD.try_with(|held| held.replace(Some(LockedTables { files, directories })));
    });
}

extern "C" fn in_parent() {
    quietly(|| drop(held()));
}

extern "C" fn in_child() {
    quietly(|| {
        let Some(mut held) = held() else { return };
        held.files.supersede(|file| match file {
            // The system keeps these, whoever is in a call with them.
            Descriptor::Local(_) => None,
            Descriptor::Remote(file) => file.for_child().map(Descriptor::Remote),
            // It refuses all but its close.
            Descriptor::Shared(_) => None,
        });
        held.directories.supersede(Directory::for_child);
    });
}

fn held() -> Option<LockedTables> {
    HELD.try_with(|held| held.replace(None)).ok().flatten()
}

/// No panic may leave: the C library would end the process. A fork that was not prepared for is one as any library has.
fn quietly(act: impl FnOnce() + panic::UnwindSafe) {
    let _ = panic::catch_unwind(act);
}
