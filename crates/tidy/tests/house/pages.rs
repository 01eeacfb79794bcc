//! What the pages of documentation promise: the index names each, and quoted messages are those of the code.

use crate::{
    hold,
    tree::{files_below, read, root, shown, sources},
};

#[test]
fn the_index_names_every_page_once() {
    let docs = root().join("docs");
    let index = read(&docs.join("README.md"));
    let pages = files_below(&docs, "md").into_iter().filter(|page| *page != docs.join("README.md"));
    let wrong = pages.filter_map(|page| {
        let name = page.strip_prefix(&docs).expect("it lies below").display().to_string();
        let times = index.matches(&format!("]({name})")).count();
        (times != 1).then(|| format!("{}: named {times} times", shown(&page)))
    });
    hold("docs/README.md names every page of docs/ once, for its reader.", wrong.collect());
}

/// Sections of a version in the changelog, in their order: readers who upgrade look for what breaks.
const SECTIONS: [&str; 7] = ["Breaking", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// Headings of the changelog that are no section, come twice in a version, or come too late.
fn misplaced(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut next = 0;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("## ") {
            next = 0;
        } else if let Some(heading) = line.strip_prefix("### ") {
            match SECTIONS.iter().skip(next).position(|section| *section == heading) {
                Some(passed) => next += passed + 1,
                None => wrong.push(format!("CHANGELOG.md:{}: {heading}", number + 1)),
            }
        }
    }
    wrong
}

#[test]
fn the_changelog_has_its_sections_in_order() {
    let text = read(&root().join("CHANGELOG.md"));
    hold(
        "Sections of a version are Breaking, Added, Changed, Deprecated, Removed, Fixed, Security, in this order.",
        misplaced(&text),
    );
}

#[test]
fn misplaced_sections_are_found() {
    let text = "## 2\n### Fixed\n### Breaking\n## 1\n### Breaking\n### Added\n### Added\n### News\n";
    let wrong = ["CHANGELOG.md:3: Breaking", "CHANGELOG.md:7: Added", "CHANGELOG.md:8: News"];
    assert_eq!(misplaced(text), wrong);
}

/// Messages that a page explains: headings in backquotes, with their line.
fn messages(text: &str) -> Vec<(usize, &str)> {
    let numbered = text.lines().enumerate();
    let quoted = numbered.filter_map(|(number, line)| Some((number + 1, line.strip_prefix("### `")?)));
    quoted.map(|(number, line)| (number, line.trim_matches(['`', ' ']))).collect()
}

/// Source text in which strings that go on in the next line are one.
fn joined(text: &str) -> String {
    let mut pieces = text.split("\\\n");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.trim_start())
}

/// Whether a source has all fixed parts of a message; `…` stands for what is filled in.
fn says(source: &str, message: &str) -> bool {
    message.split('…').map(str::trim).all(|part| source.contains(part))
}

#[test]
fn explained_messages_are_those_of_the_code() {
    let page = root().join("docs/troubleshooting.md");
    let texts: Vec<String> = sources().iter().map(|source| joined(&source.text)).collect();
    let text = read(&page);
    let stale =
        messages(&text).into_iter().filter(|(_, message)| !texts.iter().any(|text| says(text, message)));
    let stale = stale.map(|(line, message)| format!("{}:{line}: {message}", shown(&page)));
    hold("Each message that docs/troubleshooting.md explains stands in the code.", stale.collect());
}

#[test]
fn messages_are_found_in_pieces() {
    assert_eq!(messages("### `a … b`\n## x\n### ``c `d` e``\n"), [(1, "a … b"), (3, "c `d` e")]);
    assert_eq!(joined("one \\\n   two"), "one two");
    assert!(says("user {} may not {verb}", "user … may not …"));
    assert!(!says("user {} may {verb}", "user … may not …"));
}
