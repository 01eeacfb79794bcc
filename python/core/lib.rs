//! The compiled module `backplane._core`: n-tuple kernels and file access for the Python package.
//!
//! It is private: its shapes are tuples and bytes, the package makes histograms and arrays of them. The interpreter is
//! released during everything that reads or computes.

mod chain;
mod failure;
mod file;
mod memory;
mod names;
mod part;
mod patience;
mod results;
mod shared;
mod source;
mod transfer;
mod tree;

use pyo3::prelude::*;

/// The compiled part of `backplane`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::chain::{Chain, cache_use, clear_cache, set_cache_capacity, set_cache_directory};
    #[pymodule_export]
    use super::file::RemoteFile;
    #[pymodule_export]
    use super::names::{Attributes, RemoteNames};
    #[pymodule_export]
    use super::shared::{SharedFile, SharedSession};
}
