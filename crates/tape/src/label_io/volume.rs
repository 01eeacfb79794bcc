//! Labels of volumes: written to a blank one, checked before anything else.

use super::{FIRST_FILE_BLOCK, LabelContext, is_free, system};
use crate::{
    drive::{Read, TapeDrive},
    fault::Fault,
};
use base::{Failure, Result, Vid};
use wire::media::label::{BlockProtection, Hdr1, LabelDate, LabelName, Side, Text, Vol1};

/// Whether a volume that has a label, or any data, may be labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relabel {
    /// Refuse: its files would be lost.
    Refuse,
    /// Do it: a person has said so.
    LoseEverything,
}

/// Labels the volume in `drive`: VOL1, an HDR1 that says there is no file yet, a mark (§3.1). Durable on return.
///
/// A volume that holds anything but this very label, whole or in part, is refused unless `relabel` says otherwise: so
/// labelling again after an interruption works, and loses nothing.
pub fn label_volume(
    drive: &mut dyn TapeDrive,
    vid: &Vid,
    relabel: Relabel,
    today: LabelDate,
) -> Result<(), Fault> {
    let context = LabelContext::volume(drive, vid);
    drive.rewind().map_err(|failure| context.of_drive(failure))?;
    if relabel == Relabel::Refuse {
        refuse_used(drive, &context)?;
    }
    drive.rewind().map_err(|failure| context.of_drive(failure))?;
    let owner = Text::fitted("BACKPLANE");
    let vol1 = Vol1 { vsn: vid.clone(), owner, protection: BlockProtection::Off };
    let hdr1 = Hdr1 {
        side: Side::Header,
        file: LabelName::Prelabel,
        vsn: vid.clone(),
        sequence: 1,
        created: today,
        expires: today,
        blocks: 0,
        system: system(),
    };
    let written = drive
        .write_block(&vol1.encode())
        .and_then(|_| drive.write_block(&hdr1.encode()))
        .and_then(|_| drive.write_filemarks(1))
        .and_then(|_| drive.flush());
    written.map_err(|failure| Fault::of_drive(failure.during(&context)))
}

/// Fails unless the medium is blank or has this volume's label and nothing else.
fn refuse_used(drive: &mut dyn TapeDrive, context: &LabelContext) -> Result<(), Fault> {
    let mut block = Vec::new();
    let found =
        match drive.read_block(&mut block).map_err(|failure| Fault::of_drive(failure.during(context)))? {
            Read::End => return Ok(()),
            Read::Mark => "a tape mark".to_owned(),
            Read::Block(_) => match Vol1::decode(&block) {
                Ok(label) if label.vsn == context.vid && is_free(drive, context, FIRST_FILE_BLOCK)? => {
                    return Ok(());
                }
                Ok(label) => format!("the label of volume {}", label.vsn),
                Err(_) => format!("a block of {} bytes that is no label", block.len()),
            },
        };
    let refused =
        Failure::exists(format!("{context}: it should be labelled but is not blank: it begins with {found}"));
    Err(Fault::volume(refused.hint("check its contents; only an operator may order to overwrite it")))
}

/// Checks that the volume in `drive` is `vid`, by its label; the position is then behind VOL1.
pub fn check_label(drive: &mut dyn TapeDrive, vid: &Vid) -> Result<Vol1, Fault> {
    let context = LabelContext::volume(drive, vid);
    drive.rewind().map_err(|failure| context.of_drive(failure))?;
    let mut block = Vec::new();
    context.expect_block(drive, &mut block, "VOL1")?;
    let label = Vol1::decode(&block).map_err(|error| {
        let failure = Failure::from(error).hint("is the volume blank, or labelled by another system?");
        Fault::volume(failure.during(&context))
    })?;
    if label.vsn == *vid {
        return Ok(label);
    }
    let failure = Failure::corrupt(format!("{context}: label says {}, expected {vid}", label.vsn));
    Err(Fault::volume(failure.hint("compare the bar code with the inventory; two cartridges may be swapped")))
}
