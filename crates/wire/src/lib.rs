//! Every byte that crosses a process boundary or lands on media, as pure codecs.
//!
//! **Problem.** Peers and media bring bytes that may be cut, damaged or hostile, and what was once written must be readable for
//! ever.
//!
//! **Idea.** Codecs are functions from bytes to values and back, without a clock, a network, a file system or an async runtime:
//! tests, fuzzers and simulations drive them as daemons do. Each has a page in `spec/`, which draws it byte by byte.
//!
//! **Start reading** with [`control`], the calls of the management API, or with [`xrd`], the XRootD protocol. [`media::object`]
//! is what lies beside each replica, [`media::label`] what lies on tape, [`auth::capability`] the right to one object.

pub mod audit;
pub mod auth;
pub mod backup;
pub mod control;
pub mod digest;
pub mod http;
pub mod media;
pub mod xrd;

/// Whether the text of a path is that of a directory by its form: with a slash, or a component that means the same, at its end.
#[must_use]
pub fn names_directory(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "."))
}
