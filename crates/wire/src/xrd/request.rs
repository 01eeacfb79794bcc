//! Requests, each a struct (spec/xrootd.md §4). Both sides use them: servers parse, clients encode.

use super::{
    DirlistOptions, FileHandle, Malformed, OpenFlags, PrepareOptions, QueryCode, RequestCode, RequestHeader,
    StreamId, Target,
    frame::{text, u16_at, u32_at, u64_at},
};
use base::limits::{READV_ELEMENT_BYTES_MAX, READV_ELEMENTS_MAX};

/// Bytes of one element of a vector read or write.
pub const VECTOR_ELEMENT_BYTES: usize = 16;
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

impl Subject {
    fn parse(handle: FileHandle, body: &[u8]) -> Result<Self, Malformed> {
        if body.is_empty() {
            Ok(Self::Handle(handle))
        } else {
            Target::parse(body).map(Self::Path)
        }
    }

    fn handle(&self) -> FileHandle {
        if let Self::Handle(handle) = self {
            *handle
        } else {
            FileHandle::default()
        }
    }

    fn body(&self) -> Vec<u8> {
        if let Self::Path(target) = self {
            target.to_text().into_bytes()
        } else {
            Vec::new()
        }
    }
}

/// Asks for version and role (§4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protocol {
    /// The client's protocol version.
    pub client_version: u32,
    /// What else is wanted: security requirements 1, able to use TLS 2, wants TLS 4, bind interfaces 8.
    pub flags: u8,
    /// What the client will do next: 1 bind, 3 login, 4 third-party copy.
    pub expect: u8,
}

/// Starts the session (§4.2).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The client's process id.
    pub pid: i32,
    /// The user's name, up to 8 bytes, as the client claims it.
    pub username: String,
    /// Second byte of abilities.
    pub ability2: u8,
    /// What the client can do.
    pub ability: u8,
    /// Version of the client and whether it takes asynchronous answers (128).
    pub capability: u8,
    /// Token or hints, as sent; may be a secret.
    pub token: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// Credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// Protocol of the credentials, such as `ztn\0`.
    pub kind: [u8; 4],
    /// The credentials; a secret.
    pub credentials: Vec<u8>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Opens a file (§4.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// Permission bits of a new file.
    pub mode: u16,
    /// How to open.
    pub flags: OpenFlags,
    /// Further flags.
    pub flags2: u16,
    /// Handle whose file system the new file should share.
    pub template: FileHandle,
    /// Which file.
    pub target: Target,
}

/// Reads a range (§4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u32,
    /// Stream to answer on.
    pub path_id: u8,
}

/// Reads a range with page checksums (§6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgread {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u32,
    /// Stream to answer on.
    pub path_id: u8,
    /// Asked again because a checksum did not match.
    pub is_retry: bool,
}

/// One element of a vector read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorElement {
    /// Which file.
    pub handle: FileHandle,
    /// Bytes.
    pub length: u32,
    /// First byte.
    pub offset: u64,
}

impl VectorElement {
    /// Parses the 16 bytes of an element.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() != VECTOR_ELEMENT_BYTES {
            return Err(Malformed::Length {
                what: "vector element",
                bytes: bytes.len() as u64,
            });
        }
        let length = length(bytes, 4, "vector element length")?;
        Ok(Self {
            handle: handle(bytes, 0),
            length,
            offset: offset(bytes, 8)?,
        })
    }

    /// The 16 bytes of the element.
    #[must_use]
    pub fn encode(&self) -> [u8; VECTOR_ELEMENT_BYTES] {
        let mut bytes = [0; VECTOR_ELEMENT_BYTES];
        bytes[..4].copy_from_slice(&self.handle.0);
        bytes[4..8].copy_from_slice(&self.length.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }
}

/// Reads many ranges (§4.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readv {
    /// The ranges.
    pub elements: Vec<VectorElement>,
    /// Stream to answer on.
    pub path_id: u8,
}

/// Writes a range; the data follow the header and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Stream that carries the data.
    pub path_id: u8,
    /// Bytes that follow.
    pub length: u32,
}

/// Writes pages (§6.2); pages and checksums follow the header and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgwrite {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Stream that carries the data.
    pub path_id: u8,
    /// Corrects a page that was reported bad.
    pub is_retry: bool,
    /// Bytes that follow, with checksums.
    pub length: u32,
}

/// Writes many ranges; the data follow the body and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writev {
    /// Flush afterwards.
    pub is_sync: bool,
    /// The ranges.
    pub elements: Vec<VectorElement>,
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
#[expect(
    missing_docs,
    reason = "each variant has the doc of its struct or of its request code"
)]
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
    Set(String),
    Endsess([u8; 16]),
    Bind([u8; 16]),
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
        matches!(
            self.request_code(),
            Some(RequestCode::Write | RequestCode::Pgwrite)
        )
    }
}

impl Request {
    /// Parses the arguments. `body` is the whole body, or empty for a [`RequestHeader::is_data_body`].
    pub fn parse(header: &RequestHeader, body: &[u8]) -> Result<Self, Malformed> {
        let p = &header.params;
        let code = header
            .request_code()
            .ok_or(Malformed::UnknownRequest(header.code))?;
        Ok(match code {
            RequestCode::Protocol => Self::Protocol(Protocol {
                client_version: u32_at(p, 0),
                flags: p[4],
                expect: p[5],
            }),
            RequestCode::Login => Self::Login(Login {
                pid: u32_at(p, 0) as i32,
                username: String::from_utf8_lossy(p[4..12].split(|b| *b == 0).next().unwrap_or(&[]))
                    .into_owned(),
                ability2: p[12],
                ability: p[13],
                capability: p[14],
                token: text(body, "login token")?.to_owned(),
            }),
            RequestCode::Auth => Self::Auth(Auth {
                kind: [p[12], p[13], p[14], p[15]],
                credentials: body.to_vec(),
            }),
            RequestCode::Open => Self::Open(Open {
                mode: u16_at(p, 0),
                flags: OpenFlags(u16_at(p, 2)),
                flags2: u16_at(p, 4),
                template: handle(p, 12),
                target: Target::parse(body)?,
            }),
            RequestCode::Read
            | RequestCode::Readv
            | RequestCode::Pgread
            | RequestCode::Write
            | RequestCode::Pgwrite
            | RequestCode::Writev => Self::parse_data(code, header, body)?,
            RequestCode::Close => Self::Close(handle(p, 0)),
            RequestCode::Sync => Self::Sync(handle(p, 0)),
            RequestCode::Truncate => Self::Truncate(Truncate {
                subject: Subject::parse(handle(p, 0), body)?,
                size: offset(p, 4)?,
            }),
            RequestCode::Stat => Self::Stat(Stat {
                subject: Subject::parse(handle(p, 12), body)?,
                is_filesystem: p[0] & 1 != 0,
            }),
            RequestCode::Statx => Self::Statx(
                lines(body, "statx paths")?
                    .iter()
                    .map(|line| Target::from_text(line))
                    .collect(),
            ),
            RequestCode::Dirlist => Self::Dirlist(Dirlist {
                options: DirlistOptions(p[15]),
                target: Target::parse(body)?,
            }),
            RequestCode::Query => Self::Query(Query {
                code: query_code(u16_at(p, 0))?,
                handle: handle(p, 4),
                args: body.to_vec(),
            }),
            RequestCode::Mkdir => Self::Mkdir(Mkdir {
                make_path: p[0] & 1 != 0,
                mode: u16_at(p, 14),
                target: Target::parse(body)?,
            }),
            RequestCode::Rm => Self::Rm(Target::parse(body)?),
            RequestCode::Rmdir => Self::Rmdir(Target::parse(body)?),
            RequestCode::Mv => Self::Mv(Mv::parse(usize::from(u16_at(p, 14)), body)?),
            RequestCode::Chmod => Self::Chmod(Chmod {
                mode: u16_at(p, 14),
                target: Target::parse(body)?,
            }),
            RequestCode::Locate => Self::Locate(Locate {
                options: OpenFlags(u16_at(p, 0)),
                target: Target::parse(body)?,
            }),
            RequestCode::Prepare => Self::Prepare(Prepare {
                options: PrepareOptions(p[0]),
                is_evict: u16_at(p, 4) & 1 != 0,
                priority: p[1],
                port: u16_at(p, 2),
                lines: lines(body, "prepare paths")?,
            }),
            RequestCode::Fattr => Self::Fattr(Fattr::parse(p, body)?),
            RequestCode::Ping => Self::Ping,
            RequestCode::Set => Self::Set(text(body, "set argument")?.to_owned()),
            RequestCode::Endsess => Self::Endsess(*p),
            RequestCode::Bind => Self::Bind(*p),
            RequestCode::Chkpoint | RequestCode::Sigver | RequestCode::Clone => {
                return Err(Malformed::UnknownRequest(header.code));
            }
        })
    }

    /// The requests that move file data.
    fn parse_data(code: RequestCode, header: &RequestHeader, body: &[u8]) -> Result<Self, Malformed> {
        let p = &header.params;
        let path_id = body.first().copied().unwrap_or(0);
        Ok(match code {
            RequestCode::Read => Self::Read(Read {
                handle: handle(p, 0),
                offset: offset(p, 4)?,
                length: length(p, 12, "read length")?,
                path_id,
            }),
            RequestCode::Pgread => Self::Pgread(Pgread {
                handle: handle(p, 0),
                offset: offset(p, 4)?,
                length: length(p, 12, "pgread length")?,
                path_id,
                is_retry: body.get(1).is_some_and(|flags| flags & 1 != 0),
            }),
            RequestCode::Write => Self::Write(Write {
                handle: handle(p, 0),
                offset: offset(p, 4)?,
                path_id: p[12],
                length: header.body_bytes()? as u32,
            }),
            RequestCode::Pgwrite => Self::Pgwrite(Pgwrite {
                handle: handle(p, 0),
                offset: offset(p, 4)?,
                path_id: p[12],
                is_retry: p[13] & 1 != 0,
                length: header.body_bytes()? as u32,
            }),
            RequestCode::Readv => Self::Readv(Readv {
                elements: elements(body)?,
                path_id: p[15],
            }),
            _ => Self::Writev(Writev {
                is_sync: p[0] & 1 != 0,
                elements: elements(body)?,
            }),
        })
    }

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
        }
    }

    /// Header and body. The data of a write follow what this returns.
    #[must_use]
    pub fn encode(&self, stream: StreamId) -> Vec<u8> {
        let mut params = [0; 16];
        let body = self.encode_parts(&mut params);
        let length = match self {
            Self::Write(Write { length, .. }) | Self::Pgwrite(Pgwrite { length, .. }) => *length as i32,
            _ => body.len() as i32,
        };
        let header = RequestHeader {
            stream,
            code: self.code().code(),
            params,
            length,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend(body);
        bytes
    }

    /// Fills the parameters and returns the body.
    fn encode_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        match self {
            Self::Protocol(request) => {
                p[..4].copy_from_slice(&request.client_version.to_be_bytes());
                (p[4], p[5]) = (request.flags, request.expect);
            }
            Self::Login(request) => {
                p[..4].copy_from_slice(&request.pid.to_be_bytes());
                let name = request.username.as_bytes();
                let name = &name[..name.len().min(8)];
                p[4..4 + name.len()].copy_from_slice(name);
                (p[12], p[13], p[14]) = (request.ability2, request.ability, request.capability);
                return request.token.clone().into_bytes();
            }
            Self::Auth(request) => {
                p[12..].copy_from_slice(&request.kind);
                return request.credentials.clone();
            }
            Self::Open(request) => {
                p[..2].copy_from_slice(&request.mode.to_be_bytes());
                p[2..4].copy_from_slice(&request.flags.0.to_be_bytes());
                p[4..6].copy_from_slice(&request.flags2.to_be_bytes());
                p[12..].copy_from_slice(&request.template.0);
                return request.target.to_text().into_bytes();
            }
            Self::Truncate(request) => {
                put_range(p, request.subject.handle(), request.size, 0);
                return request.subject.body();
            }
            Self::Stat(request) => {
                p[0] = u8::from(request.is_filesystem);
                p[12..].copy_from_slice(&request.subject.handle().0);
                return request.subject.body();
            }
            Self::Statx(targets) => {
                let lines: Vec<_> = targets.iter().map(Target::to_text).collect();
                return lines.join("\n").into_bytes();
            }
            Self::Dirlist(request) => {
                p[15] = request.options.0;
                return request.target.to_text().into_bytes();
            }
            Self::Query(request) => {
                p[..2].copy_from_slice(&request.code.code().to_be_bytes());
                p[4..8].copy_from_slice(&request.handle.0);
                return request.args.clone();
            }
            Self::Mkdir(request) => {
                p[0] = u8::from(request.make_path);
                p[14..].copy_from_slice(&request.mode.to_be_bytes());
                return request.target.to_text().into_bytes();
            }
            Self::Rm(target) | Self::Rmdir(target) => return target.to_text().into_bytes(),
            Self::Mv(request) => {
                let from = request.from.to_text();
                p[14..].copy_from_slice(&(from.len() as u16).to_be_bytes());
                return format!("{from} {}", request.to.to_text()).into_bytes();
            }
            Self::Chmod(request) => {
                p[14..].copy_from_slice(&request.mode.to_be_bytes());
                return request.target.to_text().into_bytes();
            }
            Self::Locate(request) => {
                p[..2].copy_from_slice(&request.options.0.to_be_bytes());
                return request.target.to_text().into_bytes();
            }
            Self::Prepare(request) => {
                (p[0], p[1], p[5]) = (request.options.0, request.priority, u8::from(request.is_evict));
                p[2..4].copy_from_slice(&request.port.to_be_bytes());
                return request.lines.join("\n").into_bytes();
            }
            Self::Fattr(request) => return request.encode_parts(p),
            Self::Endsess(session) | Self::Bind(session) => *p = *session,
            Self::Set(text) => return text.clone().into_bytes(),
            Self::Ping => {}
            _ => return self.encode_data_parts(p),
        }
        Vec::new()
    }

    /// The requests that move file data.
    fn encode_data_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        match self {
            Self::Read(request) => {
                put_range(p, request.handle, request.offset, request.length);
                if request.path_id != 0 {
                    return vec![request.path_id, 0, 0, 0, 0, 0, 0, 0];
                }
            }
            Self::Pgread(request) => {
                put_range(p, request.handle, request.offset, request.length);
                if request.path_id != 0 || request.is_retry {
                    return vec![request.path_id, u8::from(request.is_retry)];
                }
            }
            Self::Write(request) => {
                put_range(p, request.handle, request.offset, 0);
                p[12] = request.path_id;
            }
            Self::Pgwrite(request) => {
                put_range(p, request.handle, request.offset, 0);
                (p[12], p[13]) = (request.path_id, u8::from(request.is_retry));
            }
            Self::Readv(Readv { elements, path_id }) => {
                p[15] = *path_id;
                return elements.iter().flat_map(VectorElement::encode).collect();
            }
            Self::Writev(Writev { elements, is_sync }) => {
                p[0] = u8::from(*is_sync);
                return elements.iter().flat_map(VectorElement::encode).collect();
            }
            Self::Close(handle) | Self::Sync(handle) => p[..4].copy_from_slice(&handle.0),
            _ => {}
        }
        Vec::new()
    }
}

impl Mv {
    /// Old and new name are separated by a space; the length of the old one may be given (0: it has no space).
    fn parse(from_bytes: usize, body: &[u8]) -> Result<Self, Malformed> {
        let body = text(body, "mv paths")?;
        let split = if from_bytes == 0 {
            body.find(' ')
        } else {
            Some(from_bytes)
        };
        let at = split
            .filter(|at| body.as_bytes().get(*at) == Some(&b' '))
            .ok_or(Malformed::Missing("new name"))?;
        Ok(Self {
            from: Target::parse(&body.as_bytes()[..at])?,
            to: Target::parse(&body.as_bytes()[at + 1..])?,
        })
    }
}

impl Fattr {
    fn parse(p: &[u8; 16], body: &[u8]) -> Result<Self, Malformed> {
        let end = body.iter().position(|b| *b == 0).unwrap_or(body.len());
        let (path, rest) = (&body[..end], body.get(end + 1..).unwrap_or(&[]));
        let subject = Subject::parse(handle(p, 0), path)?;
        let count = usize::from(p[5]);
        if count > FATTR_NAMES_MAX {
            return Err(Malformed::TooLong {
                what: "attribute count",
                count: count as u64,
                max: FATTR_NAMES_MAX as u64,
            });
        }
        let (names, values) = fattr_names(count, rest)?;
        let action = match p[4] {
            0 => FattrAction::Remove(names),
            1 => FattrAction::Get(names),
            2 => FattrAction::List {
                with_values: p[6] & 0x10 != 0,
            },
            3 => FattrAction::Set {
                is_new: p[6] & 1 != 0,
                pairs: fattr_values(names, values)?,
            },
            other => {
                return Err(Malformed::UnknownCode {
                    what: "attribute action",
                    value: u32::from(other),
                });
            }
        };
        Ok(Self { subject, action })
    }

    fn encode_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        p[..4].copy_from_slice(&self.subject.handle().0);
        let mut body = self.subject.body();
        body.push(0);
        let name = |body: &mut Vec<u8>, name: &str| {
            body.extend([0, 0]);
            body.extend(name.as_bytes());
            body.push(0);
        };
        match &self.action {
            FattrAction::Remove(names) | FattrAction::Get(names) => {
                (p[4], p[5]) = (
                    u8::from(matches!(self.action, FattrAction::Get(_))),
                    names.len() as u8,
                );
                for text in names {
                    name(&mut body, text);
                }
            }
            FattrAction::List { with_values } => (p[4], p[6]) = (2, if *with_values { 0x10 } else { 0 }),
            FattrAction::Set { is_new, pairs } => {
                (p[4], p[5], p[6]) = (3, pairs.len() as u8, u8::from(*is_new));
                for (text, _) in pairs {
                    name(&mut body, text);
                }
                for (_, value) in pairs {
                    body.extend((value.len() as u32).to_be_bytes());
                    body.extend(value);
                }
            }
        }
        body
    }
}

/// `count` times: two bytes that are 0, the name, NUL. Returns the names and what follows them.
fn fattr_names(count: usize, mut rest: &[u8]) -> Result<(Vec<String>, &[u8]), Malformed> {
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let after = rest.get(2..).ok_or(Malformed::Missing("attribute name"))?;
        let end = after
            .iter()
            .position(|b| *b == 0)
            .ok_or(Malformed::Missing("end of attribute name"))?;
        if end == 0 {
            return Err(Malformed::Missing("attribute name"));
        }
        names.push(text(&after[..end], "attribute name")?.to_owned());
        rest = &after[end + 1..];
    }
    Ok((names, rest))
}

/// For each name: length in four bytes, value.
fn fattr_values(names: Vec<String>, mut rest: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Malformed> {
    let mut pairs = Vec::with_capacity(names.len());
    for name in names {
        if rest.len() < 4 {
            return Err(Malformed::Missing("attribute value"));
        }
        let bytes = length(rest, 0, "attribute value length")? as usize;
        let value = rest
            .get(4..4 + bytes)
            .ok_or(Malformed::Missing("attribute value"))?;
        pairs.push((name, value.to_vec()));
        rest = &rest[4 + bytes..];
    }
    Ok(pairs)
}

fn put_range(p: &mut [u8; 16], handle: FileHandle, offset: u64, length: u32) {
    p[..4].copy_from_slice(&handle.0);
    p[4..12].copy_from_slice(&offset.to_be_bytes());
    p[12..].copy_from_slice(&length.to_be_bytes());
}

fn handle(bytes: &[u8], at: usize) -> FileHandle {
    FileHandle([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A length in four bytes that must not be negative.
fn length(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, Malformed> {
    let value = u32_at(bytes, at) as i32;
    u32::try_from(value).map_err(|_| Malformed::Negative {
        what,
        value: i64::from(value),
    })
}

/// An offset in eight bytes that must not be negative.
fn offset(bytes: &[u8], at: usize) -> Result<u64, Malformed> {
    let value = u64_at(bytes, at) as i64;
    u64::try_from(value).map_err(|_| Malformed::Negative {
        what: "offset",
        value,
    })
}

fn query_code(code: u16) -> Result<QueryCode, Malformed> {
    QueryCode::from_code(code).ok_or(Malformed::UnknownCode {
        what: "query code",
        value: u32::from(code),
    })
}

/// Non-empty lines.
fn lines(body: &[u8], what: &'static str) -> Result<Vec<String>, Malformed> {
    let lines: Vec<_> = text(body, what)?
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    match lines.len() {
        0 => Err(Malformed::Missing(what)),
        count if count > PATHS_MAX => Err(Malformed::TooLong {
            what,
            count: count as u64,
            max: PATHS_MAX as u64,
        }),
        _ => Ok(lines),
    }
}

/// The elements of a vector request, each within the announced limits.
fn elements(body: &[u8]) -> Result<Vec<VectorElement>, Malformed> {
    if body.is_empty() || !body.len().is_multiple_of(VECTOR_ELEMENT_BYTES) {
        return Err(Malformed::Length {
            what: "vector",
            bytes: body.len() as u64,
        });
    }
    let count = body.len() / VECTOR_ELEMENT_BYTES;
    if count > READV_ELEMENTS_MAX {
        return Err(Malformed::TooLong {
            what: "vector",
            count: count as u64,
            max: READV_ELEMENTS_MAX as u64,
        });
    }
    let elements = body
        .chunks_exact(VECTOR_ELEMENT_BYTES)
        .map(VectorElement::parse)
        .collect::<Result<Vec<_>, _>>()?;
    match elements
        .iter()
        .find(|element| element.length as usize > READV_ELEMENT_BYTES_MAX)
    {
        Some(element) => Err(Malformed::TooLong {
            what: "vector element",
            count: u64::from(element.length),
            max: READV_ELEMENT_BYTES_MAX as u64,
        }),
        None => Ok(elements),
    }
}
