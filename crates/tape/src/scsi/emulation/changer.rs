//! An emulated medium changer.

use super::{
    answer::copy,
    fault::{ChangerFault, FaultPlan},
    inquiry,
};
use crate::{
    changer::{Changer, Element, ElementAddress, ElementKind},
    scsi::{
        command::Command,
        element::{self, ElementStatus, KINDS},
        sense::{Sense, SenseKey},
        transport::{CHECK_CONDITION, Data, Reply, Transport},
    },
    virtual_library::VirtualLibrary,
};
use base::{ErrorKind, Failure, Result};
use std::{collections::BTreeMap, time::Duration};

/// Address of the one arm.
const ARM: u16 = 1;

/// A changer in this process.
#[derive(Debug)]
pub struct EmulatedChanger {
    name: String,
    library: VirtualLibrary,
    /// Serial numbers of its drives, in the order of their elements.
    serials: Vec<String>,
    plan: FaultPlan,
    /// Where the cartridges in drives came from.
    sources: BTreeMap<u16, u16>,
    is_attention: bool,
    is_jammed: bool,
}

impl EmulatedChanger {
    pub(super) fn new(name: String, library: VirtualLibrary, serials: Vec<String>, plan: FaultPlan) -> Self {
        let (sources, is_attention, is_jammed) = (BTreeMap::new(), true, false);
        Self { name, library, serials, plan, sources, is_attention, is_jammed }
    }

    fn carry_out(&mut self, cdb: &[u8], data: Data<'_>) -> Result<usize, Sense> {
        match (cdb[0], data) {
            (0x00, _) => Ok(0),
            (0x12, Data::In(buffer)) => {
                let answer = inquiry(cdb, 0x08, "EMULATED LIBRARY", &self.name);
                let refused = Sense::new(SenseKey::IllegalRequest, (0x24, 0x00));
                answer.map(|answer| copy(&answer, buffer)).ok_or(refused)
            }
            (0xb8, Data::In(buffer)) => Ok(copy(&self.status(cdb)?, buffer)),
            (0xa5, _) => self.move_medium(address(&cdb[4..6]), address(&cdb[6..8])).map(|()| 0),
            _ => Err(Sense::new(SenseKey::IllegalRequest, (0x20, 0x00))),
        }
    }

    fn status(&mut self, cdb: &[u8]) -> Result<Vec<u8>, Sense> {
        let (code, first, count) = (cdb[1] & 0x0f, address(&cdb[2..4]), address(&cdb[4..6]));
        let elements = self.library.inventory().map_err(|failure| of(&failure))?;
        let mut drives = self.serials.iter();
        let mut found = Vec::new();
        for element in &elements {
            let identity = match element.kind {
                ElementKind::Drive => drives.next().cloned().unwrap_or_default(),
                _ => String::new(),
            };
            found.push((element.kind, self.describe(element, identity)));
        }
        let arm = ElementStatus {
            address: ARM,
            is_full: false,
            exception: None,
            source: None,
            bar_code: String::new(),
            identity: String::new(),
        };
        found.push((ElementKind::Arm, arm));
        let wanted = KINDS.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind);
        let is_wanted =
            |(kind, status): &(ElementKind, ElementStatus)| wanted == Some(*kind) && status.address >= first;
        let found: Vec<_> =
            found.into_iter().filter(is_wanted).take(count.into()).map(|(_, status)| status).collect();
        Ok(element::encode(code, &found))
    }

    fn describe(&self, element: &Element, identity: String) -> ElementStatus {
        let shown = |vid: &base::Vid| {
            let faults = self.plan.lock();
            format!("{}L9", faults.bar_codes.get(vid).unwrap_or(vid))
        };
        ElementStatus {
            address: element.address.0,
            is_full: element.is_full,
            exception: None,
            source: self.sources.get(&element.address.0).copied(),
            bar_code: element.vid.as_ref().map(shown).unwrap_or_default(),
            identity,
        }
    }

    fn move_medium(&mut self, from: u16, to: u16) -> Result<(), Sense> {
        let moved = self.library.move_medium(ElementAddress(from), ElementAddress(to));
        moved.map_err(|failure| of(&failure))?;
        self.sources.remove(&from);
        self.sources.insert(to, from);
        Ok(())
    }

    /// Gives two cartridges each other's bar code.
    fn swap(&mut self) {
        let Ok(elements) = self.library.inventory() else { return };
        let mut volumes = elements.into_iter().filter_map(|element| element.vid);
        if let (Some(one), Some(other)) = (volumes.next(), volumes.next()) {
            self.plan.lock().bar_codes.extend([(one.clone(), other.clone()), (other, one)]);
        }
    }
}

impl Transport for EmulatedChanger {
    fn address(&self) -> String {
        format!("emulated changer {}", self.name)
    }

    fn execute(&mut self, command: &Command, data: Data<'_>, _: Duration) -> Result<Reply> {
        let cdb = command.bytes();
        let (is_inquiry, is_move) = (cdb[0] == 0x12, cdb[0] == 0xa5);
        let check =
            |sense: Sense| Ok(Reply { transferred: 0, status: CHECK_CONDITION, sense: sense.encode() });
        let fault = self.plan.next_changer(|fault| match fault {
            ChangerFault::Jams | ChangerFault::Silent => is_move,
            ChangerFault::WrongCartridge | ChangerFault::Attention => !is_inquiry,
        });
        match fault {
            Some(ChangerFault::Jams) => self.is_jammed = true,
            Some(ChangerFault::WrongCartridge) => self.swap(),
            Some(ChangerFault::Attention) => {
                return check(Sense::new(SenseKey::UnitAttention, (0x28, 0x01)));
            }
            _ => {}
        }
        if self.is_jammed && is_move {
            return check(Sense::new(SenseKey::Hardware, (0x15, 0x01)));
        }
        if std::mem::take(&mut self.is_attention) && !is_inquiry {
            return check(Sense::new(SenseKey::UnitAttention, (0x29, 0x00)));
        }
        let answer = self.carry_out(cdb, data);
        match (fault, answer) {
            (Some(ChangerFault::Silent), _) => {
                Err(Failure::timeout(format!("{}: no answer", self.address())))
            }
            (_, Ok(transferred)) => Ok(Reply::good(transferred)),
            (_, Err(sense)) => check(sense),
        }
    }
}

/// The sense data for what the library says.
fn of(failure: &Failure) -> Sense {
    let (key, code) = match failure.kind {
        ErrorKind::NotFound => (SenseKey::IllegalRequest, (0x3b, 0x0e)),
        ErrorKind::Exists => (SenseKey::IllegalRequest, (0x3b, 0x0d)),
        ErrorKind::Busy => (SenseKey::IllegalRequest, (0x53, 0x02)),
        _ => (SenseKey::Hardware, (0x44, 0x00)),
    };
    Sense::new(key, code)
}

fn address(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}
