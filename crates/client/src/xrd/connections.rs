//! The connections of this process: shared by files and threads, kept for a while when idle, made anew after a fork.

use super::{
    Options, TlsOptions, Token, XrdUrl, greet,
    mux::{Mux, Wait},
    process::{PerProcess, lock},
    task,
    trouble::RequestError,
};
use base::{Failure, ReachRule};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, atomic::Ordering},
    time::Duration,
};

/// How long a connection is kept that nobody uses.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Connections that are kept though nobody uses them.
const IDLE_LEN_MAX: usize = 64;
/// A connection that was used this recently is not looked at before it is used again.
const TRUSTED: Duration = Duration::from_millis(500);

/// The key by which connections are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_tls: bool,
    pub(super) username: String,
    pub(super) token: Option<Token>,
    tls: TlsOptions,
    timeouts: [Duration; 2],
    /// A connection that was made without a limit is not lent to whoever has one.
    reach: ReachRule,
}

impl Key {
    /// The connection to the server of `url`. A disk server that is shown a capability need not know who we are: a token would let
    /// it act for us everywhere.
    pub(super) fn of(url: &XrdUrl, options: &Options) -> Self {
        let is_by_right = url.opaque.get(wire::auth::capability::PARAMETER).is_some();
        let token = || Token::of(&url.opaque).or_else(|| options.token.clone());
        Self {
            host: url.host.clone(),
            port: url.port,
            is_tls: url.is_tls,
            username: url.user.as_ref().unwrap_or(&options.username).clone(),
            // What opens the file also proves who asks for its names and checksums.
            token: if is_by_right { Some(Token::nothing()) } else { token() },
            tls: options.tls.clone(),
            timeouts: [options.progress_timeout, options.wait_max],
            reach: options.reach.clone(),
        }
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A call on names: any connection will do.
    Call,
    /// A file to read: one that no other file uses, if there are not too many already.
    Read,
    /// A file to write: its own, because what was written is given up by ending it.
    Write,
}

/// A connection in use.
#[derive(Debug)]
pub(super) struct Lease {
    mux: Arc<Mux>,
    is_exclusive: bool,
    /// Made for this use: what breaks now is not because it was old.
    pub(super) is_new: bool,
}

impl Lease {
    fn new(mux: &Arc<Mux>, purpose: Purpose, is_new: bool) -> Self {
        mux.enter();
        let is_exclusive = purpose == Purpose::Write;
        mux.is_exclusive.store(is_exclusive, Ordering::Release);
        Self { mux: Arc::clone(mux), is_exclusive, is_new }
    }

    pub(super) fn mux(&self) -> &Arc<Mux> {
        &self.mux
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.mux.is_ours() {
            return;
        }
        if self.is_exclusive {
            self.mux.is_exclusive.store(false, Ordering::Release);
        }
        self.mux.leave();
    }
}

/// A connection that fits.
enum Found {
    /// The connection is in use, or was so recently that it needs no check.
    Ready(Lease),
    /// To be looked at first. Nobody else has it meanwhile.
    Idle(Arc<Mux>),
}

/// All connections of this process.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Vec<(Key, Arc<Mux>)>>,
    /// One at a time connects to a server: the others may then share what it made.
    dialing: Mutex<HashMap<Key, Arc<Mutex<()>>>>,
}

fn connections() -> &'static Connections {
    static ALL: OnceLock<PerProcess<Connections>> = OnceLock::new();
    let all = ALL.get_or_init(|| PerProcess::new(Connections::default()));
    all.get(|| {
        // The child drops its copies of the parent's sockets; the parent's connections stay as they are.
        if let Ok(mut inherited) = all.first().open.try_lock() {
            inherited.clear();
        }
        Connections::default()
    })
}

/// Takes a connection, made if there is none that fits.
pub(super) async fn take(
    key: &Key,
    options: &Options,
    purpose: Purpose,
    wait: Wait,
) -> Result<Lease, RequestError> {
    if let Some(lease) = connections().ready(key, options, purpose) {
        return Ok(lease);
    }
    if wait == Wait::Thread {
        return connections().dial(key, options, purpose);
    }
    let (key, options) = (key.clone(), options.clone());
    task::in_thread(move || connections().dial(&key, &options, purpose))
        .await
        .unwrap_or_else(|failure| Err(failure.into()))
}

impl Connections {
    /// A connection that is there.
    fn ready(&self, key: &Key, options: &Options, purpose: Purpose) -> Option<Lease> {
        loop {
            let mux = match self.find(key, options, purpose)? {
                Found::Ready(lease) => return Some(lease),
                Found::Idle(mux) => mux,
            };
            // Looking may have to wait for its server, for which those who ask others must not wait.
            if mux.is_fresh() {
                let lease = Lease::new(&mux, purpose, false);
                lock(&self.open).push((key.clone(), mux));
                return Some(lease);
            }
        }
    }

    /// The connection that fits best, if one does.
    fn find(&self, key: &Key, options: &Options, purpose: Purpose) -> Option<Found> {
        let mut dead = Vec::new();
        let mut open = lock(&self.open);
        sweep(&mut open, &mut dead);
        let users = |mux: &Arc<Mux>| mux.users.load(Ordering::Acquire);
        let fitting = open
            .iter()
            .enumerate()
            .filter(|(_, (other, mux))| other == key && !mux.is_exclusive.load(Ordering::Acquire));
        let count = fitting.clone().count();
        let (index, mux) = fitting.map(|(index, (_, mux))| (index, mux)).min_by_key(|(_, mux)| users(mux))?;
        let is_wanted = match purpose {
            Purpose::Call => true,
            Purpose::Read => users(mux) == 0 || count >= usize::from(options.connections_max.max(1)),
            Purpose::Write => users(mux) == 0,
        };
        if !is_wanted {
            return None;
        }
        if users(mux) > 0 || lock(&mux.idle_since).elapsed() < TRUSTED {
            return Some(Found::Ready(Lease::new(mux, purpose, false)));
        }
        Some(Found::Idle(open.swap_remove(index).1))
    }

    fn dial(&self, key: &Key, options: &Options, purpose: Purpose) -> Result<Lease, RequestError> {
        let turn = Arc::clone(lock(&self.dialing).entry(key.clone()).or_default());
        let _turn = lock(&turn);
        // Somebody else may have made one while we waited for our turn.
        if let Some(lease) = self.ready(key, options, purpose) {
            return Ok(lease);
        }
        let mux = Arc::new(greet::connect(key, options)?);
        let lease = Lease::new(&mux, purpose, true);
        lock(&self.open).push((key.clone(), mux));
        lock(&self.dialing).retain(|other, turn| other != key || Arc::strong_count(turn) > 2);
        Ok(lease)
    }
}

/// Takes out what is broken or idle for too long. `dead` is dropped by the caller.
fn sweep(open: &mut Vec<(Key, Arc<Mux>)>, dead: &mut Vec<(Key, Arc<Mux>)>) {
    let mut idle = 0;
    let mut index = open.len();
    while index > 0 {
        index -= 1;
        let mux = &open[index].1;
        let is_idle = mux.users.load(Ordering::Acquire) == 0;
        idle += usize::from(is_idle);
        let is_old = is_idle && (idle > IDLE_LEN_MAX || lock(&mux.idle_since).elapsed() > IDLE_MAX);
        if is_old || mux.is_broken() {
            dead.push(open.remove(index));
        }
    }
}

/// The failure of a child process that uses a file its parent opened for writing.
pub(super) fn inherited(what: &str) -> Failure {
    Failure::invalid(format!("{what} was opened by another process, from which this one was forked"))
        .hint("open it after the fork")
}
