//! The beginning of a write on this host: the object is made, gets its space and the content that an update begins with.

use crate::{
    ObjectWriter, Partition,
    remote::threads::with_peers_for_long,
    replicate::coded::CodedFile,
    serve::{free_space::SpaceWait, local_objects::WithdrawnObjects, open_file::Reservation},
};
use base::{ObjectId, Result};
use net::blocking;
use std::sync::Arc;

/// An object that is to be written, and what it begins with.
pub(crate) struct WriteStart {
    pub(crate) partition: Arc<Partition>,
    pub(crate) withdrawn: Arc<WithdrawnObjects>,
    pub(crate) object: ObjectId,
    /// The object of this host whose content it takes.
    pub(crate) base: Option<ObjectId>,
    /// The coded file whose content it takes.
    pub(crate) gathered: Option<CodedFile>,
    /// Size that the client has announced.
    pub(crate) expected_bytes: u64,
    /// Space that it needs before anything is sent.
    pub(crate) needed_bytes: u64,
}

impl WriteStart {
    /// Makes the object, calls `take` for its reservation once nobody else can have it, and waits for its space.
    ///
    /// A client that leaves meanwhile ends this call, but not the thread that copies the old content of the file. That
    /// thread has the reservation and gives it back when the copy has ended.
    pub(crate) async fn begin(
        self,
        space: &SpaceWait,
        take: impl FnOnce() -> Reservation + Send + 'static,
    ) -> Result<(ObjectWriter, Reservation)> {
        let is_gathered = self.gathered.is_some();
        let (writer, reservation, unfilled) = on_thread(is_gathered, move || self.make(take)).await?;
        let Some(unfilled) = unfilled else { return Ok((writer, reservation)) };
        space.reserve(&writer, unfilled.needed_bytes).await?;
        let fill = move || unfilled.fill(&writer).map(|()| (writer, reservation));
        on_thread(is_gathered, fill).await
    }

    /// Makes the object, and fills it if there is space for it now; yields itself if that is still to be done. Blocks.
    fn make(self, take: impl FnOnce() -> Reservation) -> Result<(ObjectWriter, Reservation, Option<Self>)> {
        let writer = self.partition.create_object(self.object)?;
        // Before anything is copied: that may take long, and the head must not take it for one that nobody has begun.
        let (reservation, writer) = (take(), writer);
        self.withdrawn.refuse(self.object)?;
        // Why there is none is said by whoever waits for it.
        if self.needed_bytes > 0 && writer.reserve(self.needed_bytes).is_err() {
            return Ok((writer, reservation, Some(self)));
        }
        self.fill(&writer)?;
        Ok((writer, reservation, None))
    }

    fn fill(&self, writer: &ObjectWriter) -> Result<()> {
        match (&self.gathered, self.base) {
            (Some(before), _) => before.copy_to(writer)?,
            (None, Some(base)) => self.partition.copy_into(writer, base)?,
            (None, None) => {}
        }
        if self.expected_bytes > 0 { writer.preallocate(self.expected_bytes) } else { Ok(()) }
    }
}

/// Runs `work` on a thread that may block; on one that may wait for other servers if it has to.
async fn on_thread<T: Send + 'static>(
    waits_for_peers: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if waits_for_peers { with_peers_for_long(work).await } else { blocking(work).await }
}
