//! Drives, volumes and the tape queue.

use super::words::{
    Tone, age, bar, counted, more, nothing, percent, phase_tone, request_tone, section, tag, volume_tone,
};
use base::units::human_bytes;
use maud::{Markup, html};
use std::cmp::Reverse;
use wire::control::{DriveInfo, RequestInfo, RequestKind, RequestState, Status, VolumeInfo};

/// Rows of the queue on the page.
const QUEUE_ROWS_MAX: usize = 40;
/// Volumes on the page.
const VOLUMES_MAX: usize = 240;

/// What each drive is doing.
pub(super) fn drives(status: &Status) -> Markup {
    if status.drives.is_empty() {
        return section("Drives", "", nothing("no tape library has registered"));
    }
    section("Drives", "", html! { div.drives { @for one in &status.drives { (drive(one)) } } })
}

fn drive(drive: &DriveInfo) -> Markup {
    let tone = phase_tone(drive.phase);
    let done = percent(drive.bytes_done, drive.bytes_total);
    html! {
        div class={ "drive" @if drive.trouble.is_some() { " out" } } {
            span.name title={ "library " (drive.library) ", host " (drive.host) ", " (drive.device.words()) } { (drive.name) }
            span.vid { @if let Some(vid) = &drive.vid { code.label { (vid) } } }
            (tag(drive.phase.as_str(), tone))
            span.what {
                @if let Some(path) = &drive.path {
                    span.path title=(path) { bdi { (path) } }
                } @else if let Some(trouble) = &drive.trouble {
                    span.trouble { (trouble) }
                }
            }
            span.left {
                @if drive.files_left > 0 { (counted(drive.files_left, "file", "files")) " left" }
            }
            @if drive.path.is_some() && drive.bytes_total > 0 {
                span.progress {
                    (bar(done, tone))
                    span.n { (human_bytes(drive.bytes_done)) span.faint { " of " (human_bytes(drive.bytes_total)) } }
                }
            }
            @if let (Some(trouble), Some(_)) = (&drive.trouble, &drive.path) { span.progress.trouble { (trouble) } }
        }
    }
}

/// What waits for what, and why, in the order of the status: active rows, failed ones, then by age.
pub(super) fn queue(status: &Status) -> Markup {
    if status.requests.is_empty() {
        return section("Tape queue", "", nothing("empty"));
    }
    let rows = &status.requests[..status.requests.len().min(QUEUE_ROWS_MAX)];
    let body = html! {
        table {
            thead { tr {
                th.n { "id" } th { "state" } th { "file" } th.n { "size" } th { "volume" } th.stretch { "why" }
                th.wide { "owner" } th.n { "waits" }
            } }
            tbody { @for row in rows { (queue_row(status, row)) } }
        }
        (more(rows.len(), status.requests_len, "bp queue"))
    };
    section("Tape queue", &counted(status.requests_len, "request", "requests"), body)
}

fn queue_row(status: &Status, row: &RequestInfo) -> Markup {
    let (word, tone) = (row.state_word(), request_tone(row));
    let (arrow, title) = match row.kind {
        RequestKind::Archive => ("↑", "archive: to tape"),
        RequestKind::Recall => ("↓", "recall: from tape"),
    };
    html! {
            tr {
                td.n.faint { (row.id) }
                td { span.arrow title=(title) { (arrow) } (tag(word, tone)) }
                td.path title=(row.path) { bdi { (row.path) } }
                td.n { (human_bytes(row.size)) }
                td { @if let Some(vid) = &row.vid { code { (vid) } } }
                td.why.stretch.trouble[tone == Tone::Bad] title=(row.reason) {
                    (row.reason)
    @if row.attempts > 0 { span.faint { " · " (tries(row)) } }
                }
                td.wide { (row.owner) }
                td.n { (age(status.now, row.created)) }
            }
        }
}

fn tries(row: &RequestInfo) -> String {
    match row.state {
        RequestState::Failed => format!("tried {}", counted(row.attempts.into(), "time", "times")),
        RequestState::Queued | RequestState::Active => format!("try {}", row.attempts.saturating_add(1)),
    }
}

/// Every volume as a small card; those in drives and those that need a person first.
pub(super) fn volumes(status: &Status) -> Markup {
    if status.volumes.is_empty() {
        return section("Volumes", "", nothing("no tape library has registered"));
    }
    let mut shown: Vec<&VolumeInfo> = status.volumes.iter().collect();
    shown.sort_by_key(|volume| {
        (Reverse(volume.drive.is_some()), Reverse(volume_tone(volume.state) == Tone::Bad), volume.vid.clone())
    });
    shown.truncate(VOLUMES_MAX);
    let body = html! {
        div.volumes { @for volume in &shown { (card(volume)) } }
        (more(shown.len(), status.counts.all_volumes(), "bp volumes"))
    };
    section("Volumes", &counted(status.counts.all_volumes(), "volume", "volumes"), body)
}

/// The drive's name without that of the library, which the volume is in as well.
fn short_drive<'a>(volume: &VolumeInfo, drive: &'a str) -> &'a str {
    let rest = drive.strip_prefix(&*volume.library).and_then(|rest| rest.strip_prefix('.'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(drive)
}

fn card(volume: &VolumeInfo) -> Markup {
    let live = percent(volume.live_bytes, volume.capacity_bytes);
    let dead = percent(volume.used_bytes.saturating_sub(volume.live_bytes), volume.capacity_bytes);
    let title = format!(
        "{}: {} live and {} used of {}, loaded {}{}",
        volume.library,
        human_bytes(volume.live_bytes),
        human_bytes(volume.used_bytes),
        human_bytes(volume.capacity_bytes),
        counted(volume.loads, "time", "times"),
        volume.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default()
    );
    html! {
        div.volume title=(title) {
            div.top {
                code.label { (volume.vid) }
                @if let Some(drive) = &volume.drive { span.in { "in " (short_drive(volume, drive)) } }
                (tag(volume.state.as_str(), volume_tone(volume.state)))
            }
            span.bar.fill role="img" aria-label={ (format!("{:.0} %", live + dead)) } {
                i style={ "width:" (format!("{live:.1}")) "%" } {}
                i.dead style={ "width:" (format!("{:.1}", dead.min(100.0 - live))) "%" } {}
            }
            div.bottom {
                span { (human_bytes(volume.used_bytes)) span.faint { " of " (human_bytes(volume.capacity_bytes)) } }
                span.faint { (counted(volume.files, "file", "files")) }
            }
            @if let Some(reason) = &volume.reason { div.trouble { (reason) } }
        }
    }
}
