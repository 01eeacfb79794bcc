//! Files on servers, with what POSIX adds to them: a position, and small writes that are not sent one by one.

use crate::{
    attributes::Attributes,
    behind::{BEHIND_BYTES_MAX, WriteBuffer},
    descriptor::Channel,
    fault::{Fault, Result},
    flags::{Access, OpenMode, understand},
    local::past_the_end,
    place::{masked, names, options},
};
use base::{ByteRange, ErrorKind, Failure};
use client::xrd::{CreateOptions, File, ReadMode, XrdUrl};
use libc::{c_int, mode_t};
use share::LockMode;
use std::{
    io::SeekFrom,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Largest size and position: they are signed in C.
const OFFSET_MAX: u64 = i64::MAX as u64;
/// Tries to open a file that others make and remove at the same moment.
const RACES_MAX: usize = 3;

/// An open file on a server.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    url: String,
    access: Access,
    /// `None` once closed. Whoever uses it holds it shared, so a close waits until nobody does.
    file: RwLock<Option<Arc<File>>>,
    /// Where the next read or write at the position goes. It is moved under the lock of `tail`.
    position: AtomicU64,
    /// Calls that read or write at the position, or write at all, follow each other.
    tail: Mutex<PendingWrites>,
    /// This process was forked from the one that opened it for writing.
    is_inherited: bool,
}

/// The end of what was written.
#[derive(Debug, Default)]
struct PendingWrites {
    behind: WriteBuffer,
    /// Size, with what is held back; kept for files that are written.
    end: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the server for the file.
fn ask(url: &XrdUrl, open_mode: OpenMode, mode: mode_t) -> Result<File, Failure> {
    let options = options();
    let create = |replace| {
        let create = CreateOptions { replace, make_path: false, mode: masked(mode), size: None };
        File::create(url, &options, create)
    };
    match open_mode {
        OpenMode::Read => File::open_read(url, &options),
        OpenMode::Update => File::open_update(url, &options),
        OpenMode::Create => create(false),
        OpenMode::Replace => create(true),
        OpenMode::ReplaceExisting => names(url).stat(&url.path).and_then(|_| create(true)),
        OpenMode::UpdateOrCreate => {
            let mut tries = RACES_MAX;
            loop {
                let outcome = File::open_update(url, &options);
                if !outcome.as_ref().is_err_and(|failure| failure.kind == ErrorKind::NotFound) {
                    return outcome;
                }
                let outcome = create(false);
                tries -= 1;
                if tries == 0 || !outcome.as_ref().is_err_and(|failure| failure.kind == ErrorKind::Exists) {
                    return outcome;
                }
            }
        }
    }
}

/// Where `to` leads from `position` in a file of `size` bytes.
fn sought(to: SeekFrom, position: u64, size: u64) -> Option<u64> {
    match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(offset) => position.checked_add_signed(offset),
        SeekFrom::End(offset) => size.checked_add_signed(offset),
    }
}

impl RemoteFile {
    /// Opens or makes it as the flags of `open` say.
    pub(crate) fn open(url: &XrdUrl, flags: c_int, mode: mode_t) -> Result<Self> {
        let (access, open_mode) = understand(flags)?;
        let file = ask(url, open_mode, mode)?;
        let is_empty = matches!(open_mode, OpenMode::Create | OpenMode::Replace | OpenMode::ReplaceExisting);
        let end = if is_empty { 0 } else { file.size() };
        Ok(Self {
            url: url.to_string(),
            access,
            file: RwLock::new(Some(Arc::new(file))),
            position: AtomicU64::new(0),
            tail: Mutex::new(PendingWrites { end, ..PendingWrites::default() }),
            is_inherited: false,
        })
    }

    /// Uses the file, which stays open meanwhile.
    fn with<T>(&self, is_allowed: bool, act: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let bad = |why| Err(Fault::new(libc::EBADF, format!("{} {why}", self.url)));
        if self.is_inherited {
            let opened = "was opened for writing by the process that this one was forked from";
            return bad(opened).map_err(|fault: Fault| fault.hint("open it after the fork"));
        }
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        match file.as_deref() {
            None => bad("is closed"),
            Some(_) if !is_allowed => bad("was not opened for that"),
            Some(file) => act(file),
        }
    }

    fn readable<T>(&self, act: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        self.with(self.access.can_read, act)
    }

    fn writable<T>(&self, act: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        self.with(self.access.can_write, act)
    }

    /// Sends what is held back. What could not be sent is forgotten: the client remembers that the file is spoiled, and
    /// fails its close.
    fn flush(file: &File, tail: &mut PendingWrites) -> Result<()> {
        if tail.behind.is_empty() {
            return Ok(());
        }
        let (offset, bytes) = tail.behind.held();
        let outcome = file.write_at(offset, bytes);
        tail.behind.clear();
        Ok(outcome?)
    }

    fn put(&self, file: &File, tail: &mut PendingWrites, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= OFFSET_MAX);
        let end = end.ok_or_else(|| {
            Fault::new(
                libc::EFBIG,
                format!("write at {offset} of {}: beyond the largest file size", self.url),
            )
        })?;
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let count = if rest.len() >= BEHIND_BYTES_MAX && tail.behind.is_empty() {
                file.write_at(at, rest)?;
                rest.len()
            } else {
                tail.behind.fill(at, rest)
            };
            (at, rest) = (at + count as u64, &rest[count..]);
            if count == 0 || tail.behind.is_full() {
                Self::flush(file, tail)?;
            }
        }
        tail.end = tail.end.max(end);
        Ok(())
    }

    /// Reads from the server, with what was written before.
    fn get(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Fault::invalid(format!(
                "read at {offset} of {}: beyond the largest file size",
                self.url
            )));
        }
        if self.access.can_write {
            return Ok(file.read_at(offset, buffer)?);
        }
        // A file that is read does not change; whole reads inside it are those that are read ahead.
        let rest = usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(rest);
        Ok(file.read_at(offset, &mut buffer[..count])?)
    }

    /// Sends what is held back, if anything can be.
    fn settle(&self, file: &File) -> Result<()> {
        if self.access.can_write { Self::flush(file, &mut lock(&self.tail)) } else { Ok(()) }
    }

    fn size(&self, file: &File) -> u64 {
        if self.access.can_write { lock(&self.tail).end } else { file.size() }
    }

    /// Closes when nobody uses it any more: what was written becomes the file.
    pub(crate) fn close(&self) -> Result<()> {
        if self.is_inherited {
            return Ok(());
        }
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(file) = file else {
            return Err(Fault::new(libc::EBADF, format!("{} is closed", self.url)));
        };
        let outcome = if self.access.can_write { Self::flush(&file, &mut lock(&self.tail)) } else { Ok(()) };
        match Arc::into_inner(file) {
            // Not sent: dropped, which makes the server forget it.
            Some(file) if outcome.is_ok() => Ok(file.close()?),
            // A file that is read may be shared with what was left behind by a fork.
            _ => outcome,
        }
    }

    /// What a child of a fork has in the place of this one; nothing if it can go on with it as it is.
    ///
    /// A lock that is taken is held by a thread that the child does not have.
    pub(crate) fn for_child(&self) -> Option<Self> {
        let is_free = self.tail.try_lock().is_ok() && self.file.try_write().is_ok();
        if self.is_inherited || (is_free && !self.access.can_write) {
            return None;
        }
        let file = match self.file.try_read() {
            Ok(file) if !self.access.can_write => file.clone(),
            // Written by the parent, or being closed by it.
            _ => None,
        };
        Some(Self {
            url: self.url.clone(),
            access: self.access,
            file: RwLock::new(file),
            position: AtomicU64::new(self.position.load(Ordering::Relaxed)),
            tail: Mutex::default(),
            is_inherited: self.access.can_write,
        })
    }
}

impl Channel for RemoteFile {
    fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        self.readable(|file| {
            let mut tail = lock(&self.tail);
            Self::flush(file, &mut tail)?;
            let position = self.position.load(Ordering::Relaxed);
            let count = self.get(file, position, buffer)?;
            self.position.store(position + count as u64, Ordering::Relaxed);
            Ok(count)
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.readable(|file| {
            self.settle(file)?;
            self.get(file, offset, buffer)
        })
    }

    fn read_ranges(&self, ranges: &[ByteRange], buffers: &mut [&mut [u8]]) -> Result<()> {
        self.readable(|file| {
            self.settle(file)?;
            let size = self.size(file);
            match ranges.iter().find(|range| range.end > size && !range.is_empty()) {
                Some(range) => Err(past_the_end(*range, &self.url)),
                None => Ok(file.read_vector_into(ranges, buffers)?),
            }
        })
    }

    fn write(&self, data: &[u8]) -> Result<usize> {
        self.writable(|file| {
            let mut tail = lock(&self.tail);
            let position = self.position.load(Ordering::Relaxed);
            let offset = if self.access.is_append { tail.end } else { position };
            self.put(file, &mut tail, offset, data)?;
            self.position.store(offset + data.len() as u64, Ordering::Relaxed);
            Ok(data.len())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.writable(|file| self.put(file, &mut lock(&self.tail), offset, data).map(|()| data.len()))
    }

    fn seek(&self, to: SeekFrom) -> Result<u64> {
        self.with(true, |file| {
            let tail = lock(&self.tail);
            let size = if self.access.can_write { tail.end } else { file.size() };
            let place = sought(to, self.position.load(Ordering::Relaxed), size);
            let outside = || Fault::invalid(format!("seek in {}: the position would be negative", self.url));
            let place = place.ok_or_else(outside)?;
            if place > OFFSET_MAX {
                let text = format!("seek in {}: the position would be too large", self.url);
                return Err(Fault::new(libc::EOVERFLOW, text));
            }
            self.position.store(place, Ordering::Relaxed);
            Ok(place)
        })
    }

    fn preseek(&self, ranges: &[ByteRange]) -> Result<()> {
        self.readable(|file| {
            if self.access.can_write {
                return Ok(());
            }
            // What lies behind the end is no failure of a hint.
            let inside = ranges.iter().map(|range| range.clip(file.size()));
            let inside: Vec<_> = inside.filter(|range| !range.is_empty()).collect();
            // No range at all takes back what was announced.
            if inside.is_empty() && !ranges.is_empty() {
                return Ok(());
            }
            Ok(file.preseek(&inside)?)
        })
    }

    fn advise(&self, mode: ReadMode) -> Result<()> {
        self.with(true, |file| Ok(file.advise(mode)?))
    }

    fn truncate(&self, size: u64) -> Result<()> {
        if !self.access.can_write {
            return Err(Fault::invalid(format!("truncate {}: it was not opened for writing", self.url)));
        }
        self.writable(|file| {
            let mut tail = lock(&self.tail);
            Self::flush(file, &mut tail)?;
            file.truncate(size)?;
            tail.end = size;
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.with(true, |file| {
            if !self.access.can_write {
                return Ok(());
            }
            Self::flush(file, &mut lock(&self.tail))?;
            Ok(file.sync()?)
        })
    }

    fn attributes(&self) -> Result<Attributes> {
        self.with(true, |file| {
            self.settle(file)?;
            Ok(Attributes::remote(file.server(), &file.stat()?))
        })
    }

    fn lock(&self, _: ByteRange, _: Option<LockMode>, _: bool) -> Result<bool> {
        let text = format!("lock {}: files that become new at their close have no locks", self.url);
        Err(Fault::new(libc::EOPNOTSUPP, text).hint("open it with RFIO_SHARED"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_are_found() {
        assert_eq!(sought(SeekFrom::Start(7), 1, 2), Some(7));
        assert_eq!(sought(SeekFrom::Current(-1), 1, 2), Some(0));
        assert_eq!(sought(SeekFrom::Current(-2), 1, 2), None);
        assert_eq!(sought(SeekFrom::End(5), 1, 2), Some(7));
        assert_eq!(sought(SeekFrom::End(-3), 1, 2), None);
    }

    fn closed(access: Access) -> RemoteFile {
        RemoteFile {
            url: "root://h:1094//x".to_owned(),
            access,
            file: RwLock::new(None),
            position: AtomicU64::new(5),
            tail: Mutex::default(),
            is_inherited: false,
        }
    }

    const READ: Access = Access { can_read: true, can_write: false, is_append: false };
    const WRITE: Access = Access { can_read: false, can_write: true, is_append: false };

    #[test]
    fn a_closed_file_is_no_file() {
        let file = closed(READ);
        assert_eq!(file.read(&mut [0]).unwrap_err().errno, libc::EBADF);
        assert_eq!(file.close().unwrap_err().errno, libc::EBADF);
        assert_eq!(file.truncate(1).unwrap_err().errno, libc::EINVAL);
    }

    #[test]
    fn a_child_goes_on_reading_where_its_parent_was() {
        let file = closed(READ);
        assert!(file.for_child().is_none());
        let parent = lock(&file.tail);
        let child = file.for_child().expect("the parent is in the middle of a call");
        assert_eq!(child.position.load(Ordering::Relaxed), 5);
        assert!(child.tail.try_lock().is_ok());
        drop(parent);
    }

    #[test]
    fn a_child_does_not_write_what_its_parent_opened() {
        let child = closed(WRITE).for_child().expect("the parent writes it");
        let refused = child.write(b"x").unwrap_err();
        assert_eq!(refused.errno, libc::EBADF);
        assert!(refused.text.contains("forked") && refused.text.ends_with("hint: open it after the fork"));
        child.close().unwrap();
        assert!(child.for_child().is_none());
    }

    proptest! {
        #[test]
        fn seeking_never_panics(offset: i64, start: u64, position: u64, size: u64) {
            for to in [SeekFrom::Start(start), SeekFrom::Current(offset), SeekFrom::End(offset)] {
                let _ = sought(to, position, size);
            }
        }
    }
}
