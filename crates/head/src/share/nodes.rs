//! Names as mounts ask for them: by the number of a directory, which stays when it is renamed.

use super::{
    grants::{offer, recall_writers},
    leases, live,
    opens::note_open,
    put, reach, session, sessions, shared_file,
    waits::Want,
};
use crate::{
    Apply, Context, Core,
    account::{Growth, refuse_excess},
    namespace::{
        Right, exchange, find, insert, link, make_directory,
        metadata::{set_mode, set_owner, set_times},
        path_of, require, resolve_parent,
    },
    store::{NewTimes, Node, SharedFile},
};
use ::share::{ClientId, Mode};
use base::{ErrorKind, Failure, FileId, FilePath, Millis, Result};
use wire::control::{
    Done, Entry, GetNode, LinkNode, LinkTarget, List, ListNode, Listing, LookUp, MakeNode, MountedNames,
    MountedNode, MoveNode, NodeKind, ReadLink, Remove, RemoveDirectory, RemoveNode, Rename, SetNode,
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
    let path = path_of(core, parent)?.join(name)?;
    if context.who.agent.is_some() {
        // Those above have been searched by the kernel of the host.
        require(core, &context.who, &directory, Right::Search, &path)?;
    }
    Ok(path)
}

/// What a mount is shown of a node, once what other mounts have written to it is committed.
fn shown(core: &mut Core, context: &Context, client: ClientId, file: FileId) -> Result<MountedNode> {
    if !recall_writers(core, (file, client), context)? {
        let why = sessions::who_has(core, &shared_file(core, file)?, client)?;
        core.live.share.waits((file, client, Want::Attributes), why, context.now);
        return Ok(MountedNode::default());
    }
    core.live.share.waits_no_more(file, client, Want::Attributes);
    let node = core.store.node(file)?;
    let node = node.ok_or_else(|| Failure::not_found(format!("file {file} no longer exists")))?;
    leased(core, context, client, &node)
}

/// A node with a lease on it.
fn leased(core: &Core, context: &Context, client: ClientId, node: &Node) -> Result<MountedNode> {
    let lease = leases::give(core, client, node, context.now)?;
    Ok(MountedNode { entry: Some(node.entry()), lease, ..MountedNode::default() })
}

/// What was made or changed, as it is now.
pub(super) fn changed(core: &Core, context: &Context, client: ClientId, node: &Node) -> Result<MountedNode> {
    let now = core.store.node(node.id)?;
    leased(core, context, client, now.as_deref().unwrap_or(node))
}

/// What was made in a directory.
fn made_in(core: &Core, context: &Context, client: ClientId, node: &Node) -> Result<MountedNode> {
    let names_lease = leases::give_known(core, client, node.parent, context.now);
    Ok(MountedNode { names_lease, ..changed(core, context, client, node)? })
}

impl Apply for LookUp {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        let node = find(core, &context.who, &path)?;
        let names_lease = leases::give_known(core, self.client, self.parent, context.now);
        let Some(node) = node else {
            return Ok(MountedNode { is_absent: true, names_lease, ..MountedNode::default() });
        };
        Ok(MountedNode { names_lease, ..shown(core, context, self.client, node.id)? })
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
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNames> {
        session(core, context, self.client)?;
        let directory = reach(core, context, self.client, self.directory)?;
        let path = path_of(core, self.directory)?;
        let list = List { path: path.clone(), after: self.after };
        let Listing { entries, is_partial } = list.apply(core, context)?;
        let mut names = MountedNames {
            entries,
            is_partial,
            names_lease: Millis(0),
            lease: Millis(0),
            not_leased: Vec::new(),
        };
        // Who may list names, but not look one up, is told no more.
        if require(core, &context.who, &directory, Right::Search, &path).is_ok() {
            lease_names(core, context, (self.client, self.directory), &mut names);
        }
        Ok(names)
    }
}

/// Gives leases on what is listed.
fn lease_names(
    core: &Core,
    context: &Context,
    (client, directory): (ClientId, FileId),
    names: &mut MountedNames,
) {
    names.names_lease = leases::give_known(core, client, directory, context.now);
    names.lease = ::share::Leases::SPAN;
    for Entry { id, .. } in &names.entries {
        let is_written = core.live.share.written.contains(id);
        if is_written || leases::give_known(core, client, *id, context.now) == Millis(0) {
            names.not_leased.push(*id);
        }
    }
}

impl Apply for MakeNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        if self.kind == NodeKind::Directory {
            let node = make_directory(core, context, &path, self.mode, false)?;
            return made_in(core, context, self.client, &node);
        }
        let parent = resolve_parent(core, &context.who, &path)?;
        require(core, &context.who, &parent, Right::Search, &path)?;
        if find(core, &context.who, &path)?.is_some() {
            return Err(Failure::exists(format!("{path} exists")));
        }
        let node = insert(core, context, &parent, &path, self.kind, self.mode)?;
        if !node.is_file() {
            make_special(core, &node, self.kind, &self.target)?;
            return made_in(core, context, self.client, &node);
        }
        let pool = core.store.policy(&core.config.pool)?;
        let mut made = live::place(core, &node, &pool, context)?;
        made.is_committed = true;
        core.store.set_live_content(node.id, made.object, (0, context.now))?;
        refuse_excess(core, &node, Growth { is_new: true, bytes: 0 })?;
        let mut shared = SharedFile { live: Some(made), ..SharedFile::default() };
        let mut grant = None;
        if self.is_opened {
            note_open(&mut shared, self.client, true);
            let asked = self.grant.map(|request| ((self.client, request), Mode::Write));
            let asked = asked.map(|asked| offer(core, context, (&node, &path), &mut shared, asked));
            grant = asked.transpose()?.flatten();
        }
        put(core, node.id, &shared, context.now)?;
        Ok(MountedNode { grant, ..made_in(core, context, self.client, &node)? })
    }
}

/// Longest target of a symbolic link, as on Linux.
const TARGET_BYTES_MAX: usize = 4095;

/// Gives a new link or special file what it stands for.
fn make_special(core: &mut Core, node: &Node, kind: NodeKind, target: &str) -> Result<()> {
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
    Ok(())
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
        if self.is_exchange {
            return exchange(core, context, (&from, &to)).map(|()| Done {});
        }
        Rename { from, to, is_new: self.is_new, parents: false }.apply(core, context)
    }
}

impl Apply for LinkNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        let path = path_in(core, context, self.client, (self.parent, &self.name))?;
        let node = reach(core, context, self.client, self.file)?;
        let node = link(core, context, &node, &path)?;
        let names_lease = leases::give_known(core, self.client, self.parent, context.now);
        Ok(MountedNode { names_lease, ..changed(core, context, self.client, &node)? })
    }
}

impl Apply for SetNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountedNode> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        if node.is_in_trash() {
            // Nobody can see what it would change.
            return changed(core, context, self.client, &node);
        }
        let path = path_of(core, self.file)?;
        if self.owner.is_some() || self.group.is_some() {
            set_owner(core, context, (&path, &node), (self.owner, self.group))?;
        }
        if let Some(mode) = self.mode {
            let node = reach(core, context, self.client, self.file)?;
            set_mode(core, context, (&path, &node), mode)?;
        }
        let times = NewTimes { modified: self.modified, accessed: self.accessed };
        if times.modified.is_some() || times.accessed.is_some() {
            set_times(core, context, (&path, &node), times)?;
        }
        changed(core, context, self.client, &node)
    }
}
