//! Moves without data. A drive without LOCATE goes back to the beginning and passes over blocks and marks.

use super::{PositionReport, ScsiDrive};
use crate::{
    drive::{SpaceKind, Spaced, Stop, TapeDrive},
    scsi::{
        command::{Command, SPACE_MAX},
        device::Trouble,
        sense::{Sense, SenseKey},
        transport::{Data, Transport},
    },
};
use base::{ErrorKind, Failure, Result};

/// Code of SPACE for blocks, marks and the end of the data.
const BLOCKS: u8 = 0;
const FILEMARKS: u8 = 1;
const END_OF_DATA: u8 = 3;
/// Objects on a medium: READ POSITION counts no further. A drive that passes over more has lost its way.
const OBJECTS_MAX: u64 = u32::MAX as u64;

impl<T: Transport> ScsiDrive<T> {
    pub(super) fn go_to(&mut self, block: u64) -> Result<()> {
        if self.medium()?.at == Some(block) {
            return self.cross_check();
        }
        if block == 0 {
            return self.rewind();
        }
        let located = self.locate_by_command(block)?;
        match located {
            Some(true) => self.set_at(Some(block)),
            Some(false) => {
                let end = self.ask_position()?;
                self.note_end(end);
                return Err(self.beyond(block, end));
            }
            None => return self.go_by_spacing(block),
        }
        self.cross_check()
    }

    /// Tries the commands that the drive may have; false if the data end before the block, `None` if it has none.
    fn locate_by_command(&mut self, block: u64) -> Result<Option<bool>> {
        for is_long in [true, false] {
            let (is_offered, short) = if is_long {
                (self.capabilities.locate_16, 0)
            } else {
                (self.capabilities.locate_10, u32::try_from(block).unwrap_or(u32::MAX))
            };
            if !is_offered || !is_long && u64::from(short) != block {
                continue;
            }
            let command = if is_long { Command::locate_16(block) } else { Command::locate_10(short) };
            match self.run(&command, Data::None) {
                Ok(_) => return Ok(Some(true)),
                Err(Trouble::Sense(sense)) if sense.is_not_offered() => {
                    self.not_offered(&command);
                    let offered = &mut self.capabilities;
                    *(if is_long { &mut offered.locate_16 } else { &mut offered.locate_10 }) = false;
                }
                Err(Trouble::Sense(sense)) if is_end(&sense) => return Ok(Some(false)),
                Err(Trouble::Sense(sense)) if sense.key == SenseKey::Medium => {
                    self.set_at(None);
                    return Err(self.failure(&command, Trouble::Sense(sense)));
                }
                Err(trouble) => return Err(self.fail(&command, trouble)),
            }
        }
        Ok(None)
    }

    fn go_by_spacing(&mut self, block: u64) -> Result<()> {
        let at = self.medium()?.at;
        let is_near = |at: u64| at <= block || at - block < block;
        if !at.is_some_and(is_near) {
            self.rewind()?;
        }
        loop {
            let at = self.at()?;
            if at == block {
                return self.cross_check();
            }
            let count = (block as i64 - at as i64).clamp(-SPACE_MAX, SPACE_MAX);
            match self.space_once(BLOCKS, count)?.stop {
                None | Some(Stop::Mark) => {}
                Some(Stop::Beginning | Stop::End) => {
                    let end = self.medium()?.at;
                    return Err(self.beyond(block, end));
                }
            }
        }
    }

    fn beyond(&self, block: u64, end: Option<u64>) -> Failure {
        let end = end.map_or_else(String::new, |end| format!(", block {end}"));
        let name = self.device.name();
        let what = format!("drive {name}: block {block} is beyond the end of the data{end}");
        Failure::corrupt(what).hint("the volume differs from the catalogue; disable it and check it")
    }

    fn note_end(&mut self, end: Option<u64>) {
        if let Some(medium) = &mut self.medium {
            medium.at = end;
            medium.end = end.or(medium.end);
        }
    }

    pub(super) fn space_over(&mut self, kind: SpaceKind, count: i64) -> Result<Spaced> {
        self.at()?;
        match kind {
            SpaceKind::Blocks => self.space_blocks(count),
            SpaceKind::Filemarks => self.space_filemarks(count),
            SpaceKind::EndOfData => self.space_to_end(),
        }
    }

    fn space_blocks(&mut self, count: i64) -> Result<Spaced> {
        let mut passed = 0;
        while passed < count.unsigned_abs() {
            let rest = (count - count.signum() * passed as i64).clamp(-SPACE_MAX, SPACE_MAX);
            let spaced = self.space_once(BLOCKS, rest)?;
            passed += spaced.passed;
            if spaced.stop.is_some() {
                return Ok(Spaced { passed, ..spaced });
            }
        }
        Ok(Spaced { passed, stop: None })
    }

    /// Counts marks. How many blocks lie between them only the drive can tell; if it does not, they are counted, too.
    fn space_filemarks(&mut self, count: i64) -> Result<Spaced> {
        if self.capabilities.read_position == PositionReport::True
            && (-SPACE_MAX..=SPACE_MAX).contains(&count)
        {
            return self.space_once(FILEMARKS, count);
        }
        let mut passed = 0;
        while passed < count.unsigned_abs() {
            match self.space_once(BLOCKS, SPACE_MAX * count.signum())?.stop {
                Some(Stop::Mark) => passed += 1,
                None => {}
                stop => return Ok(Spaced { passed, stop }),
            }
        }
        Ok(Spaced { passed, stop: None })
    }

    fn space_to_end(&mut self) -> Result<Spaced> {
        let begin = self.at()?;
        if self.capabilities.read_position == PositionReport::True {
            let command = Command::space(END_OF_DATA, 0);
            match self.run(&command, Data::None) {
                Ok(_) => {}
                Err(Trouble::Sense(sense)) if is_end(&sense) => {}
                Err(trouble) => return Err(self.fail(&command, trouble)),
            }
            let end = self.ask_position()?;
            self.note_end(end);
        } else {
            while self.space_once(BLOCKS, SPACE_MAX)?.stop != Some(Stop::End) {}
        }
        Ok(Spaced { passed: self.at()? - begin, stop: None })
    }

    /// One SPACE command, and where the drive stands then.
    fn space_once(&mut self, code: u8, count: i64) -> Result<Spaced> {
        let at = self.at()?;
        if count == 0 {
            return Ok(Spaced { passed: 0, stop: None });
        }
        if at > OBJECTS_MAX {
            let name = self.device.name();
            let what = format!("drive {name}: it has passed over {at} blocks and marks without an end");
            return Err(Failure::new(ErrorKind::Io, what).hint("have the drive checked"));
        }
        let command = Command::space(code, count);
        let wanted = count.unsigned_abs();
        let (passed, stop) = match self.run(&command, Data::None) {
            Ok(_) => (wanted, None),
            Err(Trouble::Sense(sense)) => match stop(&sense, count) {
                Some(stop) => (wanted - sense.residual(wanted), Some(stop)),
                None if sense.key == SenseKey::Medium => {
                    self.set_at(None);
                    return Err(self.failure(&command, Trouble::Sense(sense)));
                }
                None => return Err(self.fail(&command, Trouble::Sense(sense))),
            },
            Err(trouble) => return Err(self.fail(&command, trouble)),
        };
        // The mark that ended a move over blocks was passed, too.
        let objects = passed + u64::from(stop == Some(Stop::Mark));
        let now = match (code, stop) {
            (_, Some(Stop::Beginning)) => Some(0),
            (FILEMARKS, _) => self.ask_position()?,
            _ if count > 0 => Some(at + objects),
            _ => at.checked_sub(objects),
        };
        self.set_at(now);
        if stop == Some(Stop::End) {
            self.note_end(now);
        }
        Ok(Spaced { passed, stop })
    }
}

/// Whether the drive has met the end of the data.
fn is_end(sense: &Sense) -> bool {
    let is_other_key = matches!(sense.key, SenseKey::NoSense | SenseKey::Medium);
    !sense.is_deferred && (sense.key == SenseKey::BlankCheck || is_other_key && sense.code == (0x00, 0x05))
}

/// Why a move over `count` ended early; `None` if the sense data are about something else.
fn stop(sense: &Sense, count: i64) -> Option<Stop> {
    let is_harmless = sense.key == SenseKey::NoSense && !sense.is_deferred;
    match () {
        () if is_end(sense) => Some(Stop::End),
        () if is_harmless && sense.filemark => Some(Stop::Mark),
        () if is_harmless && sense.end_of_medium && count < 0 => Some(Stop::Beginning),
        () => None,
    }
}
