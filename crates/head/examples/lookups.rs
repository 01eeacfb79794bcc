//! How many questions about names one head answers in a second: `cargo run --release -p head --example lookups`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for people")]

use base::{Checksums, FilePath, Timestamp, rng::Rng};
use head::{Apply, Context, Core, Head, HeadConfig, Principal, store::FacilityRow};
use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};
use wire::{
    cap::CapKey,
    control::{CommitWrite, Disposition, GetEntry, List, OpenRead, OpenWrite, RegisterPartition, Stat},
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const DIRECTORIES: u64 = 100;
const FILES: u64 = 100;
const ASKERS: u64 = 64;
const ASKS: u64 = 10_000;
const LONG_ENOUGH: Duration = Duration::from_secs(2);

fn path(rng: &mut Rng) -> FilePath {
    format!("/data/run7/d{}/f{}.parquet", rng.below(DIRECTORIES), rng.below(FILES)).parse().unwrap()
}

fn context(name: &str) -> Context {
    Context { who: Principal { name: name.into(), is_operator: false }, now: NOW }
}

/// A facility with ten thousand files, four levels deep.
fn facility(directory: &std::path::Path) -> Core {
    let row = FacilityRow {
        id: "f".into(),
        name: "test".into(),
        owner: "ada".into(),
        created: NOW,
        incarnation: 0,
    };
    let catalogue = directory.join("catalogue");
    Core::create(&catalogue, &row).unwrap();
    let config = HeadConfig { key: CapKey::new([7; 32]), root: "root://h".into(), pool: "main".into() };
    let mut core = Core::open(&catalogue, config, NOW).unwrap();
    let room = Context { who: Principal::room("room"), now: NOW };
    let (total_bytes, free_bytes) = (1 << 40, 1 << 40);
    let (pool, partition) = ("main".into(), "disk1".into());
    core.call(&room, RegisterPartition { pool, partition, total_bytes, free_bytes }).unwrap();
    for file in 0..DIRECTORIES * FILES {
        let at = format!("/data/run7/d{}/f{}.parquet", file / FILES, file % FILES);
        let open = OpenWrite {
            path: at.parse().unwrap(),
            mode: 0o644,
            disposition: Disposition::CreateNew,
            parents: true,
            expected_bytes: 0,
        };
        let object = core.call(&room, open).unwrap().object;
        core.call(&room, CommitWrite { object, size: 1000, checksums: Checksums::of(b"x") }).unwrap();
    }
    core
}

/// Asks for two seconds and says how often that was in one.
fn measure(what: &str, mut ask: impl FnMut()) {
    let (begin, mut count) = (Instant::now(), 0u64);
    while begin.elapsed() < LONG_ENOUGH {
        (0..100).for_each(|_| ask());
        count += 100;
    }
    println!("{what:<28}{:>9.0} /s", count as f64 / begin.elapsed().as_secs_f64());
}

fn core_answers<C: Apply>(core: &mut Core, what: &str, call: impl Fn(FilePath) -> C) {
    let (mut rng, eve) = (Rng::new(7), context("eve"));
    let paths: Vec<_> = (0..4096).map(|_| path(&mut rng)).collect();
    let mut next = paths.iter().cycle();
    measure(what, || {
        let path = next.next().unwrap().clone();
        black_box(core.call(&eve, call(path)).ok());
    });
}

fn main() {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut core = facility(directory.path());
    core_answers(&mut core, "core, entry", |path| GetEntry { path });
    core_answers(&mut core, "core, entry that is missing", |path| GetEntry { path: path.join("x").unwrap() });
    core_answers(&mut core, "core, stat", |path| Stat { path });
    core_answers(&mut core, "core, open", |path| OpenRead { path });
    core_answers(&mut core, "core, list of 100", |path| List {
        path: path.parent().unwrap(),
        after: String::new(),
    });
    let (head, _thread) = Head::start(core, Arc::new(|| NOW)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut rng, eve) = (Rng::new(7), context("eve").who);
    measure("head, entry, one asker", || {
        let ask = head.call(&eve, GetEntry { path: path(&mut rng) });
        black_box(runtime.block_on(ask).unwrap());
    });
    let begin = Instant::now();
    let askers = (0..ASKERS).map(|asker| ask_often(head.clone(), asker));
    runtime.block_on(async {
        let askers: Vec<_> = askers.map(|asker| tokio::spawn(asker)).collect();
        for asker in askers {
            asker.await.unwrap();
        }
    });
    let rate = (ASKERS * ASKS) as f64 / begin.elapsed().as_secs_f64();
    println!("{:<28}{rate:>9.0} /s", "head, entry, many askers");
}

async fn ask_often(head: Head, asker: u64) {
    let (mut rng, eve) = (Rng::new(asker), context("eve").who);
    for _ in 0..ASKS {
        black_box(head.call(&eve, GetEntry { path: path(&mut rng) }).await.unwrap());
    }
}
