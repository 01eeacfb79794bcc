//! The top of the page: the name of the facility, its figures, and the problems that need an operator.

use super::words::{Tone, age, bar, clock, count, counted, percent, room_bar};
use base::units::human_bytes;
use maud::{Markup, html};
use wire::control::{
    HostStatus, JobState, OperatorAnswer, OperatorRequest, PartitionInfo, PartitionTrouble, Presence,
    RequestState, Status, TapePhase, VolumeState,
};

/// Lines of the attention list; the rest is counted.
const ATTENTION_LINES_MAX: usize = 12;

/// Name, version, incarnation, up since.
pub(super) fn header(status: &Status) -> Markup {
    html! {
        header {
            h1 { (status.name) }
            dl {
                div { dt { "Backplane" } dd { (status.version) } }
                div { dt { "incarnation" } dd { (count(status.incarnation)) } }
                div {
                    dt { "up" }
                    dd title={ "since " (clock(status.now, status.started)) " UTC" } { (age(status.now, status.started)) }
                }
                div.root { dt { "door" } dd { code { (status.root) } } }
                div.now { dt { "UTC" } dd { (time_of_day(status)) } }
            }
            span #beat title="live" { "live" }
        }
    }
}

fn time_of_day(status: &Status) -> String {
    clock(status.now, status.now)
}

/// The figures that tell at a glance whether the facility is busy, full or behind.
pub(super) fn tiles(status: &Status) -> Markup {
    let jobs = |state| status.counts.jobs_in(state);
    let requests = |state| count(status.counts.requests_in(state));
    let partitions = || status.pools.iter().flat_map(|pool| &pool.partitions);
    let total: u64 = partitions().map(|partition| partition.total_bytes).sum();
    let used = total.saturating_sub(partitions().map(|partition| partition.free_bytes).sum());
    let capacity: u64 = status.counts.volumes.iter().map(|volumes| volumes.capacity_bytes).sum();
    let on_tape: u64 = status.counts.volumes.iter().map(|volumes| volumes.used_bytes).sum();
    let working = status
        .drives
        .iter()
        .filter(|drive| !matches!(drive.phase, TapePhase::Idle | TapePhase::Stuck))
        .count();
    let slots: u64 = status.workers.iter().map(|worker| u64::from(worker.cpus)).sum();
    let taken: u64 = status.workers.iter().map(|worker| u64::from(worker.cpus_used)).sum();
    let files = &status.files;
    html! {
        div.tiles {
            (tile("files", &count(files.files),
                &format!("{} in {}", human_bytes(files.bytes), counted(files.directories, "dir", "dirs")),
                html! {}))
            (tile("online", &format!("{:.0} %", percent(files.online, files.files)),
                &reach(files.nearline, files.out_of_reach), bar(percent(files.online, files.files), Tone::Busy)))
            (tile("disk", &human_bytes(used), &format!("of {}", human_bytes(total)), room_bar(percent(used, total))))
            (tile("tape", &human_bytes(on_tape), &format!("of {}", human_bytes(capacity)), room_bar(percent(on_tape, capacity))))
            (tile("drives working", &format!("{working} / {}", status.drives.len()),
                &counted(status.counts.all_volumes(), "volume", "volumes"),
                bar(percent(working as u64, status.drives.len() as u64), Tone::Good)))
            (tile("tape queue", &count(status.requests_len),
                &format!("{} active, {} failed", requests(RequestState::Active), requests(RequestState::Failed)),
                html! {}))
            (tile("jobs running", &count(jobs(JobState::Running)),
                &format!("{} queued, {} held", count(jobs(JobState::Queued)), count(jobs(JobState::Held))), html! {}))
            (tile("slots in use", &format!("{taken} / {slots}"), &counted(status.workers.len() as u64, "worker", "workers"),
                bar(percent(taken, slots), Tone::Good)))
        }
    }
}

/// Files that are not online; what is out of reach is said only while there is such a file.
fn reach(nearline: u64, out_of_reach: u64) -> String {
    let away =
        if out_of_reach > 0 { format!(", {} out of reach", count(out_of_reach)) } else { String::new() };
    format!("{} nearline{away}", count(nearline))
}

fn tile(title: &str, figure: &str, remark: &str, bar: Markup) -> Markup {
    html! { div.tile { span.title { (title) } b { (figure) } span.remark { (remark) } (bar) } }
}

/// A problem that needs an operator.
struct Trouble {
    thing: String,
    what: String,
    command: Option<String>,
}

/// Returns the problems that need an operator, each with its command.
pub(super) fn attention(status: &Status) -> Markup {
    let troubles = troubles(status);
    let left = troubles.len().saturating_sub(ATTENTION_LINES_MAX);
    html! {
        @if !troubles.is_empty() {
            section.attention {
                h2 { "Needs attention" small { (troubles.len()) } }
                ul {
                    @for trouble in troubles.iter().take(ATTENTION_LINES_MAX) {
                        li {
                            b { (trouble.thing) }
                            span { (trouble.what) }
                            @if let Some(command) = &trouble.command { code { (command) } }
                        }
                    }
                    @if left > 0 { li { span { "and " (left) " more" } } }
                }
            }
        }
    }
}

fn troubles(status: &Status) -> Vec<Trouble> {
    let mut troubles = hosts(status);
    troubles.extend(tapes(status));
    for pool in &status.pools {
        troubles.extend(pool.partitions.iter().flat_map(|partition| in_partition(&pool.name, partition)));
    }
    for request in status.requests.iter().filter(|request| request.state == RequestState::Failed) {
        let what = format!("{} of {}: {}", request.kind.as_str(), request.path, request.reason);
        let command = Some(format!("bp admin request retry {}", request.id));
        troubles.push(Trouble { thing: format!("request {}", request.id), what, command });
    }
    troubles
}

fn hosts(status: &Status) -> Vec<Trouble> {
    let absent = status.hosts.iter().filter(|host| host.presence != Presence::Here);
    let trouble = |host: &HostStatus| {
        let what = match (host.presence, host.heard) {
            (Presence::Stopped, Some(heard)) => format!("stopped {} ago", age(status.now, heard)),
            (_, Some(heard)) => format!("is silent, last heard {} ago", age(status.now, heard)),
            (_, None) => "has not reported since the head started".to_owned(),
        };
        Trouble { thing: format!("host {}", host.name), what, command: None }
    };
    absent.map(trouble).collect()
}

/// Drives and volumes.
fn tapes(status: &Status) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for drive in &status.drives {
        let stuck = (drive.phase == TapePhase::Stuck).then(|| "is stuck".to_owned());
        if let Some(what) = drive.trouble.clone().or(stuck) {
            let command = Some(format!("bp drive up {}", drive.name));
            troubles.push(Trouble { thing: format!("drive {}", drive.name), what, command });
        }
    }
    for volume in status.volumes.iter().filter(|volume| volume.state == VolumeState::Suspect) {
        let what = volume.reason.clone().unwrap_or_else(|| "is suspect".to_owned());
        let command = match status.restored {
            Some(_) => format!("bp admin volume survey {}", volume.vid),
            None => format!("bp admin volume set {} full", volume.vid),
        };
        let command = Some(command);
        troubles.push(Trouble { thing: format!("volume {}", volume.vid), what, command });
    }
    let is_open = |request: &&OperatorRequest| request.answer == OperatorAnswer::Open;
    for request in status.operator_requests.iter().filter(is_open) {
        let what = format!("is in no library: {}; load it", request.reason);
        let command = Some(format!("bp operator done {}", request.id));
        troubles.push(Trouble { thing: format!("volume {}", request.vid), what, command });
    }
    troubles
}

fn in_partition(pool: &str, partition: &PartitionInfo) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    let mut add = |what: String, command: Option<String>| {
        troubles.push(Trouble { thing: format!("partition {pool}/{}", partition.name), what, command });
    };
    if !partition.is_available {
        let what = match partition.trouble {
            Some(PartitionTrouble::Gone) => "its file system is not mounted",
            _ => "its disk server is unavailable",
        };
        add(what.to_owned(), None);
    }
    if partition.trouble == Some(PartitionTrouble::ReadOnly) {
        add("its file system is read-only".to_owned(), None);
    }
    if partition.stuck_bytes > 0 {
        let missing = human_bytes(partition.stuck_bytes);
        let what = format!("{missing} above the high water, and no other file may be evicted");
        add(what, Some(format!("bp pool collect {pool} --dry-run")));
    }
    if partition.damaged > 0 {
        let count = counted(partition.damaged, "replica is", "replicas are");
        let command = format!("bp scan report {}", partition.name);
        add(format!("{count} damaged and without another copy"), Some(command));
    }
    troubles
}
