//! Checksums of content: which there are, how they are computed, and what is known or claimed of one content.
//!
//! [`algorithm`] is the registry. Names at both doors, header fields, what a disk server computes on demand and what the C library
//! computes of local files follow from one row there.

pub mod algorithm;
mod cksum;
mod hashing;
mod sums;

pub use algorithm::DigestAlgorithm;
pub use hashing::Hashing;
pub use sums::{Digests, Sum};
