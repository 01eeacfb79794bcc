//! Checksums of content: the algorithms, their code, and the known or claimed sums of one content.
//!
//! [`algorithm`] is the registry. One row there gives an algorithm its names at both doors and its header fields. It
//! makes disk servers compute the sum on demand, and the C library compute it for local files.

pub mod algorithm;
mod cksum;
mod hashing;
mod sums;

pub use algorithm::DigestAlgorithm;
pub use hashing::Hashing;
pub use sums::{Digests, Sum};
