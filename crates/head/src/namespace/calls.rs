//! Calls of users on names.

use super::{
    Right, make_directory, make_parents, referrals::refuse_move, remove_file, require, require_owner,
    resolve, resolve_parent,
};
use crate::{
    Apply, Context, Core, Topic,
    pool::{self, FileReservation, space_wait},
    share,
    store::Node,
    tape,
};
use base::{
    ErrorKind, Failure, FileId, FilePath, Result, check_name,
    limits::{LIST_ENTRIES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX},
};
use wire::control::{
    CopyInfo, Done, Entry, FileInfo, FileState, GetEntry, List, Listing, Mkdir, PieceInfo, Remove,
    RemoveDirectory, RemoveEntry, Removed, Rename, SetMode, SetOwner, SetTime, Stat, TrashReason,
};

impl Apply for Stat {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<FileInfo> {
        let node = resolve(core, &context.who, &self.path)?;
        let mut info = FileInfo {
            entry: entry_of(core, &node),
            away: pool::away_hosts(core, &node),
            replicas: Vec::new(),
            coding: None,
            pieces: Vec::new(),
            copies: Vec::new(),
            pins: Vec::new(),
            waits: None,
            project: node.project.clone(),
            path: self.path,
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
        let copies = core.store.copies(node.id)?;
        info.copies = copies
            .into_iter()
            .map(|copy| CopyInfo { vid: copy.vid, fseq: copy.fseq, block: copy.block })
            .collect();
        info.pins = core.store.pins(node.id, context.now)?;
        if let Some(held) = FileReservation::of(&node) {
            info.pins.push(held.told(core, &node.owner)?);
        }
        info.waits = match tape::waits(core, node.id, context.now)? {
            None if node.is_live() => share::live_waits(core, &node)?,
            None => space_wait(core, &node, context.now)?,
            waits => waits,
        };
        Ok(info)
    }
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
        Ok(entry_of(core, &node))
    }
}

/// A node as people see it: what nobody can read now is not online.
fn entry_of(core: &Core, node: &Node) -> Entry {
    let mut entry = node.entry();
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
            match (node.is_directory(), target.is_directory()) {
                (false, false) => {
                    remove_file(core, context, (&to, &target), TrashReason::Replaced)?;
                }
                (true, true) if !core.store.has_children(target.id)? => core.store.delete_node(target.id)?,
                (true, true) => {
                    return Err(Failure::new(ErrorKind::NotEmpty, format!("directory {to} is not empty")));
                }
                (false, true) => {
                    return Err(Failure::new(ErrorKind::IsDirectory, format!("{to} is a directory")));
                }
                (true, false) => {
                    let what = format!("{to} is a {}", super::kind_word(&target));
                    return Err(Failure::new(ErrorKind::NotDirectory, what));
                }
            }
        }
        // Reserved names are checked where entries are made; a move makes one too.
        super::refuse_reserved(&to)?;
        if node.parent != parent.id {
            // Fewer may see the new directory, perhaps.
            core.raise_fence();
        }
        core.store.move_node(node.id, parent.id, to.name())?;
        core.touch(Topic::Files);
        Ok(Done {})
    }
}

/// Refuses a move that gives anything below a directory a path that nobody could name any more.
fn check_paths_below(core: &Core, directory: FileId, from: &FilePath, to: &FilePath) -> Result<()> {
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

impl Apply for SetTime {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { path, modified } = self;
        let node = resolve(core, &context.who, &path)?;
        // As by a write, which may say any time.
        require(core, &context.who, &node, Right::Write, &path)?;
        if !node.is_file() {
            // One to come would hide that names change until then.
            core.store.set_modified(node.id, modified.min(context.now))?;
        } else if node.is_unwritten() {
            return Err(Failure::locked(format!("{path} is being written and has no modification time yet"))
                .hint("set it once its writer has closed the file"));
        } else {
            core.store.set_source_modified(node.id, Some(modified))?;
        }
        core.touch(Topic::Files);
        Ok(Done {})
    }
}

impl Apply for SetOwner {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { path, owner, group } = self;
        let node = resolve(core, &context.who, &path)?;
        let mut holder = node.holder();
        if let Some(owner) = owner.filter(|owner| *owner != node.owner) {
            check_name("user", &owner)?;
            context.who.require_operator(&format!("change the owner of {path}"))?;
            holder.owner = owner;
        }
        require_owner(&context.who, &node, "group", &path)?;
        if let Some(group) = group.filter(|group| *group != node.group) {
            check_name("group", &group)?;
            if !context.who.is_operator && !context.who.is_in(&group) {
                let what =
                    format!("user {} is not in group {group} and may not give it {path}", context.who.name);
                return Err(Failure::permission(what)
                    .hint("choose a group of your own, or ask the owner of the facility"));
            }
            holder.group = group;
        }
        // Who had rights by the old owner or group loses them.
        core.raise_fence();
        core.store.set_holder(node.id, &holder)?;
        core.touch(Topic::Files);
        Ok(Done {})
    }
}

/// Mode bits without which somebody cannot read a file, or what is below a directory.
const READ_OR_SEARCH: u32 = 0o555;

impl Apply for SetMode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        require_owner(&context.who, &node, "mode", &self.path)?;
        if node.mode & !self.mode & READ_OR_SEARCH != 0 {
            core.raise_fence();
        }
        core.store.set_mode(node.id, self.mode & 0o7777)?;
        Ok(Done {})
    }
}
