//! Contents of files: reading, writing, directory pages.

pub(crate) mod claims;
pub(crate) mod listing;
pub(crate) mod read;
pub(crate) mod segments;
pub(crate) mod trailer;
pub(crate) mod write;
