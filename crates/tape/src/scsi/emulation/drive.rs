//! An emulated tape drive.

use super::{
    Offer,
    answer::{Answer, DIED, GOOD, NO_MEDIUM, answer_of_write, be_24, be_32, copy, full, of},
    fault::{DriveFault, FaultPlan},
    inquiry,
};
use crate::{
    drive::{DriveStatus, Read, SpaceKind, Spaced, Stop, TapeDrive},
    scsi::{
        attributes,
        command::Command,
        health,
        sense::{Sense, SenseKey},
        transport::{CHECK_CONDITION, Data, Reply, Transport},
    },
    virtual_drive::VirtualDrive,
};
use base::{Failure, Result, Vid};
use std::{collections::VecDeque, time::Duration};

/// Longest block that the drive takes, as LTO drives.
const BLOCK_BYTES_MAX: u32 = 8 << 20;

/// A drive in this process.
#[derive(Debug)]
pub struct EmulatedDrive {
    serial: String,
    drive: VirtualDrive,
    offer: Offer,
    plan: FaultPlan,
    attentions: VecDeque<Sense>,
    /// Questions until the cartridge is threaded; `None`: it is, or there is none.
    polls_left: Option<(u32, Sense)>,
    /// The cartridge was let go and is still there.
    is_ejected: bool,
    is_prevented: bool,
    is_dead: bool,
}

impl EmulatedDrive {
    pub(super) fn new(serial: String, drive: VirtualDrive, offer: Offer, plan: FaultPlan) -> Self {
        let power_on = Sense { key: SenseKey::UnitAttention, code: (0x29, 0x00), ..GOOD };
        Self {
            serial,
            drive,
            offer,
            plan,
            attentions: VecDeque::from([power_on]),
            polls_left: None,
            is_ejected: false,
            is_prevented: false,
            is_dead: false,
        }
    }

    fn is_threaded(&self) -> bool {
        self.drive.status() != DriveStatus::Empty
    }

    fn vid(&self) -> Option<Vid> {
        self.drive.cartridge().ok().flatten().map(|(vid, _)| vid)
    }

    /// Looks whether the changer has put a cartridge in or has taken one away.
    fn notice_cartridge(&mut self, is_ordered: bool) {
        let cartridge = self.drive.cartridge().ok().flatten();
        let Some((_, path)) = cartridge else {
            (self.is_ejected, self.polls_left) = (false, None);
            return;
        };
        if self.is_threaded() || self.polls_left.is_some() || self.is_ejected && !is_ordered {
            return;
        }
        self.is_ejected = false;
        let is_new = path.metadata().is_ok_and(|metadata| metadata.len() == 0);
        let (polls, code) = if is_new {
            (self.offer.first_load_polls, (0x04, 0x07))
        } else {
            (self.offer.load_polls, (0x04, 0x01))
        };
        self.polls_left = Some((polls, Sense { key: SenseKey::NotReady, code, ..GOOD }));
    }

    fn readiness(&mut self) -> Answer {
        self.notice_cartridge(false);
        match self.polls_left {
            Some((0, _)) => {
                self.polls_left = None;
                if self.drive.load().is_err() {
                    return Err((Sense { key: SenseKey::Medium, code: (0x30, 0x00), ..GOOD }, 0));
                }
                // Whoever asks next learns that the medium is another one.
                Err((Sense { key: SenseKey::UnitAttention, code: (0x28, 0x00), ..GOOD }, 0))
            }
            Some((polls, sense)) => {
                self.polls_left = Some((polls - 1, sense));
                Err((sense, 0))
            }
            None if self.is_threaded() => Ok(0),
            None if self.is_ejected => {
                Err((Sense { key: SenseKey::NotReady, code: (0x04, 0x02), ..GOOD }, 0))
            }
            None => Err((NO_MEDIUM, 0)),
        }
    }

    /// Whether a fault can happen to a command.
    fn can_have(&self, fault: DriveFault, operation: u8) -> bool {
        let is_write = matches!(operation, 0x0a | 0x10);
        match fault {
            DriveFault::BadBlock => operation == 0x08 && self.is_threaded(),
            DriveFault::WriteError | DriveFault::EarlyEnd | DriveFault::WriteProtected => is_write,
            DriveFault::DeferredError => is_write && self.is_threaded(),
            DriveFault::Recovered => matches!(operation, 0x08 | 0x0a),
            _ => true,
        }
    }

    /// What was not flushed is gone; the position is the beginning.
    fn lose_buffer(&mut self) {
        if self.is_threaded() {
            self.drive.lose_buffer();
            // A medium that cannot be threaded again is not there.
            let _ = self.drive.load();
        }
    }

    /// Lets a fault happen; the answer, if the command gets no other.
    fn suffer(&mut self, fault: DriveFault) -> Option<Sense> {
        let attention = |code| Sense { key: SenseKey::UnitAttention, code, ..GOOD };
        let vid = self.vid();
        match fault {
            DriveFault::Dies => {
                self.lose_buffer();
                self.is_dead = true;
                Some(DIED)
            }
            DriveFault::Reset => {
                self.lose_buffer();
                Some(attention((0x29, 0x02)))
            }
            DriveFault::Attention => Some(attention((0x2a, 0x01))),
            DriveFault::BadBlock => {
                let block = self.drive.position().map_or(0, |position| position.block);
                self.plan.lock().bad_blocks.extend(vid.map(|vid| (vid, block)));
                None
            }
            DriveFault::WriteError => Some(Sense { key: SenseKey::Medium, code: (0x0c, 0x00), ..GOOD }),
            DriveFault::DeferredError => {
                self.lose_buffer();
                Some(Sense { key: SenseKey::Medium, code: (0x0c, 0x00), is_deferred: true, ..GOOD })
            }
            DriveFault::EarlyEnd => {
                self.plan.lock().ended.extend(vid);
                None
            }
            DriveFault::WriteProtected => {
                self.plan.lock().protected.extend(vid);
                None
            }
            DriveFault::Recovered | DriveFault::Silent | DriveFault::Unreachable => None,
        }
    }

    fn carry_out(&mut self, cdb: &[u8], data: Data<'_>) -> Answer {
        let refused = Err((Sense { key: SenseKey::IllegalRequest, code: (0x20, 0x00), ..GOOD }, 0));
        match (cdb[0], data) {
            (0x00, _) => self.readiness(),
            (0x12, Data::In(buffer)) => match inquiry(cdb, 0x01, "EMULATED TAPE", &self.serial) {
                Some(answer) => Ok(copy(&answer, buffer)),
                None => Err((Sense { key: SenseKey::IllegalRequest, code: (0x24, 0x00), ..GOOD }, 0)),
            },
            (0x4d, Data::In(buffer)) if self.offer.alerts && cdb[2] & 0x3f == health::PAGE => {
                Ok(copy(&health::encode(&[]), buffer))
            }
            (0x1e, _) => {
                self.is_prevented = cdb[4] & 1 != 0;
                Ok(0)
            }
            (0x1b, _) => self.load_or_unload(cdb[4] & 1 != 0),
            (0x05, Data::In(buffer)) => {
                let [_, a, b, c] = BLOCK_BYTES_MAX.to_be_bytes();
                Ok(copy(&[0, a, b, c, 0, 1], buffer))
            }
            (operation, data) if self.is_threaded() => match (operation, data) {
                (0x1a, Data::In(buffer)) => Ok(copy(&[11, 0, 0x10, 8, 0, 0, 0, 0, 0, 0, 0, 0], buffer)),
                (0x01, _) => self.drive.rewind().map(|()| 0).map_err(|failure| (of(&failure), 0)),
                (0x08, Data::In(buffer)) => self.read(buffer),
                (0x0a, Data::Out(block)) => self.write(block),
                (0x10, _) => self.write_marks(be_24(&cdb[2..5]), cdb[1] & 1 != 0),
                (0x11, _) => self.space(cdb[1] & 0x0f, be_24(&cdb[2..5])),
                (0x2b, _) if self.offer.locate => self.locate(be_32(&cdb[3..7]).into()),
                (0x92, _) if self.offer.locate => {
                    let high = u64::from(be_32(&cdb[4..8]));
                    self.locate(high << 32 | u64::from(be_32(&cdb[8..12])))
                }
                (0x34, Data::In(buffer)) => self.tell_position(buffer),
                (0x8c, Data::In(buffer)) if self.offer.attributes => {
                    let capacity = self.drive.capacity().ok().flatten();
                    Ok(copy(&capacity.map_or_else(|| vec![0; 4], attributes::encode), buffer))
                }
                _ => refused,
            },
            (0x01 | 0x08 | 0x0a | 0x10 | 0x11 | 0x1a | 0x2b | 0x34 | 0x92, _) => Err((NO_MEDIUM, 0)),
            _ => refused,
        }
    }

    fn load_or_unload(&mut self, is_load: bool) -> Answer {
        if is_load {
            self.notice_cartridge(true);
            return if self.vid().is_some() { Ok(0) } else { Err((NO_MEDIUM, 0)) };
        }
        if self.is_prevented {
            return Err((Sense { key: SenseKey::IllegalRequest, code: (0x53, 0x02), ..GOOD }, 0));
        }
        if self.is_threaded() {
            self.is_ejected = true;
            self.drive.unload().map_err(|failure| (of(&failure), 0))?;
        }
        Ok(0)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Answer {
        let wanted = buffer.len() as i64;
        let position = self.drive.position().map_err(|failure| (of(&failure), 0))?.block;
        if self.vid().is_some_and(|vid| self.plan.lock().bad_blocks.contains(&(vid, position))) {
            return Err((Sense { key: SenseKey::Medium, code: (0x11, 0x00), ..GOOD }, 0));
        }
        let mut block = Vec::new();
        let noted = Sense { information: Some(wanted), ..GOOD };
        match self.drive.read_block(&mut block).map_err(|failure| (of(&failure), 0))? {
            Read::Mark => Err((Sense { filemark: true, code: (0x00, 0x01), ..noted }, 0)),
            Read::End => Err((Sense { key: SenseKey::BlankCheck, code: (0x00, 0x05), ..noted }, 0)),
            Read::Block(length) => {
                let missing = buffer.len().saturating_sub(length);
                if !self.offer.short_blocks && missing > 0 {
                    block.truncate(missing);
                }
                let copied = copy(&block, buffer);
                if length as i64 == wanted {
                    return Ok(copied);
                }
                let information = Some(wanted - length as i64);
                Err((Sense { incorrect_length: true, information, ..GOOD }, copied))
            }
        }
    }

    fn write(&mut self, block: &[u8]) -> Answer {
        self.may_write(block.len() as i64)?;
        self.forget_bad_blocks();
        let written = self.drive.write_block(block);
        answer_of_write(written, block.len())
    }

    fn write_marks(&mut self, count: u32, is_immediate: bool) -> Answer {
        // As the strictest drives: without marks, too.
        self.may_write(count.into())?;
        if count > 0 {
            self.forget_bad_blocks();
            let written = self.drive.write_filemarks(count);
            answer_of_write(written, count as usize)?;
        }
        if !is_immediate {
            self.drive.flush().map_err(|failure| (of(&failure), 0))?;
        }
        Ok(0)
    }

    /// What is written over can be read again.
    fn forget_bad_blocks(&mut self) {
        let position = self.drive.position().map_or(0, |position| position.block);
        let vid = self.vid();
        self.plan.lock().bad_blocks.retain(|(volume, at)| Some(volume) != vid.as_ref() || *at < position);
    }

    fn may_write(&self, count: i64) -> Result<(), (Sense, usize)> {
        let faults = self.plan.lock();
        let is_in = |set: &std::collections::BTreeSet<Vid>| self.vid().is_some_and(|vid| set.contains(&vid));
        if is_in(&faults.protected) {
            return Err((Sense { key: SenseKey::DataProtect, code: (0x27, 0x00), ..GOOD }, 0));
        }
        if is_in(&faults.ended) {
            return Err((full(count), 0));
        }
        Ok(())
    }

    fn space(&mut self, code: u8, count: u32) -> Answer {
        // A signed number of 24 bits.
        let count = i64::from((count << 8) as i32 >> 8);
        let kind = match code {
            0 => SpaceKind::Blocks,
            1 => SpaceKind::Filemarks,
            3 => SpaceKind::EndOfData,
            _ => return Err((Sense { key: SenseKey::IllegalRequest, code: (0x24, 0x00), ..GOOD }, 0)),
        };
        let spaced = self.drive.space(kind, count).map_err(|failure| (of(&failure), 0))?;
        let Spaced { passed, stop: Some(stop) } = spaced else { return Ok(0) };
        let information = Some(count - count.signum() * passed as i64);
        let noted = Sense { information, ..GOOD };
        Err((
            match stop {
                Stop::Mark => Sense { filemark: true, code: (0x00, 0x01), ..noted },
                Stop::Beginning => Sense { end_of_medium: true, code: (0x00, 0x04), ..noted },
                Stop::End => Sense { key: SenseKey::BlankCheck, code: (0x00, 0x05), ..noted },
            },
            0,
        ))
    }

    fn locate(&mut self, block: u64) -> Answer {
        let located = self.drive.locate(block);
        located.map(|()| 0).map_err(|_| (Sense { key: SenseKey::BlankCheck, code: (0x00, 0x05), ..GOOD }, 0))
    }

    fn tell_position(&mut self, buffer: &mut [u8]) -> Answer {
        let mut answer = [0; 20];
        let block = self.drive.position().map_err(|failure| (of(&failure), 0))?.block;
        if self.offer.read_position {
            answer[0] = if block == 0 { 0x80 } else { 0x00 };
            answer[4..8].copy_from_slice(&(block as u32).to_be_bytes());
        } else {
            // Unknown.
            answer[0] = 0x14;
        }
        Ok(copy(&answer, buffer))
    }
}

impl Transport for EmulatedDrive {
    fn address(&self) -> String {
        format!("emulated {}", self.serial)
    }

    fn execute(&mut self, command: &Command, data: Data<'_>, _: Duration) -> Result<Reply> {
        let cdb = command.bytes();
        let is_inquiry = cdb[0] == 0x12;
        let check = |sense: Sense, transferred| {
            Ok(Reply { transferred, status: CHECK_CONDITION, sense: sense.encode() })
        };
        if self.is_dead {
            return check(DIED, 0);
        }
        let plan = self.plan.clone();
        let fault = plan.next_drive(|fault| !is_inquiry && self.can_have(fault, cdb[0]));
        if fault == Some(DriveFault::Unreachable) {
            return Err(Failure::unavailable(format!("{}: no answer, the connection ended", self.address())));
        }
        if let Some(sense) = fault.and_then(|fault| self.suffer(fault)) {
            return check(sense, 0);
        }
        if !is_inquiry && let Some(sense) = self.attentions.pop_front() {
            return check(sense, 0);
        }
        let answer = self.carry_out(cdb, data);
        match (fault, answer) {
            (Some(DriveFault::Silent), _) => {
                self.lose_buffer();
                Err(Failure::timeout(format!("{}: no answer", self.address())))
            }
            (Some(DriveFault::Recovered), Ok(transferred)) => {
                check(Sense { key: SenseKey::Recovered, code: (0x17, 0x01), ..GOOD }, transferred)
            }
            (_, Ok(transferred)) => Ok(Reply::good(transferred)),
            (_, Err((sense, transferred))) => check(sense, transferred),
        }
    }
}
