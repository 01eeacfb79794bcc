//! Who waits for locks, and which of these waits can never end.
//!
//! **Problem.** An owner that waits for a lock may itself have one that its holder waits for. The head must say so
//! (EDEADLK), but never when it is not so: it hears late that a program was interrupted, and an owner with several
//! threads may still give back what it has.
//!
//! **Idea.** A cycle of waiting owners is only a *doubt*. Each mount in it is asked whether the program still waits, and
//! with its only thread. Answers that were sent after the newest wait of the cycle was known prove that all of it was
//! there at one moment. Then the newest wait is refused. A doubt that is not answered changes nothing.
//!
//! Everything is in memory: a start of the head hears of waits again, because mounts repeat what is pending.

use crate::{ClientId, Lock, LockOwner, RequestId};
use base::{FileId, Millis, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An owner of locks.
pub type Owner = (ClientId, LockOwner);
/// A wait: whose, and its number there.
pub type WaitId = (ClientId, RequestId);

/// What a mount answers to a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assurance {
    /// The doubt.
    pub doubt: u64,
    /// The program still waits, and nothing else of it can give a lock back.
    pub is_certain: bool,
}

/// What whoever waits for a lock is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// To wait.
    Wait,
    /// To say whether the program still waits.
    Doubt(u64),
    /// It would wait for ever.
    Deadlock,
    /// It was given up.
    Cancelled,
}

/// A wait for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWait {
    /// Of which file.
    pub file: FileId,
    /// The lock as it was asked for.
    pub lock: Lock,
    /// Its owner may be in a cycle.
    pub is_posix: bool,
    /// Since when.
    pub since: Timestamp,
    /// When it was asked for last.
    heard: Timestamp,
    /// Numbers of one clock: when it began, the newest doubt, and the newest doubt that was answered with certainty.
    begun: u64,
    doubt: u64,
    certain: u64,
    /// The last doubt was answered with: perhaps. Its program may have been busy then; its mount looks again each time it asks.
    is_uncertain: bool,
    /// It was found out to be the one that is refused.
    is_victim: bool,
}

/// All who wait for locks.
#[derive(Debug, Clone, Default)]
pub struct LockWaits {
    waits: BTreeMap<WaitId, LockWait>,
    owners: BTreeMap<Owner, BTreeSet<WaitId>>,
    /// Waits that were given up: a call that was on its way meanwhile sets no lock.
    cancelled: BTreeMap<WaitId, Timestamp>,
    clock: u64,
}

/// A wait as a mount asks for it.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Its number.
    pub id: WaitId,
    /// Of which file.
    pub file: FileId,
    /// The lock.
    pub lock: Lock,
    /// Its owner may be in a cycle: `fcntl`. Linux does not look for cycles of `flock`.
    pub is_posix: bool,
    /// What it says to a doubt.
    pub assurance: Option<Assurance>,
}

impl LockWaits {
    /// Waits that are known at most. One more is not shown, and no cycle is found with it.
    pub const LEN_MAX: usize = 10_000;
    /// Owners that are looked at for a cycle at most; a longer one is not found.
    const STEPS_MAX: usize = 1000;
    /// A mount repeats its question every 5 s. What was not heard for so long is not shown.
    const SILENCE: Millis = Millis::from_seconds(30);
    /// For how long a wait is remembered that was given up: no call is on its way longer.
    const CANCELLED: Millis = Millis::from_seconds(60);

    /// Whether a wait was given up: its lock must not be set.
    #[must_use]
    pub fn is_cancelled(&self, id: WaitId) -> bool {
        self.cancelled.contains_key(&id)
    }

    /// A lock cannot be had now. `blockers`: owners whose locks on a file are in the way of one.
    ///
    /// Yields what the waiter is told, and the files at which others that wait are to look again.
    pub fn blocked(
        &mut self,
        asked: &Asked,
        now: Timestamp,
        blockers: impl Fn(&LockWait) -> Vec<Owner>,
    ) -> (Verdict, Vec<FileId>) {
        if self.is_cancelled(asked.id) {
            self.end(asked.id);
            return (Verdict::Cancelled, Vec::new());
        }
        if !self.note(asked, now) {
            return (Verdict::Wait, Vec::new());
        }
        if self.waits.get(&asked.id).is_some_and(|wait| wait.is_victim) {
            // It may have been freed since.
            let verdict = self.cycle(asked.id, &blockers).map(|_| Verdict::Deadlock);
            return self.told(asked.id, verdict.unwrap_or(Verdict::Wait));
        }
        let Some(cycle) = self.cycle(asked.id, &blockers) else { return (Verdict::Wait, Vec::new()) };
        self.judge(asked.id, &cycle)
    }

    fn told(&mut self, id: WaitId, verdict: Verdict) -> (Verdict, Vec<FileId>) {
        if verdict == Verdict::Deadlock {
            self.end(id);
        } else if let Some(wait) = self.waits.get_mut(&id) {
            wait.is_victim = false;
        }
        (verdict, Vec::new())
    }

    /// Enters a wait, or notes that it goes on. Yields whether it is known.
    fn note(&mut self, asked: &Asked, now: Timestamp) -> bool {
        let Asked { id, file, lock, is_posix, assurance } = *asked;
        if !self.waits.contains_key(&id) {
            self.forget_silent(now);
            if self.waits.len() >= Self::LEN_MAX {
                return false;
            }
            self.clock += 1;
            let (begun, since) = (self.clock, now);
            let wait = LockWait {
                file,
                lock,
                is_posix,
                since,
                heard: now,
                begun,
                doubt: 0,
                certain: 0,
                is_uncertain: false,
                is_victim: false,
            };
            self.waits.insert(id, wait);
            if is_posix {
                self.owners.entry((lock.client, lock.owner)).or_default().insert(id);
            }
        }
        let Some(wait) = self.waits.get_mut(&id) else { return false };
        wait.heard = now;
        if let Some(Assurance { doubt, is_certain }) = assurance {
            wait.is_uncertain = !is_certain;
            if is_certain && doubt <= wait.doubt {
                wait.certain = wait.certain.max(doubt);
            }
        }
        true
    }

    /// Says what a cycle means: for now a doubt, or that its newest wait is refused.
    fn judge(&mut self, id: WaitId, cycle: &[WaitId]) -> (Verdict, Vec<FileId>) {
        let members: Vec<_> =
            cycle.iter().filter_map(|id| self.waits.get(id).map(|wait| (*id, wait))).collect();
        if members.iter().any(|(_, wait)| wait.is_uncertain) {
            return (Verdict::Wait, Vec::new());
        }
        let Some(&(newest, _)) = members.iter().max_by_key(|(_, wait)| wait.begun) else {
            return (Verdict::Wait, Vec::new());
        };
        let begun = self.waits[&newest].begun;
        let doubted: Vec<_> =
            members.iter().filter(|(_, wait)| wait.certain <= begun).map(|(id, _)| *id).collect();
        if doubted.is_empty() {
            if newest == id {
                self.end(id);
                return (Verdict::Deadlock, Vec::new());
            }
            return (
                Verdict::Wait,
                self.waits
                    .get_mut(&newest)
                    .map(|wait| {
                        wait.is_victim = true;
                        wait.file
                    })
                    .into_iter()
                    .collect(),
            );
        }
        self.clock += 1;
        let mut wake = Vec::new();
        for other in doubted {
            let Some(wait) = self.waits.get_mut(&other) else { continue };
            if wait.doubt <= begun {
                wait.doubt = self.clock;
                wake.extend((other != id).then_some(wait.file));
            }
        }
        let own = &self.waits[&id];
        let verdict = if own.certain <= begun { Verdict::Doubt(own.doubt) } else { Verdict::Wait };
        (verdict, wake)
    }

    /// The waits of a cycle that begins and ends with this one. An owner that waits for several locks has several threads: any of
    /// them may give back what others wait for.
    fn cycle(&self, id: WaitId, blockers: &impl Fn(&LockWait) -> Vec<Owner>) -> Option<Vec<WaitId>> {
        let own = self.waits.get(&id).filter(|wait| wait.is_posix)?;
        let start = (own.lock.client, own.lock.owner);
        if self.only_wait(start) != Some(id) {
            return None;
        }
        let mut came_from = BTreeMap::new();
        let mut next = vec![id];
        let mut seen = BTreeSet::from([start]);
        while let Some(at) = next.pop() {
            for owner in blockers(self.waits.get(&at)?) {
                if owner == start {
                    return Some(way_back(&came_from, id, at));
                }
                let Some(wait) = self.only_wait(owner).filter(|_| seen.insert(owner)) else { continue };
                came_from.insert(wait, at);
                next.push(wait);
            }
            if seen.len() > Self::STEPS_MAX {
                return None;
            }
        }
        None
    }

    fn only_wait(&self, owner: Owner) -> Option<WaitId> {
        let waits = self.owners.get(&owner)?;
        waits.first().copied().filter(|_| waits.len() == 1)
    }

    /// A wait is over: the lock was set, or its program told that it is not.
    pub fn end(&mut self, id: WaitId) {
        let Some(wait) = self.waits.remove(&id) else { return };
        let owner = (wait.lock.client, wait.lock.owner);
        if let Some(waits) = self.owners.get_mut(&owner) {
            waits.remove(&id);
            if waits.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    /// The program was interrupted. Yields the file at which the call that waits is to look again.
    pub fn cancel(&mut self, id: WaitId, now: Timestamp) -> Option<FileId> {
        self.cancelled.retain(|_, since| now - *since < Self::CANCELLED);
        if self.cancelled.len() < Self::LEN_MAX {
            self.cancelled.insert(id, now);
        }
        let file = self.waits.get(&id).map(|wait| wait.file);
        self.end(id);
        file
    }

    /// A client is gone.
    pub fn forget_client(&mut self, client: ClientId) {
        let waits: Vec<_> = self.waits.keys().filter(|id| id.0 == client).copied().collect();
        for id in waits {
            self.end(id);
        }
        self.cancelled.retain(|id, _| id.0 != client);
    }

    /// Forgets who has not asked again in time.
    pub fn forget_silent(&mut self, now: Timestamp) {
        let silent = self.waits.iter().filter(|(_, wait)| now - wait.heard > Self::SILENCE);
        for id in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.end(id);
        }
    }

    /// All waits, those of a client together.
    pub fn iter(&self) -> impl Iterator<Item = &LockWait> {
        self.waits.values()
    }
}

/// The waits from `start` to `end`, by the way that was found.
fn way_back(came_from: &BTreeMap<WaitId, WaitId>, start: WaitId, end: WaitId) -> Vec<WaitId> {
    let mut way = vec![end];
    let mut at = end;
    while at != start {
        let Some(before) = came_from.get(&at) else { break };
        way.push(*before);
        at = *before;
    }
    way
}

#[cfg(test)]
mod tests;
