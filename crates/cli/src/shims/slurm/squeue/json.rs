//! `squeue --json`: the fields that tools read, in the shape of Slurm 23.11.

use super::fields::priority;
use crate::shims::slurm::{
    CLUSTER,
    line::Line,
    memory,
    site::Site,
    state::{self, State},
};
use base::Timestamp;
use serde_json::{Value, json};

/// The document.
pub(super) fn document(lines: &[Line], site: &Site) -> Value {
    json!({
        "jobs": lines.iter().map(|line| job(line, site)).collect::<Vec<_>>(),
        "last_backfill": number(None),
        "last_update": number(Some(site.now.seconds())),
        "meta": {
            "plugin": { "type": "backplane", "name": env!("CARGO_PKG_VERSION") },
            "slurm": { "version": { "major": "23", "micro": "4", "minor": "11" }, "release": "23.11.4" },
        },
        "errors": [],
        "warnings": [],
    })
}

/// A number that may be missing, as Slurm writes it.
fn number(value: Option<i64>) -> Value {
    json!({ "set": value.is_some(), "infinite": false, "number": value.unwrap_or(0) })
}

fn job(line: &Line, site: &Site) -> Value {
    let spec = &line.job.spec;
    let (code, signal) = state::exit(&line.job);
    let (uid, group, gid) = site.user(&line.job.owner);
    let index = line.job.array.filter(|_| line.indices.is_none()).map(|element| i64::from(element.index));
    let array = line.job.array.map_or(0, |element| element.array.0);
    json!({
        "account": spec.account.as_deref().unwrap_or_default(),
        "array_job_id": number(Some(i64::try_from(array).unwrap_or(0))),
        "array_task_id": number(index),
        "array_task_string": line.indices.as_deref().unwrap_or_default(),
        "cluster": CLUSTER,
        "comment": spec.comment.as_deref().unwrap_or_default(),
        "cpus": number(Some(i64::from(spec.resources.cpus))),
        "current_working_directory": spec.directory.as_deref().unwrap_or_default(),
        "end_time": number(line.end().map(Timestamp::seconds)),
        "exit_code": { "return_code": number(Some(i64::from(code))), "signal": { "id": number(Some(i64::from(signal))) } },
        "group_id": gid,
        "group_name": group,
        "job_id": line.raw_id().0,
        "job_state": [line.state().word()],
        "memory_per_node": number(Some(memory::mebibytes(spec.resources.memory_bytes) as i64)),
        "name": spec.name,
        "nodes": line.node(),
        "partition": line.job.queue,
        "priority": number(Some(priority(line))),
        "restart_cnt": line.job.attempt.saturating_sub(1),
        "standard_error": line.file(spec.stderr.as_deref().or(spec.stdout.as_deref())),
        "standard_output": line.file(spec.stdout.as_deref()),
        "start_time": number(line.start().map(Timestamp::seconds)),
        "state_reason": state::reason(&line.job),
        "state_description": if line.state() == State::Pending { line.job.reason.as_deref() } else { None },
        "submit_time": number(Some(line.job.submitted.seconds())),
        "time_limit": number(line.limit().map(|limit| limit.0 / 60_000)),
        "user_id": uid,
        "user_name": line.job.owner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::slurm::{line::single, sample};

    #[test]
    fn the_shape_is_that_of_slurm() {
        let document = document(&single(vec![sample::element(sample::running(22), 2, 5)]), &sample::site());
        let job = &document["jobs"][0];
        assert_eq!(
            (&job["job_id"], &job["job_state"][0], &job["nodes"]),
            (&json!(22), &json!("RUNNING"), &json!("n1"))
        );
        assert_eq!(job["array_task_id"], json!({ "set": true, "infinite": false, "number": 5 }));
    }
}
