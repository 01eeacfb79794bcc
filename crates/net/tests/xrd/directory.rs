//! A directory behind the XRootD door, as tests and the example use it.
//!
//! New files are written beside their final path and appear there on close. Some names have effects. The open of a file
//! whose name contains `tape` waits until a test brings it online. With `full` a file takes one MiB and no more; with
//! `unsafe` it cannot be flushed; with `peer` reads wait until another server answers.

use base::{Adler32, ByteRange, Crc32c, ErrorKind, Failure, FilePath, PageSums, Result};
use net::xrd::{
    Access, Disposition, ListEntry, ListPage, Location, NameReply, NameRequest, OpenFile, OpenRequest,
    Opened, Peer, PrepareAction, ReadMethod, Redirect, ServerConfig, Service, SpaceInfo, StatFlags, StatInfo,
    StatOwner,
};
use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata, OpenOptions},
    io::Read,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// Name of a user who proves nothing.
pub(crate) const NOBODY: &str = "nobody";

type Attributes = BTreeMap<(String, String), Vec<u8>>;

/// Serves a directory.
#[derive(Debug)]
pub(crate) struct DirService {
    /// Also [`NOBODY`].
    pub(crate) is_everybody_proven: AtomicBool,
    root: PathBuf,
    config: ServerConfig,
    next: AtomicU64,
    attributes: Mutex<Attributes>,
    /// One permit for each open of a file on tape that may go on.
    recalls: Semaphore,
    /// Whether the other server has answered.
    peer: Arc<(Mutex<bool>, Condvar)>,
    /// Where every open is sent, if set.
    elsewhere: Mutex<Option<Redirect>>,
    /// Value of `cap` of the last open.
    capability: Mutex<Option<String>>,
}

impl DirService {
    /// Serves what is in `root`; answers are announced if they take longer than `announce_after`.
    pub(crate) fn new(root: &Path, announce_after: Duration, read_method: ReadMethod) -> Arc<Self> {
        let version = "v5.2.0-test".into();
        let config = ServerConfig {
            version,
            announce_after,
            announce_listings_after: announce_after,
            read_method,
            ..ServerConfig::default()
        };
        Arc::new(Self {
            is_everybody_proven: AtomicBool::new(false),
            root: root.to_owned(),
            config,
            next: AtomicU64::new(0),
            attributes: Mutex::default(),
            recalls: Semaphore::new(0),
            peer: Arc::default(),
            elsewhere: Mutex::default(),
            capability: Mutex::default(),
        })
    }

    /// Sends every open to `port` of this host with a capability, as a head sends clients to a disk server.
    #[cfg(test)]
    pub(crate) fn redirect(&self, port: u16, capability: &str) {
        let opaque = format!("cap={capability}");
        *self.elsewhere.lock().unwrap() = Some(Redirect { host: "127.0.0.1".into(), port, opaque });
    }

    /// The capability that came with the last open.
    #[cfg(test)]
    pub(crate) fn capability(&self) -> Option<String> {
        self.capability.lock().unwrap().take()
    }

    /// Lets one open of a file on tape go on.
    #[cfg(test)]
    pub(crate) fn recall(&self) {
        self.recalls.add_permits(1);
    }

    /// The other server answers.
    #[cfg(test)]
    pub(crate) fn answer_as_peer(&self) {
        *self.peer.0.lock().unwrap() = true;
        self.peer.1.notify_all();
    }

    fn place(&self, path: &FilePath) -> PathBuf {
        self.root.join(path.as_str().trim_start_matches('/'))
    }

    fn open_file(&self, request: &OpenRequest) -> Result<DirFile> {
        let place = self.place(&request.path);
        let fail = |e: &std::io::Error| Failure::io(format!("open {}", request.path), e);
        let is_directory = place.is_dir();
        if is_directory {
            return Err(Failure::new(ErrorKind::IsDirectory, format!("{} is a directory", request.path)));
        }
        if request.access == Access::Read {
            let file = File::open(&place).map_err(|e| fail(&e))?;
            if request.path.as_str().contains("peer") {
                return Ok(DirFile {
                    file,
                    pending: None,
                    content: None,
                    peer: Some(Arc::clone(&self.peer)),
                });
            }
            let content = fs::read(&place).map_err(|e| fail(&e))?;
            let content = Some((content, PageSums::default()));
            return Ok(DirFile { file, pending: None, content, peer: None });
        }
        if request.disposition == Disposition::Existing {
            let file = OpenOptions::new().read(true).write(true).open(&place).map_err(|e| fail(&e))?;
            return Ok(DirFile { file, pending: None, content: None, peer: None });
        }
        if request.disposition == Disposition::CreateNew && place.exists() {
            return Err(Failure::exists(format!("{} exists", request.path)));
        }
        let parent = place.parent().unwrap_or(&self.root);
        if request.make_path {
            fs::create_dir_all(parent).map_err(|e| fail(&e))?;
        }
        let pending = parent.join(format!(".pending-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let mode = if request.mode == 0 { 0o644 } else { request.mode };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&pending)
            .map_err(|e| fail(&e))?;
        let pending = Some(Pending { from: pending, to: place, is_done: Mutex::new(false) });
        Ok(DirFile { file, pending, content: None, peer: None })
    }
}

/// An open file.
#[derive(Debug)]
pub(crate) struct DirFile {
    file: File,
    pending: Option<Pending>,
    /// What is sent of a file that is only read, and the sums of its pages.
    content: Option<(Vec<u8>, PageSums)>,
    /// The other server that has its bytes.
    peer: Option<Arc<(Mutex<bool>, Condvar)>>,
}

#[derive(Debug)]
struct Pending {
    from: PathBuf,
    to: PathBuf,
    is_done: Mutex<bool>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !*self.is_done.lock().unwrap() {
            let _ = fs::remove_file(&self.from);
        }
    }
}

impl OpenFile for DirFile {
    fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn stat(&self) -> Result<StatInfo> {
        self.file.metadata().map(|metadata| info(&metadata)).map_err(|e| Failure::io("stat", &e))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let Some(peer) = &self.peer {
            drop(peer.1.wait_while(peer.0.lock().unwrap(), |has_answered| !*has_answered).unwrap());
        }
        self.file.read_at(buffer, offset).map_err(|e| Failure::io("read", &e))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (self.pending.is_none() && self.peer.is_none()).then(|| self.file.as_fd())
    }

    fn waits_for_peers(&self) -> bool {
        self.peer.is_some()
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|(bytes, _)| bytes.as_slice())
    }

    fn page_sums(&self) -> Option<&PageSums> {
        self.content.as_ref().map(|(_, sums)| sums)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let is_full =
            self.pending.as_ref().is_some_and(|pending| pending.to.to_string_lossy().contains("full"));
        if is_full && offset + data.len() as u64 > 1 << 20 {
            return Err(Failure::no_space("disk is full").hint("delete something"));
        }
        self.file.write_all_at(data, offset).map_err(|e| Failure::io("write", &e))
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(|e| Failure::io("truncate", &e))
    }

    fn sync(&self) -> Result<()> {
        if self.pending.as_ref().is_some_and(|pending| pending.to.to_string_lossy().contains("unsafe")) {
            return Err(Failure::new(ErrorKind::Io, "cannot be flushed"));
        }
        self.file.sync_data().map_err(|e| Failure::io("sync", &e))
    }

    async fn close(self: Arc<Self>) -> Result<()> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        fs::rename(&pending.from, &pending.to).map_err(|e| Failure::io("commit", &e))?;
        *pending.is_done.lock().unwrap() = true;
        Ok(())
    }
}

fn info(metadata: &Metadata) -> StatInfo {
    let mode = metadata.permissions().mode();
    let flags = StatFlags::NONE
        .with_if(metadata.is_dir(), StatFlags::DIRECTORY)
        .with_if(mode & 0o444 != 0, StatFlags::READABLE)
        .with_if(mode & 0o222 != 0, StatFlags::WRITABLE)
        .with_if(mode & 0o111 != 0, StatFlags::EXECUTABLE);
    let owner = StatOwner {
        changed_s: metadata.ctime(),
        accessed_s: metadata.atime(),
        mode: mode & 0o777,
        user: metadata.uid().to_string(),
        group: metadata.gid().to_string(),
    };
    StatInfo {
        id: metadata.ino(),
        size: metadata.len(),
        flags,
        modified_s: metadata.mtime(),
        owner: Some(owner),
    }
}

impl Service for DirService {
    type Session = Peer;
    type File = DirFile;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    async fn login(&self, peer: Peer) -> Result<Peer> {
        Ok(peer)
    }

    fn account<'a>(&self, peer: &'a Peer) -> Option<&'a str> {
        Some(&peer.username)
    }

    fn is_proven(&self, peer: &Peer) -> bool {
        peer.username != NOBODY || self.is_everybody_proven.load(Ordering::Relaxed)
    }

    async fn open(&self, _: &Peer, request: &OpenRequest) -> Result<Opened<DirFile>> {
        if let Some(redirect) = self.elsewhere.lock().unwrap().clone() {
            return Ok(Opened::Redirect(redirect));
        }
        *self.capability.lock().unwrap() = request.opaque.get("cap").map(str::to_owned);
        if request.path.name().contains("tape") {
            let recalled = self.recalls.acquire().await.map_err(|_| Failure::unavailable("no tape"))?;
            recalled.forget();
        }
        self.open_file(request).map(|file| Opened::Here(Arc::new(file)))
    }

    async fn names(&self, _: &Peer, request: NameRequest) -> Result<NameReply> {
        match request {
            NameRequest::Stat { path, .. } => self.stat(&path).map(NameReply::from),
            NameRequest::List { path, from, with_stat } => {
                self.list(&path, from, with_stat).map(NameReply::from)
            }
            NameRequest::Mkdir { path, mode, make_path } => {
                let mode = if mode == 0 { 0o755 } else { mode };
                let made = fs::DirBuilder::new().mode(mode).recursive(make_path).create(self.place(&path));
                done(format!("mkdir {path}"), made)
            }
            NameRequest::Remove { path } => done(format!("rm {path}"), fs::remove_file(self.place(&path))),
            NameRequest::Rmdir { path } => done(format!("rmdir {path}"), fs::remove_dir(self.place(&path))),
            NameRequest::Rename { from, to } => {
                done(format!("mv {from} {to}"), fs::rename(self.place(&from), self.place(&to)))
            }
            NameRequest::Truncate { path, size } => {
                let file = OpenOptions::new().write(true).open(self.place(&path));
                done(format!("truncate {path}"), file.and_then(|file| file.set_len(size)))
            }
            NameRequest::Chmod { path, mode } => {
                let mode = fs::Permissions::from_mode(mode);
                done(format!("chmod {path}"), fs::set_permissions(self.place(&path), mode))
            }
            NameRequest::Checksum { path, kind } => self.checksum(&path, &kind).map(NameReply::from),
            NameRequest::Locate { path, local: address } => {
                let stat = self.stat(&path)?;
                let is_writable = stat.flags.contains(StatFlags::WRITABLE);
                let location =
                    Location { is_server: true, is_online: stat.is_online(), is_writable, address };
                Ok(vec![location].into())
            }
            NameRequest::Prepare(request) => {
                let is_stage = matches!(request.action, PrepareAction::Stage { .. });
                Ok(if is_stage { "test-1".to_owned() } else { String::new() }.into())
            }
            NameRequest::PrepareStatus { id, .. } => {
                Err(Failure::unsupported(format!("prepare status of {id} is not offered here")))
            }
            NameRequest::Space { .. } => {
                let free = ByteRange { offset: 0, end: 10 << 30 }.length();
                let space = SpaceInfo { total: 2 * free, free, largest_free: free, used: free, quota: None };
                Ok(space.into())
            }
            NameRequest::Attributes { path } => {
                let all = self.attributes.lock().unwrap();
                let own = all.iter().filter(|entry| entry.0.0 == path.as_str());
                let own: Vec<_> = own.map(|(key, value)| (key.1.clone(), value.clone())).collect();
                Ok(own.into())
            }
            NameRequest::SetAttribute { path, name, value, .. } => {
                let key = (path.as_str().to_owned(), name);
                let mut all = self.attributes.lock().unwrap();
                match value {
                    Some(value) => all.insert(key, value),
                    None => all.remove(&key),
                };
                Ok(NameReply::Done)
            }
        }
    }
}

fn done(what: String, outcome: std::io::Result<()>) -> Result<NameReply> {
    outcome.map(NameReply::from).map_err(|e| Failure::io(what, &e))
}

impl DirService {
    fn stat(&self, path: &FilePath) -> Result<StatInfo> {
        let metadata = fs::metadata(self.place(path));
        metadata.map(|metadata| info(&metadata)).map_err(|e| Failure::io(format!("stat {path}"), &e))
    }

    fn list(&self, path: &FilePath, from: Option<String>, with_stat: bool) -> Result<ListPage> {
        let entries = fs::read_dir(self.place(path)).map_err(|e| Failure::io(format!("list {path}"), &e))?;
        let mut names: Vec<_> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let names = names.into_iter().filter(|name| from.as_ref().is_none_or(|from| name > from));
        let page = names.take(1000).map(|name| {
            let metadata = fs::metadata(self.place(path).join(&name)).ok();
            ListEntry { name, stat: metadata.filter(|_| with_stat).map(|metadata| info(&metadata)) }
        });
        let entries: Vec<_> = page.collect();
        let next = (entries.len() == 1000).then(|| entries[999].name.clone());
        Ok(ListPage { entries, next })
    }

    fn checksum(&self, path: &FilePath, kind: &str) -> Result<String> {
        let mut file =
            File::open(self.place(path)).map_err(|e| Failure::io(format!("checksum {path}"), &e))?;
        let (mut adler, mut crc, mut piece) = (Adler32::EMPTY, Crc32c::EMPTY, vec![0; 1 << 20]);
        loop {
            let count = file.read(&mut piece).map_err(|e| Failure::io(format!("checksum {path}"), &e))?;
            if count == 0 {
                break;
            }
            adler = adler.extend(&piece[..count]);
            crc = crc.extend(&piece[..count]);
        }
        Ok(if kind == "adler32" { adler.to_string() } else { crc.to_string() })
    }
}
