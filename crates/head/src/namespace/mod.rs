//! Names: resolving paths, permissions, directories, renames and removals.

pub(crate) mod adopt;
pub(crate) mod attributes;
mod calls;
mod grants;
mod hard_links;
mod layouts;
pub(crate) mod metadata;
mod permission;
mod referrals;

pub(crate) use calls::describe;
pub(crate) use hard_links::{exchange, link, parents};
pub(crate) use layouts::{nearest, rule_of};
pub use permission::rights;
pub(crate) use permission::{Right, allows, is_granted};
pub(crate) use referrals::refuse_foreign;

use crate::{
    Context, Core, Principal, Topic, batch,
    pool::drop_content,
    share,
    store::{NewNode, Node, TRASH},
    tape::{StageEnd, stage_ended},
    trash::{self, Removal},
};
use base::{Cause, ErrorKind, Failure, FileId, FilePath, Result};
use metadata::SET_GROUP_ID;
use permission::require_unstuck;
use std::sync::Arc;
use wire::control::{NodeKind, Removed, TrashReason};

pub(crate) const ROOT: FileId = FileId(1);

fn missing(path: &FilePath) -> Failure {
    Failure::not_found(format!("{path} does not exist"))
}

/// Finds what a path names; every directory on the way must allow search.
pub(crate) fn resolve(core: &Core, who: &Principal, path: &FilePath) -> Result<Arc<Node>> {
    find(core, who, path)?.ok_or_else(|| missing(path))
}

/// As [`resolve`], but a missing last component is `None`.
pub(crate) fn find(core: &Core, who: &Principal, path: &FilePath) -> Result<Option<Arc<Node>>> {
    let referrals = core.store.referrals()?;
    walk(core, who, path, |node| referrals::refuse_kept(&referrals, node, path))
}

/// Finds what a path names; `pass` refuses what is not to be gone through, nor found.
fn walk(
    core: &Core,
    who: &Principal,
    path: &FilePath,
    pass: impl Fn(Step<'_>) -> Result<()>,
) -> Result<Option<Arc<Node>>> {
    let mut node = core.store.node(ROOT)?.ok_or_else(|| Failure::corrupt("the root directory is missing"))?;
    let mut names = path.names().peekable();
    while let Some(name) = names.next() {
        if !node.is_directory() {
            let (at, kind) = (path_of(core, node.id)?, node.kind.as_str());
            let what = format!("{path}: {at} is a {kind}, not a directory");
            return Err(Failure::new(ErrorKind::NotDirectory, what));
        }
        // The kernel of a host with a mount has searched the way, perhaps when it had other modes.
        if who.agent.is_none() {
            require(core, who, &node, Right::Search, path)?;
        }
        let child = core.store.child(node.id, name)?;
        pass(child.as_deref().map_or(Step::Missing(node.id), Step::Into))?;
        match child {
            Some(child) => node = child,
            None if names.peek().is_none() => return Ok(None),
            None => return Err(missing(path)),
        }
    }
    Ok(Some(node))
}

/// A step on the way along a path.
#[derive(Clone, Copy)]
enum Step<'a> {
    Into(&'a Node),
    /// There is nothing of this name in a directory.
    Missing(FileId),
}

/// Finds a file; a directory is refused.
pub(crate) fn resolve_file(core: &Core, who: &Principal, path: &FilePath) -> Result<Arc<Node>> {
    let node = resolve(core, who, path)?;
    require_file(&node, path)?;
    Ok(node)
}

/// Refuses what has no content. Links, pipes, sockets and devices mean something to hosts with a mount only.
pub(crate) fn require_file(node: &Node, path: &FilePath) -> Result<()> {
    match node.kind {
        NodeKind::File => Ok(()),
        NodeKind::Directory => Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory"))),
        other => Err(Failure::unsupported(format!("{path} is a {}, not a file", other.as_str()))
            .hint("use it through a mount (`bp mount`)")),
    }
}

/// Finds the directory in which `path` is an entry.
pub(crate) fn resolve_parent(core: &Core, who: &Principal, path: &FilePath) -> Result<Arc<Node>> {
    let parent = path.parent().ok_or_else(|| Failure::invalid("the root directory has no parent"))?;
    let node = resolve(core, who, &parent).map_err(|failure| match failure.kind {
        ErrorKind::NotFound => Failure::not_found(format!("directory {parent} does not exist"))
            .hint(format!("`bp mkdir -p {parent}` makes it")),
        _ => failure,
    })?;
    if !node.is_directory() {
        return Err(Failure::new(ErrorKind::NotDirectory, format!("{parent} is not a directory")));
    }
    Ok(node)
}

/// Refuses a principal whom neither the mode of `node` nor a grant gives `right` on it.
pub(crate) fn require(
    core: &Core,
    who: &Principal,
    node: &Node,
    right: Right,
    path: &FilePath,
) -> Result<()> {
    if allows(who, node, right) || is_granted(core, who, node, right)? {
        return Ok(());
    }
    // The whole path of what refuses: on a long way the name alone does not say which one it is.
    let at = path_of(core, node.id)?;
    let (verb, Node { mode, owner, group, .. }) = (right.verb(), node);
    let what = format!(
        "user {} may not {verb} {path}: {at} has mode {mode:04o}, owner {owner} and group {group}",
        who.name
    );
    Err(Failure::permission(what)
        .hint(format!("{owner} or an operator can change that: `bp chmod`, `bp grant`")))
}

/// Refuses everybody but the owner of a node, and of the facility, to change its `what`.
pub(crate) fn require_owner(who: &Principal, node: &Node, what: &str, path: &FilePath) -> Result<()> {
    if who.is_operator || who.name == node.owner {
        return Ok(());
    }
    let what =
        format!("user {} may not change the {what} of {path}, which belongs to {}", who.name, node.owner);
    Err(Failure::permission(what).because(Cause::NotOwner))
}

/// Names that mean something else on the HTTP door and so cannot be made below the root.
const RESERVED: [&str; 4] = ["api", "console", "metrics", ".well-known"];

/// Refuses a path that is one of these names.
pub(crate) fn refuse_reserved(path: &FilePath) -> Result<()> {
    if path.parent().is_some_and(|parent| parent.is_root()) && RESERVED.contains(&path.name()) {
        return Err(
            Failure::invalid(format!("{path} is reserved for the HTTP door")).hint("use another name")
        );
    }
    Ok(())
}

/// Adds an entry to a directory.
pub(crate) fn insert(
    core: &mut Core,
    context: &Context,
    parent: &Node,
    path: &FilePath,
    kind: NodeKind,
    mode: u32,
) -> Result<Arc<Node>> {
    require(core, &context.who, parent, Right::Write, path)?;
    referrals::refuse_foreign(core, parent.id, path)?;
    refuse_reserved(path)?;
    // What is made in a directory with the set-group-id bit has its group, as on Linux.
    let inherits = parent.mode & SET_GROUP_ID != 0;
    let bit = if inherits && kind == NodeKind::Directory { SET_GROUP_ID } else { 0 };
    let new = NewNode {
        parent: parent.id,
        name: path.name(),
        kind,
        owner: &context.who.name,
        mode: mode & 0o7777 | bit,
        now: context.now,
    };
    let group = if inherits { &parent.group } else { context.who.group() };
    let id = core.store.insert_node_of(&new, group)?;
    core.store.note_names_changed(parent.id)?;
    core.touch(Topic::Files);
    core.store.node(id)?.ok_or_else(|| Failure::internal(format!("{path} was removed while it was made")))
}

/// Makes a directory and, with `parents`, those above it; then an existing one is fine.
pub(crate) fn make_directory(
    core: &mut Core,
    context: &Context,
    path: &FilePath,
    mode: u32,
    parents: bool,
) -> Result<Arc<Node>> {
    if parents && let Some(parent) = path.parent() {
        make_directory(core, context, &parent, 0o755, true)?;
    }
    if path.is_root() {
        return resolve(core, &context.who, path);
    }
    let parent = resolve_parent(core, &context.who, path)?;
    require(core, &context.who, &parent, Right::Search, path)?;
    match core.store.child(parent.id, path.name())? {
        Some(node) if parents && node.is_directory() => Ok(node),
        Some(node) if parents => {
            Err(Failure::new(ErrorKind::NotDirectory, format!("{path} is a {}", kind_word(&node))))
        }
        Some(node) => Err(Failure::exists(format!("{path} exists, a {}", kind_word(&node)))),
        None => insert(core, context, &parent, path, NodeKind::Directory, mode),
    }
}

/// Makes missing directories above `path`. Most often there are none: that is found out in one walk.
pub(crate) fn make_parents(core: &mut Core, context: &Context, path: &FilePath) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    match find(core, &context.who, &parent) {
        Ok(Some(_)) => Ok(()),
        Err(failure) if failure.kind != ErrorKind::NotFound => Err(failure),
        Ok(None) | Err(_) => make_directory(core, context, &parent, 0o755, true).map(drop),
    }
}

fn kind_word(node: &Node) -> &'static str {
    node.kind.as_str()
}

/// Removes a name of a file. With the last one its content goes into the trash, if it has any and something is kept there.
pub(crate) fn remove_file(
    core: &mut Core,
    context: &Context,
    (path, node): (&FilePath, &Node),
    why: TrashReason,
) -> Result<Removed> {
    let parent = resolve_parent(core, &context.who, path)?;
    require(core, &context.who, &parent, Right::Write, path)?;
    require_unstuck(&context.who, (&parent, node), path)?;
    // Here, so that nothing else is done yet if mounts have to forget it first.
    core.store.require_forgotten(&[parent.id, node.id])?;
    let pins = core.store.pins(node.id, context.now)?;
    if let Some(job) = pins.iter().find(|holder| holder.starts_with("job ")) {
        return Err(Failure::busy(format!("{path} is an input of {job}"))
            .hint(format!("wait for it, or `bp cancel {}`", job.trim_start_matches("job "))));
    }
    if node.has_further_names() {
        core.store.remove_name(node, parent.id, path.name())?;
        core.touch(Topic::Files);
        return Ok(Removed { bytes: 0, restorable_for: None });
    }
    for request in core.store.requests_of_file(node.id)? {
        core.store.delete_request(request.id)?;
        stage_ended(core, node.id, StageEnd::Failed("it was removed"), context.now)?;
        core.touch(Topic::Tape);
    }
    core.store.delete_pins(node.id)?;
    if !node.is_file() {
        core.store.delete_node(node.id)?;
        core.touch(Topic::Files);
        return Ok(Removed { bytes: 0, restorable_for: None });
    }
    if share::keep_for_opens(core, node)? {
        return Ok(Removed { bytes: node.size, restorable_for: None });
    }
    share::content_replaced(core, node.id, context.now)?;
    let removal = Removal { remover: &context.who.name, why, now: context.now };
    let is_kept = trash::keep_file(core, node, removal)?;
    if !is_kept {
        drop_content(core, node.id, &[])?;
        core.store.delete_node(node.id)?;
    }
    core.touch(Topic::Files);
    batch::file_removed(core, context, node.id, path)?;
    Ok(Removed { bytes: node.size, restorable_for: is_kept.then_some(core.trash.retention) })
}

/// The path of a node, walked up from it; for people and labels. Of what is in the trash: where it was.
pub(crate) fn path_of(core: &Core, id: FileId) -> Result<FilePath> {
    let mut names = Vec::new();
    let mut id = id;
    while id != ROOT {
        let node =
            core.store.node(id)?.ok_or_else(|| Failure::not_found(format!("file {id} no longer exists")))?;
        if names.len() > base::limits::PATH_DEPTH_MAX {
            return Err(Failure::corrupt(format!("directories above file {id} form a ring")));
        }
        if node.parent == TRASH {
            let row = core.store.trash(node.id)?;
            let gone = || Failure::corrupt(format!("file {} is in the trash without its path", node.id));
            return row.map(|row| row.path).ok_or_else(gone);
        }
        id = node.parent;
        names.push(node.name.clone());
    }
    names.reverse();
    format!("/{}", names.join("/")).parse()
}
