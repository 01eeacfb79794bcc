//! Partitions that cannot be read now because their disk server does not answer, and the state of their files.
//!
//! A file without any other source is *out of reach*: it is not lost, and no client is sent there. A file that is also
//! on tape is nearline: an open recalls it instead of waiting for the host. No copy begins because of this module:
//! replicas of a silent disk server count for their pool as before ([`crate::pool::decide::view`]).

use crate::{
    Core, Topic,
    store::{Node, Replica},
    tape,
    waiters::Awaited,
};
use base::{Failure, FilePath, Millis, Result, Timestamp, units::human_span};
use std::collections::BTreeMap;
use wire::control::{AwayHost, AwayReason, FileState, PartitionState, PartitionTrouble};

/// How long an open waits for a disk server that has just gone: longer than one is restarted for, shorter than clients wait.
const RETURN_WITHIN: Millis = Millis::from_seconds(60);
/// A disk server has so much time after a start of the head to say that it is there: three times as long as between two reports.
const REGISTERS_WITHIN: Millis = Millis::from_seconds(15);

/// Partitions from which nothing can be read, by name.
pub(crate) type AwayPartitions = BTreeMap<String, AwayHost>;

/// The volatile state of a partition.
struct PartitionStatus {
    name: String,
    host: String,
    pool: String,
    is_given_up: bool,
}

/// Sees again from which partitions nothing can be read. Who waits for one of them looks again, and what was to be recalled because of
/// one that is back is read from disk.
pub(crate) fn notice(core: &mut Core, now: Timestamp) -> Result<()> {
    let away = away_partitions(core, now)?;
    let before = std::mem::replace(&mut core.live.away, away);
    if before.keys().eq(core.live.away.keys()) {
        return Ok(());
    }
    core.live.jobs_held_back.clear();
    for partition in before.into_keys() {
        if !core.live.away.contains_key(&partition) {
            tape::end_recalls_beside(core, &partition, now)?;
        }
    }
    // Doors have kept where files are.
    core.store.set_visible();
    core.store.note_changed(Awaited::Hosts);
    for topic in [Topic::Files, Topic::Tape, Topic::Jobs] {
        core.touch(topic);
    }
    Ok(())
}

fn away_partitions(core: &Core, now: Timestamp) -> Result<AwayPartitions> {
    let facts = core.store.map_partitions(|(name, row)| {
        (row.state != PartitionState::Retired).then(|| PartitionStatus {
            name: name.clone(),
            host: row.server.name.clone(),
            pool: row.pool.clone(),
            is_given_up: row.given_up.is_some(),
        })
    })?;
    let mut away = AwayPartitions::new();
    for facts in facts {
        if let Some((reason, since)) = why_away(core, &facts, now)? {
            away.insert(facts.name, AwayHost { host: facts.host, reason, since });
        }
    }
    Ok(away)
}

/// Why nothing can be read from a partition, and since when; nothing if its disk server answers.
fn why_away(core: &Core, facts: &PartitionStatus, now: Timestamp) -> Result<Option<(AwayReason, Timestamp)>> {
    let hosts = core.store.hosts()?;
    let removed = hosts.get(&facts.host).and_then(|host| host.removed);
    if let Some(removed) = removed.filter(|_| facts.is_given_up) {
        return Ok(Some((AwayReason::Removed, removed)));
    }
    let is_own = facts.host == core.config.server.name;
    let Some(live) = core.live.partitions.get(&facts.name) else {
        let since = core.live.since;
        let is_away = !is_own && now - since > REGISTERS_WITHIN;
        return Ok(is_away.then_some((AwayReason::Silent, since)));
    };
    if live.trouble == Some(PartitionTrouble::Gone) {
        return Ok(Some((AwayReason::NotMounted, live.heard)));
    }
    if is_own {
        return Ok(None);
    }
    let host = core.live.hosts.get(&facts.host);
    if let Some(left) = host.and_then(|host| host.left) {
        return Ok(Some((AwayReason::Stopped, left)));
    }
    let is_unanswered = host.is_some_and(|host| host.unanswered.is_some());
    let is_silent = is_unanswered || now - live.heard > core.store.policy(&facts.pool)?.heard_bound;
    Ok(is_silent.then_some((AwayReason::Silent, live.heard)))
}

fn is_within(core: &Core, replica: &Replica) -> bool {
    !core.live.away.contains_key(&replica.partition)
}

/// Those of the replicas of a file, or pieces of it, that can be read now.
pub(in crate::pool) fn within_reach<'a>(
    core: &Core,
    replicas: impl Iterator<Item = &'a Replica>,
) -> Vec<&'a Replica> {
    replicas.filter(|replica| is_within(core, replica)).collect()
}

/// Where the bytes of a file are for whoever wants them now.
pub(crate) fn state_of(core: &Core, node: &Node) -> FileState {
    let state = node.state();
    if core.live.away.is_empty() || !state.is_online() || node.is_online_where(|one| is_within(core, one)) {
        return state;
    }
    if node.is_archived { FileState::Nearline } else { FileState::OutOfReach }
}

/// Hosts with replicas or pieces of a file that cannot be read now.
pub(crate) fn away_hosts(core: &Core, node: &Node) -> Vec<AwayHost> {
    let mut hosts: Vec<AwayHost> = Vec::new();
    for away in node.online().filter_map(|replica| core.live.away.get(&replica.partition)) {
        if !hosts.iter().any(|known| known.host == away.host) {
            hosts.push(away.clone());
        }
    }
    hosts
}

/// The hosts in words: `host d1, silent for 20 s`.
pub(crate) fn away_words(core: &Core, node: &Node, now: Timestamp) -> String {
    let words = |away: AwayHost| {
        let AwayHost { host, reason, since } = away;
        let span = match (now - since).0.max(0) / 1000 {
            seconds @ 0..60 => format!("{seconds} s"),
            seconds => human_span(Millis(seconds * 1000)),
        };
        match reason {
            AwayReason::Silent => format!("host {host}, silent for {span}"),
            AwayReason::Stopped => format!("host {host}, stopped {span} ago"),
            AwayReason::NotMounted => format!("host {host}, whose disk is not mounted"),
            AwayReason::Removed => format!("host {host}, which was removed"),
        }
    };
    away_hosts(core, node).into_iter().map(words).collect::<Vec<_>>().join(" and ")
}

/// For how long somebody who opens a file out of reach should wait for its host: that may only be starting again.
pub(in crate::pool) fn returns_within(core: &Core, node: &Node, now: Timestamp) -> Option<Millis> {
    let hosts = away_hosts(core, node);
    let hopeful = hosts.iter().filter(|away| matches!(away.reason, AwayReason::Silent | AwayReason::Stopped));
    let left = hopeful.map(|away| RETURN_WITHIN.0 - (now - away.since).0).max()?;
    (left > 0).then_some(Millis(left))
}

/// Why a file cannot be read although it is on disk.
pub(crate) fn out_of_reach(core: &Core, node: &Node, path: &FilePath, now: Timestamp) -> Failure {
    let failure = Failure::unavailable(format!("{path} is out of reach: on {}", away_words(core, node, now)));
    let is_removed = away_hosts(core, node).iter().any(|away| away.reason == AwayReason::Removed);
    failure.hint(if is_removed {
        "that host may join again with its directory: `bp host invite`"
    } else {
        "it can be read when that host is back; `bp host list` shows hosts"
    })
}
