//! Rules that turn the status of the facility into findings: pure, with the clock as an argument.

use crate::words::{counted, span};
use base::{Failure, Millis, Timestamp, units::human_bytes};
use serde::Serialize;
use wire::control::{
    KeyGeneration, KeyState, OperatorAnswer, PartitionInfo, RequestState, Status, TapePhase, VolumeInfo,
    VolumeState,
};

/// Clocks may differ by this: tokens and capabilities end by them, with a minute of patience.
const CLOCKS_DIFFER_MAX: Millis = Millis::from_seconds(10);
/// A partition with less than one part in so many is full.
const FULL_PARTS: u64 = 50;
/// Findings of one kind that are told one by one.
const TOLD_MAX: usize = 20;

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Good,
    Wrong,
    /// It could not be looked at from here, or not by this user.
    Skipped,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Wrong => "wrong",
            Self::Skipped => "skipped",
        }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do next; of everything that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Good, found: found.into(), next: None }
    }

    pub(super) fn wrong(check: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Wrong, found: found.into(), next: Some(next.into()) }
    }

    pub(super) fn skipped(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Skipped, found: found.into(), next: None }
    }

    /// A check that failed; its hint is the next step, else `next`.
    pub(super) fn failed(check: &'static str, failure: Failure, next: &str) -> Self {
        Self::wrong(check, failure.what, failure.hint.unwrap_or_else(|| next.to_owned()))
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.verdict == Verdict::Wrong
    }
}

/// What the head says of itself, its disks, drives, volumes and workers.
pub(super) fn of_status(status: &Status, now: Timestamp) -> Vec<Finding> {
    let up = span(status.now - status.started);
    let mut found = vec![
        Finding::good("daemon", format!("{} {}, up {up}", status.name, status.version)),
        clock(status.now, now),
    ];
    if let Some(restored) = &status.restored {
        let disks = counted(restored.partitions.len() as u64, "partition", "partitions");
        found.push(Finding::wrong(
            "catalogue",
            format!(
                "the catalogue was restored to an older state, and no operator has accepted it yet ({disks})"
            ),
            "`bp admin settle` shows the differences",
        ));
    }
    found.extend(all_or_good("disks", disks(status), || {
        let partitions = status.pools.iter().map(|pool| pool.partitions.len() as u64).sum();
        counted(partitions, "partition", "partitions")
    }));
    found.extend(all_or_good("tape", tape(status), || {
        let drives = counted(status.drives.len() as u64, "drive", "drives");
        format!("{drives}, {}", counted(status.counts.all_volumes(), "volume", "volumes"))
    }));
    let silent = status.workers.iter().filter(|worker| !worker.is_available).map(|worker| {
        Finding::wrong(
            "workers",
            format!("worker {} on {} is silent", worker.name, worker.host),
            format!("check that bpd runs on {} and reaches the head", worker.host),
        )
    });
    found.extend(all_or_good("workers", silent.collect(), || {
        counted(status.workers.len() as u64, "worker registered", "workers registered")
    }));
    found
}

/// The first of what is wrong and how many more there are, or that all is good.
fn all_or_good(check: &'static str, mut wrong: Vec<Finding>, good: impl FnOnce() -> String) -> Vec<Finding> {
    if wrong.is_empty() {
        return vec![Finding::good(check, good())];
    }
    let more = wrong.len().saturating_sub(TOLD_MAX);
    wrong.truncate(TOLD_MAX);
    if more > 0 {
        wrong.push(Finding::wrong(check, format!("and {more} more like these"), "`bp status` shows all"));
    }
    wrong
}

fn clock(head: Timestamp, here: Timestamp) -> Finding {
    let apart = Millis((head.0 - here.0).abs());
    if apart > CLOCKS_DIFFER_MAX {
        let what = format!("the clock of the head and that of this host differ by {}", span(apart));
        return Finding::wrong("clock", what, "set both by NTP: rights and tokens end by the clock");
    }
    Finding::good("clock", "the head and this host agree")
}

fn disks(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    for pool in &status.pools {
        if pool.files_short > 0 {
            let files = counted(pool.files_short, "file has", "files have");
            found.push(Finding::wrong(
                "copies",
                format!("{files} fewer copies than pool {} promises", pool.name),
                "`bp pool list` shows the progress of copying and the unavailable partitions",
            ));
        }
        found.extend(pool.partitions.iter().filter_map(|partition| of_partition(&pool.name, partition)));
    }
    found
}

/// The worst that is wrong with a partition.
fn of_partition(pool: &str, partition: &PartitionInfo) -> Option<Finding> {
    let PartitionInfo { name, server, free_bytes, total_bytes, .. } = partition;
    let host = if server.is_empty() { "its host" } else { server };
    let wrong = |what: String, next: String| {
        Some(Finding::wrong("disks", format!("partition {pool}/{name} {what}"), next))
    };
    if partition.is_given_up {
        return wrong(
            "is given up".to_owned(),
            format!("`bp pool use {name}` once it is back, or retire it"),
        );
    }
    if let Some(trouble) = partition.trouble {
        return wrong(format!("is {}", trouble.words()), format!("check its file system on {host}"));
    }
    if !partition.is_available {
        return wrong("is silent".to_owned(), format!("check that bpd runs on {host} and reaches the head"));
    }
    if partition.damaged > 0 {
        let damaged = counted(partition.damaged, "damaged replica", "damaged replicas");
        return wrong(format!("has {damaged}"), format!("`bp scan report {name}` names them"));
    }
    if partition.stuck_bytes > 0 {
        let stuck = human_bytes(partition.stuck_bytes);
        return wrong(
            format!("is {stuck} above its high water, and no file on it may be evicted"),
            format!("`bp pool collect {pool} --dry-run` shows why; archive files or add a disk"),
        );
    }
    // One that is smaller than what is left free of its file system is full from the beginning.
    if *free_bytes <= total_bytes / FULL_PARTS {
        return wrong(
            format!("is full: {} of {} free", human_bytes(*free_bytes), human_bytes(*total_bytes)),
            format!(
                "`bp pool collect {pool} --dry-run` shows what can be evicted; archive files or add a disk"
            ),
        );
    }
    None
}

fn tape(status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    for drive in &status.drives {
        let trouble = match (&drive.trouble, drive.phase) {
            (Some(trouble), _) => trouble.clone(),
            (None, TapePhase::Stuck) => "it is stuck".to_owned(),
            (None, _) => continue,
        };
        let next = format!("run `bp drive up {}` once it is repaired", drive.name);
        found.push(Finding::wrong("tape", format!("drive {} is disabled: {trouble}", drive.name), next));
    }
    found.extend(status.volumes.iter().filter_map(of_volume));
    for request in status.operator_requests.iter().filter(|one| one.answer == OperatorAnswer::Open) {
        let what = format!("volume {} is in no library: {}", request.vid, request.reason);
        let next = format!("put it into one, then run `bp operator done {}`", request.id);
        found.push(Finding::wrong("tape", what, next));
    }
    let failed = status.counts.requests_in(RequestState::Failed);
    if failed > 0 {
        let requests = counted(failed, "tape request has", "tape requests have");
        let next = "`bp queue` says why; `bp admin request retry ID` tries again";
        found.push(Finding::wrong("tape", format!("{requests} failed"), next));
    }
    let writable: u64 = status
        .counts
        .volumes
        .iter()
        .filter(|count| count.state.is_writable())
        .map(|count| count.volumes)
        .sum();
    if status.counts.all_volumes() > 0 && writable == 0 {
        let next = "add cartridges to the library; until then nothing can be archived";
        found.push(Finding::wrong("tape", "no volume has free space", next));
    }
    found
}

fn of_volume(volume: &VolumeInfo) -> Option<Finding> {
    (volume.state == VolumeState::Suspect).then(|| {
        let reason = volume.reason.as_deref().unwrap_or("an operator must check it");
        let next = format!("`bp admin volume survey {}` reads what is on it", volume.vid);
        Finding::wrong("tape", format!("volume {} is suspect: {reason}", volume.vid), next)
    })
}

/// The key that signs, and how old it is.
pub(super) fn of_keys(generations: &[KeyGeneration], age_max: Millis, now: Timestamp) -> Finding {
    let Some(signs) = generations.iter().find(|one| one.state == KeyState::Current) else {
        return Finding::wrong("key", "the key has no current generation", "`bp key rotate` makes one");
    };
    // A version before did not note when.
    if signs.made == Timestamp(0) {
        return Finding::good(
            "key",
            format!("generation {} has signed since the facility was made", signs.number),
        );
    }
    let age = now - signs.made;
    let what = format!("generation {} has signed for {}", signs.number, span(age));
    if age > age_max {
        return Finding::wrong(
            "key",
            what,
            "`bp key rotate` makes a new one; existing tokens stay valid for the grace time",
        );
    }
    Finding::good("key", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Millis = Millis(86_400_000);

    #[test]
    fn clocks_may_differ_a_little() {
        let here = Timestamp(1_000_000_000);
        for (apart_ms, is_wrong) in
            [(0, false), (9_999, false), (-9_999, false), (10_001, true), (-60_000, true)]
        {
            let found = clock(Timestamp(here.0 + apart_ms), here);
            assert_eq!(found.is_wrong(), is_wrong, "{apart_ms}");
            assert_eq!(found.next.is_some(), is_wrong);
        }
    }

    #[test]
    fn old_keys_are_named() {
        let key = |made, state| KeyGeneration { number: 3, made, state, until: None };
        let now = Timestamp(400 * DAY.0);
        let of = |keys: &[KeyGeneration]| of_keys(keys, Millis(365 * DAY.0), now);
        assert!(!of(&[key(Timestamp(300 * DAY.0), KeyState::Current)]).is_wrong());
        assert!(!of(&[key(Timestamp(0), KeyState::Current)]).is_wrong());
        let old = of(&[key(now, KeyState::Verifies), key(Timestamp(1), KeyState::Current)]);
        assert!(old.is_wrong() && old.next.unwrap().contains("bp key rotate"));
        assert!(of(&[key(now, KeyState::Revoked)]).is_wrong());
    }

    #[test]
    fn many_of_a_kind_are_counted() {
        let many = vec![Finding::wrong("disks", "x", "y"); TOLD_MAX + 5];
        let told = all_or_good("disks", many, String::new);
        assert_eq!(told.len(), TOLD_MAX + 1);
        assert_eq!(told.last().unwrap().found, "and 5 more like these");
        assert_eq!(all_or_good("disks", Vec::new(), || "2 partitions".to_owned())[0].verdict, Verdict::Good);
    }
}
