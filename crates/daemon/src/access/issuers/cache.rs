//! The cache of an issuer's keys: when they are valid and when to fetch them, as a pure function of state and time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use wire::auth::token::issued::KeySet;

/// After this long keys are asked for again.
pub(super) const REFRESH: Duration = Duration::from_secs(6 * 3600);
/// So long keys are good whose issuer does not answer.
pub(super) const STALE_MAX: Duration = Duration::from_secs(2 * 24 * 3600);
/// Pause after an attempt that failed, and between those for the sake of a key that is not known.
pub(super) const PAUSE: Duration = Duration::from_secs(5 * 60);
/// Pause after an attempt that failed while there are no keys at all.
pub(super) const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(30);

/// The keys of one issuer.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    /// And when they were fetched.
    keys: Option<(Arc<KeySet>, Instant)>,
    /// The last attempt that failed.
    failed: Option<Instant>,
    /// The last attempt because of a key that was not known.
    asked: Option<Instant>,
}

impl Cache {
    /// The keys, if they are good.
    pub(super) fn keys(&self, now: Instant) -> Option<Arc<KeySet>> {
        let (keys, fetched) = self.keys.as_ref()?;
        (now.saturating_duration_since(*fetched) < STALE_MAX).then(|| Arc::clone(keys))
    }

    /// When they should be fetched next, whoever comes.
    pub(super) fn due(&self, now: Instant) -> Instant {
        let due = self.keys.as_ref().map_or(now, |(_, fetched)| *fetched + REFRESH);
        let pause = if self.keys(now).is_some() { PAUSE } else { PAUSE_WITHOUT_KEYS };
        self.failed.map_or(due, |failed| due.max(failed + pause))
    }

    /// Whether they may be fetched for the sake of a key that is not among them; if so, the attempt is noted.
    pub(super) fn may_ask(&mut self, now: Instant) -> bool {
        if self.keys(now).is_none() {
            return self.due(now) <= now;
        }
        let is_over = |last: Instant| now.saturating_duration_since(last) >= PAUSE;
        let may = self.asked.is_none_or(is_over) && self.failed.is_none_or(is_over);
        if may {
            self.asked = Some(now);
        }
        may
    }

    /// Notes what an attempt brought; one that failed takes nothing away.
    pub(super) fn fetched(&mut self, keys: Option<KeySet>, now: Instant) {
        match keys {
            Some(keys) => {
                self.keys = Some((Arc::new(keys), now));
                self.failed = None;
            }
            None => self.failed = Some(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn keys_are_fetched_again_and_outlive_their_issuer_for_two_days() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        assert!(cache.keys(start).is_none());
        assert_eq!(cache.due(start), start);
        cache.fetched(Some(KeySet::default()), start);
        assert_eq!(cache.due(start), start + REFRESH);
        cache.fetched(None, start + REFRESH);
        assert_eq!(cache.due(start + REFRESH), start + REFRESH + PAUSE);
        assert!(cache.keys(start + STALE_MAX.saturating_sub(SECOND)).is_some());
        let end = start + STALE_MAX;
        assert!(cache.keys(end).is_none());
        cache.fetched(None, end);
        assert_eq!(cache.due(end), end + PAUSE_WITHOUT_KEYS);
        cache.fetched(Some(KeySet::default()), end + PAUSE);
        assert_eq!(cache.due(end + PAUSE), end + PAUSE + REFRESH);
        assert!(cache.keys(end + PAUSE).is_some());
    }

    #[test]
    fn unknown_keys_are_asked_for_once_in_five_minutes() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        assert!(cache.may_ask(start));
        cache.fetched(Some(KeySet::default()), start);
        assert!(cache.may_ask(start + SECOND));
        cache.fetched(Some(KeySet::default()), start + SECOND);
        assert!(!cache.may_ask(start + PAUSE));
        assert!(cache.may_ask(start + SECOND + PAUSE));
    }

    #[test]
    fn an_issuer_that_does_not_answer_is_left_alone() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        assert!(cache.may_ask(start));
        cache.fetched(None, start);
        assert!(!cache.may_ask(start + PAUSE_WITHOUT_KEYS.saturating_sub(SECOND)));
        assert!(cache.may_ask(start + PAUSE_WITHOUT_KEYS));
        cache.fetched(Some(KeySet::default()), start + PAUSE_WITHOUT_KEYS);
        cache.fetched(None, start + REFRESH);
        assert!(!cache.may_ask(start + REFRESH + SECOND));
        assert!(cache.may_ask(start + REFRESH + PAUSE));
    }
}
