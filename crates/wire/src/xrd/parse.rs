//! Requests from their bytes (spec/xrootd.md §4).

use super::{
    DirlistOptions, FATTR_NAMES_MAX, FileHandle, Malformed, OpenFlags, PATHS_MAX, PrepareOptions, QueryCode,
    RequestCode, RequestHeader, Sigver, Target, VECTOR_ELEMENT_BYTES,
    frame::{text, u16_at, u32_at, u64_at},
    request::*,
};
use base::limits::{READV_ELEMENT_BYTES_MAX, READV_ELEMENTS_MAX};

impl Request {
    /// Parses the arguments. `body` is the whole body, or empty for a [`RequestHeader::is_data_body`].
    pub fn parse(header: &RequestHeader, body: &[u8]) -> Result<Self, Malformed> {
        let p = &header.params;
        let code = header.request_code().ok_or(Malformed::UnknownRequest(header.code))?;
        match code {
            RequestCode::Read
            | RequestCode::Readv
            | RequestCode::Pgread
            | RequestCode::Write
            | RequestCode::Pgwrite
            | RequestCode::Writev => Self::parse_data(code, header, body),
            RequestCode::Protocol
            | RequestCode::Login
            | RequestCode::Auth
            | RequestCode::Query
            | RequestCode::Prepare
            | RequestCode::Ping
            | RequestCode::Set
            | RequestCode::Endsess
            | RequestCode::Sigver
            | RequestCode::Bind => Self::parse_session(code, p, body),
            _ => Self::parse_file(code, p, body),
        }
    }

    /// The requests that are about the session or the server.
    fn parse_session(code: RequestCode, p: &[u8; 16], body: &[u8]) -> Result<Self, Malformed> {
        Ok(match code {
            RequestCode::Protocol => {
                Self::Protocol(Protocol { client_version: u32_at(p, 0), flags: p[4], expect: p[5] })
            }
            RequestCode::Login => Self::Login(Login {
                pid: u32_at(p, 0) as i32,
                username: String::from_utf8_lossy(p[4..12].split(|b| *b == 0).next().unwrap_or(&[]))
                    .into_owned(),
                ability2: p[12],
                ability: p[13],
                capability: p[14],
                token: text(body, "login token")?.to_owned(),
            }),
            RequestCode::Auth => {
                Self::Auth(Auth { kind: [p[12], p[13], p[14], p[15]], credentials: body.to_vec() })
            }
            RequestCode::Query => Self::Query(Query {
                code: query_code(u16_at(p, 0))?,
                handle: handle(p, 4),
                args: body.to_vec(),
            }),
            RequestCode::Prepare => Self::Prepare(Prepare {
                options: PrepareOptions(p[0]),
                is_evict: u16_at(p, 4) & 1 != 0,
                priority: p[1],
                port: u16_at(p, 2),
                lines: lines(body, "prepare paths")?,
            }),
            RequestCode::Set => Self::Set(Setting {
                is_of_cache: p[15] & 1 != 0,
                text: text(body, "set argument")?.to_owned(),
            }),
            RequestCode::Endsess => Self::Endsess(*p),
            RequestCode::Bind => Self::Bind(*p),
            RequestCode::Sigver => Self::Sigver(Sigver::parse(p, body)?),
            _ => Self::Ping,
        })
    }

    /// The requests that are about a file or directory, except for its data.
    fn parse_file(code: RequestCode, p: &[u8; 16], body: &[u8]) -> Result<Self, Malformed> {
        Ok(match code {
            RequestCode::Open => Self::Open(Open {
                mode: u16_at(p, 0),
                flags: OpenFlags(u16_at(p, 2)),
                flags2: u16_at(p, 4),
                template: handle(p, 12),
                target: Target::parse(body)?,
            }),
            RequestCode::Close => Self::Close(handle(p, 0)),
            RequestCode::Sync => Self::Sync(handle(p, 0)),
            RequestCode::Truncate => {
                Self::Truncate(Truncate { subject: Subject::parse(handle(p, 0), body)?, size: offset(p, 4)? })
            }
            RequestCode::Stat => Self::Stat(Stat {
                subject: Subject::parse(handle(p, 12), body)?,
                is_filesystem: p[0] & 1 != 0,
            }),
            RequestCode::Statx => {
                Self::Statx(lines(body, "statx paths")?.iter().map(|line| Target::from_text(line)).collect())
            }
            RequestCode::Dirlist => {
                Self::Dirlist(Dirlist { options: DirlistOptions(p[15]), target: Target::parse(body)? })
            }
            RequestCode::Mkdir => Self::Mkdir(Mkdir {
                make_path: p[0] & 1 != 0,
                mode: u16_at(p, 14),
                target: Target::parse(body)?,
            }),
            RequestCode::Rm => Self::Rm(Target::parse(body)?),
            RequestCode::Rmdir => Self::Rmdir(Target::parse(body)?),
            RequestCode::Mv => Self::Mv(Mv::parse(usize::from(u16_at(p, 14)), body)?),
            RequestCode::Chmod => Self::Chmod(Chmod { mode: u16_at(p, 14), target: Target::parse(body)? }),
            RequestCode::Locate => {
                Self::Locate(Locate { options: OpenFlags(u16_at(p, 0)), target: Target::parse(body)? })
            }
            RequestCode::Fattr => Self::Fattr(Fattr::parse(p, body)?),
            other => return Err(Malformed::UnknownRequest(other.code())),
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
            RequestCode::Readv => Self::Readv(Readv { elements: elements(body)?, path_id: p[15] }),
            _ => Self::Writev(Writev { is_sync: p[0] & 1 != 0, elements: elements(body)? }),
        })
    }
}

impl Subject {
    fn parse(handle: FileHandle, body: &[u8]) -> Result<Self, Malformed> {
        if body.is_empty() { Ok(Self::Handle(handle)) } else { Target::parse(body).map(Self::Path) }
    }
}

impl VectorElement {
    /// Parses the 16 bytes of an element.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() != VECTOR_ELEMENT_BYTES {
            return Err(Malformed::Length { what: "vector element", bytes: bytes.len() as u64 });
        }
        let length = length(bytes, 4, "vector element length")?;
        Ok(Self { handle: handle(bytes, 0), length, offset: offset(bytes, 8)? })
    }
}

impl Mv {
    /// Old and new name are separated by a space; the length of the old one may be given (0: it has no space).
    fn parse(from_bytes: usize, body: &[u8]) -> Result<Self, Malformed> {
        let body = text(body, "mv paths")?;
        let split = if from_bytes == 0 { body.find(' ') } else { Some(from_bytes) };
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
            2 => FattrAction::List { with_values: p[6] & 0x10 != 0 },
            3 => FattrAction::Set { is_new: p[6] & 1 != 0, pairs: fattr_values(names, values)? },
            other => {
                return Err(Malformed::UnknownCode { what: "attribute action", value: u32::from(other) });
            }
        };
        Ok(Self { subject, action })
    }
}

/// `count` times: two bytes that are 0, the name, NUL. Returns the names and what follows them.
fn fattr_names(count: usize, mut rest: &[u8]) -> Result<(Vec<String>, &[u8]), Malformed> {
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let after = rest.get(2..).ok_or(Malformed::Missing("attribute name"))?;
        let end = after.iter().position(|b| *b == 0).ok_or(Malformed::Missing("end of attribute name"))?;
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
        let value = rest.get(4..4 + bytes).ok_or(Malformed::Missing("attribute value"))?;
        pairs.push((name, value.to_vec()));
        rest = &rest[4 + bytes..];
    }
    Ok(pairs)
}

fn handle(bytes: &[u8], at: usize) -> FileHandle {
    FileHandle([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A length in four bytes that must not be negative.
fn length(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, Malformed> {
    let value = u32_at(bytes, at) as i32;
    u32::try_from(value).map_err(|_| Malformed::Negative { what, value: i64::from(value) })
}

/// An offset in eight bytes that must not be negative.
fn offset(bytes: &[u8], at: usize) -> Result<u64, Malformed> {
    let value = u64_at(bytes, at) as i64;
    u64::try_from(value).map_err(|_| Malformed::Negative { what: "offset", value })
}

fn query_code(code: u16) -> Result<QueryCode, Malformed> {
    QueryCode::from_code(code).ok_or(Malformed::UnknownCode { what: "query code", value: u32::from(code) })
}

/// Non-empty lines.
fn lines(body: &[u8], what: &'static str) -> Result<Vec<String>, Malformed> {
    let lines: Vec<_> =
        text(body, what)?.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match lines.len() {
        0 => Err(Malformed::Missing(what)),
        count if count > PATHS_MAX => {
            Err(Malformed::TooLong { what, count: count as u64, max: PATHS_MAX as u64 })
        }
        _ => Ok(lines),
    }
}

/// The elements of a vector request, each within the announced limits.
fn elements(body: &[u8]) -> Result<Vec<VectorElement>, Malformed> {
    if body.is_empty() || !body.len().is_multiple_of(VECTOR_ELEMENT_BYTES) {
        return Err(Malformed::Length { what: "vector", bytes: body.len() as u64 });
    }
    let count = body.len() / VECTOR_ELEMENT_BYTES;
    if count > READV_ELEMENTS_MAX {
        return Err(Malformed::TooLong {
            what: "vector",
            count: count as u64,
            max: READV_ELEMENTS_MAX as u64,
        });
    }
    let elements =
        body.chunks_exact(VECTOR_ELEMENT_BYTES).map(VectorElement::parse).collect::<Result<Vec<_>, _>>()?;
    match elements.iter().find(|element| element.length as usize > READV_ELEMENT_BYTES_MAX) {
        Some(element) => Err(Malformed::TooLong {
            what: "vector element",
            count: u64::from(element.length),
            max: READV_ELEMENT_BYTES_MAX as u64,
        }),
        None => Ok(elements),
    }
}
