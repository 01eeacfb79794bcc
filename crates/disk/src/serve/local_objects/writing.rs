//! Objects that are being written, which no scan may touch.

use crate::ObjectWriter;
use base::{ObjectId, Result};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// Objects that users are writing, for reports to the head, with who writes them as far as it is known.
#[derive(Clone, Default)]
pub struct Writing(Arc<Mutex<Writers>>);

/// Writers by partition and object.
type Writers = BTreeMap<(String, ObjectId), Weak<ObjectWriter>>;

impl Writing {
    fn all(&self) -> MutexGuard<'_, Writers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, partition: &str, object: ObjectId) {
        self.all().insert((partition.to_owned(), object), Weak::new());
    }

    /// Says who writes an object, if that has not ended yet.
    pub(super) fn writes(&self, partition: &str, writer: &Arc<ObjectWriter>) {
        if let Some(known) = self.all().get_mut(&(partition.to_owned(), writer.object())) {
            *known = Arc::downgrade(writer);
        }
    }

    pub(crate) fn end(&self, partition: &str, object: ObjectId) {
        self.all().remove(&(partition.to_owned(), object));
    }

    /// What is being written on a partition, and the bytes of it so far; whose length is not known makes no room free, and counts
    /// as whole.
    pub fn on(&self, partition: &str) -> (Vec<ObjectId>, Vec<u64>) {
        let all = self.all();
        let own = all.iter().filter(|((on, _), _)| on == partition);
        let writers: Vec<_> = own.map(|((_, object), writer)| (*object, writer.upgrade())).collect();
        drop(all);
        let size = |writer: Arc<ObjectWriter>| writer.size().ok();
        writers
            .into_iter()
            .map(|(object, writer)| (object, writer.and_then(size).unwrap_or(u64::MAX)))
            .unzip()
    }

    /// Gives the room back that was taken for an object in advance and is not used.
    pub(crate) fn release_unused(&self, partition: &str, object: ObjectId) -> Result<()> {
        let writer = self.all().get(&(partition.to_owned(), object)).and_then(Weak::upgrade);
        writer.map_or(Ok(()), |writer| writer.release_unused())
    }
}
