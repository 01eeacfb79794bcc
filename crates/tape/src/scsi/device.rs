//! A device: what is common to all commands of all devices.

use super::{
    command::Command,
    sense::{Sense, SenseKey},
    transport::{BUSY, CHECK_CONDITION, Data, GOOD, RESERVATION_CONFLICT, TASK_SET_FULL, Transport},
};
use base::{Cause, ErrorKind, Failure};
use std::{
    fmt, thread,
    time::{Duration, Instant},
};
use tracing::{debug, info};

/// Unit attentions that a device may report one after the other; each says one thing that happened.
const ATTENTIONS_MAX: u32 = 16;
/// Longest that a device may say it is busy.
const BUSY_DEADLINE: Duration = Duration::from_secs(120);
/// Pause before a busy device is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// What an operator should know of a reset.
const RESET: &str = "somebody reset the drive; what was not flushed is written again";

/// What a unit attention means for the command that meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// The command is repeated, whatever the attention says.
    Repeat,
    /// An attention that says the position is lost ends the command: repeated, it would read or write somewhere else.
    KeepsPosition,
}

/// What came of a command that the device has carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of data that were moved.
    pub transferred: usize,
    /// What the device had to recover from, if anything.
    pub recovered: Option<Sense>,
}

/// Why a command has not simply succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The device says why.
    Sense(Sense),
    /// The device says that another initiator has reserved it.
    Reserved,
    /// The device says something that means nothing.
    Nonsense(u8),
    /// The device was reset, or could not be reached, since the last command that depends on its position.
    Reset,
    /// It is not known what the device did.
    Transport(Failure),
}

impl Trouble {
    /// The sense data, if there are any.
    #[must_use]
    pub fn sense(&self) -> Option<&Sense> {
        match self {
            Self::Sense(sense) => Some(sense),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        let sense = match self {
            Self::Sense(sense) => sense,
            Self::Reserved => return ErrorKind::Busy,
            Self::Nonsense(_) | Self::Reset => return ErrorKind::Io,
            Self::Transport(failure) => return failure.kind,
        };
        match (sense.key, sense.code) {
            (SenseKey::NotReady, (0x3a, _)) => ErrorKind::NotFound,
            (_, (0x30, _)) => ErrorKind::Unsupported,
            (SenseKey::IllegalRequest, (0x3b, 0x0d)) => ErrorKind::Exists,
            (SenseKey::IllegalRequest, (0x3b, 0x0e) | (0x21, 0x01)) => ErrorKind::NotFound,
            (SenseKey::IllegalRequest, (0x53, _)) => ErrorKind::Busy,
            (SenseKey::Medium | SenseKey::BlankCheck, _) => ErrorKind::Corrupt,
            (SenseKey::DataProtect, _) if sense.is_write_protected() => ErrorKind::Permission,
            // Encrypted, and the drive has no key.
            (SenseKey::DataProtect, _) => ErrorKind::Unsupported,
            (SenseKey::VolumeOverflow, _) => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        }
    }

    /// The failure to report for it, without the name of the device.
    #[must_use]
    pub fn failure(self, command: &Command) -> Failure {
        let failure = Failure::new(self.kind(), format!("{}: {self}", command.name()));
        match &self {
            Self::Sense(sense) if sense.is_write_protected() => failure
                .because(Cause::WriteProtected)
                .hint("the cartridge is write-protected; move its switch, or set the volume read-only"),
            Self::Sense(sense) if sense.is_position_lost() => failure.hint(RESET),
            Self::Reset => failure.hint(RESET),
            Self::Reserved => failure.hint("name each device in one library of one host only"),
            _ => failure,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sense(sense) => sense.fmt(f),
            Self::Reserved => f.write_str("another host has reserved the device"),
            Self::Nonsense(status) => write!(f, "status {status:#04x} without a reason"),
            Self::Reset => f.write_str("the device was reset before it, and its position is not known"),
            Self::Transport(failure) => failure.fmt(f),
        }
    }
}

/// A device and the way to it.
#[derive(Debug)]
pub struct Device<T> {
    name: String,
    transport: T,
    /// Bytes that the last command moved, however it ended.
    transferred: usize,
    /// How often it was reset, got another medium, or could not be reached: whatever it was doing is forgotten.
    resets: u64,
}

impl<T: Transport> Device<T> {
    /// Names the device that is at the other end of `transport`.
    pub fn new(name: impl Into<String>, transport: T) -> Self {
        Self { name: name.into(), transport, transferred: 0, resets: 0 }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that the last command moved, however it ended.
    #[must_use]
    pub fn transferred(&self) -> usize {
        self.transferred
    }

    /// How often it was reset, got another medium, or could not be reached. Whoever depends on its position compares.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// The way to it.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Has the device carry out `command`. Repeats it after unit attentions and while the device is busy; an error that
    /// the device has recovered from is a success.
    pub fn run(
        &mut self,
        command: &Command,
        mut data: Data<'_>,
        attention: Attention,
    ) -> Result<Outcome, Trouble> {
        let (mut attentions, begun) = (0, Instant::now());
        let mut may_repeat = attention == Attention::Repeat && command.is_question();
        loop {
            let reply = match self.transport.execute(command, data.again(), command.kind().deadline()) {
                Ok(reply) => reply,
                Err(failure) => {
                    self.resets += 1;
                    // A connection that ended while nobody used it is made again, once.
                    if !std::mem::take(&mut may_repeat) || failure.kind != ErrorKind::Unavailable {
                        return Err(Trouble::Transport(failure));
                    }
                    debug!(device = %self.name, cause = %failure, "device not reached; trying once more");
                    continue;
                }
            };
            let sense = Sense::decode(&reply.sense);
            self.transferred = reply.transferred;
            match (reply.status, sense) {
                (GOOD, _) => return Ok(Outcome { transferred: reply.transferred, recovered: None }),
                (CHECK_CONDITION, Some(sense)) => match sense.key {
                    SenseKey::UnitAttention if attentions < ATTENTIONS_MAX => {
                        self.resets += u64::from(sense.is_position_lost());
                        if attention == Attention::KeepsPosition && sense.is_position_lost() {
                            return Err(Trouble::Sense(sense));
                        }
                        attentions += 1;
                        debug!(device = %self.name, command = command.name(), %sense, "unit attention; repeating");
                    }
                    // The earlier command was recovered; this one was not begun.
                    SenseKey::Recovered if sense.is_deferred && attentions < ATTENTIONS_MAX => {
                        attentions += 1;
                    }
                    SenseKey::Recovered if !sense.is_deferred => {
                        info!(device = %self.name, command = command.name(), %sense, "error recovered");
                        return Ok(Outcome { transferred: reply.transferred, recovered: Some(sense) });
                    }
                    _ => return Err(Trouble::Sense(sense)),
                },
                (BUSY | TASK_SET_FULL, _) if begun.elapsed() < BUSY_DEADLINE => thread::sleep(BUSY_PAUSE),
                (RESERVATION_CONFLICT, _) => return Err(Trouble::Reserved),
                (status, _) => return Err(Trouble::Nonsense(status)),
            }
        }
    }

    /// Has the device carry out a command that fills `buffer`; returns the bytes that came.
    pub fn ask<'a>(&mut self, command: &Command, buffer: &'a mut [u8]) -> Result<&'a [u8], Trouble> {
        let outcome = self.run(command, Data::In(buffer), Attention::Repeat)?;
        let length = outcome.transferred.min(buffer.len());
        Ok(&buffer[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_protection_is_told_from_other_protection() {
        let failure = |code| {
            Trouble::Sense(Sense::new(SenseKey::DataProtect, code)).failure(&Command::test_unit_ready())
        };
        for code in [(0x27, 0x00), (0x27, 0x02), (0x30, 0x0c), (0x5a, 0x02)] {
            assert_eq!(failure(code).cause, Some(Cause::WriteProtected), "{code:?}");
        }
        let encrypted = failure((0x74, 0x01));
        assert_eq!((encrypted.kind, encrypted.cause), (ErrorKind::Unsupported, None));
    }
}
