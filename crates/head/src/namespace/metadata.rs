//! Modes, owners and times: by the calls of doors, which name a path, and of mounts, which name a node.

use super::{Right, allows, is_granted, require, require_owner, resolve};
use crate::{
    Apply, Context, Core, Topic,
    store::{NewTimes, Node},
};
use base::{Cause, Failure, FilePath, Result, check_name};
use wire::control::{Done, SetMode, SetOwner, SetTime};

/// Bits by which a program gets the rights of its owner and its group.
const SET_ID_BITS: u32 = 0o6000;
pub(super) const SET_GROUP_ID: u32 = 0o2000;
/// Mode bits without which somebody cannot read a file, or what is below a directory.
const READ_OR_SEARCH: u32 = 0o555;

impl Apply for SetTime {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        let times = NewTimes { modified: Some(self.modified.into()), accessed: None };
        set_times(core, context, (&self.path, &node), times)
    }
}

/// Sets times of a node.
pub(crate) fn set_times(
    core: &mut Core,
    context: &Context,
    (path, node): (&FilePath, &Node),
    times: NewTimes,
) -> Result<Done> {
    // As by a write, which may say any time; the owner may, too, as POSIX wants it.
    if context.who.name != node.owner {
        require(core, &context.who, node, Right::Write, path)?;
    }
    if node.is_file() && node.is_unwritten() {
        return Err(Failure::locked(format!("{path} is being written and has no modification time yet"))
            .hint("set it once its writer has closed the file"));
    }
    core.store.set_times(node.id, times)?;
    core.touch(Topic::Files);
    Ok(Done {})
}

impl Apply for SetOwner {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        set_owner(core, context, (&self.path, &node), (self.owner, self.group))
    }
}

/// Gives a node to another owner, another group, or both.
pub(crate) fn set_owner(
    core: &mut Core,
    context: &Context,
    (path, node): (&FilePath, &Node),
    (owner, group): (Option<String>, Option<String>),
) -> Result<Done> {
    let mut holder = node.holder();
    if let Some(owner) = owner.filter(|owner| *owner != node.owner) {
        check_name("user", &owner)?;
        let refused = context.who.require_operator(&format!("change the owner of {path}"));
        refused.map_err(|failure| failure.because(Cause::NotOwner))?;
        holder.owner = owner;
    }
    require_owner(&context.who, node, "group", path)?;
    if let Some(group) = group.filter(|group| *group != node.group) {
        check_name("group", &group)?;
        if !context.who.is_operator && !context.who.is_in(&group) {
            let what =
                format!("user {} is not in group {group} and may not give it {path}", context.who.name);
            return Err(Failure::permission(what)
                .because(Cause::NotOwner)
                .hint("choose a group of your own, or ask the owner of the facility"));
        }
        holder.group = group;
    }
    if !context.who.is_operator && !node.is_directory() {
        // Others than its owner decided that it may be run with these rights.
        holder.mode &= !SET_ID_BITS;
    }
    // Who had rights by the old owner or group loses them.
    core.raise_fence();
    core.store.set_holder(node.id, &holder)?;
    core.touch(Topic::Files);
    Ok(Done {})
}

impl Apply for SetMode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        set_mode(core, context, (&self.path, &node), self.mode)
    }
}

/// Sets the permission bits of a node.
pub(crate) fn set_mode(
    core: &mut Core,
    context: &Context,
    (path, node): (&FilePath, &Node),
    mode: u32,
) -> Result<Done> {
    let who = &context.who;
    let mut mode = mode & 0o7777;
    // A write takes them away; a mount says so on behalf of whoever writes.
    let is_write = mode == node.mode & !SET_ID_BITS || mode == node.mode & !0o4000;
    let may_write =
        is_write && (allows(who, node, Right::Write) || is_granted(core, who, node, Right::Write)?);
    if !may_write {
        require_owner(who, node, "mode", path)?;
    }
    if !who.is_operator && !who.is_in(&node.group) {
        mode &= !SET_GROUP_ID;
    }
    if node.mode & !mode & READ_OR_SEARCH != 0 {
        core.raise_fence();
    }
    core.store.set_mode(node.id, mode)?;
    Ok(Done {})
}
