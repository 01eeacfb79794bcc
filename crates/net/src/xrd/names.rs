//! Requests on names of the namespace, checked, and their replies: one type each, so that a service states in one place who
//! may make a request, how it is logged and what carries it out.

use super::{ListEntry, Location, Opaque, SpaceInfo, StatInfo};
use base::{Failure, FilePath, Result};

/// A part of a listing.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// The entries, at most `base::limits::LIST_ENTRIES_MAX`.
    pub entries: Vec<ListEntry>,
    /// Where the next part starts (the service's own token); `None` at the end.
    pub next: Option<String>,
}

/// The parameters of a prepare request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareAction {
    /// Bring online; answered with a request id.
    Stage {
        /// 0 to 3, higher is more urgent.
        priority: u8,
    },
    /// Drop replicas that are safe elsewhere.
    Evict,
    /// Give up the request with this id (for the paths, or all if there are none).
    Cancel(String),
    /// Only touch.
    Touch,
}

/// A prepare, checked.
#[derive(Debug, Clone)]
pub struct PrepareRequest {
    /// The action.
    pub action: PrepareAction,
    /// The files.
    pub paths: Vec<FilePath>,
}

/// Names and values of the user attributes of a file.
pub type Attributes = Vec<(String, Vec<u8>)>;

/// A request on names, checked. Each variant says which [`NameReply`] answers it.
#[derive(Debug, Clone)]
pub enum NameRequest {
    /// Attributes of a path: [`NameReply::Stat`].
    Stat {
        /// The path.
        path: FilePath,
        /// What came with the path; it may hold a proof.
        opaque: Opaque,
    },
    /// A part of a directory: [`NameReply::Page`], names without `.` and `..`.
    List {
        /// Which directory.
        path: FilePath,
        /// Where the part before said that this one starts; `None`: at the start.
        from: Option<String>,
        /// Whether the attributes of the entries are wanted.
        with_stat: bool,
    },
    /// Makes a directory: [`NameReply::Done`].
    Mkdir {
        /// Which directory.
        path: FilePath,
        /// Its permission bits.
        mode: u32,
        /// Also makes its parents; then an existing one is no error.
        make_path: bool,
    },
    /// Removes a file: [`NameReply::Done`]; a directory is an error.
    Remove {
        /// Which file.
        path: FilePath,
    },
    /// Removes an empty directory: [`NameReply::Done`]; a file is an error.
    Rmdir {
        /// Which directory.
        path: FilePath,
    },
    /// Renames a file or directory: [`NameReply::Done`].
    Rename {
        /// The name now.
        from: FilePath,
        /// The new name.
        to: FilePath,
    },
    /// Sets the size of a file that is not open: [`NameReply::Done`].
    Truncate {
        /// Which file.
        path: FilePath,
        /// Its size in bytes.
        size: u64,
    },
    /// Changes permission bits: [`NameReply::Done`].
    Chmod {
        /// The path.
        path: FilePath,
        /// The bits.
        mode: u32,
    },
    /// The checksum of a file in hex: [`NameReply::Text`].
    Checksum {
        /// The file.
        path: FilePath,
        /// One of [`super::ServerConfig::checksums`].
        kind: String,
    },
    /// Where a file is: [`NameReply::Locations`].
    Locate {
        /// Which file.
        path: FilePath,
        /// The address that the client reached, as `[::127.0.0.1]:1094`.
        local: String,
    },
    /// Stages, evicts or cancels: [`NameReply::Text`], the request id of a stage, else empty.
    Prepare(PrepareRequest),
    /// State of a stage request: [`NameReply::Text`], JSON as tape systems of the field answer it.
    PrepareStatus {
        /// The request id.
        id: String,
        /// Which files.
        paths: Vec<FilePath>,
    },
    /// Space: [`NameReply::Space`].
    Space {
        /// The destination.
        path: FilePath,
    },
    /// Names and values of the user attributes of a file: [`NameReply::Attributes`].
    Attributes {
        /// The file.
        path: FilePath,
    },
    /// Sets or removes a user attribute: [`NameReply::Done`].
    SetAttribute {
        /// The file.
        path: FilePath,
        /// Which attribute.
        name: String,
        /// Its value; `None` removes it.
        value: Option<Vec<u8>>,
        /// It must not exist.
        is_new: bool,
    },
}

impl NameRequest {
    /// The path it is about; of several paths the first.
    pub fn path(&self) -> Option<&FilePath> {
        match self {
            Self::Stat { path, .. }
            | Self::List { path, .. }
            | Self::Mkdir { path, .. }
            | Self::Remove { path }
            | Self::Rmdir { path }
            | Self::Rename { from: path, .. }
            | Self::Truncate { path, .. }
            | Self::Chmod { path, .. }
            | Self::Checksum { path, .. }
            | Self::Locate { path, .. }
            | Self::Space { path }
            | Self::Attributes { path }
            | Self::SetAttribute { path, .. } => Some(path),
            Self::Prepare(PrepareRequest { paths, .. }) | Self::PrepareStatus { paths, .. } => paths.first(),
        }
    }
}

/// The reply to a [`NameRequest`].
#[derive(Debug, Clone)]
pub enum NameReply {
    /// The request succeeded.
    Done,
    /// Attributes of a path.
    Stat(StatInfo),
    /// A part of a directory.
    Page(ListPage),
    /// Text.
    Text(String),
    /// Where a file is.
    Locations(Vec<Location>),
    /// Space.
    Space(SpaceInfo),
    /// User attributes of a file.
    Attributes(Attributes),
}

impl From<()> for NameReply {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl TryFrom<NameReply> for () {
    type Error = Failure;

    fn try_from(reply: NameReply) -> Result<()> {
        if matches!(reply, NameReply::Done) { Ok(()) } else { Err(another()) }
    }
}

/// What a variant holds becomes a reply, and a reply what the session loop expects in it.
macro_rules! holds {
    ($($variant:ident($what:ty))*) => { $(
        impl From<$what> for NameReply {
            fn from(what: $what) -> Self {
                Self::$variant(what)
            }
        }

        impl TryFrom<NameReply> for $what {
            type Error = Failure;

            fn try_from(reply: NameReply) -> Result<Self> {
                if let NameReply::$variant(what) = reply { Ok(what) } else { Err(another()) }
            }
        }
    )* };
}

holds! {
    Stat(StatInfo)
    Page(ListPage)
    Text(String)
    Locations(Vec<Location>)
    Space(SpaceInfo)
    Attributes(Attributes)
}

fn another() -> Failure {
    Failure::internal("the reply to a request on names is of another kind")
}
