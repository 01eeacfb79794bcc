//! The XRootD door, black box: driven by the field's clients, by our own, and by hand-made bytes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests and their support: a panic is the report"
)]

mod directory;
mod door;
mod foreign_clients;
mod own_client;
mod raw_sessions;
mod unproven;
