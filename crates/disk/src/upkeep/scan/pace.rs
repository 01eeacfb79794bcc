//! Rate limit for background work.

use net::shutdown::Token;
use std::time::{Duration, Instant};
use wire::control::ScanPace;

/// How much of what a pace allowed may be made up for: a question to the head takes a while, and is no reason to be late.
const CATCH_UP: Duration = Duration::from_millis(250);
/// Longest pause at once: who stops the daemon does not wait.
const NAP: Duration = Duration::from_millis(200);

/// Keeps to a pace, and leaves the disk to others for at least as long as it was busy with it.
#[derive(Clone)]
pub(crate) struct Pace {
    bounds: ScanPace,
    /// When the next thing may be done.
    next: Instant,
    began: Instant,
}

impl Pace {
    pub(crate) fn new(bounds: ScanPace) -> Self {
        Self { bounds, next: Instant::now(), began: Instant::now() }
    }

    /// The pace of one of several that share this one.
    pub(crate) fn share(&self, among: u64) -> Self {
        let ScanPace { objects_per_s, bytes_per_s, .. } = self.bounds;
        let among = among.max(1);
        let (objects_per_s, bytes_per_s) = ((objects_per_s / among).max(1), (bytes_per_s / among).max(1));
        Self { bounds: ScanPace { objects_per_s, bytes_per_s, ..self.bounds }, ..self.clone() }
    }

    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Waits after so much was done. False if it is time to stop.
    pub(super) fn rest(&mut self, objects: u64, bytes: u64, token: &Token) -> bool {
        self.rest_unless(objects, bytes, || token.is_stopped())
    }

    /// The same, where others say when it is time to stop.
    pub(crate) fn rest_unless(&mut self, objects: u64, bytes: u64, is_stopped: impl Fn() -> bool) -> bool {
        let spent =
            objects as f64 / self.bounds.objects_per_s as f64 + bytes as f64 / self.bounds.bytes_per_s as f64;
        let now = Instant::now();
        let busy = now - self.began;
        let earliest = self.began.checked_sub(CATCH_UP).unwrap_or(self.began);
        self.next = self.next.max(earliest) + Duration::from_secs_f64(spent.min(3600.0));
        let until = self.next.max(now + busy);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if is_stopped() {
                return false;
            }
            if left.is_zero() {
                self.begin();
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_and_given_up_when_the_daemon_stops() {
        let shutdown = net::shutdown::Shutdown::new();
        let mut pace =
            Pace::new(ScanPace { is_checksummed: true, objects_per_s: 1000, bytes_per_s: 1_000_000 });
        let began = Instant::now();
        pace.begin();
        for _ in 0..10 {
            assert!(pace.rest(5, 10_000, &shutdown.token()));
        }
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
        shutdown.tell();
        assert!(!pace.rest(1_000_000, 0, &shutdown.token()), "it does not wait for a quarter of an hour");
    }

    #[test]
    fn what_took_longer_is_made_up_for_but_not_a_long_pause() {
        let shutdown = net::shutdown::Shutdown::new();
        let bounds = ScanPace { is_checksummed: false, objects_per_s: 10_000, bytes_per_s: 1 };
        let ago = Instant::now().checked_sub(Duration::from_secs(10)).expect("the host runs for longer");
        let mut pace = Pace { bounds, next: ago, began: Instant::now() };
        assert!(pace.rest(100, 0, &shutdown.token()));
        assert!(pace.next < Instant::now(), "240 ms are left to be made up for");
        assert!(pace.rest(3000, 0, &shutdown.token()));
        assert!(pace.next.elapsed() < Duration::from_millis(100), "what was late is made up for");
        assert!(pace.next > ago + Duration::from_secs(9), "ten seconds are not");
    }
}
