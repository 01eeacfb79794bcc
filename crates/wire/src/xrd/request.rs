//! Requests, each a struct (spec/xrootd.md §4). Both sides use them: servers parse, clients encode.

mod data;
mod session;

use super::{
    DirlistOptions, FileHandle, Malformed, OpenFlags, PrepareOptions, QueryCode, RequestCode, RequestHeader,
    Sigver, Target, frame::text,
};
pub use data::{Pgread, Pgwrite, Read, Readv, VECTOR_ELEMENT_BYTES, VectorElement, Write, Writev};
pub use session::{Auth, LOGIN_NAME_BYTES, LOGIN_USER, Login, Protocol, Setting};

/// Attributes in one request.
pub const FATTR_NAMES_MAX: usize = 16;
/// Paths in one prepare or statx.
pub const PATHS_MAX: usize = 4096;

/// What a request is about: a path or an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A path.
    Path(Target),
    /// An open file.
    Handle(FileHandle),
}

/// Opens a file (§4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Permission bits of a new file.
    pub mode: u16,
    /// How to open.
    pub flags: OpenFlags,
    /// Further flags, see [`crate::xrd::OpenFlags2`].
    pub flags2: u16,
    /// Handle whose file system the new file should share.
    pub template: FileHandle,
    /// Which file.
    pub target: Target,
}

/// Sets the size of a path or an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate {
    /// Of what.
    pub subject: Subject,
    /// The new size in bytes.
    pub size: u64,
}

/// Attributes of a path or an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Of what.
    pub subject: Subject,
    /// About the storage rather than the file.
    pub is_filesystem: bool,
}

/// Lists a directory (§4.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirlist {
    /// How.
    pub options: DirlistOptions,
    /// Which.
    pub target: Target,
}

/// A query (§4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What is asked.
    pub code: QueryCode,
    /// About which open file, if it is about one.
    pub handle: FileHandle,
    /// Arguments as sent.
    pub args: Vec<u8>,
}

impl Query {
    /// The arguments as text; one trailing NUL is allowed.
    pub fn text(&self) -> Result<&str, Malformed> {
        text(&self.args, "query arguments")
    }
}

/// Makes a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mkdir {
    /// Make missing parents; then an existing directory is no error.
    pub make_path: bool,
    /// Permission bits.
    pub mode: u16,
    /// Which.
    pub target: Target,
}

/// Renames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mv {
    /// The old name.
    pub from: Target,
    /// The new name.
    pub to: Target,
}

/// Changes permission bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chmod {
    /// Permission bits.
    pub mode: u16,
    /// Of what.
    pub target: Target,
}

/// Asks where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locate {
    /// How.
    pub options: OpenFlags,
    /// Which; a leading `*` asks for every server.
    pub target: Target,
}

/// Stages, evicts or cancels (§4.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// What to do.
    pub options: PrepareOptions,
    /// Drop the replica: the second field of options has bit 1.
    pub is_evict: bool,
    /// 0 to 3, higher is more urgent.
    pub priority: u8,
    /// Where to tell.
    pub port: u16,
    /// Paths, or for a cancel the request id and perhaps paths: one a line.
    pub lines: Vec<String>,
}

/// User attributes of a file (§4.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fattr {
    /// Of what.
    pub subject: Subject,
    /// What to do.
    pub action: FattrAction,
}

/// What to do with attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FattrAction {
    /// Remove these.
    Remove(Vec<String>),
    /// Return these.
    Get(Vec<String>),
    /// Name all, perhaps with values.
    List {
        /// With values.
        with_values: bool,
    },
    /// Set these.
    Set {
        /// They must not exist.
        is_new: bool,
        /// Names and values.
        pairs: Vec<(String, Vec<u8>)>,
    },
}

/// A request with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant has the doc of its struct or of its request code")]
pub enum Request {
    Protocol(Protocol),
    Login(Login),
    Auth(Auth),
    Open(Open),
    Read(Read),
    Readv(Readv),
    Pgread(Pgread),
    Write(Write),
    Pgwrite(Pgwrite),
    Writev(Writev),
    Close(FileHandle),
    Sync(FileHandle),
    Truncate(Truncate),
    Stat(Stat),
    Statx(Vec<Target>),
    Dirlist(Dirlist),
    Query(Query),
    Mkdir(Mkdir),
    Rm(Target),
    Rmdir(Target),
    Mv(Mv),
    Chmod(Chmod),
    Locate(Locate),
    Prepare(Prepare),
    Fattr(Fattr),
    Ping,
    Set(Setting),
    Endsess([u8; 16]),
    Bind([u8; 16]),
    Sigver(Sigver),
}

impl RequestHeader {
    /// What is asked; `None` if the number is not known.
    #[must_use]
    pub fn request_code(&self) -> Option<RequestCode> {
        RequestCode::from_code(self.code)
    }

    /// Whether the body is file data, which is not handed to [`Request::parse`] but streamed.
    #[must_use]
    pub fn is_data_body(&self) -> bool {
        matches!(self.request_code(), Some(RequestCode::Write | RequestCode::Pgwrite))
    }
}

impl Request {
    /// What is asked.
    #[must_use]
    pub fn code(&self) -> RequestCode {
        match self {
            Self::Protocol(_) => RequestCode::Protocol,
            Self::Login(_) => RequestCode::Login,
            Self::Auth(_) => RequestCode::Auth,
            Self::Open(_) => RequestCode::Open,
            Self::Read(_) => RequestCode::Read,
            Self::Readv(_) => RequestCode::Readv,
            Self::Pgread(_) => RequestCode::Pgread,
            Self::Write(_) => RequestCode::Write,
            Self::Pgwrite(_) => RequestCode::Pgwrite,
            Self::Writev(_) => RequestCode::Writev,
            Self::Close(_) => RequestCode::Close,
            Self::Sync(_) => RequestCode::Sync,
            Self::Truncate(_) => RequestCode::Truncate,
            Self::Stat(_) => RequestCode::Stat,
            Self::Statx(_) => RequestCode::Statx,
            Self::Dirlist(_) => RequestCode::Dirlist,
            Self::Query(_) => RequestCode::Query,
            Self::Mkdir(_) => RequestCode::Mkdir,
            Self::Rm(_) => RequestCode::Rm,
            Self::Rmdir(_) => RequestCode::Rmdir,
            Self::Mv(_) => RequestCode::Mv,
            Self::Chmod(_) => RequestCode::Chmod,
            Self::Locate(_) => RequestCode::Locate,
            Self::Prepare(_) => RequestCode::Prepare,
            Self::Fattr(_) => RequestCode::Fattr,
            Self::Ping => RequestCode::Ping,
            Self::Set(_) => RequestCode::Set,
            Self::Endsess(_) => RequestCode::Endsess,
            Self::Bind(_) => RequestCode::Bind,
            Self::Sigver(_) => RequestCode::Sigver,
        }
    }
}
