//! Calls of users on names.

use super::{
    Right, make_directory, make_parents, permission::require_unstuck, referrals::refuse_move, remove_file,
    require, resolve, resolve_parent,
};
use crate::{
    Apply, Context, Core, Topic,
    pool::{self, FileReservation, space_wait},
    share,
    store::Node,
    tape,
};
use base::{
    ErrorKind, Failure, FileId, FilePath, Result,
    limits::{LIST_ENTRIES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX},
};
use wire::control::{
    CopyInfo, Done, Entry, FileInfo, FileState, GetEntry, List, Listing, Mkdir, PieceInfo, Remove,
    RemoveDirectory, RemoveEntry, Removed, Rename, Stat, TrashReason,
};

impl Apply for Stat {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<FileInfo> {
        let node = resolve(core, &context.who, &self.path)?;
        describe(core, context, &node, self.path)
    }
}

/// All that is known of a node.
pub(crate) fn describe(core: &mut Core, context: &Context, node: &Node, path: FilePath) -> Result<FileInfo> {
    let mut info = FileInfo {
        entry: entry_of(core, node, &path),
        away: pool::away_hosts(core, node),
        replicas: Vec::new(),
        coding: None,
        pieces: Vec::new(),
        copies: Vec::new(),
        missing_copies: tape::missing_copies(core, node)?,
        pins: Vec::new(),
        waits: None,
        project: node.project.clone(),
        live: None,
        layout: core.store.layouts()?.get(&node.id).copied(),
        path,
    };
    if !node.is_file() {
        return Ok(info);
    }
    for replica in node.online() {
        let pool = core.store.partition(&replica.partition)?.map_or_else(String::new, |known| known.pool);
        let place = format!("{pool}/{}", replica.partition);
        match replica.piece {
            Some(piece) => info.pieces.push(PieceInfo { index: piece.index, place }),
            None => info.replicas.push(place),
        }
    }
    info.pieces.sort_by_key(|piece| piece.index);
    info.coding = node.coding();
    if node.is_live() {
        info.live = share::live_layout(core, node)?;
    }
    let copies = core.store.copies(node.id)?;
    info.copies = copies
        .into_iter()
        .map(|copy| CopyInfo { vid: copy.vid, fseq: copy.fseq, block: copy.block })
        .collect();
    info.pins = core.store.pins(node.id, context.now)?;
    if let Some(held) = FileReservation::of(node) {
        info.pins.push(held.told(core, &node.owner)?);
    }
    info.waits = match tape::waits(core, node.id, context.now)? {
        None => match share::waits(core, context, node)? {
            None => space_wait(core, node, context.now)?,
            waits => waits,
        },
        waits => waits,
    };
    Ok(info)
}

impl Apply for GetEntry {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Entry> {
        let node = resolve(core, &context.who, &self.path)?;
        // Clients look first whether there is something that they would replace.
        if FileReservation::of(&node).is_some_and(|held| !held.is_begun) {
            return Err(Failure::not_found(format!("nothing has been written to {} yet", self.path)));
        }
        Ok(entry_of(core, &node, &self.path))
    }
}

/// A node as people see it: what nobody can read now is not online.
fn entry_of(core: &Core, node: &Node, path: &FilePath) -> Entry {
    let mut entry = node.entry();
    if node.has_further_names() {
        path.name().clone_into(&mut entry.name);
    }
    entry.state = entry.state.map(|_| pool::state_of(core, node));
    entry
}

impl Apply for List {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Listing> {
        let node = resolve(core, &context.who, &self.path)?;
        if !node.is_directory() {
            return Err(Failure::new(ErrorKind::NotDirectory, format!("{} is not a directory", self.path)));
        }
        require(core, &context.who, &node, Right::Read, &self.path)?;
        let mut entries: Vec<Entry> = core.store.children(node.id, &self.after, LIST_ENTRIES_MAX)?;
        if !core.live.away.is_empty() {
            for entry in entries.iter_mut().filter(|entry| entry.state.is_some_and(FileState::is_online)) {
                if let Some(node) = core.store.node(entry.id)? {
                    entry.state = Some(pool::state_of(core, &node));
                }
            }
        }
        Ok(Listing { is_partial: entries.len() == LIST_ENTRIES_MAX, entries })
    }
}

impl Apply for Mkdir {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Entry> {
        make_directory(core, context, &self.path, self.mode, self.parents).map(|node| node.entry())
    }
}

impl Apply for Remove {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Removed> {
        let node = resolve(core, &context.who, &self.path)?;
        if node.is_directory() {
            return Err(Failure::new(ErrorKind::IsDirectory, format!("{} is a directory", self.path))
                .hint("`bp rmdir` removes an empty one, `bp rm -r` one with all that is in it"));
        }
        remove_file(core, context, (&self.path, &node), TrashReason::Removed)
    }
}

impl Apply for RemoveDirectory {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        if !node.is_directory() {
            return Err(Failure::new(ErrorKind::NotDirectory, format!("{} is not a directory", self.path)));
        }
        let parent = resolve_parent(core, &context.who, &self.path)?;
        require(core, &context.who, &parent, Right::Write, &self.path)?;
        require_unstuck(&context.who, (&parent, &node), &self.path)?;
        if core.store.has_children(node.id)? {
            return Err(Failure::new(ErrorKind::NotEmpty, format!("directory {} is not empty", self.path)));
        }
        core.store.delete_node(node.id)?;
        core.touch(Topic::Files);
        Ok(Done {})
    }
}

impl Apply for RemoveEntry {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { path } = self;
        if resolve(core, &context.who, &path)?.is_directory() {
            return RemoveDirectory { path }.apply(core, context);
        }
        Remove { path }.apply(core, context).map(|_| Done {})
    }
}

impl Apply for Rename {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { from, to, is_new, parents } = self;
        refuse_move(core, &context.who, &from, &to)?;
        let node = resolve(core, &context.who, &from)?;
        if from == to {
            return Ok(Done {});
        }
        if to.is_within(&from) {
            return Err(Failure::invalid(format!("{to} lies inside {from}")));
        }
        let old_parent = resolve_parent(core, &context.who, &from)?;
        require(core, &context.who, &old_parent, Right::Write, &from)?;
        require_unstuck(&context.who, (&old_parent, &node), &from)?;
        if parents {
            make_parents(core, context, &to)?;
        }
        let parent = resolve_parent(core, &context.who, &to)?;
        require(core, &context.who, &parent, Right::Write, &to)?;
        if node.is_directory() {
            check_paths_below(core, node.id, &from, &to)?;
        }
        if let Some(target) = core.store.child(parent.id, to.name())? {
            if is_new {
                return Err(Failure::exists(format!("{to} exists, a {}", super::kind_word(&target))));
            }
            if target.id == node.id {
                // Two names of one node: both stay, as POSIX wants it.
                return Ok(Done {});
            }
            require_unstuck(&context.who, (&parent, &target), &to)?;
            replace(core, context, (&node, &target), &to)?;
        }
        // Reserved names are checked where entries are made; a move makes one too.
        super::refuse_reserved(&to)?;
        if old_parent.id != parent.id {
            // Fewer may see the new directory, perhaps.
            core.raise_fence();
        }
        let row = core.store.name_row(old_parent.id, from.name())?;
        let row = row.ok_or_else(|| Failure::internal(format!("{from} vanished while it was moved")))?;
        core.store.move_node(row.id, parent.id, to.name())?;
        if old_parent.id != parent.id {
            tape::moved(core, &node, (&old_parent, &parent))?;
        }
        core.touch(Topic::Files);
        Ok(Done {})
    }
}

/// Removes what a move replaces.
fn replace(core: &mut Core, context: &Context, (node, target): (&Node, &Node), to: &FilePath) -> Result<()> {
    match (node.is_directory(), target.is_directory()) {
        (false, false) => remove_file(core, context, (to, target), TrashReason::Replaced).map(drop),
        (true, true) if !core.store.has_children(target.id)? => Ok(core.store.delete_node(target.id)?),
        (true, true) => Err(Failure::new(ErrorKind::NotEmpty, format!("directory {to} is not empty"))),
        (false, true) => Err(Failure::new(ErrorKind::IsDirectory, format!("{to} is a directory"))),
        (true, false) => {
            let what = format!("{to} is a {}", super::kind_word(target));
            Err(Failure::new(ErrorKind::NotDirectory, what))
        }
    }
}

/// Refuses a move that gives anything below a directory a path that nobody could name any more.
pub(super) fn check_paths_below(
    core: &Core,
    directory: FileId,
    from: &FilePath,
    to: &FilePath,
) -> Result<()> {
    let (bytes, depth) = (to.as_str().len(), to.names().count());
    if bytes <= from.as_str().len() && depth <= from.names().count() {
        return Ok(());
    }
    let (bytes_below, depth_below) = core.store.longest_path_below(directory)?;
    if bytes + bytes_below > PATH_BYTES_MAX || depth + depth_below > PATH_DEPTH_MAX {
        let what =
            format!("paths below {to} would be longer than {PATH_BYTES_MAX} bytes or {PATH_DEPTH_MAX} names");
        return Err(Failure::invalid(what).hint("use a shorter name"));
    }
    Ok(())
}
