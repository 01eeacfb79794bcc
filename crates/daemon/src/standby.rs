//! Several heads of one facility: waiting until it is this one's turn, and ending when another one has taken over.

use crate::{catalogue, facility::Possession, files::blocking};
use base::{Failure, Millis, Result};
use head::{
    Head,
    store::{ActiveHead, Catalogue, HeadPlace, Watch},
};
use net::shutdown::Token;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
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
pub(crate) async fn await_turn(possession: &Possession, start: Start) -> Result<()> {
    let catalogue = catalogue::of(&possession.layout, &possession.config)?;
    if start == Start::TakeOver || (start == Start::Usual && matches!(catalogue, Catalogue::File(_))) {
        return Ok(());
    }
    let silence = possession.config.take_over_after.0;
    let place = HeadPlace { host: possession.config.host_name(), root: String::new(), https: String::new() };
    let watch = Arc::new(tokio::sync::Mutex::new(Some(open(&catalogue).await?)));
    if start == Start::Usual {
        return refuse_second(look(&watch).await?, &place.host, silence);
    }
    info!(host = place.host, "standby: waiting for the active head to be silent, or for `bp head take-over`");
    loop {
        match step(&watch, &catalogue, &place, silence).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(failure) => warn!(%failure, "the standby cannot look at the active head"),
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The way to the database; `None` after it was lost.
type Shared = Arc<tokio::sync::Mutex<Option<Watch>>>;

async fn open(catalogue: &Catalogue) -> Result<Watch> {
    let catalogue = catalogue.clone();
    blocking(move || Watch::new(&catalogue)).await
}

/// Does something with the database on a thread that may wait; after a failure the way is made anew.
async fn with<T: Send + 'static>(
    watch: &Shared,
    work: impl FnOnce(&Watch) -> Result<T> + Send + 'static,
) -> Result<T> {
    let mut guard = Arc::clone(watch).lock_owned().await;
    blocking(move || {
        let watch =
            guard.take().ok_or_else(|| Failure::unavailable("the catalogue's database is out of reach"))?;
        let done = work(&watch)?;
        *guard = Some(watch);
        Ok(done)
    })
    .await
}

async fn look(watch: &Shared) -> Result<Option<ActiveHead>> {
    with(watch, Watch::look).await
}

/// Looks once, and takes over if that is due.
async fn step(watch: &Shared, catalogue: &Catalogue, place: &HeadPlace, silence: Millis) -> Result<bool> {
    let is_lost = watch.lock().await.is_none();
    if is_lost {
        let new = open(catalogue).await?;
        *watch.lock().await = Some(new);
    }
    let seen = look(watch).await?;
    if !seen.as_ref().is_none_or(|seen| seen.may_follow(&place.host, silence)) {
        return Ok(false);
    }
    let from = seen.as_ref().map(|seen| (seen.place.host.clone(), seen.age));
    let place = place.clone();
    let is_ours = with(watch, move |watch| watch.claim(seen.as_ref(), &place, silence)).await?;
    if is_ours {
        let (host, silent) = from.unwrap_or_default();
        info!(from = host, silent_ms = silent.0, "taking over");
    }
    Ok(is_ours)
}

fn refuse_second(seen: Option<ActiveHead>, host: &str, silence: Millis) -> Result<()> {
    match seen {
        Some(seen) if seen.place.host != host && !seen.may_follow(host, silence) => {
            let what =
                format!("the head on {} is active; it was heard {} ms ago", seen.place.host, seen.age.0);
            Err(Failure::busy(what).hint("--standby waits for its end; --take-over ends it now"))
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
pub(crate) async fn replaced(possession: &Possession) -> Failure {
    let by = async {
        let catalogue = catalogue::of(&possession.layout, &possession.config)?;
        let watch = Arc::new(tokio::sync::Mutex::new(Some(open(&catalogue).await?)));
        look(&watch).await
    };
    let who = match by.await {
        Ok(Some(seen)) => format!("the head on {}", seen.place.host),
        Ok(None) | Err(_) => "another head".to_owned(),
    };
    Failure::unavailable(format!("{who} has taken over; nothing was committed here since"))
        .hint("`bpd run DIR --standby` waits until it is needed again")
}
