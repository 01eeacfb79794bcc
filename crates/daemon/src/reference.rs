//! The pages of reference for `bpd` and its configuration, made from the code and compared with `docs/reference`.

#[path = "../../cli/src/reference.rs"]
mod pages;

use crate::Cli;
use clap::CommandFactory;
use daemon::facility::config::Config;
use pages::{escaped, is_current, paragraph, sections};
use std::{collections::BTreeMap, fmt::Write as _};

/// The files that declare keys of the configuration, each with a comment.
const DECLARED: [&str; 8] = [
    include_str!("facility/config/mod.rs"),
    include_str!("facility/config/batch.rs"),
    include_str!("facility/config/disk.rs"),
    include_str!("facility/config/doors.rs"),
    include_str!("facility/config/tape.rs"),
    include_str!("facility/config/library.rs"),
    include_str!("facility/config/audit.rs"),
    include_str!("facility/config/issuers.rs"),
];

/// A struct of the configuration.
#[derive(Default)]
struct Section {
    about: String,
    keys: Vec<Key>,
}

/// A field of it.
struct Key {
    name: String,
    kind: String,
    about: String,
}

/// The public structs of a source file, by name.
fn declared(source: &str, found: &mut BTreeMap<String, Section>) {
    let (mut about, mut open) = (String::new(), None);
    for line in source.lines() {
        let text = line.trim();
        if let Some(comment) = text.strip_prefix("///") {
            about = format!("{about} {}", comment.trim()).trim().to_owned();
        } else if let Some(name) = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {")) {
            found.insert(name.to_owned(), Section { about: std::mem::take(&mut about), keys: Vec::new() });
            open = Some(name.to_owned());
        } else if line == "}" {
            open = None;
        } else if let (Some(name), Some((field, kind))) =
            (&open, text.strip_prefix("pub ").and_then(|field| field.split_once(": ")))
        {
            let key = Key {
                name: field.to_owned(),
                kind: kind.trim_end_matches(',').to_owned(),
                about: std::mem::take(&mut about),
            };
            found.entry(name.clone()).or_default().keys.push(key);
        } else if !text.starts_with("#[") {
            about.clear();
        }
    }
}

/// The name of the struct that a field holds, or of those in its list.
fn inner(kind: &str) -> (&str, bool) {
    kind.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')).map_or((kind, false), |one| (one, true))
}

/// A table of keys with their defaults.
fn table(keys: &[&Key], defaults: &toml::Table) -> String {
    let mut text = "\n| key | default | meaning |\n| --- | --- | --- |\n".to_owned();
    for key in keys {
        let default = defaults.get(&key.name).map(ToString::to_string).unwrap_or_default();
        assert!(!key.about.is_empty(), "{} has a comment", key.name);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "| `{}` | `{default}` | {} |", key.name, escaped(&key.about));
    }
    text
}

/// The page: the keys at the top, then section by section.
fn configuration() -> String {
    let mut structs = BTreeMap::new();
    for source in DECLARED {
        declared(source, &mut structs);
    }
    // Issuers and libraries are no part of the defaults; these have their own.
    let defaults: Config =
        toml::from_str("[[issuers]]\n[[tape.library]]\n").expect("every key of them has a default");
    let defaults: toml::Table = toml::from_str(&defaults.text()).expect("what is written can be read");
    let section = |key: &Key| structs.get(inner(&key.kind).0).filter(|section| !section.keys.is_empty());
    let top = &structs["Config"];
    let plain: Vec<_> = top.keys.iter().filter(|key| section(key).is_none()).collect();
    let mut text = format!("\n## Keys at the top\n{}", table(&plain, &defaults));
    for key in &top.keys {
        let Some(section) = section(key) else { continue };
        let (is_list, value) = (inner(&key.kind).1, &defaults[&key.name]);
        let heading = if is_list { format!("[[{}]]", key.name) } else { format!("[{}]", key.name) };
        let value = value.as_array().map_or(value, |list| &list[0]).as_table().expect("a section is a table");
        let _ = write!(text, "\n## `{heading}`\n\n{}", paragraph(&section.about));
        let (plain, lists): (Vec<&Key>, Vec<&Key>) = section
            .keys
            .iter()
            .partition(|key| structs.get(inner(&key.kind).0).is_none_or(|section| section.keys.is_empty()));
        text.push_str(&table(&plain, value));
        for list in lists {
            let inner = &structs[inner(&list.kind).0];
            let value = value[&list.name]
                .as_array()
                .and_then(|list| list[0].as_table())
                .expect("it is a list of tables");
            let _ = write!(text, "\n## `[[{}.{}]]`\n\n{}", key.name, list.name, paragraph(&inner.about));
            text.push_str(&table(&inner.keys.iter().collect::<Vec<_>>(), value));
        }
    }
    text
}

#[test]
fn the_reference_of_the_daemon_is_current() {
    let text = format!(
        "# Commands of `bpd`\n\n\
         Reference for operators. The page is made from the definitions in `crates/daemon`:\n\
         `UPDATE_SNAPSHOTS=1 cargo test -p daemon --bin bpd` makes it anew, and a test holds that it is current.\n{}",
        sections(&mut Cli::command())
    );
    is_current("bpd.md", &text);
}

#[test]
fn the_reference_of_the_configuration_is_current() {
    let text = format!(
        "# Configuration: `facility.toml`\n\n\
         Reference for operators. Each host reads `facility.toml` in its directory when its daemon starts. Unknown keys are\n\
         errors. Sizes and times have a unit (`64MiB`, `30s`). `bpd config` prints all keys with their defaults.\n\n\
         The page is made from the comments in `crates/daemon`: `UPDATE_SNAPSHOTS=1 cargo test -p daemon --bin bpd` makes\n\
         it anew, and a test holds that it is current.\n{}",
        configuration()
    );
    is_current("configuration.md", &text);
}

#[test]
fn every_configuration_of_the_examples_is_read() {
    for name in ["one-host/facility", "three-hosts/head", "three-hosts/disk", "three-hosts/worker"] {
        let file = format!("{}/../../examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).expect("the example is there");
        if let Err(failure) = Config::parse(&text) {
            panic!("{file}: {failure}");
        }
    }
}

#[test]
fn every_key_of_the_configuration_is_on_the_page() {
    fn names(table: &toml::Table, text: &str) {
        for (name, value) in table {
            let list = value.as_array().and_then(|list| list.first());
            match value.as_table().or_else(|| list.and_then(toml::Value::as_table)) {
                Some(inner) => names(inner, text),
                None => assert!(text.contains(&format!("| `{name}` |")), "{name}"),
            }
        }
    }
    let text = configuration();
    names(&toml::from_str(&Config::default().text()).expect("what is written can be read"), &text);
}
