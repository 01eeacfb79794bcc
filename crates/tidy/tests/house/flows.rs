//! The page of flows: what it says of now is so, and no flow passes more functions than before.

use crate::{
    hold,
    paths::{located, quoted},
    tree::{read, root},
};

const PAGE: &str = "docs/design/flows.md";

/// Files of a cell, each with its functions: `` `a.rs`: `f`, `g`; `b.rs`: `h` ``. What is not in backquotes is for readers.
fn files(cell: &str) -> Vec<(&str, Vec<&str>)> {
    let one = |part| {
        let mut names = quoted(part);
        names.next().map(|file| (file, names.collect()))
    };
    cell.split(';').filter_map(one).collect()
}

/// The rows of a section's table: what was before, and what is now.
fn rows(section: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = section.lines().filter(|line| line.contains('`') && line.starts_with('|'));
    rows.filter_map(|line| {
        let mut cells = line.split('|').skip(2);
        Some((cells.next()?, cells.next()?))
    })
}

fn functions(cell: &str) -> usize {
    files(cell).iter().map(|(_, functions)| functions.len()).sum()
}

/// Functions that are not in the file which a cell names.
fn misplaced(cell: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, functions) in files(cell) {
        let text = located(file).map(|path| read(&path)).unwrap_or_default();
        let is_there = |function: &&&str| {
            ["fn ", "def "].iter().any(|word| {
                text.match_indices(&format!("{word}{function}")).any(|(at, found)| {
                    !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            })
        };
        let missing = functions.iter().filter(|function| !is_there(function));
        wrong.extend(missing.map(|function| format!("{PAGE}: {function} is not in {file}")));
    }
    wrong
}

#[test]
fn the_page_of_flows_is_so_and_none_has_become_longer() {
    let page = read(&root().join(PAGE));
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), 4, "a read, a recall, a job, a histogram");
    let mut wrong = Vec::new();
    for section in sections {
        let (mut before, mut now) = (0, 0);
        for (was, is) in rows(section) {
            (before, now) = (before + functions(was), now + functions(is));
            wrong.extend(misplaced(is));
        }
        if before < 20 || now > before {
            let name = section.lines().next().unwrap_or_default();
            wrong.push(format!("{PAGE}: {name}: {now} functions, {before} before"));
        }
    }
    hold(
        "Functions are where the page of flows says; a flow that becomes longer is made shorter again.",
        wrong,
    );
}

#[test]
fn cells_are_read_as_they_are_written() {
    let row = "| step | `a.rs` (x): `f`, `g`; `b.rs`: `h` | |";
    let (before, now) = rows(row).next().unwrap();
    assert_eq!((functions(before), functions(now)), (3, 0));
    assert_eq!(files(before)[1], ("b.rs", vec!["h"]));
    assert_eq!(misplaced("`tidy/tests/house/flows.rs`: `misplaced`, `mis`").len(), 1);
}
