//! Rows of the facility as a whole: hosts, labels, numbers, restores.

pub(crate) mod catalogue;
pub(crate) mod census;
pub(crate) mod hosts;
pub(crate) mod ids;
pub(crate) mod labels;
pub(crate) mod restored;
