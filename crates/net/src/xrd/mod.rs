//! The XRootD door: a session loop over any [`Service`] (spec/xrootd.md).

mod service;

pub use service::*;

use crate::{listener::Listener, shutdown::Shutdown};
use std::sync::Arc;

/// Accepts connections and runs their sessions under `shutdown` until that stops.
pub fn serve<S: Service>(service: Arc<S>, listener: Listener, shutdown: &Shutdown) {
    let token = shutdown.token();
    shutdown.spawn("xrootd door", async move {
        while let Some(connection) = listener.accept(&token).await {
            let _ = (&service, connection);
        }
    });
}
