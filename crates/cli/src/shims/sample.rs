//! Jobs for tests: those of a recorded run beside a real Slurm.

use super::site::Site;
use base::{JobId, Millis, Timestamp};
use std::collections::BTreeMap;
use wire::control::{ArrayElement, JobInfo, JobSpec, JobState, Resources};

/// Thursday 2026-11-26 05:18:02 UTC.
pub(crate) const NOW: Timestamp = Timestamp(1_795_670_282_000);

/// A site whose clock says [`NOW`], in the time zone UTC.
pub(crate) fn site() -> Site {
    Site::fixed(NOW)
}

/// A job that waits.
pub(crate) fn job(id: u64) -> JobInfo {
    JobInfo {
        id: JobId(id),
        owner: "root".to_owned(),
        spec: JobSpec {
            name: "long".to_owned(),
            resources: Resources { cpus: 1, memory_bytes: 0, wall: Millis::from_seconds(600) },
            directory: Some("/home/ada".to_owned()),
            stdout: Some("/home/ada/slurm-%j.out".to_owned()),
            environment: BTreeMap::new(),
            ..JobSpec::default()
        },
        state: JobState::Queued,
        queue: "batch".to_owned(),
        priority: 0,
        holds: Vec::new(),
        array: None,
        elements: None,
        waits_for: None,
        reason: None,
        worker: None,
        exit: None,
        usage: None,
        run_as: None,
        not_enforced: Vec::new(),
        attempt: 0,
        submitted: NOW + Millis::from_seconds(-10),
        started: None,
        ended: None,
        costs: None,
    }
}

/// A job that runs since nine seconds.
pub(crate) fn running(id: u64) -> JobInfo {
    JobInfo {
        state: JobState::Running,
        worker: Some("n1".to_owned()),
        attempt: 1,
        started: Some(NOW + Millis::from_seconds(-9)),
        ..job(id)
    }
}

/// An element of an array.
pub(crate) fn element(of: JobInfo, array: u64, index: u32) -> JobInfo {
    JobInfo { array: Some(ArrayElement { array: JobId(array), index }), ..of }
}
