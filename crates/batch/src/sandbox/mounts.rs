//! The mount namespace of a job: which directories it sees, and which are hidden.

use super::Plan;
use crate::{as_user::as_user, identity::Kind, run_dir::RunDir};
use base::{Failure, Result};
use nix::mount::{MsFlags, mount};
use rustix::{
    fs::{CWD, Mode, OFlags, open},
    mount::{MoveMountFlags, move_mount},
};
use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
};

/// The memory of what hides a directory: entries that lead to what the job may see below it, nothing else.
const MASK: &str = "size=256k,nr_inodes=1k,mode=755";
/// What may be done in directories that the job writes to.
const OWN: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);
/// Shared memory of a job whose memory is not limited: the kernel's own bound.
const SHARED_MEMORY: &str = "size=50%,mode=1777";
/// The empty string as "no source" has no type of its own.
const NONE: Option<&Path> = None;

/// A directory of the run, and where the job finds it.
struct BindMount {
    handle: OwnedFd,
    target: PathBuf,
    is_writable: bool,
}

impl BindMount {
    fn open(path: &Path, target: &Path, is_writable: bool) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = open(path, flags, Mode::empty())
            .map_err(|cause| Failure::io(format!("open {}", path.display()), &cause.into()))?;
        Ok(Self { handle, target: target.to_owned(), is_writable })
    }

    /// Binds it, made first if what is there is ours. The handle leads to it even where its name is hidden by now.
    fn bind(&self) -> Result<()> {
        let source = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        fs::create_dir_all(&self.target).map_err(|cause| failed("make", &self.target, &cause))?;
        attach(Some(&source), &self.target, None, MsFlags::MS_BIND, None)?;
        let extra = if self.is_writable { OWN } else { OWN | MsFlags::MS_RDONLY };
        change(&self.target, extra)
    }
}

fn failed(what: &str, target: &Path, cause: &io::Error) -> Failure {
    Failure::io(format!("{what} {} for the job", target.display()), cause)
}

fn attach(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> Result<()> {
    mount(source, target, kind, flags, data).map_err(|cause| failed("mount", target, &cause.into()))
}

/// Adds flags to the mount at `target`. Those that it has stay: who is not root may not take them away.
fn change(target: &Path, extra: MsFlags) -> Result<()> {
    let table = table()?;
    let flags =
        table.iter().rfind(|entry| entry.target == target).map_or(MsFlags::empty(), |entry| entry.flags);
    attach(NONE, target, None, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags | extra, None)
}

/// Gives the job its view of the host. The caller is in a mount namespace of its own; `/proc` is still the host's.
pub(super) fn arrange(plan: &Plan) -> Result<()> {
    // What the host mounts later is still seen, as automounted file systems; what is mounted here, the host does not see.
    attach(NONE, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_SLAVE, None)?;
    let dir = RunDir::at(&plan.run_dir)?;
    let directory = directory_below_tmp(plan)?;
    let [tmp, var_tmp] = dir.temporary();
    let own = [
        BindMount::open(&tmp, Path::new("/tmp"), true)?,
        BindMount::open(&var_tmp, Path::new("/var/tmp"), true)?,
        BindMount::open(&dir.scratch(), &dir.scratch(), true)?,
        BindMount::open(&dir.credentials(), &dir.credentials(), false)?,
    ];
    let [tmp, var_tmp, scratch, credentials] = &own;
    tmp.bind()?;
    // On some hosts it is a link to /tmp.
    if fs::symlink_metadata("/var/tmp").is_ok_and(|about| about.is_dir()) {
        var_tmp.bind()?;
    }
    if let Some(directory) = &directory {
        directory.bind()?;
    }
    share_memory(plan)?;
    let hidden = hide(&plan.confinement.hidden)?;
    scratch.bind()?;
    credentials.bind()?;
    let facility = attach_facility(plan, dir.path())?;
    for mask in &hidden {
        change(mask, MsFlags::MS_RDONLY)?;
    }
    let writable = own.iter().chain(&directory).map(|mount| &*mount.target).chain([Path::new("/dev/shm")]);
    let writable: Vec<&Path> = writable.chain(facility).collect();
    // A job in a group that its own user may write to must not leave it; a slot user must leave nothing anywhere.
    let is_slot = plan.confinement.identity.kind == Kind::Slot;
    for entry in table()?.iter().filter(|entry| is_slot || entry.is_cgroup) {
        let is_ours =
            writable.iter().any(|path| entry.target.starts_with(path)) || hidden.contains(&entry.target);
        if !is_ours {
            protect(entry, is_slot)?;
        }
    }
    if plan.confinement.namespaces.proc {
        let flags = OWN | MsFlags::MS_NOEXEC;
        attach(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), flags, None)?;
    }
    Ok(())
}

/// The working directory of the job, if a private directory of the job would hide it. It is opened with the rights of the job's user:
/// what that user cannot reach, the job does not get.
fn directory_below_tmp(plan: &Plan) -> Result<Option<BindMount>> {
    let identity = &plan.confinement.identity;
    let is_below = |path: &Path| {
        [Path::new("/tmp"), Path::new("/var/tmp")].into_iter().any(|tmp| path != tmp && path.starts_with(tmp))
    };
    let directory = plan.order.directory.as_ref().filter(|path| is_below(path));
    // A slot user leaves nothing outside of its run directory.
    let Some(path) = directory.filter(|_| identity.kind != Kind::Slot) else { return Ok(None) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = as_user(identity, || Ok(open(path, flags, Mode::empty())?)).map_err(|cause| {
        Failure::io(
            format!("open the working directory {} as user {}", path.display(), identity.name),
            &cause,
        )
        .hint("it must exist on the worker's host, and the job's user must be allowed to enter it")
    })?;
    Ok(Some(BindMount { handle, target: path.clone(), is_writable: true }))
}

/// Attaches the mount of the facility that the shepherd has made; returns where.
fn attach_facility<'a>(plan: &'a Plan, run_dir: &Path) -> Result<Option<&'a Path>> {
    let (Some(order), Some(number)) = (&plan.order.mount, plan.mount) else { return Ok(None) };
    let target = &*order.directory;
    // Ours; a directory that the worker's operator has named is to be there.
    if target.starts_with(run_dir) {
        fs::create_dir_all(target).map_err(|cause| failed("make", target, &cause))?;
    }
    let source = format!("/proc/{}/fd/{number}", plan.shepherd);
    let attach = || -> io::Result<()> {
        let mount = open(&*source, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&mount, "", CWD, target, flags)?)
    };
    attach().map_err(|cause| failed("mount the facility on", target, &cause))?;
    Ok(Some(target))
}

/// Makes a mount read-only. One that nobody can reach any more, because another one is above it, does no harm.
fn protect(entry: &Entry, is_strict: bool) -> Result<()> {
    match change(&entry.target, MsFlags::MS_RDONLY) {
        Err(failure) if is_strict && fs::symlink_metadata(&entry.target).is_ok() => Err(failure),
        _ => Ok(()),
    }
}

/// Memory that processes share by name, gone with the job.
fn share_memory(plan: &Plan) -> Result<()> {
    let target = Path::new("/dev/shm");
    if !target.is_dir() {
        return Ok(());
    }
    let memory = plan.order.memory_bytes;
    let limit = format!("size={memory},mode=1777");
    let options = if memory > 0 { &*limit } else { SHARED_MEMORY };
    attach(Some(Path::new("tmpfs")), target, Some("tmpfs"), OWN | MsFlags::MS_NOEXEC, Some(options))
}

/// Puts something empty in the place of what the job must not see; returns the directories.
fn hide(hidden: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut masked = Vec::new();
    for path in hidden {
        let about = match fs::symlink_metadata(path) {
            // What was hidden with the directory that it is in.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            about => about.map_err(|cause| failed("hide", path, &cause))?,
        };
        if about.is_dir() {
            let flags = OWN | MsFlags::MS_NOEXEC;
            attach(Some(Path::new("tmpfs")), path, Some("tmpfs"), flags, Some(MASK))?;
            masked.push(path.clone());
        } else if about.is_file() {
            attach(Some(Path::new("/dev/null")), path, None, MsFlags::MS_BIND, None)?;
        }
    }
    Ok(masked)
}

/// One line of the table of mounts.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    target: PathBuf,
    flags: MsFlags,
    is_cgroup: bool,
}

/// The mounts that this process sees, lower ones first (proc_pid_mountinfo(5)).
fn table() -> Result<Vec<Entry>> {
    let text =
        fs::read("/proc/self/mountinfo").map_err(|cause| Failure::io("read the table of mounts", &cause))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

fn parse_line(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let target = unescape(fields.nth(4)?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Entry {
        target: PathBuf::from(OsString::from_vec(target)),
        flags: options.split(',').map(flag).fold(MsFlags::empty(), MsFlags::union),
        is_cgroup: matches!(kind, b"cgroup" | b"cgroup2"),
    })
}

fn flag(option: &str) -> MsFlags {
    match option {
        "ro" => MsFlags::MS_RDONLY,
        "nosuid" => MsFlags::MS_NOSUID,
        "nodev" => MsFlags::MS_NODEV,
        "noexec" => MsFlags::MS_NOEXEC,
        "noatime" => MsFlags::MS_NOATIME,
        "nodiratime" => MsFlags::MS_NODIRATIME,
        "relatime" => MsFlags::MS_RELATIME,
        _ => MsFlags::empty(),
    }
}

/// Undoes `\040` and the like.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = if *first == b'\\' { tail.get(..3).and_then(octal) } else { None };
        found.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    found
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] =
        b"36 35 98:0 /mnt1 /a\\040b\\134c rw,nosuid,relatime master:1 - cgroup2 cgroup2 rw,errors=continue";

    #[test]
    fn a_line_is_read_with_its_escapes() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_RELATIME;
        let expected = Entry { target: PathBuf::from("/a b\\c"), flags, is_cgroup: true };
        assert_eq!(parse_line(LINE), Some(expected));
        assert_eq!(parse_line(b""), None);
        assert_eq!(unescape(b"\\04"), b"\\04");
    }

    #[test]
    fn the_table_of_this_process_has_a_root() {
        assert!(table().unwrap().iter().any(|entry| entry.target == Path::new("/")));
    }

    fn fuzz_mounts(data: &[u8]) {
        for line in data.split(|byte| *byte == b'\n') {
            let _ = parse_line(line);
        }
    }

    proptest! {
        #[test]
        fn damaged_lines_never_panic(at in 0usize..100, byte: u8, noise in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_mounts(&noise);
            let mut line = LINE.to_vec();
            let at = at % line.len();
            line[at] = byte;
            fuzz_mounts(&line);
        }
    }
}
