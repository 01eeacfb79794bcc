//! Space, holes and copies of open files.

use super::{Outcome, opens::of};
use crate::{
    caller::Caller,
    kernel::{abi, answers::Answer, request::Request},
    mount::Mount,
};
use base::ByteRange;
use rustix::io::Errno;
use wire::xrd::{RangeChange, RangeKind};

/// What `fallocate` is to do, and whether the file keeps its end.
fn change(mode: u32) -> Result<(RangeChange, bool), Errno> {
    use abi::fallocate::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
    match (mode & !KEEP_SIZE, mode & KEEP_SIZE != 0) {
        (0, false) => Ok((RangeChange::Allocate, false)),
        (0, true) => Ok((RangeChange::Reserve, true)),
        (PUNCH_HOLE, true) => Ok((RangeChange::Punch, true)),
        (ZERO_RANGE, is_kept) => Ok((RangeChange::Zero, is_kept)),
        _ => Err(Errno::OPNOTSUPP),
    }
}

pub(super) fn allocate(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (_handle, offset, length, mode) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u32()?);
    let range = ByteRange::at(offset, length).filter(|range| !range.is_empty()).ok_or(Errno::INVAL)?;
    mount.change_range(caller, &*of(mount, request)?, range, change(mode)?)?;
    Mount::nothing()
}

pub(super) fn seek(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (_handle, offset, whence) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let kind = match whence {
        abi::seek::DATA => RangeKind::Data,
        abi::seek::HOLE => RangeKind::Hole,
        _ => return Err(Errno::INVAL.into()),
    };
    let found = mount.find(caller, &*of(mount, request)?, (kind, offset))?;
    let mut answer = Answer::default();
    answer.u64(found);
    Ok(answer)
}

pub(super) fn copy(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (_handle, offset, node) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (_handle, to, length, flags) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
    if flags != 0 {
        return Err(Errno::INVAL.into());
    }
    let source = of(mount, request)?;
    let sink = mount.files.get(mount.file_id(node)).ok_or(Errno::BADF)?;
    let from = ByteRange { offset, end: offset.saturating_add(length) };
    let done = mount.copy(caller, (&source, from), (&sink, to))?;
    let mut answer = Answer::default();
    answer.u32(done as u32).u32(0);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fallocate_are_those_of_linux() {
        assert_eq!(change(0), Ok((RangeChange::Allocate, false)));
        assert_eq!(change(1), Ok((RangeChange::Reserve, true)));
        assert_eq!(change(3), Ok((RangeChange::Punch, true)));
        assert_eq!(change(0x10), Ok((RangeChange::Zero, false)));
        assert_eq!(change(0x11), Ok((RangeChange::Zero, true)));
        for other in [2, 8, 0x20, 0x12, 0x40] {
            assert_eq!(change(other), Err(Errno::OPNOTSUPP));
        }
    }
}
