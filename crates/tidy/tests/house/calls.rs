//! A call of the management API is declared once: nothing else lists calls.

use crate::{
    Exception, except, hold,
    source::Source,
    tree::{files_below, read, root, shown, sources},
};
use std::collections::BTreeSet;

/// Where calls are declared.
const TABLE: &str = "crates/wire/src/control/calls.rs";

/// Files that may list calls.
const LISTS: [Exception; 2] = [
    Exception { path: TABLE, why: "it is the one list" },
    Exception {
        path: "crates/disk/src/port.rs",
        why: "the port of a disk server says which calls it makes of any head",
    },
];

/// Calls that a file may have beside each other, by type or by name: a verb may need a few, a list has more.
const BESIDE_MAX: usize = 7;
/// Words between two of them that still make a list, as `round::<A>(data); round::<B>(data);`.
const APART_MAX: usize = 3;

/// Types and names of all calls.
struct Calls {
    types: BTreeSet<String>,
    /// Those with an underscore: others are words that mean much else.
    names: BTreeSet<String>,
}

impl Calls {
    /// Reads the table: `Type => Reply, "name", …`.
    fn read(table: &str) -> Self {
        let entries = table.lines().filter_map(|line| {
            let (call, rest) = line.trim().split_once(" => ")?;
            let name = rest.split('"').nth(1)?;
            call.chars().all(char::is_alphanumeric).then(|| (call.to_owned(), name.to_owned()))
        });
        let (types, names): (_, BTreeSet<String>) = entries.unzip();
        Self { types, names: names.into_iter().filter(|name| name.contains('_')).collect() }
    }

    /// Most types of calls that stand beside each other, with the place of the last.
    fn types_beside(&self, code: &str) -> (usize, usize) {
        let (mut most, mut run, mut apart) = ((0, 0), BTreeSet::new(), 0);
        for (at, word) in words(code) {
            apart = if self.types.contains(word) { 0 } else { apart + 1 };
            if apart > APART_MAX {
                run.clear();
            } else if apart == 0 {
                run.insert(word);
                most = most.max((run.len(), at));
            }
        }
        most
    }

    /// Different names of calls among texts, with or without the path of the API.
    fn names_among<'a>(&self, texts: impl Iterator<Item = &'a str>) -> usize {
        let names = texts.map(|text| text.trim_start_matches("/api/v1/"));
        names.filter(|name| self.names.contains(*name)).collect::<BTreeSet<_>>().len()
    }
}

/// The words of code, with their places.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let starts = code.char_indices().scan(' ', move |before, (at, c)| {
        let starts = is_letter(c) && !is_letter(*before);
        *before = c;
        Some(starts.then_some(at))
    });
    starts.flatten().map(move |at| {
        let word = &code[at..];
        (at, &word[..word.find(|c| !is_letter(c)).unwrap_or(word.len())])
    })
}

/// Code with blanks for what it imports and for tests: a module that uses calls names them.
fn without_imports(source: &Source) -> String {
    let mut is_import = false;
    let lines = source.code.lines().zip(&source.is_test).map(|(line, is_test)| {
        is_import |=
            ["use ", "pub use ", "pub(crate) use "].iter().any(|word| line.trim_start().starts_with(word));
        let is_left_out = is_import || *is_test;
        is_import &= !line.contains(';');
        if is_left_out { " ".repeat(line.len()) } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn nothing_else_lists_calls() {
    let calls = Calls::read(&read(&root().join(TABLE)));
    assert!(calls.types.len() > 100, "the table of calls is read");
    let mut wrong = Vec::new();
    for source in sources() {
        let (beside, at) = calls.types_beside(&without_imports(&source));
        if beside > BESIDE_MAX {
            wrong.push(format!("{}: {beside} types of calls beside each other", source.place(at)));
        }
        let texts = source.literals.iter().filter(|literal| !source.is_test_at(literal.quote));
        let named = calls.names_among(texts.map(|literal| literal.text.as_str()));
        if named > BESIDE_MAX {
            wrong.push(format!("{}:1: names of {named} calls", source.path));
        }
    }
    for path in files_below(&root().join("python/src"), "py") {
        let named = calls.names_among(read(&path).split(['"', '\'']));
        if named > BESIDE_MAX {
            wrong.push(format!("{}:1: names of {named} calls", shown(&path)));
        }
    }
    hold(&format!("Calls are listed in {TABLE} only; make other lists from it."), except(wrong, &LISTS));
}

#[test]
fn lists_are_told_from_uses() {
    let calls = Calls::read("Stat => FileInfo, \"get_stat\", P;\nList => Listing, \"list\", P;\n");
    assert_eq!(calls.types_beside("round::<Stat>(data); round::<List>(data);").0, 2);
    assert_eq!(
        calls.types_beside("impl Apply for Stat { fn apply(a: b, c: d) {} } impl Apply for List").0,
        1
    );
    assert_eq!(calls.names_among(["/api/v1/get_stat", "list", "get_stat"].into_iter()), 1);
    let source = Source::new("x.rs".into(), "x", "use a::{\n    Stat, List,\n};\nfn f() {}\n".into(), false);
    assert_eq!(calls.types_beside(&without_imports(&source)).0, 0);
}
