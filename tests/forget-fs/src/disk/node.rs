//! Files, directories, links and special files.

use super::content::Content;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Number of a node; that of the root is the one that the kernel knows.
pub(crate) type NodeId = u64;

/// What `stat` shows, apart from the size and the number of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Kind and permission bits.
    pub(crate) mode: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Time of the last access that was set; reads do not change it.
    pub(crate) accessed: Duration,
    /// Time of the content.
    pub(crate) modified: Duration,
    /// Time of the attributes.
    pub(crate) changed: Duration,
}

/// Names in a directory.
pub(crate) type Names = BTreeMap<String, NodeId>;

/// What a node holds.
#[derive(Debug)]
pub(crate) enum Body {
    /// A file.
    File(Content),
    /// A directory: its names as programs see them, as the disk has them, and the directory that it lies in.
    Directory { live: Names, durable: Names, parent: NodeId },
    /// A symbolic link.
    Link(String),
    /// A socket, a pipe or a device with its number.
    Special(u32),
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// As programs see them.
    pub(crate) live: Attributes,
    /// As the disk has them.
    pub(crate) durable: Attributes,
    /// What it holds.
    pub(crate) body: Body,
    /// Names that programs see.
    pub(crate) links: u32,
    /// All that keeps it: names of both kinds, changes of names that are not durable, open files.
    pub(crate) holders: u32,
}

impl Node {
    /// Makes one without a name. Its attributes reach the disk together with it.
    pub(crate) fn new(attributes: Attributes, body: Body) -> Self {
        Self { live: attributes, durable: attributes, body, links: 0, holders: 0 }
    }

    /// Whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    /// Its content, if it is a file.
    pub(crate) fn content(&self) -> Option<&Content> {
        if let Body::File(content) = &self.body { Some(content) } else { None }
    }

    /// Names in it as programs see them, if it is a directory.
    pub(crate) fn names(&self) -> Option<&Names> {
        if let Body::Directory { live, .. } = &self.body { Some(live) } else { None }
    }

    /// Bytes that `stat` shows.
    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.size(),
            Body::Link(target) => target.len() as u64,
            Body::Directory { .. } | Body::Special(_) => 0,
        }
    }
}

/// The time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
