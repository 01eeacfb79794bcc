//! The calls of people on drives.

use super::{
    room::{forget, require_reason},
    trouble,
};
use crate::{Apply, Context, Core, Topic, store::DriveRow};
use base::{Failure, Result};
use wire::control::{DisableDrive, Done, EnableDrive, EventType, RemoveDrive};

fn unknown(drive: &str) -> Failure {
    Failure::not_found(format!("there is no drive {drive}")).hint("`bp drives` lists them")
}

impl Apply for RemoveDrive {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change drives")?;
        let drive = &self.drive;
        let is_it = |row: &DriveRow| row.name == *drive;
        let mut row = core.store.drives()?.into_iter().find(is_it).ok_or_else(|| unknown(drive))?;
        // What an operator or a failure says of it does not tell whether a tape server has it.
        row.trouble = None;
        if trouble(core, &row, context.now).is_none() {
            let failure = Failure::busy(format!("drive {drive} belongs to a tape server that runs"));
            return Err(failure.hint("take it out of `facility.toml` and start that host's daemon again"));
        }
        forget(core, context, drive, "its drive was removed")?;
        Ok(Done {})
    }
}

impl Apply for EnableDrive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change drives")?;
        if !core.store.set_drive_trouble(&self.drive, None, false)? {
            return Err(unknown(&self.drive));
        }
        let what = format!("drive {} was put back into use by {}", self.drive, context.who.name);
        core.say(context.now, EventType::DriveEnabled, &self.drive, what);
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

impl Apply for DisableDrive {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change drives")?;
        require_reason(&self.reason)?;
        let who = &context.who.name;
        let trouble = match self.reason.trim() {
            "" => format!("disabled by {who}"),
            reason => format!("disabled by {who}: {reason}"),
        };
        if !core.store.set_drive_trouble(&self.drive, Some(&trouble), true)? {
            return Err(unknown(&self.drive));
        }
        core.say(
            context.now,
            EventType::DriveDisabled,
            &self.drive,
            format!("drive {} was {trouble}", self.drive),
        );
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}
