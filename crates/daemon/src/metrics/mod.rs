//! Metrics in the Prometheus text format 0.0.4.
//!
//! Labels are bounded by the configuration (pools, partitions, drives, workers) or by an enum; paths, owners and volumes
//! are never labels. Serve with [`CONTENT_TYPE`].

mod doors;
mod exposition;
#[cfg(test)]
mod tests;

pub use doors::{DoorCounter, DoorCounters, OpenConnection};

use base::Timestamp;
use exposition::{
    Exposition,
    Type::{Counter, Gauge},
};
use head::Waits;
use wire::control::{
    Bill, JobState, Presence, RequestKind, RequestState, Status, TapePhase, VolumeCount, VolumeState,
};

/// Media type of what [`render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything, as text.
#[must_use]
pub fn render(status: &Status, bill: &Bill, counters: &DoorCounters, waits: &Waits) -> String {
    let mut out = Exposition::new();
    facility(&mut out, status);
    disk(&mut out, status);
    tape(&mut out, status);
    hosts(&mut out, status);
    batch(&mut out, status);
    used(&mut out, bill);
    waited(&mut out, waits);
    doors::door_metrics(&mut out, counters);
    if let Some(budget) = counters.unproven.get() {
        doors::unproven_metrics(&mut out, budget);
    }
    out.into_text()
}

fn facility(out: &mut Exposition, status: &Status) {
    out.family("info", Gauge, "Version and name of the facility; always 1.");
    out.sample(&[("version", &status.version), ("name", &status.name), ("facility", &status.facility)], 1);
    out.one("head_starts_total", Counter, "Starts of the head since creation.", status.incarnation);
    out.one("start_time_seconds", Gauge, "When the head started, since 1970.", seconds(status.started));
    out.one("files", Gauge, "Files of the namespace.", status.files.files);
    out.one("directories", Gauge, "Directories of the namespace.", status.files.directories);
    out.one("files_online", Gauge, "Files with a disk replica that can be read.", status.files.online);
    out.one(
        "files_out_of_reach",
        Gauge,
        "Files whose only replicas are on disk servers that do not answer.",
        status.files.out_of_reach,
    );
    out.one("files_nearline", Gauge, "Files with only a tape copy.", status.files.nearline);
    out.one("files_bytes", Gauge, "Bytes of all files.", status.files.bytes);
    out.one("trash_files", Gauge, "Files that were removed and can be restored.", status.files.trash_files);
    out.one("trash_bytes", Gauge, "Bytes of these on disk.", status.files.trash_bytes);
}

fn seconds(time: Timestamp) -> f64 {
    time.0 as f64 / 1000.0
}

fn disk(out: &mut Exposition, status: &Status) {
    type Figure = fn(&wire::control::PartitionInfo) -> u64;
    let figures: [(&str, &str, Figure); 7] = [
        ("partition_size_bytes", "Bytes of the partition.", |one| one.total_bytes),
        ("partition_free_bytes", "Bytes that can still be written.", |one| one.free_bytes),
        ("partition_open_files", "Files that are open on the partition.", |one| u64::from(one.transfers)),
        ("partition_replicas", "Replicas on the partition.", |one| one.replicas),
        ("partition_replicas_bytes", "Bytes of the replicas.", |one| one.replica_bytes),
        ("partition_pinned_replicas", "Replicas that may not be dropped.", |one| one.pinned),
        ("partition_available", "Whether the disk server is available.", |one| u64::from(one.is_available)),
    ];
    for (name, help, figure) in figures {
        out.family(name, Gauge, help);
        for pool in &status.pools {
            for partition in &pool.partitions {
                out.sample(&[("pool", &pool.name), ("partition", &partition.name)], figure(partition));
            }
        }
    }
}

fn hosts(out: &mut Exposition, status: &Status) {
    out.family("host_here", Gauge, "Whether the host was heard lately, answers, and has not said goodbye.");
    for host in &status.hosts {
        out.sample(&[("host", &host.name)], u64::from(host.presence == Presence::Here));
    }
}

fn tape(out: &mut Exposition, status: &Status) {
    out.family("drive_phase", Gauge, "1 for the phase that the drive is in.");
    for drive in &status.drives {
        for phase in TapePhase::ALL {
            let word = phase.as_str().replace(' ', "_");
            let labels = [("library", &*drive.library), ("drive", &*drive.name), ("phase", &*word)];
            out.sample(&labels, u64::from(drive.phase == phase));
        }
    }
    out.family("drive_trouble", Gauge, "Whether the drive is out of use.");
    for drive in &status.drives {
        let labels = [("library", &*drive.library), ("drive", &*drive.name)];
        out.sample(&labels, u64::from(drive.trouble.is_some()));
    }
    volumes(out, &status.counts.volumes);
    requests(out, status);
}

fn volumes(out: &mut Exposition, counts: &[VolumeCount]) {
    out.family("volumes", Gauge, "Volumes by state.");
    for state in VolumeState::ALL {
        let number: u64 = counts.iter().filter(|count| count.state == state).map(|count| count.volumes).sum();
        out.sample(&[("state", state.as_word())], number);
    }
    let sum = |figure: fn(&VolumeCount) -> u64| counts.iter().map(figure).fold(0, u64::saturating_add);
    out.one("volumes_live_bytes", Gauge, "Bytes of copies that count.", sum(|one| one.live_bytes));
    out.one("volumes_used_bytes", Gauge, "Bytes used, by dead copies too.", sum(|one| one.used_bytes));
    out.one("volumes_capacity_bytes", Gauge, "Bytes that volumes can hold.", sum(|one| one.capacity_bytes));
}

fn requests(out: &mut Exposition, status: &Status) {
    let counts = &status.counts.requests;
    out.family("tape_requests", Gauge, "Tape requests that are not done, by kind and state.");
    for kind in [RequestKind::Archive, RequestKind::Recall] {
        for state in RequestState::ALL {
            let of_state = counts.iter().filter(|one| one.kind == kind && one.state == state);
            let number: u64 = of_state.map(|one| one.requests).sum();
            out.sample(&[("kind", kind.as_str()), ("state", state.as_str())], number);
        }
    }
    let help = "How long the oldest request that has not failed has waited.";
    out.family("tape_request_age_max_seconds", Gauge, help);
    for kind in [RequestKind::Archive, RequestKind::Recall] {
        let waiting = counts.iter().filter(|one| one.kind == kind && one.state != RequestState::Failed);
        let oldest = waiting.map(|one| one.oldest).min();
        let age = oldest.map_or(0.0, |oldest| (status.now - oldest).as_seconds_f64().max(0.0));
        out.sample(&[("kind", kind.as_str())], age);
    }
}

/// How long what is done now had to wait.
fn waited(out: &mut Exposition, waits: &Waits) {
    let tape = [([("kind", "archive")], &waits.archives), ([("kind", "recall")], &waits.recalls)];
    out.histograms("tape_wait_seconds", "Time from a tape request until it was done.", &tape);
    let jobs = [([("until", "running")], &waits.jobs)];
    out.histograms("job_wait_seconds", "Time from the submission of a job until it ran.", &jobs);
}

fn batch(out: &mut Exposition, status: &Status) {
    out.family("jobs", Gauge, "Jobs that are not over, by state.");
    for state in [JobState::Held, JobState::Queued, JobState::Running, JobState::Archiving] {
        out.sample(&[("state", state.as_str())], status.counts.jobs_in(state));
    }
    type Figure = fn(&wire::control::WorkerInfo) -> u64;
    let figures: [(&str, &str, Figure); 4] = [
        ("worker_slots", "CPU slots of the worker.", |one| u64::from(one.cpus)),
        ("worker_slots_taken", "CPU slots that jobs hold.", |one| u64::from(one.cpus_used)),
        ("worker_memory_bytes", "Memory of the worker.", |one| one.memory_bytes),
        ("worker_available", "Whether the worker was heard lately.", |one| u64::from(one.is_available)),
    ];
    for (name, help, figure) in figures {
        out.family(name, Gauge, help);
        for worker in &status.workers {
            out.sample(&[("worker", &worker.name)], figure(worker));
        }
    }
}

/// The bill, summed over all owners.
fn used(out: &mut Exposition, bill: &Bill) {
    let sum = |figure: fn(&wire::control::BillLine) -> f64| bill.lines.iter().map(figure).sum::<f64>();
    let mut total =
        |name, help, figure: fn(&wire::control::BillLine) -> f64| out.one(name, Counter, help, sum(figure));
    total("jobs_run_total", "Jobs that ran.", |line| line.jobs as f64);
    total("jobs_cpu_seconds_total", "CPU time of jobs.", |line| line.cpu.as_seconds_f64());
    total("jobs_slot_seconds_total", "Wall time of jobs times their slots.", |line| {
        line.slot_wall.as_seconds_f64()
    });
    total("tape_loads_total", "Volumes loaded.", |line| line.tape_loads);
    total("tape_written_bytes_total", "Bytes written to tape.", |line| line.tape_written_bytes as f64);
    total("tape_read_bytes_total", "Bytes read from tape.", |line| line.tape_read_bytes as f64);
    total("users_in_bytes_total", "Bytes that users wrote into the facility.", |line| line.in_bytes as f64);
    total("users_out_bytes_total", "Bytes that users read from the facility.", |line| line.out_bytes as f64);
    total("disk_byte_seconds_total", "Disk space times time.", |line| line.disk_gb_hours * 3600e9);
}
