//! Unused reservations of open writes: the limit of each user, and when the head takes them back.
//!
//! A client announces the size of its file, and the head reserves that much. A client that announces a size and sends
//! nothing must not keep others out. So the reserved but unwritten bytes of one user are limited to a part of a pool.
//! The head does not refuse writes beyond that, but reserves nothing for them: they go on as long as there is space. It
//! takes back the reservation of a write that makes no progress.

use crate::{
    Core,
    pool::decide::view::PartitionState,
    store::{Replica, ReplicaState},
};
use base::{Failure, Millis, ObjectId, Result, Timestamp, units::human_bytes};
use std::collections::BTreeMap;
use tracing::info;
use wire::control::ReportSpace;

/// A write that has not come so much further has made no progress: a slow line sends that in five minutes.
const PROGRESS_BYTES_MIN: u64 = 1 << 20;
/// Room is given back after this time without progress, while others are refused for want of it.
const IDLE_WHILE_WANTED: Millis = Millis::from_seconds(300);
/// And after this time in any case: clients give up a stuck transfer earlier.
const IDLE_MAX: Millis = Millis::from_seconds(1800);
/// So long after a refusal for want of room others are taken to wait for it.
const WANTED_FOR: Millis = Millis::from_seconds(300);

/// Progress of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    written: u64,
    /// When it had come so far.
    since: Timestamp,
    /// Its room beyond that was given back.
    is_released: bool,
}

impl Progress {
    /// A write that was seen first.
    #[must_use]
    pub(crate) fn new(written: u64, now: Timestamp) -> Self {
        Self { written, since: now, is_released: false }
    }

    /// Notes how far it has come.
    pub(crate) fn note(&mut self, written: u64, now: Timestamp) {
        // A clock that was set back must not make it wait for ever.
        if written >= self.written.saturating_add(PROGRESS_BYTES_MIN)
            || written < self.written
            || now < self.since
        {
            (self.written, self.since) = (written, now);
        }
    }

    /// Whether its unused room is to be given back; `wanted` is when somebody was refused last for want of room.
    #[must_use]
    pub(crate) fn is_idle(&self, wanted: Option<Timestamp>, now: Timestamp) -> bool {
        let is_wanted = wanted.is_some_and(|wanted| now - wanted < WANTED_FOR);
        let patience = if is_wanted { IDLE_WHILE_WANTED } else { IDLE_MAX };
        now - self.since >= patience
    }
}

/// Bytes of `wanted` that are promised to a user who has `own` bytes reserved and not written, in a pool with `free` bytes of which
/// one user may have `permille` thousandths.
#[must_use]
pub(crate) fn promised_bytes(wanted: u64, own: u64, free: u64, permille: u16) -> u64 {
    let share = (u128::from(free) * u128::from(permille) / 1000) as u64;
    wanted.min(share.saturating_sub(own))
}

/// What is known of reservations, lost when the head stops: then their time begins anew.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Writes under way, by partition.
    writes: BTreeMap<String, BTreeMap<ObjectId, Progress>>,
    /// When somebody was refused last for want of room, by pool.
    wanted: BTreeMap<String, Timestamp>,
}

impl Reservations {
    /// Somebody was refused for want of room.
    pub(in crate::pool) fn note_wanted(&mut self, pool: &str, now: Timestamp) {
        self.wanted.insert(pool.to_owned(), now);
    }

    fn written(&self, replica: &Replica) -> u64 {
        let writes = self.writes.get(&replica.partition);
        writes.and_then(|writes| writes.get(&replica.object)).map_or(0, |progress| progress.written)
    }
}

/// Takes what a disk server says of its writes, `unsettled` in the catalogue, and gives room back that is not used. Yields the objects
/// whose room the disk server gives back, too.
pub(in crate::pool) fn release_idle(
    core: &mut Core,
    (report, pool): (&ReportSpace, &str),
    unsettled: &[Replica],
    now: Timestamp,
) -> Result<Vec<ObjectId>> {
    let written: BTreeMap<_, _> = report.writing.iter().zip(&report.written).collect();
    let mut known = core.live.reservations.writes.remove(&report.partition).unwrap_or_default();
    let wanted = core.live.reservations.wanted.get(pool).copied();
    let (mut writes, mut released) = (BTreeMap::new(), Vec::new());
    for replica in unsettled.iter().filter(|replica| replica.state == ReplicaState::Writing) {
        let Some(written) = written.get(&replica.object).map(|written| **written) else { continue };
        let mut progress = known.remove(&replica.object).unwrap_or_else(|| Progress::new(written, now));
        progress.note(written, now);
        // Room that people have reserved until a time is theirs until then.
        let is_kept = replica.held_until().is_some_and(|until| until > now);
        if written < replica.size && !is_kept && progress.is_idle(wanted, now) {
            info!(object = %replica.object, owner = replica.owner, size = replica.size, written,
                "a write made no progress; its reserved space was released");
            core.store.put_replica(&Replica { size: written, ..replica.clone() })?;
            progress.is_released = true;
        }
        if progress.is_released {
            released.push(replica.object);
        }
        writes.insert(replica.object, progress);
    }
    core.live.reservations.writes.insert(report.partition.clone(), writes);
    Ok(released)
}

/// Free and reserved space of a pool, for the limit of one user.
struct PoolSpace {
    free: u64,
    promised: u64,
    partitions: Vec<String>,
}

fn room(core: &Core, pool: &str) -> Result<PoolSpace> {
    let rows = core.store.map_partitions(|(name, row)| {
        let counts = row.pool == pool && row.state == PartitionState::InUse && row.given_up.is_none();
        counts.then(|| (name.clone(), row.free_bytes(), row.promised))
    })?;
    let mut room = PoolSpace { free: 0, promised: 0, partitions: Vec::with_capacity(rows.len()) };
    for (name, free, promised) in rows {
        room.free = room.free.saturating_add(free);
        room.promised = room.promised.saturating_add(promised);
        room.partitions.push(name);
    }
    Ok(room)
}

/// Bytes that a user has reserved in a pool and not written, `but` for one object.
fn own_bytes(core: &Core, room: &PoolSpace, owner: &str, but: ObjectId) -> Result<u64> {
    let mut own = 0_u64;
    for partition in &room.partitions {
        for replica in core.store.unsettled(partition, ReplicaState::Writing)? {
            if replica.owner == owner && replica.object != but {
                own =
                    own.saturating_add(replica.size.saturating_sub(core.live.reservations.written(&replica)));
            }
        }
    }
    Ok(own)
}

/// Takes back what was promised to a new write beyond the share of its user, but not the `least` bytes that it begins with.
pub(in crate::pool) fn trim(
    core: &mut Core,
    replica: Replica,
    (pool, least): (&str, u64),
) -> Result<Replica> {
    let permille = core.store.policy(pool)?.user_reserved_permille;
    let room = room(core, pool)?;
    // As long as all have promised no more than one may have, nobody is looked at.
    if replica.size == 0 || promised_bytes(room.promised, 0, room.free, permille) == room.promised {
        return Ok(replica);
    }
    let own = own_bytes(core, &room, &replica.owner, replica.object)?;
    let size = promised_bytes(replica.size, own, room.free, permille).max(least);
    if size >= replica.size {
        return Ok(replica);
    }
    let trimmed = Replica { size, ..replica };
    core.store.put_replica(&trimmed)?;
    Ok(trimmed)
}

/// Refuses to reserve room ahead of a write beyond the share of a user: half of it would be of no use.
pub(in crate::pool) fn refuse_beyond_share(core: &Core, owner: &str, pool: &str) -> Result<()> {
    let permille = core.store.policy(pool)?.user_reserved_permille;
    let room = room(core, pool)?;
    let own = own_bytes(core, &room, owner, ObjectId(0))?;
    if promised_bytes(own, 0, room.free, permille) == own {
        return Ok(());
    }
    let (own, share) = (human_bytes(own), human_bytes(promised_bytes(u64::MAX, 0, room.free, permille)));
    Err(Failure::no_space(format!(
        "{owner} would reserve {own} in pool {pool}; one user may reserve {share}, a share of the free space"
    ))
    .hint(
        "write or remove the reserved files (`bp rm`), or ask the operator to raise the limit with `bp pool set \
            --user-reserve`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: Timestamp = Timestamp(1_700_000_000_000);
    const MIB: u64 = 1 << 20;

    fn at(seconds: i64) -> Timestamp {
        START + Millis::from_seconds(seconds)
    }

    #[test]
    fn room_without_progress_is_given_back_sooner_where_others_want_it() {
        let progress = Progress::new(0, START);
        assert!(!progress.is_idle(None, at(1799)) && progress.is_idle(None, at(1800)));
        assert!(!progress.is_idle(Some(at(299)), at(299)) && progress.is_idle(Some(at(299)), at(300)));
        assert!(!progress.is_idle(Some(at(1)), at(400)), "that was long ago");
    }

    #[test]
    fn a_slow_write_makes_progress_and_a_trickle_does_not() {
        let (mut slow, mut trickle) = (Progress::new(0, START), Progress::new(0, START));
        for minute in 1..=40 {
            slow.note(minute as u64 * MIB / 4, at(60 * minute));
            trickle.note(minute as u64, at(60 * minute));
        }
        assert!(!slow.is_idle(Some(at(2400)), at(2400)) && trickle.is_idle(None, at(2400)));
        slow.note(0, at(2500));
        assert!(!slow.is_idle(Some(at(2700)), at(2700)), "it was cut and begins anew");
        slow.note(0, START);
        assert!(!slow.is_idle(None, at(1000)), "the clock was set back");
    }

    proptest! {
        #[test]
        fn one_user_has_the_share_at_most(
            asks in prop::collection::vec(0_u64..=u64::MAX, 0..20), free in 0_u64..=u64::MAX, permille in 0_u16..=1000
        ) {
            let mut own = 0_u64;
            for wanted in asks {
                let promised = promised_bytes(wanted, own, free, permille);
                prop_assert!(promised <= wanted);
                own += promised;
            }
            prop_assert!(u128::from(own) * 1000 <= u128::from(free) * u128::from(permille));
            prop_assert_eq!(promised_bytes(u64::MAX, 0, free, 1000), free);
        }
    }
}
