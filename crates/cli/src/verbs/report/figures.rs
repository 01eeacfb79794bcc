//! Figures of a report as comma-separated values.

use super::Summary;
use crate::context::{Context, Run};
use base::Millis;
use wire::control::{AccountLine, JobCosts, JobInfo};

/// A column of a table of numbers: its name as CSV, and its value.
pub(super) type Figure<T> = (&'static str, fn(&T) -> String);

pub(super) const OF_ACCOUNT: [Figure<AccountLine>; 13] = [
    ("jobs", |line| line.jobs.to_string()),
    ("cpu_seconds", |line| seconds(line.cpu)),
    ("slot_wall_seconds", |line| seconds(line.slot_wall)),
    ("memory_gb_hours", |line| format!("{:.3}", line.memory_gb_hours)),
    ("in_bytes", |line| line.in_bytes.to_string()),
    ("in_transfers", |line| line.in_transfers.to_string()),
    ("out_bytes", |line| line.out_bytes.to_string()),
    ("out_transfers", |line| line.out_transfers.to_string()),
    ("tape_written_bytes", |line| line.tape_written_bytes.to_string()),
    ("tape_read_bytes", |line| line.tape_read_bytes.to_string()),
    ("tape_loads", |line| format!("{:.3}", line.tape_loads)),
    ("disk_gb_hours", |line| format!("{:.3}", line.disk_gb_hours)),
    ("bytes", |line| line.bytes.to_string()),
];

pub(super) const OF_SUMMARY: [Figure<Summary>; 19] = [
    ("month", |of| of.month.to_string()),
    ("days", |of| format!("{:.3}", of.days)),
    ("users", |of| of.users.to_string()),
    ("jobs", |of| of.jobs.to_string()),
    ("jobs_per_day", |of| format!("{:.3}", of.jobs_per_day)),
    ("cpu_seconds", |of| seconds(of.cpu)),
    ("slot_wall_seconds", |of| seconds(of.slot_wall)),
    ("memory_gb_hours", |of| format!("{:.3}", of.memory_gb_hours)),
    ("tape_read_bytes", |of| of.staged_bytes.to_string()),
    ("tape_read_bytes_per_day", |of| format!("{:.0}", of.staged_bytes_per_day)),
    ("tape_written_bytes", |of| of.archived_bytes.to_string()),
    ("tape_loads", |of| format!("{:.3}", of.loads)),
    ("in_bytes", |of| of.in_bytes.to_string()),
    ("in_transfers", |of| of.in_transfers.to_string()),
    ("out_bytes", |of| of.out_bytes.to_string()),
    ("out_transfers", |of| of.out_transfers.to_string()),
    ("disk_gb_hours", |of| format!("{:.3}", of.disk_gb_hours)),
    ("interruptions", |of| of.interruptions.to_string()),
    ("hours_between_interruptions", |of| format!("{:.3}", of.hours_between_interruptions)),
];

pub(super) const OF_JOB: [Figure<JobInfo>; 20] = [
    ("job", JobInfo::shown_id),
    ("user", |job| job.owner.clone()),
    ("group", |job| costs(job).group),
    ("queue", |job| job.queue.clone()),
    ("name", |job| job.spec.name.clone()),
    ("state", |job| job.state.as_str().to_owned()),
    ("worker", |job| job.worker.clone().unwrap_or_default()),
    ("submitted", |job| job.submitted.seconds().to_string()),
    ("started", |job| job.started.map_or_else(String::new, |at| at.seconds().to_string())),
    ("ended", |job| job.ended.map_or_else(String::new, |at| at.seconds().to_string())),
    ("slots", |job| job.spec.resources.cpus.to_string()),
    ("cpu_seconds", |job| seconds(job.usage.unwrap_or_default().cpu)),
    ("wall_seconds", |job| seconds(job.usage.unwrap_or_default().wall)),
    ("memory_bytes_max", |job| job.usage.unwrap_or_default().memory_bytes_max.to_string()),
    ("memory_gb_hours", |job| format!("{:.3}", costs(job).memory_gb_hours)),
    ("in_bytes", |job| costs(job).in_bytes.to_string()),
    ("out_bytes", |job| costs(job).out_bytes.to_string()),
    ("tape_read_bytes", |job| costs(job).tape_read_bytes.to_string()),
    ("tape_loads", |job| format!("{:.3}", costs(job).tape_loads)),
    ("disk_gb_hours", |job| format!("{:.3}", costs(job).disk_gb_hours)),
];

pub(super) fn costs(job: &JobInfo) -> JobCosts {
    job.costs.clone().unwrap_or_default()
}

fn seconds(span: Millis) -> String {
    format!("{}.{:03}", span.0.max(0) / 1000, span.0.max(0) % 1000)
}

/// A value of CSV (RFC 4180). One that a spreadsheet would take for a formula is none.
fn field(value: &str) -> String {
    let value = match value.chars().next() {
        Some('=' | '+' | '-' | '@') if value.parse::<f64>().is_err() => format!("'{value}"),
        _ => value.to_owned(),
    };
    if value.contains([',', '"', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

pub(super) fn csv<T>(context: &mut Context, figures: &[Figure<T>], lines: &[T]) -> Run<()> {
    let heading = figures.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    let values = |line: &T| figures.iter().map(|(_, of)| field(&of(line))).collect::<Vec<_>>();
    for line in std::iter::once(heading).chain(lines.iter().map(values)) {
        context.output.bytes(format!("{}\n", line.join(",")).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_their_field() {
        assert_eq!(
            ["a", "a,b", "say \"x\"", "a\nb", "=1+1", "-5", "-x"].map(field),
            ["a", "\"a,b\"", "\"say \"\"x\"\"\"", "\"a\nb\"", "'=1+1", "-5", "'-x"]
        );
    }
}
