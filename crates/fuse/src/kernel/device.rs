//! `/dev/fuse`: mounting, and messages to and fro.

use super::{
    abi::{IO_BYTES_MAX, notice},
    answers::Answer,
    request::Request,
};
use base::{ErrorKind, Failure, Result};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags},
};
use std::{
    ffi::CString,
    io::IoSlice,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// Room for the longest message: a write with its head.
const MESSAGE_BYTES_MAX: usize = IO_BYTES_MAX as usize + 4096;

/// Who may use a mount.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// Other users of this host, too.
    pub others: bool,
    /// The kernel checks what the mode lets each of them do, also with what it has cached.
    pub checks: bool,
}

/// A mounted file system, as its process sees it.
#[derive(Debug)]
pub struct Device {
    /// `None`: files are used without a mount, and there is no kernel that keeps anything of them.
    fd: Option<OwnedFd>,
    /// Where it is mounted; `None`: wherever its mount was attached, which is not known here.
    directory: Option<PathBuf>,
    /// It was unmounted: what is mounted there now is something else.
    is_gone: AtomicBool,
}

impl Device {
    /// Mounts over `directory`; `source` is what `mount` shows as the device.
    pub fn mount(directory: &Path, source: &str, access: Access) -> Result<Self> {
        let others = if access.others { ",allow_other" } else { "" };
        let checks = if access.checks { ",default_permissions" } else { "" };
        Self::mount_with(directory, source, &format!("{others}{checks}"))
    }

    /// Mounts with options for the kernel, each behind a comma.
    pub fn mount_with(directory: &Path, source: &str, more: &str) -> Result<Self> {
        let failed = |what: String| move |cause: Errno| Failure::io(what, &std::io::Error::from(cause));
        let fd = open_device()?;
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let options = format!("fd={},rootmode=40000,user_id={user},group_id={group}{more}", fd.as_raw_fd());
        let options =
            CString::new(options).map_err(|_| Failure::internal("a mount option has a zero byte"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let mounted = rustix::mount::mount(source, directory, "fuse.backplane", flags, options.as_c_str());
        mounted.map_err(failed(format!("mount on {}", directory.display()))).map_err(|failure| {
            if failure.kind == ErrorKind::Permission {
                return failure.hint("only root may mount");
            }
            failure
        })?;
        Ok(Self { directory: Some(directory.to_owned()), ..Self::of_detached(fd) })
    }

    /// The process's side of a mount that [`detached`] has made.
    #[must_use]
    pub fn of_detached(fd: OwnedFd) -> Self {
        Self { fd: Some(fd), directory: None, is_gone: AtomicBool::new(false) }
    }

    /// That of a program which uses files without a mount.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self { fd: None, directory: None, is_gone: AtomicBool::new(true) }
    }

    /// Refuses changes, or to run programs. Links to devices and programs with rights of others are refused in any case.
    pub fn restrict(&self, is_read_only: bool, is_no_exec: bool) -> Result<()> {
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
        flags.set(MountFlags::RDONLY, is_read_only);
        flags.set(MountFlags::NOEXEC, is_no_exec);
        if !is_read_only && !is_no_exec {
            return Ok(());
        }
        let Some(directory) = &self.directory else {
            return Err(Failure::internal("a mount that others attach cannot be restricted"));
        };
        let done = rustix::mount::mount_remount(directory, flags, c"");
        done.map_err(|cause| {
            // Nobody may use it without what was asked for.
            let _ = self.unmount();
            Failure::io(format!("restrict {}", directory.display()), &std::io::Error::from(cause))
        })
    }

    /// Waits for the next message; `None`: it is unmounted.
    pub fn receive(&self, buffer: &mut Vec<u8>) -> Result<Option<Request>> {
        let Some(fd) = &self.fd else { return Ok(None) };
        buffer.resize(MESSAGE_BYTES_MAX, 0);
        loop {
            match rustix::io::read(fd, &mut buffer[..]) {
                Ok(length) => {
                    let request = Request::parse(&buffer[..length]);
                    return request.map(Some).ok_or_else(|| {
                        Failure::internal(format!("the kernel sent {length} bytes that are no message"))
                    });
                }
                // Of a message that was withdrawn while it was on its way.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(Errno::NODEV) => {
                    self.is_gone.store(true, Ordering::SeqCst);
                    return Ok(None);
                }
                Err(cause) => return Err(Failure::io("read from /dev/fuse", &std::io::Error::from(cause))),
            }
        }
    }

    /// Answers a message. Whoever waited for it may be gone, which is no failure. Yields whether the kernel took the answer.
    pub fn answer(&self, unique: u64, outcome: Result<Answer, Errno>) -> bool {
        let Some(fd) = &self.fd else { return false };
        let (error, body) = match outcome {
            Ok(answer) => (0, answer.into_bytes()),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };
        let mut head = Answer::default();
        head.u32((16 + body.len()) as u32).u32(error as u32).u64(unique);
        let head = head.into_bytes();
        match rustix::io::writev(fd, &[IoSlice::new(&head), IoSlice::new(&body)]) {
            Ok(_) => return true,
            Err(Errno::NOENT | Errno::NODEV) => {}
            Err(cause) => tracing::error!(unique, %cause, "the kernel does not take an answer"),
        }
        false
    }

    /// Has the kernel forget all names. It never waits for a request of this mount.
    pub(crate) fn raise_epoch(&self) {
        self.tell(notice::INC_EPOCH, &[]);
    }

    /// Has the kernel forget the attributes of a node, not its pages. It never waits for a request of this mount, either. Yields
    /// whether the kernel knows the node.
    pub(crate) fn forget_attributes(&self, node: u64) -> bool {
        // From a place before the file: no page of it.
        self.tell(notice::INVAL_INODE, &[node, u64::MAX, 0])
    }

    /// Has the kernel forget the attributes of a node and drop all its pages. Mapped pages that are dirty are written back first, and
    /// pages that are being read are waited for: whoever calls this must not keep those requests waiting.
    pub(crate) fn drop_pages(&self, node: u64) {
        // From the start to the end.
        self.tell(notice::INVAL_INODE, &[node, 0, 0]);
    }

    /// Tells the kernel something. Yields whether it knows the node that this is about.
    fn tell(&self, what: u32, fields: &[u64]) -> bool {
        // Where there is no kernel nothing is remembered.
        let Some(fd) = &self.fd else { return true };
        let mut message = Answer::default();
        message.u32((16 + 8 * fields.len()) as u32).u32(what).u64(0);
        for field in fields {
            message.u64(*field);
        }
        match rustix::io::write(fd, &message.into_bytes()) {
            Ok(_) => true,
            Err(Errno::NOENT) => false,
            // Nothing is mounted any more that could remember anything.
            Err(Errno::NODEV | Errno::NOTCONN) => true,
            Err(cause) => {
                tracing::error!(what, %cause, "the kernel does not take a notice");
                true
            }
        }
    }

    /// Unmounts. Where files are still open the name goes now, and the rest when they are closed. Yields whether there are none.
    pub fn unmount(&self) -> bool {
        let is_gone = || self.is_gone.load(Ordering::SeqCst);
        let Some(directory) = &self.directory else { return is_gone() };
        if is_gone() || rustix::mount::unmount(directory, UnmountFlags::NOFOLLOW).is_ok() {
            return true;
        }
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        is_gone() || rustix::mount::unmount(directory, flags).is_err()
    }
}

fn open_device() -> Result<OwnedFd> {
    let fd = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    fd.map_err(|cause| {
        Failure::io("open /dev/fuse", &std::io::Error::from(cause))
            .hint("load the kernel module: `modprobe fuse`; in a container it must be given the device")
    })
}

/// A mount that lies in no directory yet.
#[derive(Debug)]
pub struct Detached {
    /// For the process that answers: see [`Device::of_detached`].
    pub device: OwnedFd,
    /// The mount, which `move_mount` attaches. It is unmounted when this is closed and no name space has it.
    pub mount: OwnedFd,
}

/// Makes a mount without a directory, so that the host's table of mounts never has it: whoever attaches it, and nobody else, sees it.
pub fn detached(source: &str, access: Access) -> Result<Detached> {
    let device = open_device()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let make = || -> Result<OwnedFd, Errno> {
        use rustix::mount::{fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen};
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in [
            ("source", source),
            ("subtype", "backplane"),
            ("fd", &*device.as_raw_fd().to_string()),
            ("rootmode", "40000"),
            ("user_id", &*user.to_string()),
            ("group_id", &*group.to_string()),
        ] {
            fsconfig_set_string(&context, key, value)?;
        }
        for (key, is_wanted) in [("allow_other", access.others), ("default_permissions", access.checks)] {
            if is_wanted {
                fsconfig_set_flag(&context, key)?;
            }
        }
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    let mount = make().map_err(|cause| Failure::io("make a mount", &std::io::Error::from(cause)))?;
    Ok(Detached { device, mount })
}

/// Unmounts a directory, from whatever process.
pub fn unmount(directory: &Path, is_lazy: bool) -> Result<()> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW).map_err(|cause| {
        let failure = Failure::io(format!("unmount {}", directory.display()), &std::io::Error::from(cause));
        match cause {
            Errno::BUSY => Failure { kind: ErrorKind::Busy, ..failure }
                .hint("programs have files open there, or work in it: end them, or add --lazy"),
            Errno::INVAL => Failure { kind: ErrorKind::Invalid, ..failure }.hint("nothing is mounted there"),
            Errno::PERM => failure.hint("only root may unmount"),
            _ => failure,
        }
    })
}

/// Whether the process of what is mounted at `directory` is gone.
pub fn is_orphaned(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory)
        .is_err_and(|cause| cause.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()))
}
