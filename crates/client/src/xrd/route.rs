//! Requests and their answers: waiting when a server says so, and asking whoever it sends us to.

use super::{
    Options, XrdUrl,
    connections::{self, Key, Lease, Purpose},
    mux::{Mux, Outcome, Sink, Wait},
    retry::Retry,
    task,
    trouble::RequestError,
};
use base::Failure;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use wire::{
    control::TRIED,
    xrd::{Opaque, Redirect, Request},
};

/// Longest body of an answer that is kept whole: a listing of some hundred thousand names.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Key of the opaque part that holds a token.
const TOKEN: &str = "authz";
/// Servers that are not reached before we give up.
const UNREACHED_MAX: usize = 3;

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// The request succeeded; the body of the answer.
    Done(Vec<u8>),
    /// Another server must be asked.
    Redirect(Redirect),
}

/// Whether a request may be sent again if it is not known whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryRule {
    /// Doing it twice is as good as doing it once.
    Harmless,
    /// It may have been done.
    Never,
}

/// Adds up how long a server made us wait.
#[derive(Debug)]
pub(super) struct WaitBudget {
    until: Instant,
}

impl WaitBudget {
    pub(super) fn new(options: &Options) -> Self {
        Self { until: Instant::now() + options.wait_max }
    }

    /// Waits for `span` as the server wants, if that is not too long.
    pub(super) async fn more(&self, span: Duration, peer: &str, wait: Wait) -> Result<(), RequestError> {
        if Instant::now() + span >= self.until {
            let failure = Failure::timeout(format!("server {peer} asked the client to wait too long"));
            return Err(failure.hint("try again later").into());
        }
        Ok(task::pause(span, wait).await?)
    }
}

/// Sends a request and waits for its whole answer.
pub(super) async fn call(
    mux: &Arc<Mux>,
    request: &Request,
    options: &Options,
    wait: Wait,
) -> Result<Reply, RequestError> {
    let waited = WaitBudget::new(options);
    loop {
        let ticket = mux.submit(request, Sink::Gather { max: BODY_BYTES_MAX })?;
        match ticket.answer(wait, &mut []).await? {
            Outcome::Body(body) => return Ok(Reply::Done(body)),
            Outcome::Redirect(redirect) => return Ok(Reply::Redirect(redirect)),
            Outcome::AgainAfter(span) => waited.more(span, &mux.greeting.peer, wait).await?,
            Outcome::Failed(failure) => {
                return Err(failure.during(format!("server {}", mux.greeting.peer)).into());
            }
            Outcome::Data(_) => return Err(mux.break_off(mux.nonsense("data instead of an answer"))),
        }
    }
}

/// The answer of one server, and the connection to it.
pub(super) struct ServerReply {
    pub(super) lease: Lease,
    pub(super) body: Vec<u8>,
}

/// Makes a request from what must be in its opaque part.
pub(super) type Make<'a> = &'a (dyn Fn(&Opaque) -> Request + Sync);

/// Asks the server of `url`, then whoever it sends us to, until one does it.
pub(super) async fn route(
    url: &XrdUrl,
    options: &Options,
    purpose: Purpose,
    again: RetryRule,
    make: Make<'_>,
    wait: Wait,
) -> Result<ServerReply, RequestError> {
    let (mut place, mut opaque) = (url.clone(), url.opaque.clone());
    let mut tried: Vec<String> = Vec::new();
    for hop in 0..=options.redirects_max {
        let asked = ask(&place, options, purpose, again, &make(&opaque), wait).await;
        let (lease, reply) = match asked {
            Ok(answered) => answered,
            // Whoever sent us there knows others, perhaps.
            Err(NoReply::Unreached(_)) if hop > 0 && tried.len() < UNREACHED_MAX => {
                tried.push(std::mem::replace(&mut place, url.clone()).host);
                opaque = url.opaque.clone().with(TRIED, tried.join(","));
                continue;
            }
            Err(NoReply::Unreached(trouble) | NoReply::Failed(trouble)) if hop > 0 => {
                return Err(trouble.during(format!("redirected from {}", url.authority())));
            }
            Err(NoReply::Unreached(trouble) | NoReply::Failed(trouble)) => return Err(trouble),
        };
        let redirect = match reply {
            Reply::Done(body) => return Ok(ServerReply { lease, body }),
            Reply::Redirect(redirect) => redirect,
        };
        opaque = sent_on(&url.opaque, &Opaque::parse(&redirect.opaque));
        place.opaque = opaque.clone();
        redirect.host.trim_start_matches('[').trim_end_matches(']').clone_into(&mut place.host);
        place.port = redirect.port;
    }
    let what = format!("more than {} redirects from {}", options.redirects_max, url.authority());
    Err(Failure::unavailable(what).hint("the servers redirect in a circle; tell their operator").into())
}

/// What the next server is told: what this one was, and what this one says. Where that is a capability, it needs no token; one
/// that was of no use is not shown to others.
fn sent_on(first: &Opaque, more: &Opaque) -> Opaque {
    let is_enough = more.get(wire::auth::capability::PARAMETER).is_some();
    let useless = if is_enough { TOKEN } else { wire::auth::capability::PARAMETER };
    let first = first.iter().filter(|(key, _)| *key != useless);
    first.chain(more.iter()).fold(Opaque::default(), |all, (key, value)| all.with(key, value))
}

/// The reasons for which a server gave no answer.
enum NoReply {
    /// There is no connection to it.
    Unreached(RequestError),
    /// Anything else.
    Failed(RequestError),
}

/// Asks one server; again if the connection breaks and that does no harm.
async fn ask(
    place: &XrdUrl,
    options: &Options,
    purpose: Purpose,
    again: RetryRule,
    request: &Request,
    wait: Wait,
) -> Result<(Lease, Reply), NoReply> {
    let key = Key::of(place, options);
    let mut retry = Retry::few(options);
    loop {
        // Nobody waits for a server that is not there.
        let lease = connections::take(&key, options, purpose, wait).await.map_err(NoReply::Unreached)?;
        match call(lease.mux(), request, options, wait).await {
            Ok(reply) => return Ok((lease, reply)),
            Err(trouble) if again == RetryRule::Never || !trouble.is_broken() => {
                return Err(NoReply::Failed(trouble));
            }
            // It was closed while it was idle; that says nothing of the server.
            Err(_) if !lease.is_new => {}
            Err(trouble) => retry.again(trouble, wait).await.map_err(NoReply::Failed)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Token, *};

    #[test]
    fn a_server_that_takes_a_capability_sees_no_token() {
        let first = Opaque::parse("authz=Bearer%20secret&oss.asize=7");
        let told = |more: &str| sent_on(&first, &Opaque::parse(more));
        assert_eq!(told("bp.cap=w.x").to_text(), "oss.asize=7&bp.cap=w.x");
        assert_eq!(told("org.node=3").get("authz"), Some("Bearer%20secret"));
        let by_right = Opaque::parse("bp.cap=w.x&oss.asize=7");
        assert_eq!(sent_on(&by_right, &Opaque::parse("")).to_text(), "oss.asize=7", "back at the head");
    }

    #[test]
    fn a_server_that_takes_a_capability_is_not_told_who_asks() {
        let options = Options { token: Some(Token::new("secret")), ..Options::default() };
        let token = |url: &str| Key::of(&url.parse().unwrap(), &options).token.unwrap();
        assert!(token("roots://d1//f?bp.cap=r.x").is_nothing());
        assert!(token("roots://d1//f?authz=Bearer%20secret&bp.cap=r.x").is_nothing());
        assert!(!token("roots://head//f").is_nothing());
    }
}
