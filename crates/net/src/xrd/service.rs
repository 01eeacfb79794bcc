//! What the session loop needs from whoever knows files.

pub use super::names::{Attributes, ListPage, NameReply, NameRequest, PrepareAction, PrepareRequest};
use base::{ByteRange, Failure, FilePath, PageSums, Result};
use std::{
    collections::BTreeMap, future::Future, io::IoSliceMut, net::SocketAddr, os::fd::BorrowedFd, sync::Arc,
    time::Duration,
};
pub use wire::xrd::{
    Expectation, ListEntry, Location, Opaque, RangeChange, RangeKind, Redirect, ServerFlags, SpaceInfo,
    StatFlags, StatInfo, StatOwner,
};

/// The description of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// What it is: [`ServerFlags::SERVER`] or [`ServerFlags::MANAGER`]; the loop adds what it supports.
    pub flags: ServerFlags,
    /// `query config version`.
    pub version: String,
    /// `query config sitename`.
    pub sitename: String,
    /// `query config role`: `server`, `manager` or `none`.
    pub role: String,
    /// Checksum types, the default first: `adler32`, `crc32c`.
    pub checksums: Vec<String>,
    /// Further answers to `query config`; they go before the built-in ones.
    pub answers: BTreeMap<String, String>,
    /// A call that takes longer is announced and answered later.
    pub announce_after: Duration,
    /// The same for listings, which have to be kept whole once they are announced: later, but before a client gives up.
    pub announce_listings_after: Duration,
    /// How the bytes of immutable files are sent.
    pub read_method: ReadMethod,
    /// TLS, if it is offered.
    pub tls: Option<TlsOffer>,
}

/// TLS on the port of the door, begun by a protocol request.
#[derive(Debug, Clone)]
pub struct TlsOffer {
    /// The certificate to present.
    pub config: Arc<rustls::ServerConfig>,
    /// When TLS is required.
    pub rule: TlsRule,
}

/// When connections must use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsRule {
    /// When the client wants to.
    Offered,
    /// From the login on, and on the further connections of a session, which show its id.
    Login,
    /// Always.
    Required,
}

/// How the bytes of immutable files are sent. All methods give the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMethod {
    /// Small pieces as [`ReadMethod::Mmap`], large ones as [`ReadMethod::Sendfile`]: the quickest that was measured.
    #[default]
    Automatic,
    /// Read into a buffer, then sent.
    Pread,
    /// The same, several reads at once by `io_uring`: for disks that are quicker with a queue.
    IoUring,
    /// From the page cache, by `sendfile`.
    Sendfile,
    /// From the page cache, where the file is mapped; many pieces in one call.
    Mmap,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            flags: ServerFlags::SERVER,
            version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            sitename: "backplane".to_owned(),
            role: "server".to_owned(),
            checksums: vec!["adler32".to_owned(), "crc32c".to_owned()],
            answers: BTreeMap::new(),
            announce_after: Duration::from_millis(200),
            announce_listings_after: Duration::from_secs(10),
            read_method: ReadMethod::Automatic,
            tls: None,
        }
    }
}

/// The peer, as it describes itself.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The user id of the client, if it is a process of this host: the kernel says so.
    pub local_user: Option<u32>,
    /// The user name it claims; not verified.
    pub username: String,
    /// Its process id.
    pub pid: i32,
    /// What came with the login: hints and perhaps a token.
    pub opaque: Opaque,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

/// The access mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    Update,
}

/// What an open expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The file must exist.
    Existing,
    /// The file must not exist.
    CreateNew,
    /// Whatever is there is replaced.
    Replace,
}

/// An open, checked.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Which file.
    pub path: FilePath,
    /// What the URL carried besides: capabilities, `oss.asize`, third-party keys.
    pub opaque: Opaque,
    /// The access mode.
    pub access: Access,
    /// The expected state of the file.
    pub disposition: Disposition,
    /// Make missing directories.
    pub make_path: bool,
    /// Only a successful close may make the file appear.
    pub is_persist_on_close: bool,
    /// Permission bits of a new file.
    pub mode: u32,
}

/// The result of an open.
#[derive(Debug)]
pub enum Opened<F> {
    /// The file is open here.
    Here(Arc<F>),
    /// Another server has it.
    Redirect(Redirect),
}

/// Reads, writes and closes: blocking calls, which the session loop runs on threads made for that.
///
/// While one session uses a file, its writes come one at a time, in the order of the client's requests. Reads on
/// further connections of the session, and a slow flush, may run beside them. A file that is dropped without
/// [`OpenFile::close`] belonged to a session that died: an unfinished write must then be abandoned.
pub trait OpenFile: Send + Sync + 'static {
    /// Size in bytes now; must not block.
    fn size(&self) -> u64;

    /// Attributes now.
    fn stat(&self) -> Result<StatInfo>;

    /// Fills `buffer` from `offset`; returns fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Fills all of `buffers`, one after the other, from `offset`. The end of the file before that is a failure.
    fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buffer in buffers {
            if self.read_at(at, buffer)? < buffer.len() {
                return Err(Failure::corrupt(format!("the file ended before {}", at + buffer.len() as u64)));
            }
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Fills every buffer from its offset, in any order. The end of the file before that is a failure.
    fn read_many_at(&self, wanted: &mut [(u64, &mut [u8])]) -> Result<()> {
        wanted
            .iter_mut()
            .try_for_each(|(offset, buffer)| self.read_vectored_at(*offset, &mut [IoSliceMut::new(buffer)]))
    }

    /// The file itself, if its bytes never change: they may then be sent from the page cache.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether reading waits for other servers, which may be waiting for this one: it is done by threads of their own.
    fn waits_for_peers(&self) -> bool {
        false
    }

    /// The whole file in memory, if its bytes never change. Only the kernel touches it: a page that cannot be read
    /// would end the process.
    fn mapped(&self) -> Option<&[u8]> {
        None
    }

    /// Bytes of [`Self::descriptor`] or [`Self::mapped`] could not be read while they were sent.
    fn found_unreadable(&self) {}

    /// Where checksums of pages are kept, if the bytes never change.
    fn page_sums(&self) -> Option<&PageSums> {
        None
    }

    /// Told which ranges a vector read will ask for, so that they can be fetched together.
    fn will_read(&self, ranges: &[ByteRange]) {
        let _ = ranges;
    }

    /// Told of bytes that left without [`OpenFile::read_at`].
    fn count_sent(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether a write up to `end` would have to wait for free space: then [`Self::wait_for_space`] waits, without a thread.
    fn lacks_space(&self, end: u64) -> bool {
        let _ = end;
        false
    }

    /// Waits until there is free space for a write up to `end`, as long as some is being freed.
    fn wait_for_space(self: Arc<Self>, end: u64) -> impl Future<Output = Result<()>> + Send {
        let _ = end;
        async { Ok(()) }
    }

    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Sets the size.
    fn truncate(&self, size: u64) -> Result<()>;

    /// Returns when the bytes are on stable storage.
    fn sync(&self) -> Result<()>;

    /// Told what the client has written: a close of anything else must fail.
    fn expect(&self, expected: Expectation) -> Result<()> {
        let _ = expected;
        Err(Failure::unsupported("comparing written data is not supported here"))
    }

    /// Whether [`OpenFile::sync`] is to be replaced by [`OpenFile::sync_slowly`], because it may take minutes.
    fn syncs_slowly(&self) -> bool {
        false
    }

    /// Flushes as long as it takes; the client is told that the answer comes later.
    fn sync_slowly(self: Arc<Self>) -> impl Future<Output = Result<()>> + Send {
        async move { self.sync() }
    }

    /// Carries out an implementation-defined request on the open file.
    fn control(&self, args: &[u8]) -> Result<Vec<u8>> {
        let _ = args;
        Err(Failure::unsupported("opaque query on an open file is not offered here"))
    }

    /// Takes space for a range, or makes zeros of it.
    fn change_range(&self, range: ByteRange, change: RangeChange) -> Result<()> {
        let _ = (range, change);
        Err(Failure::unsupported("space and holes of files cannot be changed here"))
    }

    /// Has the grant of the open file write nothing from now on. Yields the start of the object that refuses it.
    fn fence(&self) -> Result<u64> {
        Err(Failure::unsupported("files are not written under grants here"))
    }

    /// Finds the next data or hole from `offset` on.
    fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        let _ = (kind, offset);
        Err(Failure::unsupported("holes of files are not looked for here"))
    }

    /// Copies the range `from` of another file of this server, or of this one, to `to`.
    fn copy_range(&self, source: &Self, from: ByteRange, to: u64) -> Result<()> {
        let _ = (source, from, to);
        Err(Failure::unsupported("ranges of files are not copied here"))
    }

    /// Commits what was written. Errors reach the client.
    fn close(self: Arc<Self>) -> impl Future<Output = Result<()>> + Send;
}

/// A namespace and its files behind a door.
///
/// Calls may take as long as they need: if one takes long, the client is told that the answer comes later. Futures are
/// dropped when the session ends, except closes, which run to their end.
pub trait Service: Send + Sync + 'static {
    /// The identity of the peer after login; lives as long as the session.
    type Session: Send + Sync + 'static;
    /// An open file.
    type File: OpenFile;

    /// Returns the description of the server.
    fn config(&self) -> &ServerConfig;

    /// Which proofs a login needs, as clients read it (`&P=ztn,…`); empty: none.
    fn security(&self, peer: &Peer) -> String {
        let _ = peer;
        String::new()
    }

    /// Starts a session whose login needed a proof; `kind` names its protocol. A failure lets the client try another.
    fn authenticate(
        &self,
        peer: Peer,
        kind: [u8; 4],
        credentials: &[u8],
    ) -> impl Future<Output = Result<Self::Session>> + Send {
        let _ = (peer, kind, credentials);
        async { Err(Failure::unsupported("no authentication was asked for")) }
    }

    /// Whether the peer has proven who it is, at login or by a request since. Who has not is served within narrow bounds, and for a
    /// short time ([`crate::unproven`]). Asked again and again until it is so; must not block.
    fn is_proven(&self, session: &Self::Session) -> bool {
        let _ = session;
        true
    }

    /// Whose session it is, for what all sessions of one user may hold together; `None`: it is bounded alone.
    fn account<'a>(&self, session: &'a Self::Session) -> Option<&'a str> {
        let _ = session;
        None
    }

    /// Starts a session whose login needs no proof.
    fn login(&self, peer: Peer) -> impl Future<Output = Result<Self::Session>> + Send;

    /// Whose session counts for a request whose path came with `opaque`, as that may hold a proof; `None`: this one.
    ///
    /// Opens and stats are not asked about: they are given what came with their paths.
    fn session_for(
        &self,
        session: &Self::Session,
        opaque: &Opaque,
    ) -> impl Future<Output = Result<Option<Self::Session>>> + Send {
        let _ = (session, opaque);
        async { Ok(None) }
    }

    /// Who answers requests on names, if this server does not: clients are sent there.
    fn names_elsewhere(&self) -> Option<Redirect> {
        None
    }

    /// Opens a file; may take minutes if it must be recalled. What can be done at once, without waiting for anything but a local
    /// disk, is best done before the first wait: the session's thread begins every open by itself.
    fn open(
        &self,
        session: &Self::Session,
        request: &OpenRequest,
    ) -> impl Future<Output = Result<Opened<Self::File>>> + Send;

    /// Carries out a request on names.
    fn names(
        &self,
        session: &Self::Session,
        request: NameRequest,
    ) -> impl Future<Output = Result<NameReply>> + Send;

    /// Attributes of a path if they are known at once.
    fn stat_now(
        &self,
        session: &Self::Session,
        path: &FilePath,
        opaque: &Opaque,
    ) -> Option<Result<StatInfo>> {
        let _ = (session, path, opaque);
        None
    }
}
