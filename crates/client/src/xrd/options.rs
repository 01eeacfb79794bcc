//! How patient and how eager a client is, and by what it proves who it is.

use base::ReachRule;
use std::{fmt, path::PathBuf, time::Duration};

/// Deadlines, retries and parallelism of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long the server may be silent while an answer is due.
    pub progress_timeout: Duration,
    /// How long a server may make us wait altogether, by asking to come again or by announcing the answer.
    pub wait_max: Duration,
    /// How many servers in a row may send us on.
    pub redirects_max: u32,
    /// How often in a row a broken connection is made anew without a byte of progress in between.
    pub retry_max: u32,
    /// User name to claim; servers of others see its first 8 bytes.
    pub username: String,
    /// Bytes of one read or write request.
    pub chunk_bytes: usize,
    /// Bytes of requests whose answers are awaited, for one file.
    pub window_bytes: usize,
    /// Connections that one download is spread over; 0 chooses by size and distance.
    pub streams: u16,
    /// Connections to one server that files being read share.
    pub connections_max: u16,
    /// Whether data travel with a checksum for each page of 4096 bytes, if the server can.
    pub page_checksums: bool,
    /// How TLS is done.
    pub tls: TlsOptions,
    /// The bearer token; without it the usual places are searched (see [`Token::discover`]).
    pub token: Option<Token>,
    /// Which addresses may be connected to, also where a server sends us. Without a limit for whoever asks for themselves; a server
    /// that asks on behalf of a client sets one.
    pub reach: ReachRule,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(60),
            wait_max: Duration::from_secs(24 * 3600),
            redirects_max: 16,
            retry_max: 8,
            username: "bp".to_owned(),
            chunk_bytes: 1 << 20,
            window_bytes: 16 << 20,
            streams: 0,
            connections_max: 4,
            page_checksums: false,
            tls: TlsOptions::default(),
            token: None,
            reach: ReachRule::anywhere(),
        }
    }
}

impl Options {
    /// Bytes of one request: at least one page, at most what one answer may hold.
    pub(super) fn chunk(&self) -> usize {
        self.chunk_bytes.clamp(1, 16 << 20)
    }

    /// Requests of a chunk each that fill the window.
    pub(super) fn window_chunks(&self) -> usize {
        (self.window_bytes / self.chunk()).clamp(1, 256)
    }
}

/// How TLS is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsOptions {
    /// Certificates of the authorities to trust, PEM. Without it: `BP_CA_FILE`, `SSL_CERT_FILE`, `X509_CERT_DIR`, then
    /// those of the system.
    pub ca_file: Option<PathBuf>,
    /// Take any certificate: the connection is encrypted, but to whom is not known.
    pub insecure: bool,
}

/// A bearer token. It never shows itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(String);

impl Token {
    /// Longest token that is believed to be one.
    const BYTES_MAX: usize = 64 << 10;

    /// Takes the token's text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().trim().to_owned())
    }

    /// No token, also where the usual places have one: for work on behalf of somebody else.
    #[must_use]
    pub fn nothing() -> Self {
        Self(String::new())
    }

    /// The token that a URL brings along: `authz=Bearer%20TOKEN`.
    pub(super) fn of(opaque: &wire::xrd::Opaque) -> Option<Self> {
        opaque.get("authz").and_then(wire::auth::token::bearer).map(Self::new)
    }

    /// Whether there is nothing to send.
    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// The token of this user, from the places that the WLCG agreed on: `BEARER_TOKEN`, the file `BEARER_TOKEN_FILE`,
    /// `$XDG_RUNTIME_DIR/bt_u<uid>`, `/tmp/bt_u<uid>`.
    #[must_use]
    pub fn discover() -> Option<Self> {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        if let Some(token) = text("BEARER_TOKEN") {
            return Some(Self::new(token));
        }
        if let Some(file) = text("BEARER_TOKEN_FILE") {
            return Self::read(&PathBuf::from(file));
        }
        let name = format!("bt_u{}", rustix::process::geteuid().as_raw());
        let places = [text("XDG_RUNTIME_DIR").map(PathBuf::from), Some(PathBuf::from("/tmp"))];
        places.into_iter().flatten().find_map(|place| Self::read(&place.join(&name)))
    }

    fn read(file: &std::path::Path) -> Option<Self> {
        use std::io::Read as _;
        let mut text = String::new();
        let file = std::fs::File::open(file).ok()?;
        file.take(Self::BYTES_MAX as u64).read_to_string(&mut text).ok()?;
        Some(Self::new(text)).filter(|token| !token.0.is_empty())
    }

    /// The text, to be sent and never shown.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
