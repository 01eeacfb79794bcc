//! A file that is open for writing: it counts when it is committed.

use crate::{
    ObjectWriter,
    port::Head,
    remote::{objects::RemoteSink, threads::with_peers},
    replicate::mirror::{Filled, MirrorFill},
    serve::{free_space::SpaceWait, local_objects::Writing, traffic::Traffic},
};
use base::{Clock, ErrorKind, Failure, FileId, ObjectId, Result, Timestamp};
use net::{blocking, shutdown::Shutdown};
use std::{
    io::IoSliceMut,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tracing::warn;
use wire::{
    auth::capability::Content,
    control::{AbandonWrite, CommitWrite},
    media::object::{Label, ObjectInfo},
    xrd::Expectation,
};

/// Gives a reserved object back to the head unless it was committed.
pub struct Reservation {
    head: Head,
    tasks: Shutdown,
    writing: Writing,
    partition: String,
    object: ObjectId,
    is_kept: AtomicBool,
}

impl Reservation {
    pub(crate) fn new(
        head: Head,
        tasks: Shutdown,
        writing: Writing,
        (partition, object): (String, ObjectId),
    ) -> Self {
        writing.begin(&partition, object);
        Self { head, tasks, writing, partition, object, is_kept: AtomicBool::new(false) }
    }

    /// Another writer has it now.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let object = self.object;
        self.writing.end(&self.partition, object);
        if *self.is_kept.get_mut() {
            return;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            // The process is ending; the next start abandons what was being written.
            return;
        }
        let head = self.head.clone();
        self.tasks.spawn("abandon", async move {
            if let Err(failure) = head.call(AbandonWrite { object }).await {
                warn!(%object, %failure, "could not release a reserved object; the head releases it later");
            }
        });
    }
}

/// The destination of a file's bytes.
#[derive(Clone)]
pub enum Sink {
    /// A partition of this host.
    Object(Arc<ObjectWriter>),
    /// Another disk server, which reports it to the head.
    Remote(Arc<RemoteSink>),
}

impl Sink {
    /// Makes it durable. Blocks.
    fn commit(&self, label: &Label, expected: Option<Content>, now: Timestamp) -> Result<ObjectInfo> {
        match self {
            Self::Object(writer) => {
                let expected = expected.map(|content| (content.size, content.checksums));
                writer.commit(label, expected, now)
            }
            Self::Remote(sink) => sink.info(),
        }
    }
}

/// A file open for writing. Dropped without a commit it leaves nothing behind.
pub struct WriteFile {
    sink: Sink,
    label: Box<Label>,
    /// What a capability demands.
    expected: Option<Content>,
    expected_bytes: Option<u64>,
    /// What the client says that it has sent.
    sent: Mutex<Option<Expectation>>,
    /// None for objects that somebody else reports to the head.
    reservation: Option<Box<Reservation>>,
    /// Its mirrors are filled before it is reported.
    mirroring: Option<Box<MirrorFill>>,
    /// How it gets free space on this host as it grows.
    space: Option<Box<SpaceWait>>,
    clock: Clock,
    door: Arc<Traffic>,
    is_closed: AtomicBool,
}

impl WriteFile {
    /// A file that is written to `sink`, and counted by `door`.
    pub fn new(sink: Sink, label: Label, clock: &Clock, door: Arc<Traffic>) -> Self {
        Self {
            sink,
            label: Box::new(label),
            expected: None,
            expected_bytes: None,
            sent: Mutex::default(),
            reservation: None,
            mirroring: None,
            space: None,
            clock: Arc::clone(clock),
            door,
            is_closed: AtomicBool::new(false),
        }
    }

    /// It is reported to the head when it is committed.
    pub(crate) fn with_reservation(self, reservation: Reservation) -> Self {
        Self { reservation: Some(Box::new(reservation)), ..self }
    }

    /// Its pool promises more than one replica.
    pub(crate) fn with_mirrors(self, mirroring: Option<MirrorFill>) -> Self {
        Self { mirroring: mirroring.map(Box::new), ..self }
    }

    /// It may wait for space as it grows.
    pub(crate) fn with_space(self, space: SpaceWait) -> Self {
        Self { space: Some(Box::new(space)), ..self }
    }

    /// Nothing shorter or longer may be committed.
    pub(crate) fn expecting_bytes(self, bytes: u64) -> Self {
        Self { expected_bytes: Some(bytes), ..self }
    }

    /// Nothing else may be committed.
    pub(crate) fn expecting(self, content: Content) -> Self {
        Self { expected: Some(content), ..self }
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.label.file
    }

    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.label.holder.mode
    }

    /// Bytes it has now.
    pub fn size(&self) -> Result<u64> {
        match &self.sink {
            Sink::Object(writer) => writer.size(),
            Sink::Remote(sink) => sink.size(),
        }
    }

    /// Whether writing waits for other servers.
    pub fn waits_for_peers(&self) -> bool {
        matches!(self.sink, Sink::Remote(_))
    }

    /// Fills `buffer` from `offset`. Blocks.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &self.sink {
            Sink::Object(writer) => writer.read_at(buffer, offset),
            Sink::Remote(sink) => sink.read_at(offset, buffer),
        }
    }

    /// Fills all of `buffers` from `offset`. Blocks.
    pub fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buffer in buffers {
            if self.read_at(at, buffer)? < buffer.len() {
                return Err(Failure::invalid(format!("{} was cut while it was read", self.label.path)));
            }
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Whether there is too little free space now for `end` bytes. If not, they are taken: a write up to there does not wait.
    pub fn lacks_space(&self, end: u64) -> bool {
        match (&self.sink, &self.space) {
            (Sink::Object(writer), Some(_)) => {
                writer.reserve(end).is_err_and(|failure| failure.kind == ErrorKind::NoSpace)
            }
            _ => false,
        }
    }

    /// Waits, as long as it is being freed, for the space for `end` bytes.
    pub async fn wait_for_space(&self, end: u64) -> Result<()> {
        match (&self.sink, &self.space) {
            (Sink::Object(writer), Some(space)) => space.reserve(writer, end).await,
            _ => Ok(()),
        }
    }

    /// The same for whoever has a thread for it. Blocks.
    fn take_space(&self, writer: &ObjectWriter, end: u64) -> Result<()> {
        self.space.as_ref().map_or(Ok(()), |space| space.reserve_blocking(writer, end))
    }

    /// Writes all of `data` at `offset`. Blocks.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        match &self.sink {
            Sink::Object(writer) => {
                self.take_space(writer, offset.saturating_add(data.len() as u64))?;
                writer.write_at(data, offset)?;
            }
            Sink::Remote(sink) => sink.write_at(offset, data)?,
        }
        self.door.add_in(data.len() as u64);
        Ok(())
    }

    /// Sets the size. Blocks.
    pub fn truncate(&self, size: u64) -> Result<()> {
        match &self.sink {
            Sink::Object(writer) => {
                self.take_space(writer, size)?;
                writer.truncate(size)
            }
            Sink::Remote(sink) => sink.truncate(size),
        }
    }

    /// Returns when the bytes are on stable storage. Blocks.
    pub fn sync(&self) -> Result<()> {
        match &self.sink {
            Sink::Object(writer) => writer.sync(),
            Sink::Remote(sink) => sink.sync(),
        }
    }

    /// Takes what the client says that it has sent: nothing else is committed.
    pub fn expect(&self, sent: Expectation) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    fn check_sent(&self, info: &ObjectInfo) -> Result<()> {
        let found = Expectation { size: info.size, crc32c: info.checksums.crc32c };
        match *self.sent.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sent) if sent != found => Err(Failure::corrupt(format!(
                "{}: {} bytes with crc32c {} were sent, {} with {} arrived",
                self.label.path, sent.size, sent.crc32c, found.size, found.crc32c
            ))
            .hint("nothing was stored: send it again")),
            _ => Ok(()),
        }
    }

    /// Makes what was written the content of the file: durable on disk, then in the catalogue.
    ///
    /// `check` sees the size and sums before the head does, and can refuse.
    pub async fn commit(&self, check: impl FnOnce(&ObjectInfo) -> Result<()>) -> Result<ObjectInfo> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Err(Failure::invalid(format!("{} is closed already", self.label.path)));
        }
        if let (Some(expected), size) = (self.expected_bytes, self.size()?)
            && size != expected
        {
            let path = &self.label.path;
            return Err(Failure::corrupt(format!(
                "a piece of {path} has {size} bytes, {expected} are wanted"
            )));
        }
        let (sink, label) = (self.sink.clone(), self.label.clone());
        let (expected, now) = (self.expected, (self.clock)());
        let info = blocking(move || sink.commit(&label, expected, now)).await?;
        self.check_sent(&info)?;
        check(&info)?;
        if let Some(reservation) = &self.reservation {
            let Filled { mirrors, pieces } = match &self.mirroring {
                Some(mirroring) => mirroring.fill(&info).await?,
                None => Filled::default(),
            };
            let ObjectInfo { object, size, checksums, .. } = info;
            let call = CommitWrite { object, size, checksums, mirrors, pieces };
            reservation.head.insist(call).await?;
            reservation.keep();
        }
        if let Sink::Remote(sink) = &self.sink {
            let sink = Arc::clone(sink);
            with_peers(move || sink.close()).await?;
        }
        Ok(info)
    }
}
