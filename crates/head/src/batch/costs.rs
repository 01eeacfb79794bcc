//! What jobs cost beside processor time: bytes moved, tape, space on disk, memory.
//!
//! The bill is kept by accounts ([`crate::account`]); here it is said which job caused what.

use crate::{
    Core,
    account::BYTE_MS_PER_GB_HOUR,
    store::{Charge, CostRow, JobFileRole, JobRow, Node, Payer, SessionRow, TapeCost},
};
use base::{JobId, Millis, Result, Timestamp};
use std::collections::BTreeMap;
use wire::control::{JobCosts, Usage};

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
    let ids = rows.iter().flat_map(|row| [row.id, row.shared()]);
    let (Some(first), Some(last)) = (ids.clone().min(), ids.max()) else { return Ok(Vec::new()) };
    let (runs, tape) = (core.store.job_costs(&(first..=last))?, core.store.tape_costs(&(first..=last))?);
    let mut counts = BTreeMap::new();
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
