//! The tape server of a host and its libraries.

use super::{LibraryConfig, library};
use crate::facility::layout::LIBRARY;
use base::{
    Failure, Millis, Result,
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
