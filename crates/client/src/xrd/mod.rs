//! A client of the XRootD protocol: connections shared by files and threads, many requests in flight.
//!
//! Deadlines follow progress: every byte that arrives starts a new deadline, and a server that announces a later answer
//! moves it. Reading a file continues after a broken connection.
//!
//! ```no_run
//! use client::xrd::{File, FileSystem, Options, XrdUrl};
//! let url: XrdUrl = "root://disk1:1094//data/run1.root".parse()?;
//! let options = Options::default();
//! let mut bytes = 0;
//! let file = File::open_read(&url, &options)?;
//! file.copy_to(&mut |piece| {
//!     bytes += piece.len();
//!     Ok(())
//! })?;
//! file.close()?;
//! let (kind, sum) = FileSystem::new(&url, &options).checksum(&url.path, None)?;
//! # let _ = (kind, sum);
//! # Ok::<(), base::Failure>(())
//! ```

pub mod aio;
mod connections;
mod file;
mod filesystem;
mod greet;
mod mux;
mod names;
mod options;
mod pinned;
mod process;
mod retry;
mod route;
mod task;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod trouble;
mod url;

pub use file::{CreateOptions, File, ReadMode, WritePieces, Writer, write_at_once};
pub use filesystem::FileSystem;
pub use names::fuzz_names;
pub use options::{Options, TlsOptions, Token};
pub use pinned::PinnedFile;
pub use url::{PORT_DEFAULT, XrdUrl};
