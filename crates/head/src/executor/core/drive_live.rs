//! What the head knows of a drive and does not write down.

use base::{RequestId, Timestamp, Vid};
use wire::control::{DriveDevice, TapePhase};

/// The last report of a drive; lost when the head stops, and sent again.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriveLive {
    /// When its tape server spoke of it last.
    pub(crate) heard: Timestamp,
    /// In it, or on the way into it.
    pub(crate) loaded: Option<Vid>,
    /// On the way out of it, to make room for what is loaded now.
    pub(crate) leaving: Option<Vid>,
    /// What the drive is.
    pub(crate) device: DriveDevice,
    pub(crate) phase: Option<TapePhase>,
    /// An operator says that cartridges were moved: its library is to take the inventory.
    pub(crate) look: bool,
    pub(crate) request: Option<RequestId>,
    pub(crate) bytes_done: u64,
}

impl DriveLive {
    /// The drive is ordered to load a volume: from now on no other drive can have it, nor what must leave first.
    pub(crate) fn order(&mut self, vid: &Vid) {
        if self.loaded.as_ref() != Some(vid) {
            self.leaving = self.loaded.replace(vid.clone());
        }
    }

    /// The drive says what is in it.
    pub(crate) fn holds(&mut self, vid: Option<Vid>) {
        self.loaded = vid;
        self.leaving = None;
    }
}
