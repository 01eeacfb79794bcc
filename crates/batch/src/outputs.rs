//! Resolves the output patterns of an ended job to files; checks all of them before it stores the first.
//!
//! A job makes its directories as deep and as odd as it likes. Nothing here recurses; each directory is opened below the scratch
//! directory one name at a time, and never through a link.

use crate::output::open_output;
use base::{
    Failure, FilePath, Result,
    limits::{JOB_FILES_MAX, PATH_DEPTH_MAX},
};
use rustix::{
    fs::{Dir, FileType, Mode, OFlags, open, openat},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::OwnedFd,
    path::Path,
};
use wire::control::{JobOutput, OutputKind, is_plain_name};

/// Bytes of all paths together: the head is told them in one call.
const PATHS_BYTES_MAX: usize = 1 << 20;
/// Names that one directory may have: as many files no job may store.
const NAMES_MAX: usize = 10 * JOB_FILES_MAX;

/// A file of the scratch directory that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputFile {
    /// From the scratch directory on.
    pub(crate) name: String,
    /// Its destination.
    pub(crate) path: FilePath,
}

/// Finds every file that `outputs` stand for. Fails if one is missing, is no plain file of user `uid`, or goes where another one goes.
pub(crate) fn find(scratch: &Path, outputs: &[JobOutput], uid: u32) -> Result<Vec<OutputFile>> {
    let mut found = Found { files: Vec::new(), places: BTreeMap::new(), bytes: 0 };
    for output in outputs {
        let first = found.files.len();
        match output.kind() {
            OutputKind::File => found.add(output.name.clone(), output.path.clone())?,
            OutputKind::Directory => found.directory(scratch, output)?,
            OutputKind::Pattern => found.pattern(scratch, output)?,
        }
        for file in &found.files[first..] {
            open_output(scratch, &file.name, uid)?;
        }
    }
    Ok(found.files)
}

/// Makes all outputs durable, so that they are whole if the exit record says that the job ended well.
///
/// Outputs that cannot be stored are passed over: the room will say why.
pub(crate) fn sync(scratch: &Path, outputs: &[JobOutput], uid: u32) -> Result<()> {
    let Ok(files) = find(scratch, outputs, uid) else { return Ok(()) };
    let mut directories = BTreeSet::new();
    for OutputFile { name, .. } in &files {
        let failed = |cause: io::Error| Failure::io(format!("sync output {name:?}"), &cause);
        open_output(scratch, name, uid)?.sync_all().map_err(failed)?;
        let above = std::iter::successors(Path::new(name).parent(), |directory| directory.parent());
        directories.extend(above.filter_map(Path::to_str));
    }
    for directory in directories {
        let synced = open_directory(scratch, directory).and_then(rustix::fs::fsync);
        synced.map_err(|cause| Failure::io(format!("sync the directory {directory:?}"), &cause.into()))?;
    }
    Ok(())
}

struct Found {
    files: Vec<OutputFile>,
    /// The files with their destinations.
    places: BTreeMap<FilePath, String>,
    bytes: usize,
}

impl Found {
    fn add(&mut self, name: String, path: FilePath) -> Result<()> {
        if self.files.len() >= JOB_FILES_MAX {
            return Err(Failure::invalid(format!("the outputs are more than {JOB_FILES_MAX} files"))
                .hint("pack them into one file"));
        }
        self.bytes += path.as_str().len();
        if self.bytes > PATHS_BYTES_MAX {
            return Err(Failure::invalid(format!(
                "the paths of the outputs exceed {PATHS_BYTES_MAX} bytes together"
            ))
            .hint("pack them into one file"));
        }
        if let Some(other) = self.places.insert(path.clone(), name.clone()) {
            return Err(Failure::invalid(format!("outputs {other:?} and {name:?} both go to {path}")));
        }
        self.files.push(OutputFile { name, path });
        Ok(())
    }

    /// Every file below a directory.
    fn directory(&mut self, scratch: &Path, output: &JobOutput) -> Result<()> {
        let top = output.name.trim_end_matches('/').to_owned();
        let mut pending = vec![top.clone()];
        while let Some(directory) = pending.pop() {
            for (entry, kind) in list(scratch, &directory)? {
                let name = format!("{directory}/{entry}");
                if kind == FileType::Directory {
                    refuse_deep(&name)?;
                    pending.push(name);
                    continue;
                }
                let below = &name[top.len() + 1..];
                let path = format!("{}/{below}", output.path).parse();
                self.add(
                    name.clone(),
                    path.map_err(|failure: Failure| failure.during(format_args!("output {name:?}")))?,
                )?;
            }
        }
        Ok(())
    }

    /// Every file that matches; one that is called as the pattern is written is meant by itself.
    fn pattern(&mut self, scratch: &Path, output: &JobOutput) -> Result<()> {
        let (directory, last) = output.name.rsplit_once('/').unwrap_or(("", &output.name));
        if base::pattern::is_pattern(directory) {
            return Err(Failure::invalid(format!("output {:?} has a pattern in a directory", output.name))
                .hint("use a pattern in the last component only; NAME/ stores a whole directory"));
        }
        let entries = list(scratch, directory)?;
        let is_literal = entries.iter().any(|(entry, _)| entry == last);
        let before = self.files.len();
        for (entry, kind) in entries {
            let is_meant = if is_literal { entry == last } else { is_match(last, &entry) };
            if is_meant && kind != FileType::Directory {
                let name = if directory.is_empty() { entry.clone() } else { format!("{directory}/{entry}") };
                self.add(name, output.path.join(&entry)?)?;
            }
        }
        if self.files.len() == before {
            return Err(Failure::not_found(format!("no file of the job matches output {:?}", output.name))
                .hint("the job must leave the files in its working directory, BP_SCRATCH"));
        }
        Ok(())
    }
}

fn refuse_deep(name: &str) -> Result<()> {
    if name.split('/').count() > PATH_DEPTH_MAX {
        return Err(Failure::invalid(format!("an output is deeper than {PATH_DEPTH_MAX} directories"))
            .hint("pack the directory into one file"));
    }
    Ok(())
}

/// The entries of a directory below `scratch`, in order of their names.
fn list(scratch: &Path, directory: &str) -> Result<Vec<(String, FileType)>> {
    let shown = if directory.is_empty() { "." } else { directory };
    let failed = |cause: Errno| Failure::io(format!("list output {shown:?}"), &cause.into());
    let opened = open_directory(scratch, directory).map_err(failed)?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&opened).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let name = std::str::from_utf8(bytes).ok().filter(|name| is_plain_name(name)).ok_or_else(|| {
            Failure::invalid(format!("output {shown:?} has the name {:?}", String::from_utf8_lossy(bytes)))
                .hint("names of the facility are UTF-8 without control characters: rename it in the job")
        })?;
        if found.len() >= NAMES_MAX {
            return Err(Failure::invalid(format!("output {shown:?} has more than {NAMES_MAX} entries")));
        }
        let kind = match entry.file_type() {
            // Not every file system says it in the listing.
            FileType::Unknown => rustix::fs::statat(&opened, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .map(|about| FileType::from_raw_mode(about.st_mode))
                .map_err(failed)?,
            kind => kind,
        };
        found.push((name.to_owned(), kind));
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Opens a directory one name at a time: none of them may be a link.
fn open_directory(scratch: &Path, directory: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut opened = open(scratch, flags, Mode::empty())?;
    for name in directory.split('/').filter(|name| !name.is_empty()) {
        opened = openat(&opened, name, flags, Mode::empty())?;
    }
    Ok(opened)
}

/// Whether a pattern means a name: what begins with a dot is meant only by a pattern that does.
fn is_match(pattern: &str, name: &str) -> bool {
    (pattern.starts_with('.') || !name.starts_with('.')) && base::pattern::matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;
    use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

    fn output(name: &str, path: &str) -> JobOutput {
        JobOutput { name: name.to_owned(), path: path.parse().unwrap() }
    }

    struct Job(tempfile::TempDir);

    impl Job {
        fn with(files: &[&str]) -> Self {
            let scratch = tempfile::tempdir().unwrap();
            for name in files {
                let file = scratch.path().join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, name).unwrap();
            }
            Self(scratch)
        }

        fn find(&self, name: &str, path: &str) -> Result<Vec<(String, String)>> {
            let me = rustix::process::getuid().as_raw();
            let found = find(self.0.path(), &[output(name, path)], me)?;
            Ok(found.into_iter().map(|file| (file.name, file.path.to_string())).collect())
        }
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect()
    }

    #[test]
    fn a_directory_is_all_that_is_below_it() {
        let job = Job::with(&["plots/a.png", "plots/sub/b.png", "plots/.hidden", "other"]);
        let mut found = job.find("plots/", "/out").unwrap();
        found.sort();
        let expected = [
            ("plots/.hidden", "/out/.hidden"),
            ("plots/a.png", "/out/a.png"),
            ("plots/sub/b.png", "/out/sub/b.png"),
        ];
        assert_eq!(found, pairs(&expected));
        assert_eq!(job.find("plots/sub/", "/").unwrap(), pairs(&[("plots/sub/b.png", "/b.png")]));
        assert_eq!(job.find("none/", "/out").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(job.find("other/", "/out").unwrap_err().kind, ErrorKind::NotDirectory);
    }

    #[test]
    fn a_pattern_is_what_matches_and_a_name_that_is_there_is_no_pattern() {
        let job = Job::with(&["a.root", "b.root", "c.txt", "d/e.root", "[x].root"]);
        let expected = [("[x].root", "/o/[x].root"), ("a.root", "/o/a.root"), ("b.root", "/o/b.root")];
        assert_eq!(job.find("*.root", "/o").unwrap(), pairs(&expected));
        assert_eq!(job.find("[x].root", "/o").unwrap(), pairs(&expected[..1]));
        assert_eq!(job.find("d/*", "/o").unwrap(), pairs(&[("d/e.root", "/o/e.root")]));
        assert_eq!(job.find("*.png", "/o").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(job.find("*/e.root", "/o").unwrap_err().kind, ErrorKind::Invalid);
    }

    #[test]
    fn nothing_is_found_through_a_link() {
        let job = Job::with(&["real/f"]);
        let outside = Job::with(&["secret"]);
        std::os::unix::fs::symlink(outside.0.path(), job.0.path().join("way")).unwrap();
        assert!(job.find("way/", "/o").is_err() && job.find("way/*", "/o").is_err());
        assert!(job.find("way/secret", "/o").is_err());
        std::os::unix::fs::symlink(outside.0.path(), job.0.path().join("real/way")).unwrap();
        assert!(job.find("real/", "/o").is_err(), "a link to elsewhere is not left out silently");
    }

    #[test]
    fn odd_names_and_deep_trees_are_refused_by_name() {
        let job = Job::with(&["d/f"]);
        let odd = job.0.path().join("d").join(OsStr::from_bytes(b"a\xffb"));
        fs::write(&odd, "").unwrap();
        assert!(job.find("d/", "/o").unwrap_err().what.contains("a\u{fffd}b"));
        fs::rename(&odd, job.0.path().join("d/new\nline")).unwrap();
        assert_eq!(job.find("d/", "/o").unwrap_err().kind, ErrorKind::Invalid);
        fs::remove_file(job.0.path().join("d/new\nline")).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = open(job.0.path().join("d"), flags, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        assert!(job.find("d/", "/o").unwrap_err().what.contains("deeper"));
        // The library that made the directory deletes it by recursion.
        crate::remove::remove_tree(job.0.path(), "d").unwrap();
    }

    #[test]
    fn two_files_never_go_to_one_path() {
        let job = Job::with(&["a/f", "b/f"]);
        let me = rustix::process::getuid().as_raw();
        let both = [output("a/*", "/o"), output("b/*", "/o")];
        assert!(find(job.0.path(), &both, me).unwrap_err().what.contains("/o/f"));
    }

    #[test]
    fn what_can_be_stored_is_synced_and_the_rest_is_passed_over() {
        let job = Job::with(&["a", "d/e/f"]);
        let me = rustix::process::getuid().as_raw();
        sync(job.0.path(), &[output("a", "/o/a"), output("d/", "/o/d")], me).unwrap();
        sync(job.0.path(), &[output("none", "/o/a")], me).unwrap();
    }

    #[test]
    fn hidden_files_are_meant_only_by_patterns_that_say_so() {
        assert!(is_match("*", "a") && is_match(".*", ".a") && !is_match("*", ".a"));
    }
}
