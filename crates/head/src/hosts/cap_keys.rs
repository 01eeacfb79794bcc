//! Disk servers fetch the keys that check capabilities, and hear when these change.

use crate::{Apply, Context, Core, Topic};
use base::{Failure, Result};
use wire::{
    auth::capability::ServerKey,
    control::{Done, EventType, GetCapKeys, HostCapKeys, KeysChanged},
};

impl Apply for GetCapKeys {
    const TOPIC: Topic = Topic::Keys;

    fn apply(self, core: &mut Core, context: &Context) -> Result<HostCapKeys> {
        let host = context.who.as_host().ok_or_else(|| {
            Failure::unsupported("the disk server in the head's process has the keys already")
        })?;
        let (keys, joined) = (&core.config.keys, core.joined(host)?);
        // It may be shown rights of this generation from now on, also if it has the newest state: the head may be new.
        keys.note_held(host, joined, self.generation);
        let serial = keys.serial();
        if self.serial == serial {
            return Ok(HostCapKeys { serial, keys: Vec::new() });
        }
        let keys = keys.all_of(host, joined, context.now).iter().map(ServerKey::told).collect();
        Ok(HostCapKeys { serial, keys })
    }
}

impl Apply for KeysChanged {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("say that the keys have changed")?;
        if self.ends_invitations {
            core.store.end_invitations(context.now)?;
        }
        core.touch(Topic::Keys);
        let what = format!("{} made or revoked a generation of the facility's key", context.who.name);
        core.say(context.now, EventType::KeyChanged, "", what);
        // The tokens of jobs are signed anew.
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}
