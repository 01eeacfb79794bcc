//! Open files.

use super::{
    Outcome,
    attributes::{self, shown},
    tree::{self, Made, NewNode},
};
use crate::{
    caller::Caller,
    content::Target,
    errno::Refusal,
    files::OpenFile,
    kernel::{
        abi,
        answers::{Answer, Until},
        request::Request,
    },
    mount::Mount,
};
use base::FileId;
use rustix::{fs::OFlags, io::Errno};
use share::{ClientId, LockOwner, Mode};
use std::sync::{Arc, atomic::Ordering};
use wire::control::{DescribeNode, Entry, FileState, LockKind, NodeKind, OpenNode, SetNode, ShareGrant};

/// How often a file that is to be opened or made may vanish and come back meanwhile.
const RACES_MAX: u32 = 16;

/// `__FMODE_EXEC`: the kernel opens a program to run it.
const RUN: u32 = 1 << 5;

/// What a file is opened for: to read, to write.
pub(crate) type Access = (bool, bool);

fn access(flags: u32) -> Access {
    match flags & OFlags::ACCMODE.bits() {
        mode if mode == OFlags::RDONLY.bits() => (true, false),
        mode if mode == OFlags::WRONLY.bits() => (false, true),
        _ => (true, true),
    }
}

/// Answers that a file is open. The kernel keeps pages of files that are opened to be read, and those it has while the grant is held
/// under which it has read them. It locks a page while it writes part of it; that may need a grant that somebody else has, who may wait
/// for ours, whose pages are dropped before it is returned, and that page with them. So what is opened to be written has no pages but
/// those that programs map.
fn opened(mount: &Mount, mut answer: Answer, file: &OpenFile, flags: u32) -> Answer {
    let is_cached = !access(flags).1 && flags & OFlags::DIRECT.bits() == 0;
    let flags = match is_cached {
        false => abi::OPEN_DIRECT_IO | abi::OPEN_PARALLEL_DIRECT_WRITES,
        true if file.lock().has_pages() => abi::OPEN_KEEP_CACHE,
        true => 0,
    };
    let handle = mount.handles.fetch_add(1, Ordering::Relaxed);
    file.lock().lost.opened(handle);
    answer.opened(handle, flags);
    answer
}

pub(super) fn create(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (flags, mode, _umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let place = (request.node, fields.name()?);
    for _ in 0..RACES_MAX {
        let (session, new) =
            (mount.head.client(), NewNode { is_opened: true, ..NewNode::of(NodeKind::File, mode) });
        match tree::make(mount, caller, place.clone(), new) {
            Ok(Made { entry, until, grant }) => {
                let offered = grant.map(|grant| (Mode::Write, grant));
                let open = keep(mount, entry.id, access(flags), (session, offered));
                let answer = Answer::entry(mount.asked(), &shown(mount, &entry), until);
                return Ok(opened(mount, answer, &open, flags));
            }
            Err(refusal) if refusal.errno() != Errno::EXIST || flags & OFlags::EXCL.bits() != 0 => {
                return Err(refusal);
            }
            // Another host has made it since the kernel looked.
            Err(_) => {}
        }
        match open_made(mount, caller, &place, flags) {
            Err(refusal) if refusal.errno() == Errno::NOENT => {}
            outcome => return outcome,
        }
    }
    Err(Errno::BUSY.into())
}

/// Opens what another host has made. That it is emptied, if it is to be, the kernel leaves to us here.
fn open_made(mount: &Mount, caller: &Caller, place: &(u64, String), flags: u32) -> Outcome {
    let entry = tree::find(mount, caller, place.0, &place.1)?;
    match entry.kind {
        NodeKind::File => {}
        NodeKind::Directory => return Err(Errno::ISDIR.into()),
        // The kernel looks the name up again, and follows a link.
        _ => return Err(Errno::STALE.into()),
    }
    let open = begin(mount, caller, entry.id, (access(flags), false))?;
    if flags & OFlags::TRUNC.bits() != 0
        && let Err(refusal) = mount.truncate(caller, &open, 0)
    {
        mount.end_open(&open, access(flags));
        return Err(refusal);
    }
    let size = if flags & OFlags::TRUNC.bits() != 0 { 0 } else { entry.size };
    let attributes = shown(mount, &Entry { size, ..entry });
    let answer = Answer::entry(mount.asked(), &attributes, Until::default());
    Ok(opened(mount, answer, &open, flags))
}

pub(super) fn open(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let flags = request.fields().u32()?;
    let file = mount.file_id(request.node);
    if mount.no_recall && access(flags) == (true, false) {
        refuse_nearline(mount, caller, file)?;
    }
    let open = begin(mount, caller, file, (access(flags), flags & RUN != 0))?;
    Ok(opened(mount, Answer::default(), &open, flags))
}

/// Refuses to open what is on tape only, as file systems of archives refuse those who do not want to wait. Who opens a file to write
/// may replace what it has.
fn refuse_nearline(mount: &Mount, caller: &Caller, file: FileId) -> Result<(), Refusal> {
    let info = mount.head.call(caller, |client| DescribeNode { client, file })?;
    if info.entry.state == Some(FileState::Nearline) { Err(Errno::AGAIN.into()) } else { Ok(()) }
}

/// Opens a file at the head.
pub(crate) fn begin(
    mount: &Mount,
    caller: &Caller,
    file: FileId,
    (access, is_run): (Access, bool),
) -> Result<Arc<OpenFile>, Refusal> {
    let (is_read, is_write) = (access.0 && !is_run, access.1);
    let session = mount.head.client();
    let grant = wants_grant(mount, file, access).then(|| mount.next_request());
    let open = |client| OpenNode { client, file, is_read, is_write, is_run, grant };
    let opened = mount.head.call(caller, open)?;
    let mode = if is_write { Mode::Write } else { Mode::Read };
    Ok(keep(mount, file, access, (session, opened.grant.map(|grant| (mode, grant)))))
}

/// Whether a grant is asked for with the open. Whoever opens a file to read and to write may do only one of them.
fn wants_grant(mount: &Mount, file: FileId, access: Access) -> bool {
    let has_none = |open: Arc<OpenFile>| {
        let state = open.lock();
        state.grant.is_none() && state.offered.is_none() && !state.is_asking
    };
    access != (true, true) && mount.files.get(file).is_none_or(has_none)
}

/// Notes that a file is open, and the grant that came with it, which was asked for in a session: in no other one it counts.
pub(crate) fn keep(
    mount: &Mount,
    file: FileId,
    access: Access,
    (session, offered): (ClientId, Option<(Mode, ShareGrant)>),
) -> Arc<OpenFile> {
    let client = mount.head.client();
    let open = mount.files.open(file, client);
    open.change(|state| {
        *state.opens.entry(access).or_default() += 1;
        if offered.is_some() && session == client && state.session == client {
            state.offered = offered;
        }
    });
    open
}

/// Does something with a file that is open for writing, at least for that.
pub(super) fn for_writing(
    mount: &Mount,
    caller: &Caller,
    file: FileId,
    work: impl FnOnce(&OpenFile) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let access = (false, true);
    let open = begin(mount, caller, file, (access, false))?;
    let outcome = work(&open);
    mount.end_open(&open, access);
    outcome
}

/// The file of a request, which is open.
pub(super) fn of(mount: &Mount, request: &Request) -> Result<Arc<OpenFile>, Errno> {
    mount.files.get(mount.file_id(request.node)).ok_or(Errno::BADF)
}

pub(super) fn read(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (_handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let file = of(mount, request)?;
    let size = size.min(abi::IO_BYTES_MAX);
    Ok(Answer::data(mount.read(caller, &file, (offset, size))?))
}

pub(super) fn write(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (_handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let (write_flags, _owner, flags, _) = (fields.u32()?, fields.u64()?, fields.u32()?, fields.u32()?);
    let data = fields.rest().get(..size as usize).ok_or(Errno::INVAL)?;
    let file = of(mount, request)?;
    if write_flags & abi::WRITE_CACHE != 0 {
        mount.write_mapped(&file, offset, data);
    } else {
        let has = |flag: OFlags| flags & flag.bits() != 0;
        let target = Target { offset, is_append: has(OFlags::APPEND), is_direct: has(OFlags::DIRECT) };
        if mount.acts_for_others && request.uid != 0 {
            take_set_id(mount, &file)?;
        }
        mount.write(caller, &file, target, data)?;
    }
    let mut answer = Answer::default();
    answer.u32(size).u32(0);
    Ok(answer)
}

/// Takes the set-id bits of a program away that somebody else than root writes to: its owner has not said that this may be run with
/// their rights. The kernel does that for writes through its cache only.
fn take_set_id(mount: &Mount, file: &OpenFile) -> Result<(), Refusal> {
    if file.lock().is_set_id_gone {
        return Ok(());
    }
    let nobody = Caller::nobody();
    let mode = attributes::fetch(mount, &nobody, file.id)?.mode;
    let kept = without_set_id(mode);
    if kept != mode {
        let (file, mode) = (file.id, Some(kept));
        let (owner, group, modified, accessed) = (None, None, None, None);
        mount.head.call_until(&nobody, |client| SetNode {
            client,
            file,
            mode,
            owner: owner.clone(),
            group: group.clone(),
            modified,
            accessed,
        })?;
    }
    file.lock().is_set_id_gone = true;
    Ok(())
}

/// What a write leaves of a mode. Without the right to run it for the group, the bit of the group means something else.
fn without_set_id(mode: u32) -> u32 {
    mode & !(0o4000 | if mode & 0o010 == 0 { 0 } else { 0o2000 })
}

/// Each close of a file descriptor.
pub(super) fn flush(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (handle, _, _, owner) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u64()?);
    let file = of(mount, request)?;
    let outcome = mount.sync(caller, &file, |lost| lost.at_close(handle));
    // Those that a process has on the file go with any of its descriptors, as POSIX wants it.
    mount.unlock_all(caller, &file, LockKind::Posix, LockOwner(owner));
    outcome?;
    Mount::nothing()
}

pub(super) fn sync(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let handle = request.fields().u64()?;
    mount.sync(caller, &*of(mount, request)?, |lost| lost.at_sync(handle))?;
    Mount::nothing()
}

/// The last close of what was opened once.
pub(super) fn release(mount: &Mount, _caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (handle, flags, release_flags, owner) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u64()?);
    let file = of(mount, request)?;
    file.lock().lost.closed(handle);
    if release_flags & abi::RELEASE_FLOCK_UNLOCK != 0 {
        mount.unlock_all(&Caller::nobody(), &file, LockKind::Flock, LockOwner(owner));
    }
    mount.end_open(&file, access(flags));
    Mount::nothing()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_takes_set_id_bits_away() {
        for (mode, kept) in [(0o6777, 0o777), (0o6767, 0o2767), (0o4644, 0o644), (0o755, 0o755)] {
            assert_eq!(without_set_id(mode), kept);
        }
    }

    #[test]
    fn flags_say_what_a_file_is_opened_for() {
        let flags = |flags: OFlags| access(flags.bits());
        assert_eq!(flags(OFlags::RDONLY | OFlags::CLOEXEC), (true, false));
        assert_eq!(flags(OFlags::WRONLY | OFlags::APPEND), (false, true));
        assert_eq!(flags(OFlags::RDWR), (true, true));
    }
}
