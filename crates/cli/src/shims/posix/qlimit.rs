//! `qlimit`: says which limits of jobs are enforced, and which are not, on each worker. From NQS.

use super::read;
use crate::{context::Run, shims::Shim};
use wire::control::GetStatus;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[host...]";
    let parsed = match read(shim, usage, "", arguments)? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let workers = shim.call(&GetStatus {})?.workers;
    let mut code = 0;
    for name in &parsed.operands {
        if workers.iter().all(|worker| worker.name != *name) {
            shim.say(&format!("no worker is named {name}"));
            code = 1;
        }
    }
    shim.line("Options: -l walltime=, -l ncpus=, -l mem= (-lm, -lM)")?;
    shim.line("Not enforced anywhere: -l cput= (-lt, -lT), -l file= (-lf, -lF), -l nice= (-ln)")?;
    for worker in
        workers.iter().filter(|worker| parsed.operands.is_empty() || parsed.operands.contains(&worker.name))
    {
        let missing = match worker.not_enforced.as_slice() {
            [] => "all of these are enforced".to_owned(),
            some => format!("not enforced: {}", some.join(", ")),
        };
        shim.line(format!("{}: {missing}", worker.name))?;
    }
    Ok(code)
}
