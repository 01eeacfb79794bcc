//! The doors: XRootD, HTTP with WebDAV and the management API, and the console.

pub mod console;
pub mod files;
pub mod http;
pub mod xrootd;
