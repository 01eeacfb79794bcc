//! Files that are open.

use super::{names, nodes};
use crate::disk::{Disk, NodeId, new_file};
use fuse::kernel::{answers::Answer, request::Request};
use rustix::{
    fs::{FallocateFlags, OFlags},
    io::Errno,
};

/// The kernel keeps the pages of a file when it is opened: nobody else changes them.
const KEEP_CACHE: u32 = 1 << 1;
/// `FUSE_FSYNC_FDATASYNC`.
const DATA_ONLY: u32 = 1 << 0;
/// Values of `whence` that the kernel leaves to the file system.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

pub(super) fn create(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_flags, mode, _umask, _more) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let id = names::make(disk, request, fields.name()?, (mode, new_file()))?;
    let mut answer = nodes::entry(disk, id)?;
    opened(disk, id, &mut answer);
    Ok(answer)
}

pub(super) fn open(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    disk.node(request.node)?;
    let mut answer = Answer::default();
    opened(disk, request.node, &mut answer);
    Ok(answer)
}

fn opened(disk: &mut Disk, id: NodeId, answer: &mut Answer) {
    disk.hold(id);
    answer.opened(id, KEEP_CACHE);
}

pub(super) fn release(disk: &mut Disk, request: &Request) -> Answer {
    disk.release(request.node);
    Answer::default()
}

pub(super) fn read(disk: &Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_handle, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let content = disk.node(request.node)?.content().ok_or(Errno::ISDIR)?;
    Ok(Answer::data(content.read(offset, u64::from(length))))
}

pub(super) fn write(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_handle, offset, length, _how) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
    let (_owner, flags, _padding) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let data = fields.rest().get(..length as usize).ok_or(Errno::INVAL)?;
    disk.write(request.node, offset, data)?;
    if OFlags::from_bits_retain(flags).intersects(OFlags::DSYNC | OFlags::SYNC) {
        disk.sync(request.node, true)?;
    }
    let mut answer = Answer::default();
    answer.u32(length).u32(0);
    Ok(answer)
}

pub(super) fn sync(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_handle, flags) = (fields.u64()?, fields.u32()?);
    disk.sync(request.node, flags & DATA_ONLY != 0)?;
    Ok(Answer::default())
}

pub(super) fn allocate(disk: &mut Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_handle, offset, length, mode) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u32()?);
    let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
    let mode = FallocateFlags::from_bits_retain(mode);
    let zeroing = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
    if !(zeroing | FallocateFlags::KEEP_SIZE).contains(mode) {
        return Err(Errno::OPNOTSUPP);
    }
    let size = disk.node(request.node)?.size();
    if mode.intersects(zeroing) {
        disk.zero(request.node, offset.min(size)..end)?;
    }
    if !mode.contains(FallocateFlags::KEEP_SIZE) && end > size {
        disk.truncate(request.node, end)?;
    }
    Ok(Answer::default())
}

pub(super) fn seek(disk: &Disk, request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (_handle, offset, whence) = (fields.u64()?, fields.u64()?, fields.u32()?);
    if !matches!(whence, SEEK_DATA | SEEK_HOLE) {
        return Err(Errno::INVAL);
    }
    let content = disk.node(request.node)?.content().ok_or(Errno::ISDIR)?;
    let found = content.seek(offset, whence == SEEK_DATA).ok_or(Errno::NXIO)?;
    let mut answer = Answer::default();
    answer.u64(found);
    Ok(answer)
}
