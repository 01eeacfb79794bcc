//! Calls to the head, with the patience that a mount has.

use crate::{
    caller::{Caller, Silence},
    errno::Refusal,
};
use base::{ErrorKind, Failure, FilePath, Millis, Result};
use client::{Control, Stop};
use rustix::{io::Errno, time::ClockId};
use share::{ClientId, Incarnation};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};
use wire::control::{Call, CloseMount, MountSession, OpenMount};

/// How long one call waits for what is pending. A caller who was killed is noticed after that.
const WAIT: Millis = Millis::from_seconds(5);
/// How long a head that does not answer is left alone, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a *soft* mount tries.
const SOFT_MILLIS: i64 = 30_000;

/// The head, and the session with it.
pub(crate) struct Head {
    control: Control,
    path: FilePath,
    host: String,
    is_soft: bool,
    stop: Stop,
    client: AtomicU64,
    /// The start of the head that has begun the session.
    start: AtomicU64,
    /// When the renewal of the lease was sent that was answered last, and how long it holds.
    renewed: AtomicI64,
    lease: AtomicI64,
    /// One line says that the head does not answer, and one that it does again.
    silence: Arc<Silence>,
    is_silent: AtomicBool,
    /// Held while a session begins or ends, so that there is one. Says whether the last one has ended: no other one begins.
    is_over: Mutex<bool>,
}

impl Head {
    /// Begins a session.
    pub(crate) fn open(
        control: Control,
        (path, host): (FilePath, String),
        is_soft: bool,
        stop: Stop,
    ) -> Result<(Self, MountSession)> {
        let sent = now();
        let session = control.call(&OpenMount { path: path.clone(), host: host.clone() })?;
        let head = Self {
            control,
            path,
            host,
            is_soft,
            stop,
            client: AtomicU64::new(session.client.0),
            start: AtomicU64::new(session.start.0),
            renewed: AtomicI64::new(sent),
            lease: AtomicI64::new(session.lease.0),
            silence: Arc::default(),
            is_silent: AtomicBool::new(false),
            is_over: Mutex::new(false),
        };
        Ok((head, session))
    }

    /// The session.
    pub(crate) fn client(&self) -> ClientId {
        ClientId(self.client.load(Ordering::SeqCst))
    }

    /// The start of the head that has begun the session.
    pub(crate) fn start(&self) -> Incarnation {
        Incarnation(self.start.load(Ordering::SeqCst))
    }

    /// Since when it is silent.
    pub(crate) fn silence(&self) -> &Arc<Silence> {
        &self.silence
    }

    /// Whether the mount is to end.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// A renewal that was sent at `sent` was answered.
    pub(crate) fn renewed(&self, sent: i64) {
        self.renewed.fetch_max(sent, Ordering::SeqCst);
    }

    /// Whether what was granted may be used.
    pub(crate) fn is_lease_valid(&self) -> bool {
        now() < self.lease_end()
    }

    /// Until when what was granted may be used, as it stands now.
    pub(crate) fn lease_end(&self) -> i64 {
        self.renewed.load(Ordering::SeqCst) + self.lease.load(Ordering::SeqCst)
    }

    /// Makes a call and makes it again until the head answers; a soft mount gives up after a while.
    pub(crate) fn call<C: Call>(
        &self,
        caller: &Caller,
        make: impl Fn(ClientId) -> C,
    ) -> Result<C::Reply, Refusal> {
        self.call_waiting(caller, Millis(0), &make)
    }

    /// The same, and waits as long as the reply is pending or the caller is there.
    pub(crate) fn call_until<C: Call>(
        &self,
        caller: &Caller,
        make: impl Fn(ClientId) -> C,
    ) -> Result<C::Reply, Refusal> {
        let first = self.call(caller, &make)?;
        if !C::is_pending(&first) {
            return Ok(first);
        }
        loop {
            let reply = caller.waiting(|| self.call_waiting(caller, WAIT, &make))?;
            if !C::is_pending(&reply) {
                return Ok(reply);
            }
            if self.stop.is_set() {
                return Err(Errno::IO.into());
            }
        }
    }

    /// Makes a call once: what has its own way to try again.
    pub(crate) fn call_once<C: Call>(&self, call: &C, wait: Millis) -> Result<C::Reply> {
        self.control.call_waiting(call, wait)
    }

    fn call_waiting<C: Call>(
        &self,
        caller: &Caller,
        wait: Millis,
        make: &impl Fn(ClientId) -> C,
    ) -> Result<C::Reply, Refusal> {
        let (begun, mut pause) = (now(), PAUSE.0);
        loop {
            let client = self.client();
            let failure = match self.control.call_for(&make(client), wait, caller.acts_for()) {
                Ok(reply) => {
                    self.note_answer();
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            let failure = if is_session_gone(&failure, client) {
                match self.begin_anew(client) {
                    Ok(()) => continue,
                    Err(failure) => failure,
                }
            } else {
                failure
            };
            if !is_passing(&failure) {
                return Err(failure.into());
            }
            self.note_silence(&failure);
            if self.is_soft && now() - begun > SOFT_MILLIS {
                return Err(failure.into());
            }
            if caller.waiting(|| Ok(self.stop.wait(pause)))? {
                return Err(failure.into());
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// The head has ended session `old`: begins another one, unless that was done meanwhile.
    pub(crate) fn begin_anew(&self, old: ClientId) -> Result<()> {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            return Err(Failure::invalid("the session has ended"));
        }
        if self.client() != old {
            return Ok(());
        }
        let sent = now();
        let session = self.control.call(&OpenMount { path: self.path.clone(), host: self.host.clone() })?;
        tracing::warn!(
            old = %old,
            new = %session.client,
            "the head had ended the session of this mount; what was not synced is lost"
        );
        self.lease.store(session.lease.0, Ordering::SeqCst);
        self.start.store(session.start.0, Ordering::SeqCst);
        self.client.store(session.client.0, Ordering::SeqCst);
        self.renewed(sent);
        Ok(())
    }

    /// Ends the session for good: whoever is still in a call does not begin another one.
    pub(crate) fn end(&self) -> Result<()> {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        self.call_once(&CloseMount { client: self.client() }, Millis(0)).map(drop)
    }

    /// The head did not answer.
    pub(crate) fn note_silence(&self, failure: &Failure) {
        if self.silence.set(true) {
            self.is_silent.store(true, Ordering::Relaxed);
            tracing::warn!(%failure, "the head does not answer; calls wait for it");
        }
    }

    /// The head answered.
    pub(crate) fn note_answer(&self) {
        // Usually it was not, and nobody needs the lock.
        if self.is_silent.load(Ordering::Relaxed)
            && self.is_silent.swap(false, Ordering::Relaxed)
            && self.silence.set(false)
        {
            tracing::info!("the head answers again");
        }
    }
}

/// Milliseconds since the start of this host, of a clock that goes on while it sleeps: leases do, too.
pub(crate) fn now() -> i64 {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Whether trying again can help.
fn is_passing(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Whether the head does not know the session. Files that are not found have the same kind, and are no reason to begin a new one.
pub(crate) fn is_session_gone(failure: &Failure, client: ClientId) -> bool {
    failure.kind == ErrorKind::NotFound && failure.what.starts_with(&format!("mount {client} has no session"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_no_missing_session() {
        let gone = Failure::not_found("mount 7 has no session");
        assert!(is_session_gone(&gone, ClientId(7)) && !is_session_gone(&gone, ClientId(8)));
        assert!(!is_session_gone(&Failure::not_found("file 7 no longer exists"), ClientId(7)));
        assert!(is_passing(&Failure::timeout("x")) && !is_passing(&Failure::busy("x")));
    }
}
