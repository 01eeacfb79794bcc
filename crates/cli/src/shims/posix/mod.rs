//! The batch commands of POSIX.1-2008 (`qsub` to `qselect`), with the options of PBS that scripts use, and `qlimit` of NQS.

mod control;
mod date;
mod id;
mod qalter;
mod qlimit;
mod qselect;
pub(crate) mod qstat;
pub(crate) mod qsub;
mod resources;

use super::{
    Shim,
    getopt::{Order, Parsed, parse},
};
use crate::context::Run;
pub(crate) use control::{qdel, qhold, qmove, qmsg, qrerun, qrls, qsig};
pub(crate) use qalter::run as qalter;
pub(crate) use qlimit::run as qlimit;
pub(crate) use qselect::run as qselect;

/// Stands where POSIX has the name of a server: `12.backplane`, `long@backplane`.
const SERVER: &str = "backplane";
/// The exit code for a job that nobody knows, as OpenPBS has it.
const UNKNOWN_JOB: u8 = 153;

/// Reads a command line; none if it was answered, with the exit code.
fn read(
    shim: &mut Shim,
    usage: &str,
    table: &'static str,
    arguments: Vec<String>,
) -> Run<std::result::Result<Parsed, u8>> {
    // The utilities take options before operands only.
    let program = shim.program;
    if arguments.iter().any(|word| word == "--version") {
        shim.line(format!("backplane_version = {}", env!("CARGO_PKG_VERSION")))?;
        return Ok(Err(0));
    }
    if arguments.iter().any(|word| word == "--help") {
        let text = format!(
            "Usage: {program} {usage}\n\nThis is Backplane {}: {program} as POSIX.1-2008 and PBS describe it, for the \
             facility that BP_FACILITY names.\ndocs/shims.md says what differs.\n",
            env!("CARGO_PKG_VERSION")
        );
        shim.text(&text)?;
        return Ok(Err(0));
    }
    match parse(table, Order::OptionsFirst, arguments) {
        Ok(parsed) => Ok(Ok(parsed)),
        Err(refusal) => {
            shim.say(&refusal);
            shim.plain_error(&format!("usage: {program} {usage}"));
            Ok(Err(2))
        }
    }
}
