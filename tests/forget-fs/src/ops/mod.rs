//! Requests of the kernel, carried out on the disk.

mod files;
mod names;
mod nodes;

use crate::disk::{Disk, NodeId};
use fuse::kernel::{
    abi::{IO_BYTES_MAX, opcode},
    answers::Answer,
    request::Request,
};
use rustix::io::Errno;
use std::collections::HashMap;

/// Requests that only this file system answers.
mod more {
    pub(super) const FALLOCATE: u32 = 43;
    pub(super) const LSEEK: u32 = 46;
}

/// The version of the protocol that is spoken: Linux 5.4 has it.
const VERSION: (u32, u32) = (7, 31);
/// Capabilities: reads at the same time, large writes, directory requests at the same time, many pages in one request.
const CAPABILITIES: u32 = 1 << 0 | 1 << 5 | 1 << 18 | 1 << 22;

/// What the kernel has open.
#[derive(Debug, Default)]
pub(crate) struct Open {
    /// Listings by handle.
    listings: HashMap<u64, Vec<(String, NodeId)>>,
    /// Number of the last handle.
    last: u64,
}

/// Whether a request is answered at all.
pub(crate) fn wants_answer(request: &Request) -> bool {
    !matches!(request.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
}

/// Carries out a request.
pub(crate) fn answer(disk: &mut Disk, open: &mut Open, request: &Request) -> Result<Answer, Errno> {
    match request.opcode {
        opcode::INIT => greet(request),
        opcode::LOOKUP => names::look_up(disk, request),
        opcode::MKNOD => names::make_special(disk, request),
        opcode::MKDIR => names::make_directory(disk, request),
        opcode::SYMLINK => names::make_symbolic_link(disk, request),
        opcode::LINK => names::link(disk, request),
        opcode::UNLINK => names::remove(disk, request, false),
        opcode::RMDIR => names::remove(disk, request, true),
        opcode::RENAME | opcode::RENAME2 => names::rename(disk, request),
        opcode::READLINK => names::read_symbolic_link(disk, request),
        opcode::GETATTR => nodes::get(disk, request.node),
        opcode::SETATTR => nodes::set(disk, request),
        opcode::STATFS => Ok(nodes::space(disk)),
        opcode::OPENDIR => nodes::open_directory(disk, open, request),
        opcode::READDIR => nodes::read_directory(disk, open, request),
        opcode::RELEASEDIR => nodes::release_directory(disk, open, request),
        opcode::FSYNCDIR => disk.sync_directory(request.node).map(|()| Answer::default()),
        opcode::CREATE => files::create(disk, request),
        opcode::OPEN => files::open(disk, request),
        opcode::READ => files::read(disk, request),
        opcode::WRITE => files::write(disk, request),
        opcode::FSYNC => files::sync(disk, request),
        opcode::RELEASE => Ok(files::release(disk, request)),
        more::FALLOCATE => files::allocate(disk, request),
        more::LSEEK => files::seek(disk, request),
        opcode::DESTROY => Ok(Answer::default()),
        // Locks are the kernel's, extended attributes are not needed.
        _ => Err(Errno::NOSYS),
    }
}

fn greet(request: &Request) -> Result<Answer, Errno> {
    let mut fields = request.fields();
    let (major, minor, ahead, flags) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    if (major, minor) < VERSION {
        return Err(Errno::PROTO);
    }
    let mut answer = Answer::default();
    answer.u32(VERSION.0).u32(VERSION.1).u32(ahead).u32(flags & CAPABILITIES);
    // Requests in the background, bytes of a write, granularity of times in nanoseconds, pages of a request.
    answer.u16(32).u16(24).u32(IO_BYTES_MAX).u32(1).u16(256).u16(0);
    for _ in 0..8 {
        answer.u32(0);
    }
    Ok(answer)
}
