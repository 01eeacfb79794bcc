//! Counts the files that cannot be read from disk now, because no disk server with their bytes answers.
//!
//! When a partition goes away or comes back, this changes at once for millions of files, so the catalogue does not keep
//! the count. The head counts in small steps while partitions are away. It counts again after a while, because files
//! come and go. `bp status` shows the result.

use crate::{Core, pool::state_of, store::Node};
use base::{Millis, ObjectId, Result, Timestamp};
use wire::control::{FileCounts, FileState};

/// Replicas that are looked at in one step.
const STEP_LEN: usize = 256;
/// Pause before all is counted again.
const COUNT_AGAIN: Millis = Millis::from_seconds(60);

/// Files that have a disk replica which cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Those without a tape copy.
    out_of_reach: u64,
    /// Those that a recall brings back.
    on_tape: u64,
}

/// The count, and how far the next one is.
#[derive(Debug, Default)]
pub(crate) struct ReachCount {
    /// Partitions that it is about.
    away: Vec<String>,
    counted: Option<Unread>,
    round: Option<Round>,
    next: Timestamp,
}

#[derive(Debug)]
struct Round {
    /// Which of the partitions, and behind which of its objects.
    at: usize,
    after: ObjectId,
    found: Unread,
}

impl Round {
    const BEGIN: Self = Self { at: 0, after: ObjectId(0), found: Unread { out_of_reach: 0, on_tape: 0 } };
}

impl ReachCount {
    /// What is known: the last full count, or as much of the first one as there is.
    fn known(&self) -> Unread {
        self.counted.or(self.round.as_ref().map(|round| round.found)).unwrap_or_default()
    }

    /// Corrects what the catalogue has counted.
    pub(crate) fn correct(&self, counts: FileCounts) -> FileCounts {
        let Unread { out_of_reach, on_tape } = self.known();
        let out_of_reach = out_of_reach.min(counts.online);
        let on_tape = on_tape.min(counts.online - out_of_reach);
        FileCounts {
            online: counts.online - out_of_reach - on_tape,
            nearline: counts.nearline + on_tape,
            out_of_reach,
            ..counts
        }
    }
}

/// Counts some, if partitions are away. Yields whether there is more to count now.
pub(in crate::pool) fn count_some(core: &mut Core, now: Timestamp) -> Result<bool> {
    let mut count = std::mem::take(&mut core.live.reach);
    if !count.away.iter().eq(core.live.away.keys()) {
        count = ReachCount { away: core.live.away.keys().cloned().collect(), ..ReachCount::default() };
    }
    let is_due = !count.away.is_empty() && (count.round.is_some() || now >= count.next);
    let outcome = if is_due { step(core, &mut count, now) } else { Ok(()) };
    let is_more = count.round.is_some();
    core.live.reach = count;
    outcome.map(|()| is_more)
}

fn step(core: &Core, count: &mut ReachCount, now: Timestamp) -> Result<()> {
    let mut round = count.round.take().unwrap_or(Round::BEGIN);
    let Some(partition) = count.away.get(round.at) else { return Ok(()) };
    let page = core.store.online_on(partition, round.after, STEP_LEN)?;
    for (object, file) in &page {
        round.after = *object;
        let Some(node) = core.store.node(*file)?.filter(|node| !node.is_in_trash()) else { continue };
        if is_first(core, &node, *object) {
            match state_of(core, &node) {
                FileState::OutOfReach => round.found.out_of_reach += 1,
                FileState::Nearline => round.found.on_tape += 1,
                _ => {}
            }
        }
    }
    if page.len() < STEP_LEN {
        (round.at, round.after) = (round.at + 1, ObjectId(0));
    }
    if round.at < count.away.len() {
        count.round = Some(round);
    } else {
        (count.counted, count.next) = (Some(round.found), now + COUNT_AGAIN);
    }
    Ok(())
}

/// Whether an object is the one of its file that is counted: partitions are gone through in the order of their names.
fn is_first(core: &Core, node: &Node, object: ObjectId) -> bool {
    let away = node.online().filter(|replica| core.live.away.contains_key(&replica.partition));
    let first = away.min_by_key(|replica| (&replica.partition, replica.object));
    first.is_some_and(|first| first.object == object)
}
