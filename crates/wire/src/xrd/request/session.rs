//! Requests that open a session.

use crate::xrd::{Expect, ProtocolFlags};

/// Asks for version and role (§4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protocol {
    /// The client's protocol version.
    pub client_version: u32,
    /// What else is wanted, see [`ProtocolFlags`].
    pub flags: u8,
    /// What the client will do next, see [`Expect`].
    pub expect: u8,
}

impl Protocol {
    /// Whether the client can go on with TLS.
    #[must_use]
    pub fn is_able_tls(&self) -> bool {
        ProtocolFlags(self.flags).intersects(ProtocolFlags::ABLE_TLS | ProtocolFlags::WANT_TLS)
    }

    /// Whether it asks for that.
    #[must_use]
    pub fn wants_tls(&self) -> bool {
        ProtocolFlags(self.flags).contains(ProtocolFlags::WANT_TLS)
    }

    /// What it will do next; what is not known is nothing.
    #[must_use]
    pub fn expects(&self) -> Expect {
        Expect::from_code(self.expect & 0x0f).unwrap_or(Expect::Nothing)
    }
}

/// Bytes that a login has for the name of the user; longer names arrive cut.
pub const LOGIN_NAME_BYTES: usize = 8;

/// Key in the opaque part of a login by which our own clients send the whole name of the user.
pub const LOGIN_USER: &str = "bp.user";

/// Starts the session (§4.2).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The client's process id.
    pub pid: i32,
    /// The user's name as the client claims it; the first [`LOGIN_NAME_BYTES`] are sent.
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
        f.debug_struct("Auth").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Tells the server something about the client, or what to do with its cache (§4.11).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// Whether it is for the cache.
    pub is_of_cache: bool,
    /// What to set: a word and its value.
    pub text: String,
}
