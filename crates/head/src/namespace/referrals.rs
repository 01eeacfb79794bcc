//! Referrals: directories that other heads serve.
//!
//! Each subtree has one active head. A head refuses calls below a directory of another head and names that head; doors
//! send clients there. A head whose root directory is referred keeps its own entries there, and refers everything else.

use super::{ROOT, Step, grants::upwards, path_of, resolve_parent, walk};
use crate::{
    Apply, Context, Core, Principal, Topic,
    store::{Node, ReferralRow, ReferralTable},
};
use base::{ErrorKind, Failure, FileId, FilePath, OtherHead, Result};
use std::sync::Arc;
use wire::control::{Done, GetReferrals, Refer, Referral, Referrals};

/// Referrals in all: they are kept in memory.
const REFERRALS_MAX: usize = 1000;

/// The refusal that tells who keeps a path.
fn kept_by(at: &OtherHead, path: &FilePath) -> Failure {
    Failure::unsupported(format!("{path} is served by the head at {}", at.http))
        .hint(format!("use that head: bp --facility {}", at.http))
        .kept_by(at.clone())
}

/// Refuses a step to what another head keeps.
pub(super) fn refuse_kept(referrals: &ReferralTable, step: Step<'_>, path: &FilePath) -> Result<()> {
    let directory = match step {
        Step::Into(node) => node.id,
        // Only of the root it is said that everything else lies elsewhere.
        Step::Missing(ROOT) => ROOT,
        Step::Missing(_) => return Ok(()),
    };
    referrals.get(&directory).map_or(Ok(()), |row| Err(kept_by(&row.at, path)))
}

/// Refuses a new entry of a directory if another head keeps what is not here.
pub(crate) fn refuse_foreign(core: &Core, directory: FileId, path: &FilePath) -> Result<()> {
    let referrals = core.store.referrals()?;
    refuse_kept(&referrals, Step::Missing(directory), path)
}

/// Refuses to move between heads, and to move a directory above one that another head keeps: that one knows it by its path.
pub(super) fn refuse_move(core: &Core, who: &Principal, from: &FilePath, to: &FilePath) -> Result<()> {
    let referrals = core.store.referrals()?;
    if referrals.is_empty() {
        return Ok(());
    }
    let keeper = |path: &FilePath| match super::find(core, who, path) {
        Err(Failure { at: Some(at), .. }) => Ok(Some(at)),
        Err(failure) if failure.kind != ErrorKind::NotFound => Err(failure),
        _ => Ok(None),
    };
    let (old, new) = (keeper(from)?, keeper(to)?);
    if old != new {
        let what = format!("{from} and {to} are served by different heads");
        return Err(Failure::unsupported(what).hint("copy it, then remove it there"));
    }
    if let Some(at) = old {
        return Err(kept_by(&at, from));
    }
    let node = super::resolve(core, who, from)?;
    for directory in referrals.keys() {
        let Some(below) = core.store.node(*directory)? else { continue };
        if *directory != ROOT && upwards(core, &below)?.contains(&node.id) {
            let what = format!("{from} contains {}, which another head serves", path_of(core, *directory)?);
            return Err(Failure::unsupported(what).hint("end that referral first"));
        }
    }
    Ok(())
}

/// Finds a directory, whoever keeps what is in it.
fn directory(core: &Core, who: &Principal, path: &FilePath) -> Result<Arc<Node>> {
    if let Some(parent) = path.parent()
        && !parent.is_root()
    {
        // What another head keeps is referred there.
        resolve_parent(core, who, path)?;
    }
    let node = walk(core, who, path, |_| Ok(()))?.ok_or_else(|| {
        Failure::not_found(format!("{path} does not exist")).hint(format!("`bp mkdir -p {path}` makes it"))
    })?;
    if !node.is_directory() {
        return Err(Failure::new(ErrorKind::NotDirectory, format!("{path} is not a directory")));
    }
    Ok(node)
}

impl Apply for Refer {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("refer directories to other heads")?;
        let node = directory(core, &context.who, &self.path)?;
        let table = core.store.referrals()?;
        core.touch(Topic::Files);
        let Some(at) = self.to else {
            if !table.contains_key(&node.id) {
                return Err(Failure::not_found(format!("{} is served by this head", self.path))
                    .hint("`bp head refer` lists the directories of other heads"));
            }
            core.store.delete_referral(node.id)?;
            return Ok(Done {});
        };
        if !at.is_valid() {
            let what = format!("{} and {} are not the addresses of a head", at.root, at.http);
            return Err(Failure::invalid(what).hint("write root://HOST:PORT and https://HOST:PORT"));
        }
        if node.id != ROOT && core.store.has_children(node.id)? {
            let what = format!("{} is not empty, and its contents would become invisible", self.path);
            return Err(Failure::new(ErrorKind::NotEmpty, what).hint("move what is in it to that head first"));
        }
        if table.len() >= REFERRALS_MAX && !table.contains_key(&node.id) {
            let what =
                format!("{REFERRALS_MAX} directories are referred to other heads; no more are possible");
            return Err(Failure::busy(what).hint("refer a directory above several of them"));
        }
        let (giver, made) = (context.who.name.clone(), context.now);
        core.store.put_referral(node.id, &ReferralRow { at, giver, made })?;
        Ok(Done {})
    }
}

impl Apply for GetReferrals {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Referrals> {
        context.who.require_operator("list referrals")?;
        let table = core.store.referrals()?;
        let mut referrals = Vec::with_capacity(table.len());
        for (id, ReferralRow { at, giver, made }) in &*table {
            let path = path_of(core, *id)?;
            referrals.push(Referral { path, at: at.clone(), giver: giver.clone(), made: *made });
        }
        referrals.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Referrals { referrals })
    }
}
