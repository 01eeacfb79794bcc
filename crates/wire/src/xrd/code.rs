//! Numbers of the protocol as types: request, answer, query and error codes.

use base::ErrorKind;

macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident: $ty:ty { $($(#[$doc:meta])* $variant:ident = $value:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($ty)]
        pub enum $name {
            $($(#[$doc])* $variant = $value,)*
        }

        impl $name {
            /// Every known value, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> $ty {
                self as $ty
            }

            /// The value of a number on the wire; `None` if it is not known.
            #[must_use]
            pub const fn from_code(code: $ty) -> Option<Self> {
                match code {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

codes! {
    /// What a request asks for (spec/xrootd.md §4).
    RequestCode: u16 {
        /// Credentials.
        Auth = 3000,
        /// Information of many sorts, see [`QueryCode`].
        Query = 3001,
        /// Changes the permission bits.
        Chmod = 3002,
        /// Closes a file; commits what was written.
        Close = 3003,
        /// Lists a directory.
        Dirlist = 3004,
        /// Asks for the protocol version and the server's role.
        Protocol = 3006,
        /// Starts the session.
        Login = 3007,
        /// Makes a directory.
        Mkdir = 3008,
        /// Renames.
        Mv = 3009,
        /// Opens a file.
        Open = 3010,
        /// Does nothing.
        Ping = 3011,
        /// Transactions on a file.
        Chkpoint = 3012,
        /// Reads.
        Read = 3013,
        /// Removes a file.
        Rm = 3014,
        /// Removes an empty directory.
        Rmdir = 3015,
        /// Flushes a file to stable storage.
        Sync = 3016,
        /// Attributes of a path or an open file.
        Stat = 3017,
        /// Hints about the client.
        Set = 3018,
        /// Writes.
        Write = 3019,
        /// User attributes of a file.
        Fattr = 3020,
        /// Stages, evicts, or cancels.
        Prepare = 3021,
        /// Flags of many paths.
        Statx = 3022,
        /// Ends a session.
        Endsess = 3023,
        /// Makes a connection a further stream of a session.
        Bind = 3024,
        /// Reads many ranges.
        Readv = 3025,
        /// Writes pages with their checksums.
        Pgwrite = 3026,
        /// Where a file is.
        Locate = 3027,
        /// Sets the size of a path or an open file.
        Truncate = 3028,
        /// Signature of the next request.
        Sigver = 3029,
        /// Reads pages with their checksums.
        Pgread = 3030,
        /// Writes many ranges.
        Writev = 3031,
        /// Copies ranges between open files.
        Clone = 3032,
    }

    /// What kind of answer follows (spec/xrootd.md §5).
    AnswerCode: u16 {
        /// The final or only answer.
        Ok = 0,
        /// A part; more follow.
        OkSoFar = 4000,
        /// Unsolicited.
        Attn = 4001,
        /// The authentication goes on.
        AuthMore = 4002,
        /// Refused.
        Error = 4003,
        /// Ask another server.
        Redirect = 4004,
        /// Ask again later.
        Wait = 4005,
        /// The answer comes later by itself.
        WaitResp = 4006,
        /// Answer whose frame has its own checksum.
        Status = 4007,
    }

    /// What a client says in a protocol request that it will do next.
    Expect: u8 {
        /// It does not say.
        Nothing = 0,
        /// Make the connection a further stream of a session.
        Bind = 1,
        /// Fetch a file as a whole.
        GetFile = 2,
        /// Log in.
        Login = 3,
        /// Log in for a third-party copy.
        Copy = 4,
    }

    /// What an unsolicited answer means.
    AttnCode: u32 {
        /// A message for people.
        Message = 5002,
        /// The answer that was announced by [`AnswerCode::WaitResp`].
        Response = 5008,
    }

    /// What a query asks (spec/xrootd.md §4.6).
    QueryCode: u16 {
        /// Counters of the server.
        Stats = 1,
        /// State of a prepare request.
        Prepare = 2,
        /// Checksum of a file.
        Checksum = 3,
        /// Attributes of a file as text.
        Xattr = 4,
        /// Space of the storage.
        Space = 5,
        /// Cancels a checksum.
        ChecksumCancel = 6,
        /// Configuration values.
        Config = 7,
        /// Visa of an open file.
        Visa = 8,
        /// Information on an open file.
        FileInfo = 9,
        /// Information on the file system.
        FilesystemInfo = 10,
        /// Implementation defined.
        Opaque = 16,
        /// Implementation defined, on a path.
        OpaquePath = 32,
        /// Implementation defined, on an open file.
        OpaqueFile = 64,
    }

    /// Why a request was refused (spec/xrootd.md §5.2).
    ErrorCode: u32 {
        /// An argument is invalid.
        ArgInvalid = 3000,
        /// An argument is missing.
        ArgMissing = 3001,
        /// An argument is too long.
        ArgTooLong = 3002,
        /// The file is in use.
        FileLocked = 3003,
        /// The handle names no open file.
        FileNotOpen = 3004,
        /// The file system failed.
        FsError = 3005,
        /// The request is not possible now or not known.
        InvalidRequest = 3006,
        /// Reading or writing failed.
        IoError = 3007,
        /// No memory.
        NoMemory = 3008,
        /// No space.
        NoSpace = 3009,
        /// Not allowed.
        NotAuthorized = 3010,
        /// No such file.
        NotFound = 3011,
        /// The server failed.
        ServerError = 3012,
        /// Not offered.
        Unsupported = 3013,
        /// No server has it.
        NoServer = 3014,
        /// Not a file.
        NotFile = 3015,
        /// A directory.
        IsDirectory = 3016,
        /// Cancelled.
        Cancelled = 3017,
        /// Exists already, or is not empty.
        ItExists = 3018,
        /// Checksum mismatch.
        ChecksumError = 3019,
        /// Already under way.
        InProgress = 3020,
        /// Quota exceeded.
        OverQuota = 3021,
        /// Signature mismatch.
        SignatureError = 3022,
        /// Decryption failed.
        DecryptError = 3023,
        /// Too much to do.
        Overloaded = 3024,
        /// Read-only storage.
        ReadOnly = 3025,
        /// The payload is malformed.
        BadPayload = 3026,
        /// No such attribute.
        AttrNotFound = 3027,
        /// Only over TLS.
        TlsRequired = 3028,
        /// No replica is left.
        NoReplicas = 3029,
        /// Authentication failed.
        AuthFailed = 3030,
        /// Cannot be done.
        Impossible = 3031,
        /// Conflicts with another request.
        Conflict = 3032,
        /// Too many errors.
        TooManyErrors = 3033,
        /// The request took too long.
        RequestTimedOut = 3034,
        /// A timer expired.
        TimerExpired = 3035,
    }
}

/// The one table between kinds of failure and codes: the first row of a kind is what we send, the only row of a code
/// is what we understand.
const KINDS: [(ErrorCode, ErrorKind); 36] = [
    (ErrorCode::ArgInvalid, ErrorKind::Invalid),
    (ErrorCode::ArgMissing, ErrorKind::Invalid),
    (ErrorCode::ArgTooLong, ErrorKind::Invalid),
    (ErrorCode::FileNotOpen, ErrorKind::Invalid),
    (ErrorCode::InvalidRequest, ErrorKind::Invalid),
    (ErrorCode::BadPayload, ErrorKind::Invalid),
    (ErrorCode::Impossible, ErrorKind::Invalid),
    (ErrorCode::Overloaded, ErrorKind::Busy),
    (ErrorCode::FileLocked, ErrorKind::Locked),
    (ErrorCode::InProgress, ErrorKind::Busy),
    (ErrorCode::NoMemory, ErrorKind::Busy),
    (ErrorCode::Conflict, ErrorKind::Busy),
    (ErrorCode::IoError, ErrorKind::Io),
    (ErrorCode::FsError, ErrorKind::Io),
    (ErrorCode::NoSpace, ErrorKind::NoSpace),
    (ErrorCode::OverQuota, ErrorKind::OverQuota),
    (ErrorCode::NotAuthorized, ErrorKind::Permission),
    (ErrorCode::SignatureError, ErrorKind::Permission),
    (ErrorCode::DecryptError, ErrorKind::Permission),
    (ErrorCode::ReadOnly, ErrorKind::Permission),
    (ErrorCode::TlsRequired, ErrorKind::Permission),
    (ErrorCode::AuthFailed, ErrorKind::Permission),
    (ErrorCode::NotFound, ErrorKind::NotFound),
    (ErrorCode::AttrNotFound, ErrorKind::NotFound),
    (ErrorCode::ServerError, ErrorKind::Internal),
    (ErrorCode::Unsupported, ErrorKind::Unsupported),
    (ErrorCode::NoServer, ErrorKind::Unavailable),
    (ErrorCode::NoReplicas, ErrorKind::Unavailable),
    (ErrorCode::Cancelled, ErrorKind::Unavailable),
    (ErrorCode::NotFile, ErrorKind::NotDirectory),
    (ErrorCode::IsDirectory, ErrorKind::IsDirectory),
    (ErrorCode::ItExists, ErrorKind::Exists),
    (ErrorCode::ChecksumError, ErrorKind::Corrupt),
    (ErrorCode::TooManyErrors, ErrorKind::Corrupt),
    (ErrorCode::RequestTimedOut, ErrorKind::Timeout),
    (ErrorCode::TimerExpired, ErrorKind::Timeout),
];

impl ErrorCode {
    /// The code that is sent for failures of `kind`.
    #[must_use]
    pub fn of(kind: ErrorKind) -> Self {
        // The protocol has one code for "exists" and "not empty"; real servers answer rmdir of a full directory so.
        let kind = if kind == ErrorKind::NotEmpty { ErrorKind::Exists } else { kind };
        KINDS.iter().find(|row| row.1 == kind).map_or(Self::ServerError, |row| row.0)
    }

    /// What a caller can do about an error with this code.
    #[must_use]
    pub fn kind(self) -> ErrorKind {
        KINDS.iter().find(|row| row.0 == self).map_or(ErrorKind::Internal, |row| row.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_exactly_one_kind_and_every_kind_a_code() {
        for code in ErrorCode::ALL {
            assert_eq!(KINDS.iter().filter(|row| row.0 == *code).count(), 1, "{code:?}");
        }
        for (_, kind) in KINDS {
            assert_eq!(ErrorCode::of(kind).kind(), kind);
        }
        assert_eq!(ErrorCode::of(ErrorKind::NotEmpty), ErrorCode::ItExists);
        assert_eq!(ErrorCode::of(ErrorKind::NotFound).code(), 3011);
        assert_eq!(ErrorCode::of(ErrorKind::Corrupt).code(), 3019);
    }

    #[test]
    fn codes_round_trip() {
        for code in RequestCode::ALL {
            assert_eq!(RequestCode::from_code(code.code()), Some(*code));
        }
        assert_eq!(RequestCode::from_code(3005), None);
        assert_eq!(AnswerCode::from_code(4007), Some(AnswerCode::Status));
    }
}
