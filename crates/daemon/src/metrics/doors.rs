//! What the doors count, and its families.

use super::exposition::{
    Exposition,
    Type::{Counter, Gauge},
};
use base::{ErrorKind, Histogram};
use disk::serve::traffic::Traffic;
use net::unproven::Unproven;
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// What the doors count. One for the whole process, shared by all connections.
#[derive(Debug, Default)]
pub struct DoorCounters {
    /// `root://`
    pub root: Arc<DoorCounter>,
    /// `http://`
    pub http: Arc<DoorCounter>,
    /// What the sessions of `root://` count themselves, once that door is open.
    pub sessions: OnceLock<Arc<net::xrd::Counters>>,
    /// The budget of those who have not proven who they are, once the doors are open.
    pub unproven: OnceLock<Unproven>,
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
    /// Bytes of files.
    pub traffic: Arc<Traffic>,
    /// Requests that failed, by kind.
    errors: [AtomicU64; KINDS.len()],
    /// How long requests took until they were answered.
    times: Histogram,
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

    /// Counts how long a request took until its answer began.
    pub fn took(&self, time: Duration) {
        self.times.note(time);
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
pub(super) const KINDS: [(ErrorKind, &str); 17] = [
    (ErrorKind::NotFound, "not_found"),
    (ErrorKind::Exists, "exists"),
    (ErrorKind::NotDirectory, "not_directory"),
    (ErrorKind::IsDirectory, "is_directory"),
    (ErrorKind::NotEmpty, "not_empty"),
    (ErrorKind::Permission, "permission"),
    (ErrorKind::Invalid, "invalid"),
    (ErrorKind::Busy, "busy"),
    (ErrorKind::Locked, "locked"),
    (ErrorKind::NoSpace, "no_space"),
    (ErrorKind::OverQuota, "over_quota"),
    (ErrorKind::Corrupt, "corrupt"),
    (ErrorKind::Io, "io"),
    (ErrorKind::Unsupported, "unsupported"),
    (ErrorKind::Timeout, "timeout"),
    (ErrorKind::Unavailable, "unavailable"),
    (ErrorKind::Internal, "internal"),
];

/// The families of the doors.
pub(super) fn door_metrics(out: &mut Exposition, counters: &DoorCounters) {
    let families = [
        ("door_connections_open", Gauge, "Connections that are open."),
        ("door_connections_total", Counter, "Connections accepted."),
        ("door_requests_total", Counter, "Requests, failed ones too."),
    ];
    for (number, (name, kind, help)) in families.into_iter().enumerate() {
        out.family(name, kind, help);
        for (label, figures) in counters.visits() {
            out.sample(&[("door", label)], figures[number]);
        }
    }
    let doors = [("root", &counters.root), ("http", &counters.http)];
    type Figure = fn(&Traffic) -> u64;
    let figures: [(&str, &str, Figure); 2] = [
        ("door_in_bytes_total", "Bytes of files that came in.", Traffic::in_bytes),
        ("door_out_bytes_total", "Bytes of files that went out.", Traffic::out_bytes),
    ];
    for (name, help, figure) in figures {
        out.family(name, Counter, help);
        for (label, door) in doors {
            out.sample(&[("door", label)], figure(&door.traffic));
        }
    }
    out.family("door_errors_total", Counter, "Requests that failed, by kind.");
    for (label, door) in doors {
        for ((_, kind), number) in KINDS.iter().zip(&door.errors) {
            out.sample(&[("door", label), ("kind", kind)], number.load(Relaxed));
        }
    }
    let sessions = counters.sessions.get().map(|sessions| &sessions.request_times);
    let times = [("root", sessions.unwrap_or(&counters.root.times)), ("http", &counters.http.times)];
    let times = times.map(|(door, times)| ([("door", door)], times));
    out.histograms(
        "door_request_seconds",
        "Time until requests on names, opens and calls were answered.",
        &times,
    );
}

/// The budget of connections that have not proven who they are.
pub(super) fn unproven_metrics(out: &mut Exposition, budget: &Unproven) {
    let limits = budget.limits();
    let figures = [
        ("unproven_connections", "Connections that have not proven who they are.", budget.sessions()),
        (
            "unproven_connections_max",
            "Most of them at a time; then the oldest one is ended.",
            limits.sessions_max,
        ),
        ("unproven_buffer_bytes", "Bytes that they hold beyond what each may have.", budget.bytes()),
        ("unproven_buffer_max_bytes", "Most bytes that they may hold so.", limits.bytes_max),
    ];
    for (name, help, value) in figures {
        out.one(name, Gauge, help, value);
    }
    let help = "Connections that were ended because others needed their places.";
    out.one("unproven_displaced_total", Counter, help, budget.displaced());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_labelled_as_they_are_written() {
        for (kind, label) in KINDS {
            assert_eq!(serde_json::to_value(kind).unwrap(), label);
        }
    }
}
