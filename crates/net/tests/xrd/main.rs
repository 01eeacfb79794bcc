//! The XRootD door, black box: driven by the field's clients, by our own, and by hand-made bytes.

mod directory;
mod door;
mod foreign_clients;
mod own_client;
mod raw_sessions;
