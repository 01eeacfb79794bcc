//! Rows of fair share: the shares of groups and users, their past usage and their running jobs.
//!
//! The usage of a user decays with a half-life, and running jobs add to it: U' = rate − λU. So a row changes only when
//! a job starts or ends, and is exact at any time between without a timer.

use crate::store::{Store, StoreResult, document, json};
use base::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Time in which what somebody has used of the slots counts half, if the configuration says nothing else: as others have it.
pub(crate) const HALF_LIFE: Millis = Millis::from_seconds(7 * 24 * 3600);

/// What somebody has used and uses, in weighted slot seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Decayed seconds, as of `at`.
    used: f64,
    /// Slots in use.
    rate: f64,
    at: Timestamp,
}

impl Usage {
    /// Seconds that count at `now`. A clock that was set back changes nothing.
    fn at(&self, now: Timestamp, half_life: Millis) -> f64 {
        let span = (now - self.at).0.max(0) as f64 / 1000.0;
        let lambda = std::f64::consts::LN_2 / (half_life.0.max(1) as f64 / 1000.0);
        let decay = (-lambda * span).exp();
        self.used * decay + self.rate * (1.0 - decay) / lambda
    }

    /// From `now` on, `by` slots more are in use.
    fn change(&mut self, by: f64, now: Timestamp, half_life: Millis) {
        self.used = self.at(now, half_life);
        self.at = self.at.max(now);
        self.rate = (self.rate + by).max(0.0);
    }
}

/// Whose jobs: a user in a group; or a group, where the user is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) user: String,
}

impl Member {
    /// A group as a whole.
    pub(crate) fn group(name: &str) -> Self {
        Self { group: name.to_owned(), user: String::new() }
    }
}

/// An entry of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShareAccount {
    /// In any unit; 1 if nobody said another.
    pub(crate) share: f64,
    usage: Usage,
}

impl Default for ShareAccount {
    fn default() -> Self {
        Self { share: 1.0, usage: Usage::default() }
    }
}

impl ShareAccount {
    /// Decayed slot seconds at `now`, and slots in use.
    pub(crate) fn used(&self, now: Timestamp, half_life: Millis) -> (f64, f64) {
        (self.usage.at(now, half_life), self.usage.rate)
    }
}

/// Groups and their users with what they have used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FairShare {
    half_life: Millis,
    accounts: BTreeMap<Member, ShareAccount>,
}

impl FairShare {
    /// As it was stored.
    pub(crate) fn new(half_life: Millis, accounts: BTreeMap<Member, ShareAccount>) -> Self {
        Self { half_life, accounts }
    }

    /// Time in which usage counts half.
    pub(crate) fn half_life(&self) -> Millis {
        self.half_life
    }

    /// All that have used something or were given a share.
    pub(crate) fn accounts(&self) -> &BTreeMap<Member, ShareAccount> {
        &self.accounts
    }

    /// The account of a group or of a user in it.
    pub(crate) fn account(&self, member: &Member) -> ShareAccount {
        self.accounts.get(member).copied().unwrap_or_default()
    }

    /// Gives a group, or a user within their group, a share.
    pub(crate) fn set_share(&mut self, member: &Member, share: f64) {
        self.accounts.entry(member.clone()).or_default().share = share;
    }

    /// From `now` on a user has so many slots more in use, or less.
    pub(crate) fn change(&mut self, member: &Member, slots: f64, now: Timestamp) {
        for member in [Member::group(&member.group), member.clone()] {
            self.accounts.entry(member).or_default().usage.change(slots, now, self.half_life);
        }
    }
}

impl Store {
    /// Shares and usage of everybody.
    pub(crate) fn fair_share(&self) -> StoreResult<Arc<FairShare>> {
        self.fair_share.get(|| self.read_fair_share())
    }

    fn read_fair_share(&self) -> StoreResult<FairShare> {
        // Nothing of this table waits to be written.
        let sql = "SELECT grp, member, document FROM fair_share";
        let rows = self.all_now(sql, (), |row| {
            Ok((Member { group: row.get(0)?, user: row.get(1)? }, document::<ShareAccount>(row, 2)?))
        })?;
        Ok(FairShare::new(self.half_life.get(), rows.into_iter().collect()))
    }

    /// Says after which time usage counts half.
    pub(crate) fn set_half_life(&self, half_life: Millis) {
        self.half_life.set(half_life);
        self.fair_share.change();
    }

    /// A user has so many slots more in use, or less.
    pub(crate) fn change_slots(&self, member: &Member, slots: f64, now: Timestamp) -> StoreResult<()> {
        self.fair_share.update(|| self.read_fair_share(), |all| all.change(member, slots, now))?;
        self.write_share(&Member::group(&member.group))?;
        self.write_share(member)
    }

    /// Gives a group or a user a share.
    pub(crate) fn set_share(&self, member: &Member, share: f64) -> StoreResult<()> {
        self.fair_share.update(|| self.read_fair_share(), |all| all.set_share(member, share))?;
        self.write_share(member)
    }

    fn write_share(&self, member: &Member) -> StoreResult<()> {
        let account = self.fair_share()?.account(member);
        self.run(
            "INSERT INTO fair_share (grp, member, document) VALUES (?1, ?2, ?3)
             ON CONFLICT (grp, member) DO UPDATE SET document = ?3",
            (&member.group, &member.user, json(&account)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_the_same_however_often_somebody_looks() {
        let half_life = Millis(3_600_000);
        let mut seldom = Usage::default();
        seldom.change(2.0, Timestamp(0), half_life);
        let mut often = seldom;
        for minute in 1..=90 {
            often.change(0.0, Timestamp(minute * 60_000), half_life);
        }
        let end = Timestamp(90 * 60_000);
        assert!((seldom.at(end, half_life) - often.at(end, half_life)).abs() < 1e-6);
        let stored: Usage = serde_json::from_str(&serde_json::to_string(&often).unwrap()).unwrap();
        assert_eq!(stored, often, "a restart changes nothing");
        assert!(
            (often.at(Timestamp(0), half_life) - often.used).abs() < 1e-9,
            "nor does a clock that was set back"
        );
    }
}
