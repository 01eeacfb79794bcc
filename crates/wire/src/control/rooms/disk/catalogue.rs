//! How disk servers notice that the catalogue went back to an older state.

use crate::control::FoundObject;
use base::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of a catalogue. Disk servers remember the last one that they saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CatalogueMark {
    /// The number of detected restores to an older state.
    pub epoch: u64,
    /// Starts of the head.
    pub incarnation: u64,
    /// When it was started.
    pub started: Timestamp,
    /// Grows now and then as long as the catalogue changes.
    pub tick: u64,
}

/// A disk server reports the state of the catalogue that it saw last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareCatalogue {
    /// One of its partitions.
    pub partition: String,
    /// The state it remembers, if any.
    pub seen: Option<CatalogueMark>,
}

/// The current state of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueState {
    /// To be remembered.
    pub mark: CatalogueMark,
    /// Whether the catalogue is accepted as current. Otherwise the disk server lists its objects.
    pub is_settled: bool,
    /// Whether files that it does not know are taken in: objects that change in place, and that it does not know, are sealed first.
    #[serde(default)]
    pub is_recovering: bool,
}

/// Most objects in one [`CompareObjects`].
pub const COMPARE_OBJECTS_LEN_MAX: usize = 1000;

/// A disk server lists the objects of a partition, in parts, so that an operator sees those unknown to the catalogue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompareObjects {
    /// The partition.
    pub partition: String,
    /// Discard earlier parts.
    pub is_first: bool,
    /// This is the last part.
    pub is_last: bool,
    /// Complete objects, [`COMPARE_OBJECTS_LEN_MAX`] at most.
    pub objects: Vec<FoundObject>,
}
