//! Opens what a capability allows, without a question to the head.

use super::Objects;
use crate::serve::{
    live_file::LiveFile,
    open_file::{ReadFile, Sink, WriteFile},
    traffic::Traffic,
};
use base::{ErrorKind, Failure, FilePath, Result, Timestamp};
use net::blocking;
use std::sync::Arc;
use wire::{
    auth::capability::{Access, Cap, NEVER_JOINED, Times, WHOLE},
    control::{BeginWrite, ReadObject},
    media::object::Label,
};

impl Objects {
    /// Checks a capability, which names the object and what may be done; the head is asked only before a user writes.
    pub async fn open_cap(&self, open: CapOpen<'_>, door: Arc<Traffic>) -> Result<CapFile> {
        let cap = self.verified(open.signed)?;
        match cap.access {
            Access::Read => self.read_cap(&cap, door).await.map(CapFile::Read),
            Access::Gather => {
                let content = cap.content.ok_or_else(|| {
                    Failure::invalid(format!(
                        "capability to gather file {} does not say what it has",
                        cap.file
                    ))
                })?;
                let times = cap.times.unwrap_or(Times::of(Timestamp(0), None));
                let grant = ReadObject {
                    file: cap.file,
                    object: cap.object,
                    partition: cap.partition.clone(),
                    size: content.size,
                    modified: times.modified,
                    source_modified: times.source_modified(),
                    checksums: content.checksums,
                    mode: 0o644,
                    server: None,
                    joined: NEVER_JOINED,
                    is_piece: true,
                    fence: cap.generation,
                };
                let file = self.gather(&cap.user, Arc::new(grant), Some(open.signed), door).await?;
                Ok(CapFile::Read(file.within(cap.range)))
            }
            Access::Fill => self.fill_cap(&cap, open.path, door).await.map(CapFile::Write),
            Access::Write => {
                let begin = BeginWrite { object: cap.object, is_update: open.is_update };
                let grant = self.head.call(begin).await?;
                // Not yet: who comes second with the same capability must not end the write of the first.
                let take = self.taking(&grant);
                self.write(&grant, take, door).await.map(CapFile::Write)
            }
            Access::Live | Access::LiveRead => self.live_cap(&cap, door).await.map(CapFile::Live),
        }
    }

    async fn read_cap(&self, cap: &Cap, door: Arc<Traffic>) -> Result<ReadFile> {
        let object = cap.object;
        let reader = self.reader(&cap.partition, object).await?;
        let info = reader.info();
        let is_other = match cap.content {
            // Content that came back from the trash has another number than the object, which nobody else has: sums tell.
            Some(content) => (content.size, content.checksums) != (info.size, info.checksums),
            None => info.file != cap.file,
        };
        if is_other {
            return Err(Failure::corrupt(format!("object {object} does not match the capability")));
        }
        // Rooms are told none: they do not show any.
        let times = cap.times.unwrap_or(Times::of(info.written, None));
        let grant = Arc::new(ReadObject {
            file: info.file,
            object,
            partition: cap.partition.clone(),
            size: info.size,
            modified: times.modified,
            source_modified: times.source_modified(),
            checksums: info.checksums,
            mode: 0o644,
            server: None,
            joined: NEVER_JOINED,
            fence: cap.generation,
            is_piece: false,
        });
        Ok(self.reading(&cap.user, grant, reader, door).within(cap.range))
    }

    async fn fill_cap(&self, cap: &Cap, path: &FilePath, door: Arc<Traffic>) -> Result<WriteFile> {
        let bytes = match (cap.content, cap.piece) {
            _ if cap.range != WHOLE => None,
            (Some(content), None) => Some(content.size),
            // How long a piece is follows from what it is a piece of.
            (None, Some(piece)) => Some(piece.shape(cap.file, cap.generation)?.piece_bytes()),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| {
            Failure::invalid(format!("capability to fill object {} does not say with what", cap.object))
        })?;
        let (partition, withdrawn) = (self.partition(&cap.partition)?, Arc::clone(&self.withdrawn));
        let object = cap.object;
        let writer = blocking(move || {
            let writer = partition.create_object(object)?;
            withdrawn.refuse(object)?;
            Ok(writer)
        })
        .await?;
        self.space.reserve(&writer, bytes).await?;
        let writer = blocking(move || writer.preallocate(bytes).map(|()| writer)).await?;
        let holder = cap.holder.clone().unwrap_or_default();
        let (file, generation, piece) = (cap.file, cap.generation, cap.piece);
        let label = Label { file, path: path.clone(), generation, holder, piece };
        let file = WriteFile::new(Sink::Object(Arc::new(writer)), label, &self.clock, door);
        Ok(match cap.content {
            Some(content) => file.expecting(content),
            None => file.expecting_bytes(bytes),
        })
    }
}

/// An open by capability.
#[derive(Debug, Clone, Copy)]
pub struct CapOpen<'a> {
    /// The capability.
    pub signed: &'a str,
    /// The path, for messages and for the description of an object that is filled.
    pub path: &'a FilePath,
    /// Whether a write begins with the content that the file has.
    pub is_update: bool,
}

/// Whether a capability, good or not, says that it is for an object that changes in place. Who shows one never means a name: what
/// stands there may have been replaced.
pub fn is_live(signed: &str) -> bool {
    matches!(Access::said_by(signed), Some(Access::Live | Access::LiveRead))
}

/// Whether the head may know better than a capability: its object has moved since, or it was kept for too long.
pub fn is_outdated(failure: &Failure) -> bool {
    matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Permission)
}

/// The access that a capability grants.
pub enum CapFile {
    /// For reading.
    Read(ReadFile),
    /// For writing.
    Write(WriteFile),
    /// For reading, and perhaps for writing in place.
    Live(LiveFile),
}
