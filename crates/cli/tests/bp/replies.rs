//! What a facility could answer.

use serde_json::{Value, json};

/// 2026-11-21 10:00 UTC.
const NOW: i64 = 1_795_255_200_000;

pub(crate) fn entry(name: &str, kind: &str) -> Value {
    let mut entry = json!({
        "id": 5, "name": name, "kind": kind, "owner": "alice", "group": "higgs", "mode": 0o644, "size": 0,
        "modified": NOW,
    });
    if kind == "file" {
        entry["size"] = json!(1_610_612_736u64);
        entry["checksums"] = json!({ "adler32": "11e60398", "crc32c": "e3069283" });
        entry["state"] = json!("nearline");
    }
    entry
}

pub(crate) fn info(path: &str, kind: &str) -> Value {
    let mut info = entry(path.rsplit('/').next().unwrap(), kind);
    info["path"] = json!(path);
    info["replicas"] = json!([]);
    info["copies"] = json!([]);
    info["pins"] = json!([]);
    info
}

pub(crate) fn job(id: u64, state: &str, exit: &Value) -> Value {
    json!({
        "id": id, "owner": "alice", "state": state, "exit": exit, "attempt": 1, "submitted": NOW - 60_000,
        "started": NOW - 50_000, "ended": NOW - 10_000, "worker": "node1",
        "spec": {
            "name": "select", "command": ["true"], "resources": { "cpus": 1, "memory_bytes": 0, "wall": 86_400_000 },
            "inputs": [], "outputs": [], "replace": false, "archive": false, "environment": {},
        },
    })
}

pub(crate) fn status() -> Value {
    json!({
        "name": "lab", "facility": "f-1", "root": "root://127.0.0.1:1094", "version": "0.1.0", "incarnation": 3,
        "now": NOW, "started": NOW - 7_500_000,
        "files": { "files": 12, "directories": 3, "online": 9, "nearline": 3, "out_of_reach": 0, "bytes": 5_000_000_000u64,
                   "trash_files": 0, "trash_bytes": 0 },
        "hosts": [{ "name": "node3", "roles": ["disk"], "presence": "here", "heard": NOW - 2_000 },
                  { "name": "node4", "roles": ["cpu", "tape"], "presence": "silent", "heard": NOW - 95_000 }],
        "pools": [{ "name": "main", "policy": wire::control::Pool::default(), "files_short": 2, "copies_under_way": 1,
                    "moves_under_way": 0, "uneven_bytes": 0,
                    "partitions": [{
            "name": "disk1", "total_bytes": 1u64 << 40, "free_bytes": 1u64 << 39, "replicas": 9,
            "replica_bytes": 4_000_000_000u64, "pinned": 1, "is_available": false,
            "server": "node2", "domain": "node2", "state": "draining", "size_max_bytes": 900_000_000_000_u64, "transfers": 12, "is_given_up": false, "trouble": null, "collecting_bytes": 0, "stuck_bytes": 0,
            "verified_percent": null, "verified": null, "damaged": 0,
        }] }],
        "drives": [{
            "name": "drv1", "library": "lib1", "host": "head", "vid": "BP0001", "phase": "transferring", "path": "/data/run1.parquet",
            "bytes_done": 1_000, "bytes_total": 4_000, "files_left": 2, "trouble": null,
            "device": { "address": "/dev/sg3", "vendor": "IBM", "model": "ULT3580-HH9", "serial": "90WT013482" },
        }],
        "volumes": [{
            "vid": "BP0001", "library": "lib1", "state": "suspect", "reason": "label says BP0002", "files": 3,
            "live_bytes": 100u64 << 20, "used_bytes": 256u64 << 20, "capacity_bytes": 1u64 << 30, "loads": 4, "drive": "drv1",
        }],
        "requests": [{
            "id": 31, "kind": "recall", "path": "/data/run2.parquet", "size": 2_048, "vid": "BP0001", "state": "queued",
            "owner": "alice", "attempts": 1, "reason": "volume BP0001 is in drive drv1", "created": NOW - 95_000,
        }],
        "requests_len": 40,
        "counts": {
            "jobs": [{ "state": "queued", "jobs": 4990 }, { "state": "running", "jobs": 1 }],
            "requests": [{ "kind": "recall", "state": "queued", "requests": 40, "oldest": NOW - 95_000 }],
            "volumes": [{ "state": "suspect", "volumes": 1, "live_bytes": 100u64 << 20, "used_bytes": 256u64 << 20,
                          "capacity_bytes": 1u64 << 30 }],
        },
        "workers": [{ "name": "node1-worker1", "host": "node1", "is_available": true, "cpus": 8, "cpus_used": 3, "memory_bytes": 16u64 << 30, "not_enforced": ["memory"], "users": { "everybody": false, "owner": true, "users": ["ada", "bob"], "maybe_others": false, "why": "knows no others", "hint": "" },
            "labels": [], "architecture": "x86_64", "is_draining": false, "load": null }],
        "jobs": [job(6, "running", &json!({ "code": 0 }))],
    })
}
