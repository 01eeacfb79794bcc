//! One fuzzer for all targets: `BP_FUZZ_TARGET` says which; with `BP_FUZZ_SEEDS` its seeds are written there, no more.
#![no_main]

use fuzz_bodies::Target;
use libfuzzer_sys::fuzz_target;
use std::{env, fs, panic, path::Path, sync::LazyLock};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("BP_FUZZ_TARGET").expect("BP_FUZZ_TARGET names what is fuzzed");
    fuzz_bodies::target(&name).expect("BP_FUZZ_TARGET is one of the targets")
});

/// Packages whose panics the bodies catch: files that they cannot read are no mistakes of ours. The second one is only used by the
/// first, to which it is told lengths that stand in the file.
const CAUGHT: [&str; 2] = ["/parquet-", "/bytes-"];

/// A panic ends the run at once, so that its place is seen, unless it is caught.
fn abort_at_panics() {
    let abort = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |place| place.file());
        if !CAUGHT.iter().any(|package| file.contains(package)) {
            abort(info);
        }
    }));
}

fn begin() {
    abort_at_panics();
    if let Ok(directory) = env::var("BP_FUZZ_SEEDS") {
        for target in fuzz_bodies::TARGETS {
            let directory = Path::new(&directory).join(target.name);
            fs::create_dir_all(&directory).expect("the directory of seeds can be made");
            for (number, seed) in target.seeds().iter().enumerate() {
                fs::write(directory.join(format!("seed{number:03}")), seed).expect("a seed can be written");
            }
        }
        std::process::exit(0);
    }
}

fuzz_target!(
    init: begin(),
    |data: &[u8]| (TARGET.body)(data)
);
