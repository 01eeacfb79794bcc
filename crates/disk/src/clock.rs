//! The head's time on a host whose own clock may differ: rights begin and end by the head's clock.

use base::{Clock, Millis, Timestamp};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};
use tokio::sync::Notify;
use tracing::{info, warn};

/// What people should know of: certificates and logs go by the host's own clock.
const WORTH_SAYING: Millis = Millis::from_seconds(30);

/// The time at the head, as far as it said so.
pub struct HeadTime {
    own: Clock,
    /// What the head's clock is ahead of this host's.
    ahead: AtomicI64,
    doubted: Notify,
}

impl HeadTime {
    /// The time of `own`, until the head has said what time it is.
    pub fn new(own: Clock) -> Arc<Self> {
        Arc::new(Self { own, ahead: AtomicI64::new(0), doubted: Notify::new() })
    }

    /// A clock that shows it.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let time = Arc::clone(self);
        Arc::new(move || (time.own)() + Millis(time.ahead.load(Ordering::Relaxed)))
    }

    /// Something does not fit what time it is here: the head is to be asked now. Who was refused comes back at once.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Ends when somebody doubts.
    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }

    /// The head has said what time it is there, as long ago as its answer took.
    pub(crate) fn heard(&self, head: Timestamp) {
        let ahead = (head - (self.own)()).0;
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        let is_off = |ahead: i64| ahead.saturating_abs() > WORTH_SAYING.0;
        match (is_off(before), is_off(ahead)) {
            (false, true) => warn!(
                behind_s = ahead / 1000,
                "this host's clock differs from the head's; set the clock, or certificates will be rejected"
            ),
            (true, false) => info!("this host's clock agrees with the head's again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_head_says_counts_until_it_says_something_else() {
        let own = Arc::new(AtomicI64::new(1_000_000));
        let shown = Arc::clone(&own);
        let time = HeadTime::new(Arc::new(move || Timestamp(shown.load(Ordering::Relaxed))));
        let clock = time.clock();
        assert_eq!(clock(), Timestamp(1_000_000));
        time.heard(Timestamp(500_000));
        own.fetch_add(7, Ordering::Relaxed);
        assert_eq!(clock(), Timestamp(500_007));
        time.heard(Timestamp(2_000_000));
        assert_eq!(clock(), Timestamp(2_000_000));
    }
}
