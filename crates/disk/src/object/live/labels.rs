//! What a live object is of, noted beside its bytes: a catalogue that is made anew finds its file by it.
//!
//! It is an extended attribute of the object, which costs no sync of its own: it is durable with the first sync of the bytes. Where the
//! file system has no such attributes, the object is not found again without the catalogue.

use super::Seal;
use crate::object::{list, partition::Partition};
use base::{Failure, ObjectId, Result, Timestamp};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::{fs::File, time::UNIX_EPOCH};
use tracing::debug;
use wire::media::object::Label;

/// Name of the attribute.
const NAME: &str = "user.backplane.label";
/// Longest label: a path with its holder is less than half of that.
const BYTES_MAX: usize = 16 << 10;

/// Notes what a new object is of.
pub(super) fn note(file: &File, label: &Label) {
    let text = serde_json::to_vec(label).expect("plain texts and numbers always serialise");
    if let Err(cause) = fsetxattr(file, NAME, &text, XattrFlags::empty()) {
        debug!(%cause, path = %label.path, "a live object has no label: without the catalogue it is not found again");
    }
}

/// What an object is of, if that was noted.
fn read(file: &File) -> Option<Label> {
    let mut text = vec![0; BYTES_MAX];
    let length = fgetxattr(file, NAME, &mut text[..]).ok()?;
    serde_json::from_slice(&text[..length]).ok()
}

impl Partition {
    /// Objects that change in place, ascending. Only names are read.
    pub fn live_objects(&self) -> Result<Vec<ObjectId>> {
        list::live_objects(&self.shared)
    }

    /// Seals a live object that no catalogue knows, as it is: from then on it is an object like others, which says what it is of. Nobody
    /// may write to it any more.
    ///
    /// # Errors
    /// [`base::ErrorKind::NotFound`]: nothing says which file it is of. It is left as it is.
    pub fn seal_orphan(&self, object: ObjectId) -> Result<()> {
        let live = self.live(object)?;
        let label = live.file.get().and_then(read).ok_or_else(|| {
            Failure::not_found(format!(
                "live object {object} on {} does not say of which file it is",
                self.shared.name()
            ))
        })?;
        // When it was written last: the catalogue that knew better is lost.
        let written = live.modified().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let now = Timestamp(written.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)));
        let size = live.size()?;
        self.seal_live(object, &Seal { label: &label, size, base: None, now })?;
        self.forget_fences(object)
    }
}
