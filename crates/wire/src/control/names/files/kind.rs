//! What a name stands for.

use serde::{Deserialize, Serialize};

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link. Mounts follow it; doors and verbs do not.
    Link,
    /// A named pipe between processes of one host.
    Fifo,
    /// A socket between processes of one host.
    Socket,
    /// A block device of a host.
    BlockDevice,
    /// A character device of a host.
    CharacterDevice,
}

/// The bits of a POSIX mode that say what a node is.
pub const TYPE_BITS: u32 = 0o170_000;

impl NodeKind {
    const ALL: [Self; 7] = [
        Self::Directory,
        Self::File,
        Self::Link,
        Self::Fifo,
        Self::Socket,
        Self::BlockDevice,
        Self::CharacterDevice,
    ];

    /// The bits of a POSIX mode that say so.
    #[must_use]
    pub fn type_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::File => 0o100_000,
            Self::Link => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// What a POSIX mode says; without a type, a file.
    #[must_use]
    pub fn of_mode(mode: u32) -> Option<Self> {
        match mode & TYPE_BITS {
            0 => Some(Self::File),
            bits => Self::ALL.into_iter().find(|kind| kind.type_bits() == bits),
        }
    }

    /// The letter of `ls -l`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Directory => 'd',
            Self::File => '-',
            Self::Link => 'l',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::BlockDevice => 'b',
            Self::CharacterDevice => 'c',
        }
    }

    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Link => "symbolic link",
            Self::Fifo => "named pipe",
            Self::Socket => "socket",
            Self::BlockDevice => "block device",
            Self::CharacterDevice => "character device",
        }
    }
}
