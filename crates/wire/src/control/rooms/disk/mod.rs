//! Between a disk server and the head: partitions, reads, writes, copies, scans, adoption, a catalogue that went back.

pub mod adoption;
pub mod catalogue;
pub mod copies;
pub mod live;
pub mod partitions;
pub mod reads;
pub mod scans;
pub mod writes;

pub use self::{adoption::*, catalogue::*, copies::*, live::*, partitions::*, reads::*, scans::*, writes::*};
