//! What carries a command to a device and its answer back.

use super::command::Command;
use base::Result;
use std::time::Duration;

/// The data of a command, as the initiator sees their direction.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// The device fills the beginning of the buffer.
    In(&'a mut [u8]),
    /// The device takes all of it.
    Out(&'a [u8]),
}

impl Data<'_> {
    /// The same data once more, for a command that is repeated.
    pub fn again(&mut self) -> Data<'_> {
        match self {
            Self::None => Data::None,
            Self::In(buffer) => Data::In(buffer),
            Self::Out(bytes) => Data::Out(bytes),
        }
    }
}

/// Status of a command that the device has carried out.
pub const GOOD: u8 = 0x00;
/// Status of a command with sense data.
pub const CHECK_CONDITION: u8 = 0x02;
/// Status of a device that takes no command now.
pub const BUSY: u8 = 0x08;
/// Status of a device that another initiator has reserved.
pub const RESERVATION_CONFLICT: u8 = 0x18;
/// Status of a device whose queue is full.
pub const TASK_SET_FULL: u8 = 0x28;

/// The answer of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of data that were moved.
    pub transferred: usize,
    /// Status byte.
    pub status: u8,
    /// Sense data as they came; empty if there are none.
    pub sense: Vec<u8>,
}

impl Reply {
    /// A command that went well.
    #[must_use]
    pub fn good(transferred: usize) -> Self {
        Self { transferred, status: GOOD, sense: Vec::new() }
    }
}

/// A way to one device. One thread uses it; a command blocks until it is answered or its deadline passes.
///
/// Errors: `Timeout` if the device did not answer in time, `Unavailable` if it cannot be reached, `Io` otherwise. After an error
/// nobody knows whether the command was carried out. A transport connects again by itself with the next command.
pub trait Transport: Send {
    /// Where the device is, for people, such as `/dev/sg3`.
    fn address(&self) -> String;

    /// Has the device carry out `command`.
    fn execute(&mut self, command: &Command, data: Data<'_>, deadline: Duration) -> Result<Reply>;
}
