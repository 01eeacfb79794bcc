//! Live objects: files that change in place, through mounts.

use crate::{
    control::Layout,
    media::object::{Holder, Label},
};
use base::{Checksums, FileId, FilePath, ObjectId};
use serde::{Deserialize, Serialize};
use share::{Fence, Generation};

/// Asks with what a live object begins that a client wants to write to for the first time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BeginLive {
    /// The object.
    pub object: ObjectId,
    /// Number of this start of it: drawn when the disk server has opened it anew, and has forgotten what it had fenced in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<LiveStart>,
}

/// Number of a start of a live object at its disk server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LiveStart(pub u64);

/// With what a live object begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveBase {
    /// An object of the same partition; `None`: with nothing.
    pub object: Option<ObjectId>,
    /// Its bytes.
    pub size: u64,
    /// Which file it is of. It is noted beside the object, for a catalogue that is made anew; `None`: it cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Grants below this one have ended: their writes are refused.
    #[serde(default)]
    pub floor: Generation,
}

/// Asks what is to be done with live objects of a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextLiveOrders {
    /// The partition.
    pub partition: String,
}

/// What is to be done with a live object. Each is told until it was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveOrder {
    /// Writes of older grants are refused from now on: durable before [`LiveFenced`].
    Fence {
        /// The object.
        object: ObjectId,
        /// What is refused.
        fence: Fence,
    },
    /// Nobody writes: it becomes an object like others. An object that was never opened becomes an empty one.
    Seal {
        /// The object.
        object: ObjectId,
        /// The content of which it is, as its description says: all copies have the same. 0: the number of the object.
        #[serde(default)]
        content: u64,
        /// Its file, likewise.
        file: FileId,
        /// The file's path.
        path: FilePath,
        /// Whose it is.
        holder: Holder,
        /// Bytes that count; what lies behind them was never committed.
        size: u64,
    },
    /// Nobody writes: the columns of a file become an object like others, which is reported as sealed.
    Join {
        /// The object that is made.
        object: ObjectId,
        /// The content of which it is, as its description says.
        content: u64,
        /// Its file, likewise.
        file: FileId,
        /// The file's path.
        path: FilePath,
        /// Whose it is.
        holder: Holder,
        /// Bytes of the file.
        size: u64,
        /// The columns, with capabilities to read them.
        layout: Layout,
    },
}

/// Orders of live objects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveOrders {
    /// In any order.
    pub orders: Vec<LiveOrder>,
}

/// A fence is durable, or the object is gone for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveFenced {
    /// The partition.
    pub partition: String,
    /// The object.
    pub object: ObjectId,
    /// The grant that was ended.
    pub generation: Generation,
}

/// A live object became one that never changes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LiveSealed {
    /// The partition.
    pub partition: String,
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Of all of them.
    pub checksums: Checksums,
}
