//! What Slurm's commands print.

use base::{Failure, Millis, Result};
use std::collections::BTreeMap;
use wire::control::Usage;

/// How far a job is in Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits, or is held.
    Pending,
    /// It has a node.
    Running,
    /// Its processes have ended or are being ended; the node is not free yet.
    Completing,
    /// Its batch script has ended.
    Ended,
    /// Slurm ended it at its time limit.
    Timeout,
    /// It used more memory than Slurm gave it.
    OutOfMemory,
    /// Somebody cancelled it in Slurm.
    Cancelled,
    /// Its node failed, or it was preempted: nobody knows what it did.
    Lost,
}

impl State {
    fn parse(word: &str) -> Self {
        // `CANCELLED by 0` of sacct, and `+` of names that were cut.
        match word.split([' ', '+']).next().unwrap_or_default() {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
                Self::Pending
            }
            "COMPLETING" | "STAGE_OUT" => Self::Completing,
            "COMPLETED" | "FAILED" => Self::Ended,
            "TIMEOUT" | "DEADLINE" => Self::Timeout,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "CANCELLED" | "REVOKED" => Self::Cancelled,
            "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" => Self::Lost,
            // RUNNING, CONFIGURING, SUSPENDED, SIGNALING, STOPPED, RESIZING, and what a later release invents: it may still run.
            _ => Self::Running,
        }
    }

    /// Whether nothing of it runs any more.
    pub(crate) fn is_over(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Completing)
    }
}

/// A job of ours in Slurm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlurmJob {
    pub(crate) id: u64,
    pub(crate) state: State,
}

/// Jobs by name of the lines `id|state|name`; of the same name that which was submitted last.
pub(super) fn parse_squeue(text: &str, prefix: &str) -> BTreeMap<String, SlurmJob> {
    let mut jobs: BTreeMap<String, SlurmJob> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.trim().splitn(3, '|');
        let (Some(id), Some(state), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(id) = id.parse() else { continue };
        if !name.starts_with(prefix) || jobs.get(name).is_some_and(|known| known.id > id) {
            continue;
        }
        jobs.insert(name.to_owned(), SlurmJob { id, state: State::parse(state) });
    }
    jobs
}

/// The id that `sbatch --parsable` prints: `id` or `id;cluster`.
pub(super) fn parse_sbatch(text: &str) -> Result<u64> {
    // Plugins of a site may print before it.
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let id = last.trim().split(';').next().unwrap_or_default();
    id.parse().map_err(|_| Failure::internal(format!("sbatch printed {last:?}, not the number of a job")))
}

/// Whether `sbatch` complains of the job, and would again: not of its controller or of a limit that passes.
pub(super) fn is_refusal(complaint: &str) -> bool {
    const PASSES: [&str; 4] = ["inactive or drain", "down, drained", "credential", "cannot run"];
    const WORDS: [&str; 7] = [
        "invalid",
        "not available",
        "can not be satisfied",
        "unrecognized",
        "denied",
        "not permitted",
        "requested than permitted",
    ];
    let complaint = complaint.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
    has(&WORDS) && !has(&PASSES)
}

/// Seconds of `elapsed|cpu` in the first line.
pub(super) fn parse_sacct(text: &str) -> Usage {
    let seconds = |word: Option<&str>| {
        Millis(word.and_then(|word| word.trim().parse::<i64>().ok()).unwrap_or(0).clamp(0, 1 << 40) * 1000)
    };
    let mut words = text.lines().next().unwrap_or_default().split('|');
    let (wall, cpu) = (seconds(words.next()), seconds(words.next()));
    Usage { cpu, wall, memory_bytes_max: 0 }
}

/// Fuzz body: whatever Slurm prints, nothing panics and no job of another prefix is taken for ours.
pub fn fuzz_slurm(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(parse_squeue(&text, "bp-1-").keys().all(|name| name.starts_with("bp-1-")));
    let _ = parse_sbatch(&text);
    let _ = parse_sacct(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_squeue() {
        let text = "7|PENDING|bp-1-4.1\n8|COMPLETED|bp-1-5.1\n9|RUNNING|bp-1-5.1\n6|FAILED|bp-1-5.1\n\
            10|RUNNING|other|bp-1-6.1\nslurm_load_jobs error\n\n";
        let jobs = parse_squeue(text, "bp-1-");
        let job = |id, state| SlurmJob { id, state };
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs["bp-1-4.1"], job(7, State::Pending));
        assert_eq!(jobs["bp-1-5.1"], job(9, State::Running), "the one that was submitted last");
    }

    #[test]
    fn states_in_words() {
        let of = State::parse;
        assert_eq!(
            [of("CANCELLED by 0"), of("OUT_OF_MEMORY"), of("NODE_FAIL")],
            [State::Cancelled, State::OutOfMemory, State::Lost]
        );
        assert!(!of("A_STATE_OF_TOMORROW").is_over(), "what is not known may still run");
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        for text in
            ["", "|", "1|", "x|RUNNING|bp-1-2.1", "1|RUNNING|other", "99999999999999999999|PENDING|bp-1-2.1"]
        {
            fuzz_slurm(text.as_bytes());
            assert!(parse_squeue(text, "bp-1-").is_empty(), "{text}");
        }
        fuzz_slurm(b"\xff|\x00|bp-1-\n;;\n|||");
    }

    #[test]
    fn ids_of_sbatch() {
        assert_eq!(parse_sbatch("12\n").unwrap(), 12);
        assert_eq!(parse_sbatch("welcome\n12;cluster\n").unwrap(), 12);
        assert!(parse_sbatch("").is_err() && parse_sbatch("Submitted batch job 3").is_err());
    }

    #[test]
    fn what_sbatch_will_never_take() {
        for complaint in [
            "Batch job submission failed: Requested node configuration is not available",
            "invalid partition specified: nowhere",
            "Batch job submission failed: Invalid account or account/partition combination specified",
            "unrecognized option '--nonsense'",
            "Batch job submission failed: More processors requested than permitted",
        ] {
            assert!(is_refusal(complaint), "{complaint}");
        }
        for complaint in [
            "Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "Batch job submission failed: Socket timed out on send/recv operation",
            "Batch job submission failed: Required partition not available (inactive or drain)",
            "Batch job submission failed: Required node not available (down, drained or reserved)",
            "Batch job submission failed: Invalid authentication credential",
            "cannot run sbatch: Permission denied",
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)",
        ] {
            assert!(!is_refusal(complaint), "{complaint}");
        }
    }

    #[test]
    fn usage_of_sacct() {
        let usage = parse_sacct("12|24\n");
        assert_eq!((usage.wall, usage.cpu), (Millis(12_000), Millis(24_000)));
        assert_eq!(parse_sacct("accounting is disabled"), Usage::default());
    }
}
