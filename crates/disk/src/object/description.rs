//! Reading the descriptions that lie beside objects.

use crate::object::partition::Shared;
use base::{ErrorKind, Failure, ObjectId};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{Errno, ReadWriteFlags, preadv2},
};
use std::{
    fs::File,
    io::{self, IoSliceMut, Read},
    os::fd::BorrowedFd,
    path::Path,
};
use wire::media::object::ObjectInfo;

/// A description is far smaller, even with the longest path; a longer file is not one.
const BYTES_MAX: u64 = 64 << 10;
/// Most have less, and are read with one call.
const BYTES: usize = 1 << 10;

/// A description that was opened.
#[derive(Debug)]
pub(crate) enum Description {
    /// It was in memory.
    Here(Vec<u8>),
    /// The disk was asked for it.
    Coming(File),
}

impl Description {
    /// Opens a description, without waiting for the disk to read it: who opens several has it fetch them together.
    pub(crate) fn open(shared: &Shared, object: ObjectId) -> Result<Self, Errno> {
        Self::open_at(CWD, &shared.description(object))
    }

    /// The same, below the directory of all homes.
    pub(crate) fn open_below(objects: BorrowedFd<'_>, object: ObjectId) -> Result<Self, Errno> {
        Self::open_at(objects, Path::new(&format!("{:02x}/{object}.json", object.0 & 0xff)))
    }

    fn open_at(directory: BorrowedFd<'_>, path: &Path) -> Result<Self, Errno> {
        let file = open_unnoticed(directory, path)?;
        let mut text = vec![0; BYTES];
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut text)], 0, ReadWriteFlags::NOWAIT);
        Ok(match read {
            Ok(count) if count < BYTES => {
                text.truncate(count);
                Self::Here(text)
            }
            // A long one, one that is on its way, or a file system that always waits.
            _ => Self::Coming(file),
        })
    }

    /// What it says, if it is of this facility and of this object.
    pub(crate) fn read(
        opened: Result<Self, Errno>,
        shared: &Shared,
        object: ObjectId,
    ) -> Result<ObjectInfo, Failure> {
        let text = opened.map_err(io::Error::from).and_then(Self::text).map_err(|cause| {
            match shared.failed("open", object, &cause) {
                failure if failure.kind == ErrorKind::NotFound => {
                    Failure::not_found(format!("object {object} is not on {}", shared.name()))
                }
                failure => failure,
            }
        })?;
        let info = ObjectInfo::decode(&text)
            .map_err(|failure| failure.during(format_args!("object {object} on {}", shared.name())))?;
        if info.object != object || info.facility != shared.identity.facility {
            return Err(Failure::corrupt(format!(
                "description of object {object} on {} is of object {} of facility {}",
                shared.name(),
                info.object,
                info.facility
            )));
        }
        Ok(info)
    }

    fn text(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(text) => Ok(text),
            Self::Coming(file) => {
                let mut text = Vec::with_capacity(BYTES);
                file.take(BYTES_MAX).read_to_end(&mut text)?;
                Ok(text)
            }
        }
    }
}

/// Opens a file without a note of when it was read: a scan of a million would write as many inodes.
fn open_unnoticed(directory: BorrowedFd<'_>, path: &Path) -> Result<File, Errno> {
    let open = |flags| openat(directory, path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let opened = match open(OFlags::NOATIME) {
        // The file is another user's.
        Err(Errno::PERM) => open(OFlags::empty()),
        opened => opened,
    };
    opened.map(File::from)
}
