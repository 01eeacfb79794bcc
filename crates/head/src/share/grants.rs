//! Grants: who may write to a file, or cache what was read of it.

use super::{
    has_writer, leases, live, nodes, opens, put, reach, session, sessions, shared_file, waits::Want,
};
use crate::{
    Apply, Context, Core,
    account::{Growth, refuse_excess},
    pool::{require_size, source},
    share::opens::shown_path,
    store::{LiveContent, Node, PutOff, SharedFile},
    tape,
    waiters::Awaited,
};
use ::share::{Answer, ClientId, Ended, Generation, Mode, RequestId, Stage};
use base::{ByteRange, Failure, FileId, FilePath, Result};
use std::sync::Arc;
use wire::control::{AskGrant, CommitNode, Done, GrantAnswer, MountedNode, ReturnGrant, ShareGrant, Written};

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
                let grant = given(core, context, (&node, &path), &mut shared, (self.mode, generation))?;
                put(core, self.file, &shared, context.now)?;
                Ok(GrantAnswer { grant: Some(grant), waits: None })
            }
        }
    }
}

/// Says where the bytes are of a file on which a grant was given. The caller puts the row.
fn given(
    core: &mut Core,
    context: &Context,
    (node, path): (&Node, &FilePath),
    shared: &mut SharedFile,
    (mode, generation): (Mode, Generation),
) -> Result<ShareGrant> {
    if mode == Mode::Write {
        live::begin(core, context, (node, path), (shared, generation))?;
        // Doors have kept that this file can be read as it is.
        core.store.set_visible();
        core.store.leases().changed(node.id);
    }
    let layout = live::layout(core, (node, path), shared, (mode, generation), context.now)?;
    Ok(ShareGrant { generation, layout, size: node.size, modified: node.modified })
}

/// Gives a grant with the answer to a call that opens a file, if nobody has to do anything for it. The caller puts the row.
pub(super) fn offer(
    core: &mut Core,
    context: &Context,
    (node, path): (&Node, &FilePath),
    shared: &mut SharedFile,
    (asked, mode): ((ClientId, RequestId), Mode),
) -> Result<Option<ShareGrant>> {
    let is_ready = match (&shared.live, mode) {
        (Some(live), _) => !live.is_sealing && !live.is_uneven,
        (None, Mode::Read) => source(core, node, node.id.0, context.now)?.is_some(),
        // Not the open makes a file live, but the first write.
        (None, Mode::Write) => false,
    };
    if !is_ready || !shared.grants.is_free(asked.0, mode, ALL) {
        return Ok(None);
    }
    if mode == Mode::Write && core.store.leases().is_leased(node.id, asked.0, context.now) {
        return Ok(None);
    }
    let servers = shared.live.as_ref().map(LiveContent::servers).unwrap_or_default();
    match shared.grants.ask(asked, (mode, ALL), &servers) {
        Answer::Granted(generation) => {
            given(core, context, (node, path), shared, (mode, generation)).map(Some)
        }
        Answer::Wait(_) => Ok(None),
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
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        session(core, context, self.client)?;
        let held = (self.file, self.client, self.generation);
        let node = commit(core, held, Written { size: self.size, modified: self.modified }, context)?;
        nodes::changed(core, context, self.client, &node)
    }
}

/// Publishes what was written under a grant. Yields the file as it was before.
fn commit(
    core: &mut Core,
    (file, client, generation): (FileId, ClientId, Generation),
    Written { size, modified }: Written,
    context: &Context,
) -> Result<Arc<Node>> {
    let shared = shared_file(core, file)?;
    require_held(&shared, (file, client, generation))?;
    core.store.set_granted(file);
    require_size(&format!("file {file}"), size)?;
    let node = core.store.node(file)?;
    let node = node.ok_or_else(|| Failure::not_found(format!("file {file} no longer exists")))?;
    live::commit(core, (&node, shared), (size, modified), context)?;
    let growth = Growth { is_new: false, bytes: size.saturating_sub(node.size) };
    if growth.bytes > 0 && !node.is_in_trash() {
        refuse_excess(core, &node, growth)?;
    }
    Ok(node)
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
        if shared_file(core, self.file)?.grants.was_returned(self.generation) {
            // The answer was lost.
            return Ok(Done {});
        }
        if let Some(written) = self.commit {
            commit(core, (self.file, self.client, self.generation), written, context)?;
        }
        let mut shared = shared_file(core, self.file)?;
        if !self.is_complete && !self.is_unused {
            live::writer_failed(&mut shared, (self.client, self.generation));
        }
        shared.grants.end(self.client, self.generation, Ended::Returned);
        note_fenced(core, &mut shared, &self);
        if let Some(mode) = self.closed {
            opens::note_closed(&mut shared, self.client, mode == Mode::Write);
        }
        if let Some(recalls) = core.live.share.recalls.get_mut(&self.client) {
            recalls.remove(&(self.file, self.generation));
        }
        live::give_up_unused(core, &mut shared)?;
        put(core, self.file, &shared, context.now)?;
        opens::end_if_unused(core, self.file, context)?;
        Ok(Done {})
    }
}

/// What a client says of its grant at the disk servers: they have fenced it, or never heard of it. The fence of a start that was not
/// told which grants have ended may be forgotten by now; then one is ordered that is synced.
fn note_fenced(core: &Core, shared: &mut SharedFile, returned: &ReturnGrant) {
    let Some(live) = &shared.live else { return };
    let told = |object| core.live.share.starts.get(&object).copied();
    let has_fenced =
        |object| returned.fenced.iter().any(|it| it.object == object && Some(it.start) == told(object));
    let fenced = live.copies.iter().filter(|copy| returned.is_unused || has_fenced(copy.object));
    for copy in fenced {
        shared.grants.fenced(copy.server, returned.generation);
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
