//! Adds objects found on disks to a catalogue that does not know them, from their descriptions.
//!
//! Nothing that is known is lost by it. Of two contents of a file the one that was written later counts, and of two files of one
//! name the one that was written later has it; the other is found in `/lost+found`. What is not taken in stays on its disk, unknown.
//!
//! A piece proves nothing: its write may have ended before enough of them were made. Pieces of a content that the file does not
//! have are put aside, in the catalogue, until so many were found that the content can be read. What a file has therefore never
//! gives way to what cannot be read, in whatever order disk servers say what they have.

use crate::{
    Context, Core, Principal, Topic,
    namespace::{ROOT, make_directory},
    pool::drop_content,
    store::{NewContent, Node, Piece, Replica, ReplicaState, StrayRow as Stray},
};
use base::{
    Checksums, ErrorKind, FileId, FilePath, ObjectId, Result, Timestamp, is_name, limits::OBJECT_BYTES_MAX,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tracing::info;
use wire::{
    control::{FoundFile, FoundObject, LOST_AND_FOUND, NodeKind},
    media::object::{self, Holder},
};

/// Longest part of a name that is kept in `/lost+found`.
const NAME_KEPT_BYTES: usize = 200;

/// No catalogue gives higher numbers: whoever wrote one did not know what it was.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// What stands for the name of a file that only a tape knows.
const NAMELESS: &str = "file";

impl Stray {
    /// Which content it has. The first descriptions do not say it: a file was never written twice at a time, so that the number
    /// of the object grows with each write.
    fn generation(&self) -> u64 {
        match self.described.label.generation {
            0 => self.object.0,
            generation => generation,
        }
    }

    /// Bytes and sums of its file.
    fn whole(&self) -> (u64, Checksums) {
        let piece = self.described.label.piece;
        piece.map_or((self.size, self.described.checksums), |piece| (piece.file_bytes, piece.file_checksums))
    }

    /// Which piece of its file it is.
    fn piece(&self) -> Option<Piece> {
        let object::Piece { coding, cell_bytes, index, .. } = self.described.label.piece?;
        Some(Piece { coding, cell_bytes, index, checksums: Some(self.described.checksums) })
    }

    /// Whether it can be what it says: nobody reads a piece that is longer or shorter than its file makes it.
    fn is_possible(&self) -> bool {
        let label = &self.described.label;
        let fits = |piece: object::Piece| {
            let shape = piece.shape(label.file, self.generation());
            shape.is_ok_and(|shape| piece.index < shape.pieces() && shape.piece_bytes() == self.size)
        };
        self.size.max(self.whole().0) <= OBJECT_BYTES_MAX && label.piece.is_none_or(fits)
    }

    fn replica(&self, owner: &str) -> Replica {
        Replica {
            object: self.object,
            file: self.described.label.file,
            partition: self.partition.clone(),
            state: ReplicaState::Online,
            owner: owner.to_owned(),
            size: self.size,
            created: self.described.written,
            used: self.described.written,
            piece: self.piece(),
        }
    }

    fn content(&self) -> NewContent {
        let (size, checksums) = self.whole();
        NewContent { size, checksums, generation: self.generation() }
    }
}

/// What an object is to the file that it was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectRole {
    /// Its file is not known.
    NewFile,
    /// A further replica of what the file has.
    Replica,
    /// A later content of the file.
    NewContent,
    /// An earlier content, or no content of a file.
    None,
}

fn place(node: Option<&Node>, stray: &Stray) -> ObjectRole {
    let Some(node) = node else { return ObjectRole::NewFile };
    let (size, checksums) = stray.whole();
    let content = (size, Some(checksums));
    if !node.is_file() {
        ObjectRole::None
    } else if (node.size, node.checksums) == content && goes_with(node, stray) {
        ObjectRole::Replica
    } else if node.is_of_tape() && node.modified > stray.described.written {
        // It was written to tape on a later day.
        ObjectRole::None
    } else if node.is_unwritten() || node.generation < stray.generation() {
        ObjectRole::NewContent
    } else {
        ObjectRole::None
    }
}

/// Whether an object of the same content can stand beside what a file has. Cells say of which write they are, and how it was
/// coded: pieces of two writes, or of two codings, are never put together.
fn goes_with(node: &Node, stray: &Stray) -> bool {
    let shape = |piece: Piece| (piece.coding, piece.cell_bytes);
    let known = node.replicas.iter().find_map(|replica| replica.piece).map(shape);
    match stray.piece().map(shape) {
        None => node.generation == stray.generation() || known.is_none(),
        own if node.generation == stray.generation() => known.is_none() || known == own,
        _ => node.replicas.is_empty(),
    }
}

/// What became of the objects that were found.
pub(crate) struct Recovered {
    /// What was not taken in.
    pub(crate) rest: Vec<FoundObject>,
    /// What was found earlier and is taken in only now, with others.
    pub(crate) joined: Vec<Stray>,
}

/// Takes in what can be. What is to be deleted stays so.
pub(crate) fn recover(
    core: &mut Core,
    partition: &str,
    found: Vec<FoundObject>,
    now: Timestamp,
) -> Result<Recovered> {
    let (mut rest, mut joined) = (BTreeMap::new(), Vec::new());
    for found in found {
        let FoundObject { object, size, ref described } = found;
        let is_wanted = !core.store.is_to_be_removed(partition, object)?;
        let taken = match described.clone().filter(|_| is_wanted) {
            Some(described) => {
                let stray = Stray { object, partition: partition.to_owned(), size, described };
                take_in(core, &stray, now, &mut joined)?
            }
            None => false,
        };
        if !taken {
            rest.insert(object, found);
        }
    }
    // What was found just now was not counted yet.
    joined.retain(|stray: &Stray| stray.partition != partition || rest.remove(&stray.object).is_none());
    core.touch(Topic::Files);
    core.touch(Topic::Jobs);
    Ok(Recovered { rest: rest.into_values().collect(), joined })
}

/// Takes in one object, and with it those that have waited for it: they are added to `joined`.
fn take_in(core: &mut Core, stray: &Stray, now: Timestamp, joined: &mut Vec<Stray>) -> Result<bool> {
    let file = stray.described.label.file;
    if !stray.is_possible() {
        return Ok(false);
    }
    if [file.0, stray.object.0, stray.generation()].iter().any(|number| *number == 0 || *number > NUMBER_MAX)
    {
        return Ok(false);
    }
    if is_nameless(core, file)? {
        let (parent, name) = home(core, stray, now)?;
        core.store.move_node(file, parent.id, &name)?;
        core.store.set_holder(file, &holder(core, stray))?;
    }
    let node = core.store.node(file)?;
    let mut waiting = core.store.strays(file, stray.generation())?;
    // It may have been said before.
    waiting.retain(|other| other.object != stray.object);
    match place(node.as_deref(), stray) {
        ObjectRole::None => return Ok(false),
        ObjectRole::NewFile | ObjectRole::NewContent if !is_readable(stray, &waiting) => {
            core.store.put_stray(stray, stray.generation())?;
            return Ok(false);
        }
        _ => {}
    }
    put(core, stray, now)?;
    core.store.delete_stray(stray.object)?;
    for other in waiting {
        if put(core, &other, now)? {
            core.store.delete_stray(other.object)?;
            joined.push(other);
        }
    }
    Ok(true)
}

/// Whether the content of an object can be read with what was found of it before.
fn is_readable(stray: &Stray, waiting: &[Stray]) -> bool {
    let Some(own) = stray.piece() else { return true };
    let is_alike = |other: &&Stray| {
        let shape = other.piece().map(|piece| (piece.coding, piece.cell_bytes));
        shape == Some((own.coding, own.cell_bytes)) && other.whole() == stray.whole()
    };
    let others = waiting.iter().filter(is_alike).filter_map(|other| Some(other.piece()?.index));
    let indices: BTreeSet<_> = others.chain([own.index]).collect();
    indices.len() >= usize::from(own.coding.data)
}

/// Puts an object where it belongs. Yields whether it belongs somewhere.
fn put(core: &mut Core, stray: &Stray, now: Timestamp) -> Result<bool> {
    let file = stray.described.label.file;
    let node = core.store.node(file)?;
    match (place(node.as_deref(), stray), node) {
        (ObjectRole::NewFile, _) => add_file(core, stray, now)?,
        (ObjectRole::Replica, Some(node)) => {
            core.store.insert_known_replica(stray.replica(&node.owner))?;
            if node.generation < stray.generation() {
                let modified = if node.is_of_tape() { stray.described.written } else { node.modified };
                core.store.set_content(file, stray.content(), modified)?;
                core.store.set_source_modified(file, node.source_modified)?;
            }
        }
        (ObjectRole::NewContent, Some(node)) => {
            give_up_content(core, &node)?;
            core.store.insert_known_replica(stray.replica(&node.owner))?;
            core.store.set_content(file, stray.content(), stray.described.written)?;
            // Its name is that of the later write, too.
            let (parent, name) = home(core, stray, now)?;
            core.store.move_node(file, parent.id, &name)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A file gets a later content. What it has is kept on its disks, as everything until an operator has looked.
pub(crate) fn give_up_content(core: &mut Core, node: &Node) -> Result<()> {
    for old in &node.replicas {
        core.store.drop_replica(old)?;
    }
    drop_content(core, node.id, &[])
}

/// Makes the file that an object was written for.
fn add_file(core: &mut Core, stray: &Stray, now: Timestamp) -> Result<()> {
    let label = &stray.described.label;
    let (parent, name) = home(core, stray, now)?;
    let Holder { owner, group, mode } = holder(core, stray);
    core.store.insert_known(Node {
        id: label.file,
        parent: parent.id,
        name,
        kind: NodeKind::File,
        replicas: vec![stray.replica(&owner)],
        owner,
        group,
        mode,
        size: stray.whole().0,
        modified: stray.described.written,
        checksums: Some(stray.whole().1),
        generation: stray.generation(),
        is_archived: false,
        lacks_copies: false,
        project: parent.project.clone(),
        label: FileId(0),
        source_modified: None,
        live: ObjectId(0),
        hard_link: FileId(0),
        posix: wire::control::PosixFields::default(),
    })?;
    Ok(())
}

/// Whose a file is. What nobody knows, or is no name of a user, belongs to the owner of the facility.
fn holder(core: &Core, stray: &Stray) -> Holder {
    let holder = &stray.described.label.holder;
    if !is_name(&holder.owner) {
        return unknown_holder(core);
    }
    let group = if is_name(&holder.group) { &holder.group } else { &holder.owner };
    Holder { group: group.clone(), ..holder.clone() }
}

fn unknown_holder(core: &Core) -> Holder {
    let owner = core.facility.owner.clone();
    Holder { group: owner.clone(), owner, mode: 0o600 }
}

/// Makes a file that only a tape knows, without its content's copy. If an object of it is found later, that tells its name.
pub(crate) fn add_nameless(core: &mut Core, found: &FoundFile, now: Timestamp) -> Result<()> {
    let parent = lost_and_found(core, now)?;
    let mut name = lost_name(found.file, NAMELESS);
    if core.store.child(parent.id, &name)?.is_some() {
        // Somebody has named another file so.
        name = lost_name(found.file, &format!("{NAMELESS} {}", found.fseq));
    }
    let Holder { owner, group, mode } = unknown_holder(core);
    core.store.insert_known(Node {
        id: found.file,
        parent: parent.id,
        name,
        kind: NodeKind::File,
        replicas: Vec::new(),
        owner,
        group,
        mode,
        size: found.size,
        modified: found.created,
        checksums: Some(found.checksums),
        generation: 0,
        is_archived: false,
        lacks_copies: false,
        project: parent.project.clone(),
        label: FileId(0),
        source_modified: None,
        live: ObjectId(0),
        hard_link: FileId(0),
        posix: wire::control::PosixFields::default(),
    })?;
    Ok(())
}

/// Whether a file is where [`add_nameless`] has put it, so that nobody has given it a name.
fn is_nameless(core: &Core, file: FileId) -> Result<bool> {
    let Some(node) = core.store.node(file)?.filter(|node| node.is_of_tape()) else { return Ok(false) };
    let parent = core.store.child(ROOT, LOST_AND_FOUND)?;
    Ok(parent.is_some_and(|parent| parent.id == node.parent) && node.name == lost_name(file, NAMELESS))
}

/// Where a file goes: where it was, unless something later is there.
fn home(core: &mut Core, stray: &Stray, now: Timestamp) -> Result<(Arc<Node>, String)> {
    let label = &stray.described.label;
    let Some(parent) = directory(core, label.path.parent().as_ref(), now)? else {
        return Ok((lost_and_found(core, now)?, lost_name(label.file, label.path.name())));
    };
    let name = label.path.name();
    match core.store.child(parent.id, name)? {
        None => Ok((parent, name.to_owned())),
        Some(own) if own.id == label.file => Ok((parent, name.to_owned())),
        Some(other) if !gives_way(&other, stray) => {
            Ok((lost_and_found(core, now)?, lost_name(label.file, name)))
        }
        Some(other) => {
            let aside = lost_and_found(core, now)?;
            core.store.move_node(other.id, aside.id, &lost_name(other.id, name))?;
            info!(path = %label.path, file = %other.id, "another file has this path; the recovered file was \
                placed in /{LOST_AND_FOUND}");
            Ok((parent, name.to_owned()))
        }
    }
}

/// Whether a file leaves its name to what was written later. Not one that is being written now.
fn gives_way(other: &Node, stray: &Stray) -> bool {
    let is_writing = other.replicas.iter().any(|replica| replica.state == ReplicaState::Writing);
    other.is_file() && !is_writing && other.generation < stray.generation()
}

/// The directory of this path, made if it is missing; `None` if a file is in the way.
fn directory(core: &mut Core, path: Option<&FilePath>, now: Timestamp) -> Result<Option<Arc<Node>>> {
    let Some(path) = path else { return Ok(None) };
    let context = Context { who: Principal::operator(&core.facility.owner), now };
    match make_directory(core, &context, path, 0o755, true) {
        Ok(node) => Ok(Some(node)),
        Err(failure) if matches!(failure.kind, ErrorKind::NotDirectory | ErrorKind::Invalid) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Only the owner of the facility looks into it: nobody knows who may read what is found.
fn lost_and_found(core: &mut Core, now: Timestamp) -> Result<Arc<Node>> {
    let context = Context { who: Principal::operator(&core.facility.owner), now };
    let root = FilePath::root().join(LOST_AND_FOUND)?;
    if let Some(node) = core.store.child(ROOT, LOST_AND_FOUND)?.filter(|node| node.is_directory()) {
        return Ok(node);
    }
    make_directory(core, &context, &root, 0o700, false)
}

/// No other file has this name there.
fn lost_name(file: FileId, name: &str) -> String {
    let end = (0..=name.len().min(NAME_KEPT_BYTES)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    format!("{}.{file}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_in_lost_and_found_are_names(name in "[^/\\x00-\\x1f\\x7f]{1,255}", file in 1u64..u64::MAX) {
            let name = lost_name(FileId(file), &name);
            prop_assert!(name.len() <= 255 && name.ends_with(&format!(".{file}")), "{}", name);
        }
    }
}
