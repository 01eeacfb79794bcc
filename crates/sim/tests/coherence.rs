//! Whoever keeps an answer under the version of the namespace keeps a right one.

mod life;

use base::{ErrorKind, FilePath, Result};
use head::Principal;
use life::{DIRECTORIES, FILES, seeds, step};
use sim::World;
use std::collections::HashMap;
use wire::control::{
    Entry, FileInfo, GetEntry, List, Mkdir, OpenRead, ReadGrant, ReadObject, RemoveDirectory, Rename,
    SetMode, Stat,
};

const STEPS: u64 = 150;

/// An answer that may be kept.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Entry(Result<Entry>),
    Stat(Result<Box<FileInfo>>),
    Read(Result<ReadObject>),
    List(Result<Vec<Entry>>),
}

fn asker(is_operator: bool) -> Principal {
    Principal { is_operator, ..Principal::user("eve") }
}

fn paths() -> Vec<FilePath> {
    let mut paths = vec!["/".to_owned(), "/x".to_owned(), "/x/f0".to_owned()];
    for directory in 0..DIRECTORIES {
        paths.push(format!("/d{directory}"));
        paths.extend((0..FILES).map(|file| format!("/d{directory}/f{file}")));
    }
    paths.into_iter().map(|path| path.parse().expect("a legal path")).collect()
}

/// Every answer that the rule of `Head::namespace_version` speaks of, as two users get it.
fn answers(world: &mut World, paths: &[FilePath]) -> Vec<((FilePath, bool, u8), Answer)> {
    let mut answers = Vec::new();
    for path in paths {
        for is_operator in [true, false] {
            let who = || asker(is_operator);
            let mut keep = |kind, answer| answers.push(((path.clone(), is_operator, kind), answer));
            keep(0, Answer::Entry(world.call(who(), GetEntry { path: path.clone() })));
            let stat = world.call(who(), Stat { path: path.clone() });
            let bare = |info| Box::new(FileInfo { pins: Vec::new(), waits: None, ..info });
            keep(1, Answer::Stat(stat.map(bare)));
            match world.call(who(), OpenRead { path: path.clone() }) {
                Ok(ReadGrant::Online(object)) => keep(2, Answer::Read(Ok(object))),
                // These speak of the tape queue.
                Ok(ReadGrant::Recalling { .. }) => {}
                Err(failure) if failure.kind == ErrorKind::Unavailable => {}
                Err(failure) => keep(2, Answer::Read(Err(failure))),
            }
            let list = world.call(who(), List { path: path.clone(), after: String::new() });
            keep(3, Answer::List(list.map(|listing| listing.entries)));
        }
    }
    answers
}

/// What [`step`] does not do: modes and directories.
fn step_names(world: &mut World) {
    let directory = |n: u64| -> FilePath { format!("/d{n}").parse().expect("a legal path") };
    let x: FilePath = "/x".parse().expect("a legal path");
    let path = directory(world.rng.below(DIRECTORIES));
    let mode = [0o755, 0o700, 0o711, 0o744][world.rng.below(4) as usize];
    // Refusals are fine.
    match world.rng.below(6) {
        0..3 => drop(world.user(SetMode { path, mode })),
        3 => drop(world.user(Mkdir { path, mode, parents: false })),
        4 => drop(world.user(RemoveDirectory { path })),
        _ => {
            drop(world.user(Rename { from: path, to: x.clone(), is_new: false, parents: false }));
            let back = directory(world.rng.below(DIRECTORIES));
            drop(world.user(Rename { from: x, to: back, is_new: false, parents: false }));
        }
    }
}

#[test]
fn an_answer_kept_under_the_version_is_right_while_the_version_stands() {
    for seed in seeds().step_by(3) {
        let outcome = std::panic::catch_unwind(|| live(seed));
        assert!(outcome.is_ok(), "seed {seed} fails; run it alone with BP_SIM_SEEDS={seed}..{}", seed + 1);
    }
}

fn live(seed: u64) {
    let mut world = World::new(seed);
    let paths = paths();
    let mut kept: HashMap<_, (u64, Answer)> = HashMap::new();
    let mut unchanged = 0;
    for number in 0..STEPS {
        let started = world.starts();
        if number % 4 == 0 {
            step_names(&mut world);
        } else {
            step(&mut world);
        }
        if world.starts() != started {
            kept.clear();
        }
        let version = world.namespace_version();
        let mut is_changed = false;
        for (key, answer) in answers(&mut world, &paths) {
            if let Some((then, old)) = kept.insert(key.clone(), (version, answer.clone()))
                && old != answer
            {
                assert_ne!(then, version, "{key:?} was {old:?} and is {answer:?} at the same version");
                is_changed = true;
            }
        }
        unchanged += u64::from(!is_changed);
        assert_eq!(world.namespace_version(), version, "asking changes nothing");
    }
    assert!(unchanged > 0, "a life in which every step changes an answer proves nothing");
}
