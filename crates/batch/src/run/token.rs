//! The token of a job: put where the job finds it, and renewed while the job runs.

use super::Run;
use crate::{identity::Identity, room::Shared};
use base::Result;
use std::time::{Duration, Instant};
use tracing::debug;
use wire::control::JobToken;

/// Pause before the token of a run is asked for again, also after a start of the room: it may have been down for long.
const TOKEN_PAUSE: Duration = Duration::from_secs(60);

/// Gets a new token for the job, and puts it where the job finds it.
pub(super) fn renew_token(shared: &Shared, run: &Run, identity: &Identity) -> Result<JobToken> {
    let token = shared.token(run.id())?;
    run.dir.set_token(&token.token, identity)?;
    Ok(token)
}

/// The token of a job that runs: replaced long before it ends, and when the facility's keys have changed.
pub(super) struct RenewedToken {
    next: Instant,
    keys: u64,
    pub(super) identity: Identity,
}

impl RenewedToken {
    pub(super) fn new(shared: &Shared, identity: Identity) -> Self {
        Self { next: Instant::now() + TOKEN_PAUSE, keys: shared.keys(), identity }
    }

    pub(super) fn renew_if_due(&mut self, shared: &Shared, run: &Run) {
        let keys = shared.keys();
        if Instant::now() < self.next && self.keys == keys {
            return;
        }
        self.keys = keys;
        let pause = match renew_token(shared, run, &self.identity) {
            Ok(token) => Duration::from_millis(token.lifetime.0.unsigned_abs() / 2),
            Err(failure) => {
                debug!(job = %run.id().job, %failure, "could not get a new token for a run; retrying");
                TOKEN_PAUSE
            }
        };
        self.next = Instant::now() + pause;
    }
}
