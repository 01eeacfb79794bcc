//! Verification by the pools' intervals, carried out: disk servers are told to read every byte of a partition and compare it
//! with its checksum, slowly; what they find damaged is dropped if the file is safe without it, and made anew.

use crate::{
    Context, Core, Principal, Topic,
    namespace::path_of,
    pool::{
        act::{
            copies::say_damaged,
            run_maintenance::{look, mend},
            snapshot::snapshot,
        },
        decide::{
            promise::good_without,
            scrub::{pace_bytes_per_s, partitions_due},
            view::Snapshot,
        },
    },
    scan::{new_scan, next_number},
    store::{Replica, ScanRow, ScrubRow},
    tape,
};
use base::{Failure, Millis, Result, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};
use wire::control::{ScanPace, ScanState, ScanWork};

/// How often somebody looks whose time has come.
const LOOK_EVERY: Millis = Millis::from_seconds(5);
/// Slower it need not be: it is over sooner then, and still leaves the disk to others.
const PACE_BYTES_MIN: u64 = 16 << 20;
/// Objects that are looked at in a second, besides reading them.
const PACE_OBJECTS: u64 = 2000;

/// Orders the verification of partitions whose time has come.
pub(in crate::pool) fn begin_scrubs(core: &mut Core, now: Timestamp) -> Result<()> {
    let is_early = core.live.maintenance.scrubs_looked.is_some_and(|looked| now - looked < LOOK_EVERY);
    if is_early || core.unsettled()?.is_some() {
        return Ok(());
    }
    core.live.maintenance.scrubs_looked = Some(now);
    let known: BTreeMap<String, ScrubRow> = core.store.scrubs()?.into_iter().collect();
    let pools: BTreeSet<String> =
        core.store.map_partitions(|(_, row)| Some(row.pool.clone()))?.into_iter().collect();
    for pool in pools {
        let snapshot = snapshot(core, &pool, now)?;
        for partition in snapshot.partitions().iter().filter(|at| !known.contains_key(&*at.name)) {
            // What it has was compared when it was written.
            let row = ScrubRow { begun: now, finished: None, scan: None };
            core.store.put_scrub(&partition.name, &row)?;
        }
        let begun = |name: &str| {
            let row = known.get(name).filter(|row| !is_running(row));
            row.map(|row| row.begun)
        };
        for partition in partitions_due(&snapshot, begun) {
            begin(core, &snapshot, &partition, known.get(&*partition))?;
        }
    }
    Ok(())
}

pub(crate) fn is_running(row: &ScrubRow) -> bool {
    row.scan.as_ref().is_some_and(|scan| scan.state == ScanState::Running)
}

fn begin(core: &mut Core, snapshot: &Snapshot, partition: &str, known: Option<&ScrubRow>) -> Result<()> {
    let used = snapshot.partition(partition).map_or(0, crate::pool::decide::view::PartitionView::used_bytes);
    let bytes_per_s = pace_bytes_per_s(used, snapshot.pool.verify_interval).max(PACE_BYTES_MIN);
    let pace = ScanPace { is_checksummed: true, objects_per_s: PACE_OBJECTS, bytes_per_s };
    let number = next_number(core, partition)?;
    let scan = new_scan(number, ScanWork::Scrub, pace, snapshot.now);
    info!(partition, bytes_per_s, "verification of checksums started");
    core.store.forget_answered(partition)?;
    let finished = known.and_then(|known| known.finished);
    core.store.put_scrub(partition, &ScrubRow { begun: snapshot.now, finished, scan: Some(scan) })?;
    core.touch(Topic::Removals);
    Ok(())
}

/// A scan that a person wanted has compared every byte: the interval begins anew.
pub(crate) fn note_verified(core: &Core, partition: &str, scan: &ScanRow, now: Timestamp) -> Result<()> {
    match core.store.scrub(partition)? {
        Some(row) if is_running(&row) || row.begun > scan.started => Ok(()),
        row => {
            let last = row.and_then(|row| row.scan);
            Ok(core
                .store
                .put_scrub(partition, &ScrubRow { begun: scan.started, finished: Some(now), scan: last })?)
        }
    }
}

/// Serves a damaged replica no more and has it made anew, if its file is safe without it.
///
/// Its object stays where it is: the disk server puts it aside, somebody may want to look at it.
pub(crate) fn drop_damaged(core: &mut Core, replica: &Replica, context: &Context) -> Result<()> {
    let gone = || Failure::not_found(format!("file {} no longer exists", replica.file));
    let (snapshot, view, node) = look(core, replica.file, context.now)?.ok_or_else(gone)?;
    let (others, is_readable) = good_without(&snapshot, &view, replica.object);
    let copies = core.store.good_copies(replica.file)?;
    if !is_readable && copies == 0 {
        let path = path_of(core, replica.file)?;
        return Err(Failure::corrupt(format!("{path} has no other copy that can be read now"))
            .hint(format!("`bp scan repair {}` withdraws it nevertheless", replica.partition)));
    }
    core.store.drop_replica(replica)?;
    core.touch(Topic::Files);
    let (partition, object, file) = (&replica.partition, replica.object, replica.file);
    warn!(partition, %object, %file, others, copies, "a damaged replica is no longer served; copying it again \
        from another source");
    say_damaged(core, partition, object, context.now);
    mend(core, replica.file, context.now)?;
    if !is_readable {
        // As it was: on disk and on tape.
        let owner = Context { who: Principal::room(&node.owner), now: context.now };
        tape::request_recall(core, &owner, &node)?;
    }
    Ok(())
}
