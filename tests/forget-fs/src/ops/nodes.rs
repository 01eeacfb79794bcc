//! Attributes, listings, and the space on the disk.

use super::Open;
use crate::disk::{Attributes, Body, Disk, Node, NodeId, PAGE_BYTES, now};
use fuse::kernel::{
    abi::set,
    answers::Answer,
    request::{Fields, Request},
};
use rustix::io::Errno;
use std::time::Duration;

/// Seconds for which the kernel may cache names and attributes: it is the only one who changes them.
const VALID_S: u64 = 3600;
/// Permission bits of a mode.
const PERMISSION_BITS: u32 = 0o7777;
/// Bits of `set` that the crate of the mount does not name: the time of the last access, and its being now.
const ACCESSED: u32 = 1 << 4;
const ACCESSED_NOW: u32 = 1 << 7;
/// Longest name.
const NAME_BYTES_MAX: u32 = 255;

pub(super) fn get(disk: &Disk, id: NodeId) -> Result<Answer, Errno> {
    let mut answer = Answer::default();
    answer.u64(VALID_S).u32(0).u32(0);
    describe(&mut answer, id, disk.node(id)?);
    Ok(answer)
}

/// Describes a node that was found or made.
pub(super) fn entry(disk: &Disk, id: NodeId) -> Result<Answer, Errno> {
    let mut answer = Answer::default();
    // Its generation, and how long the name and the attributes hold.
    answer.u64(id).u64(0).u64(VALID_S).u64(VALID_S).u32(0).u32(0);
    describe(&mut answer, id, disk.node(id)?);
    Ok(answer)
}

fn describe(answer: &mut Answer, id: NodeId, node: &Node) {
    let Attributes { mode, uid, gid, accessed, modified, changed } = node.live;
    answer.u64(id).u64(node.size()).u64(node.size().div_ceil(512));
    answer.u64(accessed.as_secs()).u64(modified.as_secs()).u64(changed.as_secs());
    answer.u32(accessed.subsec_nanos()).u32(modified.subsec_nanos()).u32(changed.subsec_nanos());
    let links = if node.is_directory() { 2 } else { node.links };
    let device = if let Body::Special(device) = node.body { device } else { 0 };
    answer.u32(mode).u32(links).u32(uid).u32(gid).u32(device).u32(PAGE_BYTES as u32).u32(0);
}

pub(super) fn set(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (valid, _padding, _handle, size, _owner) =
        (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
    let (accessed, modified) = times(&mut fields)?;
    let (mode, _, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let has = |what| valid & what != 0;
    if has(set::SIZE) {
        disk.truncate(request.node, size)?;
    }
    disk.set(request.node, |attributes| {
        if has(set::MODE) {
            attributes.mode = attributes.mode & !PERMISSION_BITS | mode & PERMISSION_BITS;
        }
        if has(set::UID) {
            attributes.uid = uid;
        }
        if has(set::GID) {
            attributes.gid = gid;
        }
        if has(ACCESSED) {
            attributes.accessed = if has(ACCESSED_NOW) { now() } else { accessed };
        }
        if has(set::MTIME) {
            attributes.modified = if has(set::MTIME_NOW) { now() } else { modified };
        }
    })?;
    get(disk, request.node)
}

/// Times of access and content in a request.
fn times(fields: &mut Fields<'_>) -> Result<(Duration, Duration), Errno> {
    let (accessed_s, modified_s, _changed) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (accessed_ns, modified_ns, _changed) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let time =
        |seconds, nanoseconds| Duration::from_secs(seconds) + Duration::from_nanos(u64::from(nanoseconds));
    Ok((time(accessed_s, accessed_ns), time(modified_s, modified_ns)))
}

pub(super) fn space(disk: &Disk) -> Answer {
    let (pages, free) = disk.space();
    let mut answer = Answer::default();
    answer.u64(pages).u64(free).u64(free).u64(u64::from(u32::MAX)).u64(u64::from(u32::MAX));
    answer.u32(PAGE_BYTES as u32).u32(NAME_BYTES_MAX).u32(PAGE_BYTES as u32).u32(0);
    for _ in 0..6 {
        answer.u32(0);
    }
    answer
}

pub(super) fn open_directory(disk: &mut Disk, open: &mut Open, request: &Request) -> Result<Answer, Errno> {
    open.last += 1;
    open.listings.insert(open.last, list(disk, request.node)?);
    disk.hold(request.node);
    let mut answer = Answer::default();
    answer.opened(open.last, 0);
    Ok(answer)
}

fn list(disk: &Disk, directory: NodeId) -> Result<Vec<(String, NodeId)>, Errno> {
    let node = disk.node(directory)?;
    let Body::Directory { live, parent, .. } = &node.body else { return Err(Errno::NOTDIR) };
    let dots = [(".".to_owned(), directory), ("..".to_owned(), *parent)];
    Ok(dots.into_iter().chain(live.iter().map(|(name, id)| (name.clone(), *id))).collect())
}

pub(super) fn read_directory(disk: &Disk, open: &mut Open, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (handle, offset, most) = (fields.u64()?, fields.u64()?, fields.u32()? as usize);
    if offset == 0 {
        // From the start again: with what is there now.
        open.listings.insert(handle, list(disk, request.node)?);
    }
    let listing = open.listings.get(&handle).ok_or(Errno::BADF)?;
    let mut answer = Answer::default();
    for (next, (name, id)) in (1..).zip(listing).skip(offset as usize) {
        // A node may be gone since.
        let kind = disk.node(*id).map_or(0, |node| node.live.mode & !PERMISSION_BITS);
        if !answer.name(most, *id, next, kind, name) {
            break;
        }
    }
    Ok(answer)
}

pub(super) fn release_directory(
    disk: &mut Disk,
    open: &mut Open,
    request: &Request,
) -> Result<Answer, Errno> {
    let handle = request.fields().u64()?;
    if open.listings.remove(&handle).is_some() {
        disk.release(request.node);
    }
    Ok(Answer::default())
}
