//! The calls of people on the trash.

use super::{TURN_LEN, purge};
use crate::{
    Apply, Context, Core, Topic,
    account::{Growth, refuse_excess},
    namespace::{Right, make_directory, refuse_foreign, refuse_reserved, require, resolve_parent},
    store::{Node, TrashQuery, TrashRow},
};
use base::{Failure, FileId, FilePath, Result, Timestamp, limits::LIST_ENTRIES_MAX};
use std::{collections::BTreeSet, sync::Arc};
use wire::control::{
    EmptyTrash, GetTrash, RestoreTrash, Trash, TrashEmptied, TrashPosition, TrashRestored, TrashedFile,
};

/// Files that come back in one call.
const RESTORED_LEN_MAX: usize = 256;

/// Whose files somebody may see and restore: the facility's owner those of all.
fn of(context: &Context) -> Option<&str> {
    (!context.who.is_operator).then_some(&*context.who.name)
}

fn place_before(after: Option<TrashPosition>) -> (Timestamp, FileId) {
    after.map_or((Timestamp(i64::MAX), FileId(0)), |place| (place.removed, place.file))
}

/// Where the next page begins, if this one is full.
fn next(rows: &[TrashRow], limit: usize) -> Option<TrashPosition> {
    let last = rows.last().filter(|_| rows.len() == limit)?;
    Some(TrashPosition { removed: last.removed, file: last.file })
}

impl Apply for GetTrash {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Trash> {
        let (before, limit) = (place_before(self.after), LIST_ENTRIES_MAX);
        let query = TrashQuery { of: of(context), within: self.path.as_ref(), before, limit };
        let rows = core.store.trash_rows(&query)?;
        let next = next(&rows, limit);
        let mut files = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(node) = core.store.node(row.file)? {
                files.push(told(core, row, &node));
            }
        }
        Ok(Trash { files, next, retention: core.trash.retention, max_size: core.trash.max_size })
    }
}

fn told(core: &Core, row: TrashRow, node: &Node) -> TrashedFile {
    let TrashRow { file, path, removed, remover, why } = row;
    TrashedFile {
        id: file,
        path,
        size: node.size,
        owner: node.owner.clone(),
        modified: node.modified,
        removed,
        remover,
        why,
        until: removed + core.trash.retention,
        state: node.state(),
    }
}

/// What a call to restore means.
struct RestoreTarget {
    rows: Vec<TrashRow>,
    /// They were below this directory, which is put in place of it.
    below: Option<FilePath>,
    next: Option<TrashPosition>,
}

impl Apply for RestoreTrash {
    fn apply(self, core: &mut Core, context: &Context) -> Result<TrashRestored> {
        let wanted = wanted(&self, core, context)?;
        let mut reply = TrashRestored { files: Vec::new(), bytes: 0, taken: Vec::new(), next: wanted.next };
        let mut back = BTreeSet::new();
        for row in wanted.rows {
            let path = destination(&row.path, wanted.below.as_ref(), self.to.as_ref())?;
            match restore(core, context, row.file, &path)? {
                Some(node) => {
                    reply.bytes += node.size;
                    back.insert(path.clone());
                    reply.files.push(path);
                }
                None if wanted.below.is_none() => return Err(taken(&path)),
                // An older version of what came back just now.
                None if back.contains(&path) => {}
                None => reply.taken.push(path),
            }
        }
        core.touch(Topic::Files);
        Ok(reply)
    }
}

fn taken(path: &FilePath) -> Failure {
    Failure::exists(format!("{path} exists")).hint("restore it under another name: `--to PATH`")
}

fn wanted(ask: &RestoreTrash, core: &Core, context: &Context) -> Result<RestoreTarget> {
    let one = |row| RestoreTarget { rows: vec![row], below: None, next: None };
    let path = match (ask.id, &ask.path) {
        (Some(id), _) => return by_id(core, context, id).map(one),
        (None, Some(path)) => path,
        (None, None) => {
            return Err(
                Failure::invalid("give a path or a number to restore").hint("`bp trash ls` lists both")
            );
        }
    };
    let (before, limit) = (place_before(ask.after), RESTORED_LEN_MAX);
    let query = TrashQuery { of: of(context), within: Some(path), before, limit };
    if ask.after.is_none()
        && let Some(row) = core.store.trash_at(&query)?
    {
        return Ok(one(row));
    }
    let rows = core.store.trash_rows(&query)?;
    if rows.is_empty() && ask.after.is_none() {
        return Err(Failure::not_found(format!("no file of {path} is in the trash"))
            .hint("`bp trash ls` lists what can be restored"));
    }
    let next = next(&rows, limit);
    Ok(RestoreTarget { rows, below: Some(path.clone()), next })
}

fn by_id(core: &Core, context: &Context, id: FileId) -> Result<TrashRow> {
    let missing = || {
        Failure::not_found(format!("file {id} is not in the trash"))
            .hint("`bp trash ls` lists what can be restored")
    };
    let (Some(row), Some(node)) = (core.store.trash(id)?, core.store.node(id)?) else {
        return Err(missing());
    };
    // Whoever may not see it is not told that it is there.
    let may_see = of(context).is_none_or(|user| user == row.remover || user == node.owner);
    if may_see { Ok(row) } else { Err(missing()) }
}

/// Where a file is put that was at `path`.
fn destination(path: &FilePath, below: Option<&FilePath>, to: Option<&FilePath>) -> Result<FilePath> {
    match (below, to) {
        (_, None) => Ok(path.clone()),
        (None, Some(to)) => Ok(to.clone()),
        (Some(below), Some(to)) => {
            let mut place = to.clone();
            for name in path.names().skip(below.names().count()) {
                place = place.join(name)?;
            }
            Ok(place)
        }
    }
}

/// Brings a file back, if nothing has its name.
fn restore(core: &mut Core, context: &Context, file: FileId, path: &FilePath) -> Result<Option<Arc<Node>>> {
    let above = path.parent().ok_or_else(|| Failure::invalid("a file cannot be restored as /"))?;
    make_directory(core, context, &above, 0o755, true)?;
    let parent = resolve_parent(core, &context.who, path)?;
    require(core, &context.who, &parent, Right::Write, path)?;
    refuse_foreign(core, parent.id, path)?;
    refuse_reserved(path)?;
    if core.store.child(parent.id, path.name())?.is_some() {
        return Ok(None);
    }
    core.store.take_from_trash(file, parent.id, path.name())?;
    let gone = || Failure::internal(format!("file {file} vanished while it was restored"));
    let node = core.store.node(file)?.ok_or_else(gone)?;
    refuse_excess(core, &node, Growth { is_new: true, bytes: node.size })?;
    Ok(Some(node))
}

impl Apply for EmptyTrash {
    fn apply(self, core: &mut Core, context: &Context) -> Result<TrashEmptied> {
        context.who.require_operator("empty the trash")?;
        let before = place_before(None);
        let query = TrashQuery { of: None, within: self.path.as_ref(), before, limit: TURN_LEN };
        let rows = core.store.trash_rows(&query)?;
        let mut emptied = TrashEmptied { files: 0, bytes: 0, is_more: rows.len() == TURN_LEN };
        for row in rows {
            emptied.bytes += purge(core, row.file)?;
            emptied.files += 1;
        }
        Ok(emptied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_below_a_directory_goes_below_another() {
        let path = |text: &str| text.parse::<FilePath>().unwrap();
        for (was, below, to, expected) in [
            ("/a/b", None, None, "/a/b"),
            ("/a/b", None, Some("/c"), "/c"),
            ("/a/b/c", Some("/a"), None, "/a/b/c"),
            ("/a/b/c", Some("/a"), Some("/x/y"), "/x/y/b/c"),
            ("/a/b", Some("/"), Some("/x"), "/x/a/b"),
        ] {
            let (below, to) = (below.map(path), to.map(path));
            assert_eq!(destination(&path(was), below.as_ref(), to.as_ref()).unwrap(), path(expected));
        }
    }
}
