//! Words that may not stand in the code, or only in some places.

use crate::{Exception, except, hold, source::Source, tree::sources};
use std::collections::BTreeSet;

const UNSAFE_FILES: [Exception; 12] = [
    Exception {
        path: "crates/batch/src/sandbox/execute.rs",
        why: "what a signal does is set back before a job begins, which no library does in a safe way",
    },
    Exception {
        path: "crates/base/src/crc_lanes.rs",
        why: "an instruction that not every processor has is used after the processor was asked",
    },
    Exception {
        path: "crates/disk/src/io/map.rs",
        why: "objects are mapped for the kernel to send from; nobody else touches the memory",
    },
    Exception {
        path: "crates/disk/src/io/ring.rs",
        why: "io_uring writes into buffers that it is only told the addresses of",
    },
    Exception {
        path: "crates/socket/src/lib.rs",
        why: "an option of sockets that no library that is used here knows",
    },
    Exception {
        path: "crates/net/src/xrd/transport.rs",
        why: "an idle socket is registered with the runtime, which cannot know that it stays open",
    },
    Exception {
        path: "crates/ntuple/src/simd.rs",
        why: "kernels compiled for wide registers are called after the processor was asked",
    },
    Exception {
        path: "crates/tape/src/scsi/sg.rs",
        why: "the kernel is told the addresses of a SCSI command, its data and its sense data",
    },
    Exception {
        path: "crates/tape/src/scsi/iscsi/library.rs",
        why: "a C library is loaded on demand and called; it is told the addresses of buffers",
    },
    Exception {
        path: "python/core/memory.rs",
        why: "memory of Python objects is filled while the interpreter is released",
    },
    Exception {
        path: "crates/capi/src/calls.rs",
        why: "C calls these by name, and passes pointers that only C vouches for",
    },
    Exception { path: "crates/capi/src/foreign.rs", why: "memory of C programs is made into values" },
];

const PRINTING_FILES: [Exception; 8] = [
    Exception { path: "crates/cli/src/output.rs", why: "the one place that writes to the terminal" },
    Exception {
        path: "crates/cli/src/mover/copy.rs",
        why: "`bp cp … -` sends the bytes of a file, not text",
    },
    Exception { path: "crates/cli/src/transfer.rs", why: "`bp cat` sends the bytes of a file, not text" },
    Exception { path: "crates/daemon/src/main.rs", why: "`bpd config` writes a configuration to keep" },
    Exception { path: "bench/load/src/main.rs", why: "the load generator prints one line of figures" },
    Exception { path: "bench/head-load/src/main.rs", why: "the load generator prints one line of figures" },
    Exception {
        path: "crates/batch/src/shepherd/job_mount.rs",
        why: "it answers the shepherd that started it",
    },
    Exception { path: "tests/forget-fs/src/main.rs", why: "it answers those who tell it to cut the power" },
];

const SLEEPING_TESTS: [Exception; 1] = [Exception {
    path: "crates/batch/tests/support/mod.rs",
    why: "the tests look at other processes, which announce nothing; the wait has a deadline",
}];

/// Places of words in all sources for which `counts` holds.
fn places(words: &[&str], counts: impl Fn(&Source, usize) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        for word in words {
            let places = source.places_of(word).filter(|at| counts(&source, *at));
            found.extend(places.map(|at| format!("{}: {word}", source.place(at))));
        }
    }
    found
}

fn outside_tests(source: &Source, at: usize) -> bool {
    !source.is_test_at(at)
}

#[test]
fn nothing_unwraps() {
    hold(
        "No `unwrap` outside tests: `expect` says why it cannot fail.",
        places(&[".unwrap()", ".unwrap_err()"], outside_tests),
    );
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["todo!", "unimplemented!", "dbg!"];
    hold("Nothing unfinished is committed, not in tests either.", places(&words, |_, _| true));
}

#[test]
fn one_file_prints() {
    let words = ["println!", "eprintln!", "print!", "eprint!", "io::stdout()"];
    let found = except(places(&words, outside_tests), &PRINTING_FILES);
    hold("Only the output module of the tool prints; everybody else logs or answers.", found);
}

#[test]
fn unsafe_stands_in_few_files() {
    let found = except(places(&["unsafe"], |_, _| true), &UNSAFE_FILES);
    hold("Unsafe code stands only in files that say why.", found);
}

#[test]
fn tests_do_not_sleep() {
    let words = ["thread::sleep", "time::sleep", "sleep(Duration"];
    let found = places(&words, Source::is_test_at);
    hold("Tests wait for events, they do not sleep.", except(found, &SLEEPING_TESTS));
}

#[test]
fn sql_stands_in_the_store() {
    let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE FROM ", "CREATE TABLE ", "PRAGMA "];
    let mut found = Vec::new();
    for source in sources() {
        if source.path.starts_with("crates/head/src/store/") || source.package == "tidy" {
            continue;
        }
        let is_sql = |text: &str| verbs.iter().any(|verb| text.trim_start().starts_with(verb));
        let literals = source.literals.iter().filter(|literal| is_sql(&literal.text));
        found.extend(literals.map(|literal| source.place(literal.quote)));
    }
    hold("SQL stands only in crates/head/src/store.", found);
}

/// Things that messages count.
const COUNTED: [&str; 22] = [
    "files",
    "hosts",
    "jobs",
    "drives",
    "volumes",
    "replicas",
    "requests",
    "workers",
    "partitions",
    "entries",
    "records",
    "slots",
    "findings",
    "objects",
    "tokens",
    "users",
    "reasons",
    "directories",
    "cartridges",
    "columns",
    "things",
    "members",
];

/// Numbers before such a word that are never one.
const NEVER_ONE: [Exception; 16] = [
    Exception {
        path: "crates/batch/src/shepherd/supervise/limits.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception { path: "crates/cli/src/mover/bars.rs", why: "the sum is shown of several files only" },
    Exception { path: "crates/head/src/batch/room.rs", why: "a bound is reached, which is larger than one" },
    Exception {
        path: "crates/head/src/hosts/sole_copies.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception {
        path: "crates/head/src/namespace/adopt/server.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception {
        path: "crates/head/src/pool/act/avoided_servers.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception {
        path: "crates/head/src/pool/act/mirror.rs",
        why: "one replica is there, and more are promised",
    },
    Exception {
        path: "crates/head/src/pool/calls/partition.rs",
        why: "a bound is reached, which is larger than one",
    },
    Exception {
        path: "crates/head/src/pool/decide/placement.rs",
        why: "one partition has an arm of its own",
    },
    Exception {
        path: "crates/head/src/recovery/restored.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception {
        path: "crates/head/src/recovery/tape_survey.rs",
        why: "a bound is exceeded, which is larger than one",
    },
    Exception {
        path: "crates/head/src/scan/server.rs",
        why: "bounds are exceeded, and a window of one object is a good one",
    },
    Exception { path: "crates/head/src/tape/explain.rs", why: "one volume or drive has an arm of its own" },
    Exception {
        path: "crates/net/src/xrd/service_turn/calls.rs",
        why: "a bound is reached, which is larger than one",
    },
    Exception { path: "crates/ntuple/src/chain.rs", why: "a chain of one file is a good one" },
    Exception { path: "crates/sim/src/year/check.rs", why: "the year has many files" },
];

#[test]
fn counts_agree_with_their_nouns() {
    let mut found = Vec::new();
    for source in sources() {
        for literal in source.literals.iter().filter(|literal| !source.is_test_at(literal.quote)) {
            let behind = literal.text.match_indices("} ").map(|(at, _)| (at, &literal.text[at + 2..]));
            for (at, rest) in behind {
                let len = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
                let number = literal.text[..at].rsplit('{').next().unwrap_or_default();
                if COUNTED.contains(&&rest[..len]) && !number.ends_with("MAX") {
                    found.push(format!("{}: {}", source.place(literal.quote), &rest[..len]));
                }
            }
        }
    }
    hold(
        "A number and its noun come from `base::units::counted`, for one thing, too.",
        except(found, &NEVER_ONE),
    );
}

#[test]
fn html_stands_in_the_console() {
    let outside = |source: &Source, _| !source.path.starts_with("crates/daemon/src/doors/console/");
    hold("HTML stands only in crates/daemon/src/doors/console.", places(&["html!", "maud::"], outside));
}

#[test]
fn expectations_say_why() {
    const WORDS_MIN: usize = 3;
    let mut found = Vec::new();
    for source in sources() {
        for at in source.places_of(".expect(").collect::<Vec<_>>() {
            let argument = at + ".expect(".len();
            let blanks = source.code[argument..].bytes().take_while(u8::is_ascii_whitespace).count();
            let literal = source.literals.iter().find(|literal| literal.quote == argument + blanks);
            let words = literal.map(|literal| literal.text.split_whitespace().count());
            if words.is_some_and(|words| words < WORDS_MIN) {
                found.push(source.place(at));
            }
        }
    }
    hold("Every `expect` says in three words or more why it cannot fail.", found);
}

#[test]
fn allowances_give_a_reason() {
    let mut found = Vec::new();
    for source in sources() {
        for start in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in source.code.match_indices(start) {
                let end = source.code[at..].find(")]").map_or(source.code.len(), |len| at + len);
                let line = source.line(at);
                let above = line.checked_sub(2).and_then(|above| source.text.lines().nth(above));
                let is_commented = above.is_some_and(|above| {
                    above.trim_start().starts_with("//") && !above.trim_start().starts_with("///")
                });
                if !source.code[at..end].contains("reason = ") && !is_commented {
                    found.push(source.place(at));
                }
            }
        }
    }
    hold("Who allows what a lint warns of gives the reason, in the attribute or in a comment above.", found);
}

#[test]
fn every_fuzz_body_is_run() {
    let sources = sources();
    let mut bodies = BTreeSet::new();
    for source in &sources {
        for (at, _) in source.code.match_indices("pub fn fuzz_") {
            let name = &source.code[at + "pub fn ".len()..];
            let len = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            bodies.insert((name[..len].to_owned(), source.place(at)));
        }
    }
    assert!(!bodies.is_empty(), "the parsers have fuzz bodies");
    let is_run =
        |name: &str| sources.iter().any(|source| source.places_of(name).any(|at| source.is_test_at(at)));
    let idle = bodies.iter().filter(|(name, _)| !is_run(name));
    hold("Every fuzz body is run by a test.", idle.map(|(name, place)| format!("{place}: {name}")).collect());
}
