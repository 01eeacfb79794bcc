//! `bp status`: the facility at a glance.

use super::{drives, jobs, queue, volumes};
use crate::{
    context::{Context, Run},
    output::{Output, Tone},
    table::{Cell, Column, Table},
    words::{counted, job_users, percent, span},
};
use base::units::human_bytes;
use wire::control::{GetStatus, JobUsers, PoolInfo, Presence, Status, WorkerInfo};

/// Rows of each long table; the verbs for them show all.
const ROWS_MAX: usize = 20;

/// Show the facility at a glance
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status)?;
        return Ok(0);
    }
    let http = context.facility()?.endpoints.http.clone();
    let output = &mut context.output;
    head(output, &status, &http)?;
    titled(output, "Pools", pools(&status.pools), 0, "")?;
    titled(output, "Drives", drives::table(&status.drives), 0, "")?;
    let shown = status.volumes.len().min(ROWS_MAX);
    let left = status.counts.all_volumes().saturating_sub(shown as u64);
    titled(output, "Volumes", volumes::table(&status.volumes[..shown]), left, "bp volumes")?;
    let shown = status.requests.len().min(ROWS_MAX);
    let left = status.requests_len.saturating_sub(shown as u64);
    titled(output, "Tape queue", queue::table(&status.requests[..shown], status.now), left, "bp queue")?;
    let shown = &status.jobs[..status.jobs.len().min(ROWS_MAX)];
    let active = shown.iter().filter(|job| !job.state.is_over()).count() as u64;
    let left = status.counts.active_jobs().saturating_sub(active);
    titled(output, "Jobs", jobs::table(shown, status.now), left, "bp jobs")?;
    titled(output, "Workers", workers(&status.workers), 0, "")?;
    titled(output, "Unavailable hosts", away(&status), 0, "")?;
    Ok(0)
}

fn head(output: &mut Output, status: &Status, http: &str) -> Run<()> {
    output.toned(Tone::Strong, &status.name)?;
    output.line(format!(
        "Backplane {}, incarnation {}, up {}; {} and {}",
        status.version,
        status.incarnation,
        span(status.now - status.started),
        status.root,
        http
    ))?;
    if let Some(restored) = &status.restored {
        super::settle::warn(output, restored)?;
    }
    let files = &status.files;
    let away = match files.out_of_reach {
        0 => String::new(),
        away => format!(", {away} out of reach"),
    };
    output.line(format!(
        "{} in {}, {}: {} online, {} nearline{away}",
        counted(files.files, "file", "files"),
        counted(files.directories, "directory", "directories"),
        human_bytes(files.bytes),
        files.online,
        files.nearline
    ))?;
    if files.trash_files > 0 {
        let count = counted(files.trash_files, "file", "files");
        output.line(format!("{count} in the trash, using {} on disk", human_bytes(files.trash_bytes)))?;
    }
    Ok(())
}

/// A table with its title, if it has rows; then how many rows are left out.
fn titled(output: &mut Output, title: &str, table: Table, left: u64, verb: &str) -> Run<()> {
    if table.is_empty() {
        return Ok(());
    }
    output.titled(title, &table)?;
    if left > 0 {
        output.toned(Tone::Faint, &format!("and {left} more: {verb}"))?;
    }
    Ok(())
}

fn pools(pools: &[PoolInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Right("used"),
        Column::Right("free"),
        Column::Right("size"),
        Column::Right("replicas"),
        Column::Right("pinned"),
        Column::Left("server"),
    ]);
    for pool in pools {
        for partition in &pool.partitions {
            let used = partition.total_bytes.saturating_sub(partition.free_bytes);
            if partition.trouble.is_some() || !partition.is_available {
                table.next_step("`bp doctor` says what to do about a partition");
            }
            let server = match (partition.trouble, partition.is_available) {
                (Some(trouble), _) => Cell::toned(trouble.words(), Tone::Bad),
                (None, true) => Cell::from("up"),
                (None, false) => Cell::toned("unavailable", Tone::Bad),
            };
            table.row([
                Cell::from(format!("{}/{}", pool.name, partition.name)),
                percent(used, partition.total_bytes).into(),
                human_bytes(partition.free_bytes).into(),
                human_bytes(partition.total_bytes).into(),
                partition.replicas.to_string().into(),
                partition.pinned.to_string().into(),
                server,
            ]);
        }
    }
    table
}

fn away(status: &Status) -> Table {
    let mut table = Table::new([
        Column::Left("host"),
        Column::Left("roles"),
        Column::Left("state"),
        Column::Left("last heard"),
    ]);
    for host in status.hosts.iter().filter(|host| host.presence != Presence::Here) {
        let roles: Vec<_> = host.roles.iter().map(|role| role.as_str()).collect();
        table
            .next_step("`bp host files HOST` lists what only that host has; its own log says why it stopped");
        let heard = host.heard.map_or("-".to_owned(), |heard| format!("{} ago", span(status.now - heard)));
        table.row([
            Cell::from(host.name.as_str()),
            roles.join(" ").into(),
            Cell::toned(host.presence.as_str(), Tone::Bad),
            heard.into(),
        ]);
    }
    table
}

fn workers(workers: &[WorkerInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("worker"),
        Column::Left("host"),
        Column::Left("state"),
        Column::Right("slots"),
        Column::Right("memory"),
        Column::Left("runs jobs of"),
        Column::Text("not enforced"),
    ]);
    for worker in workers {
        if !worker.users.why.is_empty() {
            let WorkerInfo { name, users: JobUsers { why, hint, .. }, .. } = worker;
            let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
            table.next_step(format!("{name} cannot run the jobs of all users: it {why}{hint}"));
        }
        table.row([
            Cell::from(worker.name.as_str()),
            worker.host.as_str().into(),
            super::worker::state(worker),
            format!("{} of {}", worker.cpus_used, worker.cpus).into(),
            human_bytes(worker.memory_bytes).into(),
            job_users(&worker.users).into(),
            worker.not_enforced.join(", ").into(),
        ]);
    }
    table
}
