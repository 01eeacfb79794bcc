//! The directory of a facility: its configuration, what lies where in it, and how the rooms of this host reach the head.

pub mod config;
pub mod layout;
pub mod link;
pub mod private_files;
