//! Every Rust file of the workspace, reached as the compiler reaches them: from the roots of targets along `mod`.

use crate::{
    hold,
    manifest::{Manifest, manifests},
    source::Source,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).expect("the crate lies in crates/tidy")
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

/// A path as rules print it.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Files below a directory that end in `extension`; build products and hidden directories are left out.
pub(crate) fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    const SKIPPED: [&str; 3] = ["target", "__pycache__", "demo-out"];
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Files that the compiler starts from.
fn roots(manifest: &Manifest) -> Vec<PathBuf> {
    let home = root().join(&manifest.directory);
    let mut roots = manifest.target_paths();
    roots.extend(["src/lib.rs", "src/main.rs", "build.rs"].map(|path| home.join(path)));
    for directory in ["src/bin", "tests", "benches", "examples"] {
        for entry in std::fs::read_dir(home.join(directory)).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_file = path.extension().is_some_and(|end| end == "rs");
            roots.push(if is_file { path } else { path.join("main.rs") });
        }
    }
    roots.retain(|path| path.exists());
    roots.sort();
    roots.dedup();
    roots
}

fn is_test_root(manifest: &Manifest, path: &Path) -> bool {
    let inside = path.strip_prefix(root().join(&manifest.directory)).unwrap_or(path);
    ["tests", "benches", "examples"].iter().any(|directory| inside.starts_with(directory))
}

/// A module that a file declares without a body.
struct Declared {
    /// Where it may lie.
    places: Vec<PathBuf>,
    is_for_tests: bool,
    /// Its path is written there. The compiler looks for its modules beside it then, as for those of a root.
    has_path: bool,
}

/// Modules that a file declares without a body.
fn declared(source: &Source, path: &Path, is_root: bool) -> Vec<Declared> {
    let directory = path.parent().expect("a file lies in a directory");
    let is_named_after_directory = is_root || path.ends_with("mod.rs");
    let below = if is_named_after_directory { directory.to_owned() } else { path.with_extension("") };
    let lines: Vec<_> = source.code.lines().zip(source.text.lines()).collect();
    let mut modules = Vec::new();
    for (number, (line, _)) in lines.iter().enumerate() {
        let Some(name) = line
            .trim_end()
            .strip_suffix(';')
            .and_then(|line| line.rsplit_once("mod "))
            .filter(|(before, _)| before.trim().is_empty() || before.trim_start().starts_with("pub"))
            .map(|(_, name)| name.trim_start_matches("r#"))
        else {
            continue;
        };
        let attributes = lines[..number].iter().rev().map(|(_, text)| text.trim());
        let attributes = attributes.take_while(|text| text.starts_with('#') || text.starts_with("//"));
        let path = attributes.filter_map(|text| text.strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        let path = path.last();
        let has_path = path.is_some();
        let places = match path {
            Some(path) => vec![directory.join(path)],
            None => vec![below.join(format!("{name}.rs")), below.join(name).join("mod.rs")],
        };
        modules.push(Declared { places, is_for_tests: source.is_test[number], has_path });
    }
    modules
}

/// All Rust files that are compiled, by path. A file that both tests and others reach counts as no test.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = BTreeMap::new();
    for manifest in manifests() {
        let starts = roots(&manifest).into_iter();
        let mut todo: Vec<_> = starts.map(|path| (is_test_root(&manifest, &path), true, path)).collect();
        while let Some((is_test, is_root, path)) = todo.pop() {
            let path = path.canonicalize().unwrap_or(path);
            if found.get(&path).is_some_and(|known: &(bool, Source)| !known.0 || is_test) {
                continue;
            }
            let source = Source::new(shown(&path), &manifest.name, read(&path), is_test);
            for module in declared(&source, &path, is_root) {
                let place = module.places.into_iter().find(|place| place.exists());
                todo.extend(place.map(|place| (is_test || module.is_for_tests, module.has_path, place)));
            }
            found.insert(path, (is_test, source));
        }
    }
    found.into_values().map(|(_, source)| source).collect()
}

#[test]
fn no_dead_files() {
    let reached: Vec<_> = sources().into_iter().map(|source| source.path).collect();
    let mut files = files_below(&root().join("crates"), "rs");
    files.extend(["python", "bench", "tests"].iter().flat_map(|home| files_below(&root().join(home), "rs")));
    let dead = files.iter().map(|path| shown(path)).filter(|path| !reached.contains(path));
    hold("Every Rust file is reached from a target through `mod` lines.", dead.collect());
}

#[test]
fn every_crate_says_what_it_is() {
    let mut silent = Vec::new();
    for manifest in manifests() {
        for path in roots(&manifest) {
            if !read(&path).starts_with("//!") {
                silent.push(shown(&path));
            }
        }
    }
    hold("Every `lib.rs`, `main.rs` and test program begins with a `//!` line.", silent);
}
