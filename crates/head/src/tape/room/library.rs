//! Libraries and drives that a tape server brings.

use super::end::close;
use crate::tape::adding;
use crate::{
    Apply, Context, Core, Topic,
    executor::core::DriveLive,
    hosts::{require_name, require_owner},
};
use base::{Failure, Millis, Result};
use wire::control::{Done, DriveContent, RegisterLibrary, VolumeState};

impl Apply for RegisterLibrary {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        check_library(core, context, &self)?;
        let host = context.who.as_host().unwrap_or_default();
        for DriveContent { drive, loaded, device } in &self.drives {
            core.store.put_drive(host, &self.library, drive)?;
            // Told at once for all: a volume in one drive must not be ordered into another.
            let (loaded, device) = (loaded.clone(), device.clone());
            let live = DriveLive { loaded, device, heard: context.now, ..DriveLive::default() };
            core.live.drives.insert(drive.clone(), live);
        }
        for cartridge in &self.cartridges {
            let is_new = core.store.volume(&cartridge.vid)?.is_none();
            adding::note_arrived(core, &cartridge.vid)?;
            core.store.put_volume(&self.library, &cartridge.vid, cartridge.capacity_bytes)?;
            if is_new && core.unsettled()?.is_some() {
                let reason = "not in the restored catalogue: may hold files";
                core.store.set_volume_state(&cartridge.vid, VolumeState::Suspect, Some(reason))?;
            }
        }
        // What was taken out may be put into another library.
        for gone in core.store.volumes()?.into_iter().filter(|row| row.library == self.library) {
            if !self.cartridges.iter().any(|cartridge| cartridge.vid == gone.vid) {
                core.store.set_library(&gone.vid, "")?;
            }
        }
        for session in core.store.sessions()? {
            if self.drives.iter().any(|content| content.drive == session.drive) {
                close(core, context, &session, "the tape server was restarted", Millis(0))?;
            }
        }
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// Refuses drives, libraries and cartridges that another host has.
fn check_library(core: &Core, context: &Context, call: &RegisterLibrary) -> Result<()> {
    require_name(core, context, "a tape library", &call.library)?;
    for DriveContent { drive, .. } in &call.drives {
        require_name(core, context, "a drive", drive)?;
    }
    let drives = core.store.drives()?;
    let is_named = |name: &str| call.drives.iter().any(|content| content.drive == name);
    for known in drives.iter().filter(|row| row.library == call.library || is_named(&row.name)) {
        require_owner(context, &format!("drive {} of library {}", known.name, known.library), &known.host)?;
    }
    for cartridge in &call.cartridges {
        let vid = &cartridge.vid;
        let Some(volume) = core.store.volume(vid)?.filter(|row| row.library != call.library) else {
            continue;
        };
        let other = drives.iter().find(|row| row.library == volume.library);
        if let Some(other) = other.filter(|row| row.host != context.who.as_host().unwrap_or_default()) {
            let (there, here) = (&other.library, &call.library);
            return Err(Failure::exists(format!("volume {vid} of library {here} is in library {there}")).hint(
                "labels must be unique in the facility; remove a moved cartridge from its old library first",
            ));
        }
    }
    Ok(())
}

/// A drive of the host that asks.
pub(in crate::tape) fn require_drive(core: &Core, context: &Context, name: &str) -> Result<()> {
    match core.store.drives()?.iter().find(|row| row.name == name) {
        Some(row) => require_owner(context, &format!("drive {name}"), &row.host),
        None => Ok(()),
    }
}

/// A host was removed: what it was doing is to be done by others.
pub(crate) fn host_removed(core: &mut Core, context: &Context, host: &str) -> Result<()> {
    for drive in core.store.drives()?.into_iter().filter(|drive| drive.host == host) {
        forget(core, context, &drive.name, &format!("host {host} was removed"))?;
    }
    core.touch(Topic::Tape);
    Ok(())
}

/// Forgets a drive. Requests of a session that it did not end are done by others.
pub(in crate::tape) fn forget(core: &mut Core, context: &Context, drive: &str, why: &str) -> Result<()> {
    for session in core.store.sessions()?.into_iter().filter(|session| session.drive == drive) {
        close(core, context, &session, why, Millis(0))?;
    }
    core.store.delete_drive(drive)?;
    core.live.drives.remove(drive);
    Ok(())
}
