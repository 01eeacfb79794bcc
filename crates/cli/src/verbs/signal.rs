//! `bp signal`: sends a signal to running jobs.

use super::job_args;
use crate::context::{Context, Run};
use base::{Failure, Result};
use wire::control::{JobSelection, SignalJobs};

/// Send a signal to the processes of running jobs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The signal: a name (USR1, SIGTERM) or a number
    #[arg(value_name = "SIGNAL", value_parser = number)]
    signal: i32,
    /// Jobs (12), whole arrays (12), elements of arrays (12_3, 12_[1-5])
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobSelection>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    job_args::make(context, &SignalJobs { jobs: args.jobs, signal: args.signal }, "get the signal")
}

/// The number of a signal by its name, with or without SIG, or as it is.
fn number(text: &str) -> Result<i32> {
    let bad = || {
        Failure::invalid(format!("{text:?} is not a signal")).hint("write a name such as USR1, or a number")
    };
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=64).contains(&number) { Ok(number) } else { Err(bad()) };
    }
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    name.parse::<nix::sys::signal::Signal>().map(|signal| signal as i32).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(["usr1", "SIGUSR1", "10"].map(|text| number(text).unwrap()), [10; 3]);
        assert!(["", "0", "65", "NOSUCH"].iter().all(|text| number(text).is_err()));
    }
}
