//! A partial download: its name is predictable, and a record beside it says which file it is a part of.

use super::copy::replace_hint;
use base::{Failure, Result};
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Tries to open a partial file that others publish or remove at the same moment.
const RACES_MAX: usize = 8;

/// What a partial file is a part of. If any of it differs, the file is fetched from its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Where from, without secrets.
    pub(crate) source: String,
    /// Size of the whole file in bytes.
    pub(crate) size: u64,
    /// Time of its last change, seconds since 1970.
    pub(crate) modified_s: i64,
    /// Its checksum with its kind, if the server told it beforehand.
    pub(crate) checksum: Option<String>,
}

/// A file that is being fetched, locked against others who fetch it too.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) file: File,
    path: PathBuf,
    record: PathBuf,
    target: PathBuf,
    /// Bytes that are there from an earlier try.
    pub(crate) bytes: u64,
}

impl Partial {
    /// Opens the partial file of `target`. What an earlier try left is kept if `resume` is asked for and it is a part of
    /// the same file.
    pub(crate) fn open(target: &Path, record: &Record, resume: bool) -> Result<Self> {
        let (path, record_path) = names(target)?;
        let failed = |cause: &io::Error| Failure::io(format!("make {}", path.display()), cause);
        let file = claim(&path, target)?;
        let known = fs::read(&record_path).ok().and_then(|text| serde_json::from_slice::<Record>(&text).ok());
        let length = file.metadata().map_err(|cause| failed(&cause))?.len();
        let bytes =
            if resume && known.as_ref() == Some(record) && length <= record.size { length } else { 0 };
        if bytes == 0 {
            file.set_len(0).map_err(|cause| failed(&cause))?;
            let text = serde_json::to_vec(record)
                .map_err(|cause| Failure::internal(format!("cannot write the record of a copy: {cause}")))?;
            fs::write(&record_path, text)
                .map_err(|cause| Failure::io(format!("write {}", record_path.display()), &cause))?;
        }
        Ok(Self { file, path, record: record_path, target: target.to_owned(), bytes })
    }

    /// Where the bytes are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the whole file its name.
    pub(crate) fn publish(self, replace: bool) -> Result<()> {
        if !is_named(&self.file, &self.path)? {
            let what =
                format!("{} was replaced during the copy of {}", self.path.display(), self.target.display());
            return Err(Failure::busy(what).hint("copy it again while no other program writes to that name"));
        }
        publish(&self.path, &self.target, replace)?;
        // The file is there; a record that is left over says of no file that it is whole.
        let _ = fs::remove_file(&self.record);
        Ok(())
    }

    /// Removes what was fetched.
    pub(crate) fn remove(self) {
        if matches!(is_named(&self.file, &self.path), Ok(true)) {
            // It is ours and of no use, and the failure that led here says more than a failure to remove it.
            let _ = (fs::remove_file(&self.path), fs::remove_file(&self.record));
        }
    }
}

/// Opens and locks a partial file: from then on nobody else who fetches `target` gives it another name.
fn claim(path: &Path, target: &Path) -> Result<File> {
    for _ in 0..RACES_MAX {
        if let Some(file) = lock(open_or_make(path)?, path, target)? {
            return Ok(file);
        }
    }
    let what = format!("{} keeps being replaced by another program", path.display());
    Err(Failure::busy(what).hint("wait until that program ends; if it is a link, remove it"))
}

fn open_or_make(path: &Path) -> Result<File> {
    let outcome = OpenOptions::new().read(true).append(true).create(true).open(path);
    outcome.map_err(|cause| Failure::io(format!("make {}", path.display()), &cause))
}

/// Locks a partial file; `None` if who had it before has published or removed it since it was opened.
fn lock(file: File, path: &Path, target: &Path) -> Result<Option<File>> {
    granted(flock(&file, FlockOperation::NonBlockingLockExclusive), path, target)?;
    Ok(is_named(&file, path)?.then_some(file))
}

/// What the system said to a lock. Where there are no locks nobody is kept out.
fn granted(outcome: rustix::io::Result<()>, path: &Path, target: &Path) -> Result<()> {
    match outcome {
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let what = format!("another program is copying to {}", target.display());
            Err(Failure::busy(what).hint(format!("wait for it; the data are in {}", path.display())))
        }
        Err(cause) => Err(Failure::io(format!("lock {}", path.display()), &cause.into())),
    }
}

/// Whether `path` is the name of `file`.
fn is_named(file: &File, path: &Path) -> Result<bool> {
    let identity = |data: Metadata| (data.dev(), data.ino());
    let failed = |cause| Failure::io(format!("look at {}", path.display()), &cause);
    let open = file.metadata().map(identity).map_err(failed)?;
    match path.symlink_metadata().map(identity) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        named => Ok(named.map_err(failed)? == open),
    }
}

/// Names of the partial file and of its record.
fn names(target: &Path) -> Result<(PathBuf, PathBuf)> {
    let name = target
        .file_name()
        .ok_or_else(|| Failure::invalid(format!("{} is no file name", target.display())))?;
    let hidden = |end: &str| {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(end);
        target.with_file_name(hidden)
    };
    Ok((hidden(".bp-part"), hidden(".bp-part.json")))
}

/// Gives a finished file its name.
pub(crate) fn publish(partial: &Path, target: &Path, replace: bool) -> Result<()> {
    let outcome = if replace {
        fs::rename(partial, target)
    } else {
        match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
            // A file system without this: somebody who makes the same file in this very moment loses.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(partial, target),
            outcome => outcome.map_err(io::Error::from),
        }
    };
    outcome.map_err(|cause| replace_hint(Failure::io(format!("name it {}", target.display()), &cause)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;
    use std::io::Write as _;

    fn record() -> Record {
        Record { source: "root://h//f".into(), size: 10, modified_s: 1, checksum: None }
    }

    #[test]
    fn only_the_file_that_was_fetched_is_published_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (target, other) = (directory.path().join("f"), directory.path().join("other"));
        for is_published in [true, false] {
            let mut partial = Partial::open(&target, &record(), false).unwrap();
            partial.file.write_all(b"12345").unwrap();
            // Another copy, whose target has this name.
            fs::write(&other, "other").unwrap();
            let taken = partial.path().to_owned();
            fs::rename(&other, &taken).unwrap();
            if is_published {
                let failure = partial.publish(true).unwrap_err();
                assert_eq!((failure.kind, failure.hint.is_some()), (ErrorKind::Busy, true), "{failure}");
            } else {
                partial.remove();
            }
            assert_eq!(fs::read(&taken).unwrap(), b"other");
            assert!(!target.exists());
            fs::remove_file(taken).unwrap();
        }
        let partial = Partial::open(&target, &record(), false).unwrap();
        fs::remove_file(partial.path()).unwrap();
        assert_eq!(partial.publish(true).unwrap_err().kind, ErrorKind::Busy);
    }

    #[test]
    fn what_another_has_published_is_not_emptied() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("f");
        let (path, _) = names(&target).unwrap();
        let file = open_or_make(&path).unwrap();
        // In this very moment another process gives it its final name, and ends.
        fs::write(&path, "whole").unwrap();
        publish(&path, &target, true).unwrap();
        assert!(lock(file, &path, &target).unwrap().is_none());
        let partial = Partial::open(&target, &record(), false).unwrap();
        assert_eq!((partial.bytes, fs::read(&target).unwrap().as_slice()), (0, b"whole".as_slice()));
    }

    #[test]
    fn a_lock_that_is_not_to_be_had_keeps_nobody_out() {
        let (path, target) = (Path::new("/d/.f.bp-part"), Path::new("/d/f"));
        let told = |errno: Errno| granted(Err(errno), path, target);
        for errno in [Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOLCK] {
            told(errno).unwrap();
        }
        let busy = told(Errno::WOULDBLOCK).unwrap_err();
        assert!(busy.kind == ErrorKind::Busy && busy.hint.is_some(), "{busy}");
        let failure = told(Errno::IO).unwrap_err();
        assert!(failure.kind == ErrorKind::Io && failure.what.contains("/d/.f.bp-part"), "{failure}");
    }

    #[test]
    fn only_a_part_of_the_same_file_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("f");
        let record = record();
        let mut partial = Partial::open(&target, &record, false).unwrap();
        partial.file.write_all(b"12345").unwrap();
        assert!(Partial::open(&target, &record, true).is_err(), "it is locked");
        drop(partial);
        assert_eq!(Partial::open(&target, &record, true).unwrap().bytes, 5);
        let changed = Record { modified_s: 2, ..record.clone() };
        assert_eq!(Partial::open(&target, &changed, true).unwrap().bytes, 0);
        assert_eq!(Partial::open(&target, &record, true).unwrap().bytes, 0);
        let partial = Partial::open(&target, &record, true).unwrap();
        partial.publish(false).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        Partial::open(&target, &record, true).unwrap().remove();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
