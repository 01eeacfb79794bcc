//! The XRootD protocol.
