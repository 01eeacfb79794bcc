//! Writing objects: many threads write, one commits.

mod content;

use crate::{
    io::direct::DirectFile,
    object::{
        copy, durable,
        partition::{Shared, check_end},
        reader::{self, ObjectReader},
    },
};
use base::{Checksums, Failure, ObjectId, Result, Timestamp, checksum::StreamSums};
use content::{Content, Sums};
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};
use tracing::{debug, warn};
use wire::media::object::{Label, ObjectInfo};

/// What `fstatfs` says of file systems in memory (`linux/magic.h`).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// An object that is being written. Shared by the threads of a session; gone when it is dropped without a commit.
///
/// Lock order: `phase` before `content`.
#[derive(Debug)]
pub struct ObjectWriter {
    shared: Arc<Shared>,
    object: ObjectId,
    file: File,
    /// For whole blocks past the page cache, if the partition wants it.
    direct: Option<DirectFile>,
    /// Guards the shape of the file: writers share it, whoever truncates or commits has it alone.
    phase: RwLock<Phase>,
    /// Guards what is known about the content; held while a piece is summed, not while it is written.
    content: Mutex<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Committed,
    /// A commit failed or the write was given up. Never tried again: after a failed sync the kernel may have
    /// dropped the dirty pages, and a second sync would lie.
    Over,
}

impl ObjectWriter {
    pub(crate) fn new(shared: &Arc<Shared>, object: ObjectId) -> Result<Self> {
        let claim = shared.begin_writing(object)?;
        if shared.data(object).exists() {
            return Err(Failure::exists(format!("object {object} exists already on {}", shared.name())));
        }
        // Never cut what is there: it may be a file of somebody else that was to be adopted.
        let file = durable::unlink(&shared.incoming_data(object))
            .and_then(|_| {
                let mut new = OpenOptions::new();
                new.read(true).write(true).create_new(true).open(shared.incoming_data(object))
            })
            .map_err(|cause| shared.failed("create", object, &cause))?;
        let direct = if shared.is_direct() {
            DirectFile::open(&shared.incoming_data(object), true)
                .map_err(|cause| shared.failed("create", object, &cause))?
        } else {
            None
        };
        Ok(Self {
            shared: Arc::clone(shared),
            object,
            file,
            direct,
            phase: RwLock::new(Phase::Open),
            content: Mutex::new(Content {
                sums: Sums::Stream(StreamSums::default()),
                end: 0,
                claimed: 0,
                claim: Some(claim),
            }),
        })
    }

    /// Takes the content of `base`; nothing has been written yet.
    pub(crate) fn take_content(&self, base: Arc<ObjectReader>) -> Result<()> {
        let _open = self.open_phase()?;
        let size = base.size();
        self.claim(size)?;
        copy::copy_content(base.file(), &self.file, size)
            .map_err(|cause| self.failed("copy into", &cause))?;
        let mut content = self.content();
        content.end = size;
        content.took(size);
        content.sums = Sums::Base(base);
        Ok(())
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Its size so far, in bytes.
    pub fn size(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|cause| self.failed("stat", &cause))?.len())
    }

    /// Takes free space so that the object can have `bytes` in all; it may lie anywhere.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let _open = self.open_phase()?;
        check_end(self.object, 0, bytes)?;
        self.claim(bytes)
    }

    /// Takes room for `bytes` in all, so that a file that does not fit fails now and one that does lies in one piece.
    pub fn preallocate(&self, bytes: u64) -> Result<()> {
        let _open = self.open_phase()?;
        check_end(self.object, 0, bytes)?;
        self.claim(bytes)?;
        if bytes == 0 || is_in_memory(&self.file) {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) => {
                self.content().took(bytes);
                Ok(())
            }
            Err(cause) if is_full(cause) => Err(self.failed("preallocate", &cause.into())),
            Err(cause) => {
                debug!(object = %self.object, %cause, "the file system does not preallocate space");
                Ok(())
            }
        }
    }

    /// Writes `bytes` at `offset`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let end = check_end(self.object, offset, bytes.len() as u64)?;
        let _open = self.open_phase()?;
        self.claim(end)?;
        let written = self.write_all_at(bytes, offset);
        let mut content = self.content();
        match written {
            Ok(()) => content.wrote(offset, bytes),
            Err(cause) => {
                // How much of it arrived is not known.
                content.forget();
                return Err(self.failed("write", &cause));
            }
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let done = self.direct.as_ref().map_or(Ok(0), |direct| direct.write_blocks(bytes, offset))?;
        self.file.write_all_at(&bytes[done..], offset + done as u64)
    }

    /// Reads back what was written; returns fewer bytes only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        crate::io::read_full(&self.file, buffer, offset).map_err(|cause| self.failed("read", &cause))
    }

    /// Cuts or extends to `size` bytes; new bytes are zero.
    pub fn truncate(&self, size: u64) -> Result<()> {
        check_end(self.object, 0, size)?;
        let phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        self.check(*phase)?;
        self.claim(size)?;
        let done = self.file.set_len(size);
        let mut content = self.content();
        match done {
            Ok(()) => content.truncated(size),
            Err(cause) => {
                content.forget();
                return Err(self.failed("truncate", &cause));
            }
        }
        Ok(())
    }

    /// Gives room beyond the end back that [`Self::preallocate`] took. The object may still grow, as far as there is room then.
    pub fn release_unused(&self) -> Result<()> {
        // Nobody may be writing beyond the end meanwhile.
        let phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        self.check(*phase)?;
        let size = self.size()?;
        let mut content = self.content();
        if content.claimed > size {
            self.file.set_len(size).map_err(|cause| self.failed("give back room of", &cause))?;
            self.shared.account.release(content.claimed - size);
            content.claimed = size;
            if let Some(claim) = &content.claim {
                claim.keeps(size);
            }
        }
        Ok(())
    }

    /// Makes what was written so far durable, though not yet an object. A failure is final, as that of a commit.
    pub fn sync(&self) -> Result<()> {
        let open = self.open_phase()?;
        let done = durable::sync_data(&self.file);
        drop(open);
        done.map_err(|cause| {
            self.abandon();
            self.failed("sync", &cause)
        })
    }

    /// Makes the object durable and complete. No further writes; a failed commit is final.
    ///
    /// With `expected` (size and sums) anything else fails as [`base::ErrorKind::Corrupt`] and nothing is kept.
    pub fn commit(
        &self,
        label: &Label,
        expected: Option<(u64, Checksums)>,
        now: Timestamp,
    ) -> Result<ObjectInfo> {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        self.check(*phase)?;
        *phase = Phase::Over;
        let (size, checksums) = self.settle()?;
        if let Some(expected) = expected {
            reader::compare(self.object, self.shared.name(), expected, (size, checksums))?;
        }
        let facility = &self.shared.identity.facility;
        let info = ObjectInfo::new(facility, self.object, label, (size, checksums), now);
        publish(&self.shared, &info).map_err(|cause| self.failed("commit", &cause))?;
        *phase = Phase::Committed;
        let mut content = self.content();
        self.shared.account.release(content.claimed.saturating_sub(size));
        content.claimed = size;
        content.claim = None;
        Ok(info)
    }

    /// Gives the object up and deletes it. Dropping the writer does the same.
    pub fn abandon(&self) {
        let mut phase = self.phase.write().unwrap_or_else(PoisonError::into_inner);
        if *phase == Phase::Open {
            *phase = Phase::Over;
        }
    }

    /// Makes the data durable and finds its size and sums.
    fn settle(&self) -> Result<(u64, Checksums)> {
        let size = self.size()?;
        let mut content = self.content();
        if content.claimed > size {
            // Gives preallocated blocks beyond the end back; where it does not, they are only slack.
            let _ = self.file.set_len(size);
        }
        durable::sync_data(&self.file).map_err(|cause| self.failed("sync", &cause))?;
        let known = match &content.sums {
            Sums::Stream(sums) => sums.finish(size),
            Sums::Base(base) if base.size() == size => Some(base.info().checksums),
            Sums::Base(_) => None,
            Sums::Unknown { base } => {
                if let Some(base) = base {
                    let context = format!("object {} was to replace a damaged one", self.object);
                    base.verify().map_err(|failure| failure.during(context))?;
                }
                None
            }
        };
        content.end = size;
        if let Some(sums) = known {
            return Ok((size, sums));
        }
        reader::sum_file(&self.file).map_err(|cause| self.failed("sum", &cause))
    }

    /// Shares the file with other writers; fails once the writing is over.
    fn open_phase(&self) -> Result<impl Drop + '_> {
        let phase = self.phase.read().unwrap_or_else(PoisonError::into_inner);
        self.check(*phase)?;
        Ok(phase)
    }

    fn check(&self, phase: Phase) -> Result<()> {
        let why = match phase {
            Phase::Open => return Ok(()),
            Phase::Committed => "is committed",
            Phase::Over => "was given up",
        };
        Err(Failure::invalid(format!(
            "object {} on {} {why}: it can no longer be written",
            self.object,
            self.shared.name()
        )))
    }

    /// Takes room so that the object can reach `end`.
    fn claim(&self, end: u64) -> Result<()> {
        let mut content = self.content();
        if end > content.claimed {
            self.shared.account.claim(content.claimed, end)?;
            content.claimed = end;
            if self.shared.account.has_share() {
                content.took(end);
            }
        }
        Ok(())
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked may have left half a sum.
            let mut content = poisoned.into_inner();
            content.forget();
            content
        })
    }

    fn failed(&self, what: &str, cause: &io::Error) -> Failure {
        self.shared.failed(what, self.object, cause)
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        let phase = *self.phase.get_mut().unwrap_or_else(PoisonError::into_inner);
        if phase == Phase::Committed {
            return;
        }
        let claimed = self.content().claimed;
        self.shared.account.release(claimed);
        // A commit that failed half-way may have put either file into place already.
        if let Err(cause) = self.discard() {
            warn!(object = %self.object, partition = self.shared.name(), %cause, "cannot delete an unfinished object");
        }
    }
}

impl ObjectWriter {
    fn discard(&self) -> io::Result<()> {
        let shared = &self.shared;
        durable::unlink(&shared.data(self.object))?;
        durable::unlink(&shared.description(self.object))?;
        shared.delete_incoming(self.object)
    }
}

/// Puts the description, then the data into place. Until the last line is durable nothing was promised.
pub(crate) fn publish(shared: &Shared, info: &ObjectInfo) -> io::Result<()> {
    let (data, description) = (shared.incoming_data(info.object), shared.incoming_description(info.object));
    publish_from(shared, info, (&data, &description), &shared.incoming())
}

/// The same with data that lie in another directory `from`, where the description is written first, too.
pub(crate) fn publish_from(
    shared: &Shared,
    info: &ObjectInfo,
    (data, new_description): (&Path, &Path),
    from: &Path,
) -> io::Result<()> {
    let (object, home) = (info.object, shared.home(info.object));
    durable::write_synced(new_description, &info.encode())?;
    durable::make_directory(&home)?;
    durable::rename(new_description, &shared.description(object))?;
    durable::rename(data, &shared.data(object))?;
    durable::sync_directory(&home)?;
    durable::sync_directory(from)?;
    shared.index.note_new(shared, info);
    Ok(())
}

fn is_full(cause: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(cause, Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
}
/// Whether a file lies in memory: room there is no extent but pages, taken and cleared one by one, which costs as much as
/// to write them.
fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|system| system.f_type == TMPFS_MAGIC)
}
