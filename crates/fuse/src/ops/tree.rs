//! Names: finding, making, removing and moving.

use super::{Outcome, attributes::shown};
use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{answers::Answer, request::Request},
    mount::Mount,
};
use rustix::io::Errno;
use wire::control::{Entry, LookUp, MakeNode, MoveNode, NodeKind, RemoveNode};

/// Kinds of nodes in a mode.
const KIND_BITS: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
/// Permission bits, with those that change whom a program runs as.
pub(super) const PERMISSION_BITS: u32 = 0o7777;
/// Longest name.
const NAME_BYTES_MAX: usize = 255;

/// `renameat2`.
const NO_REPLACE: u32 = 1 << 0;

/// A name as the catalogue takes it.
fn checked(name: String) -> Result<String, Errno> {
    if name.len() > NAME_BYTES_MAX { Err(Errno::NAMETOOLONG) } else { Ok(name) }
}

pub(super) fn look_up(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    // A name that is no text can exist nowhere.
    let name =
        request.fields().name().map_err(|errno| if errno == Errno::ILSEQ { Errno::NOENT } else { errno });
    let entry = find(mount, caller, request.node, &checked(name?)?)?;
    Ok(Answer::entry(&shown(mount, &entry)))
}

/// Finds a name.
pub(super) fn find(mount: &Mount, caller: &Caller, parent: u64, name: &str) -> Result<Entry, Refusal> {
    let (parent, name) = (mount.file_id(parent), name.to_owned());
    let found = mount.head.call_until(caller, |client| LookUp { client, parent, name: name.clone() })?;
    Ok(found.entry.ok_or(Errno::NOENT)?)
}

pub(super) fn make_node(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (mode, _device, _umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    if !matches!(mode & KIND_BITS, 0 | REGULAR) {
        return Err(Errno::OPNOTSUPP.into());
    }
    let entry = make(mount, caller, (request.node, fields.name()?), (NodeKind::File, mode), false)?;
    Ok(Answer::entry(&shown(mount, &entry)))
}

pub(super) fn make_directory(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (mode, _umask) = (fields.u32()?, fields.u32()?);
    let entry = make(mount, caller, (request.node, fields.name()?), (NodeKind::Directory, mode), false)?;
    Ok(Answer::entry(&shown(mount, &entry)))
}

/// Makes a file or a directory.
pub(super) fn make(
    mount: &Mount,
    caller: &Caller,
    (parent, name): (u64, String),
    (kind, mode): (NodeKind, u32),
    is_opened: bool,
) -> Result<Entry, Refusal> {
    let (parent, name, mode) = (mount.file_id(parent), checked(name)?, mode & PERMISSION_BITS);
    mount.head.call(caller, |client| MakeNode { client, parent, name: name.clone(), kind, mode, is_opened })
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
    if flags & !NO_REPLACE != 0 {
        return Err(Errno::INVAL.into());
    }
    let (parent, is_new) = (mount.file_id(request.node), flags & NO_REPLACE != 0);
    let (name, to_name) = (fields.name()?, checked(fields.name()?)?);
    mount.head.call(caller, |client| {
        let (name, to_name) = (name.clone(), to_name.clone());
        MoveNode { client, parent, name, to_parent, to_name, is_new }
    })?;
    Mount::nothing()
}
