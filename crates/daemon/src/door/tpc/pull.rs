//! The destination of a third-party copy: a file that fills itself from another server.

use super::super::session::DoorSession;
use crate::{files::blocking, open::WriteFile};
use base::{ErrorKind, Failure, FilePath, Result};
use client::xrd::{File, FileSystem, Options, XrdUrl};
use net::shutdown::Shutdown;
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{Semaphore, watch};
use wire::object::ObjectInfo;
use wire::xrd::tpc::{self, Pull};

/// Checksums that are known of every file, with which a source can be compared.
const CHECKSUMS: [&str; 2] = ["adler32", "crc32c"];

/// A file open for writing that another server's file is copied into. Dropped, it gives the copy up.
pub struct Destination(Arc<Job>);

struct Job {
    file: WriteFile,
    path: FilePath,
    pull: Pull,
    /// `user.process` of the client, and from where it came.
    origin: String,
    client: IpAddr,
    pulls: Arc<Semaphore>,
    options: Options,
    tasks: Shutdown,
    is_started: AtomicBool,
    is_given_up: AtomicBool,
    /// How it ended, and the checksum that the source has, if one was asked for.
    ended: watch::Sender<Option<Result<Option<Sum>>>>,
}

/// Type and value in hex.
type Sum = (String, String);

impl Destination {
    pub(super) fn new(
        session: &DoorSession,
        path: &FilePath,
        pull: Pull,
        file: WriteFile,
        (pulls, options): (Arc<Semaphore>, Options),
        tasks: &Shutdown,
    ) -> Result<Self> {
        if let Some((kind, _)) = &pull.checksum
            && !CHECKSUMS.contains(&kind.as_str())
        {
            return Err(Failure::unsupported(format!(
                "checksum {kind:?} cannot be compared in a third-party copy"
            ))
            .hint(CHECKSUMS.join(", ")));
        }
        Ok(Self(Arc::new(Job {
            file,
            path: path.clone(),
            pull,
            origin: session.origin.clone(),
            client: session.address,
            pulls,
            options,
            tasks: tasks.clone(),
            is_started: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            ended: watch::Sender::new(None),
        })))
    }

    /// The file, as far as it has come.
    pub(crate) fn file(&self) -> &WriteFile {
        &self.0.file
    }

    /// The first sync starts the copy, each further one waits for its end: so clients of the field do it.
    pub(crate) async fn sync(&self) -> Result<()> {
        if !self.0.is_started.swap(true, Ordering::AcqRel) {
            let job = Arc::clone(&self.0);
            self.0.tasks.spawn("third-party copy", job.run());
            return Ok(());
        }
        let mut ended = self.0.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().map_or_else(|| Err(self.0.unfinished()), |ended| ended.map(drop)),
            Err(_) => Err(self.0.unfinished()),
        }
    }

    /// Gives the copy up: whoever waits for it is told.
    pub(crate) fn cancel(&self) {
        self.0.is_given_up.store(true, Ordering::Release);
    }

    /// Commits what was copied, if the copy is complete and equals its source.
    pub(crate) async fn close(&self) -> Result<()> {
        let outcome = self.0.ended.borrow().clone();
        let Some(outcome) = outcome else {
            self.cancel();
            return Err(self.0.unfinished());
        };
        let expected = outcome?;
        self.0.file.commit(|info| self.0.compare(info, expected.as_ref())).await.map(drop)
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Job {
    async fn run(self: Arc<Self>) {
        let outcome = match Arc::clone(&self.pulls).acquire_owned().await {
            Ok(place) => {
                let job = Arc::clone(&self);
                let outcome = blocking(move || job.copy()).await;
                drop(place);
                outcome
            }
            Err(_) => Err(self.unfinished()),
        };
        match &outcome {
            Ok(_) => tracing::info!(source = %self.source_name(), "third-party copy is complete"),
            Err(failure) => tracing::info!(%failure, "third-party copy failed"),
        }
        self.ended.send_replace(Some(outcome));
    }

    fn source_name(&self) -> String {
        let Pull { host, port, path, .. } = &self.pull;
        format!("{host}:{port}{path}")
    }

    fn unfinished(&self) -> Failure {
        Failure::unavailable(format!(
            "third-party copy of {} to {} was given up before it was complete",
            self.source_name(),
            self.path
        ))
    }

    /// Copies the bytes; runs on a thread that may block.
    fn copy(&self) -> Result<Option<Sum>> {
        let during = |failure: Failure| {
            failure.during(format_args!("third-party copy of {} to {}", self.source_name(), self.path))
        };
        self.fill().map_err(during)
    }

    fn fill(&self) -> Result<Option<Sum>> {
        let url = XrdUrl {
            is_tls: self.pull.is_tls,
            user: None,
            host: self.pull.host.clone(),
            port: self.pull.port,
            path: self.pull.path.clone(),
            opaque: tpc::fetch_opaque(&self.pull, &format!("{}@{}", self.origin, name_of(self.client))),
        };
        let mut options = self.options.clone();
        if let Some(user) = &self.pull.user {
            options.username.clone_from(user);
        }
        self.go_on()?;
        let source = File::open_read(&url, &options)?;
        self.check_size(source.size())?;
        let mut offset = 0;
        source.copy_to(&mut |piece| {
            self.go_on()?;
            self.file.write_at(offset, piece)?;
            offset += piece.len() as u64;
            Ok(())
        })?;
        let sum = match &self.pull.checksum {
            None => None,
            Some((kind, Some(value))) => Some((kind.clone(), value.clone())),
            Some((kind, None)) => {
                let names = FileSystem::new(&url, &options);
                Some(names.checksum(&self.pull.path, Some(kind))?)
            }
        };
        // All bytes are here; what the source still has to say changes nothing.
        let _ = source.close();
        Ok(sum)
    }

    fn go_on(&self) -> Result<()> {
        if self.is_given_up.load(Ordering::Acquire) { Err(self.unfinished()) } else { Ok(()) }
    }

    /// A file that grows or shrinks is being written: its copy would be neither the old nor the new one.
    fn check_size(&self, size: u64) -> Result<()> {
        match self.pull.size {
            Some(announced) if announced != size => Err(Failure::corrupt(format!(
                "the source has {size} bytes, but the client saw {announced}: it has changed"
            ))),
            _ => Ok(()),
        }
    }

    fn compare(&self, info: &ObjectInfo, expected: Option<&Sum>) -> Result<()> {
        let Some((kind, value)) = expected else { return Ok(()) };
        let found = match kind.as_str() {
            "adler32" => info.checksums.adler32.to_string(),
            _ => info.checksums.crc32c.to_string(),
        };
        // Some servers leave leading zeros out.
        if found.trim_start_matches('0').eq_ignore_ascii_case(value.trim_start_matches('0')) {
            return Ok(());
        }
        Err(Failure::new(
            ErrorKind::Corrupt,
            format!("{} has {kind} {found}, its source {} has {value}", self.path, self.source_name()),
        ))
    }
}

/// The name that belongs to an address, as servers of the field find it: they compare names, and see IPv4 addresses as
/// IPv6 ones. What has no name is written as an address in brackets.
fn name_of(address: IpAddr) -> String {
    let seen = match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let name = dns_lookup::lookup_addr(&seen.into()).unwrap_or_else(|_| seen.to_string());
    let name = name.split('%').next().unwrap_or_default().to_ascii_lowercase();
    if name.contains(':') { format!("[{name}]") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_name_have_brackets() {
        // The range is for documentation: nobody has a name there.
        assert_eq!(name_of("192.0.2.77".parse().unwrap()), "[::ffff:192.0.2.77]");
        assert_eq!(name_of("2001:db8::7".parse().unwrap()), "[2001:db8::7]");
    }
}
