//! What went wrong, as C sees it: a number in `errno`, and a text for people.

use crate::foreign;
use base::{ErrorKind, Failure};
use libc::c_int;
use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    fmt::Display,
    io,
    panic::{self, AssertUnwindSafe},
};

/// The kind of failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The number of `errno.h`.
    pub(crate) errno: c_int,
    /// What failed, on which thing, and the next step if one is known.
    pub(crate) text: String,
}

/// Result with a [`Fault`].
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// Errors of a connection that say more than the kind of the failure.
const NETWORK: [c_int; 7] = [
    libc::ECONNREFUSED,
    libc::ECONNRESET,
    libc::ECONNABORTED,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::ENETDOWN,
    libc::ETIMEDOUT,
];

/// The table of this door: what each kind is in `errno.h`.
fn errno_of(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::NotDirectory => libc::ENOTDIR,
        ErrorKind::IsDirectory => libc::EISDIR,
        ErrorKind::NotEmpty => libc::ENOTEMPTY,
        ErrorKind::Permission => libc::EACCES,
        ErrorKind::Invalid => libc::EINVAL,
        ErrorKind::Busy | ErrorKind::Locked => libc::EBUSY,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::OverQuota => libc::EDQUOT,
        // What file systems answer when a checksum is wrong.
        ErrorKind::Corrupt => libc::EBADMSG,
        ErrorKind::Io | ErrorKind::Internal => libc::EIO,
        ErrorKind::Unsupported => libc::ENOTSUP,
        ErrorKind::Timeout => libc::ETIMEDOUT,
        ErrorKind::Unavailable => libc::EHOSTUNREACH,
    }
}

/// The number of a failure: by its kind, or by the error of the network that it was made from.
fn errno_of_failure(failure: &Failure) -> c_int {
    let is_network = matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Io | ErrorKind::Timeout);
    let network = failure.os_error.filter(|errno| is_network && NETWORK.contains(errno));
    network.unwrap_or_else(|| errno_of(failure.kind))
}

impl Fault {
    /// A fault of this number that says this.
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }

    /// A pointer is null that must not be.
    pub(crate) fn null(what: &str) -> Self {
        Self::new(libc::EFAULT, format!("{what} is a null pointer"))
    }

    /// The local system refused.
    pub(crate) fn local(operation: impl Display, cause: impl Into<io::Error>) -> Self {
        let cause = cause.into();
        Self::new(cause.raw_os_error().unwrap_or(libc::EIO), format!("{operation}: {cause}"))
    }

    /// Adds the next step.
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.text = format!("{}\nhint: {hint}", self.text);
        self
    }

    /// Our own bug.
    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no words for it");
        Self::new(libc::EIO, format!("a bug of the rfio library: {text}"))
            .hint("tell its authors; the descriptor may be unusable")
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let fault = Self::new(errno_of_failure(&failure), failure.what);
        failure.hint.iter().fold(fault, |fault, hint| fault.hint(hint))
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(c"no failure".to_owned());
}

/// Runs the body of a call. A fault or a panic becomes `failed`, with `errno` and the text set; otherwise `errno` is left
/// as it was.
pub(crate) fn answer<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let errno = foreign::errno();
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    match outcome.unwrap_or_else(|payload| Err(Fault::panic(&*payload))) {
        Ok(value) => {
            foreign::set_errno(errno);
            value
        }
        Err(fault) => {
            let text = CString::new(fault.text.replace('\0', " ")).unwrap_or_default();
            // A thread that is being torn down has no place for texts any more.
            let _ = LAST.try_with(|last| last.replace(text));
            foreign::set_errno(fault.errno);
            failed
        }
    }
}

/// The text of the last failure of this thread; the pointer is good until its next one.
pub(crate) fn last_pointer() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The text of the last failure of this thread.
pub(crate) fn last() -> String {
    LAST.try_with(|last| text_of(&last.borrow())).unwrap_or_default()
}

fn text_of(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_become_numbers_and_text() {
        let fault = Fault::from(Failure::not_found("open root://h//x: no such file").hint("look"));
        assert_eq!(fault, Fault::new(libc::ENOENT, "open root://h//x: no such file\nhint: look"));
        assert_eq!(Fault::from(Failure::no_space("full")).errno, libc::ENOSPC);
        assert_eq!(Fault::from(Failure::unavailable("gone")).errno, libc::EHOSTUNREACH);
    }

    #[test]
    fn errors_of_the_network_are_told_as_they_are() {
        for errno in NETWORK {
            let failure = Failure::io("connect to h:1094", &io::Error::from_raw_os_error(errno));
            assert_eq!(Fault::from(failure.during("open root://h//x")).errno, errno);
        }
        // Somebody else's number in a refusal is not ours.
        assert_eq!(Fault::from(Failure::permission("no (os error 111)")).errno, libc::EACCES);
    }

    #[test]
    fn panics_end_here() {
        foreign::set_errno(libc::EDOM);
        assert_eq!(answer(-1, || Ok(7)), 7);
        assert_eq!(foreign::errno(), libc::EDOM);
        assert_eq!(answer(-1, || panic!("odd {}", 3)), -1);
        assert_eq!(foreign::errno(), libc::EIO);
        assert!(last().starts_with("a bug of the rfio library: odd 3\nhint: "), "{}", last());
        assert_eq!(answer(-1, || Err(Fault::new(libc::ENOENT, "a\0b"))), -1);
        assert_eq!((foreign::errno(), last().as_str()), (libc::ENOENT, "a b"));
    }
}
