//! The port through which a disk server calls the head.
//!
//! The disk server never depends on the head. The daemon gives it a [`HeadPort`], which reaches a head in the same
//! process or on another host. [`HeadPort`] lists every call that the disk server makes.

use base::{Failure, Millis, Result};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tracing::warn;
use wire::control::{
    AbandonWrite, AskObjects, BeginAdopted, BeginLive, BeginWrite, Call, CatalogueWindow, CommitWrite,
    CompareCatalogue, CompareObjects, CopyEnded, EndAdopted, FreeSpace, GetPieces, LiveFenced, LiveSealed,
    MendFinding, NextAdoption, NextCopies, NextFindings, NextLiveOrders, NextRemovals, NextScan,
    ObjectsRemoved, PlaceMirrors, RegisterPartition, ReportAdoption, ReportDamage, ReportMissing,
    ReportObjects, ReportScan, ReportSpace, ReportUse, RunMaintenance, WithdrawAdopted,
};

/// How long [`Head::insist`] repeats a call: longer than a restart of the head takes, shorter than clients wait.
const INSIST: Duration = Duration::from_secs(60);
/// Pause before it repeats it.
const PAUSE: Duration = Duration::from_millis(500);

/// A reply that is on its way.
pub type Reply<'a, C> = Pin<Box<dyn Future<Output = Result<<C as Call>::Reply>> + Send + 'a>>;

/// Carries one kind of call to the head.
pub trait Ask<C: Call> {
    /// Makes the call. A pending reply may be held back for up to `wait`.
    fn ask(&self, call: C, wait: Millis) -> Reply<'_, C>;
}

/// Declares [`HeadPort`] as the sum of the calls that it carries.
macro_rules! head_port {
    ($($call:ident),* $(,)?) => {
        /// The head as a disk server sees it.
        pub trait HeadPort: $(Ask<$call> +)* Send + Sync {
            /// Whether the same call may succeed a moment later.
            fn may_come_back(&self, failure: &Failure) -> bool;
        }
    };
}

head_port! {
    AbandonWrite, AskObjects, BeginAdopted, BeginLive, BeginWrite, CatalogueWindow, CommitWrite, CompareCatalogue, CompareObjects, CopyEnded, EndAdopted, FreeSpace,
    GetPieces, LiveFenced, LiveSealed, MendFinding, NextAdoption, NextCopies, NextFindings, NextLiveOrders, NextRemovals, NextScan, ObjectsRemoved, PlaceMirrors,
    RegisterPartition, ReportAdoption, ReportDamage, ReportMissing, ReportScan, ReportSpace, ReportUse,
    ReportObjects, RunMaintenance, WithdrawAdopted,
}

/// A shared [`HeadPort`].
#[derive(Clone)]
pub struct Head(Arc<dyn HeadPort>);

impl Head {
    /// A head that is reached through `head`.
    pub fn new(head: impl HeadPort + 'static) -> Self {
        Self(Arc::new(head))
    }

    /// Makes a call.
    pub(crate) async fn call<C: Call>(&self, call: C) -> Result<C::Reply>
    where
        dyn HeadPort: Ask<C>,
    {
        self.call_waiting(call, Millis(0)).await
    }

    /// Makes a call whose reply may be held back for up to `wait` while it is pending.
    pub(crate) async fn call_waiting<C: Call>(&self, call: C, wait: Millis) -> Result<C::Reply>
    where
        dyn HeadPort: Ask<C>,
    {
        self.0.ask(call, wait).await
    }

    /// Makes a call again and again while the head is out of reach, or waits for disk servers itself. Only for calls that may be
    /// carried out twice.
    pub(crate) async fn insist<C: Call + Clone>(&self, call: C) -> Result<C::Reply>
    where
        dyn HeadPort: Ask<C>,
    {
        let (deadline, mut is_told) = (Instant::now() + INSIST, false);
        loop {
            match self.call(call.clone()).await {
                Err(failure) if self.0.may_come_back(&failure) && Instant::now() < deadline => {
                    if !std::mem::replace(&mut is_told, true) {
                        warn!(call = C::NAME, %failure, "the head cannot carry out a call now; retrying");
                    }
                    sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}
