//! Recovery of a catalogue: backups, restores, and a rebuild from descriptions on disks and labels of volumes.

pub(crate) mod backup;
pub(crate) mod rebuild;
pub(crate) mod restored;
pub(crate) mod tape_survey;
