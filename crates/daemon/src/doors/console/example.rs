//! A busy facility with some trouble, for tests of the console and the metrics.

use base::{Failure, FilePath, JobId, Millis, RequestId, Timestamp, Vid};
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

fn drives() -> Vec<DriveInfo> {
    let idle = DriveInfo {
        name: "drv0".into(),
        library: "lib0".into(),
        host: "tape01".into(),
        vid: None,
        phase: TapePhase::Idle,
        path: None,
        bytes_done: 0,
        bytes_total: 0,
        files_left: 0,
        trouble: None,
    };
    vec![
        DriveInfo {
            name: "drv1".into(),
            vid: Some(vid(7)),
            phase: TapePhase::Transferring,
            path: Some(path("/data/2026/run4711/raw/stream-03.parquet")),
            bytes_done: 1_402 * MIB,
            bytes_total: 2_048 * MIB,
            files_left: 118,
            ..idle.clone()
        },
        DriveInfo {
            name: "drv2".into(),
            vid: Some(vid(3)),
            phase: TapePhase::Locating,
            path: Some(path(
                "/data/2024/calibration/full/reprocessing-v7/pedestals/detector-north/chamber-118/calib-000231.root",
            )),
            bytes_total: 310 * MIB,
            files_left: 9,
            ..idle.clone()
        },
        DriveInfo { name: "drv3".into(), ..idle.clone() },
        DriveInfo {
            name: "drv4".into(),
            vid: Some(vid(12)),
            phase: TapePhase::Stuck,
            trouble: Some("unload failed: medium removal prevented (sense 5/53/02)".into()),
            ..idle
        },
    ]
}

fn volume(number: u32) -> VolumeInfo {
    let n = u64::from(number);
    let state = match number {
        5 => VolumeState::Suspect,
        7..=9 => VolumeState::Appendable,
        30.. => VolumeState::Blank,
        _ => VolumeState::Full,
    };
    let used = match state {
        VolumeState::Blank => 0,
        VolumeState::Appendable => 3_000 + n * 431,
        _ => 11_900 + n * 3,
    };
    VolumeInfo {
        vid: vid(number),
        library: "lib0".into(),
        state,
        reason: (number == 5).then(|| "label says BP0015; refusing to read".into()),
        files: used / 3,
        live_bytes: used * GIB * (100 - n) / 100,
        used_bytes: used * GIB,
        capacity_bytes: 12_288 * GIB,
        loads: n * 7 % 61,
        drive: match number {
            3 => Some("drv2".into()),
            7 => Some("drv1".into()),
            12 => Some("drv4".into()),
            _ => None,
        },
    }
}

fn requests() -> Vec<RequestInfo> {
    let row =
        |id: u64, kind, file: &str, size: u64, volume: Option<u32>, state, attempts, reason: &str, waits| {
            RequestInfo {
                id: RequestId(id),
                kind,
                path: path(file),
                size: size * MIB,
                vid: volume.map(vid),
                state,
                owner: if id.is_multiple_of(2) { "alice".into() } else { "production".into() },
                attempts,
                reason: reason.into(),
                created: ago(waits),
            }
        };
    use RequestKind::{Archive, Recall};
    use RequestState::{Active, Failed, Queued};
    let mut rows = vec![
        row(
            90_211,
            Archive,
            "/data/2026/run4711/raw/stream-03.parquet",
            2_048,
            Some(7),
            Active,
            0,
            "drive drv1 writes it",
            340,
        ),
        row(
            90_198,
            Recall,
            "/data/2024/calib/calib-000231.root",
            310,
            Some(3),
            Active,
            0,
            "drive drv2 winds to block 118230",
            611,
        ),
        row(
            90_120,
            Recall,
            "/data/2023/mc/ttbar-17.parquet",
            4_310,
            Some(5),
            Failed,
            3,
            "volume BP0005: label says BP0015; refusing to read",
            8_110,
        ),
        row(
            90_215,
            Recall,
            "/data/2024/calib/calib-000232.root",
            308,
            Some(3),
            Queued,
            0,
            "next file of drive drv2",
            610,
        ),
        row(
            90_216,
            Recall,
            "/data/2024/raw/run1702/stream-00.parquet",
            2_048,
            Some(12),
            Queued,
            1,
            "volume BP0012 is in drive drv4, which is out of use",
            590,
        ),
    ];
    for n in 0..6 {
        let file = format!("/data/2026/run4711/raw/stream-{:02}.parquet", n + 4);
        rows.push(row(
            90_300 + n,
            Archive,
            &file,
            2_048,
            None,
            Queued,
            0,
            "waits for 20 GiB or 30 min more to fill a session",
            200 - n as i64,
        ));
    }
    rows
}

fn workers() -> Vec<WorkerInfo> {
    let worker = |name: &str, cpus, cpus_used, not_enforced: &[&str]| WorkerInfo {
        name: format!("{name}-worker1"),
        host: name.into(),
        is_available: name != "laptop",
        cpus,
        cpus_used,
        memory_bytes: u64::from(cpus) * 4 * GIB,
        not_enforced: not_enforced.iter().map(|limit| (*limit).to_owned()).collect(),
        users: JobUsers::default(),
    };
    vec![
        worker("node01", 64, 61, &[]),
        worker("node02", 64, 12, &[]),
        worker("laptop", 8, 0, &["memory (no cgroup v2 delegation)"]),
    ]
}

fn jobs() -> Vec<JobInfo> {
    let job = |id: u64, name: &str, state, reason: Option<&str>| JobInfo {
        id: JobId(id),
        owner: if id.is_multiple_of(3) { "bob".into() } else { "alice".into() },
        spec: JobSpec {
            name: name.into(),
            command: vec!["python3".into(), "select.py".into(), format!("--run={id}")],
            resources: Resources { cpus: 1 + (id % 4) as u32, ..Resources::default() },
            inputs: vec![],
            outputs: vec![],
            archive: false,
            replace: false,
            environment: std::collections::BTreeMap::new(),
        },
        state,
        reason: reason.map(str::to_owned),
        worker: None,
        exit: None,
        usage: None,
        run_as: None,
        not_enforced: Vec::new(),
        attempt: 1,
        submitted: ago(7_000 - id as i64),
        started: None,
        ended: None,
    };
    let ran = |mut one: JobInfo, worker: &str, from: i64, to: Option<i64>, exit: Option<JobExit>| {
        one.worker = Some(worker.into());
        one.started = Some(ago(from));
        one.ended = to.map(ago);
        one.exit = exit;
        one
    };
    let missing = Failure::not_found("output hist.parquet is not in the scratch directory");
    let mut twice = ran(job(4008, "select-run4708", JobState::Running, None), "node01", 512, None, None);
    twice.attempt = 2;
    vec![
        job(
            4012,
            "select-run4712",
            JobState::Held,
            Some(
                "waits for 3 of 12 inputs: /data/2024/raw/run1702/stream-00.parquet waits for volume BP0012",
            ),
        ),
        job(4011, "select-run4711", JobState::Queued, Some("waits for 2 CPU slots; next in line for node02")),
        ran(job(4010, "fit-mass", JobState::Running, None), "node01", 3_921, None, None),
        twice,
        ran(
            job(4007, "merge-hist", JobState::Archiving, Some("1 of 2 outputs is not on tape")),
            "node02",
            1_800,
            Some(95),
            Some(JobExit::Code(0)),
        ),
        ran(
            job(4005, "select-run4705", JobState::Failed, Some("an output could not be stored")),
            "node02",
            5_000,
            Some(4_100),
            Some(JobExit::OutputFailed(missing)),
        ),
        ran(
            job(4004, "select-run4704", JobState::Done, None),
            "node01",
            90_000,
            Some(88_030),
            Some(JobExit::Code(0)),
        ),
        ran(
            job(4003, "toy-limits", JobState::Failed, Some("ran longer than its wall limit of 6 h")),
            "node01",
            95_000,
            Some(73_400),
            Some(JobExit::WallLimit),
        ),
        job(4002, "typo", JobState::Cancelled, Some("cancelled by bob")),
    ]
}

/// Three owners.
pub(crate) fn bill() -> Bill {
    let line = |owner: &str, jobs, cpu_hours: i64, loads, tape: u64, disk| BillLine {
        owner: owner.into(),
        jobs,
        cpu: Millis::from_seconds(cpu_hours * 3600),
        slot_wall: Millis::from_seconds(cpu_hours * 4100),
        tape_loads: loads,
        tape_written_bytes: tape * GIB,
        tape_read_bytes: tape / 3 * GIB,
        in_bytes: tape * GIB + 911 * MIB,
        out_bytes: tape * 2 * GIB,
        disk_gb_hours: disk,
    };
    Bill {
        lines: vec![
            line("alice", 3_120, 18_200, 214.5, 4_100, 1_220_411.25),
            line("bob", 411, 921, 17.25, 96, 8_120.5),
            line("production", 0, 0, 1_911.0, 81_200, 20_118_702.0),
        ],
    }
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
