//! The copies of one column.

use super::{FailedCopy, is_of_server};
use crate::xrd::{self, Options};
use base::{Failure, ObjectId, Result};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};
use wire::control::LayoutObject;

/// A copy that is open.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) object: ObjectId,
    pub(super) file: xrd::File,
}

/// All copies of one column.
#[derive(Debug)]
pub(super) struct Column {
    /// Those that are open. To write, that is all of them; to read, the one that is read now.
    open: RwLock<Vec<Arc<Copy>>>,
    /// To read: those that are read when the others fail.
    spare: Vec<LayoutObject>,
    options: Options,
    /// Where it ends.
    end: AtomicU64,
    /// Copies that failed and are in the layout still.
    failed: Mutex<Vec<FailedCopy>>,
}

impl Column {
    /// Opens copies for reading when they are needed.
    pub(super) fn to_read(objects: &[LayoutObject], options: &Options) -> Self {
        Self {
            open: RwLock::default(),
            spare: objects.to_vec(),
            options: options.clone(),
            end: AtomicU64::new(0),
            failed: Mutex::default(),
        }
    }

    /// Opens all copies for writing. Those that cannot be opened have failed, unless all have.
    pub(super) fn to_update(objects: &[LayoutObject], options: &Options) -> Result<Self> {
        let opened = super::at_once(objects.iter().collect(), |object| open_update(object, options));
        let (mut open, mut failures) = (Vec::new(), Vec::new());
        for (object, outcome) in objects.iter().zip(opened) {
            match outcome {
                Ok(file) => open.push(Arc::new(Copy { object: object.object, file })),
                Err(failure) if !is_of_server(&failure) => return Err(failure),
                Err(failure) => failures.push(FailedCopy { object: object.object, failure }),
            }
        }
        if open.is_empty() {
            return Err(failures.swap_remove(0).failure);
        }
        let end = open.iter().map(|copy| copy.file.size()).max().unwrap_or(0);
        let (open, end) = (RwLock::new(open), AtomicU64::new(end));
        let failed = Mutex::new(failures);
        Ok(Self { open, spare: Vec::new(), options: options.clone(), end, failed })
    }

    /// The copies that are open.
    pub(super) fn open_copies(&self) -> Vec<Arc<Copy>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies that failed and are in the layout still.
    pub(super) fn failed(&self) -> MutexGuard<'_, Vec<FailedCopy>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps in mind that a copy failed.
    pub(super) fn fail(&self, object: ObjectId, failure: &Failure) {
        let mut failed = self.failed();
        if failed.iter().all(|copy| copy.object != object) {
            failed.push(FailedCopy { object, failure: failure.clone() });
        }
    }

    /// Whether copies are left that have not failed.
    pub(super) fn can_go_on(&self) -> bool {
        let open = self.open_copies();
        let failed = self.failed();
        open.iter().any(|copy| failed.iter().all(|other| other.object != copy.object))
    }

    /// The objects that are open.
    pub(super) fn objects(&self) -> Vec<ObjectId> {
        self.open_copies().iter().map(|copy| copy.object).collect()
    }

    /// A copy to read from.
    pub(super) fn reachable(&self) -> Result<Arc<Copy>> {
        self.open_copies().into_iter().next().map_or_else(|| self.reopen(None), Ok)
    }

    /// Opens the first copy for reading that is not `failed`.
    fn reopen(&self, failed: Option<ObjectId>) -> Result<Arc<Copy>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have done it.
        if let Some(copy) = open.first().filter(|copy| Some(copy.object) != failed) {
            return Ok(Arc::clone(copy));
        }
        let mut failure = Failure::unavailable("no other copy can be read");
        for object in self.spare.iter().filter(|spare| Some(spare.object) != failed) {
            match object.url.parse().and_then(|url| xrd::File::open_read(&url, &self.options)) {
                Ok(file) => {
                    let copy = Arc::new(Copy { object: object.object, file });
                    *open = vec![Arc::clone(&copy)];
                    return Ok(copy);
                }
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    /// Reads from the first copy that answers; fewer bytes at the end.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.ask(|file| file.read_at(offset, buffer))
    }

    /// Asks the first copy that answers.
    pub(super) fn ask<T>(&self, mut ask: impl FnMut(&xrd::File) -> Result<T>) -> Result<T> {
        let copies = self.open_copies();
        if self.spare.is_empty() {
            // Open for writing: the grant allows nobody else to change them, so that all have the same.
            let mut outcome = Err(Failure::unavailable("no copy can be read"));
            let failed: Vec<_> = self.failed().iter().map(|copy| copy.object).collect();
            for copy in copies.iter().filter(|copy| !failed.contains(&copy.object)) {
                outcome = ask(&copy.file);
                match &outcome {
                    Err(failure) if is_of_server(failure) => self.fail(copy.object, failure),
                    _ => break,
                }
            }
            return outcome;
        }
        let copy = self.reachable()?;
        match ask(&copy.file) {
            Err(failure) if self.spare.len() > 1 && is_of_server(&failure) => {
                let other = self.reopen(Some(copy.object)).map_err(|_| failure)?;
                ask(&other.file)
            }
            outcome => outcome,
        }
    }

    /// Fills all pieces; bytes behind the end are zero.
    pub(super) fn read_all(&self, pieces: Vec<(u64, &mut [u8])>) -> Result<()> {
        for (offset, piece) in pieces {
            let count = self.read_at(offset, piece)?;
            piece[count..].fill(0);
        }
        Ok(())
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// It was cut or extended.
    pub(super) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// It was written up to `end`.
    pub(super) fn grown(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Relaxed);
    }

    /// Drops copies.
    pub(super) fn retain(&self, is_kept: impl Fn(ObjectId) -> bool) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.retain(|copy| is_kept(copy.object));
        drop(open);
        self.failed().retain(|copy| is_kept(copy.object));
    }

    /// Closes all copies that nobody uses.
    pub(super) fn close(self) -> Result<()> {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        let files = open.into_iter().filter_map(Arc::into_inner).map(|copy| copy.file.close());
        files.fold(Ok(()), Result::and)
    }
}

fn open_update(object: &LayoutObject, options: &Options) -> Result<xrd::File> {
    xrd::File::open_update(&object.url.parse()?, options)
}
