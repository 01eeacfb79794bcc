//! The few changes of a directory tree that must survive a power cut, each a step that tests can cut short.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::{Mutex, PoisonError},
};

#[cfg(test)]
type Hook = Box<dyn FnMut(&str) -> io::Result<()>>;

#[cfg(test)]
thread_local! {
    /// Called before every change; an error is returned as if the kernel had refused the change.
    pub(crate) static BEFORE_STEP: std::cell::RefCell<Option<Hook>> =
        const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
fn step(name: &str) -> io::Result<()> {
    BEFORE_STEP.with_borrow_mut(|hook| hook.as_mut().map_or(Ok(()), |hook| hook(name)))
}

#[cfg(not(test))]
#[inline]
fn step(_name: &str) -> io::Result<()> {
    Ok(())
}

/// Makes the entries of `directory` durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    step("sync directory")?;
    File::open(directory)?.sync_all()
}

/// Writes a whole file and makes its content durable; the caller syncs the directory.
pub(crate) fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    step("create file")?;
    let mut file = File::create(path)?;
    step("write file")?;
    file.write_all(content)?;
    step("sync file")?;
    file.sync_all()
}

/// Makes the content of an object durable.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    step("sync data")?;
    file.sync_data()
}

/// Makes the content and the mode of an object durable.
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    step("sync file")?;
    file.sync_all()
}

/// Renames within one file system; the caller syncs both directories.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    step("rename")?;
    fs::rename(from, to)
}

/// Deletes a file; `Ok(false)` if it was not there. The caller syncs the directory.
pub(crate) fn unlink(path: &Path) -> io::Result<bool> {
    step("unlink")?;
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// Held by the thread that makes a directory until it is durable: others, which find it, may rely on it then.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes `directory` below an existing parent, durably; fine if it is there.
///
/// Who finds it there may rely on it: it was made by this process, or [`sync_directory`] was called for its parent.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if directory.is_dir() {
        return Ok(());
    }
    step("make directory")?;
    // Users of the host have no business with what clients wrote.
    match DirBuilder::new().mode(0o750).create(directory) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(cause),
        _ => {}
    }
    directory.parent().map_or(Ok(()), sync_directory)
}
