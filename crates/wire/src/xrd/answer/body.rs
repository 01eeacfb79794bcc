//! What the answers to some requests hold.

use crate::xrd::{
    ErrorCode, FileHandle, Malformed, PROTOCOL_VERSION, ServerFlags, StatInfo,
    frame::{text, u32_at},
};

/// Body of the answer to a protocol request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolAnswer {
    /// The server's protocol version.
    pub version: u32,
    /// What the server is and supports.
    pub flags: ServerFlags,
}

impl ProtocolAnswer {
    /// Our version with `flags`.
    #[must_use]
    pub fn new(flags: ServerFlags) -> Self {
        Self { version: PROTOCOL_VERSION, flags }
    }

    /// The 8 bytes of the body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [self.version.to_be_bytes(), self.flags.0.to_be_bytes()].concat()
    }

    /// Parses a body; what follows the flags is ignored.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        if body.len() < 8 {
            return Err(Malformed::Length { what: "protocol answer", bytes: body.len() as u64 });
        }
        Ok(Self { version: u32_at(body, 0), flags: ServerFlags(u32_at(body, 4)) })
    }
}

/// Body of the answer to a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAnswer {
    /// The server's id of the session.
    pub session: [u8; 16],
    /// Authentication protocols that are wanted; empty if none.
    pub security: String,
}

impl LoginAnswer {
    /// The body.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&self.session, self.security.as_bytes()].concat()
    }

    /// Parses a body.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let Some((session, security)) = body.split_first_chunk() else {
            return Err(Malformed::Length { what: "login answer", bytes: body.len() as u64 });
        };
        Ok(Self { session: *session, security: text(security, "security")?.to_owned() })
    }
}

/// Body of the answer to an open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAnswer {
    /// The server's number of the open file.
    pub handle: FileHandle,
    /// Attributes, if they were asked for.
    pub stat: Option<StatInfo>,
}

impl OpenAnswer {
    /// The body: handle alone, or handle, compression (none) and attributes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.handle.0.to_vec();
        if let Some(stat) = &self.stat {
            body.extend([0; 8]);
            body.extend(stat.to_string().as_bytes());
            body.push(0);
        }
        body
    }

    /// Parses a body.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let Some((handle, rest)) = body.split_first_chunk() else {
            return Err(Malformed::Length { what: "open answer", bytes: body.len() as u64 });
        };
        let stat = match rest.get(8..) {
            Some(stat) if !stat.is_empty() => Some(StatInfo::parse(text(stat, "stat")?)?),
            _ => None,
        };
        Ok(Self { handle: FileHandle(*handle), stat })
    }
}

/// Body of the answer to attribute requests: for each name its error code (0: none) and, for a get, its value.
#[must_use]
pub fn encode_fattr_results(results: &[(String, Result<Vec<u8>, ErrorCode>)], with_values: bool) -> Vec<u8> {
    let errors = results.iter().filter(|result| result.1.is_err()).count();
    let mut body = vec![errors as u8, results.len() as u8];
    for (name, result) in results {
        let code = result.as_ref().err().map_or(0, |code| code.code());
        body.extend((code as u16).to_be_bytes());
        body.extend(name.as_bytes());
        body.push(0);
    }
    if with_values {
        for (_, result) in results {
            let value = result.as_deref().unwrap_or(&[]);
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value);
        }
    }
    body
}

/// Body of the answer to listing attributes, with or without values.
#[must_use]
pub fn encode_fattr_list(pairs: &[(String, Vec<u8>)], with_values: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in pairs {
        body.extend(name.as_bytes());
        body.push(0);
        if with_values {
            body.extend((value.len() as u32).to_be_bytes());
            body.extend(value);
        }
    }
    body
}
