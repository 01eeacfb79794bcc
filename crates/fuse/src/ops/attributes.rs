//! Attributes of nodes, and of the whole file system.

use super::{
    Outcome,
    opens::for_writing,
    special,
    tree::{PERMISSION_BITS, RACES_MAX},
};
use crate::{
    cache::Asked,
    caller::Caller,
    errno::Refusal,
    kernel::{
        abi,
        answers::{Answer, Attributes},
        request::{Fields, Request},
    },
    mount::Mount,
    names::Names,
};
use base::{FileId, NanoTime, Timestamp};
use rustix::io::Errno;
use std::time::SystemTime;
use wire::control::{Entry, GetNode, GetSpace, NodeKind, SetNode};

/// Bytes of a block in `statfs`.
const BLOCK_BYTES: u64 = 4096;
/// Longest name.
const NAME_BYTES_MAX: u32 = 255;

pub(super) fn get(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let file = mount.file_id(request.node);
    // So the kernel asks before it reads from its pages, not for a program.
    let is_for_pages = request.fields().u32()? & abi::GETATTR_FH != 0;
    let known = if is_for_pages { mount.known(caller, file)? } else { None };
    for _ in 0..RACES_MAX {
        let asked = mount.asked();
        let (entry, until) = match (mount.cached(file), &known) {
            (Some(held), _) => held,
            (None, Some(entry)) => return Ok(Answer::node(asked, &shown(mount, entry), 0)),
            (None, None) => held(mount, caller, asked, file)?,
        };
        let attributes = described(mount, caller, &entry)?;
        if mount.cache.is_current(asked, file) {
            return Ok(Answer::node(asked, &attributes, until));
        }
    }
    // It is changed all the time: as it was a moment ago.
    let entry = fetch(mount, caller, file)?;
    Ok(Answer::node(mount.asked(), &described(mount, caller, &entry)?, 0))
}

/// What a node is, and until when that holds: from the cache, or from the head.
fn held(mount: &Mount, caller: &Caller, asked: Asked, file: FileId) -> Result<(Entry, i64), Refusal> {
    if let Some(held) = mount.cached(file) {
        return Ok(held);
    }
    let found = mount.head.call_until(caller, |client| GetNode { client, file })?;
    let entry = found.entry.ok_or(Errno::NOENT)?;
    mount.note_known(&entry);
    let until = mount.cache.keep_node(asked, &entry, found.lease);
    Ok((entry, until))
}

/// As [`shown`], with the number of a device, which the head is asked for.
pub(super) fn described(mount: &Mount, caller: &Caller, entry: &Entry) -> Result<Attributes, Refusal> {
    Ok(Attributes { device: special::device(mount, caller, entry)?, ..shown(mount, entry) })
}

pub(super) fn fetch(mount: &Mount, caller: &Caller, file: FileId) -> Result<Entry, Refusal> {
    let found = mount.head.call_until(caller, |client| GetNode { client, file })?;
    let entry = found.entry.ok_or(Errno::NOENT)?;
    mount.note_known(&entry);
    Ok(entry)
}

/// An entry as `stat` shows it. What this mount has written is newer than what the head knows.
pub(super) fn shown(mount: &Mount, entry: &Entry) -> Attributes {
    let own = mount.files.get(entry.id).and_then(|file| {
        let state = file.lock();
        state.is_ahead(mount.head.client()).then_some((state.size, state.modified))
    });
    let known = entry.modified_nanos();
    let (size, modified) = own.map_or((entry.size, known), |(size, modified)| (size, modified.into()));
    Attributes {
        node: mount.node(entry.id),
        size,
        accessed: entry.posix.accessed.unwrap_or(known),
        modified,
        changed: own.map_or(entry.posix.changed.unwrap_or(known), |(_, modified)| modified.into()),
        mode: entry.kind.type_bits() | (entry.mode & PERMISSION_BITS),
        links: links(entry),
        uid: mount.names.uid(&entry.owner),
        gid: mount.names.gid(&entry.group),
        device: 0,
    }
}

/// How many names a node has. A directory has one above it, one in itself, and one in each directory below.
fn links(entry: &Entry) -> u32 {
    match entry.kind {
        _ if entry.posix.is_removed => 0,
        NodeKind::Directory => entry.posix.further_links + 2,
        _ => entry.posix.further_links + 1,
    }
}

/// What is to be set.
#[derive(Debug)]
struct Wanted {
    valid: u32,
    size: u64,
    accessed: NanoTime,
    modified: NanoTime,
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Wanted {
    fn read(mut fields: Fields<'_>) -> Result<Self, Errno> {
        let (valid, _padding, _handle, size, _owner) =
            (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let seconds = [fields.u64()?, fields.u64()?, fields.u64()?];
        let nanos = [fields.u32()?, fields.u32()?, fields.u32()?];
        let time = |which: usize| NanoTime::of_timespec(seconds[which] as i64, nanos[which]);
        let (mode, _, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        Ok(Self { valid, size, accessed: time(0), modified: time(1), mode, uid, gid })
    }

    fn has(&self, what: u32) -> bool {
        self.valid & what != 0
    }

    /// The times to be set: of the last access, and of the content.
    fn times(&self) -> (Option<NanoTime>, Option<NanoTime>) {
        let now = NanoTime::from(Timestamp::from_system(SystemTime::now()));
        let chosen =
            |(what, is_now), given| self.has(what).then(|| if self.has(is_now) { now } else { given });
        let accessed = chosen((abi::set::ATIME, abi::set::ATIME_NOW), self.accessed);
        (accessed, chosen((abi::set::MTIME, abi::set::MTIME_NOW), self.modified))
    }

    /// The call that sets all but the size; `None`: nothing of that is to be set.
    fn call(&self, names: &Names, file: FileId) -> Option<SetNode> {
        let owner = self.has(abi::set::UID).then(|| names.user(self.uid));
        let group = self.has(abi::set::GID).then(|| names.group(self.gid));
        let mode = self.has(abi::set::MODE).then_some(self.mode & PERMISSION_BITS);
        let (accessed, modified) = self.times();
        let is_timed = accessed.is_some() || modified.is_some();
        let is_some = owner.is_some() || group.is_some() || mode.is_some() || is_timed;
        let client = share::ClientId(0);
        is_some.then_some(SetNode { client, file, mode, owner, group, modified, accessed })
    }
}

pub(super) fn set(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let (file, wanted) = (mount.file_id(request.node), Wanted::read(request.fields())?);
    let call = wanted.call(&mount.names, file);
    if wanted.has(abi::set::SIZE) {
        let own = mount.files.get(file).filter(|_| wanted.has(abi::set::HANDLE));
        match own {
            Some(open) => mount.truncate(caller, &open, wanted.size)?,
            None => for_writing(mount, caller, file, |open| mount.truncate(caller, open, wanted.size))?,
        }
    }
    let Some(call) = call else {
        return Ok(set_to(mount, &fetch(mount, caller, file)?));
    };
    let open = mount.files.get(file);
    if let (Some(open), Some(_)) = (&open, call.mode) {
        open.lock().is_set_id_gone = false;
    }
    if let (Some(open), Some(modified)) = (&open, call.modified) {
        // A commit that came later would overwrite the time.
        mount.sync_unless_lost(caller, open)?;
        open.lock().modified = modified.parts().0;
    }
    let set = mount.head.call(caller, |client| SetNode { client, ..call.clone() })?;
    mount.cache.changed(file);
    Ok(set_to(mount, &set.entry.ok_or(Errno::NOENT)?))
}

/// What was set. It is asked for again: the kernel would take it for newer than what it is told to forget meanwhile.
fn set_to(mount: &Mount, entry: &Entry) -> Answer {
    Answer::node(mount.asked(), &shown(mount, entry), 0)
}

/// `access`, for the owner by the mode. Of others the head knows more than can be seen here: it refuses when something is done.
pub(super) fn access(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let wanted = request.fields().u32()?;
    let (entry, _) = held(mount, caller, mount.asked(), mount.file_id(request.node))?;
    let is_program = entry.mode & 0o111 != 0 || entry.kind == NodeKind::Directory;
    let others = if is_program { 0o7 } else { 0o6 };
    let given = if entry.owner == mount.user { entry.mode >> 6 & 0o7 } else { others };
    let missing = wanted & !given & 0o7;
    if missing == 0 { Mount::nothing() } else { Err(Errno::ACCESS.into()) }
}

pub(super) fn space(mount: &Mount, caller: &Caller) -> Outcome {
    let space = mount.head.call(caller, |_| GetSpace {})?;
    let (blocks, free) = (space.total_bytes / BLOCK_BYTES, space.free_bytes / BLOCK_BYTES);
    let mut answer = Answer::default();
    // Numbers of files are not limited.
    answer.u64(blocks).u64(free).u64(free).u64(0).u64(0);
    answer.u32(BLOCK_BYTES as u32).u32(NAME_BYTES_MAX).u32(BLOCK_BYTES as u32);
    for _ in 0..7 {
        answer.u32(0);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(valid: u32) -> Wanted {
        let mut body = Answer::default();
        body.u32(valid).u32(0).u64(0).u64(77).u64(0);
        body.u64(1).u64(-2i64 as u64).u64(3).u32(0).u32(5_000_000).u32(0);
        body.u32(0o100_640).u32(0).u32(0).u32(0).u32(0);
        Wanted::read(Request::of(abi::opcode::SETATTR, 1, &body.into_bytes()).fields()).unwrap()
    }

    #[test]
    fn only_what_is_named_is_set() {
        let all = wanted(abi::set::MODE | abi::set::UID | abi::set::GID | abi::set::MTIME | abi::set::SIZE);
        let call = all.call(&Names::default(), FileId(7)).unwrap();
        assert_eq!(
            (call.mode, call.owner.as_deref(), call.group.as_deref()),
            (Some(0o640), Some("root"), Some("root"))
        );
        assert_eq!((call.modified, call.accessed, all.size), (Some(NanoTime(-1_995_000_000)), None, 77));
        assert!(wanted(abi::set::SIZE).call(&Names::default(), FileId(7)).is_none());
    }

    #[test]
    fn owners_without_a_name_here_are_numbers() {
        let wanted = Wanted { uid: 3_999_999_999, ..wanted(abi::set::UID) };
        let call = wanted.call(&Names::default(), FileId(7)).unwrap();
        assert_eq!(call.owner.as_deref(), Some("3999999999"));
    }
}
