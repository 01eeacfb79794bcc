//! Names: finding, making, removing and moving.

use super::{
    Outcome,
    attributes::{described, fetch, shown},
    special,
};
use crate::{
    cache::{Asked, Name},
    caller::Caller,
    errno::Refusal,
    kernel::{
        answers::{Answer, Until},
        request::Request,
    },
    mount::Mount,
};
use base::{Failure, FileId};
use rustix::io::Errno;
use wire::control::{Entry, LookUp, MakeNode, MountedNode, MoveNode, NodeKind, RemoveNode, ShareGrant};

/// Permission bits, with those that change whom a program runs as.
pub(super) const PERMISSION_BITS: u32 = 0o7777;
/// Longest name.
const NAME_BYTES_MAX: usize = 255;

/// How often what is being looked up may change meanwhile.
pub(super) const RACES_MAX: u32 = 4;

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
        let attributes = described(mount, caller, &entry)?;
        return Ok(Answer::entry(mount.asked(), &attributes, Until::default()));
    }
    let parent = mount.file_id(request.node);
    for _ in 0..RACES_MAX {
        let asked = mount.asked();
        let (found, name_until) = look(mount, caller, asked, (parent, &name))?;
        let Some((entry, attributes_until)) = found else { return Ok(Answer::absent(name_until)) };
        let attributes = described(mount, caller, &entry)?;
        if mount.cache.is_current(asked, entry.id) {
            let until = Until { name: name_until, attributes: attributes_until };
            return Ok(Answer::entry(asked, &attributes, until));
        }
    }
    // It is changed all the time: as it was a moment ago.
    let entry = find(mount, caller, request.node, &name)?;
    Ok(Answer::entry(mount.asked(), &described(mount, caller, &entry)?, Until::default()))
}

/// An entry, and until when its attributes hold.
type Held = (Entry, i64);

/// What a name stands for, if anything, and until when it does: from the cache, or from the head.
fn look(
    mount: &Mount,
    caller: &Caller,
    asked: Asked,
    (parent, name): (FileId, &str),
) -> Result<(Option<Held>, i64), Refusal> {
    match mount.cached_name(parent, name) {
        Name::Absent(until) => return Ok((None, until)),
        Name::Node(file, until) => {
            if let Some(held) = mount.cached(file) {
                return Ok((Some(held), until));
            }
        }
        Name::Unknown => {}
    }
    let ask = |client| LookUp { client, parent, name: name.to_owned() };
    let MountedNode { entry, lease, names_lease, .. } = mount.head.call_until(caller, ask)?;
    let file = entry.as_ref().map(|entry| entry.id);
    let held = entry.map(|entry| (mount.cache.keep_node(asked, &entry, lease), entry));
    let until = mount.cache.keep_name(asked, (parent, name), file, names_lease);
    Ok((held.map(|(until, entry)| (entry, until)), until))
}

/// Asks the head for a name.
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
    let Made { entry, until, .. } = make(mount, caller, (request.node, fields.name()?), new)?;
    Ok(Answer::entry(mount.asked(), &described(mount, caller, &entry)?, until))
}

pub(super) fn make_directory(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (mode, _umask) = (fields.u32()?, fields.u32()?);
    let new = NewNode::of(NodeKind::Directory, mode);
    let Made { entry, until, .. } = make(mount, caller, (request.node, fields.name()?), new)?;
    Ok(Answer::entry(mount.asked(), &shown(mount, &entry), until))
}

/// What is to be made.
pub(crate) struct NewNode {
    pub(crate) kind: NodeKind,
    pub(crate) mode: u32,
    pub(crate) is_opened: bool,
    /// Of a link or a device.
    pub(crate) target: String,
}

impl NewNode {
    pub(crate) fn of(kind: NodeKind, mode: u32) -> Self {
        Self { kind, mode, is_opened: false, target: String::new() }
    }
}

/// What was made.
pub(crate) struct Made {
    pub(crate) entry: Entry,
    pub(crate) until: Until,
    /// Of a file that is opened: the grant to write, if nothing was in its way.
    pub(crate) grant: Option<ShareGrant>,
}

/// Makes a node. Its name holds for a while; its attributes are asked for: the kernel would take them for newer than what it is told
/// to forget meanwhile.
pub(crate) fn make(
    mount: &Mount,
    caller: &Caller,
    (parent, name): (u64, String),
    NewNode { kind, mode, is_opened, target }: NewNode,
) -> Result<Made, Refusal> {
    let (parent, name, mode) = (mount.file_id(parent), checked(name)?, mode & PERMISSION_BITS);
    let (asked, grant) = (mount.asked(), is_opened.then(|| mount.next_request()));
    let made = mount.head.call(caller, |client| MakeNode {
        client,
        parent,
        name: name.clone(),
        kind,
        mode,
        is_opened,
        target: target.clone(),
        grant,
    });
    let MountedNode { entry, lease, names_lease, grant, .. } = made.inspect_err(|_| mount.doubt(parent))?;
    let entry = entry.ok_or_else(|| Failure::internal("the head does not say what it has made"))?;
    let name = mount.cache.made(asked, (parent, &name), &entry, (lease, names_lease));
    Ok(Made { entry, until: Until { name, attributes: 0 }, grant })
}

pub(super) fn remove(mount: &Mount, caller: &Caller, request: &Request, kind: NodeKind) -> Outcome {
    let (parent, name) = (mount.file_id(request.node), request.fields().name()?);
    let removed = mount.head.call(caller, |client| RemoveNode { client, parent, name: name.clone(), kind });
    removed.inspect_err(|_| mount.doubt(parent))?;
    mount.cache.removed((parent, &name));
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
    let moved = mount.head.call(caller, |client| {
        let (name, to_name) = (name.clone(), to_name.clone());
        MoveNode { client, parent, name, to_parent, to_name, is_new, is_exchange }
    });
    moved.inspect_err(|_| {
        mount.doubt(parent);
        mount.doubt(to_parent);
    })?;
    if is_exchange {
        mount.cache.exchanged((parent, &name), (to_parent, &to_name));
    } else {
        mount.cache.moved((parent, &name), (to_parent, &to_name));
    }
    Mount::nothing()
}
