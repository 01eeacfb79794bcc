//! Storage classes: which copies files are to have, which of them lack some, and their repair.
//!
//! **Problem.** A class may change when its files are on tape for years, and volumes may break. Then files have fewer copies than they
//! should, and nobody asks for the others.
//!
//! **Idea.** A file that lacks copies is noted as such ([`crate::store::Node::lacks_copies`]): it is not safe on tape and stays on
//! disk. When something happens that may make copies missing, all files with copies are compared with their classes, a few each
//! time that a drive asks for work. What a file lacks and nobody has requested is requested as a repack requests it, when nobody
//! else wants a drive.

use super::{repack, routes};
use crate::{
    Apply, Context, Core, Topic,
    namespace::{nearest, path_of, resolve},
    pool,
    store::{Node, Purpose},
};
use base::{Failure, FileId, FilePath, Millis, Result, Timestamp, Vid};
use std::{collections::BTreeSet, sync::Arc};
use tracing::info;
use wire::control::{
    CopyRoute, Done, GetMissingCopies, GetStorageClass, MISSING_COPIES_MAX, MissingCopies, MissingCopy,
    RequestKind, SetStorageClass, SetVolumePool, StorageClass, StorageClassInfo, check_pool,
};

/// Classes in all: they are kept in memory.
const CLASSES_MAX: usize = 10_000;
/// Files that are compared with their classes each time.
const CHECKED_MAX: usize = 500;
/// Files that lack copies and are worked at without anybody waiting for them. They are counted apart from those of repacks: copies
/// that wait for a volume of their pool must not keep these.
const REPAIRS_MAX: usize = 500;
/// How often files are looked for that lack copies and have no request: one that was cancelled, or whose disk went.
const REPAIR_INTERVAL: Millis = Millis::from_seconds(60);

/// The class that counts for a node, and the directory that has it.
pub(super) fn class_of(core: &Core, node: &Node) -> Result<Option<(Arc<StorageClass>, FileId)>> {
    let table = core.store.storage_classes()?;
    Ok(nearest(core, node, &table)?.map(|(class, from)| (Arc::clone(class), from)))
}

/// Copies that a file lacks, if those on the volumes `leaving` are not counted.
fn missing_but(core: &Core, node: &Node, leaving: &[Vid]) -> Result<Vec<CopyRoute>> {
    let class = class_of(core, node)?.map(|(class, _)| class);
    Ok(routes::missing(class.as_deref(), &core.store.copy_places(node.id)?, leaving))
}

/// Copies that the class of a file that has some wants beside them.
pub(crate) fn missing_copies(core: &Core, node: &Node) -> Result<Vec<CopyRoute>> {
    if !node.is_archived || (!node.lacks_copies && core.store.storage_classes()?.is_empty()) {
        return Ok(Vec::new());
    }
    missing_but(core, node, &[])
}

/// Notes whether a file lacks copies. Yields whether it does.
pub(crate) fn note(core: &mut Core, file: FileId) -> Result<bool> {
    let Some(node) = core.store.node(file)? else { return Ok(false) };
    let lacks = !missing_copies(core, &node)?.is_empty();
    core.store.set_lacks_copies(file, lacks)?;
    Ok(lacks)
}

/// A file has a new copy. Yields whether its request is done: no copy is missing, those aside that are about to go.
pub(super) fn is_done(core: &mut Core, file: FileId) -> Result<bool> {
    if note(core, file)? {
        return Ok(false);
    }
    if core.store.storage_classes()?.is_empty() {
        return Ok(true);
    }
    let Some(node) = core.store.node(file)? else { return Ok(true) };
    Ok(missing_but(core, &node, &repack::leaving(core)?)?.is_empty())
}

impl Apply for SetStorageClass {
    const TOPIC: Topic = Topic::Tape;

    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set storage classes")?;
        let node = resolve(core, &context.who, &self.path)?;
        if !node.is_directory() {
            return Err(Failure::invalid(format!("{} is no directory", self.path))
                .hint("a storage class counts for all files below a directory"));
        }
        let table = core.store.storage_classes()?;
        match &self.class {
            None if !table.contains_key(&node.id) => {
                let path = &self.path;
                return Err(Failure::not_found(format!("no storage class was set on {path}"))
                    .hint(format!("`bp class show {path}` says which directory has the one that counts")));
            }
            None => {}
            Some(_) if table.len() >= CLASSES_MAX && !table.contains_key(&node.id) => {
                let what = format!("the facility has {CLASSES_MAX} storage classes: no more are possible");
                return Err(Failure::busy(what).hint("set one on a directory further up"));
            }
            Some(class) => check(core, class)?,
        }
        core.store.set_storage_class(node.id, self.class.as_ref())?;
        check_all(core)?;
        Ok(Done {})
    }
}

/// Refuses a class that no volume serves: its files would wait for ever.
fn check(core: &Core, class: &StorageClass) -> Result<()> {
    class.check()?;
    let volumes = core.store.volumes()?;
    let libraries: BTreeSet<&str> = volumes.iter().map(|volume| volume.library.as_str()).collect();
    let pools: BTreeSet<&str> = volumes.iter().map(|volume| volume.pool.as_str()).collect();
    for route in &class.copies {
        if let Some(library) = route.library.as_deref().filter(|name| !libraries.contains(name)) {
            let failure = Failure::not_found(format!("there is no library {library} with volumes"));
            return Err(failure.hint("`bp volumes` lists volumes with their libraries"));
        }
        if let Some(pool) = route.pool.as_deref().filter(|name| !pools.contains(name)) {
            let failure = Failure::not_found(format!("no volume is in tape pool {pool}"));
            return Err(failure.hint(format!("`bp volume pool {pool} VOLUME` puts volumes into it")));
        }
    }
    Ok(())
}

/// Has all files with copies compared with their classes.
pub(super) fn check_all(core: &mut Core) -> Result<()> {
    core.store.set_copy_check(Some(FileId(0)))?;
    core.touch(Topic::Tape);
    Ok(())
}

/// A file or directory is in another directory now, where another class may count.
pub(crate) fn moved(core: &mut Core, node: &Node, (from, to): (&Node, &Node)) -> Result<()> {
    if core.store.storage_classes()?.is_empty() {
        return Ok(());
    }
    let class = |directory: &Node| Ok::<_, Failure>(class_of(core, directory)?.map(|(_, from)| from));
    if class(from)? == class(to)? {
        return Ok(());
    }
    if node.is_directory() {
        return check_all(core);
    }
    note(core, node.id).map(drop)
}

impl Apply for GetStorageClass {
    fn apply(self, core: &mut Core, context: &Context) -> Result<StorageClassInfo> {
        let node = resolve(core, &context.who, &self.path)?;
        let Some((class, from)) = class_of(core, &node)? else {
            return Ok(StorageClassInfo { class: None, from: None });
        };
        Ok(StorageClassInfo { class: Some((*class).clone()), from: Some(path_of(core, from)?) })
    }
}

impl Apply for SetVolumePool {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("change volumes")?;
        if !self.pool.is_empty() {
            check_pool(&self.pool)?;
        }
        repack::volume_named(core, &self.vid)?;
        core.store.set_volume_pool(&self.vid, &self.pool)?;
        // Copies on it may be those that a class wants, or be these no more.
        if !core.store.storage_classes()?.is_empty() {
            check_all(core)?;
        }
        Ok(Done {})
    }
}

impl Apply for GetMissingCopies {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MissingCopies> {
        context.who.require_operator("list missing copies")?;
        let mut files = Vec::new();
        for file in core.store.missing_copies(MISSING_COPIES_MAX)? {
            let Some(node) = core.store.node(file)? else { continue };
            files.push(MissingCopy {
                path: path_of(core, file)?,
                copies: core.store.copies(file)?.len() as u32,
                missing: missing_copies(core, &node)?,
                waits: super::waits(core, file, context.now)?,
            });
        }
        let is_checking = core.store.copy_check()?.is_some();
        Ok(MissingCopies { files_len: core.store.missing_copies_len()?, files, is_checking })
    }
}

/// Goes on with the comparison of files with their classes and with repairs; called when a drive asks for work.
pub(super) fn go_on(core: &mut Core, now: Timestamp) -> Result<()> {
    if let Some(from) = core.store.copy_check()? {
        let files = core.store.files_with_copies(from, CHECKED_MAX)?;
        for file in &files {
            note(core, *file)?;
        }
        let next = files.last().filter(|_| files.len() == CHECKED_MAX).map(|last| FileId(last.0 + 1));
        core.store.set_copy_check(next)?;
        if next.is_some() {
            core.look_again_in(Millis(1));
            return Ok(());
        }
        info!(missing = core.store.missing_copies_len()?, "tape copies compared with storage classes");
    } else if now < core.live.copy_repairs_due {
        return Ok(());
    }
    core.live.copy_repairs_due = now + REPAIR_INTERVAL;
    let under_way = core.store.copy_repairs_under_way()? as usize;
    for file in core.store.missing_without_request(REPAIRS_MAX.saturating_sub(under_way))? {
        repair(core, file, now)?;
    }
    Ok(())
}

/// Requests what a file lacks.
fn repair(core: &mut Core, file: FileId, now: Timestamp) -> Result<()> {
    let Some(node) = core.store.node(file)? else { return Ok(()) };
    let is_on_disk = pool::source(core, &node, 0, now)?.is_some();
    let kind = if is_on_disk { RequestKind::Archive } else { RequestKind::Recall };
    let owner = core.facility().owner.clone();
    let id = core.store.put_request(kind, file, &owner, now)?;
    core.store.set_request_purpose(id, Purpose::Repack)?;
    core.touch(Topic::Tape);
    Ok(())
}
