//! Mounts of the facility, the files that they use, and who waits for whom.

use super::words::{Tone, age, clock, count, more, nothing, section, span, tag};
use maud::{Markup, html};
use wire::control::{MountInfo, Mounts, ShareWait, SharedFileInfo, Status};

/// Rows of each table on the page.
const ROWS_MAX: usize = 20;

/// Sessions of mounts; who waits comes first, for that is what people come for.
pub(super) fn mounts(status: &Status, mounts: &Mounts) -> Markup {
    if mounts.mounts.is_empty() {
        return section("Mounts", "", nothing("nobody has mounted the facility"));
    }
    let shown = &mounts.mounts[..mounts.mounts.len().min(ROWS_MAX)];
    let files = &mounts.files[..mounts.files.len().min(ROWS_MAX)];
    let body = html! {
        (waits(mounts))
        table {
            thead { tr { th.n { "mount" } th { "state" } th { "user" } th { "path" } th.stretch { "where" } th.n { "since" } } }
            tbody { @for mount in shown { (mount_row(status, mount)) } }
        }
        (more(shown.len(), mounts.mounts.len() as u64, "bp lease"))
        @if !files.is_empty() {
            table {
                thead { tr { th { "file" } th.stretch { "grants" } th { "locks" } th { "opened by" } } }
                tbody { @for file in files { (file_row(file)) } }
            }
            (more(files.len(), mounts.files.len() as u64, "bp lease"))
        }
    };
    section("Mounts", &format!("{} sessions", count(mounts.mounts.len() as u64)), body)
}

fn waits(mounts: &Mounts) -> Markup {
    let all = mounts.files.iter().flat_map(|file| file.waits.iter().map(move |wait| (file, wait)));
    let mut waits: Vec<(&SharedFileInfo, &ShareWait)> = all.collect();
    waits.sort_by_key(|(_, wait)| wait.since);
    let shown = &waits[..waits.len().min(ROWS_MAX)];
    html! {
        @if !shown.is_empty() {
            table {
                thead { tr { th.n { "mount" } th.n { "waited" } th { "wants" } th { "of file" } th.stretch { "because" } } }
                tbody { @for (file, wait) in shown {
                    tr {
                        td.n { @if wait.client.0 == 0 { "door" } @else { (wait.client) } }
                        td.n { @let waited = mounts.now - wait.since; (span(waited)) }
                        td { (wait.what) }
                        td title=(file.path) { (file.path) }
                        td.why.stretch title=(wait.why) { (wait.why) }
                    }
                } }
            }
            (more(shown.len(), waits.len() as u64, "bp lease"))
        }
    }
}

fn mount_row(status: &Status, mount: &MountInfo) -> Markup {
    html! {
        tr {
            td.n.faint { (mount.client) }
            td { @if mount.is_live { (tag("live", Tone::Good)) } @else { (tag("silent", Tone::Bad)) } }
            td { (mount.user) }
            td { (mount.path) }
            td.stretch { (mount.host) }
            td.n title={ (age(status.now, mount.since)) " ago" } { (clock(status.now, mount.since)) }
        }
    }
}

fn file_row(file: &SharedFileInfo) -> Markup {
    let texts = |texts: Vec<String>| texts.join(", ");
    html! {
        tr {
            td title=(file.path) { (file.path) }
            td.stretch { (texts(file.grants.iter().map(ToString::to_string).collect())) }
            td { (texts(file.locks.iter().map(ToString::to_string).collect())) }
            td { (texts(file.opens.iter().map(ToString::to_string).collect())) }
        }
    }
}
