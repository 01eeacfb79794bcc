//! Calls on grants.

use super::{hard_links::parents, path_of, require_owner, resolve};
use crate::{
    Apply, Context, Core,
    store::{GrantRow, Node},
};
use base::{Failure, FileId, FilePath, Result};
use wire::control::{Done, GetGrants, GrantInfo, GrantList, SetGrant};

/// Grants on one file or directory.
const GRANTS_OF_DIRECTORY_MAX: usize = 64;
/// Grants in all: they are kept in memory.
const GRANTS_MAX: usize = 10_000;

impl Apply for SetGrant {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        require_owner(&context.who, &node, "grants", &self.path)?;
        let table = core.store.grants()?;
        let own = table.get(&node.id).map_or(&[][..], Vec::as_slice);
        let is_known = own.iter().any(|grant| grant.subject == self.subject);
        let Some(rights) = self.rights else {
            if !is_known {
                let what = format!("{} has no grant to {}", self.path, self.subject);
                return Err(Failure::not_found(what)
                    .hint(format!("`bp grant --list {}` shows those that count there", self.path)));
            }
            core.store.delete_grant(node.id, &self.subject)?;
            core.raise_fence();
            return Ok(Done {});
        };
        let len: usize = table.values().map(Vec::len).sum();
        if !is_known && (own.len() >= GRANTS_OF_DIRECTORY_MAX || len >= GRANTS_MAX) {
            let what =
                format!("{} has {} grants, the facility {len}: no more are possible", self.path, own.len());
            return Err(Failure::busy(what).hint("grant to a group instead of its members"));
        }
        if is_known {
            core.raise_fence();
        }
        let (giver, made) = (context.who.name.clone(), context.now);
        core.store.put_grant(&GrantRow { directory: node.id, subject: self.subject, rights, giver, made })?;
        Ok(Done {})
    }
}

impl Apply for GetGrants {
    fn apply(self, core: &mut Core, context: &Context) -> Result<GrantList> {
        let mut grants = Vec::new();
        match self.path {
            Some(path) => {
                let node = resolve(core, &context.who, &path)?;
                for id in upwards(core, &node)? {
                    add(core, id, &mut grants)?;
                }
            }
            None => {
                context.who.require_operator("see all grants")?;
                for id in core.store.grants()?.keys() {
                    add(core, *id, &mut grants)?;
                }
            }
        }
        grants.sort_by(|one, other| (&one.path, &one.subject).cmp(&(&other.path, &other.subject)));
        Ok(GrantList { grants })
    }
}

/// A node and the directories above each of its names.
pub(super) fn upwards(core: &Core, node: &Node) -> Result<Vec<FileId>> {
    let mut ids = vec![node.id];
    if node.id == super::ROOT {
        return Ok(ids);
    }
    for parent in parents(core, node)? {
        climb(core, parent, &mut ids)?;
    }
    Ok(ids)
}

/// Adds a directory and those above it, up to the first one that is there already.
fn climb(core: &Core, mut id: FileId, ids: &mut Vec<FileId>) -> Result<()> {
    let mut steps = 0;
    while !ids.contains(&id) {
        if steps > base::limits::PATH_DEPTH_MAX {
            return Err(Failure::corrupt(format!("directories above directory {id} form a ring")));
        }
        let above = core.store.node(id)?;
        let above = above.ok_or_else(|| Failure::not_found(format!("directory {id} is gone")))?;
        ids.push(id);
        if id == super::ROOT {
            break;
        }
        (id, steps) = (above.parent, steps + 1);
    }
    Ok(())
}

fn add(core: &Core, id: FileId, grants: &mut Vec<GrantInfo>) -> Result<()> {
    let table = core.store.grants()?;
    let Some(rows) = table.get(&id) else { return Ok(()) };
    let path = path_of(core, id)?;
    grants.extend(rows.iter().cloned().map(|row| {
        let GrantRow { subject, rights, giver, made, .. } = row;
        GrantInfo { path: path.clone(), subject, rights, giver, made }
    }));
    Ok(())
}
