//! Walks a foreign directory tree entry by entry. It never follows a symbolic link and never leaves the file system.
//!
//! Each directory is opened relative to the one above it, so a user who may write to the tree cannot lead the walk
//! elsewhere. Memory holds one open directory for each level, with some of its names.

use base::{Failure, Result, limits::PATH_DEPTH_MAX};
use rustix::{
    fs::{CWD, Dir, Mode, OFlags, openat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt},
        },
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
    vec,
};

/// What a directory holds that is a partition or a facility: its files are not somebody's data.
const OURS: [&str; 2] = ["partition.json", "facility.toml"];

/// Names of a directory that are read, and sorted, at a time.
const NAMES_MAX: usize = 64 << 10;

/// An entry as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// From the directory on at which the walk began.
    pub path: PathBuf,
    /// What it was then.
    pub metadata: Metadata,
    directory: Arc<OwnedFd>,
    name: OsString,
}

/// The next entry.
#[derive(Debug)]
pub enum Step {
    /// A regular file.
    File(Found),
    /// A directory; what is in it comes next, unless it is [skipped](Walk::skip).
    Directory(Found),
    /// All of a directory has come.
    Over(Found),
    /// Something that is neither, or cannot be looked at.
    Odd(PathBuf, Failure),
}

/// A walk through a directory tree.
#[derive(Debug)]
pub struct Walk {
    device: u64,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    directory: Arc<OwnedFd>,
    entries: Dir,
    /// What was read of them and did not come yet, in order: files that are named alike are asked for together later.
    names: vec::IntoIter<OsString>,
    /// What follows cannot be read.
    trouble: Option<Errno>,
    /// As it was found; `None` for the first.
    found: Option<Found>,
}

fn open(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, Path::new(name), flags, Mode::empty())?)
}

const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Found {
    /// Opens the file for reading; one that was put in its place is refused.
    pub fn open(&self) -> Result<File> {
        let failed = |cause: io::Error| Failure::io(self.path.display(), &cause);
        // A pipe that was put there must not keep us waiting.
        let file = open(&self.directory, &self.name, OFlags::RDONLY | OFlags::NONBLOCK).map_err(failed)?;
        let file = File::from(file);
        let now = file.metadata().map_err(failed)?;
        if (now.dev(), now.ino()) != (self.metadata.dev(), self.metadata.ino()) || !now.is_file() {
            return Err(self.changed());
        }
        Ok(file)
    }

    /// What has its name now, if anything.
    pub fn look(&self) -> io::Result<Option<Metadata>> {
        match open(&self.directory, &self.name, OFlags::PATH) {
            Ok(now) => Ok(Some(File::from(now).metadata()?)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Removes the name.
    pub(crate) fn unlink(&self) -> io::Result<()> {
        let flags = if self.metadata.is_dir() {
            rustix::fs::AtFlags::REMOVEDIR
        } else {
            rustix::fs::AtFlags::empty()
        };
        Ok(rustix::fs::unlinkat(&self.directory, Path::new(&self.name), flags)?)
    }

    /// Removes a directory if nothing is left in it.
    pub fn remove_if_empty(&self) -> Result<()> {
        match self.unlink() {
            Err(cause)
                if !matches!(
                    Errno::from_io_error(&cause),
                    Some(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT)
                ) =>
            {
                Err(Failure::io(format!("remove {}", self.path.display()), &cause))
            }
            _ => Ok(()),
        }
    }

    /// The refusal of a file that is not what it was.
    pub(crate) fn changed(&self) -> Failure {
        Failure::busy(format!("{} was changed while it was read", self.path.display()))
            .hint("adopt it again when no program writes to it")
    }
}

/// Opens `directory`, which must lie below one of `allowed`, without following links below that.
fn open_below(allowed: &[PathBuf], directory: &Path) -> Result<OwnedFd> {
    let shown = directory.display();
    let is_normal = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !directory.is_absolute() || !directory.components().all(is_normal) {
        return Err(Failure::invalid(format!("{shown} is no absolute path without ..")));
    }
    let mut roots = allowed.iter().filter(|root| root.is_absolute());
    let below = roots.find_map(|root| Some((root, directory.strip_prefix(root).ok()?)));
    let Some((root, below)) = below else {
        let all: Vec<_> = allowed.iter().map(|root| root.display().to_string()).collect();
        let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(Failure::permission(format!(
            "{shown} may not be adopted on this host: disk.adopt allows {all}"
        ))
        .hint(
            "name it, or a directory above it, in disk.adopt of facility.toml on that host, and restart \
                its daemon",
        ));
    };
    let failed = |cause: io::Error| {
        Failure::io(format!("open {shown}"), &cause)
            .hint("name a directory; below what disk.adopt allows no symbolic link is followed")
    };
    let mut opened =
        openat(CWD, root, LISTED | OFlags::CLOEXEC, Mode::empty()).map_err(|cause| failed(cause.into()))?;
    for part in below.components() {
        refuse_ours(&opened, root)?;
        opened = open(&opened, part.as_os_str(), LISTED).map_err(failed)?;
    }
    refuse_ours(&opened, directory)?;
    Ok(opened)
}

impl Walk {
    /// Begins at `directory`, which must lie below one of `allowed`, and on the file system of `partition`.
    ///
    /// Yields what the directory is, too.
    pub fn new(allowed: &[PathBuf], directory: &Path, partition: &Path) -> Result<(Self, Metadata)> {
        let opened = open_below(allowed, directory)?;
        let failed = |cause: io::Error| Failure::io(format!("open {}", directory.display()), &cause);
        let metadata = File::from(opened.try_clone().map_err(failed)?).metadata().map_err(failed)?;
        let device = fs::metadata(partition).map_err(failed)?.dev();
        if metadata.dev() != device {
            return Err(Failure::unsupported(format!(
                "{} lies on another file system than the partition {}",
                directory.display(),
                partition.display()
            ))
            .hint("files can be adopted only where they lie; copy these with `bp cp --recursive`"));
        }
        let is_inside = |directory: &Path, other: &Path| -> io::Result<bool> {
            Ok(fs::canonicalize(directory)?.starts_with(fs::canonicalize(other)?))
        };
        if is_inside(directory, partition).map_err(failed)? {
            return Err(Failure::invalid(format!(
                "{} is inside a partition: it belongs to the facility already",
                directory.display()
            )));
        }
        let level = Level::new(opened, None).map_err(failed)?;
        Ok((Self { device, levels: vec![level] }, metadata))
    }

    /// What comes next; `None`: that was all.
    pub fn advance(&mut self) -> Option<Step> {
        loop {
            let level = self.levels.last_mut()?;
            let path = level.found.as_ref().map(|found| found.path.clone()).unwrap_or_default();
            let name = match level.next() {
                None => match self.levels.pop()?.found {
                    Some(found) => return Some(Step::Over(found)),
                    None => continue,
                },
                Some(Err(cause)) => {
                    // What follows cannot be known; what was seen is seen.
                    self.levels.pop();
                    return Some(Step::Odd(path, Failure::io("list it", &cause.into())));
                }
                Some(Ok(name)) => name,
            };
            let (path, directory) = (path.join(&name), Arc::clone(&level.directory));
            match self.step(directory, path.clone(), name) {
                Ok(Some(step)) => return Some(step),
                // Gone since it was listed.
                Ok(None) => {}
                Err(failure) => return Some(Step::Odd(path, failure)),
            }
        }
    }

    fn step(&mut self, directory: Arc<OwnedFd>, path: PathBuf, name: OsString) -> Result<Option<Step>> {
        let failed = |cause: io::Error| Failure::io("look at it", &cause);
        let looked = match open(&directory, &name, OFlags::PATH) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => File::from(looked.map_err(failed)?),
        };
        let metadata = looked.metadata().map_err(failed)?;
        let kind = metadata.file_type();
        let found = Found { path, metadata, directory, name };
        if kind.is_file() {
            return Ok(Some(Step::File(found)));
        }
        if !kind.is_dir() {
            let what = match () {
                () if kind.is_symlink() => "a symbolic link",
                () if kind.is_socket() => "a socket",
                () if kind.is_fifo() => "a pipe",
                () => "a device",
            };
            return Err(Failure::unsupported(format!("it is {what}")));
        }
        if found.metadata.dev() != self.device {
            return Err(Failure::unsupported("it lies on another file system"));
        }
        if self.levels.len() > PATH_DEPTH_MAX {
            return Err(Failure::invalid(format!("it is deeper than {PATH_DEPTH_MAX} directories")));
        }
        let opened =
            open(&found.directory, &found.name, LISTED).map_err(|cause| Failure::io("list it", &cause))?;
        if let Some(what) = is_ours(&opened) {
            return Err(Failure::unsupported(format!("it holds {what}: it belongs to the facility already")));
        }
        let level =
            Level::new(opened, Some(found.clone())).map_err(|cause| Failure::io("list it", &cause))?;
        self.levels.push(level);
        Ok(Some(Step::Directory(found)))
    }

    /// Does not go into the directory that came last.
    pub fn skip(&mut self) {
        self.levels.pop();
    }
}

impl Level {
    fn new(directory: OwnedFd, found: Option<Found>) -> io::Result<Self> {
        let entries = Dir::read_from(&directory)?;
        let (names, trouble) = (Vec::new().into_iter(), None);
        Ok(Self { directory: Arc::new(directory), entries, names, trouble, found })
    }

    /// The next name; `None`: that was all.
    fn next(&mut self) -> Option<Result<OsString, Errno>> {
        if self.names.len() == 0 {
            self.read_names();
        }
        self.names.next().map(Ok).or_else(|| self.trouble.take().map(Err))
    }

    fn read_names(&mut self) {
        let mut names = Vec::new();
        while names.len() < NAMES_MAX && self.trouble.is_none() {
            match self.entries.read() {
                None => break,
                Some(Err(cause)) => self.trouble = Some(cause),
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if !matches!(name, b"." | b"..") {
                        names.push(OsStr::from_bytes(name).to_owned());
                    }
                }
            }
        }
        names.sort_unstable();
        self.names = names.into_iter();
    }
}

/// Refuses what lies in a partition, or in the directory of a facility.
fn refuse_ours(opened: &OwnedFd, near: &Path) -> Result<()> {
    match is_ours(opened) {
        Some(what) => Err(Failure::invalid(format!(
            "{} is beside {what}: it belongs to the facility already",
            near.display()
        ))),
        None => Ok(()),
    }
}

fn is_ours(directory: &OwnedFd) -> Option<&'static str> {
    OURS.into_iter().find(|name| open(directory, OsStr::new(name), OFlags::PATH).is_ok())
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
