//! A blocking client of the XRootD protocol: one connection, one thread, many requests in flight.
//!
//! Deadlines are driven by progress: every byte that arrives starts a new one, and a server that says "the answer
//! comes later" moves it.
//!
//! ```no_run
//! use client::xrd::{File, FileSystem, Options, XrdUrl};
//! let url: XrdUrl = "root://disk1:1094//data/run1.root".parse()?;
//! let options = Options::default();
//! let mut bytes = 0;
//! let mut file = File::open_read(&url, &options)?;
//! file.copy_to(&mut |piece| {
//!     bytes += piece.len();
//!     Ok(())
//! })?;
//! file.close()?;
//! let (kind, sum) = FileSystem::new(&url, &options).checksum(&url.path, None)?;
//! # let _ = (kind, sum);
//! # Ok::<(), base::Failure>(())
//! ```

mod connection;
mod file;
mod filesystem;
#[cfg(test)]
mod tests;
mod url;

pub use connection::{Connection, Options, Reply};
pub use file::{CreateOptions, File, Writer};
pub use filesystem::FileSystem;
pub use url::{PORT_DEFAULT, XrdUrl};
