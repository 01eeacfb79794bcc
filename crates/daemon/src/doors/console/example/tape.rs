//! Drives, volumes and requests of the example.

use super::{GIB, MIB, ago, path, vid};
use base::RequestId;
use wire::control::*;

pub(super) fn drives() -> Vec<DriveInfo> {
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
        device: DriveDevice {
            vendor: "IBM".into(),
            model: "ULT3580-TD9".into(),
            serial: "10WT012345".into(),
            address: "/dev/sg3".into(),
        },
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

pub(super) fn volume(number: u32) -> VolumeInfo {
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
        pool: String::new(),
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

pub(super) fn requests() -> Vec<RequestInfo> {
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

/// A volume that somebody must load.
pub(super) fn operator_request() -> OperatorRequest {
    OperatorRequest {
        id: OperatorRequestId(3),
        vid: vid(77),
        place: String::new(),
        reason: "14 files wait for it".into(),
        created: ago(1200),
        answer: OperatorAnswer::Open,
        answered: None,
        operator: String::new(),
        message: String::new(),
    }
}
