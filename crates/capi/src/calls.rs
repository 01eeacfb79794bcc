//! The calls that C sees. Each makes values of its arguments and hands them on; `rfio.h` is generated from this file.
#![expect(unsafe_code, reason = "C calls these by name, and passes pointers that only C vouches for")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the POSIX calls; they stand in rfio(3)"
)]

use crate::{
    checksum,
    descriptor::{self, Descriptor},
    directory,
    fault::{self, Fault, Result, answer},
    foreign, names,
};
use base::ByteRange;
use client::xrd::ReadMode;
use libc::{c_char, c_int, c_void, dirent, mode_t, ssize_t, stat};
use share::LockMode;
use std::{
    io::{SeekFrom, Write as _},
    ptr,
    sync::Arc,
};

/// Read-ahead follows what is read. This is how a file is read unless rfio_advise says otherwise.
pub const RFIO_AUTOMATIC: c_int = 0;
/// The file is read from its start to its end: much is read ahead.
pub const RFIO_SEQUENTIAL: c_int = 1;
/// The file is read here and there: nothing is read ahead.
pub const RFIO_RANDOM: c_int = 2;

/// For rfio_open: what is written is seen at once by all that have the file open like this or in a mount, instead of
/// becoming the file at rfio_close. For files of the facility, bp:, and of this host.
pub const RFIO_SHARED: c_int = 1 << 30;

/// Bytes of a file: length of them from offset on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RfioRange {
    /// First byte, from the start of the file.
    pub offset: i64,
    /// Number of bytes.
    pub length: i64,
}

/// A directory that is being read.
#[derive(Debug)]
pub struct RfioDir(());

impl RfioRange {
    /// The range, if it is one.
    pub(crate) fn checked(&self) -> Result<ByteRange> {
        let Self { offset, length } = *self;
        let end = offset.checked_add(length).filter(|_| offset >= 0 && length >= 0);
        let range = end.map(|end| ByteRange { offset: offset as u64, end: end as u64 });
        range.ok_or_else(|| {
            Fault::invalid(format!("{length} bytes at {offset} are not a valid range of a file"))
        })
    }
}

/// Does something of which only success is told.
fn status(body: impl FnOnce() -> Result<()>) -> c_int {
    answer(-1, || body().map(|()| 0))
}

/// Does something on an open file that counts bytes.
fn count(fd: c_int, body: impl FnOnce(&Descriptor) -> Result<usize>) -> ssize_t {
    answer(-1, || {
        let descriptor: Arc<Descriptor> = descriptor::get(fd)?;
        body(&descriptor).map(|count| count as ssize_t)
    })
}

/// An offset or a size; it cannot be negative.
fn natural(value: i64, what: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| Fault::invalid(format!("{what} {value} is negative")))
}

// Open files

/// Opens a file as open does, and returns its descriptor, or -1 with errno set. All three arguments must be given; mode
/// matters with O_CREAT only. A path that begins with root:// or roots:// is on a server, one that begins with bp: in the
/// facility that BP_FACILITY names, any other on this host. The descriptor is for the calls of this file only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a C string or null.
    answer(-1, || descriptor::open(unsafe { foreign::text(path, "the path") }?, flags, mode))
}

/// Closes a file. What was written becomes the file now: a failure means that it did not, and that the file is as it was
/// before it was opened. A process that ends without this call leaves nothing.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_close(fd: c_int) -> c_int {
    status(|| descriptor::close(fd))
}

/// Reads at the position and moves it. Fewer bytes than asked for, on a server, means the end of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_read(fd: c_int, buffer: *mut c_void, length: usize) -> ssize_t {
    // SAFETY: the caller's buffer has room for `length` bytes, or is null.
    count(fd, |file| file.channel().read(unsafe { foreign::room(buffer, length) }?))
}

/// Writes at the position and moves it. Small writes are gathered; when one of them fails, a later call tells, at the
/// latest rfio_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_write(fd: c_int, buffer: *const c_void, length: usize) -> ssize_t {
    // SAFETY: the caller's buffer has `length` bytes, or is null.
    count(fd, |file| file.channel().write(unsafe { foreign::bytes(buffer, length) }?))
}

/// Reads at an offset; the position stays. Threads may do so at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pread(fd: c_int, buffer: *mut c_void, length: usize, offset: i64) -> ssize_t {
    count(fd, |file| {
        let offset = natural(offset, "offset")?;
        // SAFETY: the caller's buffer has room for `length` bytes, or is null.
        file.channel().read_at(offset, unsafe { foreign::room(buffer, length) }?)
    })
}

/// Writes at an offset; the position stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pwrite(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    offset: i64,
) -> ssize_t {
    count(fd, |file| {
        let offset = natural(offset, "offset")?;
        // SAFETY: the caller's buffer has `length` bytes, or is null.
        file.channel().write_at(offset, unsafe { foreign::bytes(buffer, length) }?)
    })
}

/// Moves the position as lseek does, and returns it; whence is SEEK_SET, SEEK_CUR or SEEK_END.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_lseek(fd: c_int, offset: i64, whence: c_int) -> i64 {
    answer(-1, || {
        let descriptor = descriptor::get(fd)?;
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(natural(offset, "offset")?),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            _ => return Err(Fault::invalid(format!("whence {whence} is not valid"))),
        };
        descriptor.channel().seek(to).map(|position| position as i64)
    })
}

/// Announces n ranges that will be read, in this order: the server sends them ahead, and reads inside them are answered
/// from what has come. Announcements add up; n = 0 takes them back. A hint, which changes speed and never results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_preseek(fd: c_int, ranges: *const RfioRange, n: c_int) -> c_int {
    status(|| {
        let descriptor = descriptor::get(fd)?;
        // SAFETY: the caller passes `n` ranges, or null.
        descriptor.channel().preseek(&unsafe { foreign::ranges(ranges, n) }?)
    })
}

/// Reads n ranges in few requests, each into a buffer of its length, and returns the number of bytes. A range that
/// reaches past the end of the file fails with EINVAL; buffers must not share memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_readv_ranges(
    fd: c_int,
    ranges: *const RfioRange,
    buffers: *const *mut c_void,
    n: c_int,
) -> ssize_t {
    count(fd, |file| {
        // SAFETY: the caller passes `n` ranges, or null.
        let ranges = unsafe { foreign::ranges(ranges, n) }?;
        // SAFETY: and as many buffers with room for them, or null.
        let mut rooms = unsafe { foreign::rooms(buffers, &ranges) }?;
        file.channel().read_ranges(&ranges, &mut rooms)?;
        Ok(rooms.iter().map(|room| room.len()).sum())
    })
}

/// Says how the file will be read: RFIO_AUTOMATIC, RFIO_SEQUENTIAL or RFIO_RANDOM. A hint, as above.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_advise(fd: c_int, advice: c_int) -> c_int {
    status(|| {
        let descriptor = descriptor::get(fd)?;
        let mode = match advice {
            RFIO_AUTOMATIC => ReadMode::Automatic,
            RFIO_SEQUENTIAL => ReadMode::Sequential,
            RFIO_RANDOM => ReadMode::Random,
            _ => return Err(Fault::invalid(format!("advice {advice} is not valid"))),
        };
        descriptor.channel().advise(mode)
    })
}

/// Sets the size of an open file.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_ftruncate(fd: c_int, length: i64) -> c_int {
    status(|| descriptor::get(fd)?.channel().truncate(natural(length, "length")?))
}

/// Takes or changes a lock on length bytes from start on, 0: to the end however long the file becomes. Kind is F_RDLCK,
/// F_WRLCK, or F_UNLCK to give it back, as fcntl has them; it belongs to the descriptor. Against others, in mounts too, it
/// is waited for if wait is not 0; else the call fails with EAGAIN. For files of this host, and for RFIO_SHARED.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_lock(fd: c_int, kind: c_int, start: i64, length: i64, wait: c_int) -> c_int {
    status(|| {
        let descriptor = descriptor::get(fd)?;
        let mode = match kind {
            libc::F_RDLCK => Some(LockMode::Shared),
            libc::F_WRLCK => Some(LockMode::Exclusive),
            libc::F_UNLCK => None,
            _ => return Err(Fault::invalid(format!("type {kind} of a lock is not valid"))),
        };
        let range = RfioRange { offset: start, length }.checked()?;
        let end = if length == 0 { u64::MAX } else { range.end };
        let range = ByteRange { offset: range.offset, end };
        if descriptor.channel().lock(range, mode, wait != 0)? {
            return Ok(());
        }
        Err(Fault::new(libc::EAGAIN, "others have a lock on these bytes").hint("`bp lease` shows who"))
    })
}

/// Returns when what was written is on stable storage. On a server it still becomes the file at rfio_close only.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_fsync(fd: c_int) -> c_int {
    status(|| descriptor::get(fd)?.channel().sync())
}

/// Tells the attributes of an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fstat(fd: c_int, buffer: *mut stat) -> c_int {
    status(|| {
        let attributes = descriptor::get(fd)?.channel().attributes()?;
        // SAFETY: the caller's buffer has room for a `struct stat`, or is null.
        unsafe { foreign::put_stat(buffer, &attributes) }
    })
}

// Names

/// Tells the attributes of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_stat(path: *const c_char, buffer: *mut stat) -> c_int {
    status(|| {
        // SAFETY: the caller passes a C string or null.
        let attributes = names::stat(unsafe { foreign::text(path, "the path") }?)?;
        // SAFETY: the caller's buffer has room for a `struct stat`, or is null.
        unsafe { foreign::put_stat(buffer, &attributes) }
    })
}

/// Tells the size of a file, or -1: for languages that do not know struct stat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_stat_size(path: *const c_char) -> i64 {
    // SAFETY: the caller passes a C string or null.
    answer(-1, || names::stat(unsafe { foreign::text(path, "the path") }?).map(|attributes| attributes.size))
}

/// Makes a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a C string or null.
    status(|| names::mkdir(unsafe { foreign::text(path, "the path") }?, mode))
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_rmdir(path: *const c_char) -> c_int {
    // SAFETY: the caller passes a C string or null.
    status(|| names::rmdir(unsafe { foreign::text(path, "the path") }?))
}

/// Removes a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller passes a C string or null.
    status(|| names::unlink(unsafe { foreign::text(path, "the path") }?))
}

/// Renames, within this host or within one server; EXDEV otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_rename(from: *const c_char, to: *const c_char) -> c_int {
    status(|| {
        // SAFETY: the caller passes C strings or null.
        let (from, to) = unsafe { (foreign::text(from, "the path")?, foreign::text(to, "the new path")?) };
        names::rename(from, to)
    })
}

/// Changes the permission bits of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_chmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a C string or null.
    status(|| names::chmod(unsafe { foreign::text(path, "the path") }?, mode))
}

/// Fails unless the caller may do all of mode: F_OK, or R_OK, W_OK and X_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller passes a C string or null.
    status(|| names::access(unsafe { foreign::text(path, "the path") }?, mode))
}

/// Sets the size of a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_truncate(path: *const c_char, length: i64) -> c_int {
    status(|| {
        // SAFETY: the caller passes a C string or null.
        names::truncate(unsafe { foreign::text(path, "the path") }?, natural(length, "length")?)
    })
}

/// Puts the checksum of a file, in hex, into a buffer of length bytes. The kind is "adler32", "crc32c" or "md5"; NULL
/// means adler32. It is taken where the file is. ERANGE: the buffer is too short; 33 bytes hold any of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_checksum(
    path: *const c_char,
    kind: *const c_char,
    buffer: *mut c_char,
    length: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller passes C strings or null.
        let path = unsafe { foreign::text(path, "the path") }?;
        let kind = if kind.is_null() {
            None
        } else {
            // SAFETY: as above.
            Some(unsafe { foreign::text(kind, "the kind") }?)
        };
        let sum = checksum::of(path, kind)?;
        // SAFETY: the caller's buffer has room for `length` bytes, or is null.
        unsafe { foreign::put_text(buffer, length, &sum) }
    })
}

// Directories

/// Opens a directory, to be read entry by entry; NULL with errno set if that fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_opendir(path: *const c_char) -> *mut RfioDir {
    answer(ptr::null_mut(), || {
        // SAFETY: the caller passes a C string or null.
        let number = directory::open(unsafe { foreign::text(path, "the path") }?)?;
        // A number that looks like a pointer: nobody follows it, so a closed one is a mistake and no disaster.
        Ok(ptr::without_provenance_mut(number as usize))
    })
}

/// Returns the next entry of a directory, without "." and "..", or NULL: behind the last with errno as it was, else with
/// errno set. The entry is good until the next call with this directory.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_readdir(directory: *mut RfioDir) -> *mut dirent {
    answer(ptr::null_mut(), || directory::read(number_of(directory)?))
}

/// Closes a directory.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_closedir(directory: *mut RfioDir) -> c_int {
    status(|| directory::close(number_of(directory)?))
}

fn number_of(directory: *mut RfioDir) -> Result<i32> {
    if directory.is_null() {
        return Err(Fault::null("the directory"));
    }
    // What does not fit was never one of ours.
    Ok(i32::try_from(directory.addr()).unwrap_or(-1))
}

// Failures

/// Tells why the last call of this thread that failed did so: operation, path, server, cause, and behind a line break a
/// hint at the next step if there is one. The text is good until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_error() -> *const c_char {
    fault::last_pointer()
}

/// Writes text, a colon and what rfio_error tells to the standard error stream; only that if text is NULL or empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_perror(text: *const c_char) {
    answer((), || {
        // SAFETY: the caller passes a C string or null.
        let text = unsafe { foreign::text(text, "the text") }.map(|text| text.to_string_lossy());
        let line = match text.ok().filter(|text| !text.is_empty()) {
            Some(text) => format!("{text}: {}\n", fault::last()),
            None => format!("{}\n", fault::last()),
        };
        // Nobody is left to be told that this failed.
        let _ = std::io::stderr().write_all(line.as_bytes());
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, os::unix::ffi::OsStrExt};

    #[test]
    fn ranges_are_checked() {
        assert!(RfioRange { offset: 3, length: 0 }.checked().unwrap().is_empty());
        for (offset, length) in [(-1, 5), (0, -1), (i64::MAX, 1)] {
            let fault = RfioRange { offset, length }.checked().unwrap_err();
            assert_eq!(fault.errno, libc::EINVAL);
        }
    }

    #[test]
    fn a_file_of_this_host_is_written_and_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = CString::new(directory.path().join("x").as_os_str().as_bytes()).unwrap();
        let mut bytes = [0_u8; 8];
        let room = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: texts are C strings, and lengths those of the arrays.
        unsafe {
            let fd = rfio_open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
            assert!(fd >= 1 << 30);
            assert_eq!(rfio_write(fd, c"12345678".as_ptr().cast(), 8), 8);
            assert_eq!(rfio_lseek(fd, -6, libc::SEEK_CUR), 2);
            assert_eq!(rfio_read(fd, room, 8), 6);
            assert_eq!(rfio_pwrite(fd, c"x".as_ptr().cast(), 1, 1), 1);
            assert_eq!(rfio_pread(fd, room, 8, 1), 7);
            assert_eq!(&bytes[..7], b"x345678");
            assert_eq!(rfio_pread(fd, room, 8, -1), -1);
            assert_eq!(foreign::errno(), libc::EINVAL);
            assert_eq!(rfio_close(fd), 0);
            assert_eq!(rfio_close(fd), -1);
        }
        assert_eq!(foreign::errno(), libc::EBADF);
    }

    #[test]
    fn what_is_no_descriptor_is_refused() {
        for fd in [-1, 0, 1, 2, c_int::MAX] {
            assert_eq!(rfio_close(fd), -1);
            assert_eq!(foreign::errno(), libc::EBADF);
            assert_eq!(fault::last(), format!("{fd} is not a file opened by rfio_open"));
        }
        // SAFETY: null is allowed everywhere.
        unsafe {
            assert_eq!(rfio_open(ptr::null(), 0, 0), -1);
            assert_eq!(foreign::errno(), libc::EFAULT);
            assert_eq!(rfio_stat(c"/".as_ptr(), ptr::null_mut()), -1);
            assert_eq!(foreign::errno(), libc::EFAULT);
        }
        assert!(rfio_readdir(ptr::null_mut()).is_null());
        assert_eq!(foreign::errno(), libc::EFAULT);
        assert_eq!(rfio_closedir(ptr::without_provenance_mut(1 << 30)), -1);
        assert_eq!(foreign::errno(), libc::EBADF);
    }
}
