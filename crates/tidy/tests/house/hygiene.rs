//! What is in the repository besides code.

use crate::{
    hold,
    tree::{files_below, read, root, shown},
};
use std::{path::Path, process::Command};

/// Largest file that may be tracked: bigger ones are made by scripts or fetched.
const TRACKED_BYTES_MAX: u64 = 1 << 20;

#[test]
fn nothing_big_is_tracked() {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    // Without git, or outside a clone, nothing is tracked.
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        return;
    };
    let names = String::from_utf8_lossy(&listed.stdout);
    let bytes = |name: &str| root().join(name).symlink_metadata().map_or(0, |metadata| metadata.len());
    let big = names.split('\0').filter(|name| !name.is_empty() && bytes(name) > TRACKED_BYTES_MAX);
    hold(
        "No tracked file is larger than 1 MiB.",
        big.map(|name| format!("{name}: {} bytes", bytes(name))).collect(),
    );
}

/// Targets of Markdown links, with their line; code blocks are left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = &line[at + 2..];
            let target = target.split([')', ' ']).next().unwrap_or_default();
            links.push((number + 1, target));
        }
        for (at, _) in line.match_indices("src=\"") {
            let target = line[at + 5..].split('"').next().unwrap_or_default();
            links.push((number + 1, target));
        }
    }
    links
}

/// Pages of documentation: those of the root, `docs/` and `spec/`.
fn pages() -> Vec<std::path::PathBuf> {
    let mut pages = files_below(&root().join("docs"), "md");
    pages.extend(files_below(&root().join("spec"), "md"));
    pages
        .extend(std::fs::read_dir(root()).expect("the root can be read").flatten().map(|entry| entry.path()));
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages
}

/// Longest line of prose, in characters: what two windows beside each other show.
const PROSE_LINE_MAX: usize = 120;

/// Lines of prose that are too long, with their number; code blocks and tables are left out.
fn long_lines(text: &str) -> Vec<usize> {
    let mut long = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        let begin = line.trim_start();
        is_code ^= begin.starts_with("```");
        if !is_code && !begin.starts_with('|') && line.chars().count() > PROSE_LINE_MAX {
            long.push(number + 1);
        }
    }
    long
}

#[test]
fn prose_of_pages_stays_readable() {
    let long = pages().into_iter().flat_map(|page| {
        let lines = long_lines(&read(&page));
        lines.into_iter().map(move |line| format!("{}:{line}", shown(&page)))
    });
    hold("A line of prose has at most 120 characters.", long.collect());
}

#[test]
fn long_lines_are_found_outside_code_and_tables() {
    let long = "é".repeat(PROSE_LINE_MAX + 1);
    let text = format!("{long}\n{}\n```text\n{long}\n```\n| {long} |\n  {long}", &long[2..]);
    assert_eq!(long_lines(&text), [1, 7]);
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages = pages();
    let mut dead = Vec::new();
    for page in pages {
        let text = read(&page);
        for (line, target) in links(&text) {
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            let path = target.split('#').next().unwrap_or_default();
            let directory = page.parent().unwrap_or(Path::new(""));
            if !is_elsewhere && !path.is_empty() && !directory.join(path).exists() {
                dead.push(format!("{}:{line}: {target}", shown(&page)));
            }
        }
    }
    hold("Links between pages lead to files that exist.", dead);
}

#[test]
fn links_are_found_outside_code() {
    let text = "see [a](docs/a.md#b) and [c](https://d)\n```\n[no](x)\n```\n<img src=\"e.svg\">";
    assert_eq!(links(text), [(1, "docs/a.md#b"), (1, "https://d"), (5, "e.svg")]);
}
