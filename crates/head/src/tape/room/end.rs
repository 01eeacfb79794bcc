//! The end of a session.

use super::reports::free_object;
use super::{BACK_OFF, say_loaded, say_volume, session_of};
use crate::{
    Apply, Context, Core, Topic, batch,
    store::{Charge, Payer, SessionRow},
};
use base::{Cause, ErrorKind, Failure, Millis, Result, Timestamp};
use tracing::{info, warn};
use wire::control::{Blame, Done, EndTapeSession, EventType, RequestState, TapePhase, VolumeState};

impl Apply for EndTapeSession {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let session = match session_of(core, context, self.session) {
            Ok(session) => session,
            Err(failure) if failure.kind == ErrorKind::NotFound => return Ok(Done {}),
            Err(failure) => return Err(failure),
        };
        core.store.count_loads(&session.vid, self.loads)?;
        let part = f64::from(self.loads) / session.owners.len().max(1) as f64;
        for owner in &session.owners {
            core.store.charge(Payer::user(owner), &Charge { tape_loads: part, ..Charge::default() })?;
        }
        batch::loaded(core, &session, part)?;
        // A short session is over before its tape server has told how far it is.
        let phase = core.live.drives.get(&session.drive).and_then(|live| live.phase);
        if self.loads > 0 && matches!(phase, None | Some(TapePhase::Loading)) {
            say_loaded(core, &session, context.now);
        }
        // Known before the drive asks again: meanwhile another drive would be sent for the volume in vain.
        if (self.trouble.is_none() || self.loads > 0)
            && let Some(live) = core.live.drives.get_mut(&session.drive)
        {
            live.loaded = Some(session.vid.clone());
        }
        match &self.trouble {
            None => end_well(core, &session, context.now)?,
            Some((blame, failure)) => {
                warn!(session = %session.id, vid = %session.vid, drive = %session.drive, ?blame, cause = %failure, "tape session ended early");
                take_out_of_use(core, &session, *blame, failure, context.now)?;
                if matches!(&*session.kind, "survey" | "verify") {
                    core.live.surveys_due.insert(session.vid.clone(), context.now + BACK_OFF);
                }
            }
        }
        // After trouble the same orders would meet it again at once.
        let (why, delay) = match self.trouble {
            None => ("the session ended before it".to_owned(), Millis(0)),
            Some((_, failure)) => (failure.what, BACK_OFF),
        };
        close(core, context, &session, &why, delay)?;
        Ok(Done {})
    }
}

fn end_well(core: &mut Core, session: &SessionRow, now: base::Timestamp) -> Result<()> {
    match session.kind.as_str() {
        "label" => {
            core.store.set_volume_state(&session.vid, VolumeState::Appendable, None)?;
        }
        "archive" => core.store.set_leftover(&session.vid, false)?,
        "recall" => core.live.recall_pace.note(now - session.started),
        _ => {}
    }
    Ok(())
}

/// A volume or a drive that ended a session is not used again until a person has looked.
fn take_out_of_use(
    core: &mut Core,
    session: &SessionRow,
    blame: Blame,
    failure: &Failure,
    now: Timestamp,
) -> Result<()> {
    match blame {
        Blame::Volume if failure.kind == ErrorKind::NoSpace => {
            core.store.set_volume_state(&session.vid, VolumeState::Full, None)?;
            say_volume(core, &session.vid, VolumeState::Full, None, now);
        }
        Blame::Volume if failure.cause == Some(Cause::WriteProtected) => {
            core.store.set_volume_state(&session.vid, VolumeState::ReadOnly, Some(&failure.what))?;
        }
        Blame::Volume => {
            core.store.set_volume_state(&session.vid, VolumeState::Suspect, Some(&failure.what))?;
            say_volume(core, &session.vid, VolumeState::Suspect, Some(&failure.what), now);
        }
        Blame::Drive => {
            core.store.set_drive_trouble(&session.drive, Some(&failure.what), false)?;
            let what = format!("drive {} was disabled: {}", session.drive, failure.what);
            core.say(now, EventType::DriveFailed, &session.drive, what);
        }
        Blame::File | Blame::System => {}
    }
    Ok(())
}

/// Ends a session; requests that it did not report go back to the queue, to be tried after `delay`.
pub(super) fn close(
    core: &mut Core,
    context: &Context,
    session: &SessionRow,
    why: &str,
    delay: Millis,
) -> Result<()> {
    for mut row in core.store.requests_of_session(session.id)? {
        free_object(core, &row)?;
        row.state = RequestState::Queued;
        row.not_before = context.now + delay;
        row.reason = Some(why.to_owned());
        core.store.set_request_waiting(&row)?;
    }
    core.store.delete_session(session.id)?;
    if let Some(live) = core.live.drives.get_mut(&session.drive) {
        live.phase = None;
        live.request = None;
        live.bytes_done = 0;
    }
    info!(session = %session.id, drive = %session.drive, vid = %session.vid, "tape session ended");
    core.touch(Topic::Tape);
    core.touch(Topic::Jobs);
    Ok(())
}
