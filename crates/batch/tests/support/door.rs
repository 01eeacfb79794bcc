//! A `root://` door to files in memory.

use base::{Adler32, Failure, FilePath, Result};
use net::{
    listener::Listener,
    shutdown::Shutdown,
    xrd::{
        Disposition, ListPage, NameReply, NameRequest, OpenFile, OpenRequest, Opened, Peer, ServerConfig,
        Service, StatInfo,
    },
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// Content and owner of each file.
type Stored = Arc<Mutex<BTreeMap<FilePath, (Vec<u8>, String)>>>;

#[derive(Default)]
struct Files {
    stored: Stored,
    is_away: AtomicBool,
    refused: AtomicU32,
    config: ServerConfig,
}

pub(crate) struct Door {
    files: Arc<Files>,
    /// `root://host:port`.
    pub(crate) root: String,
    _runtime: tokio::runtime::Runtime,
    _shutdown: Shutdown,
}

impl Door {
    pub(crate) fn open() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (files, shutdown) = (Arc::new(Files::default()), Shutdown::new());
        let address = runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), 100).await.unwrap();
            let address = listener.address().unwrap();
            net::xrd::serve(Arc::clone(&files), listener, &shutdown);
            address
        });
        Self { files, root: format!("root://{address}"), _runtime: runtime, _shutdown: shutdown }
    }

    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        let entry = (content.to_vec(), "root".to_owned());
        self.files.stored.lock().unwrap().insert(path.parse().unwrap(), entry);
    }

    /// Content and owner.
    pub(crate) fn get(&self, path: &str) -> Option<(Vec<u8>, String)> {
        self.files.stored.lock().unwrap().get(&path.parse().unwrap()).cloned()
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.files.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> u32 {
        self.files.refused.load(Ordering::Relaxed)
    }
}

pub(crate) struct Open {
    stored: Stored,
    path: FilePath,
    owner: String,
    content: Mutex<Vec<u8>>,
    is_written: bool,
}

impl OpenFile for Open {
    fn size(&self) -> u64 {
        self.content.lock().unwrap().len() as u64
    }

    fn stat(&self) -> Result<StatInfo> {
        Ok(StatInfo { size: self.size(), ..StatInfo::default() })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let content = self.content.lock().unwrap();
        let rest = content.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut content = self.content.lock().unwrap();
        let end = offset as usize + data.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.content.lock().unwrap().resize(size as usize, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    async fn close(self: Arc<Self>) -> Result<()> {
        if self.is_written {
            let entry = (self.content.lock().unwrap().clone(), self.owner.clone());
            self.stored.lock().unwrap().insert(self.path.clone(), entry);
        }
        Ok(())
    }
}

impl Files {
    fn find(&self, path: &FilePath) -> Result<Vec<u8>> {
        let stored = self.stored.lock().unwrap();
        let found = stored.get(path).map(|entry| entry.0.clone());
        found.ok_or_else(|| Failure::not_found(format!("{path} does not exist")))
    }
}

/// Sessions know the user.
type Session = String;

impl Service for Files {
    type Session = Session;
    type File = Open;

    fn config(&self) -> &ServerConfig {
        &self.config
    }

    async fn login(&self, peer: Peer) -> Result<Session> {
        Ok(peer.username)
    }

    async fn open(&self, session: &Session, request: &OpenRequest) -> Result<Opened<Open>> {
        if self.is_away.load(Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::unavailable("the disk server is away"));
        }
        if request.path.as_str().starts_with("/forbidden/") {
            return Err(Failure::permission(format!("{} is not yours", request.path)));
        }
        let is_written = request.disposition != Disposition::Existing;
        let content = if is_written { Vec::new() } else { self.find(&request.path)? };
        Ok(Opened::Here(Arc::new(Open {
            stored: Arc::clone(&self.stored),
            path: request.path.clone(),
            owner: session.clone(),
            content: Mutex::new(content),
            is_written,
        })))
    }

    async fn names(&self, _: &Session, request: NameRequest) -> Result<NameReply> {
        match request {
            NameRequest::Stat { path, .. } => {
                Ok(StatInfo { size: self.find(&path)?.len() as u64, ..StatInfo::default() }.into())
            }
            NameRequest::Checksum { path, .. } => Ok(Adler32::of(&self.find(&path)?).to_string().into()),
            NameRequest::List { .. } => Ok(ListPage::default().into()),
            NameRequest::Mkdir { .. } | NameRequest::Remove { .. } | NameRequest::Rmdir { .. } => {
                Ok(NameReply::Done)
            }
            other => Err(Failure::unsupported(format!("{other:?} is not offered here"))),
        }
    }
}
