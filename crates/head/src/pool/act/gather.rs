//! Finds the replicas of a partition to evict first, page by page, because a partition may have millions.
//!
//! The pages come in the order of last use. If the pool evicts in that order, the first replicas that suffice are the
//! answer. Any other order needs all pages, of which only the first replicas in that order are kept.

use crate::{
    pool::decide::{
        collection::{Rank, rank},
        policy::CollectionOrder,
    },
    store::{Candidate, WalkPosition},
};
use base::FileId;
use std::collections::BTreeMap;

/// Most replicas that are kept in mind: if they are not enough, somebody gathers again when they are gone.
const KEPT_MAX: usize = 8192;

/// The first ones that go, among those that were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gather {
    order: CollectionOrder,
    /// Bytes that are wanted; more are kept, since some of those that are kept may not go after all.
    wanted: u64,
    kept: BTreeMap<(Rank, FileId), u64>,
    bytes: u64,
    /// What is to be seen next.
    after: WalkPosition,
    is_complete: bool,
}

impl Gather {
    pub(crate) fn new(order: CollectionOrder, wanted: u64) -> Self {
        let (kept, after) = (BTreeMap::new(), WalkPosition::START);
        Self { order, wanted: wanted.saturating_mul(2), kept, bytes: 0, after, is_complete: false }
    }

    /// What is to be seen next; `None`: enough was seen.
    pub(crate) fn next(&self) -> Option<WalkPosition> {
        (!self.is_complete).then_some(self.after)
    }

    /// Looks at a page that begins behind [`Self::next`]. The last one is shorter than the others.
    pub(crate) fn see(&mut self, page: &[Candidate], is_last: bool) {
        self.after = page.last().map_or(self.after, |last| last.place);
        for candidate in page.iter().filter(|candidate| candidate.may_go) {
            self.keep(candidate);
        }
        let is_enough = self.bytes >= self.wanted || self.kept.len() >= KEPT_MAX;
        self.is_complete = is_last || (is_enough && self.comes_before_the_rest());
    }

    /// Whether nothing that is still to be seen can come before what is kept. Some were used after they were put in order.
    fn comes_before_the_rest(&self) -> bool {
        let next = rank(self.order, 0, (self.after.used, self.after.used));
        let last = self.kept.last_key_value().map(|((rank, _), _)| *rank);
        self.order == CollectionOrder::LeastRecentlyUsed && last.is_some_and(|last| last <= next)
    }

    fn keep(&mut self, candidate: &Candidate) {
        let Candidate { used, file, size, created, .. } = *candidate;
        let rank = rank(self.order, size, (created, used.max(created)));
        self.bytes += size - self.kept.insert((rank, file), size).unwrap_or(0);
        // Without the last ones it is still enough.
        while let Some((_, last)) = self.kept.last_key_value()
            && (self.kept.len() > KEPT_MAX || self.bytes - last >= self.wanted)
        {
            self.bytes -= self.kept.pop_last().map_or(0, |(_, size)| size);
        }
    }

    /// Whether nothing is left of what was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Takes the first ones.
    pub(crate) fn take(&mut self, count: usize) -> Vec<FileId> {
        let mut taken = Vec::new();
        while taken.len() < count
            && let Some(((_, file), size)) = self.kept.pop_first()
        {
            self.bytes -= size;
            taken.push(file);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ObjectId, Timestamp, rng::Rng};

    fn candidate(number: u64, size: u64, created: i64) -> Candidate {
        let place = WalkPosition { used: Timestamp(1000 + number as i64), object: ObjectId(number) };
        let (used, file) = (place.used, FileId(number));
        Candidate { place, used, file, size, created: Timestamp(created), may_go: true }
    }

    /// Sees all pages as long as that is wanted; yields how many it took.
    fn see_all(gather: &mut Gather, all: &[Candidate], page: usize) -> usize {
        let mut pages = 0;
        while let Some(after) = gather.next() {
            let first = all.iter().position(|one| one.place > after).unwrap_or(all.len());
            let end = (first + page).min(all.len());
            gather.see(&all[first..end], end - first < page);
            pages += 1;
        }
        pages
    }

    #[test]
    fn the_least_recently_used_are_enough_as_soon_as_they_are() {
        let all: Vec<_> = (1..100).map(|number| candidate(number, 10, 5)).collect();
        let mut gather = Gather::new(CollectionOrder::LeastRecentlyUsed, 50);
        assert_eq!(see_all(&mut gather, &all, 4), 3, "twice of what is wanted");
        assert_eq!(gather.take(3), [FileId(1), FileId(2), FileId(3)]);
        assert_eq!(gather.take(100).len(), 7);
        assert_eq!(gather.take(1), []);
    }

    #[test]
    fn what_was_used_after_it_was_put_in_order_goes_after_what_was_not() {
        let mut all: Vec<_> = (1..100).map(|number| candidate(number, 10, 5)).collect();
        all.iter_mut().take(50).for_each(|one| one.used = Timestamp(5000 - one.place.used.0));
        let mut gather = Gather::new(CollectionOrder::LeastRecentlyUsed, 30);
        see_all(&mut gather, &all, 8);
        assert_eq!(gather.take(3), [FileId(51), FileId(52), FileId(53)]);
        let mut gather = Gather::new(CollectionOrder::LeastRecentlyUsed, u64::MAX / 2);
        see_all(&mut gather, &all, 8);
        assert_eq!(gather.take(99).last(), Some(&FileId(1)), "if nothing else is left, the others go too");
    }

    #[test]
    fn what_may_not_go_is_passed_over_and_the_end_is_found() {
        let mut all: Vec<_> = (1..10).map(|number| candidate(number, 10, 5)).collect();
        all.iter_mut().skip(1).for_each(|one| one.may_go = false);
        let mut gather = Gather::new(CollectionOrder::LeastRecentlyUsed, 50);
        assert_eq!(see_all(&mut gather, &all, 3), 4);
        assert_eq!(gather.take(9), [FileId(1)]);
        let mut none = Gather::new(CollectionOrder::Size, 50);
        assert_eq!(see_all(&mut none, &[], 3), 1);
        assert_eq!(none.take(9), []);
    }

    #[test]
    fn every_order_finds_its_first_ones_whatever_the_pages() {
        let mut rng = Rng::new(7);
        for round in 0..50 {
            let mut all: Vec<_> = (1..200)
                .map(|number| candidate(number, 1 + rng.below(1000), rng.below(1000) as i64))
                .collect();
            for order in [CollectionOrder::LeastRecentlyUsed, CollectionOrder::Age, CollectionOrder::Size] {
                let wanted = 1 + rng.below(30_000);
                let mut gather = Gather::new(order, wanted);
                see_all(&mut gather, &all, 1 + rng.below(60) as usize);
                let found = gather.take(usize::MAX);
                all.sort_by_key(|one| (rank(order, one.size, (one.created, one.place.used)), one.file));
                let first: Vec<_> = all.iter().take(found.len()).map(|one| one.file).collect();
                assert_eq!(found, first, "{order:?} {round}");
                let bytes: u64 = all.iter().take(found.len()).map(|one| one.size).sum();
                assert!(bytes >= wanted || found.len() == all.len(), "{order:?} {round}");
                all.sort_by_key(|one| one.place);
            }
        }
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let all: Vec<_> = (1..3 * KEPT_MAX as u64).map(|number| candidate(number, number, 5)).collect();
        let mut gather = Gather::new(CollectionOrder::Size, u64::MAX);
        see_all(&mut gather, &all, 1000);
        let found = gather.take(usize::MAX);
        assert_eq!((found.len(), found[0]), (KEPT_MAX, all.last().unwrap().file));
    }
}
