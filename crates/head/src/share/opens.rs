//! Opens: permissions are checked here, once, and a file stays until its last user has closed it.

use super::{grants, live, put, reach, session, shared_file};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{Right, path_of, require, require_file},
    pool::drop_content,
    store::{Node, Opens, SharedFile},
};
use ::share::{ClientId, Mode};
use base::{FileId, FilePath, Result};
use wire::control::{CloseNode, Done, OpenNode, OpenedNode};

impl Apply for OpenNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<OpenedNode> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let path = shown_path(core, &node)?;
        require_file(&node, &path)?;
        for right in rights(&self, context) {
            require(core, &context.who, &node, right, &path)?;
        }
        let mut shared = shared_file(core, self.file)?;
        note_open(&mut shared, self.client, self.is_write);
        let mode = if self.is_write { Mode::Write } else { Mode::Read };
        let asked = self.grant.map(|request| ((self.client, request), mode));
        let grant = asked.map(|asked| grants::offer(core, context, (&node, &path), &mut shared, asked));
        let grant = grant.transpose()?.flatten();
        put(core, self.file, &shared, context.now)?;
        Ok(OpenedNode { grant })
    }
}

/// What an open needs. Whoever opens a file for nothing may ask for a grant to read it.
fn rights(open: &OpenNode, context: &Context) -> Vec<Right> {
    // Only the kernel of a host says truly that a file is read to be run: a mount for all users of the host is believed.
    let is_run = open.is_run && context.who.agent.is_some();
    let is_read = open.is_read || !open.is_write && !is_run;
    let wanted = [(is_read, Right::Read), (open.is_write, Right::Write), (is_run, Right::Search)];
    wanted.into_iter().filter_map(|(is_wanted, right)| is_wanted.then_some(right)).collect()
}

impl Apply for CloseNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        let mut shared = shared_file(core, self.file)?;
        note_closed(&mut shared, self.client, self.is_write);
        put(core, self.file, &shared, context.now)?;
        end_if_unused(core, self.file, context)?;
        Ok(Done {})
    }
}

/// Counts an open of a session.
pub(super) fn note_open(shared: &mut SharedFile, client: ClientId, is_write: bool) {
    let index = shared.opens.iter().position(|open| open.client == client).unwrap_or_else(|| {
        shared.opens.push(Opens { client, readers: 0, writers: 0 });
        shared.opens.len() - 1
    });
    let open = &mut shared.opens[index];
    let count = if is_write { &mut open.writers } else { &mut open.readers };
    *count = count.saturating_add(1);
}

/// Counts that an open of a session has ended.
pub(super) fn note_closed(shared: &mut SharedFile, client: ClientId, is_write: bool) {
    for open in shared.opens.iter_mut().filter(|open| open.client == client) {
        let count = if is_write { &mut open.writers } else { &mut open.readers };
        *count = count.saturating_sub(1);
    }
    shared.opens.retain(|open| open.readers + open.writers > 0);
}

/// The path of a node for messages; one that was removed while it is open has none.
pub(super) fn shown_path(core: &Core, node: &Node) -> Result<FilePath> {
    if node.is_in_trash() { "/removed".parse() } else { path_of(core, node.id) }
}

/// Takes away the name of a file that mounts have open, and leaves the rest. Yields whether that was done.
pub(crate) fn keep_for_opens(core: &mut Core, node: &Node) -> Result<bool> {
    if core.store.mounts()?.is_empty() || shared_file(core, node.id)?.opens.is_empty() {
        return Ok(false);
    }
    core.store.hide_node(node.id)?;
    core.touch(Topic::Files);
    Ok(true)
}

/// Removes a file without a name that nobody has open any more.
pub(super) fn end_if_unused(core: &mut Core, file: FileId, context: &Context) -> Result<()> {
    let Some(node) = core.store.node(file)?.filter(|node| node.is_in_trash()) else { return Ok(()) };
    let is_kept = core.store.trash(file)?.is_some() || !shared_file(core, file)?.opens.is_empty();
    if is_kept {
        return Ok(());
    }
    live::content_replaced(core, file, context.now)?;
    drop_content(core, node.id, &[])?;
    core.store.delete_node(node.id)?;
    Ok(())
}
