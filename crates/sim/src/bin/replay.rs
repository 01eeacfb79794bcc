//! `replay TRACE RESULT`: replays a trace in the standard workload format and writes figures of each scheduler as JSON.

use base::{Failure, Result};
use sim::replay::{Figures, Scheduler, Trace, replay};
use std::{collections::BTreeMap, path::Path, process::ExitCode, time::Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [trace, result] => run(Path::new(trace), Path::new(result)),
        _ => Err(Failure::invalid("two words are needed: replay TRACE RESULT")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error is all that a program without output has.
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), format!("replay: {failure}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn run(trace: &Path, result: &Path) -> Result<()> {
    let named = |path: &Path, error: std::io::Error| Failure::invalid(format!("{}: {error}", path.display()));
    let text = std::fs::read(trace).map_err(|error| named(trace, error))?;
    let trace = Trace::parse(&String::from_utf8_lossy(&text))?;
    let mut figures = BTreeMap::new();
    for (name, scheduler) in [
        ("backplane", Scheduler::backplane(&trace)),
        ("fifo", Scheduler::fifo(&trace)),
        ("classic", Scheduler::classic(&trace)),
    ] {
        let begun = Instant::now();
        let started = replay(&trace, scheduler);
        let seconds = begun.elapsed().as_secs_f64();
        figures.insert(name, (seconds, Figures::of(&trace, &started)));
    }
    let all = serde_json::json!({
        "jobs": trace.jobs.len(),
        "left_out": trace.left_out,
        "cpus": trace.cpus,
        "schedulers": figures
            .into_iter()
            .map(|(name, (seconds, figures))| (name, serde_json::json!({ "seconds": seconds, "figures": figures })))
            .collect::<BTreeMap<_, _>>(),
    });
    std::fs::write(result, format!("{all:#}\n")).map_err(|error| named(result, error))
}
