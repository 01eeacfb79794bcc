//! The manifests of the workspace.

use crate::tree::{read, root};
use std::path::PathBuf;

/// A crate.
pub(crate) struct Manifest {
    pub(crate) name: String,
    /// Its directory below the root, `crates/base`.
    pub(crate) directory: String,
    pub(crate) table: toml::Table,
}

impl Manifest {
    fn open(directory: &str) -> Self {
        let path = root().join(directory).join("Cargo.toml");
        let table: toml::Table = read(&path).parse().expect("a manifest is TOML");
        let name = table["package"]["name"].as_str().expect("a name is a string").to_owned();
        Self { name, directory: directory.to_owned(), table }
    }

    /// The entries of a table of dependencies.
    pub(crate) fn dependencies(&self, kind: &str) -> Vec<(&String, &toml::Value)> {
        let table = self.table.get(kind).and_then(toml::Value::as_table);
        table.into_iter().flatten().collect()
    }

    /// Files named by `path` in `[lib]`, `[[bin]]`, `[[test]]`, `[[bench]]` and `[[example]]`.
    pub(crate) fn target_paths(&self) -> Vec<PathBuf> {
        let tables =
            ["lib", "bin", "test", "bench", "example"].into_iter().filter_map(|kind| self.table.get(kind));
        let tables = tables.flat_map(|value| match value {
            toml::Value::Array(all) => all.clone(),
            other => vec![other.clone()],
        });
        let paths = tables.filter_map(|target| Some(target.get("path")?.as_str()?.to_owned()));
        paths.map(|path| root().join(&self.directory).join(path)).collect()
    }
}

/// All crates of the workspace.
pub(crate) fn manifests() -> Vec<Manifest> {
    let mut directories: Vec<String> = std::fs::read_dir(root().join("crates"))
        .expect("crates/ can be read")
        .map(|entry| entry.expect("crates/ can be read"))
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| format!("crates/{}", entry.file_name().display()))
        .collect();
    directories.sort();
    directories.extend(
        ["bench/head-load", "bench/load", "fuzz/bodies", "python", "tests/forget-fs"].map(String::from),
    );
    directories.iter().map(|directory| Manifest::open(directory)).collect()
}

/// The manifest of the workspace.
pub(crate) fn workspace() -> toml::Table {
    read(&root().join("Cargo.toml")).parse().expect("a manifest is TOML")
}
