//! Attributes of files, as `struct stat` has them.

use base::{Crc32c, NanoTime, Timestamp};
use std::{fs::Metadata, os::unix::fs::MetadataExt};
use wire::{
    control::Entry,
    xrd::{StatFlags, StatInfo},
};

/// Unit of `st_blocks`, by POSIX.
const BLOCK_BYTES: u64 = 512;
/// What a remote file likes to be read in, which programs ask `st_blksize` for.
const PREFERRED_BYTES: i64 = 1 << 20;
/// A bit that device numbers of the local system do not have, so that no remote file is taken for a local one.
const REMOTE_DEVICE: u64 = 1 << 62;

/// A time, seconds since 1970 and nanoseconds.
type Time = (i64, i64);

/// Attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attributes {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) links: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) special_device: u64,
    pub(crate) size: i64,
    pub(crate) preferred_bytes: i64,
    pub(crate) blocks: i64,
    pub(crate) accessed: Time,
    pub(crate) modified: Time,
    pub(crate) changed: Time,
}

impl Attributes {
    /// What `server` says of a file. Where it says nothing of owner and mode, it is ours, with what we may do.
    pub(crate) fn remote(server: &str, stat: &StatInfo) -> Self {
        let is_directory = stat.flags.contains(StatFlags::DIRECTORY);
        let kind = if is_directory { libc::S_IFDIR } else { libc::S_IFREG };
        let may = |flag, bits| if stat.flags.contains(flag) { bits } else { 0 };
        let allowed = may(StatFlags::READABLE, 0o444)
            | may(StatFlags::WRITABLE, 0o200)
            | may(StatFlags::EXECUTABLE, 0o111);
        let modified = (stat.modified_s, 0);
        let owner = stat.owner.as_ref();
        let number =
            |name: Option<&String>, ours: u32| name.and_then(|name| name.parse().ok()).unwrap_or(ours);
        Self {
            device: REMOTE_DEVICE | u64::from(Crc32c::of(server.as_bytes()).0),
            inode: stat.id,
            mode: kind | owner.map_or(allowed, |owner| owner.mode & 0o7777),
            links: 1,
            uid: number(owner.map(|owner| &owner.user), rustix::process::geteuid().as_raw()),
            gid: number(owner.map(|owner| &owner.group), rustix::process::getegid().as_raw()),
            special_device: 0,
            size: i64::try_from(stat.size).unwrap_or(i64::MAX),
            preferred_bytes: PREFERRED_BYTES,
            blocks: stat.size.div_ceil(BLOCK_BYTES) as i64,
            accessed: owner.map_or(modified, |owner| (owner.accessed_s, 0)),
            modified,
            changed: owner.map_or(modified, |owner| (owner.changed_s, 0)),
        }
    }

    /// What the head says of a file that is changed in place.
    pub(crate) fn shared(entry: &Entry) -> Self {
        let time = |time: Timestamp| (time.0.div_euclid(1000), time.0.rem_euclid(1000) * 1_000_000);
        let number = |name: &String, ours: u32| name.parse().unwrap_or(ours);
        let modified = time(entry.modified);
        let nanos = |NanoTime(time)| (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
        let posix = |time: Option<NanoTime>| time.map_or(modified, nanos);
        Self {
            device: REMOTE_DEVICE,
            inode: entry.id.0,
            mode: libc::S_IFREG | entry.mode & 0o7777,
            links: 1 + u64::from(entry.posix.further_links),
            uid: number(&entry.owner, rustix::process::geteuid().as_raw()),
            gid: number(&entry.group, rustix::process::getegid().as_raw()),
            special_device: 0,
            size: i64::try_from(entry.size).unwrap_or(i64::MAX),
            preferred_bytes: PREFERRED_BYTES,
            blocks: entry.size.div_ceil(BLOCK_BYTES) as i64,
            accessed: posix(entry.posix.accessed),
            modified,
            changed: posix(entry.posix.changed),
        }
    }

    /// What the local system says.
    pub(crate) fn local(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            links: metadata.nlink(),
            uid: metadata.uid(),
            gid: metadata.gid(),
            special_device: metadata.rdev(),
            size: metadata.size() as i64,
            preferred_bytes: metadata.blksize() as i64,
            blocks: metadata.blocks() as i64,
            accessed: (metadata.atime(), metadata.atime_nsec()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Fills a `struct stat`; the widths of its fields differ between processors.
    pub(crate) fn fill(&self, stat: &mut libc::stat) {
        stat.st_dev = self.device as _;
        stat.st_ino = self.inode as _;
        stat.st_mode = self.mode as _;
        stat.st_nlink = self.links as _;
        stat.st_uid = self.uid;
        stat.st_gid = self.gid;
        stat.st_rdev = self.special_device as _;
        stat.st_size = self.size as _;
        stat.st_blksize = self.preferred_bytes as _;
        stat.st_blocks = self.blocks as _;
        (stat.st_atime, stat.st_atime_nsec) = (self.accessed.0 as _, self.accessed.1 as _);
        (stat.st_mtime, stat.st_mtime_nsec) = (self.modified.0 as _, self.modified.1 as _);
        (stat.st_ctime, stat.st_ctime_nsec) = (self.changed.0 as _, self.changed.1 as _);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::xrd::StatOwner;

    fn stat() -> StatInfo {
        StatInfo {
            id: 7,
            size: 1025,
            flags: StatFlags::READABLE | StatFlags::EXECUTABLE | StatFlags::DIRECTORY,
            modified_s: 1_700_000_000,
            owner: None,
        }
    }

    #[test]
    fn without_an_owner_we_have_what_we_may_do() {
        let found = Attributes::remote("h:1094", &stat());
        assert_eq!((found.mode, found.size, found.blocks), (libc::S_IFDIR | 0o555, 1025, 3));
        assert_eq!((found.uid, found.inode), (rustix::process::geteuid().as_raw(), 7));
        assert_ne!(found.device, Attributes::remote("h:1095", &stat()).device);
    }

    #[test]
    fn an_owner_is_believed() {
        let owner = StatOwner {
            changed_s: 3,
            accessed_s: 4,
            mode: 0o640,
            user: "1234".to_owned(),
            group: "analysis".to_owned(),
        };
        let flags = StatFlags::READABLE;
        let found = Attributes::remote("h:1094", &StatInfo { flags, owner: Some(owner), ..stat() });
        assert_eq!((found.mode, found.uid), (libc::S_IFREG | 0o640, 1234));
        assert_eq!((found.accessed, found.modified, found.changed), ((4, 0), (1_700_000_000, 0), (3, 0)));
    }

    #[test]
    fn local_attributes_are_those_of_the_system() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"12345").unwrap();
        let found = Attributes::local(&file.as_file().metadata().unwrap());
        assert_eq!((found.size, found.links, found.mode & libc::S_IFMT), (5, 1, libc::S_IFREG));
        assert_eq!(found.device & REMOTE_DEVICE, 0);
    }
}
