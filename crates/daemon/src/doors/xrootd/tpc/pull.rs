//! The destination of a third-party copy: a file that fills itself from another server.

use super::super::session::DoorSession;
use base::{ErrorKind, Failure, FilePath, ReachRule, Result};
use client::xrd::{File, FileSystem, Options, XrdUrl};
use disk::serve::open_file::{ReadFile, WriteFile};
use net::{blocking, shutdown::Shutdown};
use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wire::{
    media::object::ObjectInfo,
    xrd::tpc::{self, Pull},
};

/// Checksums that are known of every file, with which a source can be compared.
const CHECKSUMS: [&str; 2] = ["adler32", "crc32c"];

/// Bytes of a file of this facility that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Opens the source if it is in this facility.
pub(super) type LocalOpener = Pin<Box<dyn Future<Output = Result<ReadFile>> + Send>>;

/// What surrounds a copy.
pub(super) struct Setting {
    pub(super) pulls: Arc<Semaphore>,
    pub(super) opens: Arc<Semaphore>,
    pub(super) options: Options,
    /// Where the door of this copy listens.
    pub(super) own: Option<SocketAddr>,
    pub(super) here: LocalOpener,
}

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
    /// Those that open a source on another server, or have it open: each holds a thread while it waits.
    opens: Arc<Semaphore>,
    options: Options,
    own: Option<SocketAddr>,
    /// Taken by whoever uses it.
    here: Mutex<Option<LocalOpener>>,
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
        (pull, file): (Pull, WriteFile),
        setting: Setting,
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
        let Setting { pulls, opens, options, own, here } = setting;
        Ok(Self(Arc::new(Job {
            file,
            path: path.clone(),
            pull,
            origin: session.origin.clone(),
            client: session.address,
            pulls,
            opens,
            options,
            own,
            here: Mutex::new(Some(here)),
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
        let outcome = self.copy().await;
        match &outcome {
            Ok(_) => tracing::info!(source = %self.source_name(), "third-party copy done"),
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

    async fn copy(self: &Arc<Self>) -> Result<Option<Sum>> {
        let during = |failure: Failure| {
            failure.during(format_args!("third-party copy of {} to {}", self.source_name(), self.path))
        };
        self.copy_from_source().await.map_err(during)
    }

    async fn copy_from_source(self: &Arc<Self>) -> Result<Option<Sum>> {
        let job = Arc::clone(self);
        if !blocking(move || Ok(job.is_here())).await? {
            let _opening = self.place(&self.opens).await?;
            let job = Arc::clone(self);
            let source = blocking(move || job.open_remote()).await?;
            let _place = self.place(&self.pulls).await?;
            let job = Arc::clone(self);
            return blocking(move || job.fill_from_remote(source)).await;
        }
        let open = self.here.lock().unwrap_or_else(PoisonError::into_inner).take();
        let source = open.ok_or_else(|| Failure::internal("a third-party copy was begun twice"))?.await?;
        let _place = self.place(&self.pulls).await?;
        let job = Arc::clone(self);
        blocking(move || job.fill_from_here(&source)).await
    }

    /// Waits for its turn. Only who has an open source takes a place among those who copy: a source that is on tape may be waited
    /// for half a day, and keeps nobody back meanwhile.
    async fn place(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
        Arc::clone(places).acquire_owned().await.map_err(|_| self.unfinished())
    }

    /// Whether the source is the door at which the copy was asked for: its address is ours, and its port. Blocks.
    fn is_here(&self) -> bool {
        let Some(own) = self.own.filter(|own| own.port() == self.pull.port) else { return false };
        let is_bound = |ip: IpAddr| {
            let (ip, bound) = (ip.to_canonical(), own.ip().to_canonical());
            bound == ip || bound.is_unspecified() && (ip.is_loopback() || socket::is_own(ip))
        };
        // A name that is not found is told when it is connected to.
        socket::resolve(&self.pull.host, self.pull.port, &ReachRule::anywhere())
            .is_ok_and(|found| found.iter().any(|address| is_bound(address.ip())))
    }

    /// Copies a file of this facility. Blocks.
    fn fill_from_here(&self, source: &ReadFile) -> Result<Option<Sum>> {
        self.check_size(source.grant.size)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < source.grant.size {
            self.go_on()?;
            let count = source.read_at(offset, &mut piece)?;
            if count == 0 {
                return Err(Failure::corrupt(format!("it ends after {offset} bytes")));
            }
            self.file.write_at(offset, &piece[..count])?;
            offset += count as u64;
        }
        let sums = source.grant.checksums;
        self.sum_to_compare(|kind| {
            let sum = if kind == "adler32" { sums.adler32.to_string() } else { sums.crc32c.to_string() };
            Ok((kind.to_owned(), sum))
        })
    }

    /// Opens a file of another server. Blocks.
    fn open_remote(&self) -> Result<File> {
        let (url, options) = (self.url(), &self.options);
        // Who may not be connected to is told as such; whatever another server is like, it is told as one.
        socket::resolve(&url.host, url.port, &options.reach)?;
        self.go_on()?;
        File::open_read(&url, options).map_err(|failure| self.foreign(failure))
    }

    /// Copies a file of another server. Blocks.
    fn fill_from_remote(&self, source: File) -> Result<Option<Sum>> {
        self.check_size(source.size())?;
        let (mut offset, mut ours) = (0, None);
        let copied = source.copy_to(&mut |piece| {
            let taken = self.go_on().and_then(|()| self.file.write_at(offset, piece));
            offset += piece.len() as u64;
            taken.inspect_err(|failure| ours = Some(failure.clone()))
        });
        copied.map_err(|failure| ours.unwrap_or_else(|| self.foreign(failure)))?;
        let sum = self.sum_to_compare(|kind| {
            let sum = FileSystem::new(&self.url(), &self.options).checksum(&self.pull.path, Some(kind));
            sum.map_err(|failure| self.foreign(failure))
        })?;
        // All bytes are here; what the source still has to say changes nothing.
        let _ = source.close();
        Ok(sum)
    }

    fn url(&self) -> XrdUrl {
        XrdUrl {
            is_tls: self.pull.is_tls,
            // Not the one that the client wrote: see `USERNAME`.
            user: None,
            host: self.pull.host.clone(),
            port: self.pull.port,
            path: self.pull.path.clone(),
            opaque: tpc::fetch_opaque(&self.pull, &format!("{}@{}", self.origin, name_of(self.client))),
        }
    }

    /// What the copy is compared with, if the client wants it compared; `ask` asks the source.
    fn sum_to_compare(&self, ask: impl FnOnce(&str) -> Result<Sum>) -> Result<Option<Sum>> {
        match &self.pull.checksum {
            None => Ok(None),
            Some((kind, Some(value))) => Ok(Some((kind.clone(), value.clone()))),
            Some((kind, None)) => ask(kind).map(Some),
        }
    }

    /// A failure of another server, without its words: the client chose the server, which may be one that the client must not
    /// hear, or none that speaks this protocol. The log has the words.
    fn foreign(&self, failure: Failure) -> Failure {
        tracing::info!(source = %self.source_name(), %failure, "cannot read the source of a third-party copy");
        let what = match failure.kind {
            ErrorKind::NotFound => "it does not have the file",
            ErrorKind::Permission => {
                "it refuses the copy, its certificate is not trusted here, or its address is not allowed here"
            }
            ErrorKind::Timeout => "it does not answer in time",
            ErrorKind::IsDirectory => "it has a directory of that name",
            ErrorKind::Corrupt => "it sent bytes that do not match their checksum",
            _ => "it is unreachable, or does not serve the file",
        };
        Failure::new(failure.kind, what).hint("try to read the file there with another client")
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
