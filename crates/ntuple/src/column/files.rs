//! Local files that are open: a bounded number of them, whatever the number of files of all chains.

use base::Result;
use std::{
    collections::VecDeque,
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Files that are open at once: a batch job may have 256 descriptors in all, and not only for us.
const OPEN_MAX: usize = 64;
/// What the kernel answers when the process has no descriptor left.
const NO_DESCRIPTOR_LEFT: i32 = 24;

/// Open files by their identity, so that two chains of the same file share them.
pub(super) struct OpenFiles {
    /// Held for a look only, never while a file is opened or read.
    inner: Mutex<Inner>,
    /// Told when a file is no longer in use.
    freed: Condvar,
}

struct Inner {
    /// Those that nobody reads now, the longest unused first.
    idle: VecDeque<(Arc<str>, File)>,
    /// Idle, in use or being opened.
    open: usize,
}

/// An open file in use; given back when it is dropped.
struct Lease<'a> {
    files: &'a OpenFiles,
    identity: Arc<str>,
    /// `None` gives back only the right to open one.
    file: Option<File>,
}

impl OpenFiles {
    const fn new() -> Self {
        Self { inner: Mutex::new(Inner { idle: VecDeque::new(), open: 0 }), freed: Condvar::new() }
    }

    /// Those of this process.
    pub(super) fn shared() -> &'static Self {
        static SHARED: OpenFiles = OpenFiles::new();
        &SHARED
    }

    /// Calls `read` with the file `identity`, opened by `open` if it is not open already. Waits while all files that may
    /// be open are being read.
    pub(super) fn with<T>(
        &self,
        identity: &Arc<str>,
        open: impl Fn() -> io::Result<File>,
        failed: impl FnOnce(&io::Error) -> base::Failure,
        read: impl FnOnce(&File) -> Result<T>,
    ) -> Result<T> {
        let mut lease = self.lease(identity);
        if lease.file.is_none() {
            lease.file = Some(self.open(open).map_err(|cause| failed(&cause))?);
        }
        let file = lease.file.as_ref().expect("it was opened above");
        read(file)
    }

    fn open(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        match open() {
            Err(cause) if cause.raw_os_error() == Some(NO_DESCRIPTOR_LEFT) => {
                // The program has fewer left than we allow ourselves.
                let mut inner = self.lock();
                let closed = std::mem::take(&mut inner.idle);
                inner.open -= closed.len();
                drop(inner);
                drop(closed);
                open()
            }
            result => result,
        }
    }

    fn lease(&self, identity: &Arc<str>) -> Lease<'_> {
        let mut inner = self.lock();
        loop {
            let found = inner.idle.iter().rposition(|(known, _)| known == identity);
            if let Some((identity, file)) = found.and_then(|index| inner.idle.remove(index)) {
                return Lease { files: self, identity, file: Some(file) };
            }
            if inner.open < OPEN_MAX {
                inner.open += 1;
                break;
            }
            if inner.idle.pop_front().is_some() {
                break;
            }
            inner = self.freed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        Lease { files: self, identity: Arc::clone(identity), file: None }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete before it can panic, so a poisoned lock still guards a whole list.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut inner = self.files.lock();
        match self.file.take() {
            Some(file) => inner.idle.push_back((Arc::clone(&self.identity), file)),
            None => inner.open -= 1,
        }
        drop(inner);
        self.files.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn failed(cause: &io::Error) -> base::Failure {
        base::Failure::io("open", cause)
    }

    #[test]
    fn a_bounded_number_of_files_is_open() {
        let files = OpenFiles::new();
        let opened = AtomicUsize::new(0);
        let open = || {
            opened.fetch_add(1, Ordering::Relaxed);
            File::open("/dev/null")
        };
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (files, open) = (&files, &open);
                scope.spawn(move || {
                    for number in 0..200 {
                        let identity: Arc<str> = format!("{thread} {number}").into();
                        files.with(&identity, open, failed, |_| Ok(())).unwrap();
                        assert!(files.lock().open <= OPEN_MAX);
                    }
                });
            }
        });
        assert_eq!(opened.load(Ordering::Relaxed), 1600);
        assert_eq!(files.lock().idle.len(), OPEN_MAX);
        assert_eq!(files.lock().open, OPEN_MAX);
        let last: Arc<str> = files.lock().idle.back().unwrap().0.clone();
        files.with(&last, || panic!("it is open"), failed, |_| Ok(())).unwrap();
    }

    #[test]
    fn readers_wait_for_each_other_when_all_files_are_in_use() {
        let files = OpenFiles::new();
        let (entered, leave) = (std::sync::Barrier::new(OPEN_MAX + 1), std::sync::Barrier::new(OPEN_MAX + 1));
        std::thread::scope(|scope| {
            for number in 0..OPEN_MAX {
                let (files, entered, leave) = (&files, &entered, &leave);
                scope.spawn(move || {
                    let identity: Arc<str> = number.to_string().into();
                    let read = |_: &File| {
                        entered.wait();
                        leave.wait();
                        Ok(())
                    };
                    files.with(&identity, || File::open("/dev/null"), failed, read).unwrap();
                });
            }
            entered.wait();
            let late = scope.spawn(|| {
                files.with(&"late".into(), || File::open("/dev/null"), failed, |_| Ok(())).unwrap();
            });
            leave.wait();
            late.join().unwrap();
        });
        assert!(files.lock().open <= OPEN_MAX);
    }

    #[test]
    fn a_file_that_cannot_be_opened_takes_no_place() {
        let files = OpenFiles::new();
        let none = || File::open("/nonexistent");
        for _ in 0..2 * OPEN_MAX {
            assert!(files.with(&"none".into(), none, failed, |_| Ok(())).is_err());
        }
        assert_eq!(files.lock().open, 0);
        // Without a descriptor left, those that nobody reads are closed and it is tried once more.
        files.with(&"idle".into(), || File::open("/dev/null"), failed, |_| Ok(())).unwrap();
        let tries = AtomicUsize::new(0);
        let open = || match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Err(io::Error::from_raw_os_error(NO_DESCRIPTOR_LEFT)),
            _ => File::open("/dev/null"),
        };
        files.with(&"new".into(), open, failed, |_| Ok(())).unwrap();
        let inner = files.lock();
        assert_eq!((inner.open, inner.idle.len()), (1, 1));
    }
}
