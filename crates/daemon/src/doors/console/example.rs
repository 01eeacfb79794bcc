//! A busy facility with some trouble, for tests of the console and the metrics.

mod jobs;
mod share;
mod tape;

use super::Shown;
use base::{FilePath, Timestamp, Vid};
pub(crate) use jobs::bill;
use jobs::{jobs, workers};
pub(crate) use share::mounts;
use tape::{drives, requests, volume};
use wire::control::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const NOW: Timestamp = Timestamp(1_795_256_216_000);

fn ago(seconds: i64) -> Timestamp {
    Timestamp(NOW.0 - seconds * 1000)
}

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

fn vid(number: u32) -> Vid {
    format!("BP{number:04}").parse().unwrap()
}

/// All of it.
pub(crate) fn shown() -> Shown {
    Shown { status: status(), bill: bill(), mounts: mounts(), events: events() }
}

/// Everything that the page can show at once.
pub(crate) fn status() -> Status {
    Status {
        name: "backplane-lab".into(),
        facility: "f-5c1b9a".into(),
        root: "root://data.example.org:1094".into(),
        version: "0.1.0".into(),
        incarnation: 14,
        now: NOW,
        started: ago(3 * 86_400 + 4021),
        files: FileCounts {
            files: 48_213,
            directories: 612,
            online: 31_877,
            nearline: 16_336,
            out_of_reach: 0,
            bytes: 91_340 * GIB,
            trash_files: 12,
            trash_bytes: 3 * GIB,
        },
        pools: pools(),
        drives: drives(),
        volumes: (1..=34).map(volume).collect(),
        requests: requests(),
        requests_len: 1371,
        workers: workers(),
        hosts: hosts(),
        jobs: jobs(),
        operator_requests: vec![tape::operator_request()],
        counts: counts(),
        restored: None,
    }
}

/// Far more than is listed.
fn counts() -> Counts {
    use RequestKind::{Archive, Recall};
    use RequestState::{Active, Queued};
    let job = |state, jobs| JobCount { state, jobs };
    let request = |kind, state, requests, waits| RequestCount { kind, state, requests, oldest: ago(waits) };
    let volume = |state| {
        let volumes: Vec<_> = (1..=34).map(volume).filter(|volume| volume.state == state).collect();
        let sum = |figure: fn(&VolumeInfo) -> u64| volumes.iter().map(figure).sum();
        VolumeCount {
            state,
            volumes: volumes.len() as u64,
            live_bytes: sum(|one| one.live_bytes),
            used_bytes: sum(|one| one.used_bytes),
            capacity_bytes: sum(|one| one.capacity_bytes),
        }
    };
    Counts {
        jobs: vec![job(JobState::Running, 1234), job(JobState::Queued, 40_000), job(JobState::Held, 17)],
        requests: vec![
            request(Archive, Queued, 69, 200),
            request(Archive, Active, 1, 340),
            request(Recall, Queued, 1300, 610),
            request(Recall, Active, 1, 611),
        ],
        volumes: [VolumeState::Blank, VolumeState::Appendable, VolumeState::Full, VolumeState::Suspect]
            .map(volume)
            .to_vec(),
    }
}

fn hosts() -> Vec<HostStatus> {
    let host = |name: &str, role, presence, heard_s| HostStatus {
        name: name.into(),
        roles: vec![role],
        presence,
        heard: Some(ago(heard_s)),
    };
    vec![
        host("disk3", Role::Disk, Presence::Here, 2),
        host("tape1", Role::Tape, Presence::Stopped, 40),
        host("w7", Role::Cpu, Presence::Silent, 95),
    ]
}

fn pools() -> Vec<PoolInfo> {
    let partition = |name: &str, total: u64, free: u64, replicas, pinned, is_available| PartitionInfo {
        name: name.into(),
        total_bytes: total * GIB,
        free_bytes: free * GIB,
        size_max_bytes: None,
        transfers: if is_available { 12 } else { 0 },
        replicas,
        replica_bytes: (total - free) * GIB,
        pinned,
        is_available,
        server: "head".into(),
        domain: "head".into(),
        state: PartitionState::InUse,
        is_given_up: false,
        trouble: None,
        collecting_bytes: if free < 300 { 119 * GIB } else { 0 },
        stuck_bytes: 0,
        stuck: None,
        verified_percent: (pinned == 97).then_some(42),
        verified: None,
        damaged: 0,
    };
    let pool = |name: &str, copies, files_short, partitions| PoolInfo {
        name: name.into(),
        policy: Pool { name: name.into(), copies, ..Pool::default() },
        partitions,
        files_short,
        copies_under_way: files_short / 4,
        moves_under_way: 0,
        uneven_bytes: 0,
    };
    let main = vec![
        partition("disk1", 12_288, 3_120, 9_120, 212, true),
        partition("disk2", 12_288, 1_311, 11_004, 97, true),
        partition("disk3", 16_384, 295, 11_202, 1_840, true),
    ];
    let scratch =
        vec![partition("ssd1", 1_863, 1_022, 551, 12, true), partition("ssd2", 1_863, 1_863, 0, 0, false)];
    vec![pool("main", 2, 17, main), pool("scratch", 1, 0, scratch)]
}

/// The last of many events.
pub(crate) fn events() -> Vec<Event> {
    let event = |number, seconds, kind, subject: &str, what: &str| Event {
        number,
        at: ago(seconds),
        kind,
        subject: subject.into(),
        what: what.into(),
    };
    vec![
        event(41, 900, EventType::DriveFailed, "drv4", "drive drv4 has failed: unload failed"),
        event(42, 300, EventType::JobDone, "4711", "job 4711 of alice is done"),
        event(43, 40, EventType::HostStopped, "disk3", "host disk3 has stopped"),
    ]
}
