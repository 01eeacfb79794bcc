//! Fair share: who is served next, as a pure function of what everybody has used and uses now.
//!
//! Whoever has the lowest usage for their share goes next, level by level: first among the groups, then among the users of that
//! group, so that what siblings do elsewhere in the tree changes nothing here. What usage is, and how it decays, is said where it is
//! kept ([`FairShare`]).

use crate::store::{FairShare, Member, ShareAccount};
use base::{Millis, Timestamp};
use std::cmp::Ordering;

/// How urgent somebody is: usage for the share, then slots in use for the share. The lowest goes first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank(f64, f64);

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then_with(|| self.1.total_cmp(&other.1))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

/// How urgent a group is, or a user in it.
fn rank_of(account: ShareAccount, now: Timestamp, half_life: Millis) -> Rank {
    let (used, slots) = account.used(now, half_life);
    Rank(used / account.share, slots / account.share)
}

impl FairShare {
    /// How urgent a user is: their group first, then they among its users.
    pub(crate) fn rank(&self, member: &Member, now: Timestamp) -> (Rank, Rank) {
        let rank = |member: &Member| rank_of(self.account(member), now, self.half_life());
        (rank(&Member::group(&member.group)), rank(member))
    }

    /// Who of those that wait goes next; among equals the one that is named first.
    #[cfg(test)]
    pub(crate) fn next<'a>(
        &self,
        waiting: impl IntoIterator<Item = &'a Member>,
        now: Timestamp,
    ) -> Option<&'a Member> {
        let ranked = waiting.into_iter().map(|member| (self.rank(member, now), member));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, member)| member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;
    use std::collections::BTreeMap;
    use std::{cmp::Reverse, collections::BinaryHeap};

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    fn member(group: &str, user: &str) -> Member {
        Member { group: group.into(), user: user.into() }
    }

    /// Exponentially distributed lengths of jobs.
    struct Lengths(Rng, f64);

    impl Lengths {
        fn draw(&mut self) -> i64 {
            let uniform = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            (-(1.0 - uniform).ln() * self.1).max(1.0) as i64
        }
    }

    /// Slot milliseconds that each gets of `slots` until `end`, if all have always jobs from when they arrive.
    fn simulate(
        tree: &mut FairShare,
        arrivals: &[(Member, i64)],
        slots: usize,
        end: i64,
        mean: f64,
    ) -> Vec<i64> {
        let mut lengths = Lengths(Rng::new(1), mean);
        let mut events: BinaryHeap<Reverse<(i64, Option<usize>)>> =
            arrivals.iter().map(|(_, at)| Reverse((*at, None))).collect();
        let (mut free, mut used) = (slots, vec![0; arrivals.len()]);
        while let Some(Reverse((now, ended))) = events.pop().filter(|Reverse((now, _))| *now < end) {
            if let Some(who) = ended {
                tree.change(&arrivals[who].0, -1.0, Timestamp(now));
                free += 1;
            }
            while free > 0 {
                let waiting = arrivals.iter().filter(|(_, at)| *at <= now).map(|(member, _)| member);
                let Some(next) = tree.next(waiting, Timestamp(now)).cloned() else { break };
                let who = arrivals.iter().position(|(member, _)| *member == next).expect("it is one of them");
                let length = lengths.draw();
                tree.change(&next, 1.0, Timestamp(now));
                used[who] += length.min(end - now);
                free -= 1;
                events.push(Reverse((now + length, Some(who))));
            }
        }
        used
    }

    #[test]
    fn shares_of_three_to_one_give_three_to_one() {
        for half_life in [DAY, 7 * DAY] {
            let (a, b) = (member("a", "a"), member("b", "b"));
            let mut tree = FairShare::new(Millis(half_life), BTreeMap::new());
            tree.set_share(&Member::group("a"), 3.0);
            let used = simulate(&mut tree, &[(a, 0), (b, 0)], 8, 30 * DAY, 600_000.0);
            let ratio = used[0] as f64 / used[1] as f64;
            assert!((ratio - 3.0).abs() < 0.03, "{ratio} with a half-life of {half_life} ms");
        }
    }

    #[test]
    fn a_late_joiner_catches_up_as_far_as_the_past_is_remembered() {
        for (half_life, expected) in [(HOUR, 0.53), (DAY, 0.86)] {
            let (a, b) = (member("g", "a"), member("g", "b"));
            let mut tree = FairShare::new(Millis(half_life), BTreeMap::new());
            let used = simulate(&mut tree, &[(a, 0), (b, DAY / 2)], 8, DAY, 600_000.0);
            let part = used[1] as f64 / (8 * (DAY / 2)) as f64;
            assert!(
                (part - expected).abs() < 0.02,
                "{part} of the second half with a half-life of {half_life} ms"
            );
        }
    }

    #[test]
    fn eight_equals_with_short_jobs_get_the_same() {
        let all: Vec<_> = ('a'..='h').map(|name| (member("g", &name.to_string()), 0)).collect();
        let used = simulate(&mut FairShare::new(Millis(HOUR), BTreeMap::new()), &all, 8, 6 * HOUR, 20_000.0);
        let (most, least) =
            (used.iter().max().copied().unwrap_or(0), used.iter().min().copied().unwrap_or(1));
        assert!((most as f64) < 1.01 * least as f64, "{used:?}");
    }

    #[test]
    fn a_crowded_group_gets_no_more_than_a_lonely_user_of_another() {
        let mut all: Vec<_> = (0..9).map(|number| (member("crowd", &number.to_string()), 0)).collect();
        all.push((member("alone", "z"), 0));
        let used = simulate(&mut FairShare::new(Millis(DAY), BTreeMap::new()), &all, 8, 5 * DAY, 600_000.0);
        let crowd: i64 = used[..9].iter().sum();
        let ratio = crowd as f64 / used[9] as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }
}
