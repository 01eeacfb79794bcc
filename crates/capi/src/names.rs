//! Calls on names: each goes to this host or to a server.

use crate::{
    attributes::Attributes,
    fault::{Fault, Result},
    place::{FileLocation, is_same_server, masked, names},
};
use libc::{c_int, mode_t};
use rustix::fs::{self, Access, Mode};
use std::{ffi::CStr, fs::OpenOptions, io, path::Path};
use wire::xrd::StatFlags;

/// A failure of a call on a path of this host.
fn told<T>(operation: &str, path: &Path, outcome: Result<T, impl Into<io::Error>>) -> Result<T> {
    outcome.map_err(|cause| Fault::local(format!("{operation} {}", path.display()), cause))
}

/// Attributes of a path.
pub(crate) fn stat(path: &CStr) -> Result<Attributes> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => {
            told("stat", &path, std::fs::metadata(&path)).map(|metadata| Attributes::local(&metadata))
        }
        FileLocation::Remote(url) => Ok(Attributes::remote(&url.authority(), &names(&url).stat(&url.path)?)),
    }
}

/// Makes a directory.
pub(crate) fn mkdir(path: &CStr, mode: mode_t) -> Result<()> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => told("mkdir", &path, fs::mkdir(&path, Mode::from_raw_mode(mode))),
        FileLocation::Remote(url) => Ok(names(&url).mkdir(&url.path, masked(mode), false)?),
    }
}

/// Removes an empty directory.
pub(crate) fn rmdir(path: &CStr) -> Result<()> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => told("rmdir", &path, fs::rmdir(&path)),
        FileLocation::Remote(url) => Ok(names(&url).rmdir(&url.path)?),
    }
}

/// Removes a file.
pub(crate) fn unlink(path: &CStr) -> Result<()> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => told("unlink", &path, fs::unlink(&path)),
        FileLocation::Remote(url) => Ok(names(&url).remove(&url.path)?),
    }
}

/// Renames, within this host or within one server.
pub(crate) fn rename(from: &CStr, to: &CStr) -> Result<()> {
    match (FileLocation::parse(from)?, FileLocation::parse(to)?) {
        (FileLocation::Local(from), FileLocation::Local(to)) => told("rename", &from, fs::rename(&from, &to)),
        (FileLocation::Remote(from), FileLocation::Remote(to)) if is_same_server(&from, &to) => {
            Ok(names(&from).rename(&from.path, &to.path)?)
        }
        (from, to) => {
            Err(Fault::new(libc::EXDEV, format!("rename {from} to {to}: they are in different places"))
                .hint("copy the file, then remove the old one"))
        }
    }
}

/// Changes permission bits.
pub(crate) fn chmod(path: &CStr, mode: mode_t) -> Result<()> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => told("chmod", &path, fs::chmod(&path, Mode::from_raw_mode(mode))),
        FileLocation::Remote(url) => Ok(names(&url).chmod(&url.path, (mode & 0o7777) as u16)?),
    }
}

/// Sets the size of a file.
pub(crate) fn truncate(path: &CStr, size: u64) -> Result<()> {
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => {
            let set = |file: std::fs::File| file.set_len(size);
            told("truncate", &path, OpenOptions::new().write(true).open(&path).and_then(set))
        }
        FileLocation::Remote(url) => Ok(names(&url).truncate(&url.path, size)?),
    }
}

/// Fails unless the caller may do all of `mode`.
pub(crate) fn access(path: &CStr, mode: c_int) -> Result<()> {
    if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
        return Err(Fault::invalid(format!("access mode {mode:#o} is not valid")));
    }
    match FileLocation::parse(path)? {
        FileLocation::Local(path) => {
            told("access", &path, fs::access(&path, Access::from_bits_retain(mode.cast_unsigned())))
        }
        FileLocation::Remote(url) => match refused(names(&url).stat(&url.path)?.flags, mode) {
            None => Ok(()),
            Some(what) => Err(Fault::new(libc::EACCES, format!("access {url}: you may not {what} it"))),
        },
    }
}

/// What of `mode` is not allowed by what a server says.
fn refused(flags: StatFlags, mode: c_int) -> Option<&'static str> {
    let rights = [
        (libc::R_OK, StatFlags::READABLE, "read"),
        (libc::W_OK, StatFlags::WRITABLE, "write"),
        (libc::X_OK, StatFlags::EXECUTABLE, "execute"),
    ];
    let lacks = |(bit, flag, _): &&(c_int, StatFlags, &str)| mode & bit != 0 && !flags.contains(*flag);
    rights.iter().find(lacks).map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, os::unix::ffi::OsStrExt};

    #[test]
    fn names_of_this_host_go_to_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| CString::new(directory.path().join(name).as_os_str().as_bytes()).unwrap();
        let errno = |outcome: Result<()>| outcome.unwrap_err().errno;
        mkdir(&path("d"), 0o755).unwrap();
        assert_eq!(errno(mkdir(&path("d"), 0o755)), libc::EEXIST);
        std::fs::write(directory.path().join("d/f"), b"12345").unwrap();
        assert_eq!(errno(rmdir(&path("d"))), libc::ENOTEMPTY);
        assert_eq!(errno(unlink(&path("d/f/g"))), libc::ENOTDIR);
        rename(&path("d/f"), &path("g")).unwrap();
        truncate(&path("g"), 3).unwrap();
        chmod(&path("g"), 0o640).unwrap();
        let found = stat(&path("g")).unwrap();
        assert_eq!((found.size, found.mode & 0o777), (3, 0o640));
        access(&path("g"), libc::F_OK).unwrap();
        assert_eq!(errno(access(&path("h"), libc::R_OK)), libc::ENOENT);
        assert_eq!(errno(access(&path("g"), 0o100)), libc::EINVAL);
        unlink(&path("g")).unwrap();
        rmdir(&path("d")).unwrap();
        assert_eq!(stat(&path("g")).unwrap_err().errno, libc::ENOENT);
        assert_eq!(errno(rename(&path("g"), c"root://h//x")), libc::EXDEV);
        assert_eq!(errno(rename(c"root://h//x", c"root://i//x")), libc::EXDEV);
    }

    #[test]
    fn faults_do_not_tell_what_proves_who_asks() {
        let secret = c"root://h//x?authz=Bearer%20s3cret";
        let unreadable = c"root://h//\xff?authz=Bearer%20s3cret";
        let (from, to) = (rename(secret, c"root://i//y?a=s3cret"), rename(c"/tmp/a?b", secret));
        for fault in [from, to, rmdir(unreadable)].map(Result::unwrap_err) {
            assert!(!fault.text.contains("s3cret") && fault.text.contains("root://h"), "{fault:?}");
        }
    }

    #[test]
    fn rights_are_those_the_server_tells() {
        let flags = StatFlags::READABLE | StatFlags::DIRECTORY;
        assert_eq!(refused(flags, libc::R_OK), None);
        assert_eq!(refused(flags, libc::F_OK), None);
        assert_eq!(refused(flags, libc::R_OK | libc::W_OK), Some("write"));
        assert_eq!(refused(flags, libc::X_OK), Some("execute"));
    }
}
