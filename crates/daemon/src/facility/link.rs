//! How the rooms of a host reach the head: in their own process, or over the network.

use base::{ErrorKind, Failure, Millis, Result};
use client::Control;
use disk::port::{Ask, HeadPort, Reply};
use head::{Apply, Head, Principal};
use net::blocking;

/// The connection to the head.
#[derive(Clone)]
pub enum Link {
    /// It runs in this process.
    Local(Head),
    /// It runs on another host.
    Remote(Control),
}

impl Link {
    /// Makes a call as a room of this host.
    pub async fn call<C: Apply>(&self, call: C) -> Result<C::Reply> {
        self.call_waiting(call, Millis(0)).await
    }

    /// Makes a call whose reply may be held back for up to `wait` while it is pending.
    pub async fn call_waiting<C: Apply>(&self, call: C, wait: Millis) -> Result<C::Reply> {
        match self {
            Self::Local(head) => head.call_waiting(&Principal::room("room"), call, wait).await,
            Self::Remote(control) => {
                let control = control.clone();
                blocking(move || control.call_waiting(&call, wait)).await
            }
        }
    }
}

impl<C: Apply> Ask<C> for Link {
    fn ask(&self, call: C, wait: Millis) -> Reply<'_, C> {
        Box::pin(self.call_waiting(call, wait))
    }
}

impl HeadPort for Link {
    fn may_come_back(&self, failure: &Failure) -> bool {
        match self {
            Self::Local(_) => failure.kind == ErrorKind::Unavailable,
            Self::Remote(_) => {
                matches!(
                    failure.kind,
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Locked
                )
            }
        }
    }
}
