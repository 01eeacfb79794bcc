//! Where the files of an object lie.

use super::{INCOMING, LIVE, OBJECTS, Shared};
use base::ObjectId;
use std::path::PathBuf;

impl Shared {
    pub(crate) fn incoming(&self) -> PathBuf {
        self.directory.join(INCOMING)
    }

    pub(crate) fn incoming_data(&self, object: ObjectId) -> PathBuf {
        self.incoming().join(object.to_string())
    }

    pub(crate) fn incoming_description(&self, object: ObjectId) -> PathBuf {
        self.incoming().join(format!("{object}.json"))
    }

    /// Where objects are that change in place.
    pub(crate) fn live_directory(&self) -> PathBuf {
        self.directory.join(LIVE)
    }

    /// Where all homes are.
    pub(crate) fn objects(&self) -> PathBuf {
        self.directory.join(OBJECTS)
    }

    /// The directory of an object: 256 of them keep each small.
    pub(crate) fn home(&self, object: ObjectId) -> PathBuf {
        self.objects().join(format!("{:02x}", object.0 & 0xff))
    }

    pub(crate) fn data(&self, object: ObjectId) -> PathBuf {
        self.home(object).join(object.to_string())
    }

    pub(crate) fn description(&self, object: ObjectId) -> PathBuf {
        self.home(object).join(format!("{object}.json"))
    }

    /// Where anything of an object may lie, and a name for it elsewhere; data first.
    pub(crate) fn traces(&self, object: ObjectId) -> [(PathBuf, String); 4] {
        [
            (self.data(object), object.to_string()),
            (self.description(object), format!("{object}.json")),
            (self.incoming_data(object), format!("{object}.part")),
            (self.incoming_description(object), format!("{object}.part.json")),
        ]
    }

    /// The partition's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.identity.partition
    }
}
