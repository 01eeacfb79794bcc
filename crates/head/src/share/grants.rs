//! Grants: who may write to a file, or cache what was read of it.

use super::{has_writer, leases, live, put, reach, session, sessions, shared_file, waits::Want};
use crate::{
    Apply, Context, Core,
    account::{Growth, refuse_excess},
    pool::require_size,
    share::opens::shown_path,
    store::{LiveContent, Node, PutOff, SharedFile},
    tape,
    waiters::Awaited,
};
use ::share::{Answer, ClientId, Ended, Generation, Mode, Stage};
use base::{ByteRange, Failure, FileId, FilePath, Result};
use wire::control::{AskGrant, CommitNode, Done, GrantAnswer, ReturnGrant, ShareGrant};

/// Grants are on whole files; the rules know ranges.
const ALL: ByteRange = ByteRange { offset: 0, end: u64::MAX };

impl Apply for AskGrant {
    fn apply(self, core: &mut Core, context: &Context) -> Result<GrantAnswer> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let path = shown_path(core, &node)?;
        require_open(core, &self, &path)?;
        let next = sessions::evict_silent(core, (self.file, self.client), context)?;
        live::drop_away(core, self.file, self.mode == Mode::Write, context)?;
        let mut shared = shared_file(core, self.file)?;
        if let Some(waits) = live::is_ending(core, self.file, &shared) {
            return wait(core, context, &self, waits, None);
        }
        if let Some(waits) = live::not_on_disk(core, context, (&node, &path), &shared)? {
            return wait(core, context, &self, waits, None);
        }
        if let Some(put_off) = leases_of_others(core, &self) {
            leases::await_leases(core, &put_off);
            let waits = format!("mount {} has to forget its size and time", put_off.client);
            return wait(core, context, &self, waits, next);
        }
        let asked = (self.client, self.request);
        let servers = shared.live.as_ref().map(LiveContent::servers).unwrap_or_default();
        match shared.grants.ask(asked, (self.mode, ALL), &servers) {
            Answer::Wait(_) => {
                let waits = sessions::who_has(core, &shared, self.client)?;
                put(core, self.file, &shared, context.now)?;
                wait(core, context, &self, waits, next)
            }
            Answer::Granted(generation) => {
                core.live.share.waits_no_more(self.file, self.client, Want::Grant(self.mode));
                if self.mode == Mode::Write {
                    live::begin(core, context, (&node, &path), (&mut shared, generation))?;
                    // Doors have kept that this file can be read as it is.
                    core.store.set_visible();
                    core.store.leases().changed(self.file);
                }
                put(core, self.file, &shared, context.now)?;
                let asked = (self.mode, generation);
                let layout = live::layout(core, (&node, &path), &shared, asked, context.now)?;
                let grant = ShareGrant { generation, layout, size: node.size, modified: node.modified };
                Ok(GrantAnswer { grant: Some(grant), waits: None })
            }
        }
    }
}

/// Who may not cache size and time of a file any more, because somebody is going to write to it. Who writes already has had them
/// forget.
fn leases_of_others(core: &Core, ask: &AskGrant) -> Option<PutOff> {
    (ask.mode == Mode::Write).then(|| core.store.ask_back(&[ask.file])).flatten()
}

fn wait(
    core: &mut Core,
    context: &Context,
    ask: &AskGrant,
    waits: String,
    next: Option<base::Millis>,
) -> Result<GrantAnswer> {
    let key = (ask.file, ask.client, Want::Grant(ask.mode));
    core.live.share.waits(key, &*waits, context.now);
    core.awaits(Awaited::File(ask.file));
    core.awaits(Awaited::Hosts);
    if let Some(span) = next {
        core.look_again_in(span);
    }
    Ok(GrantAnswer { grant: None, waits: Some(waits) })
}

/// Refuses whoever has not opened the file for that.
fn require_open(core: &Core, ask: &AskGrant, path: &FilePath) -> Result<()> {
    let shared = shared_file(core, ask.file)?;
    let own = shared.opens.iter().find(|open| open.client == ask.client);
    let is_open = own.is_some_and(|open| match ask.mode {
        Mode::Write => open.writers > 0,
        Mode::Read => open.readers + open.writers > 0,
    });
    if is_open {
        return Ok(());
    }
    Err(Failure::invalid(format!("mount {} has not opened {path} for that", ask.client)))
}

impl Apply for CommitNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        let shared = shared_file(core, self.file)?;
        require_held(&shared, (self.file, self.client, self.generation))?;
        core.store.set_granted(self.file);
        require_size(&format!("file {}", self.file), self.size)?;
        let node = core.store.node(self.file)?;
        let node = node.ok_or_else(|| Failure::not_found(format!("file {} no longer exists", self.file)))?;
        live::commit(core, (&node, shared), (self.size, self.modified), context)?;
        let growth = Growth { is_new: false, bytes: self.size.saturating_sub(node.size) };
        if growth.bytes > 0 && !node.is_in_trash() {
            refuse_excess(core, &node, growth)?;
        }
        Ok(Done {})
    }
}

/// Refuses whoever has not, or not any more, the grant to write.
pub(super) fn require_held(
    shared: &SharedFile,
    (file, client, generation): (FileId, ClientId, Generation),
) -> Result<()> {
    let mut grants = shared.grants.grants().iter();
    let is_held = grants.any(|grant| {
        (grant.client, grant.generation, grant.mode) == (client, generation, Mode::Write)
            && grant.stage != Stage::Ending
    });
    if is_held {
        return Ok(());
    }
    Err(Failure::locked(format!("grant {generation} on file {file} has ended"))
        .hint("what was written under it since its last commit is lost; open the file again"))
}

impl Apply for ReturnGrant {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        let mut shared = shared_file(core, self.file)?;
        if !self.is_complete {
            live::writer_failed(&mut shared, (self.client, self.generation));
        }
        shared.grants.end(self.client, self.generation, Ended::Returned);
        if let Some(recalls) = core.live.share.recalls.get_mut(&self.client) {
            recalls.remove(&(self.file, self.generation));
        }
        live::give_up_unused(core, &mut shared)?;
        put(core, self.file, &shared, context.now)?;
        Ok(Done {})
    }
}

/// Asks the grants to write of all others back, so that what they have written is committed. Yields whether there are none, and when
/// to look again.
pub(super) fn recall_writers(
    core: &mut Core,
    (file, client): (FileId, ClientId),
    context: &Context,
) -> Result<bool> {
    let next = sessions::evict_silent(core, (file, client), context)?;
    let mut shared = shared_file(core, file)?;
    let is_others = shared
        .grants
        .grants()
        .iter()
        .any(|grant| grant.mode == Mode::Write && grant.client != client && grant.stage != Stage::Ending);
    if !is_others || !has_writer(&shared) {
        return Ok(true);
    }
    shared.grants.recall_writers(Some(client));
    put(core, file, &shared, context.now)?;
    core.awaits(Awaited::File(file));
    if let Some(span) = next {
        core.look_again_in(span);
    }
    Ok(false)
}

/// As [`tape::request_recall`], in words for whoever waits.
pub(super) fn stage(core: &mut Core, context: &Context, (node, path): (&Node, &FilePath)) -> Result<String> {
    let row = tape::request_recall(core, context, node)?;
    tape::refuse_hopeless(&row, path)?;
    let waits = tape::waits(core, node.id, context.now)?;
    Ok(waits.unwrap_or_else(|| format!("{path} is recalled from tape")))
}
