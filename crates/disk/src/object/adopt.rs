//! Makes files on the file system of a partition its objects, without copying their bytes.
//!
//! If the file system shares blocks between files (XFS, btrfs), the object is a clone with its own inode, and no change
//! of the old file reaches it. Otherwise it is a hard link: both names are one inode, and a write by the old name would
//! damage the object. So [`Partition::part`] takes away the permission to write, or the old name.

use crate::{
    OBJECT_BYTES_MAX, Partition,
    io::read_full,
    object::{durable, partition::Shared, walk::Found, writer::publish},
};
use base::{Checksums, Failure, ObjectId, Result, Timestamp};
use rustix::{
    fs::{AtFlags, CWD, Timespec, Timestamps, fchmod, fchown, futimens, ioctl_ficlone, linkat},
    io::Errno,
    process::{getegid, geteuid},
};
use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
};
use wire::media::object::{Label, ObjectInfo};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Permission to write, for anybody.
const WRITE_BITS: u32 = 0o222;

/// How an object matches a file that an adoption found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectMatch {
    /// They are one: a hard link.
    Same,
    /// Same size and time of change, as a clone has.
    Twin,
    /// Something else.
    Other,
}

/// The outcome of removing the old name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlinkOutcome {
    /// All is as it should be.
    Well,
    /// The file was written since it was read: the object is damaged.
    Damaged,
}

/// When the content of a file was changed last.
#[must_use]
pub fn modified(metadata: &Metadata) -> Timestamp {
    metadata.modified().map(Timestamp::from_system).unwrap_or_default()
}

/// Whether nobody has changed the content in between.
fn is_as_before(before: &Metadata, now: &Metadata) -> bool {
    let content = |metadata: &Metadata| (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    content(before) == content(now)
}

/// Shares the blocks of a file with a new, empty one.
type ShareBlocks = fn(&File, &File) -> io::Result<()>;

fn share_blocks(from: &File, to: &File) -> io::Result<()> {
    Ok(ioctl_ficlone(to, from)?)
}

impl Partition {
    /// Makes a file an object: durable, complete, with its sums from one read. `paced` gets the number of bytes read
    /// and returns whether to go on. `None`: it stopped the work.
    ///
    /// After any failure the file is as it was, and nothing else is left.
    pub fn adopt(
        &self,
        found: &Found,
        object: ObjectId,
        label: &Label,
        now: Timestamp,
        paced: impl FnMut(u64) -> bool,
    ) -> Result<Option<ObjectInfo>> {
        self.adopt_by(share_blocks, found, object, label, now, paced)
    }

    fn adopt_by(
        &self,
        clone: ShareBlocks,
        found: &Found,
        object: ObjectId,
        label: &Label,
        now: Timestamp,
        paced: impl FnMut(u64) -> bool,
    ) -> Result<Option<ObjectInfo>> {
        let shared = &self.shared;
        let source = found.open()?;
        let before = source.metadata().map_err(|cause| shared.failed("look at", object, &cause))?;
        if !is_as_before(&found.metadata, &before) {
            return Err(found.changed());
        }
        if before.size() > OBJECT_BYTES_MAX {
            return Err(Failure::invalid(format!(
                "{} bytes are more than an object may have",
                before.size()
            )));
        }
        let _claim = shared.begin_writing(object)?;
        if shared.data(object).exists() {
            return Err(Failure::exists(format!("object {object} exists already on {}", shared.name())));
        }
        let mut making = UnfinishedObject { shared, object, claimed: 0, is_done: false };
        making.claim(before.size())?;
        let data = making.place(clone, &source, &before)?;
        let Some((size, checksums)) = sum(data.as_ref().unwrap_or(&source), before.size(), paced)
            .map_err(|cause| shared.failed("read", object, &cause))?
        else {
            return Ok(None);
        };
        let after = source.metadata().map_err(|cause| shared.failed("look at", object, &cause))?;
        if size != before.size() || !is_as_before(&before, &after) {
            return Err(found.changed());
        }
        // Who wrote the file may not have seen to it that it is durable.
        durable::sync_data(data.as_ref().unwrap_or(&source))
            .map_err(|cause| shared.failed("sync", object, &cause))?;
        let info = ObjectInfo::new(&shared.identity.facility, object, label, (size, checksums), now);
        publish(shared, &info).map_err(|cause| shared.failed("commit", object, &cause))?;
        making.is_done = true;
        Ok(Some(info))
    }

    /// Compares an object with a file.
    pub fn likeness(&self, object: ObjectId, found: &Found) -> Result<ObjectMatch> {
        let held = std::fs::metadata(self.shared.data(object))
            .map_err(|cause| self.shared.failed("look at", object, &cause))?;
        Ok(if (held.dev(), held.ino()) == (found.metadata.dev(), found.metadata.ino()) {
            ObjectMatch::Same
        } else if is_as_before(&held, &found.metadata) {
            ObjectMatch::Twin
        } else {
            ObjectMatch::Other
        })
    }

    /// Whether an object has the bytes of a file: both are read. `paced` as for [`Self::adopt`]; `None`: it said no.
    pub fn has_content(
        &self,
        object: ObjectId,
        found: &Found,
        paced: impl FnMut(u64) -> bool,
    ) -> Result<Option<bool>> {
        let reader = self.open_object(object)?;
        let summed = sum(&found.open()?, reader.size(), paced)
            .map_err(|cause| Failure::io(found.path.display(), &cause))?;
        let Some((size, checksums)) = summed else { return Ok(None) };
        Ok(Some((size, checksums) == (reader.info().size, reader.info().checksums)))
    }

    /// Separates the old name from an object that the catalogue has. If it is `is_moving`, the name is removed.
    /// Otherwise, if both names are one inode, the permission to write is. A name that belongs to another file by now
    /// is left alone.
    ///
    /// [`UnlinkOutcome::Damaged`]: the file was written since `found`, and the object with it.
    pub fn part(&self, object: ObjectId, found: &Found, is_moving: bool) -> Result<UnlinkOutcome> {
        let failed = |what: &str| {
            let shown = format!("{what} {}", found.path.display());
            move |cause: io::Error| Failure::io(shown, &cause)
        };
        let is_one = self.likeness(object, found)? == ObjectMatch::Same;
        match found.look().map_err(failed("look at"))? {
            Some(now) if now.ino() == found.metadata.ino() && now.dev() == found.metadata.dev() => {}
            _ => return Ok(UnlinkOutcome::Well),
        }
        let file = found.open()?;
        if is_one {
            shut(&file, &found.metadata, is_moving).map_err(|cause| {
                failed("take the permission to write from")(cause).hint(
                    "the file is adopted, but a write to it would damage it: run bpd as its owner or as root",
                )
            })?;
        }
        let now = file.metadata().map_err(failed("look at"))?;
        if !is_as_before(&found.metadata, &now) {
            return if is_one { Ok(UnlinkOutcome::Damaged) } else { Err(found.changed()) };
        }
        if is_moving {
            found.unlink().map_err(failed("remove"))?;
        }
        Ok(UnlinkOutcome::Well)
    }
}

/// Lets nobody write to a file; one that has no other name from now on belongs to us.
fn shut(file: &File, metadata: &Metadata, is_ours: bool) -> io::Result<()> {
    let mode = metadata.mode() & 0o7777;
    if mode & WRITE_BITS != 0 {
        fchmod(file, (mode & !WRITE_BITS).into())?;
    }
    if is_ours && metadata.uid() != geteuid().as_raw() {
        // Only root may; whoever else runs the daemon could read it as it was.
        match fchown(file, Some(geteuid()), Some(getegid())) {
            Ok(()) | Err(Errno::PERM) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(())
}

/// An object that is being made; without a trace if it is not done.
struct UnfinishedObject<'a> {
    shared: &'a Shared,
    object: ObjectId,
    claimed: u64,
    is_done: bool,
}

impl UnfinishedObject<'_> {
    /// Takes of the partition's share. On the disk the bytes are already.
    fn claim(&mut self, bytes: u64) -> Result<()> {
        self.shared.account.take_share(bytes)?;
        self.claimed = bytes;
        Ok(())
    }

    /// Puts the file among what is being made; yields it if it is a file of its own.
    fn place(&self, clone: ShareBlocks, source: &File, before: &Metadata) -> Result<Option<File>> {
        let (shared, object) = (self.shared, self.object);
        let failed = |cause: io::Error| shared.failed("adopt", object, &cause);
        let target = shared.incoming_data(object);
        durable::unlink(&target).map_err(failed)?;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&target).map_err(failed)?;
        if clone(source, &file).is_ok() {
            // As the old file has it: by that it is known again.
            let (tv_sec, tv_nsec) = (before.mtime(), before.mtime_nsec());
            let time = Timespec { tv_sec, tv_nsec: tv_nsec as _ };
            futimens(&file, &Timestamps { last_access: time, last_modification: time })
                .map_err(|cause| failed(cause.into()))?;
            return Ok(Some(file));
        }
        drop(file);
        durable::unlink(&target).map_err(failed)?;
        link(source, &target).map_err(|cause| match Errno::from_io_error(&cause) {
            Some(Errno::XDEV) => {
                Failure::unsupported("it lies on another file system, or on another mount of it")
            }
            Some(Errno::PERM) => Failure::permission("the daemon may not link to it").hint(
                "run the daemon as its owner or as root; the kernel links to no files of others \
                    (fs.protected_hardlinks)",
            ),
            Some(Errno::MLINK) => Failure::unsupported("it has as many hard links as the file system allows"),
            _ => failed(cause),
        })?;
        Ok(None)
    }
}

impl Drop for UnfinishedObject<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.shared.account.release(self.claimed);
        let (shared, object) = (self.shared, self.object);
        let discarded = durable::unlink(&shared.data(object))
            .and_then(|_| durable::unlink(&shared.description(object)))
            .and_then(|_| shared.delete_incoming(object));
        if let Err(cause) = discarded {
            tracing::warn!(%object, %cause, partition = shared.name(), "cannot delete an object whose adoption failed");
        }
    }
}

/// Gives an open file another name: that very file, whatever its old name means by now.
fn link(source: &File, target: &Path) -> io::Result<()> {
    let opened = format!("/proc/self/fd/{}", source.as_raw_fd());
    Ok(linkat(CWD, opened.as_str(), CWD, target, AtFlags::SYMLINK_FOLLOW)?)
}

/// Size and sums of a file of `expected` bytes, from one read. One that grows is not followed to its end.
fn sum(
    file: &File,
    expected: u64,
    mut paced: impl FnMut(u64) -> bool,
) -> io::Result<Option<(u64, Checksums)>> {
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut size, mut sums) = (0, Checksums::EMPTY);
    loop {
        let count = read_full(file, &mut buffer, size)?;
        if count == 0 || size > expected {
            return Ok(Some((size, sums)));
        }
        sums = sums.extend(&buffer[..count]);
        size += count as u64;
        if !paced(count as u64) {
            return Ok(None);
        }
    }
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
