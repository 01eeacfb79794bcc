//! Names: found, made, removed and moved.

use super::nodes::entry;
use crate::disk::{Attributes, Body, Disk, NodeId, Target, new_directory, new_file, now};
use fuse::kernel::{abi::opcode, answers::Answer, request::Request};
use rustix::{fs::RenameFlags, io::Errno};

/// Kinds of nodes in a mode.
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMBOLIC_LINK: u32 = 0o120_000;
const KINDS: u32 = 0o170_000;

fn at(directory: NodeId, name: String) -> Target {
    Target { directory, name }
}

/// Makes a node for whoever asks.
pub(super) fn make(
    disk: &mut Disk,
    request: &Request,
    name: String,
    (mode, body): (u32, Body),
) -> Result<NodeId, Errno> {
    let time = now();
    let (uid, gid) = (request.uid, request.gid);
    let attributes = Attributes { mode, uid, gid, accessed: time, modified: time, changed: time };
    disk.make(at(request.node, name), attributes, body)
}

pub(super) fn look_up(disk: &Disk, request: &Request) -> Result<Answer, Errno> {
    let name = request.fields().name()?;
    entry(disk, disk.look_up(&at(request.node, name))?)
}

pub(super) fn make_special(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (mode, device, _umask, _padding) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let body = if mode & KINDS == FILE { new_file() } else { Body::Special(device) };
    let id = make(disk, request, fields.name()?, (mode, body))?;
    entry(disk, id)
}

pub(super) fn make_directory(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (mode, _umask) = (fields.u32()?, fields.u32()?);
    let id = make(disk, request, fields.name()?, (DIRECTORY | mode, new_directory(request.node)))?;
    entry(disk, id)
}

pub(super) fn make_symbolic_link(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (name, target) = (fields.name()?, fields.name()?);
    let id = make(disk, request, name, (SYMBOLIC_LINK | 0o777, Body::Link(target)))?;
    entry(disk, id)
}

pub(super) fn read_symbolic_link(disk: &Disk, request: &Request) -> Result<Answer, Errno> {
    match &disk.node(request.node)?.body {
        Body::Link(target) => Ok(Answer::data(target.clone().into_bytes())),
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn link(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let id = fields.u64()?;
    disk.link(id, at(request.node, fields.name()?))?;
    entry(disk, id)
}

pub(super) fn remove(disk: &mut Disk, request: &Request, is_directory: bool) -> Result<Answer, Errno> {
    disk.remove(at(request.node, request.fields().name()?), is_directory)?;
    Ok(Answer::default())
}

pub(super) fn rename(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let directory = fields.u64()?;
    let mut flags = RenameFlags::empty();
    if request.opcode == opcode::RENAME2 {
        flags = RenameFlags::from_bits_retain(fields.u32()?);
        fields.u32()?;
    }
    if !(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE).contains(flags) {
        return Err(Errno::INVAL);
    }
    let (old, new) = (at(request.node, fields.name()?), at(directory, fields.name()?));
    disk.rename(old, new, flags)?;
    Ok(Answer::default())
}
