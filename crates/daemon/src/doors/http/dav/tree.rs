//! Work on whole directories: removal and copy, page by page, with a bound on what is remembered.

use crate::doors::http::{
    file::{listing::Pages, segments::Inflow},
    paths::{PathRequest, is_directory},
};
use base::{Checksums, ErrorKind, Failure, FilePath, Result};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use wire::{
    control::{Disposition, Entry, Mkdir, OpenWrite, Remove, RemoveDirectory},
    digest::Hashing,
};

/// Removals under way at a time: they are committed together.
const REMOVALS_AT_ONCE: usize = 64;
/// Copies under way at a time: each reads and writes, and the disks have others to serve.
const COPIES_AT_ONCE: usize = 4;
/// Failures that are reported; after so many the rest is not tried.
const TROUBLES_MAX: usize = 1000;

/// What failed within a tree, at least one part.
#[derive(Debug)]
pub(in crate::doors::http) struct Trouble(Vec<(FilePath, Failure)>);

impl Trouble {
    fn one(path: &FilePath, failure: Failure) -> Self {
        Self(vec![(path.clone(), failure)])
    }

    /// What failed, and why.
    pub(in crate::doors::http) fn into_parts(self) -> Vec<(FilePath, Failure)> {
        self.0
    }
}

/// Failures as they come.
#[derive(Default)]
struct Failures(Vec<(FilePath, Failure)>);

impl Failures {
    fn add(&mut self, path: FilePath, failure: Failure) {
        if self.0.len() < TROUBLES_MAX {
            self.0.push((path, failure));
        }
    }

    fn is_full(&self) -> bool {
        self.0.len() >= TROUBLES_MAX
    }

    fn finish(self) -> Result<(), Trouble> {
        if self.0.is_empty() { Ok(()) } else { Err(Trouble(self.0)) }
    }
}

/// A directory on the way down.
struct Level {
    path: FilePath,
    pages: Pages,
    /// Directories of the present page that are still to be entered.
    below: Vec<FilePath>,
    troubles_before: usize,
}

impl Level {
    fn new(request: &PathRequest, path: FilePath, troubles: &Failures) -> Self {
        let pages = Pages::new(request, &path);
        Self { path, pages, below: Vec::new(), troubles_before: troubles.0.len() }
    }
}

/// Removes a directory from its leaves up. What cannot be removed stays, with the directories above it.
pub(in crate::doors::http) async fn remove(request: &PathRequest, path: &FilePath) -> Result<(), Trouble> {
    let mut troubles = Failures::default();
    let mut levels = vec![Level::new(request, path.clone(), &troubles)];
    while let Some(level) = levels.last_mut() {
        if let Some(next) = level.below.pop() {
            let next = Level::new(request, next, &troubles);
            levels.push(next);
            continue;
        }
        let page = if troubles.is_full() { Ok(None) } else { level.pages.next().await };
        match page {
            Ok(Some(entries)) => {
                level.below = remove_files(request, &level.path, entries, &mut troubles).await;
            }
            Ok(None) => {
                // Nobody is told twice: a directory whose content stayed stays without a word.
                let is_clear = troubles.0.len() == level.troubles_before;
                let path = level.path.clone();
                levels.pop();
                if is_clear {
                    remove_directory(request, path, &mut troubles).await;
                }
            }
            Err(failure) => {
                let path = level.path.clone();
                levels.pop();
                troubles.add(path, failure);
            }
        }
    }
    troubles.finish()
}

async fn remove_directory(request: &PathRequest, path: FilePath, troubles: &mut Failures) {
    let call = RemoveDirectory { path: path.clone() };
    match request.call(call).await {
        Ok(_) => {}
        Err(failure) if failure.kind == ErrorKind::NotFound => {}
        Err(failure) => troubles.add(path, failure),
    }
}

/// Removes the files of a page; tells its directories.
async fn remove_files(
    request: &PathRequest,
    path: &FilePath,
    entries: Vec<Entry>,
    troubles: &mut Failures,
) -> Vec<FilePath> {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for entry in entries {
        match path.join(&entry.name) {
            Ok(path) if is_directory(&entry) => directories.push(path),
            Ok(path) => files.push(path),
            Err(failure) => troubles.add(path.clone(), failure),
        }
    }
    let removals = files.into_iter().map(|path| async move {
        let outcome = request.call(Remove { path: path.clone() }).await;
        (path, outcome)
    });
    let mut removals = stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE);
    while let Some((path, outcome)) = removals.next().await {
        match outcome {
            Ok(_) => {}
            // Somebody else was quicker.
            Err(failure) if failure.kind == ErrorKind::NotFound => {}
            Err(failure) => troubles.add(path, failure),
        }
    }
    directories
}

/// A directory on the way down, and where it goes.
struct CopyLevel {
    from: FilePath,
    to: FilePath,
    pages: Pages,
    /// Directories of the present page that are still to be copied.
    below: Vec<(FilePath, FilePath)>,
}

impl CopyLevel {
    fn new(request: &PathRequest, from: FilePath, to: FilePath) -> Self {
        Self { pages: Pages::new(request, &from), from, to, below: Vec::new() }
    }
}

/// Copies a directory, and with `is_deep` everything in it, to a name that is free. The copy belongs to whoever makes it.
pub(in crate::doors::http) async fn copy(
    request: &PathRequest,
    from: &FilePath,
    to: &FilePath,
    is_deep: bool,
) -> Result<(), Trouble> {
    let mut troubles = Failures::default();
    make(request, to).await.map_err(|failure| Trouble::one(to, failure))?;
    let mut levels = Vec::new();
    if is_deep {
        levels.push(CopyLevel::new(request, from.clone(), to.clone()));
    }
    while let Some(level) = levels.last_mut() {
        if let Some((from, to)) = level.below.pop() {
            match make(request, &to).await {
                Ok(()) => levels.push(CopyLevel::new(request, from, to)),
                Err(failure) => troubles.add(to, failure),
            }
            continue;
        }
        let page = if troubles.is_full() { Ok(None) } else { level.pages.next().await };
        match page {
            Ok(Some(entries)) => {
                level.below = copy_page(request, &level.from, &level.to, entries, &mut troubles).await;
            }
            Ok(None) => drop(levels.pop()),
            Err(failure) => {
                troubles.add(level.from.clone(), failure);
                levels.pop();
            }
        }
    }
    troubles.finish()
}

async fn make(request: &PathRequest, path: &FilePath) -> Result<()> {
    let call = Mkdir { path: path.clone(), mode: 0o755, parents: false };
    request.call(call).await.map(|_| ())
}

/// Copies the files of a page; tells its directories and where they go.
async fn copy_page(
    request: &PathRequest,
    from: &FilePath,
    to: &FilePath,
    entries: Vec<Entry>,
    troubles: &mut Failures,
) -> Vec<(FilePath, FilePath)> {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    for entry in entries {
        match (from.join(&entry.name), to.join(&entry.name)) {
            (Ok(from), Ok(to)) if is_directory(&entry) => directories.push((from, to)),
            (Ok(from), Ok(to)) => files.push((from, to)),
            (Err(failure), _) | (_, Err(failure)) => troubles.add(to.clone(), failure),
        }
    }
    let copies = files.into_iter().map(|(from, to)| async move {
        let outcome = copy_file(request, &from, &to, Disposition::CreateNew, |_| {}).await;
        (to, outcome)
    });
    let mut copies = stream::iter(copies).buffer_unordered(COPIES_AT_ONCE);
    while let Some((to, outcome)) = copies.next().await {
        if let Err(failure) = outcome {
            troubles.add(to, failure);
        }
    }
    directories
}

/// Copies one file; its bytes are compared with the sums of the original before the copy counts. `moved` hears of bytes.
pub(in crate::doors::http) async fn copy_file(
    request: &PathRequest,
    from: &FilePath,
    to: &FilePath,
    disposition: Disposition,
    moved: impl Fn(usize),
) -> Result<()> {
    let door = &request.door;
    let source = door.files.read_through(&request.who, from, Arc::clone(&door.counters.http.traffic)).await?;
    let (size, mode, sums) = (source.grant.size, source.grant.mode, source.grant.checksums);
    let open = OpenWrite {
        path: to.clone(),
        mode,
        disposition,
        parents: false,
        expected_bytes: size,
        source_modified: source.grant.source_modified,
    };
    let file = Arc::new(
        door.files.write_through(&request.who, open, Arc::clone(&door.counters.http.traffic)).await?,
    );
    let whole = crate::doors::http::file::segments::Piece::Range(base::ByteRange { offset: 0, end: size });
    let segments =
        crate::doors::http::file::segments::segments(Arc::new(source), vec![whole], door.budget.join());
    let mut segments = std::pin::pin!(segments);
    let mut inflow = Inflow::new(Arc::clone(&file), Hashing::default(), door.budget.join());
    while let Some(segment) = segments.next().await {
        let segment = segment.map_err(|cause| Failure::io(format!("read {from}"), &cause))?;
        moved(segment.len());
        inflow.push(segment).await?;
    }
    inflow.finish().await?;
    file.commit(|info| same(from, (size, sums), (info.size, info.checksums))).await.map(|_| ())
}

fn same(from: &FilePath, source: (u64, Checksums), copy: (u64, Checksums)) -> Result<()> {
    if source == copy {
        return Ok(());
    }
    Err(Failure::corrupt(format!("the copy of {from} has {} bytes with other sums than its source", copy.0)))
}
