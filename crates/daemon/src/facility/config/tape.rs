//! The tape server of a host and its libraries.

use super::{LibraryConfig, library};
use crate::facility::layout::LIBRARY;
use base::{
    Failure, Millis, Result,
    limits::TAPE_BUNDLED_FILE_BYTES_MAX,
    units::{Size, Span, counted},
};
use serde::{Deserialize, Serialize};

/// The tape server and its virtual library. The library is made with the facility, or when the host joins: changes of `drives`,
/// `slots`, `volumes` and `prefix` do not alter it afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tape {
    /// Number of drives; 0: this host has no such library, only those of `[[tape.library]]`.
    pub drives: u16,
    /// Number of slots.
    pub slots: u16,
    /// Number of cartridges; their labels are the prefix and a number from 0001 on.
    pub volumes: u16,
    /// Prefix of the labels, one or two of A-Z 0-9. Labels must be unique in the facility.
    pub prefix: String,
    /// Capacity of a cartridge.
    pub volume_size: Size,
    /// Length of data blocks on tape, between 80B and 1MiB.
    pub block: Size,
    /// Smaller files share a tape file with others of the same session; `0B`: none does. `64MiB` at most. Like the two that follow it
    /// counts on the head's host.
    pub bundle_below: Size,
    /// Bytes after which such a tape file is closed.
    pub bundle_size: Size,
    /// How long a small file waits for others to fill one.
    pub bundle_wait: Span,
    /// How long a volume may be neither written nor verified before idle drives read it and compare it with the catalogue; `0s`: for
    /// ever. It counts on the head's host.
    pub verify_interval: Span,
    /// How long the virtual library takes to load a cartridge; real drives need about 15 s.
    pub load_time: Span,
    /// Libraries beside the virtual one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub library: Vec<LibraryConfig>,
}

impl Default for Tape {
    fn default() -> Self {
        let block = Size(u64::from(base::limits::TAPE_BLOCK_BYTES));
        Self {
            drives: 2,
            slots: 16,
            volumes: 8,
            prefix: "BP".to_owned(),
            volume_size: Size(16 << 30),
            block,
            bundle_below: Size(16 << 20),
            bundle_size: Size(1 << 30),
            bundle_wait: Span(Millis(0)),
            verify_interval: Span(Millis::from_seconds(365 * 24 * 3600)),
            load_time: Span(Millis(0)),
            library: Vec::new(),
        }
    }
}

impl Tape {
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if !(80..=1 << 20).contains(&self.block.0) {
            return refuse(
                format!("tape.block = {} is not between 80B and 1MiB", self.block),
                "256KiB is usual",
            );
        }
        if self.volumes > self.slots {
            let slots = counted(self.slots.into(), "slot", "slots");
            let what = format!("tape.volumes = {} do not fit {slots}", self.volumes);
            return refuse(what, "raise tape.slots");
        }
        if !is_prefix(&self.prefix) {
            let what = format!("tape.prefix = {:?} is not one or two of A-Z 0-9", self.prefix);
            return refuse(what, "BP is usual: labels have six characters, four of them a number");
        }
        if self.bundle_below.0 > TAPE_BUNDLED_FILE_BYTES_MAX {
            let most = Size(TAPE_BUNDLED_FILE_BYTES_MAX);
            let what = format!("tape.bundle_below = {} is above {most}", self.bundle_below);
            return refuse(what, "a tape server holds such files in memory");
        }
        if self.volume_size.0 < 1 << 20 {
            return refuse(
                format!("tape.volume_size = {} is below 1MiB", self.volume_size),
                "labels alone need some of it",
            );
        }
        library::check(&self.library, (self.drives > 0).then_some(LIBRARY))
    }
}

/// Whether labels can begin with it: a number of four digits follows.
pub(super) fn is_prefix(text: &str) -> bool {
    let is_label = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    (1..=2).contains(&text.len()) && text.chars().all(is_label)
}
