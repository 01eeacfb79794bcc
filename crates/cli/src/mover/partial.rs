//! A download that is not whole yet: it has a name that can be found again, and a record of what it is a part of.

use super::copy::replace_hint;
use base::{Failure, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

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
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|cause| failed(&cause))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let what = format!("{} is being fetched by somebody else", target.display());
            return Err(Failure::busy(what).hint(format!("wait for it; the bytes are in {}", path.display())));
        }
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
        publish(&self.path, &self.target, replace)?;
        // The file is there; a record that is left over says of no file that it is whole.
        let _ = fs::remove_file(&self.record);
        Ok(())
    }

    /// Removes what was fetched.
    pub(crate) fn remove(self) {
        // It is ours and of no use, and the failure that led here says more than a failure to remove it.
        let _ = (fs::remove_file(&self.path), fs::remove_file(&self.record));
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
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(partial, target),
            outcome => outcome.map_err(io::Error::from),
        }
    };
    outcome.map_err(|cause| replace_hint(Failure::io(format!("name it {}", target.display()), &cause)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn only_a_part_of_the_same_file_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("f");
        let record = Record { source: "root://h//f".into(), size: 10, modified_s: 1, checksum: None };
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
