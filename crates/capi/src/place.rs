//! Where a file is: on this host, on a server, or in the facility of the environment.

use crate::fault::{Fault, Result};
use base::{Failure, FilePath};
use client::{
    Facility,
    facility::ENVIRONMENT,
    xrd::{FileSystem, Options, XrdUrl},
};
use std::{
    env,
    ffi::{CStr, OsStr},
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::OnceLock,
};

/// What a path of the facility begins with.
const FACILITY: &str = "bp:";
const SCHEMES: [&str; 4] = ["root://", "roots://", "xroot://", "xroots://"];

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// On this host.
    Local(PathBuf),
    /// On a server.
    Remote(Box<XrdUrl>),
}

impl FileLocation {
    /// Understands a path: `root://` and its kin, `bp:/path` in the facility, anything else on this host.
    pub(crate) fn parse(path: &CStr) -> Result<Self> {
        let bytes = path.to_bytes();
        let begins = |scheme: &str| bytes.starts_with(scheme.as_bytes());
        let is_facility = begins(FACILITY);
        if !is_facility && !SCHEMES.iter().any(|scheme| begins(scheme)) {
            return Ok(Self::Local(PathBuf::from(OsStr::from_bytes(bytes))));
        }
        let text = path.to_str();
        let text = text.map_err(|_| {
            // What follows `?` may be a token.
            let shown = bytes.split(|byte| *byte == b'?').next().unwrap_or_default();
            Fault::invalid(format!("path {:?} is not UTF-8", String::from_utf8_lossy(shown)))
        })?;
        match text.strip_prefix(FACILITY) {
            Some(path) => Ok(Self::Remote(Box::new(in_facility(&path.parse()?)?))),
            None => Ok(Self::Remote(Box::new(text.parse()?))),
        }
    }
}

/// The path in the facility of a file that is to be changed in place; none: it is on this host, where all files are.
pub(crate) fn shared(path: &CStr) -> Result<Option<FilePath>> {
    if let Some(path) = path.to_str().ok().and_then(|text| text.strip_prefix(FACILITY)) {
        return Ok(Some(path.parse()?));
    }
    match FileLocation::parse(path)? {
        FileLocation::Local(_) => Ok(None),
        FileLocation::Remote(url) => {
            let text = format!("open {url}: a file is not changed in place at this door");
            Err(Fault::new(libc::EOPNOTSUPP, text)
                .hint("name it as bp:/path, in the facility of BP_FACILITY"))
        }
    }
}

/// As people write it, without what proves who asks.
impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Remote(url) => write!(f, "{url}"),
        }
    }
}

/// The URL of a path in the facility that the environment names. It is looked up each time: a facility that was started
/// again listens elsewhere.
fn in_facility(path: &FilePath) -> Result<XrdUrl> {
    Ok(facility(path)?.url(path.clone())?)
}

/// The facility of the environment, for a file in it.
pub(crate) fn facility(path: &FilePath) -> Result<Facility> {
    let place = env::var(ENVIRONMENT).ok().filter(|place| !place.is_empty());
    let place = place.ok_or_else(|| {
        Failure::invalid(format!("bp:{path}: no facility is given"))
            .hint(format!("set {ENVIRONMENT} to the facility's directory or its http:// endpoint"))
    })?;
    Ok(Facility::find(&place, user())?)
}

/// How patient and eager we are: as every client of ours, on behalf of who runs the program.
pub(crate) fn options() -> Options {
    Options { username: user().to_owned(), ..Options::default() }
}

/// The names of the server of `url`.
pub(crate) fn names(url: &XrdUrl) -> FileSystem {
    FileSystem::new(url, &options())
}

/// Whether both are names of one server, so that one can become the other there.
pub(crate) fn is_same_server(one: &XrdUrl, other: &XrdUrl) -> bool {
    (&one.host, one.port, one.is_tls, &one.user) == (&other.host, other.port, other.is_tls, &other.user)
}

/// Permission bits as the process would make them here.
pub(crate) fn masked(mode: libc::mode_t) -> u16 {
    // Asking the kernel by `umask` would change it for a moment, for all threads.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    (mode & 0o7777) as u16 & !mask_in(&status)
}

/// The mask in the text of `/proc/self/status`; without one the usual.
fn mask_in(status: &str) -> u16 {
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022) & 0o777
}

/// On whose behalf: `$BP_USER`, `$USER`, else the name in the password file.
fn user() -> &'static str {
    static USER: OnceLock<String> = OnceLock::new();
    USER.get_or_init(|| {
        let named = |name| env::var(name).ok().filter(|user| !user.is_empty());
        named("BP_USER").or_else(|| named("USER")).unwrap_or_else(|| {
            let uid = rustix::process::getuid().as_raw();
            let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
            name_in(&users, uid).unwrap_or_else(|| format!("uid{uid}"))
        })
    })
}

/// The name of `uid` in the text of a password file.
fn name_in(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_schemes_leave_this_host() {
        let local = |path: &CStr| matches!(FileLocation::parse(path), Ok(FileLocation::Local(_)));
        assert!(
            local(c"/data/run1") && local(c"run1") && local(c"") && local(c"http://h/x") && local(c"\xff")
        );
        let url = |path: &CStr| match FileLocation::parse(path) {
            Ok(FileLocation::Remote(url)) => url.to_string(),
            other => panic!("{path:?}: {other:?}"),
        };
        assert_eq!(url(c"root://h//data/x"), "root://h:1094//data/x");
        assert_eq!(url(c"xroots://h:1//data/x"), "roots://h:1//data/x");
        assert_eq!(FileLocation::parse(c"root://h//a/../b").unwrap_err().errno, libc::EINVAL);
        assert_eq!(FileLocation::parse(c"root://h//\xff").unwrap_err().errno, libc::EINVAL);
        assert_eq!(FileLocation::parse(c"bp:relative").unwrap_err().errno, libc::EINVAL);
    }

    #[test]
    fn servers_are_compared_without_paths() {
        let same = |one: &str, other: &str| is_same_server(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(same("root://h//a", "xroot://h:1094//b?x=1"));
        assert!(!same("root://h//a", "roots://h//a") && !same("root://h//a", "root://me@h//a"));
    }

    #[test]
    fn files_of_the_system_are_read() {
        assert_eq!(mask_in("Name:\tx\nUmask:\t0077\nState:\tR"), 0o077);
        assert_eq!(mask_in(""), 0o022);
        assert_eq!(masked(0o100_000), 0);
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(name_in(users, 1000).as_deref(), Some("alice"));
        assert_eq!(name_in(users, 7), None);
    }
}
