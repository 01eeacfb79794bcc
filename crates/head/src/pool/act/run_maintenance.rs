//! Keeping what pools promise: who is given up, which files are short of replicas, which copies begin. What else pools want
//! done is begun from here too: collection, balancing, verification.

use crate::{
    Apply, Context, Core,
    hosts::presence,
    pool::{
        act::{
            balance::begin_moves,
            collection::collect_some,
            copies_under_way::{begin, under_way},
            out_of_reach,
            reach_count::count_some,
            scrub::begin_scrubs,
            snapshot::{self, file_view, pool_of, snapshot},
            space::{as_if_freed, free_up},
        },
        decide::{
            budget::Budget,
            promise::{good_pieces, margin},
            repair::{Outlook, repair, risk},
            silence::to_give_up,
            surplus::surplus,
            view::{FileView, PartitionState, Snapshot},
        },
        retire,
    },
    store::{Node, Replica, ReplicaState},
    trash,
};
use base::{FileId, Millis, Result, Timestamp, units::counted};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};
use wire::control::{EventType, MaintenanceDone, RunMaintenance};

/// Uses that are written in one call, at least and at most: some milliseconds.
const USES_LEN: (usize, usize) = (64, 256);
/// Calls in which all uses are written, if that is possible: a minute.
const USES_CALLS: usize = 60;
/// Replicas that are looked at in one call, when files that are short are searched for.
const SWEEP_LEN: usize = 256;
/// Files for which copies are planned in one call.
const PLAN_LEN: usize = 64;
/// When a file is looked at again that waits for something that will be announced: only in case it is not.
const LOOK_AGAIN: Millis = Millis::from_seconds(60);
/// When a file is looked at again that waits for its turn.
const NEXT_TURN: Millis = Millis(1000);
/// Second copies that follow a write are there sooner: they are no repair.
const REPAIR_SAID_AFTER: Millis = Millis::from_seconds(5);
/// When a file is looked at again that fits nowhere.
const ROOM_AGAIN: Millis = Millis::from_seconds(30);

impl Apply for RunMaintenance {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MaintenanceDone> {
        presence::notice_silent_hosts(core, context.now);
        out_of_reach::notice(core, context.now)?;
        crate::batch::look_at_times(core, context.now)?;
        let is_counting = count_some(core, context.now)?;
        if core.unsettled()?.is_some() {
            // What seems to be missing may lie where nobody has looked yet.
            return Ok(MaintenanceDone { is_more: is_counting });
        }
        core.store.write_uses((core.store.uses_len() / USES_CALLS).clamp(USES_LEN.0, USES_LEN.1))?;
        notice_silence(core, context.now)?;
        let has_swept = sweep(core, context.now)?;
        let has_begun = begin_copies(core, context.now)?;
        say_repair(core, context.now)?;
        let has_expired = trash::expire(core, context.now)?;
        let has_collected = collect_some(core, context.now)?;
        begin_moves(core, context.now)?;
        begin_scrubs(core, context.now)?;
        Ok(MaintenanceDone { is_more: is_counting || has_swept || has_begun || has_expired || has_collected })
    }
}

/// Pools that have something to keep: more than one replica, or a partition that is to be emptied.
pub(in crate::pool) fn pools_to_keep(core: &Core) -> Result<BTreeSet<String>> {
    let pools = core.store.map_partitions(|(_, row)| Some((row.pool.clone(), row.state)))?;
    let mut kept = BTreeSet::new();
    for (pool, state) in pools {
        if state == PartitionState::Draining || is_redundant(core, &pool)? {
            kept.insert(pool);
        }
    }
    Ok(kept)
}

/// Whether files of a pool can be made whole again after a disk is lost. It may have coded files of an earlier policy.
fn is_redundant(core: &Core, pool: &str) -> Result<bool> {
    let policy = core.store.policy(pool)?;
    Ok(policy.copies > 1 || policy.pieces().is_some() || core.store.has_pieces(pool)?)
}

fn notice_silence(core: &mut Core, now: Timestamp) -> Result<()> {
    let mut silent = BTreeSet::new();
    for pool in pools_to_keep(core)? {
        let snapshot = snapshot(core, &pool, now)?;
        for partition in snapshot.partitions().iter().filter(|partition| !snapshot.answers(partition)) {
            silent.insert(partition.name.to_string());
        }
        if is_redundant(core, &pool)? {
            for partition in to_give_up(&snapshot) {
                give_up(core, &partition, now)?;
            }
        }
    }
    if silent != core.live.silent {
        // Readers are sent elsewhere from now on, or here again.
        core.store.set_visible();
        if !core.live.silent.is_subset(&silent) {
            // What could not go while it was silent may go now.
            core.sweep_again();
        }
        core.live.silent = silent;
    }
    Ok(())
}

/// Says when files begin to have too few copies for longer than a moment, and when all have them again.
fn say_repair(core: &mut Core, now: Timestamp) -> Result<()> {
    let is_short = !core.store.shortages(Timestamp(i64::MAX), 1)?.is_empty();
    match (is_short, core.live.repair) {
        (true, None) => core.live.repair = Some((now, false)),
        (true, Some((since, false))) if now - since > REPAIR_SAID_AFTER => {
            core.live.repair = Some((since, true));
            let files: u64 = core.store.shortage_counts()?.values().sum();
            let files = counted(files, "file has", "files have");
            let what = format!("{files} too few copies; copying them again");
            core.say(now, EventType::RepairBegan, "", what);
        }
        (false, Some((_, was_said))) => {
            core.live.repair = None;
            if was_said {
                core.say(now, EventType::RepairEnded, "", "all files have enough copies again");
            }
        }
        _ => {}
    }
    Ok(())
}

/// What a partition has does not count any more, until its disk server has said what there is.
fn give_up(core: &mut Core, partition: &str, now: Timestamp) -> Result<()> {
    warn!(
        partition,
        "the partition's disk server was silent for too long; copying its files again from other replicas"
    );
    core.store.set_given_up(partition, Some(now))?;
    let subject = core.partition_subject(partition);
    let what =
        format!("partition {subject} was silent for too long; copying its files again from other replicas");
    core.say(now, EventType::PartitionGivenUp, subject, what);
    end_coming(core, partition)?;
    core.sweep_again();
    Ok(())
}

/// Ends what other disk servers send to a partition, or it fetches.
pub(in crate::pool) fn end_coming(core: &mut Core, partition: &str) -> Result<()> {
    for state in [ReplicaState::Mirroring, ReplicaState::Copying] {
        for replica in core.store.unsettled(partition, state)? {
            retire(core, &replica)?;
        }
    }
    Ok(())
}

/// Looks at some files, one after the other, for what is missing or too much. Yields whether there was something to see.
fn sweep(core: &mut Core, now: Timestamp) -> Result<bool> {
    let Some(after) = core.live.sweep else { return Ok(false) };
    let replicas = core.store.replicas_after(after, SWEEP_LEN)?;
    core.live.sweep = replicas.last().map(|(object, _)| *object);
    let files: BTreeSet<FileId> = replicas.into_iter().map(|(_, file)| file).collect();
    for file in &files {
        mend(core, *file, now)?;
    }
    if files.is_empty() {
        info!("all files were checked against their pool's policy");
    }
    Ok(!files.is_empty())
}

/// Removes replicas that a file does not need, and notes what it lacks.
pub(crate) fn mend(core: &mut Core, file: FileId, now: Timestamp) -> Result<()> {
    let Some((snapshot, view, node)) = look(core, file, now)? else { return Ok(()) };
    for removal in surplus(&snapshot, &view) {
        if let Some(replica) = node.replicas.iter().find(|replica| replica.object == removal.object) {
            retire(core, replica)?;
        }
    }
    if good_pieces(&snapshot, &view) >= view.layout.pieces() {
        // From before it was coded; or pieces that do not give the file, beside replicas that do.
        let is_coded = node.coding().is_some();
        let is_left = |replica: &&Replica| replica.state.is_of_pool() && replica.piece.is_some() != is_coded;
        for replica in node.replicas.iter().filter(is_left) {
            retire(core, replica)?;
        }
    }
    if risk(&snapshot, &view).is_some() {
        // Whoever can bear least goes first, coded or not.
        let good = usize::try_from(margin(&snapshot, &view) + 1).unwrap_or(0);
        core.store.put_shortage(file, &snapshot.pool.name, good, now)?;
    }
    Ok(())
}

/// A file and its pool, unless it is gone or was never written.
pub(in crate::pool) fn look(
    core: &Core,
    file: FileId,
    now: Timestamp,
) -> Result<Option<(Snapshot, FileView, std::sync::Arc<Node>)>> {
    let Some(node) = core.store.node(file)?.filter(|node| node.checksums.is_some()) else { return Ok(None) };
    let Some(pool) = pool_of(core, &node)? else { return Ok(None) };
    let snapshot = snapshot(core, &pool, now)?;
    let view = file_view(core, &snapshot, &node);
    Ok(Some((snapshot, view, node)))
}

/// Begins copies for files that are short of replicas. Yields whether there are more of them: each that was looked at is
/// due later.
fn begin_copies(core: &mut Core, now: Timestamp) -> Result<bool> {
    let mut by_pool: BTreeMap<String, (Snapshot, Vec<FileView>)> = BTreeMap::new();
    let short = core.store.shortages(now, PLAN_LEN)?;
    let is_more = short.len() == PLAN_LEN;
    for shortage in short {
        match look(core, shortage, now)? {
            Some((snapshot, view, _)) => {
                let pool = snapshot.pool.name.clone();
                by_pool.entry(pool).or_insert_with(|| (snapshot, Vec::new())).1.push(view);
            }
            None => core.store.delete_shortage(shortage)?,
        }
    }
    for (snapshot, files) in by_pool.into_values() {
        let mut budget = Budget::with(&snapshot.pool, &under_way(core, &snapshot)?);
        let mut repairs = repair(&snapshot, &files, &mut budget, now.0.unsigned_abs());
        for order in &repairs.orders {
            begin(core, order, now)?;
        }
        let lacks_space = |file: FileId| {
            repairs
                .outlooks
                .iter()
                .any(|(one, outlook)| *one == file && matches!(outlook, Outlook::NoRoom(_)))
        };
        let rest: Vec<_> = files.into_iter().filter(|view| lacks_space(view.file)).collect();
        if !rest.is_empty() {
            repairs.outlooks.retain(|(_, outlook)| !matches!(outlook, Outlook::NoRoom(_)));
            repairs.outlooks.extend(repair_by_eviction(core, &snapshot, &rest, &mut budget)?);
        }
        for (file, outlook) in repairs.outlooks {
            note(core, file, &outlook, now)?;
        }
    }
    Ok(is_more)
}

/// Begins copies for which there is only space once something is evicted that is safe on tape. Yields what is to be noted of the files.
fn repair_by_eviction(
    core: &mut Core,
    snapshot: &Snapshot,
    files: &[FileView],
    budget: &mut Budget,
) -> Result<Vec<(FileId, Outlook)>> {
    let sizes = files.iter().flat_map(|file| &file.pieces).map(|piece| piece.size_bytes);
    let freed = as_if_freed(core, snapshot, sizes.max().unwrap_or(0))?;
    let repairs = repair(&freed, files, budget, snapshot.now.0.unsigned_abs());
    for order in &repairs.orders {
        // As it is now: the order before may have taken some of it.
        let now = snapshot::snapshot(core, &snapshot.pool.name, snapshot.now)?;
        let Some(target) = now.partition(&order.target) else { continue };
        if free_up(core, target, order.size_bytes.saturating_add(1), snapshot.now)? {
            begin(core, order, snapshot.now)?;
        }
    }
    Ok(repairs.outlooks)
}

fn note(core: &Core, file: FileId, outlook: &Outlook, now: Timestamp) -> Result<()> {
    match outlook {
        // What was lost is looked at again when its disk server says that it is back; what is on tape, when it is recalled.
        Outlook::Whole | Outlook::Lost | Outlook::Recall => core.store.delete_shortage(file)?,
        Outlook::Waits | Outlook::Begun => core.store.delay_shortage(file, now + LOOK_AGAIN, None)?,
        Outlook::Postponed => core.store.delay_shortage(file, now + NEXT_TURN, None)?,
        Outlook::NoRoom(failure) => {
            core.store.delay_shortage(file, now + ROOM_AGAIN, Some(&failure.what))?;
        }
    }
    Ok(())
}
