//! Finds files whose only copy is on one host, so that an operator is asked before the host is removed.

use crate::{Apply, Context, Core, hosts::unknown, namespace::path_of};
use base::{Failure, FileId, Result, limits::LIST_ENTRIES_MAX, units::counted};
use wire::control::{GetSoleFiles, SoleFile, SoleFiles};

/// Replicas of a host that are looked at in one call: some seconds. Whoever has more is emptied first, or forced away.
const REPLICAS_MAX: u64 = 200_000;
/// Files that a refusal names.
const NAMED: usize = 3;

impl Apply for GetSoleFiles {
    fn apply(self, core: &mut Core, context: &Context) -> Result<SoleFiles> {
        context.who.require_operator("list the files that are on one host only")?;
        core.store.host(&self.host)?.ok_or_else(|| unknown(&self.host))?;
        require_few(core, &self.host)?;
        let after = self.after.unwrap_or(FileId(0));
        let ids = core.store.sole_files(&self.host, after, LIST_ENTRIES_MAX)?;
        let is_partial = ids.len() == LIST_ENTRIES_MAX;
        let mut files = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(node) = core.store.node(id)? else { continue };
            files.push(SoleFile { id, path: path_of(core, id)?, size: node.size, owner: node.owner.clone() });
        }
        Ok(SoleFiles { files, is_partial })
    }
}

fn require_few(core: &Core, host: &str) -> Result<()> {
    let counts = core.store.map_partitions(|(_, row)| (row.server.name == host).then_some(row.replicas))?;
    let replicas = counts.into_iter().fold(0u64, u64::saturating_add);
    if replicas <= REPLICAS_MAX {
        return Ok(());
    }
    Err(Failure::busy(format!(
        "host {host} has {replicas} replicas, too many to search for files without another copy"
    ))
    .hint(format!("empty it first with `bp host drain {host}`, or `bp host remove {host} --force`")))
}

/// Refuses to turn a host away that has what is nowhere else.
pub(crate) fn refuse_loss(core: &Core, host: &str) -> Result<()> {
    require_few(core, host)?;
    let ids = core.store.sole_files(host, FileId(0), LIST_ENTRIES_MAX)?;
    if ids.is_empty() {
        return Ok(());
    }
    let mut named = Vec::new();
    for id in ids.iter().take(NAMED) {
        named.push(path_of(core, *id)?.to_string());
    }
    let more = if ids.len() > NAMED { ", ..." } else { "" };
    let count = match ids.len() {
        LIST_ENTRIES_MAX => format!("{LIST_ENTRIES_MAX} files or more are"),
        len => counted(len as u64, "file is", "files are"),
    };
    let what = format!("{count} only on host {host}: {}{more}", named.join(", "));
    Err(Failure::busy(what).hint(format!(
        "empty it first with `bp host drain {host}`, or archive them; `bp host files {host}` lists all, `bp \
            host remove {host} --force` removes it nevertheless"
    )))
}
