use super::*;
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

/// Runs a body; a panic names the input.
fn run(target: &Target, what: &str, data: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.body)(data)));
    assert!(outcome.is_ok(), "{} panics on {what}", target.name);
}

#[test]
fn what_was_found_once_stays_mended() {
    for target in TARGETS {
        for (file, data) in files("regressions", target.name) {
            run(target, &file, &data);
        }
    }
}

#[test]
fn regressions_and_seeds_belong_to_targets() {
    for kind in ["regressions", "seeds"] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(kind);
        for entry in
            fs::read_dir(directory).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir())
        {
            let name = entry.file_name();
            assert!(
                name.to_str().is_some_and(|name| target(name).is_some()),
                "fuzz/{kind}/{}",
                name.display()
            );
        }
    }
}

#[test]
fn every_target_has_seeds_and_survives_them_damaged() {
    for target in TARGETS {
        let seeds = target.seeds();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for (number, seed) in seeds.iter().enumerate() {
            run(target, &format!("seed {number}"), seed);
            let step = seed.len() / 40 + 1;
            for at in (0..seed.len()).step_by(step) {
                run(target, &format!("seed {number} cut at {at}"), &seed[..at]);
                for value in [0, 0xff, seed[at] ^ 1] {
                    let mut damaged = seed.clone();
                    damaged[at] = value;
                    run(target, &format!("seed {number} with {value} at {at}"), &damaged);
                }
            }
        }
    }
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_body_is_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut forgotten = Vec::new();
    for crate_ in fs::read_dir(root.join("crates")).unwrap().flatten() {
        let name = crate_.file_name().to_str().unwrap().to_owned();
        for source in sources(&crate_.path().join("src")) {
            for line in fs::read_to_string(&source).unwrap().lines() {
                let Some(body) = line.strip_prefix("pub fn fuzz_").and_then(|rest| rest.split('(').next())
                else {
                    continue;
                };
                let is_listed = PATHS.iter().any(|path| {
                    path.starts_with(&format!("{name}::")) && path.ends_with(&format!("::fuzz_{body}"))
                });
                if !is_listed {
                    forgotten.push(format!("{}: fuzz_{body}", source.display()));
                }
            }
        }
    }
    assert!(forgotten.is_empty(), "not in the table of fuzz/bodies/src/lib.rs:\n{}", forgotten.join("\n"));
}
