//! Runs one command of Slurm, with a deadline and without what the environment would change of its output.

use base::{ErrorKind, Failure, Result};
use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// A command of Slurm waits a minute for its controller before it gives up by itself.
const DEADLINE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of an answer: a hundred thousand jobs.
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Bytes of what a command complains of.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;
/// Variables that change options or formats begin with these; `SLURM_CONF` says which cluster it is.
const PREFIXES: [&str; 5] = ["SLURM_", "SQUEUE_", "SBATCH_", "SACCT_", "SCANCEL_"];

/// Runs a command as it is found in `PATH`; yields what it printed.
pub(super) fn run(program: &str, words: &[&str], input: Option<&str>) -> Result<String> {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text != "SLURM_CONF" && PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.args(words).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let failed = |cause: std::io::Error| {
        let kind = if cause.kind() == std::io::ErrorKind::NotFound { "find" } else { "run" };
        Failure::new(ErrorKind::Unavailable, format!("cannot {kind} {program}: {cause}"))
            .hint("Slurm's commands have to be in the PATH of bpd")
    };
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // A script is shorter than a pipe. Who does not read it says why when it ends.
        let _ = pipe.write_all(input.as_bytes());
    }
    let out = reader(child.stdout.take(), ANSWER_BYTES_MAX);
    let err = reader(child.stderr.take(), COMPLAINT_BYTES_MAX);
    let status = wait(&mut child, program)?;
    // What it started may keep its output open.
    let silent = |_| Failure::timeout(format!("{program} has ended, and its output has not"));
    if status.success() {
        let out = out.recv_timeout(DEADLINE).map_err(silent)?;
        if out.len() as u64 >= ANSWER_BYTES_MAX {
            let what = format!("{program} printed {ANSWER_BYTES_MAX} bytes or more");
            return Err(Failure::unsupported(what).hint("have another user run the jobs of this worker"));
        }
        return Ok(out);
    }
    let err = err.recv_timeout(DEADLINE).map_err(silent)?;
    let why = err.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    Err(Failure::unavailable(format!("{program} failed ({status}): {}", why.trim())))
}

fn reader<R: Read + Send + 'static>(pipe: Option<R>, most: u64) -> mpsc::Receiver<String> {
    let (read, text) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = (&mut pipe).take(most).read_to_end(&mut bytes);
            // The rest is read, too, so that its writer can end.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        // Nobody listens who has waited for too long.
        let _ = read.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

fn wait(child: &mut Child, program: &str) -> Result<std::process::ExitStatus> {
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if since.elapsed() > DEADLINE => {
                let _ = child.kill();
                let _ = child.wait();
                let what = format!("{program} did not answer within {} s", DEADLINE.as_secs());
                return Err(Failure::timeout(what).hint("is the controller of Slurm up? `scontrol ping`"));
            }
            Ok(None) => thread::sleep(LOOK_EVERY),
            Err(cause) => return Err(Failure::io(format!("wait for {program}"), &cause)),
        }
    }
}
