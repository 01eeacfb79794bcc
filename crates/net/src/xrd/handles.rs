//! Open files of a session.

use super::OpenFile;
use base::{Failure, FilePath, Result, limits::SESSION_OPEN_FILES_MAX};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use wire::xrd::{Answer, BAD_PAGES_PER_FILE_MAX, ErrorCode, FileHandle, Page};

/// An open file.
#[derive(Debug)]
pub(super) struct Handle<F> {
    pub(super) file: Arc<F>,
    pub(super) path: FilePath,
    pub(super) is_writable: bool,
    /// A write failed: what the file holds is not known, so it must not be committed.
    pub(super) has_failed: AtomicBool,
    /// Pages that came with a wrong checksum and were not corrected yet: offset → length.
    bad_pages: Mutex<BTreeMap<u64, usize>>,
}

impl<F> Handle<F> {
    pub(super) fn new(file: Arc<F>, path: FilePath, is_writable: bool) -> Self {
        Self { file, path, is_writable, has_failed: AtomicBool::new(false), bad_pages: Mutex::default() }
    }

    fn bad_pages(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.bad_pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a bad page; `false` if there are too many: then the write has failed, and the file with it.
    pub(super) fn add_bad_page(&self, page: Page) -> bool {
        let mut bad = self.bad_pages();
        if bad.len() >= BAD_PAGES_PER_FILE_MAX && !bad.contains_key(&page.offset) {
            return false;
        }
        bad.insert(page.offset, page.length);
        true
    }

    /// A page arrived well: it corrects a bad one that it covers.
    pub(super) fn correct_page(&self, page: Page) {
        let mut bad = self.bad_pages();
        if bad.get(&page.offset).is_some_and(|length| *length <= page.length) {
            bad.remove(&page.offset);
        }
    }

    /// The reason for which the file must not be committed.
    pub(super) fn refuse_close(&self) -> Option<Answer> {
        let count = self.bad_pages().len();
        (count > 0).then(|| {
            let message = format!("{}: {count} pages with wrong checksums were not corrected", self.path);
            Answer::error(ErrorCode::ChecksumError, message)
        })
    }

    /// Whether a write failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Slots<F> {
    entries: Vec<Option<Arc<Handle<F>>>>,
    free: Vec<u32>,
    /// Opens under way.
    pending: usize,
}

impl<F> Slots<F> {
    fn check(&self) -> Result<()> {
        if self.entries.len() - self.free.len() + self.pending >= SESSION_OPEN_FILES_MAX {
            return Err(Failure::busy(format!("this session has {SESSION_OPEN_FILES_MAX} files open"))
                .hint("close files that are not needed any more"));
        }
        Ok(())
    }
}

/// The place of an open that is under way.
pub(super) struct HandleSlot<'a, F: OpenFile>(&'a Handles<F>);

impl<F: OpenFile> Drop for HandleSlot<'_, F> {
    fn drop(&mut self) {
        self.0.slots().pending -= 1;
    }
}

/// The table of open files.
#[derive(Debug)]
pub(super) struct Handles<F>(Mutex<Slots<F>>);

impl<F: OpenFile> Handles<F> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Slots { entries: Vec::new(), free: Vec::new(), pending: 0 }))
    }

    fn slots(&self) -> MutexGuard<'_, Slots<F>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for an open that begins, until the guard is dropped.
    pub(super) fn reserve(&self) -> Result<HandleSlot<'_, F>> {
        let mut slots = self.slots();
        slots.check()?;
        slots.pending += 1;
        Ok(HandleSlot(self))
    }

    pub(super) fn insert(&self, handle: Handle<F>) -> Result<FileHandle> {
        let mut slots = self.slots();
        slots.check()?;
        let handle = Some(Arc::new(handle));
        match slots.free.pop() {
            Some(index) => {
                slots.entries[index as usize] = handle;
                Ok(FileHandle::of(index))
            }
            None => {
                slots.entries.push(handle);
                Ok(FileHandle::of(slots.entries.len() as u32 - 1))
            }
        }
    }

    pub(super) fn get(&self, handle: FileHandle) -> Result<Arc<Handle<F>>, Answer> {
        let slots = self.slots();
        let entry = slots.entries.get(handle.number() as usize).and_then(Clone::clone);
        entry.ok_or_else(|| not_open(handle))
    }

    /// Takes all files out of the table. Whoever works with one still has it.
    pub(super) fn clear(&self) {
        let mut slots = self.slots();
        slots.free.clear();
        let entries = std::mem::take(&mut slots.entries);
        drop(slots);
        // What is dropped with them may take its time.
        drop(entries);
    }

    pub(super) fn remove(&self, handle: FileHandle) -> Result<Arc<Handle<F>>, Answer> {
        let mut slots = self.slots();
        let entry = slots.entries.get_mut(handle.number() as usize).and_then(Option::take);
        let entry = entry.ok_or_else(|| not_open(handle))?;
        slots.free.push(handle.number());
        Ok(entry)
    }
}

fn not_open(handle: FileHandle) -> Answer {
    Answer::error(ErrorCode::FileNotOpen, format!("handle {} names no open file", handle.number()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_pages_of_a_file_are_bounded() {
        let handle = Handle::new(Arc::new(()), FilePath::root(), true);
        let page = |number: usize| Page { offset: number as u64 * 4096, length: 4096 };
        assert!((0..BAD_PAGES_PER_FILE_MAX).all(|number| handle.add_bad_page(page(number))));
        assert!(!handle.add_bad_page(page(BAD_PAGES_PER_FILE_MAX)));
        assert!(handle.add_bad_page(page(0)), "it is known already");
        assert_eq!(handle.bad_pages().len(), BAD_PAGES_PER_FILE_MAX);
        handle.correct_page(page(1));
        assert!(handle.add_bad_page(page(BAD_PAGES_PER_FILE_MAX)));
    }
}
