//! What a power cut took.

use std::fmt;

/// Counts of what was not synced when the power was cut.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Changes of names that had reached the disk.
    pub(crate) names_kept: u64,
    /// Changes of names that had not.
    pub(crate) names_lost: u64,
    /// Pages that had reached the disk.
    pub(crate) pages_kept: u64,
    /// Pages that had not.
    pub(crate) pages_lost: u64,
    /// Pages of which some sectors had.
    pub(crate) pages_torn: u64,
    /// Files that have another size than programs saw.
    pub(crate) sizes_lost: u64,
    /// Nodes whose mode, owner or times are older than programs saw.
    pub(crate) attributes_lost: u64,
}

impl fmt::Display for Losses {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names_kept, names_lost, pages_kept, pages_lost, pages_torn, sizes_lost, attributes_lost } =
            self;
        write!(
            to,
            "names: {names_lost} lost, {names_kept} kept; pages: {pages_lost} lost, {pages_torn} torn, \
             {pages_kept} kept; sizes lost: {sizes_lost}; attributes lost: {attributes_lost}"
        )
    }
}
