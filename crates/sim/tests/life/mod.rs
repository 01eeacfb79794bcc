//! One random step in the life of a facility; a seed gives the whole life.

use base::{FilePath, Millis, rng::Rng};
use sim::{Content, DRIVES, Mishap, World};
use wire::control::{Archive, Evict, OpenRead, ReadGrant, Stage};

/// Seeds of the normal suite; `BP_SIM_SEEDS=1000..2000` runs others.
const SEEDS: std::ops::Range<u64> = 0..30;
/// Files in each of three directories.
pub(crate) const FILES: u64 = 12;
/// Directories.
pub(crate) const DIRECTORIES: u64 = 3;

pub(crate) fn seeds() -> std::ops::Range<u64> {
    let wish = std::env::var("BP_SIM_SEEDS").ok();
    let range = wish.as_deref().and_then(|text| text.split_once(".."));
    range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(SEEDS)
}

fn some_path(rng: &mut Rng) -> FilePath {
    format!("/d{}/f{}", rng.below(DIRECTORIES), rng.below(FILES)).parse().expect("a legal path")
}

fn some_mishap(rng: &mut Rng) -> Mishap {
    match rng.below(8) {
        0 => Mishap::FileFails,
        1 => Mishap::SessionEnds,
        2 => Mishap::AnswerLost,
        3 => Mishap::Crash,
        _ => Mishap::None,
    }
}

/// One random thing happens. Refusals are fine: what must hold is checked afterwards.
pub(crate) fn step(world: &mut World) {
    let path = some_path(&mut world.rng);
    let paths = vec![path.clone()];
    match world.rng.below(100) {
        0..20 => {
            let content = Content::numbered(world.rng.below(60_000), world.rng.next_u64());
            let _ = world.write(&path, content);
        }
        20..23 => {
            let content = Content::numbered(world.rng.below(60_000), world.rng.next_u64());
            world.write_and_crash(&path, content);
        }
        23..26 => drop(world.remove(&path)),
        26..29 => {
            let to = some_path(&mut world.rng);
            if world.rename(&path, &to).is_ok() && path != to {
                assert!(!world.acknowledged.contains_key(&path));
            }
        }
        29..40 => drop(world.user(Archive { paths })),
        40..50 => drop(world.user(Evict { paths, releases: false })),
        50..55 => drop(world.user(Stage { paths, pin: Some(Millis::from_seconds(60)) })),
        55..60 => read(world, path),
        60..64 => {
            let inputs = [path, some_path(&mut world.rng)];
            let output = some_path(&mut world.rng);
            let inputs = if inputs[0] == inputs[1] { &inputs[..1] } else { &inputs[..] };
            let _ = world.submit(inputs, &output);
        }
        64..80 => {
            let drive = DRIVES[world.rng.below(2) as usize];
            let mishap = some_mishap(&mut world.rng);
            world.drive(drive, mishap);
        }
        80..90 => {
            let crash = world.rng.chance(1, 20);
            world.work_on_jobs(crash);
        }
        90..95 => {
            let crash = world.rng.chance(1, 10);
            world.clean(crash);
        }
        95..97 => world.crash(),
        _ => {
            let span = Millis(world.rng.below(60_000) as i64);
            world.advance(span);
        }
    }
}

fn read(world: &mut World, path: FilePath) {
    if let Ok(ReadGrant::Online(object)) = world.user(OpenRead { path: path.clone() }) {
        let found = world.disk.objects.get(&object.object);
        assert!(found.is_some(), "{path}: the head grants an object that is not there");
    }
}
