//! The one error that crosses room boundaries: a kind to act on, what went wrong, and the next step.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a caller can do about a failure. Every door maps these to its own codes, in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The named thing does not exist.
    NotFound,
    /// The named thing exists already.
    Exists,
    /// A component of the path is not a directory.
    NotDirectory,
    /// A directory was named where a file is needed.
    IsDirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The principal may not do this.
    Permission,
    /// The request makes no sense, whoever sends it.
    Invalid,
    /// A bound is reached or the thing is in use; trying later can help.
    Busy,
    /// Somebody else is writing the file; trying later can help.
    Locked,
    /// No room left on disk or tape.
    NoSpace,
    /// A user, group or project holds as much as it may.
    OverQuota,
    /// Bytes do not match their checksum, label or catalogue entry.
    Corrupt,
    /// The operating system or a device failed.
    Io,
    /// Known, but not offered here.
    Unsupported,
    /// A deadline passed.
    Timeout,
    /// The room that would do it is not there; trying later can help.
    Unavailable,
    /// Our own bug.
    Internal,
}

impl ErrorKind {
    /// Exit code of a command that ends with this kind.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Invalid | Self::Unsupported => 2,
            Self::NotFound => 3,
            Self::Exists | Self::NotEmpty | Self::IsDirectory | Self::NotDirectory => 4,
            Self::Permission => 5,
            Self::Busy | Self::Locked | Self::Unavailable | Self::Timeout => 6,
            Self::NoSpace | Self::OverQuota => 7,
            Self::Corrupt => 8,
            Self::Io => 9,
            Self::Internal => 70,
        }
    }
}

/// Why something was refused, where the kind does not tell callers enough to act. Nobody decides by the words of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The file has no tape copy: its disk replica is the only one.
    NoTapeCopy,
    /// The caller's own pin keeps the file on disk.
    PinnedByCaller,
    /// The pin of another user or of a job keeps the file on disk.
    PinnedByOthers,
    /// The tape request belongs to another user.
    RequestOfAnother,
    /// Another user or a job waits for the tape request, too.
    RequestNeeded,
    /// Only the owner may do it, whatever the mode allows.
    NotOwner,
    /// The file has as many names as there can be.
    TooManyNames,
    /// The cartridge is write-protected.
    WriteProtected,
    /// A cause that this version does not know.
    #[serde(other)]
    Other,
}

/// A failure as the person or the peer sees it.
///
/// `what` is lower case, without a full stop, and names the thing; `hint` is the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct Failure {
    /// What the caller can do about it.
    pub kind: ErrorKind,
    /// What failed, with the thing it failed on.
    pub what: String,
    /// The next step, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Why, if callers act differently for it than for others of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Error number of this host's operating system, if the failure was made from one. It says nothing on other hosts.
    #[serde(skip)]
    pub os_error: Option<i32>,
    /// The head that can carry it out, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Box<OtherHead>>,
}

/// Another head, which keeps what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherHead {
    /// Its XRootD door, `root://host:port`.
    pub root: String,
    /// Its HTTP door, `https://host:port`.
    pub http: String,
}

impl OtherHead {
    /// Host and port of its XRootD door; an IPv6 address in brackets. `None` if the address is not one.
    #[must_use]
    pub fn root_host(&self) -> Option<(&str, u16)> {
        host_and_port(self.root.strip_prefix("root://")?)
    }

    /// Whether clients can be redirected to both addresses.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let rest = self.http.strip_prefix("https://").or_else(|| self.http.strip_prefix("http://"));
        self.root_host().is_some() && rest.and_then(host_and_port).is_some()
    }
}

/// Takes `host:port` apart.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_in_brackets = host.starts_with('[') && host.ends_with(']');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '[' | ']');
    let is_host = !host.is_empty()
        && if is_in_brackets { host.chars().all(is_address) } else { host.chars().all(is_plain) };
    Some((host, port.parse().ok().filter(|port| *port > 0 && is_host)?))
}

/// Result with a [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Makes a failure of `kind` that says `what`.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None, cause: None, os_error: None, at: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says why, for callers that act on it.
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Says who is to be asked instead.
    pub fn kept_by(mut self, at: OtherHead) -> Self {
        self.at = Some(Box::new(at));
        self
    }

    /// Names nobody else to be asked if `is_partial`: if only a part of what was wanted is elsewhere.
    #[must_use]
    pub fn only_here(self, is_partial: bool) -> Self {
        Self { at: self.at.filter(|_| !is_partial), ..self }
    }

    /// Puts the operation in front: `"{context}: {what}"`.
    pub fn during(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }

    /// Wraps an I/O error; the kind follows the error number.
    pub fn io(context: impl fmt::Display, cause: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match cause.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::AlreadyExists => ErrorKind::Exists,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Permission,
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::NoSpace,
            Io::TimedOut | Io::WouldBlock => ErrorKind::Timeout,
            Io::ConnectionRefused | Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe => {
                ErrorKind::Unavailable
            }
            Io::NotADirectory => ErrorKind::NotDirectory,
            Io::IsADirectory => ErrorKind::IsDirectory,
            Io::DirectoryNotEmpty => ErrorKind::NotEmpty,
            _ => ErrorKind::Io,
        };
        let failure = Self::new(kind, format!("{context}: {cause}"));
        Self { os_error: cause.raw_os_error(), ..failure }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

macro_rules! shorthand {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Failure {
            $($(#[$doc])* pub fn $name(what: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, what) })*
        }
    };
}

shorthand! {
    /// [`ErrorKind::NotFound`].
    not_found => NotFound;
    /// [`ErrorKind::Exists`].
    exists => Exists;
    /// [`ErrorKind::Permission`].
    permission => Permission;
    /// [`ErrorKind::Invalid`].
    invalid => Invalid;
    /// [`ErrorKind::Busy`].
    busy => Busy;
    /// [`ErrorKind::Locked`].
    locked => Locked;
    /// [`ErrorKind::NoSpace`].
    no_space => NoSpace;
    /// [`ErrorKind::OverQuota`].
    over_quota => OverQuota;
    /// [`ErrorKind::Corrupt`].
    corrupt => Corrupt;
    /// [`ErrorKind::Unsupported`].
    unsupported => Unsupported;
    /// [`ErrorKind::Timeout`].
    timeout => Timeout;
    /// [`ErrorKind::Unavailable`].
    unavailable => Unavailable;
    /// [`ErrorKind::Internal`].
    internal => Internal;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_space() {
        let full = std::io::Error::from_raw_os_error(28);
        let failure = Failure::io("write object 7", &full).hint("free space in pool main");
        assert_eq!(failure.kind, ErrorKind::NoSpace);
        assert!(failure.to_string().starts_with("write object 7: "));
    }

    #[test]
    fn only_addresses_are_taken_for_such() {
        let root_host = |root: &str| {
            let at = OtherHead { root: root.to_owned(), http: "https://b.example.org:8443".to_owned() };
            (at.is_valid(), at.root_host().map(|(host, port)| (host.to_owned(), port)))
        };
        assert_eq!(root_host("root://b-1.example.org:1094"), (true, Some(("b-1.example.org".into(), 1094))));
        assert_eq!(root_host("root://[::1]:1094"), (true, Some(("[::1]".into(), 1094))));
        for wrong in
            ["root://b", "root://:1094", "root://b:0", "root://b:70000", "root://b\r\nx:1", "http://b:1094"]
        {
            assert_eq!(root_host(wrong), (false, None), "{wrong:?}");
        }
        let at = OtherHead { root: "root://b:1094".to_owned(), http: "https://b/x:1".to_owned() };
        assert!(!at.is_valid());
    }

    #[test]
    fn who_is_to_be_asked_is_told_only_if_somebody_is() {
        let plain = Failure::not_found("/a does not exist");
        assert_eq!(serde_json::to_value(&plain).unwrap().get("at"), None);
        let at = OtherHead { root: "root://b:1094".to_owned(), http: "https://b:8443".to_owned() };
        let failure = Failure::unsupported("another head keeps /a").kept_by(at);
        let text = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&text).unwrap(), failure);
    }
}
