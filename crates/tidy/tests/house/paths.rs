//! Pages name files of the repository; what they name must exist.

use crate::{
    hold,
    tree::{files_below, read, root, shown},
};
use std::path::{Path, PathBuf};

/// Folders at the top whose files pages name in backquotes; the crates are named without `crates/`, too.
const TOPS: [&str; 10] =
    ["bench", "crates", "demo", "docs", "examples", "fuzz", "packaging", "python", "spec", "tests"];

/// What is made by a run.
const MADE: [&str; 1] = ["bench/results"];

/// Texts of a line in backquotes.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a text in backquotes is meant as a path of this repository.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let Some((first, _)) = text.split_once('/') else { return false };
    let is_ours = TOPS.contains(&first) || !first.is_empty() && root().join("crates").join(first).is_dir();
    is_ours && text.chars().all(plain) && !MADE.iter().any(|made| text.starts_with(made))
}

/// Where a path is: as it is, in `crates`, or below `src` of a crate.
pub(crate) fn located(path: &str) -> Option<PathBuf> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let inside = root().join("crates").join(first);
    [root().join(path), inside.join(rest), inside.join("src").join(rest)]
        .into_iter()
        .find(|path| path.exists())
}

fn exists(path: &str) -> bool {
    located(path).is_some()
}

/// The places where a page names what is not there.
fn stale(page: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in read(page).lines().enumerate() {
        let missing = quoted(line).filter(|text| is_path(text) && !exists(text));
        wrong.extend(missing.map(|text| format!("{}:{}: {text}", shown(page), number + 1)));
    }
    wrong
}

#[test]
fn every_path_that_a_page_names_exists() {
    let pages = files_below(root(), "md");
    hold(
        "Files of the repository that a page names exist.",
        pages.iter().flat_map(|page| stale(page)).collect(),
    );
}

#[test]
fn paths_are_told_from_other_words() {
    assert!(is_path("head/src/store") && is_path("crates/none") && is_path("docs/README.md"));
    assert!(!is_path("text/plain") && !is_path("head") && !is_path("docs/*.md") && !is_path("bench/results"));
    assert!(exists("wire/xrd") && exists("crates/head/src/store") && !exists("head/none.rs"));
    assert_eq!(quoted("`a/b`, c and `d`").collect::<Vec<_>>(), ["a/b", "d"]);
}
