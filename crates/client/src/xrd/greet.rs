//! The start of a session: handshake, protocol, TLS, login, authentication (spec/xrootd.md §1, §4.1, §4.2).

use super::{
    Options, Token,
    connections::Key,
    mux::{Greeting, Mux},
    transport::Transport,
    trouble::RequestError,
    url::authority,
};
use base::{ErrorKind, Failure};
use std::{
    io::{self, IoSlice, IoSliceMut},
    time::{Duration, Instant},
};
use wire::xrd::{
    ANSWER_HEADER_BYTES, Answer, AnswerCode, AnswerHeader, Auth, Expect, HANDSHAKE, LOGIN_USER, Login,
    LoginAnswer, PROTOCOL_VERSION, Protocol, ProtocolAnswer, ProtocolFlags, Request, ServerFlags, StreamId,
};

/// Longest answer before the session has begun.
const ANSWER_BYTES_MAX: u32 = 64 << 10;
/// Answers before the session has begun: messages may come between.
const ANSWERS_MAX: usize = 16;
/// Rounds of one authentication.
const AUTH_ROUNDS_MAX: usize = 8;
/// The protocol of bearer tokens.
const ZTN: [u8; 4] = *b"ztn\0";

/// Connects, and begins a session.
pub(super) fn connect(key: &Key, options: &Options) -> Result<Mux, RequestError> {
    let peer = authority(&key.host, key.port);
    let transport = Transport::dial(&key.host, key.port, options).map_err(|failure| match failure.hint {
        // Refused by our own rule: trying again changes nothing.
        Some(_) => RequestError::Refused(failure),
        None => RequestError::Broken(failure.hint("check host and port, and whether the server is running")),
    })?;
    let mut hello = Hello { transport, peer, key, options, began: Instant::now(), stream: 0 };
    let greeting = hello.greet()?;
    Ok(Mux::new(hello.transport, greeting, options))
}

/// A connection whose session has not begun: one question at a time.
struct Hello<'a> {
    transport: Transport,
    peer: String,
    key: &'a Key,
    options: &'a Options,
    /// When the last byte came.
    began: Instant,
    stream: u16,
}

impl Hello<'_> {
    fn greet(&mut self) -> Result<Greeting, RequestError> {
        let asked = Instant::now();
        let flags = ProtocolFlags::ABLE_TLS.with_if(self.key.is_tls, ProtocolFlags::WANT_TLS).0;
        let expect = Expect::Login.code();
        let protocol = Protocol { client_version: PROTOCOL_VERSION, flags, expect };
        self.stream = 1;
        self.send(&[&HANDSHAKE, &Request::Protocol(protocol).encode(StreamId::of(1))])?;
        if self.answer(StreamId::default())?.len() != 8 {
            return Err(self.broken("it does not speak the XRootD protocol"));
        }
        let answer = ProtocolAnswer::parse(&self.answer(StreamId::of(1))?)?;
        let round_trip = asked.elapsed();
        if answer.flags.intersects(ServerFlags::GOTO_TLS | ServerFlags::TLS_LOGIN) {
            // Over loopback root:// proves nothing, with or without TLS, so a certificate that is not known is no loss.
            let is_unasked = !self.key.is_tls && self.transport.is_loopback();
            let mut options = self.options.clone();
            options.tls.insecure |= is_unasked;
            self.transport.encrypt(&self.key.host, &options)?;
        } else if self.key.is_tls {
            let what = format!("server {} offers no TLS, which roots:// asks for", self.peer);
            return Err(Failure::unsupported(what).hint("use root:// if encryption is not needed").into());
        }
        self.login(answer.flags)?;
        Ok(Greeting { peer: self.peer.clone(), flags: answer.flags, round_trip })
    }

    fn login(&mut self, flags: ServerFlags) -> Result<(), RequestError> {
        let login = Login {
            pid: std::process::id() as i32,
            username: self.key.username.clone(),
            // Bits: understands asynchronous answers (128); version 5 of the client.
            capability: 128 | 5,
            token: whole_name(&self.key.username),
            ..Login::default()
        };
        let body = self.ask(&Request::Login(login))?;
        if flags.contains(ServerFlags::TLS_SESSION) && !self.transport.is_encrypted() {
            self.transport.encrypt(&self.key.host, self.options)?;
        }
        let answer = LoginAnswer::parse(&body)?;
        if answer.security.is_empty() { Ok(()) } else { self.authenticate(&answer.security) }
    }

    /// Proves who we are, if the server takes bearer tokens.
    fn authenticate(&mut self, security: &str) -> Result<(), RequestError> {
        let offered: Vec<_> = security.split('&').filter_map(|part| part.strip_prefix("P=")).collect();
        let names: Vec<_> = offered.iter().map(|part| part.split(',').next().unwrap_or_default()).collect();
        let token = match &self.key.token {
            Some(token) => Some(token.clone()).filter(|token| !token.is_nothing()),
            None => Token::discover(),
        };
        let is_safe = self.transport.is_encrypted() || self.transport.is_loopback();
        // The proof that is none: some servers let everybody in, and look for a token later.
        if names.contains(&"host") && !(names.contains(&"ztn") && token.is_some() && is_safe) {
            let answer =
                self.exchange(&Request::Auth(Auth { kind: *b"host", credentials: b"host\0".to_vec() }))?;
            return if let Answer::Ok(_) = answer {
                Ok(())
            } else {
                Err(self.refused(&answer, "authentication"))
            };
        }
        if !names.contains(&"ztn") {
            let what = format!("server {} requires authentication by {}", self.peer, names.join(" or "));
            return Err(Failure::unsupported(what)
                .hint("this client supports bearer tokens (ztn) only")
                .into());
        }
        if !is_safe {
            let what = format!("server {} requires a token, but the connection is not encrypted", self.peer);
            return Err(Failure::permission(what).hint("use roots:// instead of root://").into());
        }
        let Some(token) = token else {
            return Err(Failure::permission(format!("server {} requires a token", self.peer))
                .hint("set BEARER_TOKEN or BEARER_TOKEN_FILE")
                .into());
        };
        let mut credentials = token_message(&token);
        for _ in 0..AUTH_ROUNDS_MAX {
            match self.exchange(&Request::Auth(Auth { kind: ZTN, credentials }))? {
                Answer::Ok(_) => return Ok(()),
                // The server asks for the token itself.
                Answer::AuthMore(_) => credentials = token_message(&token),
                answer => return Err(self.refused(&answer, "authentication")),
            }
        }
        Err(self.broken("its authentication does not end"))
    }

    /// Asks, and takes the body of the answer.
    fn ask(&mut self, request: &Request) -> Result<Vec<u8>, RequestError> {
        match self.exchange(request)? {
            Answer::Ok(body) => Ok(body),
            answer => Err(self.refused(&answer, "login")),
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Answer, RequestError> {
        self.stream += 1;
        let stream = StreamId::of(self.stream);
        self.send(&[&request.encode(stream)])?;
        self.receive(stream)
    }

    fn answer(&mut self, stream: StreamId) -> Result<Vec<u8>, RequestError> {
        match self.receive(stream)? {
            Answer::Ok(body) => Ok(body),
            answer => Err(self.refused(&answer, "protocol")),
        }
    }

    fn receive(&mut self, stream: StreamId) -> Result<Answer, RequestError> {
        for _ in 0..ANSWERS_MAX {
            let mut header = [0; ANSWER_HEADER_BYTES];
            self.fill(&mut header)?;
            let header = AnswerHeader::parse(&header).map_err(|e| self.broken(e))?;
            if header.length > ANSWER_BYTES_MAX {
                return Err(self.broken("its answer is too long"));
            }
            let mut body = vec![0; header.length as usize];
            self.fill(&mut body)?;
            match Answer::parse(&header, &body).map_err(|e| self.broken(e))? {
                Answer::Message(_) | Answer::WaitResp { .. } => {}
                Answer::Later { stream: whose, answer } if whose == stream => return Ok(*answer),
                answer if header.stream == stream && header.code != AnswerCode::Attn => return Ok(answer),
                _ => return Err(self.broken("an answer to nothing that was asked")),
            }
        }
        Err(self.broken("it does not answer"))
    }

    fn refused(&self, answer: &Answer, what: &str) -> RequestError {
        let server = format!("server {}", self.peer);
        match answer {
            Answer::Error { .. } => answer.to_failure().map_or_else(
                || self.broken(format!("{what} failed")),
                |failure| RequestError::Refused(failure.during(server)),
            ),
            Answer::Wait { .. } => {
                RequestError::Refused(Failure::busy(format!("{server} is busy")).hint("try again later"))
            }
            _ => self.broken(format!("an answer of an unexpected kind to {what}")),
        }
    }

    fn send(&mut self, parts: &[&[u8]]) -> Result<(), RequestError> {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        self.began = Instant::now();
        loop {
            let outcome =
                if rest.is_empty() { self.transport.flush().map(|()| 0) } else { self.transport.send(rest) };
            match outcome {
                Ok(_) if rest.is_empty() => return Ok(()),
                Ok(0) => return Err(self.broken("connection closed")),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(cause) => self.patience(&cause, true)?,
            }
        }
    }

    fn fill(&mut self, mut target: &mut [u8]) -> Result<(), RequestError> {
        self.began = Instant::now();
        while !target.is_empty() {
            match self.transport.receive(&mut [IoSliceMut::new(target)]) {
                Ok(0) => return Err(self.broken("connection closed")),
                Ok(count) => {
                    target = &mut target[count..];
                    self.began = Instant::now();
                }
                Err(cause) => self.patience(&cause, false)?,
            }
        }
        Ok(())
    }

    /// Waits on, unless that was for too long or `cause` is a failure.
    fn patience(&self, cause: &io::Error, is_sending: bool) -> Result<(), RequestError> {
        match cause.kind() {
            io::ErrorKind::Interrupted => return Ok(()),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
            _ => return Err(RequestError::Broken(Failure::io(format!("greet {}", self.peer), cause))),
        }
        let seconds = self.options.progress_timeout.as_secs_f64();
        if self.began.elapsed() >= self.options.progress_timeout {
            let what = format!("no answer from {}: no progress for {seconds:.0} s", self.peer);
            return Err(RequestError::Broken(Failure::timeout(what).hint("is it an XRootD server?")));
        }
        if is_sending {
            // What it is ready for shows when sending is tried again.
            let _ = self.transport.wait(false, Duration::from_millis(500));
        }
        Ok(())
    }

    fn broken(&self, why: impl std::fmt::Display) -> RequestError {
        let failure = Failure::new(ErrorKind::Unavailable, format!("server {}: {why}", self.peer));
        RequestError::Broken(failure.hint("is it an XRootD server, and is the network intact?"))
    }
}

/// The opaque part of a login, with the whole name of the user. A name that cannot stand there is sent cut only.
fn whole_name(username: &str) -> String {
    if username.contains(|c: char| c == '&' || c.is_control()) {
        return String::new();
    }
    format!("?{LOGIN_USER}={username}")
}

/// Credentials of the token protocol: its name, version 0, what follows (`T`: a token), two unused bytes, the token's
/// length with its NUL, the token, NUL.
fn token_message(token: &Token) -> Vec<u8> {
    let text = token.secret().as_bytes();
    let length = (text.len() + 1) as u16;
    let mut message = ZTN.to_vec();
    message.extend([0, b'T', 0, 0]);
    message.extend(length.to_be_bytes());
    message.extend(text);
    message.push(0);
    message
}
