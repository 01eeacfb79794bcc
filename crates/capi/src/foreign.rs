//! Converts raw memory of the caller to values, and wraps the four calls of the C library that have no safe interface.
#![expect(unsafe_code, reason = "pointers of C programs are followed here, and nowhere else")]

use crate::{
    attributes::Attributes,
    calls::RfioRange,
    fault::{Fault, Result},
};
use base::ByteRange;
use libc::{c_char, c_int, c_void};
use share::LockMode;
use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd},
    slice,
};

/// Ranges of one call: 16 MiB of them.
const RANGES_MAX: usize = 1 << 20;

/// `errno` of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library returns a valid pointer for every thread.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of this thread.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Closes a descriptor of the system, with the error that dropping it would hide.
pub(crate) fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned, and is given up: nobody closes it twice.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets a lock of an open file, or gives it back.
pub(crate) fn lock(
    file: &File,
    range: ByteRange,
    mode: Option<LockMode>,
    is_patient: bool,
) -> io::Result<()> {
    let kind = match mode {
        Some(LockMode::Shared) => libc::F_RDLCK,
        Some(LockMode::Exclusive) => libc::F_WRLCK,
        None => libc::F_UNLCK,
    };
    let bound = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let lock = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: bound(range.offset),
        // Without an end: as long as the file becomes.
        l_len: if range.end == u64::MAX { 0 } else { bound(range.length()) },
        l_pid: 0,
    };
    let command = if is_patient { libc::F_OFD_SETLKW } else { libc::F_OFD_SETLK };
    // SAFETY: the descriptor is open, and the system reads the structure during the call only.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Has these called around every fork of this process.
pub(crate) fn on_fork(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: the three are functions without state; the C library forgets them when this library is unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// A text of the caller.
///
/// # Safety
/// `pointer` is null or a C string that stays as it is for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a CStr> {
    if pointer.is_null() {
        return Err(Fault::null(what));
    }
    // SAFETY: it is not null, so it is a C string.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

fn check_length(length: usize) -> Result<()> {
    isize::try_from(length)
        .map(drop)
        .map_err(|_| Fault::invalid(format!("a length of {length} bytes is longer than any memory")))
}

/// Bytes to be written to a file.
///
/// # Safety
/// `pointer` is null or has `length` bytes that stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, length: usize) -> Result<&'a [u8]> {
    check_length(length)?;
    match length {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(Fault::null("the buffer")),
        // SAFETY: it is not null, so it has as many bytes.
        _ => Ok(unsafe { slice::from_raw_parts(pointer.cast(), length) }),
    }
}

/// Memory for bytes of a file.
///
/// # Safety
/// `pointer` is null or has room for `length` bytes, which nobody else touches for `'a`.
pub(crate) unsafe fn room<'a>(pointer: *mut c_void, length: usize) -> Result<&'a mut [u8]> {
    check_length(length)?;
    match length {
        0 => Ok(&mut []),
        _ if pointer.is_null() => Err(Fault::null("the buffer")),
        // SAFETY: it is not null, so it has room. What is in it before is never read, only overwritten.
        _ => Ok(unsafe { slice::from_raw_parts_mut(pointer.cast(), length) }),
    }
}

/// `count` ranges.
///
/// # Safety
/// `pointer` is null or has `count` ranges.
pub(crate) unsafe fn ranges(pointer: *const RfioRange, count: c_int) -> Result<Vec<ByteRange>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= RANGES_MAX);
    let count = count.ok_or_else(|| Fault::invalid(format!("not between 0 and {RANGES_MAX} ranges")))?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if pointer.is_null() {
        return Err(Fault::null("the vector of ranges"));
    }
    // SAFETY: it is not null, so it has as many.
    let ranges = unsafe { slice::from_raw_parts(pointer, count) };
    ranges.iter().map(RfioRange::checked).collect()
}

/// Memory for the bytes of each of `ranges`.
///
/// # Safety
/// `pointer` is null or has a pointer for each range, each null or with room for as many bytes, which nobody else touches
/// for `'a`.
pub(crate) unsafe fn rooms<'a>(
    pointer: *const *mut c_void,
    ranges: &[ByteRange],
) -> Result<Vec<&'a mut [u8]>> {
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    if pointer.is_null() {
        return Err(Fault::null("the vector of buffers"));
    }
    // SAFETY: it is not null, so there is one for each range.
    let pointers = unsafe { slice::from_raw_parts(pointer, ranges.len()) };
    let spans: Vec<_> = pointers
        .iter()
        .zip(ranges)
        .map(|(pointer, range)| (pointer.addr(), usize::try_from(range.length()).unwrap_or(usize::MAX)))
        .collect();
    check_apart(spans)?;
    // SAFETY: each has room for its range, and they do not overlap.
    let room = |(pointer, range): (&*mut c_void, &ByteRange)| unsafe {
        room(*pointer, usize::try_from(range.length()).unwrap_or(usize::MAX))
    };
    pointers.iter().zip(ranges).map(room).collect()
}

/// Two of our exclusive references must never name the same byte, whatever the caller thinks of it.
fn check_apart(mut spans: Vec<(usize, usize)>) -> Result<()> {
    spans.retain(|(_, length)| *length > 0);
    spans.sort_unstable();
    let touches = |pair: &[(usize, usize)]| pair[0].0.saturating_add(pair[0].1) > pair[1].0;
    if spans.windows(2).any(touches) {
        return Err(Fault::invalid("two buffers share memory"));
    }
    Ok(())
}

/// Puts a text with its final NUL where the caller has room for it.
///
/// # Safety
/// `pointer` is null or has room for `length` bytes.
pub(crate) unsafe fn put_text(pointer: *mut c_char, length: usize, text: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(Fault::null("the buffer"));
    }
    if length <= text.len() {
        let need = text.len() + 1;
        return Err(Fault::new(
            libc::ERANGE,
            format!("the buffer has room for {length} bytes, not for {need}"),
        ));
    }
    // SAFETY: it is not null and longer than the text.
    let room = unsafe { slice::from_raw_parts_mut(pointer.cast::<u8>(), text.len() + 1) };
    let (body, end) = room.split_at_mut(text.len());
    body.copy_from_slice(text.as_bytes());
    end.fill(0);
    Ok(())
}

/// Puts attributes where the caller has room for them.
///
/// # Safety
/// `pointer` is null or has room for a `struct stat`.
pub(crate) unsafe fn put_stat(pointer: *mut libc::stat, attributes: &Attributes) -> Result<()> {
    if pointer.is_null() {
        return Err(Fault::null("the buffer"));
    }
    // SAFETY: a `struct stat` is all numbers, for which zero is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    attributes.fill(&mut stat);
    // SAFETY: it is not null, so it has room.
    unsafe { pointer.write(stat) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn null_is_refused_where_something_is_needed() {
        let refused = |fault: Fault| fault.errno == libc::EFAULT;
        // SAFETY: null is allowed everywhere.
        unsafe {
            assert!(text(ptr::null(), "path").is_err_and(refused));
            assert!(bytes(ptr::null(), 1).is_err_and(refused));
            assert!(room(ptr::null_mut(), 1).is_err_and(refused));
            assert!(ranges(ptr::null(), 1).is_err_and(refused));
            assert!(rooms(ptr::null(), &[ByteRange { offset: 0, end: 1 }]).is_err_and(refused));
            assert!(put_text(ptr::null_mut(), 9, "x").is_err_and(refused));
            assert!(put_stat(ptr::null_mut(), &Attributes::default()).is_err_and(refused));
            assert_eq!(bytes(ptr::null(), 0).unwrap(), b"");
            assert_eq!(ranges(ptr::null(), 0).unwrap(), []);
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let one = [RfioRange { offset: 3, length: 4 }];
        let wrong = [RfioRange { offset: 3, length: -4 }];
        let mut small = [1 as c_char; 4];
        // SAFETY: counts are those of the arrays, or refused before anything is read.
        unsafe {
            assert_eq!(ranges(one.as_ptr(), 1).unwrap(), [ByteRange { offset: 3, end: 7 }]);
            assert_eq!(ranges(one.as_ptr(), -1).unwrap_err().errno, libc::EINVAL);
            assert_eq!(ranges(one.as_ptr(), c_int::MAX).unwrap_err().errno, libc::EINVAL);
            assert_eq!(ranges(wrong.as_ptr(), 1).unwrap_err().errno, libc::EINVAL);
            assert_eq!(bytes(one.as_ptr().cast(), usize::MAX).unwrap_err().errno, libc::EINVAL);
            assert_eq!(put_text(small.as_mut_ptr(), 4, "abcd").unwrap_err().errno, libc::ERANGE);
            put_text(small.as_mut_ptr(), 4, "abc").unwrap();
        }
        assert_eq!(small, [97, 98, 99, 0]);
    }

    #[test]
    fn buffers_that_share_memory_are_refused() {
        assert!(check_apart(vec![(100, 10), (110, 5), (105, 0), (0, 100)]).is_ok());
        assert!(check_apart(vec![(100, 10), (50, 51)]).is_err());
        assert!(check_apart(vec![(100, usize::MAX), (200, 1)]).is_err());
    }
}
