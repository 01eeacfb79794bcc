//! Further names of files, and two names that change places: what only mounts ask for.

use super::{
    Right, calls::check_paths_below, permission::require_unstuck, referrals, refuse_reserved, require,
    resolve, resolve_parent,
};
use crate::{
    Context, Core, Topic,
    store::{Node, TRASH},
};
use base::{Cause, ErrorKind, Failure, FileId, FilePath, Result};
use std::sync::Arc;

/// Names of a file at most, as on ext4: programs count them in few bits.
const NAMES_MAX: u32 = 65_000;

/// Gives a node a further name.
pub(crate) fn link(core: &mut Core, context: &Context, node: &Node, path: &FilePath) -> Result<Arc<Node>> {
    let gone = || Failure::not_found(format!("file {} no longer exists", node.id));
    if node.is_directory() {
        let what = format!("{path} would be a second name of a directory");
        return Err(Failure::permission(what).because(Cause::NotOwner).hint("use a symbolic link"));
    }
    if node.is_in_trash() {
        return Err(gone());
    }
    let parent = resolve_parent(core, &context.who, path)?;
    require(core, &context.who, &parent, Right::Search, path)?;
    if core.store.name_row(parent.id, path.name())?.is_some() {
        return Err(Failure::exists(format!("{path} exists")));
    }
    require(core, &context.who, &parent, Right::Write, path)?;
    referrals::refuse_foreign(core, parent.id, path)?;
    refuse_reserved(path)?;
    if node.posix.further_links + 1 >= NAMES_MAX {
        let what = format!("{path} would be one name more than the {NAMES_MAX} that a file may have");
        return Err(Failure::busy(what).because(Cause::TooManyNames));
    }
    core.store.add_hard_link(node.id, parent.id, path.name())?;
    core.touch(Topic::Files);
    core.store.node(node.id)?.ok_or_else(gone)
}

/// Has two names change places, in one step.
pub(crate) fn exchange(
    core: &mut Core,
    context: &Context,
    (one, other): (&FilePath, &FilePath),
) -> Result<()> {
    let places = [(one, other), (other, one)].map(|(from, to)| place(core, context, (from, to)));
    let [first, second] = places;
    let (first, second) = (first?, second?);
    if first.row.id == second.row.id {
        return Ok(());
    }
    if first.parent.id != second.parent.id {
        // Fewer may see what moved, perhaps.
        core.raise_fence();
    }
    // Nobody may meet one under the name of the other before that is free.
    core.store.move_node(first.row.id, TRASH, &format!("exchanged {}", first.row.id))?;
    core.store.move_node(second.row.id, first.parent.id, one.name())?;
    core.store.move_node(first.row.id, second.parent.id, other.name())?;
    core.touch(Topic::Files);
    Ok(())
}

/// A name that is exchanged: its directory, and its row.
struct Place {
    parent: Arc<Node>,
    row: Arc<Node>,
}

fn place(core: &mut Core, context: &Context, (from, to): (&FilePath, &FilePath)) -> Result<Place> {
    let who = &context.who;
    referrals::refuse_move(core, who, from, to)?;
    refuse_reserved(from)?;
    let node = resolve(core, who, from)?;
    if from != to && to.is_within(from) {
        return Err(Failure::invalid(format!("{to} lies inside {from}")));
    }
    let parent = resolve_parent(core, who, from)?;
    require(core, who, &parent, Right::Write, from)?;
    require_unstuck(who, (&parent, &node), from)?;
    if node.is_directory() {
        check_paths_below(core, node.id, from, to)?;
    }
    let row = core.store.name_row(parent.id, from.name())?;
    let missing = || Failure::new(ErrorKind::NotFound, format!("{from} does not exist"));
    Ok(Place { row: row.ok_or_else(missing)?, parent })
}

/// The directories in which a node has names: first that of its own one.
pub(crate) fn parents(core: &Core, node: &Node) -> Result<Vec<FileId>> {
    let mut parents = vec![node.parent];
    if node.has_further_names() {
        parents.extend(core.store.hard_links(node.id)?.into_iter().map(|(_, parent, _)| parent));
    }
    Ok(parents)
}
