//! Who may depend on whom: a rule that only a crate boundary can enforce is enforced here.

use crate::{hold, manifest, tree};

/// Arrows of `ARCHITECTURE.md`, in full: a crate and all crates of ours that it may use.
const ARROWS: [(&str, &[&str]); 23] = [
    ("base", &[]),
    ("wire", &["base", "share"]),
    ("socket", &["base"]),
    ("trust", &["base"]),
    ("net", &["base", "wire", "socket", "trust"]),
    ("client", &["base", "wire", "socket", "trust"]),
    ("head", &["base", "wire", "trust", "share"]),
    ("disk", &["base", "wire", "socket", "trust", "net", "client", "share"]),
    ("tape", &["base", "wire", "client"]),
    ("batch", &["base", "wire", "client", "fuse"]),
    ("ntuple", &["base"]),
    ("share", &["base"]),
    ("sim", &["head", "base", "wire"]),
    ("daemon", &["base", "wire", "socket", "trust", "net", "client", "head", "disk", "tape", "batch"]),
    ("cli", &["fuse", "client", "wire", "base", "ntuple"]),
    ("capi", &["fuse", "client", "share", "wire", "base"]),
    ("backplane-python", &["fuse", "client", "share", "wire", "base", "ntuple"]),
    ("fuzz-bodies", &["base", "batch", "client", "daemon", "disk", "fuse", "ntuple", "sim", "wire"]),
    ("rfio-load", &["base", "wire", "socket"]),
    ("head-load", &["base", "wire", "head"]),
    ("forget-fs", &["base", "fuse"]),
    ("tidy", &[]),
    ("fuse", &["base", "wire", "client", "share"]),
];

/// Arrows that only tests may follow: from, to, why.
const TEST_ARROWS: [(&str, &str, &str); 4] = [
    ("net", "client", "sessions are tested with our own client as with those of others"),
    ("batch", "net", "workers are tested against a data door"),
    ("daemon", "share", "doors are tested with grants and fences"),
    ("head", "sim", "the head's rules are tested with simulated rooms around it"),
];

/// Third-party crates that bring a clock, sockets, files or a runtime, and the only crates that may use them.
const THIRD_PARTY: [(&str, &[&str]); 7] = [
    ("rusqlite", &["head"]),
    ("tokio-postgres", &["head"]),
    ("tokio-postgres-rustls", &["head"]),
    ("tokio", &["net", "head", "disk", "daemon", "head-load"]),
    ("ureq", &["client"]),
    (
        "rustix",
        &[
            "socket",
            "net",
            "client",
            "disk",
            "tape",
            "batch",
            "cli",
            "capi",
            "daemon",
            "fuse",
            "rfio-load",
            "forget-fs",
        ],
    ),
    ("maud", &["daemon"]),
];

/// Names that say nothing about what is inside.
const NAMES_REFUSED: [&str; 6] = ["common", "utils", "util", "types", "server", "misc"];

#[test]
fn arrows_point_down_only() {
    let all = manifest::manifests();
    let ours: Vec<_> = all.iter().map(|manifest| manifest.name.as_str()).collect();
    let mut wrong = Vec::new();
    for manifest in &all {
        let name = manifest.name.as_str();
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            wrong.push(format!("{name}: its arrows are not in the table"));
            continue;
        };
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let to = manifest.dependencies(kind);
            for (to, _) in to
                .into_iter()
                .filter(|(to, _)| ours.contains(&to.as_str()) && !allowed.contains(&to.as_str()))
            {
                let is_for_tests = kind == "dev-dependencies";
                let is_listed = TEST_ARROWS.iter().any(|(from, listed, _)| *from == name && listed == to);
                if !(is_for_tests && is_listed) {
                    wrong.push(format!("{}/Cargo.toml: {name} → {to} ({kind})", manifest.directory));
                }
            }
        }
    }
    hold("Crates depend on each other only along the arrows of ARCHITECTURE.md.", wrong);
}

#[test]
fn every_test_arrow_is_used() {
    let all = manifest::manifests();
    let is_used = |from: &str, to: &str| {
        let manifest = all.iter().find(|manifest| manifest.name == from);
        manifest.is_some_and(|manifest| {
            manifest.dependencies("dev-dependencies").iter().any(|(name, _)| *name == to)
        })
    };
    let idle = TEST_ARROWS.iter().filter(|(from, to, _)| !is_used(from, to));
    hold(
        "An arrow that only tests may follow is followed.",
        idle.map(|(from, to, why)| format!("{from} → {to}: {why}")).collect(),
    );
}

#[test]
fn sockets_files_runtimes_and_sql_stay_where_they_belong() {
    let mut wrong = Vec::new();
    for manifest in manifest::manifests() {
        for (name, _) in manifest.dependencies("dependencies") {
            let rule = THIRD_PARTY.iter().find(|(crate_, _)| crate_ == name);
            if rule.is_some_and(|(_, allowed)| !allowed.contains(&manifest.name.as_str())) {
                wrong.push(format!("{}/Cargo.toml: {name}", manifest.directory));
            }
        }
    }
    hold("Only the crates of the table use crates that bring a runtime, sockets, files or SQL.", wrong);
}

#[test]
fn the_head_opens_no_socket() {
    let words = ["tokio::net", "std::net", "net::TcpStream", "net::UdpSocket"];
    let found = places("crates/head/src/", &words);
    hold("The head never opens a socket.", found);
}

#[test]
fn base_and_wire_touch_nothing_outside() {
    let words =
        ["std::fs", "std::net", "std::thread", "std::process", "std::env", "SystemTime::now", "Instant::now"];
    let mut found = places("crates/base/src/", &words);
    found.extend(places("crates/wire/src/", &words));
    hold("Vocabulary and codecs touch neither clock nor network, files, threads or environment.", found);
}

/// Where the code below a directory names one of `words`, outside tests.
fn places(directory: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree::sources().iter().filter(|source| source.path.starts_with(directory)) {
        for word in words {
            let places = source.places_of(word).filter(|at| !source.is_test_at(*at));
            found.extend(places.map(|at| format!("{}: {word}", source.place(at))));
        }
    }
    found
}

#[test]
fn crates_are_named_after_what_they_do() {
    let all = manifest::manifests();
    let vague = all.iter().filter(|manifest| NAMES_REFUSED.contains(&manifest.name.as_str()));
    hold(
        "No crate is called common, utils, types or server.",
        vague.map(|manifest| manifest.directory.clone()).collect(),
    );
}

#[test]
fn versions_stand_once_in_the_workspace() {
    let mut wrong = Vec::new();
    for manifest in manifest::manifests() {
        for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for (name, value) in manifest.dependencies(kind) {
                let inherits = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                let is_alone = ["version", "path", "git"].iter().all(|key| value.get(key).is_none());
                if !(inherits && is_alone) {
                    wrong.push(format!("{}/Cargo.toml: {name}", manifest.directory));
                }
            }
        }
    }
    hold("Dependencies are inherited: versions stand once, in the workspace table.", wrong);
}

#[test]
fn every_workspace_dependency_is_used() {
    let all = manifest::manifests();
    let workspace = manifest::workspace();
    let table = workspace["workspace"]["dependencies"].as_table().expect("the workspace has dependencies");
    let is_used = |name: &String| {
        let kinds = ["dependencies", "build-dependencies", "dev-dependencies"];
        all.iter().any(|manifest| {
            kinds.iter().any(|kind| manifest.dependencies(kind).iter().any(|(used, _)| *used == name))
        })
    };
    let idle =
        table.keys().filter(|name| !is_used(name) && !all.iter().any(|manifest| manifest.name == **name));
    hold("No dependency is declared and not used.", idle.cloned().collect());
}

#[test]
fn every_crate_inherits_the_lints_and_the_version() {
    let mut wrong = Vec::new();
    for manifest in manifest::manifests() {
        let inherits = |table: Option<&toml::Value>| {
            table.and_then(|table| table.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
        };
        if !inherits(manifest.table.get("lints")) {
            wrong.push(format!("{}/Cargo.toml: lints", manifest.directory));
        }
        for key in ["version", "edition", "license", "rust-version", "publish"] {
            if !inherits(manifest.table["package"].get(key)) {
                wrong.push(format!("{}/Cargo.toml: {key}", manifest.directory));
            }
        }
    }
    hold("Every crate inherits lints, version, edition, licence and minimum compiler.", wrong);
}
