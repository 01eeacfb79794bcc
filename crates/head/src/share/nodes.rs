//! Names as mounts ask for them: by the number of a directory, which stays when it is renamed.

use super::{grants::recall_writers, live, opens::note_open, put, reach, session};
use crate::{
    Apply, Context, Core,
    account::{Growth, refuse_excess},
    namespace::{Right, find, insert, path_of, require, resolve, resolve_parent},
    store::{Node, SharedFile},
};
use ::share::ClientId;
use base::{ErrorKind, Failure, FileId, FilePath, Result};
use wire::control::{
    Done, Entry, GetNode, LinkTarget, List, ListNode, Listing, LookUp, MakeNode, Mkdir, MountedNode,
    MoveNode, NodeKind, ReadLink, Remove, RemoveDirectory, RemoveNode, Rename, SetMode, SetNode, SetOwner,
    SetTime,
};

/// The path of a name in a directory that the session reaches.
fn path_in(
    core: &mut Core,
    context: &Context,
    client: ClientId,
    (parent, name): (FileId, &str),
) -> Result<FilePath> {
    session(core, context, client)?;
    let directory = reach(core, context, client, parent)?;
    if !directory.is_directory() {
        return Err(Failure::new(ErrorKind::NotDirectory, format!("{} is not a directory", directory.name)));
    }
    path_of(core, parent)?.join(name)
}

/// What a mount is shown of a node, once what other mounts have written to it is committed.
fn shown(core: &mut Core, context: &Context, client: ClientId, file: FileId) -> Result<MountedNode> {
    let is_committed = recall_writers(core, (file, client), context)?;
    let node = core.store.node(file)?.filter(|_| is_committed);
    Ok(MountedNode { entry: node.map(|node| node.entry()) })
}

impl Apply for LookUp {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        let node = resolve(core, &context.who, &path)?;
        shown(core, context, self.client, node.id)
    }
}

impl Apply for GetNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        shown(core, context, self.client, node.id)
    }
}

impl Apply for ListNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Listing> {
        session(core, context, self.client)?;
        reach(core, context, self.client, self.directory)?;
        List { path: path_of(core, self.directory)?, after: self.after }.apply(core, context)
    }
}

impl Apply for MakeNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Entry> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        if self.kind == NodeKind::Directory {
            return Mkdir { path, mode: self.mode, parents: false }.apply(core, context);
        }
        let parent = resolve_parent(core, &context.who, &path)?;
        require(core, &context.who, &parent, Right::Search, &path)?;
        if find(core, &context.who, &path)?.is_some() {
            return Err(Failure::exists(format!("{path} exists")));
        }
        let node = insert(core, context, &parent, &path, self.kind, self.mode)?;
        if !node.is_file() {
            return made_special(core, &node, self.kind, &self.target);
        }
        let mut made = live::place(core, (&node, None), context)?;
        made.is_committed = true;
        core.store.set_live_content(node.id, made.object, (0, context.now))?;
        refuse_excess(core, &node, Growth { is_new: true, bytes: 0 })?;
        let mut shared = SharedFile { live: Some(made), ..SharedFile::default() };
        if self.is_opened {
            note_open(&mut shared, self.client, true);
        }
        put(core, node.id, &shared, context.now)?;
        Ok(core.store.node(node.id)?.map_or_else(|| node.entry(), |node| node.entry()))
    }
}

/// Longest target of a symbolic link, as on Linux.
const TARGET_BYTES_MAX: usize = 4095;

/// Gives a new link or special file what it stands for.
fn made_special(core: &mut Core, node: &Node, kind: NodeKind, target: &str) -> Result<Entry> {
    let has_target = matches!(kind, NodeKind::Link | NodeKind::BlockDevice | NodeKind::CharacterDevice);
    if target.len() > TARGET_BYTES_MAX || has_target == target.is_empty() {
        let what = format!("a {} whose target has {} bytes", kind.as_str(), target.len());
        return Err(Failure::invalid(what)
            .hint(format!("links and devices need 1 to {TARGET_BYTES_MAX}, others none")));
    }
    refuse_excess(core, node, Growth { is_new: true, bytes: 0 })?;
    if has_target {
        core.store.set_link(node.id, target)?;
    }
    Ok(core.store.node(node.id)?.map_or_else(|| node.entry(), |node| node.entry()))
}

impl Apply for ReadLink {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LinkTarget> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let none = || Failure::invalid(format!("{} is a {}, not a link", node.name, node.kind.as_str()));
        Ok(LinkTarget { target: core.store.link(node.id)?.ok_or_else(none)? })
    }
}

impl Apply for RemoveNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        match self.kind {
            NodeKind::Directory => RemoveDirectory { path }.apply(core, context),
            _ => Remove { path }.apply(core, context).map(|_| Done {}),
        }
    }
}

impl Apply for MoveNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let from = path_in(core, context, self.client, (self.parent, &self.name))?;
        let to = path_in(core, context, self.client, (self.to_parent, &self.to_name))?;
        Rename { from, to, is_new: self.is_new, parents: false }.apply(core, context)
    }
}

impl Apply for SetNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Entry> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let entry =
            |core: &Core| Ok(core.store.node(self.file)?.map_or_else(|| node.entry(), |node| node.entry()));
        if node.is_in_trash() {
            // Nobody can see what it would change.
            return entry(core);
        }
        let path = path_of(core, self.file)?;
        if self.owner.is_some() || self.group.is_some() {
            let (owner, group) = (self.owner, self.group);
            SetOwner { path: path.clone(), owner, group }.apply(core, context)?;
        }
        if let Some(mode) = self.mode {
            SetMode { path: path.clone(), mode }.apply(core, context)?;
        }
        if let Some(modified) = self.modified {
            SetTime { path, modified }.apply(core, context)?;
        }
        entry(core)
    }
}
