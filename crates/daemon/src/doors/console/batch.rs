//! Jobs, workers and the bill.

use super::words::{
    Tone, age, bar, clock, count, figure, job_tone, more, nothing, percent, section, span, tag,
};
use base::units::human_bytes;
use maud::{Markup, html};
use wire::control::{Bill, JobExit, JobInfo, Status, WorkerInfo};

/// Rows of the job table on the page.
const JOB_ROWS_MAX: usize = 40;

/// Jobs in the order of the status: those that run, those that wait, those that ended last.
pub(super) fn jobs(status: &Status) -> Markup {
    if status.jobs.is_empty() {
        return section("Jobs", "", nothing("no job was submitted"));
    }
    let rows = &status.jobs[..status.jobs.len().min(JOB_ROWS_MAX)];
    let shown_active = rows.iter().filter(|job| !job.state.is_over()).count();
    let active = status.counts.active_jobs();
    let body = html! {
        table {
            thead { tr {
                th.n { "id" } th { "state" } th { "name" } th { "owner" } th.wide { "queue" } th.stretch { "why" }
                th.wide { "worker" }
                th.n.wide { "cpus" } th.n.wide { "submitted" } th.n.wide { "started" } th.n { "ran" } th { "exit" }
            } }
            tbody { @for job in rows { (job_row(status, job)) } }
        }
        (more(shown_active, active, "bp jobs"))
    };
    section("Jobs", &format!("{} active", count(active)), body)
}

fn job_row(status: &Status, job: &JobInfo) -> Markup {
    let command = job.spec.command.join(" ");
    let ran = job.started.map(|started| span(job.ended.unwrap_or(status.now) - started));
    let is_bad_exit =
        job.exit.as_ref().is_some_and(|exit| !matches!(exit, JobExit::Code(0) | JobExit::Cancelled));
    let tone = job_tone(job.state);
    html! {
        tr {
            td.n.faint { (job.shown_id()) }
            td { (tag(job.state.as_str(), tone)) }
            td.job title=(command) {
                (job.spec.name)
                @if job.attempt > 1 { span.faint { " · run " (job.attempt) } }
            }
            td { (job.owner) }
            td.wide { (job.queue) }
            td.why.stretch.trouble[tone == Tone::Bad] title=[job.reason.as_ref()] { @if let Some(reason) = &job.reason { (reason) } }
            td.wide title=(job.not_enforced.join(", ")) { @if let Some(worker) = &job.worker { (worker) @if let Some(user) = &job.run_as { " as " (user) } } }
            td.n.wide { (job.spec.resources.cpus) }
            td.n.wide title={ (age(status.now, job.submitted)) " ago" } { (clock(status.now, job.submitted)) }
            td.n.wide { @if let Some(started) = job.started { (clock(status.now, started)) } }
            td.n { @if let Some(ran) = ran { (ran) } }
            td.exit.trouble[is_bad_exit] { @if let Some(how) = &job.exit { (how) } }
        }
    }
}

/// Workers and their slots.
pub(super) fn workers(status: &Status) -> Markup {
    if status.workers.is_empty() {
        return section("Workers", "", nothing("no worker has registered"));
    }
    let body = html! {
        table {
            thead { tr {
                th { "worker" } th { "host" } th.stretch { "slots" } th.n { "in use" } th.n { "memory" }
            } }
            tbody { @for worker in &status.workers { (worker_rows(worker)) } }
        }
    };
    section("Workers", "", body)
}

fn worker_rows(worker: &WorkerInfo) -> Markup {
    let taken = percent(u64::from(worker.cpus_used), u64::from(worker.cpus));
    html! {
        tr {
            td { (worker.name) }
            td.trouble[!worker.is_available] { (worker.host) @if !worker.is_available { " · silent" } }
            td.stretch { (bar(taken, Tone::Good)) }
            td.n { (worker.cpus_used) " / " (worker.cpus) }
            td.n { (human_bytes(worker.memory_bytes)) }
        }
        @if !worker.not_enforced.is_empty() {
            tr.note { td colspan="5" { "not enforced: " (worker.not_enforced.join(", ")) } }
        }
        @if !worker.users.why.is_empty() {
            tr.note { td colspan="5" { "cannot run the jobs of all users: it " (worker.users.why) } }
        }
    }
}

/// Who used what since the facility was made.
pub(super) fn bill(bill: &Bill) -> Markup {
    if bill.lines.is_empty() {
        return section("Bill", "", nothing("no usage yet"));
    }
    let body = html! {
        table {
            thead { tr {
                th.stretch { "owner" } th.n { "jobs" } th.n { "CPU" } th.n { "slot time" } th.n { "loads" } th.n { "to tape" }
                th.n { "from tape" } th.n { "in" } th.n { "out" } th.n { "disk GB·h" }
            } }
            tbody {
                @for line in &bill.lines {
                    tr {
                        td.stretch { (line.owner) }
                        td.n { (count(line.jobs)) }
                        td.n { (span(line.cpu)) }
                        td.n { (span(line.slot_wall)) }
                        td.n { (figure(line.tape_loads)) }
                        td.n { (human_bytes(line.tape_written_bytes)) }
                        td.n { (human_bytes(line.tape_read_bytes)) }
                        td.n { (human_bytes(line.in_bytes)) }
                        td.n { (human_bytes(line.out_bytes)) }
                        td.n { (figure(line.disk_gb_hours)) }
                    }
                }
            }
        }
    };
    section("Bill", "total since the facility was made", body)
}
