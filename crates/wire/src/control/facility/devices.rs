//! Devices of tape servers.

use serde::{Deserialize, Serialize};

/// What a drive says it is, and where it is. Empty: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveDevice {
    /// Vendor.
    pub vendor: String,
    /// Model.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Where its tape server reaches it, such as `/dev/sg3`.
    pub address: String,
}

impl DriveDevice {
    /// All of it in one line.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { vendor, model, serial, address } = self;
        let parts = [vendor, model, serial, address].map(|part| part.trim());
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
