//! The management API over HTTP, the console and the metrics.

pub(crate) mod backup;
pub(crate) mod calls;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod live;

use crate::doors::http::{HttpDoor, guard::caller::Caller};
use base::{Failure, Result};
use std::sync::Arc;
use wire::control::Call;

/// A call that the door carries out itself, because what it needs is not the head's: keys, certificates, who has joined.
pub(in crate::doors::http) trait AtDoor: Call + Clone {
    /// Carries it out.
    fn carry_out(
        self,
        door: Arc<HttpDoor>,
        caller: Caller,
    ) -> impl Future<Output = Result<Self::Reply>> + Send;
}

/// Goes on when the client leaves: what the head has noted must be known here.
async fn unbroken<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let ended = tokio::spawn(work).await;
    ended.map_err(|cause| Failure::internal(format!("the call failed unexpectedly: {cause}")))?
}
