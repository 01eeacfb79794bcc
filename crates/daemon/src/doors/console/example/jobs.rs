//! Workers and jobs of the example, and the bill.

use super::{GIB, MIB, ago};
use base::{Failure, JobId, Millis};
use wire::control::*;

pub(super) fn workers() -> Vec<WorkerInfo> {
    let worker = |name: &str, cpus, cpus_used, not_enforced: &[&str]| WorkerInfo {
        name: format!("{name}-worker1"),
        host: name.into(),
        is_available: name != "laptop",
        cpus,
        cpus_used,
        memory_bytes: u64::from(cpus) * 4 * GIB,
        not_enforced: not_enforced.iter().map(|limit| (*limit).to_owned()).collect(),
        users: JobUsers::default(),
        labels: Vec::new(),
        architecture: "x86_64".into(),
        is_draining: false,
        load: None,
    };
    vec![
        worker("node01", 64, 61, &[]),
        worker("node02", 64, 12, &[]),
        worker("laptop", 8, 0, &["memory (no cgroup v2 delegation)"]),
    ]
}

pub(super) fn jobs() -> Vec<JobInfo> {
    let job = |id: u64, name: &str, state, reason: Option<&str>| JobInfo {
        id: JobId(id),
        owner: if id.is_multiple_of(3) { "bob".into() } else { "alice".into() },
        spec: JobSpec {
            name: name.into(),
            command: vec!["python3".into(), "select.py".into(), format!("--run={id}")],
            resources: Resources { cpus: 1 + (id % 4) as u32, ..Resources::default() },
            ..JobSpec::default()
        },
        state,
        queue: "batch".into(),
        priority: 0,
        holds: Vec::new(),
        array: None,
        elements: None,
        waits_for: None,
        reason: reason.map(str::to_owned),
        worker: None,
        exit: None,
        usage: None,
        run_as: None,
        not_enforced: Vec::new(),
        attempt: 1,
        submitted: ago(7_000 - id as i64),
        started: None,
        ended: None,
        costs: None,
    };
    let ran = |mut one: JobInfo, worker: &str, from: i64, to: Option<i64>, exit: Option<JobExit>| {
        one.worker = Some(worker.into());
        one.started = Some(ago(from));
        one.ended = to.map(ago);
        one.exit = exit;
        one
    };
    let missing = Failure::not_found("output hist.parquet is not in the scratch directory");
    let mut twice = ran(job(4008, "select-run4708", JobState::Running, None), "node01", 512, None, None);
    twice.attempt = 2;
    vec![
        job(
            4012,
            "select-run4712",
            JobState::Held,
            Some(
                "waits for 3 of 12 inputs: /data/2024/raw/run1702/stream-00.parquet waits for volume BP0012",
            ),
        ),
        job(4011, "select-run4711", JobState::Queued, Some("waits for 2 CPU slots; next in line for node02")),
        ran(job(4010, "fit-mass", JobState::Running, None), "node01", 3_921, None, None),
        twice,
        ran(
            job(4007, "merge-hist", JobState::Archiving, Some("1 of 2 outputs is not on tape")),
            "node02",
            1_800,
            Some(95),
            Some(JobExit::Code(0)),
        ),
        ran(
            job(4005, "select-run4705", JobState::Failed, Some("an output could not be stored")),
            "node02",
            5_000,
            Some(4_100),
            Some(JobExit::OutputFailed(missing)),
        ),
        ran(
            job(4004, "select-run4704", JobState::Done, None),
            "node01",
            90_000,
            Some(88_030),
            Some(JobExit::Code(0)),
        ),
        ran(
            job(4003, "toy-limits", JobState::Failed, Some("ran longer than its wall limit of 6 h")),
            "node01",
            95_000,
            Some(73_400),
            Some(JobExit::WallLimit),
        ),
        job(4002, "typo", JobState::Cancelled, Some("cancelled by bob")),
    ]
}

/// Three owners.
pub(crate) fn bill() -> Bill {
    let line = |owner: &str, jobs, cpu_hours: i64, loads, tape: u64, disk| BillLine {
        owner: owner.into(),
        jobs,
        cpu: Millis::from_seconds(cpu_hours * 3600),
        slot_wall: Millis::from_seconds(cpu_hours * 4100),
        tape_loads: loads,
        tape_written_bytes: tape * GIB,
        tape_read_bytes: tape / 3 * GIB,
        in_bytes: tape * GIB + 911 * MIB,
        out_bytes: tape * 2 * GIB,
        disk_gb_hours: disk,
    };
    Bill {
        lines: vec![
            line("alice", 3_120, 18_200, 214.5, 4_100, 1_220_411.25),
            line("bob", 411, 921, 17.25, 96, 8_120.5),
            line("production", 0, 0, 1_911.0, 81_200, 20_118_702.0),
        ],
    }
}
