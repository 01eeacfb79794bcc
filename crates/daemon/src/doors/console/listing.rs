//! The page of one directory: names, sizes, dates, and where the bytes are. No script, nothing loaded.

use super::{
    ICON,
    words::{Tone, tag},
};
use base::{FilePath, Timestamp, units::human_bytes};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use wire::{
    control::{Entry, FileState, NodeKind},
    http::encode_path,
};

const STYLE: &str = include_str!("listing.css");

/// `Content-Security-Policy` to send with the page.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Stands where the rows go. No path has a control character.
const ROWS: &str = "\u{1}";

/// What stands before and after the rows of `path`.
///
/// Programs follow every link: for them there is none but to files and directories.
#[must_use]
pub fn frame(path: &FilePath, is_for_browser: bool) -> (String, String) {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (path.as_str()) " · Backplane" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    nav aria-label="path" { (crumbs(path, if is_for_browser { "/?files" } else { "/" })) }
                    @if is_for_browser { a.console href="/console" { "console" } }
                }
                main {
                    table {
                        thead { tr { th scope="col" { "Name" } th.n scope="col" { "Size" } th scope="col" { "Changed (UTC)" } th scope="col" { "Where" } } }
                        tbody { (ROWS) }
                    }
                }
            }
        }
    };
    let page = page.into_string();
    let (before, after) = page.split_once(ROWS).unwrap_or((&page, ""));
    (before.to_owned(), after.to_owned())
}

/// Every directory on the way as a link; `root` is that of the first.
fn crumbs(path: &FilePath, root: &str) -> Markup {
    let mut above = Vec::new();
    let mut next = Some(path.clone());
    while let Some(path) = next {
        next = path.parent();
        above.push(path);
    }
    html! {
        @for directory in above.iter().rev() {
            @if directory.is_root() {
                a href=(root) { "/" }
            } @else if directory == path {
                b { (directory.name()) }
            } @else {
                a href={ (encode_path(directory)) "/" } { (directory.name()) } span { "/" }
            }
        }
    }
}

/// The rows of some entries of `path`.
#[must_use]
pub fn rows(path: &FilePath, entries: &[Entry]) -> Markup {
    html! { @for entry in entries { (row(path, entry)) } }
}

fn row(path: &FilePath, entry: &Entry) -> Markup {
    let is_directory = entry.kind == NodeKind::Directory;
    let target = path.join(&entry.name).map(|path| encode_path(&path)).unwrap_or_default();
    html! {
        tr {
            td.name {
                @if is_directory {
                    a.directory href={ (target) "/" } { (entry.name) "/" }
                } @else if entry.kind == NodeKind::File {
                    a href=(target) { (entry.name) }
                } @else {
                    (entry.name) " (" (entry.kind.as_str()) ")"
                }
            }
            td.n { @if !is_directory { span title={ (entry.size) " bytes" } { (human_bytes(entry.size)) } } }
            td.date { (date(entry.content_modified())) }
            td { @if let Some(state) = entry.state { (place(state)) } }
        }
    }
}

fn place(state: FileState) -> Markup {
    match state {
        FileState::Online => tag("disk", Tone::Good),
        FileState::Nearline => tag("tape", Tone::Quiet),
        FileState::Both => html! { (tag("disk", Tone::Good)) " " (tag("tape", Tone::Quiet)) },
        FileState::Writing => tag("being written", Tone::Busy),
        FileState::Live => tag("live", Tone::Busy),
        FileState::OutOfReach => tag("out of reach", Tone::Bad),
        FileState::Lost => tag("lost", Tone::Bad),
    }
}

fn date(then: Timestamp) -> String {
    then.civil().to_the_minute()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::FileId;

    fn entry(name: &str, kind: NodeKind) -> Entry {
        Entry {
            id: FileId(7),
            name: name.to_owned(),
            kind,
            owner: "alice".to_owned(),
            group: "alice".to_owned(),
            mode: 0o644,
            size: 1536,
            modified: Timestamp(784_111_777_000),
            source_modified: None,
            checksums: None,
            state: (kind == NodeKind::File).then_some(FileState::Both),
            posix: wire::control::PosixFields::default(),
        }
    }

    #[test]
    fn names_are_escaped_and_links_encoded() {
        let path: FilePath = "/a&b/c d".parse().unwrap();
        let (before, after) = frame(&path, true);
        assert!(before.starts_with("<!DOCTYPE html>") && after.ends_with("</html>"));
        assert!(before.contains("href=\"/a%26b/\"") || before.contains("href=\"/a&amp;b/\""), "{before}");
        let rows = rows(&path, &[entry("<x>?", NodeKind::File), entry("sub", NodeKind::Directory)]);
        let rows = rows.into_string();
        assert!(rows.contains("/c%20d/%3Cx%3E%3F") && rows.contains("&lt;x&gt;?"), "{rows}");
        assert!(rows.contains("sub/</a>") && rows.contains("1994-11-06 08:49") && !rows.contains("<script"));
    }

    #[test]
    fn the_root_has_no_parent() {
        let (before, _) = frame(&FilePath::root(), true);
        assert!(before.contains("<nav aria-label=\"path\"><a href=\"/?files\">/</a></nav>"), "{before}");
        let (before, _) = frame(&FilePath::root(), false);
        assert!(
            before.contains("<a href=\"/\">/</a></nav>") && !before.contains("href=\"/console\""),
            "{before}"
        );
    }
}
