//! Who may use whom inside a crate: its folders lie in layers, and each uses only those below it.

use crate::{hold, source::Source, tree};

/// Layers of a crate from the bottom up. A folder may use what stands before it. What is not named is not looked at.
const LAYERS: [(&str, &[&str]); 2] = [
    ("disk", &["clock", "io", "object", "port", "remote", "replicate", "serve", "upkeep"]),
    ("daemon", &["facility", "access", "hosts", "metrics", "doors", "boot"]),
];

/// What must not use something, whatever the layers allow: folder, what it must not name, why.
const APART: [(&str, &str, &str); 8] = [
    ("crates/head/src/store/", "crate::pool", "rows know nothing of what is decided about them"),
    ("crates/head/src/store/", "crate::tape", "rows know nothing of what is decided about them"),
    ("crates/head/src/store/", "crate::batch", "rows know nothing of what is decided about them"),
    ("crates/head/src/pool/decide/", "crate::store::Store", "decisions are pure functions of plain values"),
    ("crates/head/src/pool/decide/", "crate::Core", "decisions are pure functions of plain values"),
    ("crates/daemon/src/doors/xrootd/", "crate::doors::http", "one door never depends on another"),
    ("crates/daemon/src/doors/http/", "crate::doors::xrootd", "one door never depends on another"),
    ("crates/wire/src/xrd/", "crate::control", "other people's protocols know nothing of ours"),
];

/// Most files beside each other in one folder.
const FOLDER_FILES_MAX: usize = 22;

/// Crates whose folders are kept small; those of `cli` have one file for each verb.
const SMALL: [&str; 4] = ["crates/daemon/src", "crates/disk/src", "crates/head/src", "crates/wire/src"];

/// Every path that begins with `crate::`, with the groups of `use` written out.
fn crate_paths(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices("crate::") {
        if !source.is_test_at(at) {
            expand(&source.code[at..], "", &mut |path| found.push((at, path)));
        }
    }
    found
}

/// Writes out one path of code; what is behind a group is not part of it. Returns how much of `code` was read.
fn expand(code: &str, before: &str, found: &mut dyn FnMut(String)) -> usize {
    let end = code.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(code.len());
    let path = format!("{before}{}", &code[..end]);
    if !(path.ends_with("::") && code[end..].starts_with('{')) {
        found(path);
        return end;
    }
    let mut at = end + 1;
    while let Some(next) = code[at..].find(|c: char| !c.is_whitespace() && c != ',') {
        at += next;
        if code[at..].starts_with('}') {
            return at + 1;
        }
        at += expand(&code[at..], &path, found).max(1);
    }
    at
}

#[test]
fn folders_lie_in_layers() {
    let mut wrong = Vec::new();
    for source in tree::sources() {
        let Some((home, layers, own)) = layer_of(&source.path) else { continue };
        for (at, path) in crate_paths(&source) {
            let used = path.split("::").nth(1).unwrap_or_default();
            let place = layers.iter().position(|layer| *layer == used);
            if place.is_some_and(|place| place > own) {
                wrong.push(format!("{}: {home}::{} uses {used}", source.place(at), layers[own]));
            }
        }
    }
    hold("Folders of a crate use only the layers below them.", wrong);
}

/// The crate, its layers and the place of a file among them.
fn layer_of(path: &str) -> Option<(&'static str, &'static [&'static str], usize)> {
    LAYERS.iter().find_map(|(home, layers)| {
        let inside = path.strip_prefix(&format!("crates/{home}/src/"))?;
        let folder = inside.split('/').next()?.trim_end_matches(".rs");
        layers.iter().position(|layer| *layer == folder).map(|own| (*home, *layers, own))
    })
}

#[test]
fn what_is_apart_stays_apart() {
    let mut wrong = Vec::new();
    for source in tree::sources() {
        for (folder, other, why) in APART {
            if source.path.starts_with(folder) {
                let uses = |path: &str| path == other || path.starts_with(&format!("{other}::"));
                let paths = crate_paths(&source).into_iter().filter(|(_, path)| uses(path));
                wrong.extend(paths.map(|(at, path)| format!("{}: {path}: {why}", source.place(at))));
            }
        }
    }
    hold("Folders that must not know each other do not.", wrong);
}

#[test]
fn folders_are_small() {
    let mut files = std::collections::BTreeMap::<String, usize>::new();
    for source in tree::sources() {
        if let Some((folder, _)) = source
            .path
            .rsplit_once('/')
            .filter(|(folder, _)| SMALL.iter().any(|home| folder.starts_with(home)))
        {
            *files.entry(folder.to_owned()).or_default() += 1;
        }
    }
    let large = files.into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    hold(
        "Few files lie beside each other in one folder.",
        large.map(|(folder, count)| format!("{folder}: {count} files")).collect(),
    );
}

#[test]
fn groups_of_use_are_written_out() {
    let text = "use crate::{\n    a::{b, c::D},\n    e,\n};\nfn f() { crate::g::h(1) }\n";
    let source = Source::new("x.rs".into(), "x", text.into(), false);
    let paths: Vec<_> = crate_paths(&source).into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["crate::a::b", "crate::a::c::D", "crate::e", "crate::g::h"]);
}
