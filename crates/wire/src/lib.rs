//! Every byte that crosses a process boundary or lands on media, as pure codecs.
//!
//! Nothing here touches the clock, the network, the file system or an async runtime.

pub mod audit;
pub mod aws;
pub mod backup;
pub mod cap;
pub mod coded;
pub mod control;
pub mod http;
pub mod keys;
pub mod label;
pub mod object;
pub mod token;
pub mod x509;
pub mod xrd;

/// Whether the text of a path is that of a directory by its form: with a slash, or a component that means the same, at its end.
#[must_use]
pub fn names_directory(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "."))
}
