//! The audit log: every call that changes something or is refused, and every open, as a line of JSON in the facility's
//! directory. Doors put records into a bounded queue and never wait; what does not fit is counted, and the log says so.
//! What those are refused who have proven nothing has a queue and files of its own (`refused`): they push nothing out.

mod file;
mod refused;

use crate::facility::config::audit::AuditConfig;
use base::{Failure, Result, Timestamp, units::counted};
use file::Files;
use std::{
    net::IpAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tracing::warn;
use wire::audit::{DIRECTORY, FILE, REFUSED_FILE, Record};

/// Records that wait to be written: a second of a busy door.
const QUEUE_LEN_MAX: usize = 16_384;

/// Refusals of the unproven that wait to be written.
const REFUSED_LEN_MAX: usize = 1024;

/// Least time between two writes.
const PAUSE: Duration = Duration::from_millis(5);

/// A handle to the audit log. Clones share it; the default drops all records.
#[derive(Clone, Default)]
pub struct Audit {
    actions: Option<Arc<Queue>>,
    /// The log of unauthenticated peers.
    refused: Option<Arc<Queue>>,
}

struct Queue {
    records: mpsc::SyncSender<Order>,
    lost: AtomicU64,
}

impl Queue {
    fn put(&self, record: Record) {
        if self.records.try_send(Order::Write(record)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

enum Order {
    Write(Record),
    End,
}

impl Audit {
    /// Notes something, or counts it as lost if the log is behind.
    pub fn note(&self, record: impl FnOnce() -> Record) {
        if self.actions.is_none() && self.refused.is_none() {
            return;
        }
        let record = record();
        let queue = if refused::is_of_nobody(&record) { &self.refused } else { &self.actions };
        if let Some(queue) = queue {
            queue.put(record);
        }
    }
}

/// The peer of a door, for audit records.
#[derive(Debug, Clone, Copy)]
pub struct AuditedPeer<'a> {
    /// The door.
    pub door: &'static str,
    /// From where.
    pub address: Option<IpAddr>,
    /// Who, as far as it was proven.
    pub user: &'a str,
}

impl AuditedPeer<'_> {
    /// A record without an outcome.
    #[must_use]
    pub fn record(&self, at: Timestamp, action: &'static str, what: &str) -> Record {
        Record {
            at,
            door: self.door.into(),
            address: self.address.map(|address| address.to_canonical()),
            user: self.user.to_owned(),
            action: action.into(),
            what: what.to_owned(),
            to: None,
            refused: None,
            why: None,
            count: None,
        }
    }
}

/// The threads that write.
pub struct Writer {
    audit: Audit,
    threads: Vec<(Arc<Queue>, JoinHandle<()>)>,
}

/// What a thread does.
type Work = fn(Files, &mpsc::Receiver<Order>, &AtomicU64);

impl Writer {
    /// Begins to write into the directory of the facility.
    pub fn start(facility: &Path, config: &AuditConfig) -> Result<Self> {
        let directory = facility.join(DIRECTORY);
        let mut writer = Self { audit: Audit::default(), threads: Vec::new() };
        if config.files > 0 {
            let files = Files::open(&directory, FILE, (config.file_size.0, config.files))?;
            writer.audit.actions = Some(writer.thread(("audit", QUEUE_LEN_MAX), files, write)?);
        }
        if config.files > 0 && config.refused_files > 0 {
            let size = (config.refused_file_size.0, config.refused_files);
            let files = Files::open(&directory, REFUSED_FILE, size)?;
            writer.audit.refused =
                Some(writer.thread(("refused", REFUSED_LEN_MAX), files, refused::write)?);
        }
        Ok(writer)
    }

    /// Begins a thread; yields where it takes its records from.
    fn thread(
        &mut self,
        (name, queue_len_max): (&str, usize),
        files: Files,
        work: Work,
    ) -> Result<Arc<Queue>> {
        let (records, orders) = mpsc::sync_channel(queue_len_max);
        let queue = Arc::new(Queue { records, lost: AtomicU64::new(0) });
        let own = Arc::clone(&queue);
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(files, &orders, &own.lost));
        let thread = thread.map_err(|cause| Failure::io("start a thread of the audit log", &cause))?;
        self.threads.push((Arc::clone(&queue), thread));
        Ok(queue)
    }

    /// What doors write to.
    #[must_use]
    pub fn audit(&self) -> Audit {
        self.audit.clone()
    }

    /// Writes what waits, and ends.
    pub fn stop(self) {
        for (queue, thread) in self.threads {
            let _ = queue.records.send(Order::End);
            if thread.join().is_err() {
                warn!("a thread of the audit log panicked");
            }
        }
    }
}

fn write(mut files: Files, orders: &mpsc::Receiver<Order>, lost: &AtomicU64) {
    let mut last = Timestamp(0);
    while let Ok(order) = orders.recv() {
        let mut next = Some(order);
        // All that has come in one go is handed to the system at once.
        while let Some(Order::Write(record)) = next {
            last = record.at;
            files.write(&record.line());
            next = orders.try_recv().ok();
        }
        let missing = lost.swap(0, Ordering::Relaxed) + files.take_unwritten();
        if missing > 0 {
            warn!(missing, "audit records were lost");
            let visitor = AuditedPeer { door: "audit", address: None, user: "audit" };
            files.write(&visitor.record(last, "lost", &counted(missing, "record", "records")).line());
        }
        files.flush();
        if matches!(next, Some(Order::End)) {
            return;
        }
        // Whoever notes something meanwhile need not wake this thread.
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::Size;
    use std::fs;

    fn config(file_size: u64, files: u32) -> AuditConfig {
        AuditConfig { file_size: Size(file_size), files, refused_files: 0, ..AuditConfig::default() }
    }

    fn visitor() -> AuditedPeer<'static> {
        AuditedPeer { door: "root", address: Some("::ffff:192.0.2.1".parse().unwrap()), user: "ann" }
    }

    fn lines(directory: &Path, file: &str) -> Vec<Record> {
        let text = fs::read_to_string(directory.join(DIRECTORY).join(file)).unwrap_or_default();
        text.lines().map(|line| Record::parse(line).unwrap()).collect()
    }

    #[test]
    fn what_is_noted_is_written_before_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::start(directory.path(), &config(1 << 16, 2)).unwrap();
        let audit = writer.audit();
        for number in 0..100 {
            audit.note(|| visitor().record(Timestamp(number), "read", "/a"));
        }
        let refused = Failure::permission("no");
        audit.note(|| visitor().record(Timestamp(100), "remove", "/a").with_outcome(Some(&refused)));
        writer.stop();
        let lines = lines(directory.path(), "audit.jsonl");
        assert_eq!(lines.len(), 101);
        assert_eq!(lines[7], visitor().record(Timestamp(7), "read", "/a"));
        assert_eq!(lines[0].address.unwrap().to_string(), "192.0.2.1");
        assert_eq!(lines[100].why.as_deref(), Some("no"));
        // Nobody writes any more, and nobody waits.
        audit.note(|| visitor().record(Timestamp(101), "read", "/a"));
    }

    #[test]
    fn files_are_bounded_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let name = "x".repeat(1000);
        for round in 0..3 {
            let writer = Writer::start(directory.path(), &config(1 << 16, 3)).unwrap();
            for number in 0..100 {
                writer.audit().note(|| visitor().record(Timestamp(round * 100 + number), "read", &name));
            }
            writer.stop();
        }
        let found = fs::read_dir(directory.path().join(DIRECTORY)).unwrap().count();
        assert_eq!(found, 3);
        let files = ["audit.2.jsonl", "audit.1.jsonl", "audit.jsonl"];
        let all: Vec<_> = files.iter().flat_map(|file| lines(directory.path(), file)).collect();
        let times: Vec<_> = all.iter().map(|record| record.at.0).collect();
        assert_eq!(times, (times[0]..300).collect::<Vec<_>>(), "in order, without a gap");
        assert!(times[0] > 0);
    }

    #[test]
    fn a_line_that_was_cut_off_takes_no_other_with_it_and_no_file_stays_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join(DIRECTORY);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("audit.jsonl"), "{\"at\":1,\"do").unwrap();
        for number in 1..5 {
            fs::write(place.join(format!("audit.{number}.jsonl")), "").unwrap();
        }
        let mut files = Files::open(&place, FILE, (1 << 16, 3)).unwrap();
        files.write(&visitor().record(Timestamp(7), "read", "/a").line());
        files.flush();
        let text = fs::read_to_string(place.join("audit.jsonl")).unwrap();
        let (torn, whole) = text.split_once('\n').unwrap();
        assert!(wire::audit::Record::parse(torn).is_err());
        assert_eq!(wire::audit::Record::parse(whole.trim_end()).unwrap().at, Timestamp(7));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 3);
    }

    #[test]
    fn what_nobody_was_refused_pushes_nothing_out() {
        let directory = tempfile::tempdir().unwrap();
        let config = AuditConfig { refused_file_size: Size(1 << 16), refused_files: 2, ..config(1 << 16, 2) };
        let writer = Writer::start(directory.path(), &config).unwrap();
        let (audit, refused) = (writer.audit(), Failure::permission("no"));
        let nobody = AuditedPeer { user: "nobody", ..visitor() };
        audit.note(|| visitor().record(Timestamp(1), "remove", "/precious"));
        for number in 0..1000 {
            let name = format!("/{}", "x".repeat(number % 1000));
            audit.note(|| nobody.record(Timestamp(2), "read", &name).with_outcome(Some(&refused)));
        }
        audit.note(|| visitor().record(Timestamp(3), "read", "/a").with_outcome(Some(&refused)));
        writer.stop();
        let actions: Vec<_> = lines(directory.path(), FILE).into_iter().map(|record| record.at.0).collect();
        assert_eq!(actions, [1, 3], "what a user was refused stays among the actions");
        let refused = lines(directory.path(), REFUSED_FILE);
        assert_eq!(refused[0].count, None);
        // How many are told together depends on how long it takes.
        let counts: u64 = refused.iter().map(|record| record.count.unwrap_or(1)).sum();
        assert!(refused.len() < 100 && counts == 1000, "{counts} in {} lines", refused.len());
    }

    #[test]
    fn what_is_lost_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::open(&directory.path().join(DIRECTORY), FILE, (1 << 16, 2)).unwrap();
        let (records, orders) = mpsc::sync_channel(2);
        let audit =
            Audit { actions: Some(Arc::new(Queue { records, lost: AtomicU64::new(0) })), refused: None };
        for number in 0..5 {
            audit.note(|| visitor().record(Timestamp(number), "read", "/a"));
        }
        let queue = audit.actions.unwrap();
        assert_eq!(queue.lost.load(Ordering::Relaxed), 3);
        let thread = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || write(files, &orders, &queue.lost)
        });
        queue.records.send(Order::End).unwrap();
        thread.join().unwrap();
        let lines = lines(directory.path(), "audit.jsonl");
        assert_eq!(lines.len(), 3);
        assert_eq!((&*lines[2].action, &*lines[2].what), ("lost", "3 records"));
    }

    #[test]
    fn nothing_is_written_where_nothing_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let writer = Writer::start(directory.path(), &config(1 << 16, 0)).unwrap();
        writer.audit().note(|| unreachable!("nobody asks"));
        writer.stop();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(config(1, 2).check().is_err() && AuditConfig::default().check().is_ok());
    }
}
