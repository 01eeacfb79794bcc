//! How disk servers notice that the catalogue went back to an older state.

use crate::control::FoundObject;
use base::Timestamp;
use serde::{Deserialize, Serialize};

/// How far a catalogue had come. Disk servers remember the last one that they saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogueMark {
    /// How often it went back to an older state and that was noticed.
    pub epoch: u64,
    /// Starts of the head.
    pub incarnation: u64,
    /// When it was started.
    pub started: Timestamp,
    /// Grows now and then as long as the catalogue changes.
    pub tick: u64,
}

/// A disk server says which state of the catalogue it saw last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareCatalogue {
    /// One of its partitions.
    pub partition: String,
    /// What it remembers; `None` if that is nothing yet.
    pub seen: Option<CatalogueMark>,
}

/// Where the catalogue is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueState {
    /// To be remembered.
    pub mark: CatalogueMark,
    /// Whether it is not known to be older than what lies on disks. Else the disk server says what it has.
    pub is_settled: bool,
}

/// Most objects in one [`CompareObjects`].
pub const COMPARE_OBJECTS_LEN_MAX: usize = 1000;

/// A disk server says what lies on a partition, part after part, so that an operator sees what the catalogue does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareObjects {
    /// The partition.
    pub partition: String,
    /// What was said before counts no more.
    pub is_first: bool,
    /// This was all.
    pub is_last: bool,
    /// Complete objects, [`COMPARE_OBJECTS_LEN_MAX`] at most.
    pub objects: Vec<FoundObject>,
}
