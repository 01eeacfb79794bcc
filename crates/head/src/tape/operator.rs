//! Requests to operators: load volumes that are in no library, although a user waits for their files.
//!
//! Each time a drive asks for work, the head decides on these requests from the same view that plans the session. So a
//! restart loses no request, and a request that is not needed any more is withdrawn.

use super::{
    plan::View,
    room::{fail_recall, require_reason},
};
use crate::{Apply, Context, Core, Topic};
use base::{Failure, Millis, Result, Timestamp, Vid, units::counted};
use std::collections::BTreeMap;
use wire::control::{
    AnswerOperatorRequest, Done, EventType, OperatorAnswer, OperatorRequest, RequestKind, VolumeState,
};

/// Requests to operators that are looked at, and shown: more than a shift can load.
pub(crate) const OPERATOR_REQUESTS_MAX: usize = 100;

/// After an operator has said that a volume is loaded, the library has this long to find it before it is asked for again.
const FOUND_WITHIN: Millis = Millis::from_seconds(120);

/// Volumes that are in no library, or have left the house, with the files that wait for them.
fn missing(view: &View) -> BTreeMap<&Vid, u64> {
    let mut files: BTreeMap<&Vid, u64> = BTreeMap::new();
    for work in view.queue.iter().filter(|work| work.kind == RequestKind::Recall) {
        let Some(target) = &work.target else { continue };
        let volume = view.volumes.get(&target.vid);
        let is_missing = volume.is_some_and(|volume| {
            volume.library.is_empty() && (volume.state.is_readable() || volume.state == VolumeState::Exported)
        });
        if is_missing {
            *files.entry(&target.vid).or_default() += 1;
        }
    }
    files
}

/// Asks for what is missing, and withdraws what is not.
pub(super) fn ask_for_missing(core: &mut Core, view: &View, now: Timestamp) -> Result<()> {
    let mut missing = missing(view);
    // What was found, or not within its time, is asked for again when it is missing.
    core.live.loads_awaited.retain(|vid, done| missing.contains_key(vid) && now - *done < FOUND_WITHIN);
    let known = core.store.operator_requests(OPERATOR_REQUESTS_MAX)?;
    let open = known.iter().filter(|request| request.answer == OperatorAnswer::Open);
    let room = OPERATOR_REQUESTS_MAX - open.clone().count();
    for request in open {
        if missing.remove(&request.vid).is_none() {
            let arrived = view.volumes.get(&request.vid).map(|volume| volume.library.as_str());
            let (answer, message) = match arrived.filter(|library| !library.is_empty()) {
                Some(library) => (OperatorAnswer::Done, format!("it is in library {library}")),
                None => (OperatorAnswer::Withdrawn, "nobody waits for it any more".to_owned()),
            };
            answered(core, request, answer, ("", &message), now)?;
        }
    }
    // Those that are open are all known here, so none is asked for twice; what does not fit is asked for later.
    for (vid, files) in missing.into_iter().take(room) {
        if core.live.loads_awaited.contains_key(vid) {
            core.look_again_in(FOUND_WITHIN);
            continue;
        }
        let reason = match files {
            1 => "1 file waits for it".to_owned(),
            files => format!("{} wait for it", counted(files, "file", "files")),
        };
        let id = core.store.insert_operator_request(vid, "", &reason, now)?;
        let what = format!("operator request {id}: put volume {vid} into a library: {reason}");
        core.say(now, EventType::OperatorAsked, vid, what);
    }
    Ok(())
}

fn answered(
    core: &mut Core,
    request: &OperatorRequest,
    answer: OperatorAnswer,
    (operator, message): (&str, &str),
    now: Timestamp,
) -> Result<()> {
    core.store.answer_operator_request(request.id, answer, (operator, message), now)?;
    core.store.trim_operator_requests(OPERATOR_REQUESTS_MAX)?;
    let OperatorRequest { id, vid, .. } = request;
    let says = if message.is_empty() { String::new() } else { format!(": {message}") };
    let what = format!("operator request {id} for volume {vid} is {}{says}", answer.as_str());
    core.say(now, EventType::OperatorAnswered, vid, what);
    Ok(())
}

impl Apply for AnswerOperatorRequest {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("answer operator requests")?;
        require_reason(&self.message)?;
        let request = core.store.operator_request(self.id)?.ok_or_else(|| {
            Failure::not_found(format!("there is no operator request {}", self.id))
                .hint("`bp operator list` shows them")
        })?;
        if request.answer != OperatorAnswer::Open {
            let (id, answer) = (self.id, request.answer.as_str());
            return Err(Failure::exists(format!("operator request {id} is {answer} already")));
        }
        let (who, message) = (&context.who.name, self.message.trim());
        match self.answer {
            OperatorAnswer::Done => {
                core.live.loads_awaited.insert(request.vid.clone(), context.now);
                look_everywhere(core);
            }
            OperatorAnswer::Cancelled => fail_waiting(core, context, &request.vid, message)?,
            OperatorAnswer::Open | OperatorAnswer::Withdrawn => {
                return Err(Failure::invalid("an operator answers done or cancelled"));
            }
        }
        answered(core, &request, self.answer, (who, message), context.now)?;
        core.touch(Topic::Tape);
        Ok(Done {})
    }
}

/// Has all libraries take their inventory again.
fn look_everywhere(core: &mut Core) {
    for drive in core.live.drives.values_mut() {
        drive.look = true;
    }
}

/// Recalls from a volume that cannot be had fail, with what the operator says.
fn fail_waiting(core: &mut Core, context: &Context, vid: &Vid, message: &str) -> Result<()> {
    let who = &context.who.name;
    let why = match message {
        "" => format!("operator {who} cannot load volume {vid}"),
        message => format!("operator {who} cannot load volume {vid}: {message}"),
    };
    for target in core.store.recall_targets()? {
        if target.vid == *vid
            && let Some(row) = core.store.request(target.request)?
        {
            fail_recall(core, context, row, &why)?;
        }
    }
    Ok(())
}
