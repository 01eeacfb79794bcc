//! What jobs cost beside processor time: bytes moved, tape, space on disk, memory.
//!
//! The bill is kept by accounts ([`crate::account`]); here it is said which job caused what.

use crate::{
    Core,
    account::BYTE_MS_PER_GB_HOUR,
    store::{Charge, CostRow, JobFileRole, JobRow, Node, Payer, SessionRow, TapeCost},
};
use base::{JobId, Millis, Result, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};
use wire::control::{JobCosts, Usage};

/// Ids between two jobs whose costs are read with theirs: that is cheaper than another query.
const GAP_MAX: u64 = 64;

/// Charges a run that has ended to the owner of its job, and notes what it cost.
pub(super) fn run_ended(core: &Core, job: &JobRow, usage: Usage, now: Timestamp) -> Result<()> {
    let slots = i64::from(job.spec.resources.cpus);
    // Nobody is paid for running a job.
    let wall = usage.wall.max(Millis(0));
    let memory = job.spec.resources.memory_bytes.max(usage.memory_bytes_max);
    let memory_byte_ms = memory as f64 * wall.0 as f64;
    let charge = Charge {
        jobs: 1,
        cpu: usage.cpu.max(Millis(0)),
        slot_wall: Millis(wall.0.saturating_mul(slots)),
        memory_byte_ms,
        ..Charge::default()
    };
    core.store.charge(Payer { group: group(job), ..Payer::user(&job.owner) }, &charge)?;
    let mut cost = CostRow { memory_byte_ms, ..CostRow::default() };
    for file in core.store.job_files(job.shared(), JobFileRole::Input)? {
        let Some(node) = core.store.node(file)? else { continue };
        cost.in_bytes = cost.in_bytes.saturating_add(node.size);
        // It was kept since the submission, or since it was read from tape.
        let online = node.online().map(|replica| replica.created).min().unwrap_or(now);
        let kept = now - online.max(job.submitted);
        cost.disk_byte_ms += node.size as f64 * kept.0.max(0) as f64;
    }
    Ok(core.store.add_job_cost(job.id, &cost)?)
}

/// Notes the bytes of the outputs of a job that ended well.
pub(super) fn stored(core: &Core, job: &JobRow, out_bytes: u64) -> Result<()> {
    let known = core.store.job_costs(&(job.id..=job.id))?.remove(&job.id).unwrap_or_default();
    let more = CostRow { in_bytes: 0, out_bytes, memory_byte_ms: 0.0, ..known };
    Ok(core.store.add_job_cost(job.id, &more)?)
}

/// The group that pays for a job. Jobs of older releases have none.
fn group(job: &JobRow) -> &str {
    if job.group.is_empty() { &job.owner } else { &job.group }
}

/// A file was read from tape: the jobs that wait for it share its bytes.
pub(crate) fn recalled(core: &Core, session: &SessionRow, file: &Node) -> Result<()> {
    let jobs = core.store.holders_waiting_for(file.id)?;
    for job in &jobs {
        let cost = TapeCost { bytes: file.size / jobs.len() as u64, loads: 0.0 };
        core.store.add_tape_cost(*job, session.id.0, cost)?;
    }
    Ok(())
}

/// A session is over: the jobs of each owner share the part of its loads that their owner pays.
pub(crate) fn loaded(core: &Core, session: &SessionRow, part: f64) -> Result<()> {
    let mut by_owner: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
    for (job, owner) in core.store.jobs_of_session(session.id.0)? {
        if session.owners.contains(&owner) {
            by_owner.entry(owner).or_default().push(job);
        }
    }
    for jobs in by_owner.values() {
        for job in jobs {
            let cost = TapeCost { bytes: 0, loads: part / jobs.len() as f64 };
            core.store.add_tape_cost(*job, session.id.0, cost)?;
        }
    }
    Ok(())
}

/// What each of some jobs cost, in their order.
pub(super) fn of(core: &Core, rows: &[JobRow]) -> Result<Vec<JobCosts>> {
    let (mut runs, mut tape, mut counts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for near in spans(&rows.iter().flat_map(|row| [row.id, row.shared()]).collect()) {
        runs.extend(core.store.job_costs(&near)?);
        tape.extend(core.store.tape_costs(&near)?);
    }
    rows.iter()
        .map(|row| {
            let run = runs.get(&row.id).copied().unwrap_or_default();
            let (tape, count) = match tape.get(&row.shared()) {
                Some(tape) => (*tape, elements(core, row, &mut counts)?),
                None => (TapeCost::default(), 1),
            };
            Ok(JobCosts {
                group: group(row).to_owned(),
                in_bytes: run.in_bytes,
                out_bytes: run.out_bytes,
                tape_read_bytes: tape.bytes / count,
                tape_loads: tape.loads / count as f64,
                disk_gb_hours: run.disk_byte_ms / BYTE_MS_PER_GB_HOUR,
                memory_gb_hours: run.memory_byte_ms / BYTE_MS_PER_GB_HOUR,
            })
        })
        .collect()
}

/// Ranges of ids with all of these, and little between them: the first and the last job of a facility may be asked for together.
fn spans(ids: &BTreeSet<JobId>) -> Vec<RangeInclusive<JobId>> {
    let mut spans: Vec<RangeInclusive<JobId>> = Vec::new();
    for id in ids {
        match spans.last_mut() {
            Some(span) if id.0 - span.end().0 <= GAP_MAX => *span = *span.start()..=*id,
            _ => spans.push(*id..=*id),
        }
    }
    spans
}

/// How many jobs share the inputs of a job: the elements of its array. `known` keeps what was looked up.
fn elements(core: &Core, row: &JobRow, known: &mut BTreeMap<JobId, u64>) -> Result<u64> {
    let Some(array) = row.array.map(|element| element.array) else { return Ok(1) };
    if let Some(count) = known.get(&array) {
        return Ok(*count);
    }
    let count = core.store.job_array(array)?.map_or(1, |array| array.count).max(1);
    known.insert(array, count);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_are_far_apart_are_read_apart() {
        let of = |ids: &[u64]| spans(&ids.iter().copied().map(JobId).collect());
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[7, 1, 60]), [JobId(1)..=JobId(60)]);
        assert_eq!(of(&[1, 2, 1_000_000]), [JobId(1)..=JobId(2), JobId(1_000_000)..=JobId(1_000_000)]);
    }
}
