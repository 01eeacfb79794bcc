//! Answers and their bodies (spec/xrootd.md §5). Servers encode, clients parse.

mod body;
mod status;

use super::{
    AnswerCode, AnswerHeader, AttnCode, ErrorCode, Malformed, StreamId,
    frame::{ANSWER_HEADER_BYTES, text, u32_at},
};
use base::{Failure, OtherHead};
pub use body::{LoginAnswer, OpenAnswer, ProtocolAnswer, encode_fattr_list, encode_fattr_results};
pub use status::{STATUS_BYTES, Status, StatusKind};

/// Longest message of an error or redirect that is sent or believed.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Ask another server.
#[derive(Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Host name or address; IPv6 in brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// To append to the opaque part of the URL; may hold a capability.
    pub opaque: String,
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redirect").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

/// An answer other than a plain piece of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The final or only answer.
    Ok(Vec<u8>),
    /// A part; more follow.
    OkSoFar(Vec<u8>),
    /// Credentials are wanted.
    AuthMore(Vec<u8>),
    /// Refused.
    Error {
        /// Why, as a number: it may be unknown.
        code: u32,
        /// Why, for people.
        message: String,
    },
    /// Ask another server.
    Redirect(Redirect),
    /// Ask again later.
    Wait {
        /// In how many seconds.
        seconds: u32,
        /// Why, for people.
        message: String,
    },
    /// The answer comes by itself.
    WaitResp {
        /// Within how many seconds.
        seconds: u32,
    },
    /// A message for people, unsolicited.
    Message(String),
    /// The announced answer to `stream`.
    Later {
        /// The request that is answered.
        stream: StreamId,
        /// The answer; never another `Later`.
        answer: Box<Answer>,
    },
    /// Front of a page read or write answer; `data_bytes` bytes of data follow.
    Status(Status),
}

impl Answer {
    /// The answer that tells a failure, or who is to be asked instead.
    #[must_use]
    pub fn failure(failure: &Failure) -> Self {
        if let Some((host, port)) = failure.at.as_deref().and_then(OtherHead::root_host) {
            return Self::Redirect(Redirect { host: host.to_owned(), port, opaque: String::new() });
        }
        let message = match &failure.hint {
            Some(hint) => format!("{}; hint: {hint}", failure.what),
            None => failure.what.clone(),
        };
        Self::Error { code: ErrorCode::of(failure.kind).code(), message }
    }

    /// An error with a code of its own.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error { code: code.code(), message: message.into() }
    }

    /// What the caller of a refused request gets; `None` if this is not an error.
    #[must_use]
    pub fn to_failure(&self) -> Option<Failure> {
        let Self::Error { code, message } = self else {
            return None;
        };
        let kind = ErrorCode::from_code(*code).map_or(base::ErrorKind::Internal, ErrorCode::kind);
        Some(match message.split_once("; hint: ") {
            Some((what, hint)) => Failure::new(kind, what).hint(hint),
            None => Failure::new(kind, message),
        })
    }

    /// Header and body as the answer to `stream`.
    #[must_use]
    pub fn encode(&self, stream: StreamId) -> Vec<u8> {
        let mut bytes = vec![0; ANSWER_HEADER_BYTES];
        let mut header_stream = stream;
        let code = match self {
            Self::Ok(body) => put(&mut bytes, body, AnswerCode::Ok),
            Self::OkSoFar(body) => put(&mut bytes, body, AnswerCode::OkSoFar),
            Self::AuthMore(body) => put(&mut bytes, body, AnswerCode::AuthMore),
            Self::Error { code, message } => {
                bytes.extend(code.to_be_bytes());
                bytes.extend(shortened(message).as_bytes());
                put(&mut bytes, &[0], AnswerCode::Error)
            }
            Self::Redirect(Redirect { host, port, opaque }) => {
                bytes.extend(u32::from(*port).to_be_bytes());
                let opaque = if opaque.is_empty() { String::new() } else { format!("?{opaque}") };
                put(&mut bytes, format!("{host}{opaque}").as_bytes(), AnswerCode::Redirect)
            }
            Self::Wait { seconds, message } => {
                bytes.extend(seconds.to_be_bytes());
                bytes.extend(shortened(message).as_bytes());
                put(&mut bytes, &[0], AnswerCode::Wait)
            }
            Self::WaitResp { seconds } => put(&mut bytes, &seconds.to_be_bytes(), AnswerCode::WaitResp),
            Self::Message(message) => {
                bytes.extend(AttnCode::Message.code().to_be_bytes());
                header_stream = StreamId::default();
                put(&mut bytes, shortened(message).as_bytes(), AnswerCode::Attn)
            }
            Self::Later { stream, answer } => {
                bytes.extend(AttnCode::Response.code().to_be_bytes());
                bytes.extend([0; 4]);
                header_stream = StreamId::default();
                put(&mut bytes, &answer.encode(*stream), AnswerCode::Attn)
            }
            Self::Status(status) => {
                return Status { stream, ..*status }.encode().to_vec();
            }
        };
        let length = (bytes.len() - ANSWER_HEADER_BYTES) as u32;
        let header = AnswerHeader { stream: header_stream, code, length };
        bytes[..ANSWER_HEADER_BYTES].copy_from_slice(&header.encode());
        bytes
    }

    /// Parses the body that follows `header`.
    pub fn parse(header: &AnswerHeader, body: &[u8]) -> Result<Self, Malformed> {
        Ok(match header.code {
            AnswerCode::Ok => Self::Ok(body.to_vec()),
            AnswerCode::OkSoFar => Self::OkSoFar(body.to_vec()),
            AnswerCode::AuthMore => Self::AuthMore(body.to_vec()),
            AnswerCode::Error => {
                Self::Error { code: first(body, "error code")?, message: message(&body[4..]) }
            }
            AnswerCode::Redirect => Self::Redirect(Redirect::parse(body)?),
            AnswerCode::Wait => {
                Self::Wait { seconds: first(body, "wait time")?, message: message(&body[4..]) }
            }
            AnswerCode::WaitResp => Self::WaitResp { seconds: first(body, "wait time")? },
            AnswerCode::Status => Self::Status(Status::parse(body)?),
            AnswerCode::Attn => Self::parse_attn(body)?,
        })
    }

    fn parse_attn(body: &[u8]) -> Result<Self, Malformed> {
        let code = first(body, "attention code")?;
        match AttnCode::from_code(code) {
            Some(AttnCode::Message) => Ok(Self::Message(message(&body[4..]))),
            Some(AttnCode::Response) => {
                let inner = body.get(8..).unwrap_or(&[]);
                let Some((header, rest)) = inner.split_first_chunk() else {
                    return Err(Malformed::Length { what: "later answer", bytes: body.len() as u64 });
                };
                let header = AnswerHeader::parse(header)?;
                if header.code == AnswerCode::Attn || rest.len() != header.length as usize {
                    return Err(Malformed::Length { what: "later answer", bytes: rest.len() as u64 });
                }
                Ok(Self::Later { stream: header.stream, answer: Box::new(Self::parse(&header, rest)?) })
            }
            None => Err(Malformed::UnknownCode { what: "attention code", value: code }),
        }
    }
}

impl Redirect {
    fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let port = first(body, "redirect port")?;
        let port =
            u16::try_from(port).map_err(|_| Malformed::UnknownCode { what: "redirect port", value: port })?;
        let target = text(&body[4..], "redirect host")?;
        // `host?opaque?token`: both go to the new URL's opaque part.
        let (host, opaque) = target.split_once('?').unwrap_or((target, ""));
        if host.is_empty() || target.len() > MESSAGE_BYTES_MAX {
            return Err(Malformed::Length { what: "redirect host", bytes: target.len() as u64 });
        }
        let opaque = opaque.replace('?', "&").trim_start_matches('&').to_owned();
        Ok(Self { host: host.to_owned(), port, opaque })
    }
}

fn put(bytes: &mut Vec<u8>, body: &[u8], code: AnswerCode) -> AnswerCode {
    bytes.extend_from_slice(body);
    code
}

/// At most [`MESSAGE_BYTES_MAX`] bytes of a message, cut between characters.
fn shortened(message: &str) -> &str {
    let end = (0..=message.len().min(MESSAGE_BYTES_MAX)).rev().find(|at| message.is_char_boundary(*at));
    &message[..end.unwrap_or(0)]
}

/// The number that a body begins with.
fn first(body: &[u8], what: &'static str) -> Result<u32, Malformed> {
    if body.len() < 4 { Err(Malformed::Missing(what)) } else { Ok(u32_at(body, 0)) }
}

/// A message for people up to its NUL; what is not UTF-8 is replaced.
fn message(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()).min(MESSAGE_BYTES_MAX);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
