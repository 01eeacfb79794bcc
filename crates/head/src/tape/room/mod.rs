//! The calls of the tape server.

mod end;
mod library;
mod reports;
mod work;

use crate::{
    Context, Core,
    store::{Node, RequestRow, SessionRow, VolumeRow},
};
use base::{Failure, Millis, RequestId, Result, SessionId, Timestamp, Vid};
pub(crate) use library::host_removed;
pub(super) use library::{forget, require_drive};
pub(super) use reports::fail_recall;
pub(super) use reports::free_object;
use std::sync::Arc;
use wire::control::{EventType, REASON_BYTES_MAX, VolumeState};

/// First wait after a failure; doubled with each further one.
const BACK_OFF: Millis = Millis::from_seconds(5);

/// The session, or why a report about it is refused.
pub(crate) fn session_of(core: &mut Core, context: &Context, id: SessionId) -> Result<SessionRow> {
    let session = core.store.session(id)?.ok_or_else(|| {
        Failure::not_found(format!("tape session {id} has ended")).hint("ask for the next session")
    })?;
    require_drive(core, context, &session.drive)?;
    if let Some(live) = core.live.drives.get_mut(&session.drive) {
        live.heard = context.now;
    }
    Ok(session)
}

/// Refuses a reason that is too long to be shown.
pub(in crate::tape) fn require_reason(text: &str) -> Result<()> {
    if text.len() <= REASON_BYTES_MAX {
        return Ok(());
    }
    Err(Failure::invalid(format!("a reason or message has at most {REASON_BYTES_MAX} bytes"))
        .hint("shorten it"))
}

/// Says that a volume is full or suspect.
pub(super) fn say_volume(core: &mut Core, vid: &Vid, state: VolumeState, why: Option<&str>, now: Timestamp) {
    let kind = match state {
        VolumeState::Full => EventType::VolumeFull,
        VolumeState::Suspect => EventType::VolumeSuspect,
        VolumeState::Blank
        | VolumeState::Appendable
        | VolumeState::ReadOnly
        | VolumeState::Unread
        | VolumeState::Broken
        | VolumeState::Disabled
        | VolumeState::Exported => return,
    };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    core.say(now, kind, vid, format!("volume {vid} is {}{why}", state.as_str()));
}

/// Says that the volume of a session was loaded into its drive.
fn say_loaded(core: &mut Core, session: &SessionRow, now: Timestamp) {
    let SessionRow { vid, drive, kind, .. } = session;
    core.say(now, EventType::VolumeLoaded, vid, format!("volume {vid} is in drive {drive} ({kind})"));
}

/// Says that a request failed for good.
fn say_failed(core: &mut Core, row: &RequestRow, now: Timestamp) {
    let why = row.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let what = format!("tape request r{} ({}) of {} failed{why}", row.id, row.kind.as_str(), row.owner);
    core.say(now, EventType::RequestFailed, format!("r{}", row.id), what);
}

pub(crate) fn volume_of(core: &Core, vid: &Vid) -> Result<VolumeRow> {
    core.store.volume(vid)?.ok_or_else(|| Failure::internal(format!("volume {vid} is not in the catalogue")))
}

fn request_and_node(core: &Core, id: RequestId) -> Result<Option<(RequestRow, Arc<Node>)>> {
    let Some(request) = core.store.request(id)? else {
        return Ok(None);
    };
    Ok(core.store.node(request.file)?.map(|node| (request, node)))
}
