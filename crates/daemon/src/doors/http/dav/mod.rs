//! WebDAV: methods on names.

pub(crate) mod copy;
pub(crate) mod properties;
pub(crate) mod tree;
