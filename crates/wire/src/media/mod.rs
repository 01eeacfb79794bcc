//! Formats on media: objects on disks, pieces of coded files, labels and virtual cartridges of tapes.

pub mod awstape;
pub mod bundle;
pub mod coded;
pub mod label;
pub mod object;
