//! The management client: makes [`Call`]s over HTTP, blocking.

mod fetch;
mod socket;
mod tls;

pub(crate) use socket::{connect, unreachable};
pub use tls::ControlTls;
pub(crate) use tls::tls_config;

use base::{ErrorKind, Failure, Millis, Result};
use std::{
    borrow::Cow,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tls::Agents;
use wire::control::{ACTS_FOR_HEADER, Call, REPLY_TAG_HEADER, USER_HEADER, VERSION, VERSION_HEADER};

/// How long a call that does not wait may take before the facility counts as out of reach.
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Longest wait asked for in one call: proxies and people lose patience with silent connections.
pub const WAIT_MAX: Millis = Millis::from_seconds(30);
/// Heads that one call is sent on to at most.
const HEADS_MAX: u32 = 4;
/// Longest reply taken.
const REPLY_BYTES_MAX: u64 = 256 << 20;

/// A connection to the management API. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Control {
    agents: Arc<Agents>,
    http: String,
    user: String,
    token: Option<Bearer>,
    /// The token that is shown to other heads. The daemon at a Unix socket needs none, because the kernel tells it who calls.
    token_elsewhere: Option<Bearer>,
}

/// A bearer token. It has no `Debug`, so that no log shows it.
#[derive(Clone)]
pub struct Bearer(TokenSource);

#[derive(Clone)]
enum TokenSource {
    Text(String),
    File(PathBuf),
}

impl Bearer {
    /// Takes the text of a token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(TokenSource::Text(text.into()))
    }

    /// Takes the token from a file. It is read for each call, so that a token that was renewed there is used at once.
    pub fn in_file(file: impl Into<PathBuf>) -> Self {
        Self(TokenSource::File(file.into()))
    }

    fn text(&self) -> Result<Cow<'_, str>> {
        match &self.0 {
            TokenSource::Text(text) => Ok(Cow::Borrowed(text)),
            TokenSource::File(file) => {
                let read = std::fs::read_to_string(file);
                let text = read.map_err(|cause| Failure::io(format!("read {}", file.display()), &cause))?;
                Ok(Cow::Owned(text.trim().to_owned()))
            }
        }
    }
}

impl Control {
    /// Talks to `http`, for example `http://127.0.0.1:8094`, as `user`.
    pub fn new(http: impl Into<String>, user: impl Into<String>) -> Self {
        let http = http.into().trim_end_matches('/').to_owned();
        Self {
            agents: Arc::new(Agents::new(ControlTls::default())),
            http,
            user: user.into(),
            token: None,
            token_elsewhere: None,
        }
    }

    /// Talks to the daemon that serves `directory` on this host, over its Unix socket, as `user`.
    pub fn at_socket(directory: &Path, user: impl Into<String>) -> Self {
        Self { agents: Arc::new(Agents::at_socket(directory)), ..Self::new(socket::ADDRESS, user) }
    }

    /// Says whom to believe, and what to show.
    #[must_use]
    pub fn with_tls(mut self, tls: ControlTls) -> Self {
        self.agents = Arc::new(Agents::new(tls));
        self
    }

    /// Shows this token.
    pub fn with_token(mut self, token: Bearer) -> Self {
        self.token = Some(token);
        self
    }

    /// Shows this token where a call is sent on to another head.
    pub fn with_token_elsewhere(mut self, token: Bearer) -> Self {
        self.token_elsewhere = Some(token);
        self
    }

    /// The address it talks to, or the directory of the facility at whose Unix socket it talks.
    pub fn address(&self) -> String {
        self.agents.directory().map_or_else(|| self.http.clone(), |directory| directory.display().to_string())
    }

    /// Makes a call and takes whatever reply there is.
    pub fn call<C: Call>(&self, call: &C) -> Result<C::Reply> {
        self.call_waiting(call, Millis(0))
    }

    /// Makes a call whose reply may be held back for up to `wait`, at most [`WAIT_MAX`], while it is pending. What another head
    /// keeps is asked there.
    pub fn call_waiting<C: Call>(&self, call: &C, wait: Millis) -> Result<C::Reply> {
        self.call_until_news(call, wait, None).map(|(reply, _)| reply)
    }

    /// The same, on behalf of somebody else: `acts_for` is an [`ActsFor`](wire::control::ActsFor) as a header. Only an operator may.
    pub fn call_for<C: Call>(&self, call: &C, wait: Millis, acts_for: Option<&str>) -> Result<C::Reply> {
        match acts_for {
            Some(acts_for) => self.call_once(call, wait, (None, Some(acts_for))).map(|(reply, _)| reply),
            None => self.call_waiting(call, wait),
        }
    }

    /// The same, but a pending reply that is not the one with the tag `seen` is given at once. Yields the tag of a pending reply, too;
    /// facilities of earlier releases give none, and hold every pending reply back.
    pub fn call_until_news<C: Call>(
        &self,
        call: &C,
        wait: Millis,
        seen: Option<&str>,
    ) -> Result<(C::Reply, Option<String>)> {
        let mut outcome = self.call_once(call, wait, (seen, None));
        for _ in 0..HEADS_MAX {
            let Err(Failure { at: Some(at), .. }) = &outcome else { return outcome };
            outcome = self.at_head(&at.http)?.call_once(call, wait, (seen, None));
        }
        outcome
    }

    /// Talks to another head, on behalf of the same person.
    pub fn at_head(&self, http: &str) -> Result<Self> {
        if self.token_elsewhere.is_some() && !http.starts_with("https:") {
            let what =
                format!("the head at {http} is not encrypted, and a token would be readable on the network");
            return Err(Failure::permission(what).hint("use its https:// address"));
        }
        let http = http.trim_end_matches('/').to_owned();
        Ok(Self {
            agents: Arc::new(self.agents.anew()),
            http,
            token: self.token_elsewhere.clone(),
            ..self.clone()
        })
    }

    fn call_once<C: Call>(
        &self,
        call: &C,
        wait: Millis,
        (seen, acts_for): (Option<&str>, Option<&str>),
    ) -> Result<(C::Reply, Option<String>)> {
        let wait = wait.min(WAIT_MAX).max(Millis(0));
        let seen = seen.map_or_else(String::new, |seen| format!("&seen={seen}"));
        let url = format!("{}/api/v1/{}?wait={}ms{seen}", self.http, C::NAME, wait.0);
        let body = serde_json::to_vec(call)
            .map_err(|cause| Failure::internal(format!("cannot write the call {}: {cause}", C::NAME)))?;
        let deadline = CALL_DEADLINE + Duration::from_millis(wait.0.unsigned_abs());
        let mut request = self
            .agents
            .agent(&self.http)?
            .post(url)
            .config()
            .timeout_global(Some(deadline))
            .build()
            .header("content-type", "application/json")
            .header(VERSION_HEADER, VERSION)
            .header(USER_HEADER, &self.user);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.text()?));
        }
        if let Some(acts_for) = acts_for {
            request = request.header(ACTS_FOR_HEADER, acts_for);
        }
        let mut answer = request.send(&body[..]).map_err(|cause| self.unreachable::<C>(&cause))?;
        let mut text = Vec::new();
        answer.body_mut().as_reader().take(REPLY_BYTES_MAX).read_to_end(&mut text).map_err(|cause| {
            Failure::io(format!("read the reply to {} from {}", C::NAME, self.address()), &cause)
        })?;
        let tag = answer.headers().get(REPLY_TAG_HEADER).and_then(|tag| tag.to_str().ok());
        // It becomes a part of a URL.
        let tag = tag.filter(|tag| tag.bytes().all(|byte| byte.is_ascii_alphanumeric())).map(str::to_owned);
        Ok((self.understand::<C>(answer.status().as_u16(), &text)?, tag))
    }

    fn understand<C: Call>(&self, status: u16, text: &[u8]) -> Result<C::Reply> {
        if (200..300).contains(&status) {
            return serde_json::from_slice(text).map_err(|cause| {
                Failure::internal(format!(
                    "{} answered {} with an unexpected reply: {cause}",
                    self.address(),
                    C::NAME
                ))
                .hint("client and facility may have different versions")
            });
        }
        Err(serde_json::from_slice::<Failure>(text).unwrap_or_else(|_| {
            Failure::unavailable(format!("{} answered {} with HTTP status {status}", self.address(), C::NAME))
                .hint("is that address a Backplane facility?")
        }))
    }

    fn unreachable<C: Call>(&self, cause: &ureq::Error) -> Failure {
        if let (Some(directory), ureq::Error::Io(cause)) = (self.agents.directory(), cause) {
            return socket::unreachable(directory, cause).during(C::NAME);
        }
        let kind = match cause {
            ureq::Error::Timeout(_) => ErrorKind::Timeout,
            _ => ErrorKind::Unavailable,
        };
        Failure::new(
            kind,
            format!("cannot reach the facility at {} for {}: {cause}", self.address(), C::NAME),
        )
        .hint("is it running? `bp up DIR` starts it")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Read, Write};

    /// Reads one request, answers it with `body`, and yields the request's head.
    pub(crate) fn answer_once(mut connection: impl Read + Write, body: &str) -> String {
        let (mut head, mut reader) = (String::new(), BufReader::new(&mut connection));
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "the request ended early: {head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().unwrap());
        reader.read_exact(&mut vec![0; length]).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(answer.as_bytes()).unwrap();
        head
    }
}
