//! Locks as the kernel asks for them.

use super::Outcome;
use crate::{
    caller::Caller,
    kernel::{abi, request::Request},
    locks::{Wanted, mode, range},
    mount::Mount,
};
use rustix::io::Errno;
use share::LockOwner;
use wire::control::LockKind;

fn wanted(request: &Request) -> Result<Wanted, Errno> {
    let mut fields = request.fields();
    let (_handle, owner) = (fields.u64()?, LockOwner(fields.u64()?));
    let (start, last, kind, pid, flags) =
        (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let is_flock = flags & abi::LK_FLOCK != 0;
    let which = if is_flock { LockKind::Flock } else { LockKind::Posix };
    Ok(Wanted { kind: which, owner, pid, range: range(start, last)?, mode: mode(kind)? })
}

pub(super) fn set(mount: &Mount, caller: &Caller, request: &Request, is_patient: bool) -> Outcome {
    let wanted = wanted(request)?;
    let file = mount.files.get(mount.file_id(request.node)).ok_or(Errno::BADF)?;
    mount.set_lock(caller, &file, &wanted, is_patient)?;
    Mount::nothing()
}

pub(super) fn test(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    mount.test_lock(caller, mount.file_id(request.node), &wanted(request)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{abi::opcode, answers::Answer};
    use share::LockMode;

    #[test]
    fn flock_and_fcntl_are_told_apart() {
        let lock = |flags: u32| {
            let mut body = Answer::default();
            body.u64(0).u64(9).u64(0).u64(i64::MAX as u64).u32(1).u32(77).u32(flags).u32(0);
            wanted(&Request::of(opcode::SETLK, 5, &body.into_bytes())).unwrap()
        };
        assert_eq!((lock(0).kind, lock(abi::LK_FLOCK).kind), (LockKind::Posix, LockKind::Flock));
        assert_eq!((lock(0).owner, lock(0).pid, lock(0).mode), (LockOwner(9), 77, Some(LockMode::Exclusive)));
        assert!(wanted(&Request::of(opcode::SETLK, 5, &[0; 8])).is_err());
    }
}
