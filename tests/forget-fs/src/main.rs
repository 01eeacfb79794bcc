//! `forget-fs`: a file system in memory that forgets what was not synced when it is told that the power fails.
//!
//! It lies under a facility in the tests of power cuts. It is told what to do line by line on standard input, and
//! answers each line with one:
//!
//! - `cut`: decides what is lost, and answers no request of any program from now on;
//! - `mount`: fails all requests of programs that still use it, and mounts what is left of the disk again.
//!
//! At the end of the input it is unmounted.

mod disk;
mod mounted;
mod ops;

use anyhow::{Context, Result, bail};
use base::units::Size;
use clap::Parser;
use disk::Disk;
use mounted::Mounted;
use std::{
    io::{BufRead, Write},
    path::PathBuf,
};

/// Mounts a file system in memory that forgets, when it is told that the power fails, what was not synced.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where it is mounted
    directory: PathBuf,
    /// Decides what is lost
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Memory for content; each page counts twice, as programs see it and as the disk has it
    #[arg(long, default_value = "2GiB")]
    capacity: Size,
}

/// What is there: the disk with its mount, or what a cut has left of it.
enum Power {
    On(Mounted),
    Off(Mounted, Disk),
}

fn main() -> Result<()> {
    let Arguments { directory, seed, capacity } = Arguments::parse();
    let mut power = Power::On(Mounted::mount(Disk::new(capacity.0, seed), &directory)?);
    say("mounted")?;
    for line in std::io::stdin().lock().lines() {
        power = match (line.context("read standard input")?.as_str(), power) {
            ("cut", Power::On(mounted)) => {
                let (disk, losses) = mounted.cut().context("the power is off")?;
                say(&losses.to_string())?;
                Power::Off(mounted, disk)
            }
            ("mount", Power::Off(mounted, disk)) => {
                mounted.unmount(&directory)?;
                let mounted = Mounted::mount(disk, &directory)?;
                say("mounted")?;
                Power::On(mounted)
            }
            (other, _) => bail!("{other:?}: neither `cut`, while it is mounted, nor `mount`, after a cut"),
        };
    }
    let (Power::On(mounted) | Power::Off(mounted, _)) = power;
    mounted.unmount(&directory)
}

/// Answers a line.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("answer on standard output")
}
