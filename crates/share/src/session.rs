//! A client as the head sees it.

use base::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// What a session may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It renews its lease.
    Live,
    /// It has not renewed its lease in time. It keeps what it has, and may come back, until somebody else wants that.
    Silent,
    /// What it had is fenced. It greets anew, as another session.
    Evicted,
}

/// A session. When it was evicted is durable; when it last renewed is not, and counts from the start of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Session {
    /// When its last renewal was received, by a clock of the head that never jumps.
    pub renewed: Timestamp,
    /// It lost its grants.
    pub is_evicted: bool,
}

impl Session {
    /// How long a client may serve what it has cached after it sent its last renewal, by its own clock.
    pub const LEASE: Millis = Millis::from_seconds(20);
    /// What two clocks may differ in that time, a thousandfold of what they do, and a pause of the client between a look at its
    /// clock and its answer.
    pub const MARGIN: Millis = Millis::from_seconds(5);

    /// How it stands.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        match self {
            Self { is_evicted: true, .. } => Standing::Evicted,
            session if now - session.renewed <= Self::LEASE => Standing::Live,
            _ => Standing::Silent,
        }
    }

    /// Whether the client serves nothing from its cache any more, by any clock: it counts from when it *sent* its renewal, which is
    /// before that was received.
    #[must_use]
    pub fn is_lease_over(&self, now: Timestamp) -> bool {
        now > self.renewed + Self::LEASE + Self::MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_no_end_and_the_head_waits_longer_than_the_client() {
        let session = Session { renewed: Timestamp(1000), is_evicted: false };
        let end = session.renewed + Session::LEASE;
        assert_eq!(session.standing(end), Standing::Live);
        let late = end + Session::MARGIN;
        assert_eq!((session.standing(late), session.is_lease_over(late)), (Standing::Silent, false));
        assert!(session.is_lease_over(late + Millis(1)));
        assert_eq!(Session { is_evicted: true, ..session }.standing(session.renewed), Standing::Evicted);
    }
}
