//! Several heads of one facility: waiting until it is this one's turn, and ending when another one has taken over.

use crate::boot::{catalogue, facility::FacilityHandle, service};
use base::{Failure, Millis, Result};
use head::{
    Head,
    store::{ActiveHead, Catalogue, HeadAddress, Watch},
};
use net::{blocking, shutdown::Token};
use std::{sync::mpsc, time::Duration};
use tracing::{info, warn};

/// How often a standby looks at the active head, and the active head says that it lives.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a head starts where another one may be active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// Not while one on another host is heard.
    #[default]
    Usual,
    /// It waits until the other one is silent, or an operator orders it to take over.
    Standby,
    /// It takes over at once.
    TakeOver,
}

/// Waits until this head may be the active one.
pub(crate) async fn await_turn(handle: &FacilityHandle, start: Start) -> Result<()> {
    let catalogue = catalogue::of(&handle.layout, &handle.config)?;
    if start == Start::TakeOver || (start == Start::Usual && matches!(catalogue, Catalogue::File(_))) {
        return Ok(());
    }
    let silence = handle.config.take_over_after.0;
    let host = handle.config.host_name();
    // Whoever does not wait any more drops the other end.
    let (_is_wanted, stop) = mpsc::channel::<()>();
    blocking(move || match start {
        Start::Usual => refuse_second(Watch::new(&catalogue)?.look()?, &host, silence),
        Start::Standby | Start::TakeOver => wait(&catalogue, host, silence, &stop),
    })
    .await
}

fn wait(catalogue: &Catalogue, host: String, silence: Millis, stop: &mpsc::Receiver<()>) -> Result<()> {
    let mut watch = Some(Watch::new(catalogue)?);
    service::ready("standby: waiting for its turn");
    let address = HeadAddress { host, root: String::new(), https: String::new() };
    info!(
        host = address.host,
        "standby head waits until the active head is silent, or for `bp head take-over`"
    );
    loop {
        let current = watch.take().map_or_else(|| Watch::new(catalogue), Ok);
        match current.and_then(|current| Ok((step(&current, &address, silence)?, current))) {
            Ok((true, _)) => return Ok(()),
            Ok((false, current)) => watch = Some(current),
            // The next look goes by a new connection.
            Err(failure) => warn!(%failure, "the standby cannot check the active head"),
        }
        if stop.recv_timeout(LOOK_EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
            return Err(Failure::unavailable("this standby was stopped"));
        }
    }
}

/// Looks once, and takes over if that is due.
fn step(watch: &Watch, address: &HeadAddress, silence: Millis) -> Result<bool> {
    let seen = watch.look()?;
    let is_due = seen.as_ref().is_none_or(|seen| seen.may_follow(&address.host, silence));
    if !is_due || !watch.claim(seen.as_ref(), address, silence)? {
        return Ok(false);
    }
    let (from, silent) = seen.map_or_else(Default::default, |seen| (seen.address.host, seen.age.0));
    info!(from, silent_ms = silent, "this standby takes over as the head");
    Ok(true)
}

fn refuse_second(seen: Option<ActiveHead>, host: &str, silence: Millis) -> Result<()> {
    match seen {
        Some(seen) if seen.address.host != host && !seen.may_follow(host, silence) => {
            let what =
                format!("the head on {} is active; it was heard {} ms ago", seen.address.host, seen.age.0);
            Err(Failure::busy(what).hint("--standby waits until it stops; --take-over stops it now"))
        }
        _ => Ok(()),
    }
}

/// Has a head that must do so say once a second that it lives.
pub(crate) async fn keep_alive(head: Option<Head>, token: Token) {
    let Some(head) = head else { return };
    while !token.is_stopped() {
        head.tick();
        // Stopping ends the pause; running out of time is the usual way.
        let _ = tokio::time::timeout(LOOK_EVERY, token.stopped()).await;
    }
}

/// Why a head ends that another one has taken over from.
pub(crate) async fn replaced(handle: &FacilityHandle) -> Failure {
    let who = match catalogue::of(&handle.layout, &handle.config) {
        Ok(catalogue) => blocking(move || Watch::new(&catalogue)?.look()).await,
        Err(failure) => Err(failure),
    };
    let who = match who {
        Ok(Some(seen)) => format!("the head on {}", seen.address.host),
        Ok(None) | Err(_) => "another head".to_owned(),
    };
    Failure::unavailable(format!("{who} has taken over; this head committed nothing after that"))
        .hint("`bpd run DIR --standby` waits until it is needed again")
}
