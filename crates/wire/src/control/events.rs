//! Events of the facility: the newest ones, which the head keeps in memory.
//!
//! An event is a notice, not a record. The head publishes it after the change is durable, and loses it when the head
//! stops or newer events take its place. Durable records are in the audit log, the catalogue and the daemon's log.

use base::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Events that the head keeps: with texts of [`EVENT_TEXT_BYTES_MAX`] bytes below 4 MiB.
pub const EVENTS_KEPT_MAX: usize = 4096;
/// Events of one answer: half a megabyte of JSON at most.
pub const EVENTS_TOLD_MAX: usize = 512;
/// Bytes of what an event says; the rest of a longer text is cut off.
pub const EVENT_TEXT_BYTES_MAX: usize = 512;
/// Patterns of types that a caller may name.
pub const EVENT_PATTERNS_MAX: usize = 32;
/// Bytes of each of them: no type is as long.
pub const EVENT_PATTERN_BYTES_MAX: usize = 64;

/// Declares the types of events with the words for them.
macro_rules! event_types {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// What kind of thing happened: a noun, a dot, what became of it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum EventType {
            $($(#[$doc])* #[serde(rename = $word)] $name,)*
        }

        impl EventType {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

event_types! {
    /// The head started: the first event of each start.
    HeadStarted = "head.started";
    /// The clock of the head was set.
    ClockSet = "clock.set";
    /// The catalogue went back to an older state.
    CatalogueDoubted = "catalogue.doubted";
    /// An operator accepted the restored catalogue as it is.
    CatalogueSettled = "catalogue.settled";
    /// A generation of the facility's key was made or revoked.
    KeyChanged = "key.changed";
    /// A host joined.
    HostJoined = "host.joined";
    /// A host was removed.
    HostRemoved = "host.removed";
    /// A host that was away is here again.
    HostBack = "host.back";
    /// A host said goodbye.
    HostStopped = "host.stopped";
    /// A host does not answer, or was not heard lately.
    HostSilent = "host.silent";
    /// A partition cannot be written, read or found.
    PartitionTrouble = "partition.trouble";
    /// A partition works again.
    PartitionWell = "partition.well";
    /// A partition was silent for too long: what it has is copied again from elsewhere.
    PartitionGivenUp = "partition.given_up";
    /// A partition that was given up is back.
    PartitionBack = "partition.back";
    /// A partition is too full, and nothing on it may go.
    PartitionFull = "partition.full";
    /// Files have fewer copies than their pool promises: they are copied.
    RepairBegan = "repair.began";
    /// All files have their copies again.
    RepairEnded = "repair.ended";
    /// A replica is damaged.
    ReplicaDamaged = "replica.damaged";
    /// A replica is not where it should be.
    ReplicaMissing = "replica.missing";
    /// A scan of a partition has ended.
    ScanEnded = "scan.ended";
    /// A drive was taken out of use because of its failure.
    DriveFailed = "drive.failed";
    /// An operator took a drive out of use.
    DriveDisabled = "drive.disabled";
    /// An operator put a drive back into use.
    DriveEnabled = "drive.enabled";
    /// A volume was loaded into a drive.
    VolumeLoaded = "volume.loaded";
    /// A volume is full.
    VolumeFull = "volume.full";
    /// A file on tape cannot be read, or differs from the catalogue.
    CopyDamaged = "copy.damaged";
    /// All files of a volume were read and compared with the catalogue.
    VolumeVerified = "volume.verified";
    /// All files of a volume were copied to others.
    VolumeRepacked = "volume.repacked";
    /// A volume without files is written from its beginning.
    VolumeReclaimed = "volume.reclaimed";
    /// A volume is not used until an operator has looked at it.
    VolumeSuspect = "volume.suspect";
    /// An operator is asked to load a volume.
    OperatorAsked = "operator.asked";
    /// An operator has answered, or need not any more.
    OperatorAnswered = "operator.answered";
    /// A stage request is over: its files are on disk, or failed.
    StageDone = "stage.done";
    /// A tape request failed for good.
    RequestFailed = "request.failed";
    /// A job ended well.
    JobDone = "job.done";
    /// A job failed.
    JobFailed = "job.failed";
    /// A job was cancelled.
    JobCancelled = "job.cancelled";
}

impl EventType {
    /// Whether a person should look at what happened.
    #[must_use]
    pub fn is_trouble(self) -> bool {
        matches!(
            self,
            Self::CatalogueDoubted
                | Self::HostSilent
                | Self::PartitionTrouble
                | Self::PartitionGivenUp
                | Self::PartitionFull
                | Self::ReplicaDamaged
                | Self::ReplicaMissing
                | Self::DriveFailed
                | Self::VolumeSuspect
                | Self::OperatorAsked
                | Self::RequestFailed
                | Self::JobFailed
        )
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts the events since the start of the head, from 1.
    pub number: u64,
    /// When it happened, by the head's clock.
    pub at: Timestamp,
    /// The type.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// What it happened to, as verbs take it: a host, `POOL/PARTITION`, a drive, a volume, the number of a job, `r` and that of a
    /// tape request.
    pub subject: String,
    /// The description, as a sentence.
    pub what: String,
}

/// Returns events, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetEvents {
    /// Only later events than the one with this number.
    #[serde(default)]
    pub after: u64,
    /// Which start of the head `after` speaks of; of another one everything is told.
    #[serde(default)]
    pub incarnation: u64,
    /// Only events since then.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Only events whose types match one of these patterns; none: all.
    #[serde(default)]
    pub types: Vec<String>,
    /// Only the newest so many of them.
    #[serde(default)]
    pub newest: Option<usize>,
}

/// The answer to [`GetEvents`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Events {
    /// The start of the head, counted.
    pub incarnation: u64,
    /// The events, [`EVENTS_TOLD_MAX`] at most.
    pub events: Vec<Event>,
    /// The number to ask for the next events with.
    pub next_after: u64,
    /// Events behind `after` that are not kept any more, whatever their type.
    pub missed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_by_their_words() {
        for kind in EventType::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert!(kind.as_str().len() <= EVENT_PATTERN_BYTES_MAX);
        }
    }
}
