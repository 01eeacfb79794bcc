//! Metrics in the Prometheus text format 0.0.4.
//!
//! Labels are bounded by the configuration (pools, partitions, drives, workers) or by an enum; paths, owners and volumes
//! are never labels. Serve with [`CONTENT_TYPE`].

use base::{ErrorKind, Timestamp};
use std::{
    fmt::{self, Write as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use wire::control::{Bill, JobState, RequestKind, RequestState, Status, TapePhase, VolumeState};

/// Media type of what [`render`] returns.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the doors count. One for the whole process, shared by all connections.
#[derive(Debug, Default)]
pub struct DoorCounters {
    /// `root://`
    pub root: Arc<DoorCounter>,
    /// `http://`
    pub http: Arc<DoorCounter>,
    /// What the sessions of `root://` count themselves, once that door is open.
    pub sessions: OnceLock<Arc<net::xrd::Counters>>,
}

impl DoorCounters {
    /// Connections now and so far, and requests, of each door.
    fn visits(&self) -> [(&'static str, [u64; 3]); 2] {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let root = self.sessions.get().map_or([0; 3], |sessions| {
            [&sessions.sessions_now, &sessions.sessions_total, &sessions.requests_total].map(load)
        });
        let http = [self.http.connections_now(), load(&self.http.connections), load(&self.http.requests)];
        [("root", root), ("http", http)]
    }
}

/// What one door counts. All operations are relaxed: the figures need not agree with each other to the last one.
#[derive(Debug, Default)]
pub struct DoorCounter {
    /// Connections accepted.
    connections: AtomicU64,
    /// Connections that are over.
    connections_closed: AtomicU64,
    /// Requests answered, failed ones too.
    requests: AtomicU64,
    /// Bytes of files that came in.
    in_bytes: AtomicU64,
    /// Bytes of files that went out.
    out_bytes: AtomicU64,
    /// Requests that failed, by kind.
    errors: [AtomicU64; KINDS.len()],
}

impl DoorCounter {
    /// Counts a connection until the guard is dropped.
    pub fn connect(&self) -> OpenConnection<'_> {
        self.connections.fetch_add(1, Relaxed);
        OpenConnection { door: self }
    }

    /// Counts an answered request; `failure` is its kind if it failed.
    pub fn answer(&self, failure: Option<ErrorKind>) {
        self.requests.fetch_add(1, Relaxed);
        let place = failure.and_then(|kind| KINDS.iter().position(|(known, _)| *known == kind));
        if let Some(place) = place {
            self.errors[place].fetch_add(1, Relaxed);
        }
    }

    /// Counts bytes of files that came in.
    pub fn add_in(&self, bytes: u64) {
        self.in_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of files that went out.
    pub fn add_out(&self, bytes: u64) {
        self.out_bytes.fetch_add(bytes, Relaxed);
    }

    /// Connections that are open now.
    #[must_use]
    pub fn connections_now(&self) -> u64 {
        // Closed first: a connection that closes in between is then counted as open, never as minus one.
        let closed = self.connections_closed.load(Relaxed);
        self.connections.load(Relaxed).saturating_sub(closed)
    }
}

/// A connection that is open; dropping it counts it as closed.
#[derive(Debug)]
pub struct OpenConnection<'a> {
    door: &'a DoorCounter,
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.door.connections_closed.fetch_add(1, Relaxed);
    }
}

/// Every kind of failure with its label.
const KINDS: [(ErrorKind, &str); 16] = [
    (ErrorKind::NotFound, "not_found"),
    (ErrorKind::Exists, "exists"),
    (ErrorKind::NotDirectory, "not_directory"),
    (ErrorKind::IsDirectory, "is_directory"),
    (ErrorKind::NotEmpty, "not_empty"),
    (ErrorKind::Permission, "permission"),
    (ErrorKind::Invalid, "invalid"),
    (ErrorKind::Busy, "busy"),
    (ErrorKind::NoSpace, "no_space"),
    (ErrorKind::OverQuota, "over_quota"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Io, "io"),
    (ErrorKind::Unsupported, "unsupported"),
    (ErrorKind::Timeout, "timeout"),
    (ErrorKind::Unavailable, "unavailable"),
    (ErrorKind::Internal, "internal"),
];

/// Everything, as text.
#[must_use]
pub fn render(status: &Status, bill: &Bill, doors: &DoorCounters) -> String {
    let mut out = Exposition { text: String::with_capacity(16 << 10), name: String::new() };
    facility(&mut out, status);
    disk(&mut out, status);
    tape(&mut out, status);
    batch(&mut out, status);
    used(&mut out, bill);
    door_metrics(&mut out, doors);
    out.text
}

fn facility(out: &mut Exposition, status: &Status) {
    out.family("info", Gauge, "Version and name of the facility; always 1.");
    out.sample(&[("version", &status.version), ("name", &status.name), ("facility", &status.facility)], 1);
    out.one("incarnation_count", Gauge, "Starts of the head since creation.", status.incarnation);
    out.one("start_time_seconds", Gauge, "When the head started, since 1970.", seconds(status.started));
    out.one("files_count", Gauge, "Files of the namespace.", status.files.files);
    out.one("directories_count", Gauge, "Directories of the namespace.", status.files.directories);
    out.one("files_online_count", Gauge, "Files with a disk replica.", status.files.online);
    out.one("files_nearline_count", Gauge, "Files with only a tape copy.", status.files.nearline);
    out.one("files_bytes", Gauge, "Bytes of all files.", status.files.bytes);
}

fn seconds(time: Timestamp) -> f64 {
    time.0 as f64 / 1000.0
}

fn disk(out: &mut Exposition, status: &Status) {
    type Figure = fn(&wire::control::PartitionInfo) -> u64;
    let figures: [(&str, &str, Figure); 7] = [
        ("partition_size_bytes", "Bytes of the partition.", |one| one.total_bytes),
        ("partition_free_bytes", "Bytes that can still be written.", |one| one.free_bytes),
        ("partition_open_count", "Files that are open on the partition.", |one| u64::from(one.transfers)),
        ("partition_replicas_count", "Replicas on the partition.", |one| one.replicas),
        ("partition_replicas_bytes", "Bytes of the replicas.", |one| one.replica_bytes),
        ("partition_pinned_count", "Replicas that may not be dropped.", |one| one.pinned),
        ("partition_available_bool", "Whether the disk server is here.", |one| u64::from(one.is_available)),
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

/// Phases of a drive with their labels.
const PHASES: [(TapePhase, &str); 8] = [
    (TapePhase::Idle, "idle"),
    (TapePhase::Loading, "loading"),
    (TapePhase::CheckingLabel, "checking_label"),
    (TapePhase::Locating, "locating"),
    (TapePhase::Transferring, "transferring"),
    (TapePhase::Flushing, "flushing"),
    (TapePhase::Unloading, "unloading"),
    (TapePhase::Stuck, "stuck"),
];

fn tape(out: &mut Exposition, status: &Status) {
    out.family("drive_phase_bool", Gauge, "1 for the phase that the drive is in.");
    for drive in &status.drives {
        for (phase, word) in PHASES {
            let labels = [("library", &*drive.library), ("drive", &*drive.name), ("phase", word)];
            out.sample(&labels, u64::from(drive.phase == phase));
        }
    }
    out.family("drive_trouble_bool", Gauge, "Whether the drive is out of use.");
    for drive in &status.drives {
        let labels = [("library", &*drive.library), ("drive", &*drive.name)];
        out.sample(&labels, u64::from(drive.trouble.is_some()));
    }
    out.family("volumes_count", Gauge, "Volumes by state, of the first 1000.");
    let states = [
        VolumeState::Blank,
        VolumeState::Appendable,
        VolumeState::Full,
        VolumeState::Unread,
        VolumeState::Suspect,
    ];
    for state in states {
        let number = status.volumes.iter().filter(|volume| volume.state == state).count();
        out.sample(&[("state", state.as_str())], number as u64);
    }
    let sum = |figure: fn(&wire::control::VolumeInfo) -> u64| {
        status.volumes.iter().map(figure).fold(0, u64::saturating_add)
    };
    out.one(
        "volumes_live_bytes",
        Gauge,
        "Bytes of copies that count, of the first 1000 volumes.",
        sum(|one| one.live_bytes),
    );
    out.one("volumes_used_bytes", Gauge, "Bytes used, of the first 1000 volumes.", sum(|one| one.used_bytes));
    out.one(
        "volumes_capacity_bytes",
        Gauge,
        "Bytes they can hold, of the first 1000 volumes.",
        sum(|one| one.capacity_bytes),
    );
    requests(out, status);
}

fn requests(out: &mut Exposition, status: &Status) {
    out.one("tape_requests_count", Gauge, "Tape requests that are not done.", status.requests_len);
    out.family("tape_requests_oldest_count", Gauge, "Tape requests by kind and state, of the oldest 1000.");
    let states = [
        (RequestState::Queued, "queued"),
        (RequestState::Active, "active"),
        (RequestState::Failed, "failed"),
    ];
    for kind in [RequestKind::Archive, RequestKind::Recall] {
        for (state, word) in states {
            let number = status.requests.iter().filter(|one| one.kind == kind && one.state == state).count();
            out.sample(&[("kind", kind.as_str()), ("state", word)], number as u64);
        }
    }
    out.family(
        "tape_request_age_max_seconds",
        Gauge,
        "How long the oldest request that has not failed has waited.",
    );
    for kind in [RequestKind::Archive, RequestKind::Recall] {
        let waiting =
            status.requests.iter().filter(|one| one.kind == kind && one.state != RequestState::Failed);
        let oldest = waiting.map(|one| one.created).min();
        let age = oldest.map_or(0.0, |created| (status.now - created).as_seconds_f64().max(0.0));
        out.sample(&[("kind", kind.as_str())], age);
    }
}

fn batch(out: &mut Exposition, status: &Status) {
    out.family("jobs_count", Gauge, "Jobs that are not over, by state, of the newest 200.");
    for state in [JobState::Held, JobState::Queued, JobState::Running, JobState::Archiving] {
        let number = status.jobs.iter().filter(|job| job.state == state).count();
        out.sample(&[("state", state.as_str())], number as u64);
    }
    type Figure = fn(&wire::control::WorkerInfo) -> u64;
    let figures: [(&str, &str, Figure); 3] = [
        ("worker_slots_count", "CPU slots of the worker.", |one| u64::from(one.cpus)),
        ("worker_slots_taken_count", "CPU slots that jobs hold.", |one| u64::from(one.cpus_used)),
        ("worker_memory_bytes", "Memory of the worker.", |one| one.memory_bytes),
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
    total("disk_gigabyte_hours_total", "Disk space times time.", |line| line.disk_gb_hours);
}

fn door_metrics(out: &mut Exposition, doors: &DoorCounters) {
    let families = [
        ("door_connections_open_count", Gauge, "Connections that are open."),
        ("door_connections_total", Counter, "Connections accepted."),
        ("door_requests_total", Counter, "Requests, failed ones too."),
    ];
    for (number, (name, kind, help)) in families.into_iter().enumerate() {
        out.family(name, kind, help);
        for (label, figures) in doors.visits() {
            out.sample(&[("door", label)], figures[number]);
        }
    }
    let doors = [("root", &doors.root), ("http", &doors.http)];
    type Figure = fn(&DoorCounter) -> &AtomicU64;
    let figures: [(&str, &str, Figure); 2] = [
        ("door_in_bytes_total", "Bytes of files that came in.", |door| &door.in_bytes),
        ("door_out_bytes_total", "Bytes of files that went out.", |door| &door.out_bytes),
    ];
    for (name, help, figure) in figures {
        out.family(name, Counter, help);
        for (label, door) in doors {
            out.sample(&[("door", label)], figure(door).load(Relaxed));
        }
    }
    out.family("door_errors_total", Counter, "Requests that failed, by kind.");
    for (label, door) in doors {
        for ((_, kind), number) in KINDS.iter().zip(&door.errors) {
            out.sample(&[("door", label), ("kind", kind)], number.load(Relaxed));
        }
    }
}

/// Whether a figure may go down.
#[derive(Clone, Copy)]
enum Type {
    Gauge,
    Counter,
}
use Type::{Counter, Gauge};

/// The text so far. A family's samples follow its head without another family in between, as the format demands.
struct Exposition {
    text: String,
    /// The family that samples belong to.
    name: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Gauge => "gauge",
            Counter => "counter",
        };
        self.write(format_args!("# HELP backplane_{name} {help}\n# TYPE backplane_{name} {kind}\n"));
        name.clone_into(&mut self.name);
    }

    fn one(&mut self, name: &str, kind: Type, help: &str, value: impl fmt::Display) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a string cannot fail");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.text.push_str("backplane_");
        self.text.push_str(&self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            self.write(format_args!("{before}{name}=\"{}\"", escape(value)));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }
}

/// A label's value: backslash, quote and line feed are escaped.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::example;
    use std::collections::BTreeSet;

    fn text() -> String {
        let doors = DoorCounters::default();
        let sessions = net::xrd::Counters { sessions_now: 3.into(), ..net::xrd::Counters::default() };
        doors.sessions.set(Arc::new(sessions)).unwrap();
        let _open = doors.http.connect();
        drop(doors.http.connect());
        doors.http.answer(None);
        doors.http.answer(Some(ErrorKind::NotFound));
        doors.root.add_in(10);
        doors.root.add_out(20);
        render(&example::status(), &example::bill(), &doors)
    }

    #[test]
    fn figures_are_there() {
        let text = text();
        for line in [
            "backplane_incarnation_count 14",
            "backplane_partition_free_bytes{pool=\"main\",partition=\"disk3\"} 316753838080",
            "backplane_partition_available_bool{pool=\"scratch\",partition=\"ssd2\"} 0",
            "backplane_drive_phase_bool{library=\"lib0\",drive=\"drv4\",phase=\"stuck\"} 1",
            "backplane_drive_trouble_bool{library=\"lib0\",drive=\"drv4\"} 1",
            "backplane_volumes_count{state=\"suspect\"} 1",
            "backplane_tape_requests_count 1371",
            "backplane_tape_request_age_max_seconds{kind=\"recall\"} 611",
            "backplane_jobs_count{state=\"running\"} 2",
            "backplane_tape_loads_total 2142.75",
            "backplane_door_connections_open_count{door=\"root\"} 3",
            "backplane_door_connections_open_count{door=\"http\"} 1",
            "backplane_door_connections_total{door=\"http\"} 2",
            "backplane_door_requests_total{door=\"http\"} 2",
            "backplane_door_errors_total{door=\"http\",kind=\"not_found\"} 1",
            "backplane_door_out_bytes_total{door=\"root\"} 20",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }

    #[test]
    fn the_text_is_well_formed() {
        let text = text();
        assert!(text.ends_with('\n'));
        let (mut family, mut families, mut samples) = (String::new(), BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap().to_owned();
                assert!(families.insert(family.clone()), "{family} twice");
                continue;
            }
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, family);
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            assert_eq!(series.split('{').next().unwrap(), family);
            assert!(samples.insert(series.to_owned()), "{series} twice");
        }
    }

    #[test]
    fn names_end_in_a_unit() {
        let units = ["_total", "_bytes", "_seconds", "_count", "_bool", "_info"];
        for line in text().lines().filter(|line| line.starts_with("# TYPE")) {
            let name = line.split(' ').nth(2).unwrap();
            assert!(units.iter().any(|unit| name.ends_with(unit)), "{name}");
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut status = example::status();
        status.name = "a\"b\\c\nd".into();
        let text = render(&status, &example::bill(), &DoorCounters::default());
        assert!(text.contains("name=\"a\\\"b\\\\c\\nd\""));
    }

    #[test]
    fn kinds_are_labelled_as_they_are_written() {
        for (kind, label) in KINDS {
            assert_eq!(serde_json::to_value(kind).unwrap(), label);
        }
    }
}
