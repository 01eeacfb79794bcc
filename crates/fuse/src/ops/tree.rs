//! Names: finding, making, removing and moving.

use super::{
    Outcome,
    attributes::{described, fetch, shown},
    special,
};
use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{answers::Answer, request::Request},
    mount::Mount,
};
use base::Failure;
use rustix::io::Errno;
use wire::control::{Entry, LookUp, MakeNode, MoveNode, NodeKind, RemoveNode};

/// Permission bits, with those that change whom a program runs as.
pub(super) const PERMISSION_BITS: u32 = 0o7777;
/// Longest name.
const NAME_BYTES_MAX: usize = 255;

/// `renameat2`.
const NO_REPLACE: u32 = 1 << 0;
const EXCHANGE: u32 = 1 << 1;

/// A name as the catalogue takes it.
pub(super) fn checked(name: String) -> Result<String, Errno> {
    if name.len() > NAME_BYTES_MAX { Err(Errno::NAMETOOLONG) } else { Ok(name) }
}

pub(super) fn look_up(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let name = checked(request.fields().name()?)?;
    if name == "." {
        // A server of NFS has kept the number of a node that the kernel has forgotten.
        let entry = fetch(mount, caller, mount.file_id(request.node))?;
        return Ok(Answer::entry(&described(mount, caller, &entry)?));
    }
    let entry = find(mount, caller, request.node, &name)?;
    Ok(Answer::entry(&described(mount, caller, &entry)?))
}

/// Finds a name.
pub(super) fn find(mount: &Mount, caller: &Caller, parent: u64, name: &str) -> Result<Entry, Refusal> {
    let (parent, name) = (mount.file_id(parent), name.to_owned());
    let found = mount.head.call_until(caller, |client| LookUp { client, parent, name: name.clone() })?;
    Ok(found.entry.ok_or(Errno::NOENT)?)
}

pub(super) fn make_node(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (mode, device, _umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let kind = NodeKind::of_mode(mode).ok_or(Errno::INVAL)?;
    let new = NewNode { kind, mode, is_opened: false, target: special::device_text(kind, device) };
    let entry = make(mount, caller, (request.node, fields.name()?), new)?;
    Ok(Answer::entry(&described(mount, caller, &entry)?))
}

pub(super) fn make_directory(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (mode, _umask) = (fields.u32()?, fields.u32()?);
    let entry = make(mount, caller, (request.node, fields.name()?), NewNode::of(NodeKind::Directory, mode))?;
    Ok(Answer::entry(&shown(mount, &entry)))
}

/// What is to be made.
pub(super) struct NewNode {
    pub(super) kind: NodeKind,
    pub(super) mode: u32,
    pub(super) is_opened: bool,
    /// Of a link or a device.
    pub(super) target: String,
}

impl NewNode {
    pub(super) fn of(kind: NodeKind, mode: u32) -> Self {
        Self { kind, mode, is_opened: false, target: String::new() }
    }
}

/// Makes a node.
pub(super) fn make(
    mount: &Mount,
    caller: &Caller,
    (parent, name): (u64, String),
    NewNode { kind, mode, is_opened, target }: NewNode,
) -> Result<Entry, Refusal> {
    let (parent, name, mode) = (mount.file_id(parent), checked(name)?, mode & PERMISSION_BITS);
    let made = mount.head.call(caller, |client| MakeNode {
        client,
        parent,
        name: name.clone(),
        kind,
        mode,
        is_opened,
        target: target.clone(),
    })?;
    made.entry.ok_or_else(|| Failure::internal("the head does not say what it has made").into())
}

pub(super) fn remove(mount: &Mount, caller: &Caller, request: &Request, kind: NodeKind) -> Outcome {
    let (parent, name) = (mount.file_id(request.node), request.fields().name()?);
    mount.head.call(caller, |client| RemoveNode { client, parent, name: name.clone(), kind })?;
    Mount::nothing()
}

pub(super) fn rename(mount: &Mount, caller: &Caller, request: &Request, has_flags: bool) -> Outcome {
    let mut fields = request.fields();
    let to_parent = mount.file_id(fields.u64()?);
    let flags = if has_flags { fields.u64()? as u32 } else { 0 };
    // What the kernel takes for a mistake, such as both at once, it has refused itself.
    if flags & !(NO_REPLACE | EXCHANGE) != 0 {
        return Err(Errno::INVAL.into());
    }
    let parent = mount.file_id(request.node);
    let (is_new, is_exchange) = (flags & NO_REPLACE != 0, flags & EXCHANGE != 0);
    let (name, to_name) = (fields.name()?, checked(fields.name()?)?);
    mount.head.call(caller, |client| {
        let (name, to_name) = (name.clone(), to_name.clone());
        MoveNode { client, parent, name, to_parent, to_name, is_new, is_exchange }
    })?;
    Mount::nothing()
}
