//! Getting a catalogue back: backups, restores, and rebuilding it from what disks and volumes say of themselves.

pub(crate) mod backup;
pub(crate) mod rebuild;
pub(crate) mod restored;
pub(crate) mod tape_survey;
