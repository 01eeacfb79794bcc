//! Blocks and marks, to and from the medium.

use super::{ScsiDrive, is_early_warning};
use crate::{
    drive::{Read, Written},
    scsi::{
        command::Command,
        device::{Outcome, Trouble},
        sense::{Sense, SenseKey},
        transport::{Data, Transport},
    },
};
use base::{ErrorKind, Failure, Result};
use wire::media::awstape::BLOCK_BYTES_MAX;

/// What a read has met.
enum Met {
    Read(Read),
    /// A block of so many bytes that did not come whole. The position is behind it.
    Partly(u32),
}

impl<T: Transport> ScsiDrive<T> {
    pub(super) fn write(&mut self, block: &[u8]) -> Result<Written> {
        self.at()?;
        let length_max = (self.block_bytes_max as usize).min(BLOCK_BYTES_MAX);
        if !(1..=length_max).contains(&block.len()) {
            let what =
                format!("drive {}: a block of {} bytes cannot be written", self.device.name(), block.len());
            return Err(Failure::invalid(what).hint(format!("it takes blocks of 1 to {length_max} bytes")));
        }
        let command = Command::write(block.len() as u32);
        let outcome = self.run(&command, Data::Out(block));
        self.written(&command, outcome, 1)
    }

    pub(super) fn write_marks(&mut self, count: u32) -> Result<Written> {
        self.at()?;
        if count == 0 {
            return Ok(Written::Plenty);
        }
        let mut command = Command::write_filemarks(count, self.capabilities.immediate_filemarks);
        let mut outcome = self.run(&command, Data::None);
        if let Err(Trouble::Sense(sense)) = &outcome
            && sense.is_not_offered()
            && self.capabilities.immediate_filemarks
        {
            self.capabilities.immediate_filemarks = false;
            command = Command::write_filemarks(count, false);
            outcome = self.run(&command, Data::None);
        }
        self.written(&command, outcome, count)
    }

    /// Counts what was written.
    fn written(
        &mut self,
        command: &Command,
        outcome: Result<Outcome, Trouble>,
        objects: u32,
    ) -> Result<Written> {
        let written = match outcome {
            Ok(Outcome { recovered: Some(sense), .. }) if sense.end_of_medium => Written::EarlyWarning,
            Ok(_) => Written::Plenty,
            Err(Trouble::Sense(sense)) if is_early_warning(&sense) => Written::EarlyWarning,
            // The hard end: nothing of this was written. Whether what lies before it was, the next flush says.
            Err(Trouble::Sense(sense)) if sense.key == SenseKey::VolumeOverflow && !sense.is_deferred => {
                return Err(self.failure(command, Trouble::Sense(sense)));
            }
            Err(Trouble::Sense(sense)) if sense.key == SenseKey::DataProtect => {
                return Err(self.failure(command, Trouble::Sense(sense)));
            }
            Err(trouble) => return Err(self.fail(command, trouble)),
        };
        let medium = self.medium()?;
        medium.at = medium.at.map(|at| at + u64::from(objects));
        (medium.end, medium.is_dirty) = (medium.at, true);
        Ok(written)
    }

    pub(super) fn read(&mut self, block: &mut Vec<u8>) -> Result<Read> {
        self.at()?;
        // A drive that is asked for another length says which it is; if not all came, it is asked once more.
        match self.read_once(self.block_bytes, block)? {
            Met::Read(read) => Ok(read),
            Met::Partly(length) => {
                self.block_bytes = self.block_bytes.max(length);
                let back = Command::space(0, -1);
                self.run(&back, Data::None).map_err(|trouble| self.fail(&back, trouble))?;
                match self.read_once(length, block)? {
                    Met::Read(read) => Ok(read),
                    Met::Partly(now) => {
                        let name = self.device.name();
                        let what = format!("drive {name}: a block has {length} bytes, and then {now}");
                        Err(Failure::new(ErrorKind::Io, what))
                    }
                }
            }
        }
    }

    fn read_once(&mut self, wanted: u32, block: &mut Vec<u8>) -> Result<Met> {
        block.resize(wanted as usize, 0);
        let command = Command::read(wanted);
        let sense = match self.run(&command, Data::In(block)) {
            Ok(Outcome { recovered: None, transferred }) => {
                if transferred != wanted as usize {
                    let trouble =
                        Failure::new(ErrorKind::Io, format!("{transferred} bytes of {wanted} came"));
                    return Err(self.fail(&command, Trouble::Transport(trouble)));
                }
                return Ok(Met::Read(self.passed(Read::Block(wanted as usize))));
            }
            Ok(Outcome { recovered: Some(sense), .. }) | Err(Trouble::Sense(sense)) => sense,
            Err(trouble) => return Err(self.fail(&command, trouble)),
        };
        self.noted(&command, sense, wanted, block)
    }

    /// What the drive has noted about a read.
    fn noted(&mut self, command: &Command, sense: Sense, wanted: u32, block: &mut Vec<u8>) -> Result<Met> {
        let wanted = i64::from(wanted);
        let came = self.device.transferred() as i64;
        let is_harmless = matches!(sense.key, SenseKey::NoSense | SenseKey::Recovered) && !sense.is_deferred;
        if is_harmless && sense.filemark {
            block.clear();
            return Ok(Met::Read(self.passed(Read::Mark)));
        }
        if is_harmless && sense.incorrect_length {
            // What is missing of the length that was asked for, or negative: what is too much.
            let length = sense.information.map(|missing| wanted - missing);
            return match length.filter(|length| (1..=BLOCK_BYTES_MAX as i64).contains(length)) {
                // The count stays: the block was passed, and is passed back. There are targets that send less than they say.
                Some(length) if length > wanted.min(came) => Ok(Met::Partly(length as u32)),
                Some(length) => {
                    block.truncate(length as usize);
                    Ok(Met::Read(self.passed(Read::Block(length as usize))))
                }
                None => Err(self.fail(command, Trouble::Sense(sense))),
            };
        }
        if is_harmless && sense.key == SenseKey::Recovered {
            return Ok(Met::Read(self.passed(Read::Block(wanted as usize))));
        }
        let is_end = sense.key == SenseKey::BlankCheck
            // Data that reach to the very end of the tape have no end of data behind them.
            || sense.key == SenseKey::Medium && sense.end_of_medium && sense.code == (0x00, 0x02);
        if is_end {
            block.clear();
            let medium = self.medium()?;
            medium.end = medium.at;
            return Ok(Met::Read(Read::End));
        }
        if sense.key == SenseKey::Medium {
            // Other blocks can be read, but the drive may stand on either side of this one.
            self.set_at(None);
            return Err(self.failure(command, Trouble::Sense(sense)));
        }
        Err(self.fail(command, Trouble::Sense(sense)))
    }

    /// Counts an object that was read.
    fn passed(&mut self, read: Read) -> Read {
        if let Some(medium) = &mut self.medium {
            medium.at = medium.at.map(|at| at + 1);
        }
        read
    }
}
