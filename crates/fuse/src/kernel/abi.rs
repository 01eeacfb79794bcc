//! Numbers of the protocol, from `linux/fuse.h`, and its first exchange.

use super::answers::Answer;
use super::request::Request;
use rustix::io::Errno;

macro_rules! numbers {
    ($($name:ident = $value:expr;)*) => {$(
        #[doc = concat!("`FUSE_", stringify!($name), "`.")]
        pub const $name: u32 = $value;
    )*};
}

/// What the kernel asks for.
pub mod opcode {
    numbers! {
        LOOKUP = 1; FORGET = 2; GETATTR = 3; SETATTR = 4; READLINK = 5; SYMLINK = 6; MKNOD = 8; MKDIR = 9; UNLINK = 10;
        RMDIR = 11; RENAME = 12; LINK = 13; OPEN = 14; READ = 15; WRITE = 16; STATFS = 17; RELEASE = 18; FSYNC = 20;
        SETXATTR = 21; GETXATTR = 22; LISTXATTR = 23; REMOVEXATTR = 24; FLUSH = 25; INIT = 26; OPENDIR = 27; READDIR = 28;
        RELEASEDIR = 29; FSYNCDIR = 30; GETLK = 31; SETLK = 32; SETLKW = 33; ACCESS = 34; CREATE = 35; INTERRUPT = 36;
        DESTROY = 38; BATCH_FORGET = 42; FALLOCATE = 43; READDIRPLUS = 44; RENAME2 = 45; LSEEK = 46; COPY_FILE_RANGE = 47;
    }
}

/// What `fallocate` is to do, from `linux/falloc.h`.
pub mod fallocate {
    numbers! {
        KEEP_SIZE = 1 << 0; PUNCH_HOLE = 1 << 1; ZERO_RANGE = 1 << 4;
    }
}

/// What `lseek` looks for.
pub mod seek {
    numbers! {
        DATA = 3; HOLE = 4;
    }
}

/// What the kernel is told without having asked.
pub mod notice {
    numbers! {
        INVAL_INODE = 2; INC_EPOCH = 8;
    }
}

/// Which attributes are to be set.
pub mod set {
    numbers! {
        MODE = 1 << 0; UID = 1 << 1; GID = 1 << 2; SIZE = 1 << 3; ATIME = 1 << 4; MTIME = 1 << 5; HANDLE = 1 << 6; ATIME_NOW = 1 << 7; MTIME_NOW = 1 << 8;
    }
}

/// How an extended attribute is to be set.
pub mod xattr {
    numbers! {
        CREATE = 1 << 0; REPLACE = 1 << 1;
    }
}

numbers! {
    RELEASE_FLOCK_UNLOCK = 1 << 1;
    LK_FLOCK = 1 << 0;
    OPEN_DIRECT_IO = 1 << 0;
    OPEN_KEEP_CACHE = 1 << 1;
    OPEN_PARALLEL_DIRECT_WRITES = 1 << 6;
    WRITE_CACHE = 1 << 0;
    GETATTR_FH = 1 << 0;
}

/// The version of the protocol that is spoken: the first that has all that is used.
const VERSION: (u32, u32) = (7, 39);
/// The oldest kernel's that will do: Linux 5.4.
const MINOR_MIN: u32 = 31;
/// Bytes of one read or write: the most that kernels allow without being told otherwise by the administrator.
pub const IO_BYTES_MAX: u32 = 1 << 20;
/// Bytes that the kernel reads ahead at most: several requests, so that the disk server always has one to work on.
pub(crate) const AHEAD_BYTES_MAX: u32 = 4 << 20;
/// Pages of one request.
const PAGES_MAX: u16 = 256;
/// Requests that the kernel makes by itself, such as writing back mapped pages, at a time.
const BACKGROUND_MAX: u16 = 32;

/// Capabilities, low and high half.
pub mod init {
    numbers! {
        ASYNC_READ = 1 << 0; POSIX_LOCKS = 1 << 1; BIG_WRITES = 1 << 5; FLOCK_LOCKS = 1 << 10; AUTO_INVAL_DATA = 1 << 12;
        DO_READDIRPLUS = 1 << 13; READDIRPLUS_AUTO = 1 << 14; ASYNC_DIO = 1 << 15; PARALLEL_DIROPS = 1 << 18;
        EXPORT_SUPPORT = 1 << 4; MAX_PAGES = 1 << 22; EXT = 1 << 30;
        DIRECT_IO_ALLOW_MMAP = 1 << 4;
    }
}

/// Whether the kernel knows `FUSE_NOTIFY_INC_EPOCH`: Linux 6.16.
pub(crate) fn has_epoch(request: &Request) -> bool {
    let mut fields = request.fields();
    let version = fields.u32().and_then(|major| Ok((major, fields.u32()?)));
    version.is_ok_and(|version| version >= (7, 44))
}

/// Answers the kernel's greeting.
pub fn greet(request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (major, minor, ahead, flags) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    if major < VERSION.0 || (major == VERSION.0 && minor < MINOR_MIN) {
        return Err(Errno::PROTO);
    }
    let high = if flags & init::EXT != 0 { fields.u32()? } else { 0 };
    let wanted = init::ASYNC_READ
        | init::AUTO_INVAL_DATA
        | init::ASYNC_DIO
        | init::POSIX_LOCKS
        | init::BIG_WRITES
        | init::FLOCK_LOCKS
        | init::PARALLEL_DIROPS
        | init::EXPORT_SUPPORT
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::MAX_PAGES
        | init::EXT;
    let mut answer = Answer::default();
    answer.u32(VERSION.0).u32(VERSION.1.min(minor)).u32(ahead.max(AHEAD_BYTES_MAX));
    answer.u32(flags & wanted);
    answer.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX / 4 * 3).u32(IO_BYTES_MAX);
    // Times are kept in nanoseconds.
    answer.u32(1).u16(PAGES_MAX).u16(0).u32(high & init::DIRECT_IO_ALLOW_MMAP);
    for _ in 0..7 {
        answer.u32(0);
    }
    Ok(answer)
}

#[cfg(test)]
#[allow(clippy::host_endian_bytes, reason = "both ends are the same host")]
mod tests {
    use super::*;

    fn greeting(fields: &[u32]) -> Request {
        let mut body = Answer::default();
        for field in fields {
            body.u32(*field);
        }
        Request::of(opcode::INIT, 0, &body.into_bytes())
    }

    #[test]
    fn a_greeting_is_answered_with_what_both_can() {
        let all = [7, 44, 131_072, u32::MAX, u32::MAX];
        let answer = greet(&greeting(&all)).unwrap().into_bytes();
        assert_eq!(answer.len(), 64, "the length of fuse_init_out");
        assert_eq!(answer[4..8], 39u32.to_ne_bytes());
        assert_eq!(answer[32..36], init::DIRECT_IO_ALLOW_MMAP.to_ne_bytes());
        let old = greet(&greeting(&[7, 31, 0, init::POSIX_LOCKS])).unwrap().into_bytes();
        assert_eq!(
            (&old[4..8], &old[12..16]),
            (&31u32.to_ne_bytes()[..], &init::POSIX_LOCKS.to_ne_bytes()[..])
        );
        assert_eq!(greet(&greeting(&[7, 12, 0, 0])).err(), Some(Errno::PROTO));
        assert_eq!(greet(&greeting(&[7])).err(), Some(Errno::INVAL), "it ends early");
    }
}
