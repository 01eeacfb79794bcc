//! The bit fields of the protocol as types.

macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident: $ty:ty { $($(#[$doc:meta])* $flag:ident = $value:literal;)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $ty);

        impl $name {
            $($(#[$doc])* pub const $flag: Self = Self($value);)*
            /// No bit.
            pub const NONE: Self = Self(0);

            /// Whether every bit of `other` is set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits of both.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// `self` and, if `condition` holds, the bits of `other`.
            #[must_use]
            pub const fn with_if(self, condition: bool, other: Self) -> Self {
                if condition { self.with(other) } else { self }
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self { self.with(other) }
        }
    )*};
}

flags! {
    /// How to open, continued.
    OpenFlags2: u16 {
        /// Another handle of the file that is open as the template.
        DUP = 0x0001;
        /// On the file system of the template, so that ranges can be cloned.
        SAME_FILE_SYSTEM = 0x0002;
    }

    /// How to open (also used by locate).
    OpenFlags: u16 {
        /// Compressed reads; in locate: unique hosts.
        COMPRESS = 0x0001;
        /// Replace what is there.
        DELETE = 0x0002;
        /// Ignore usage rules.
        FORCE = 0x0004;
        /// Create; alone: must not exist.
        NEW = 0x0008;
        /// For reading.
        READ = 0x0010;
        /// For reading and writing.
        UPDATE = 0x0020;
        /// Asynchronous reads are welcome.
        ASYNC = 0x0040;
        /// Drop cached locations.
        REFRESH = 0x0080;
        /// Make missing directories; in locate: prefer names to addresses.
        MAKE_PATH = 0x0100;
        /// For appending.
        APPEND = 0x0200;
        /// Answer with attributes; in locate: for a listing.
        RETURN_STAT = 0x0400;
        /// Update the replica.
        REPLICA = 0x0800;
        /// Persist only on successful close.
        PERSIST_ON_CLOSE = 0x1000;
        /// Do not wait for what is not online.
        NO_WAIT = 0x2000;
        /// Sequential access is expected.
        SEQUENTIAL = 0x4000;
        /// For writing only.
        WRITE_ONLY = 0x8000;
    }

    /// What a stat says about a file.
    StatFlags: u32 {
        /// Executable file or searchable directory.
        EXECUTABLE = 1;
        /// A directory.
        DIRECTORY = 2;
        /// Neither file nor directory.
        OTHER = 4;
        /// Nearline: reading it needs a recall.
        OFFLINE = 8;
        /// The caller may read it.
        READABLE = 16;
        /// The caller may write it.
        WRITABLE = 32;
        /// Still being written, persists on close.
        WRITE_PENDING = 64;
        /// A copy on tape exists.
        BACKUP_EXISTS = 128;
    }

    /// How to list.
    DirlistOptions: u8 {
        /// Only what is online.
        ONLINE = 1;
        /// With attributes.
        STAT = 2;
        /// With checksums (and attributes).
        CHECKSUM = 4;
    }

    /// How to prepare.
    PrepareOptions: u8 {
        /// Cancel a request.
        CANCEL = 1;
        /// Tell when done.
        NOTIFY = 2;
        /// Do not tell errors.
        NO_ERRORS = 4;
        /// Bring online.
        STAGE = 8;
        /// The files will be written.
        WRITE_MODE = 16;
        /// Keep the files together.
        COLOCATE = 32;
        /// Refresh the time of access.
        FRESH = 64;
        /// Tell over TCP.
        USE_TCP = 128;
    }

    /// What a client wants to know or can do, in its protocol request.
    ProtocolFlags: u8 {
        /// Which requests must be signed.
        SECURITY = 1;
        /// The client can use TLS.
        ABLE_TLS = 2;
        /// The client wants TLS from here on.
        WANT_TLS = 4;
        /// The server's addresses.
        ADDRESSES = 8;
    }

    /// What a server is and supports, in its protocol answer.
    ServerFlags: u32 {
        /// Serves data.
        SERVER = 0x0000_0001;
        /// Redirects.
        MANAGER = 0x0000_0002;
        /// Holds metadata.
        META = 0x0000_0100;
        /// Persist-on-close is supported.
        PERSIST_ON_CLOSE = 0x0010_0000;
        /// Page reads and writes are supported.
        PAGE_IO = 0x0020_0000;
        /// Further connections of a session must use TLS.
        TLS_DATA = 0x0100_0000;
        /// A login must use TLS.
        TLS_LOGIN = 0x0400_0000;
        /// What follows a login must use TLS.
        TLS_SESSION = 0x0800_0000;
        /// Third-party copies must use TLS.
        TLS_COPY = 0x1000_0000;
        /// TLS begins after this answer.
        GOTO_TLS = 0x4000_0000;
        /// TLS is offered.
        TLS = 0x8000_0000;
    }
}
