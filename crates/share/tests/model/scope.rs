//! Which events a run knows, and what it does wrong.

use base::ByteRange;
use share::Mode;

pub(crate) const HALVES: [ByteRange; 2] = [ByteRange { offset: 0, end: 1 }, ByteRange { offset: 1, end: 2 }];
/// Two halves of the file, and all of it.
const WHOLE: ByteRange = ByteRange { offset: 0, end: 2 };
const RANGES: [ByteRange; 3] = [HALVES[0], HALVES[1], WHOLE];

/// What may happen: all of it at once would be more states than anybody can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) modes: &'static [Mode],
    pub(crate) ranges: &'static [ByteRange],
    /// Starts of the head.
    pub(crate) heads: u64,
    pub(crate) servers_are_lost: bool,
    /// Clients cache. Without it they never do, and nobody waits for a lease.
    pub(crate) has_leases: bool,
}

impl Scope {
    /// Ranges are given to different writers, and taken from them.
    pub(crate) const HALVES: Self =
        Self { modes: &[Mode::Write], ranges: &RANGES, heads: 1, servers_are_lost: false, has_leases: false };
    /// Readers cache, writers come.
    pub(crate) const CACHES: Self = Self {
        modes: &[Mode::Read, Mode::Write],
        ranges: &[WHOLE],
        heads: 1,
        servers_are_lost: false,
        has_leases: true,
    };
    /// The head is replaced, and may not know it.
    pub(crate) const HEADS: Self = Self {
        modes: &[Mode::Write],
        ranges: &[WHOLE],
        heads: 2,
        servers_are_lost: false,
        has_leases: false,
    };
    /// A disk server comes back without its log.
    pub(crate) const LOST: Self =
        Self { modes: &[Mode::Write], ranges: &[WHOLE], heads: 1, servers_are_lost: true, has_leases: false };
    pub(crate) const ALL: [Self; 4] = [Self::HALVES, Self::CACHES, Self::HEADS, Self::LOST];
}

/// What is done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A grant is over as soon as its client is declared dead.
    GrantsWithoutFences,
    /// A returned grant is over at once: nothing of it can be on the way.
    ReturnsWithoutFences,
    /// A head that starts and hears nobody begins with no grants.
    ClearsAtStart,
    /// A head that was replaced commits what it decides.
    CommitsWhenReplaced,
    /// A disk server that starts has forgotten its fences, and serves.
    FencesForgotten,
    /// An acknowledgement counts for whatever is being fenced.
    AcknowledgesAnything,
    /// A client that asks anew is told that it has what it is returning.
    AnswersWithOldGrants,
    /// A range is given away while an evicted client may still serve it from its cache.
    LeaseNotAwaited,
}

impl Mistake {
    /// Each, and where it shows.
    pub(crate) const ALL: [(Self, Scope); 8] = [
        (Self::GrantsWithoutFences, Scope::CACHES),
        (Self::ReturnsWithoutFences, Scope::CACHES),
        (Self::ClearsAtStart, Scope::HEADS),
        (Self::CommitsWhenReplaced, Scope::HEADS),
        (Self::FencesForgotten, Scope::LOST),
        (Self::AcknowledgesAnything, Scope::CACHES),
        (Self::AnswersWithOldGrants, Scope::CACHES),
        (Self::LeaseNotAwaited, Scope::CACHES),
    ];
}
