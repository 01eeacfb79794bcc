//! Requests to their bytes (spec/xrootd.md §4).

use super::{FileHandle, RequestHeader, StreamId, Target, VECTOR_ELEMENT_BYTES, request::*};

impl Request {
    /// Header and body. The data of a write follow what this returns.
    #[must_use]
    pub fn encode(&self, stream: StreamId) -> Vec<u8> {
        let mut params = [0; 16];
        let body = self.encode_parts(&mut params);
        let length = match self {
            Self::Write(Write { length, .. }) | Self::Pgwrite(Pgwrite { length, .. }) => *length as i32,
            _ => body.len() as i32,
        };
        let header = RequestHeader { stream, code: self.code().code(), params, length };
        let mut bytes = header.encode().to_vec();
        bytes.extend(body);
        bytes
    }

    /// Fills the parameters and returns the body: the requests that are about the session or the server.
    fn encode_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        match self {
            Self::Protocol(request) => {
                p[..4].copy_from_slice(&request.client_version.to_be_bytes());
                (p[4], p[5]) = (request.flags, request.expect);
            }
            Self::Login(request) => {
                p[..4].copy_from_slice(&request.pid.to_be_bytes());
                let name = cut(&request.username, LOGIN_NAME_BYTES).as_bytes();
                p[4..4 + name.len()].copy_from_slice(name);
                (p[12], p[13], p[14]) = (request.ability2, request.ability, request.capability);
                return request.token.clone().into_bytes();
            }
            Self::Auth(request) => {
                p[12..].copy_from_slice(&request.kind);
                return request.credentials.clone();
            }
            Self::Query(request) => {
                p[..2].copy_from_slice(&request.code.code().to_be_bytes());
                p[4..8].copy_from_slice(&request.handle.0);
                return request.args.clone();
            }
            Self::Prepare(request) => {
                (p[0], p[1], p[5]) = (request.options.0, request.priority, u8::from(request.is_evict));
                p[2..4].copy_from_slice(&request.port.to_be_bytes());
                return request.lines.join("\n").into_bytes();
            }
            Self::Endsess(session) | Self::Bind(session) => *p = *session,
            Self::Sigver(request) => return request.encode_parts(p),
            Self::Set(setting) => {
                p[15] = u8::from(setting.is_of_cache);
                return setting.text.clone().into_bytes();
            }
            Self::Ping => {}
            _ => return self.encode_file_parts(p),
        }
        Vec::new()
    }

    /// The requests that are about a file or directory, except for its data.
    fn encode_file_parts(&self, p: &mut [u8; 16]) -> Vec<u8> {
        match self {
            Self::Open(request) => {
                p[..2].copy_from_slice(&request.mode.to_be_bytes());
                p[2..4].copy_from_slice(&request.flags.0.to_be_bytes());
                p[4..6].copy_from_slice(&request.flags2.to_be_bytes());
                p[12..].copy_from_slice(&request.template.0);
                request.target.to_text().into_bytes()
            }
            Self::Truncate(request) => {
                put_range(p, request.subject.handle(), request.size, 0);
                request.subject.body()
            }
            Self::Stat(request) => {
                p[0] = u8::from(request.is_filesystem);
                p[12..].copy_from_slice(&request.subject.handle().0);
                request.subject.body()
            }
            Self::Statx(targets) => {
                let lines: Vec<_> = targets.iter().map(Target::to_text).collect();
                lines.join("\n").into_bytes()
            }
            Self::Dirlist(request) => {
                p[15] = request.options.0;
                request.target.to_text().into_bytes()
            }
            Self::Mkdir(request) => {
                p[0] = u8::from(request.make_path);
                p[14..].copy_from_slice(&request.mode.to_be_bytes());
                request.target.to_text().into_bytes()
            }
            Self::Rm(target) | Self::Rmdir(target) => target.to_text().into_bytes(),
            Self::Mv(request) => {
                let from = request.from.to_text();
                p[14..].copy_from_slice(&(from.len() as u16).to_be_bytes());
                format!("{from} {}", request.to.to_text()).into_bytes()
            }
            Self::Chmod(request) => {
                p[14..].copy_from_slice(&request.mode.to_be_bytes());
                request.target.to_text().into_bytes()
            }
            Self::Locate(request) => {
                p[..2].copy_from_slice(&request.options.0.to_be_bytes());
                request.target.to_text().into_bytes()
            }
            Self::Fattr(request) => request.encode_parts(p),
            _ => self.encode_data_parts(p),
        }
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

impl Subject {
    fn handle(&self) -> FileHandle {
        if let Self::Handle(handle) = self { *handle } else { FileHandle::default() }
    }

    fn body(&self) -> Vec<u8> {
        if let Self::Path(target) = self { target.to_text().into_bytes() } else { Vec::new() }
    }
}

impl VectorElement {
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

impl Fattr {
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
                (p[4], p[5]) = (u8::from(matches!(self.action, FattrAction::Get(_))), names.len() as u8);
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

/// The first characters of `text` that fit into `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(bytes_max)).rev().find(fits).unwrap_or(0);
    &text[..end]
}

fn put_range(p: &mut [u8; 16], handle: FileHandle, offset: u64, length: u32) {
    p[..4].copy_from_slice(&handle.0);
    p[4..12].copy_from_slice(&offset.to_be_bytes());
    p[12..].copy_from_slice(&length.to_be_bytes());
}
