//! Directories that are read entry by entry.

use crate::{
    fault::{Fault, Result},
    fork,
    place::{FileLocation, names},
    table::{OPEN_MAX, Table},
};
use base::limits::NAME_BYTES_MAX;
use libc::dirent;
use std::{
    ffi::CStr,
    fs::{DirEntry, FileType, ReadDir},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirEntryExt, FileTypeExt},
    },
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
    vec,
};
use wire::xrd::{ListEntry, StatFlags};

/// A directory that is being read.
#[derive(Debug)]
pub(crate) struct Directory {
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    rest: UnreadEntries,
    /// What the caller was shown last; it stays where it is until the next.
    shown: Box<dirent>,
}

/// The entries that were not read yet.
#[derive(Debug)]
enum UnreadEntries {
    Local(ReadDir),
    Remote(vec::IntoIter<ListEntry>),
    /// This process was forked while its parent was reading.
    Lost,
}

static OPEN: Mutex<Table<Directory>> = Mutex::new(Table::new());

/// All directories that are being read.
pub(crate) fn table() -> MutexGuard<'static, Table<Directory>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad() -> Fault {
    Fault::new(libc::EBADF, "not a directory opened by rfio_opendir")
}

/// Opens a directory; returns its number.
pub(crate) fn open(path: &CStr) -> Result<i32> {
    fork::watch();
    let rest = match FileLocation::parse(path)? {
        FileLocation::Local(path) => match path.read_dir() {
            Ok(entries) => UnreadEntries::Local(entries),
            Err(cause) => return Err(Fault::local(format!("open directory {}", path.display()), cause)),
        },
        FileLocation::Remote(url) => UnreadEntries::Remote(names(&url).list(&url.path)?.into_iter()),
    };
    let directory = Directory { reading: Mutex::new(Reading { rest, shown: Box::new(empty()) }) };
    let full = || Fault::new(libc::EMFILE, format!("{OPEN_MAX} directories are open, the maximum"));
    table().insert(directory).ok_or_else(|| full().hint("close some"))
}

/// The next entry of a directory; null behind the last.
pub(crate) fn read(number: i32) -> Result<*mut dirent> {
    let directory = table().get(number).ok_or_else(bad)?;
    let mut reading = directory.reading.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = reading.rest.next()? else { return Ok(ptr::null_mut()) };
    *reading.shown = entry;
    Ok(ptr::from_mut(&mut *reading.shown))
}

/// Closes a directory.
pub(crate) fn close(number: i32) -> Result<()> {
    table().remove(number).map(drop).ok_or_else(bad)
}

impl Directory {
    /// What a child of a fork has in the place of this one; nothing if it can go on with it as it is.
    pub(crate) fn for_child(&self) -> Option<Self> {
        let lost = || Reading { rest: UnreadEntries::Lost, shown: Box::new(empty()) };
        self.reading.try_lock().is_err().then(|| Self { reading: Mutex::new(lost()) })
    }
}

impl UnreadEntries {
    fn next(&mut self) -> Result<Option<dirent>> {
        match self {
            Self::Local(entries) => match entries.next() {
                None => Ok(None),
                Some(Err(cause)) => Err(Fault::local("read directory", cause)),
                Some(Ok(entry)) => local(&entry).map(Some),
            },
            Self::Remote(entries) => entries.next().map(|entry| remote(&entry)).transpose(),
            Self::Lost => Err(bad().hint("open it after the fork")),
        }
    }
}

fn local(entry: &DirEntry) -> Result<dirent> {
    let kind = entry.file_type().map_or(libc::DT_UNKNOWN, kind_of);
    filled(entry.file_name().as_bytes(), entry.ino(), kind)
}

fn kind_of(kind: FileType) -> u8 {
    let kinds = [
        (kind.is_file(), libc::DT_REG),
        (kind.is_dir(), libc::DT_DIR),
        (kind.is_symlink(), libc::DT_LNK),
        (kind.is_fifo(), libc::DT_FIFO),
        (kind.is_socket(), libc::DT_SOCK),
        (kind.is_char_device(), libc::DT_CHR),
        (kind.is_block_device(), libc::DT_BLK),
    ];
    kinds.iter().find(|(is_it, _)| *is_it).map_or(libc::DT_UNKNOWN, |(_, kind)| *kind)
}

fn remote(entry: &ListEntry) -> Result<dirent> {
    let stat = entry.stat.as_ref();
    let kind = stat.map_or(libc::DT_UNKNOWN, |stat| {
        if stat.flags.contains(StatFlags::DIRECTORY) { libc::DT_DIR } else { libc::DT_REG }
    });
    filled(entry.name.as_bytes(), stat.map_or(0, |stat| stat.id), kind)
}

fn empty() -> dirent {
    let d_reclen = size_of::<dirent>() as _;
    dirent { d_ino: 0, d_off: 0, d_reclen, d_type: libc::DT_UNKNOWN, d_name: [0; NAME_BYTES_MAX + 1] }
}

fn filled(name: &[u8], inode: u64, kind: u8) -> Result<dirent> {
    let mut entry = dirent { d_ino: inode as _, d_type: kind, ..empty() };
    if name.len() > NAME_BYTES_MAX || name.contains(&0) {
        let name = String::from_utf8_lossy(name);
        return Err(Fault::new(
            libc::EOVERFLOW,
            format!("directory entry {name:?} does not fit a struct dirent"),
        ));
    }
    for (place, byte) in entry.d_name.iter_mut().zip(name) {
        *place = *byte as _;
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, fs};
    use wire::xrd::StatInfo;

    #[test]
    fn a_directory_of_this_host_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), b"x").unwrap();
        fs::create_dir(directory.path().join("below")).unwrap();
        let path = CString::new(directory.path().as_os_str().as_bytes()).unwrap();
        let number = open(&path).unwrap();
        assert!(!read(number).unwrap().is_null() && !read(number).unwrap().is_null());
        assert!(read(number).unwrap().is_null() && read(number).unwrap().is_null());
        close(number).unwrap();
        assert_eq!(close(number).unwrap_err().errno, libc::EBADF);
        assert_eq!(read(number).unwrap_err().errno, libc::EBADF);
        let missing = CString::new(directory.path().join("no").as_os_str().as_bytes()).unwrap();
        assert_eq!(open(&missing).unwrap_err().errno, libc::ENOENT);
    }

    #[test]
    fn entries_are_filled_or_refused() {
        let stat = StatInfo { id: 9, size: 1, flags: StatFlags::DIRECTORY, modified_s: 0, owner: None };
        let entry = remote(&ListEntry { name: "run".to_owned(), stat: Some(stat) }).unwrap();
        assert_eq!((entry.d_ino, entry.d_type), (9, libc::DT_DIR));
        assert_eq!(entry.d_name[..4].iter().map(|byte| *byte as u8).collect::<Vec<_>>(), b"run\0");
        assert!(filled(&[b'x'; NAME_BYTES_MAX], 0, 0).is_ok());
        assert_eq!(filled(&[b'x'; NAME_BYTES_MAX + 1], 0, 0).unwrap_err().errno, libc::EOVERFLOW);
        assert!(filled(b"a\0b", 0, 0).is_err());
    }

    #[test]
    fn a_child_does_not_wait_for_a_thread_it_does_not_have() {
        let rest = UnreadEntries::Remote(Vec::new().into_iter());
        let parent = Directory { reading: Mutex::new(Reading { rest, shown: Box::new(empty()) }) };
        assert!(parent.for_child().is_none());
        let held = parent.reading.lock();
        let child = parent.for_child().expect("the parent is reading");
        let lost = child.reading.lock().unwrap().rest.next().err().unwrap();
        assert_eq!(lost.errno, libc::EBADF);
        drop(held);
    }
}
