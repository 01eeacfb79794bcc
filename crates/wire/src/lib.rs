//! Every byte that crosses a process boundary or lands on media, as pure codecs.
//!
//! **Problem.** Bytes from peers and media may be cut, damaged or hostile. Media that were written once must stay
//! readable for ever.
//!
//! **Idea.** A codec turns bytes into values and back, without a clock, a network, a file system or an async runtime.
//! So tests, fuzzers and simulations drive it as daemons do. A page in `spec/` draws each format byte by byte.
//!
//! **Start reading** with [`control`], the calls of the management API, or with [`xrd`], the XRootD protocol.
//! [`media::object`] is the description beside each replica, [`media::label`] the labels on tape, [`auth::capability`]
//! the right to one object.

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
