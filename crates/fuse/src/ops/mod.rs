//! What the kernel asks for, one file for each kind.

mod attributes;
pub(crate) mod directories;
mod locks;
pub(crate) mod opens;
mod ranges;
mod special;
pub(crate) mod tree;
mod xattr;

use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{abi::opcode, answers::Answer, request::Request},
    mount::Mount,
};
use rustix::io::Errno;

type Outcome = Result<Answer, Refusal>;

/// Does what a message asks for.
pub(crate) fn answer(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    match request.opcode {
        opcode::LOOKUP => tree::look_up(mount, caller, request),
        opcode::GETATTR => attributes::get(mount, caller, request),
        opcode::SETATTR => attributes::set(mount, caller, request),
        opcode::ACCESS => attributes::access(mount, caller, request),
        opcode::STATFS => attributes::space(mount, caller),
        opcode::MKNOD => tree::make_node(mount, caller, request),
        opcode::MKDIR => tree::make_directory(mount, caller, request),
        opcode::UNLINK => tree::remove(mount, caller, request, wire::control::NodeKind::File),
        opcode::RMDIR => tree::remove(mount, caller, request, wire::control::NodeKind::Directory),
        opcode::RENAME => tree::rename(mount, caller, request, false),
        opcode::RENAME2 => tree::rename(mount, caller, request, true),
        opcode::CREATE => opens::create(mount, caller, request),
        opcode::OPEN => opens::open(mount, caller, request),
        opcode::READ => opens::read(mount, caller, request),
        opcode::WRITE => opens::write(mount, caller, request),
        opcode::FLUSH => opens::flush(mount, caller, request),
        opcode::FSYNC => opens::sync(mount, caller, request),
        opcode::RELEASE => opens::release(mount, caller, request),
        opcode::OPENDIR => directories::open(mount, caller, request),
        opcode::READDIR => directories::read(mount, caller, request, false),
        opcode::READDIRPLUS => directories::read(mount, caller, request, true),
        opcode::RELEASEDIR => directories::release(mount, request),
        // Names are durable when they are acknowledged.
        opcode::FSYNCDIR => Mount::nothing(),
        opcode::GETLK => locks::test(mount, caller, request),
        opcode::SETLK => locks::set(mount, caller, request, false),
        opcode::SETLKW => locks::set(mount, caller, request, true),
        opcode::SYMLINK => special::make_link(mount, caller, request),
        opcode::READLINK => special::read_link(mount, caller, request),
        opcode::GETXATTR => xattr::get(mount, caller, request),
        opcode::SETXATTR => xattr::set(mount, caller, request),
        opcode::LISTXATTR => xattr::list(mount, caller, request),
        opcode::REMOVEXATTR => xattr::remove(mount, caller, request),
        opcode::LINK => special::link(mount, caller, request),
        opcode::FALLOCATE => ranges::allocate(mount, caller, request),
        opcode::LSEEK => ranges::seek(mount, caller, request),
        opcode::COPY_FILE_RANGE => ranges::copy(mount, caller, request),
        opcode::DESTROY => Mount::nothing(),
        // The kernel does not ask again for what does not exist.
        _ => Err(Errno::NOSYS.into()),
    }
}
