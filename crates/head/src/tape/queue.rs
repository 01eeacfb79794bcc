//! The queue as the planner sees it.

use super::{
    QUEUE_VIEW_MAX,
    plan::{DriveView, Target, Work},
    repack, routes,
};
use crate::{
    Core,
    namespace::nearest,
    store::{CopyPlace, Purpose, TargetRow},
};
use base::{FileId, RequestId, Result, Vid};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};
use wire::control::{CopyRoute, RequestKind, RequestState, StorageClass};

/// Reads the requests that wait, oldest first.
pub(super) fn read(core: &Core, drives: &[DriveView]) -> Result<Vec<Work>> {
    let mut targets = targets(core.store.recall_targets()?, drives);
    let mut copies: HashMap<RequestId, Vec<CopyPlace>> = HashMap::new();
    for (request, place) in core.store.places_of_archives()? {
        copies.entry(request).or_default().push(place);
    }
    let leaving = repack::leaving(core)?;
    let mut classes = Classes { core, known: HashMap::new() };
    let rows = core.store.requests(QUEUE_VIEW_MAX)?;
    let mut queue = Vec::with_capacity(rows.len());
    for row in rows.into_iter().filter(|row| row.state == RequestState::Queued) {
        let copies = copies.remove(&row.id).unwrap_or_default();
        let routes = match row.kind {
            RequestKind::Archive => classes.missing(row.directory, &copies, &leaving)?,
            RequestKind::Recall => Vec::new(),
        };
        queue.push(Work {
            target: targets.remove(&row.id),
            not_on: copies.into_iter().map(|copy| copy.vid).collect(),
            routes,
            can_wait: row.purpose != Purpose::User,
            id: row.id,
            kind: row.kind,
            size: row.size,
            directory: row.directory,
            group: row.group,
            created: row.created,
            not_before: row.not_before,
            attempts: row.attempts,
            reason: row.reason,
        });
    }
    Ok(queue)
}

/// The copy that each recall reads: one on a volume that is read, in a library in which a drive works.
fn targets(rows: Vec<TargetRow>, drives: &[DriveView]) -> HashMap<RequestId, Target> {
    let works = drives.iter().filter(|drive| drive.trouble.is_none());
    let works: HashSet<&str> = works.map(|drive| drive.library.as_str()).collect();
    let mut best: BTreeMap<RequestId, ((u8, bool), Target)> = BTreeMap::new();
    for row in rows {
        let rank = (row.rank, !works.contains(row.library.as_str()));
        let target = Target { vid: row.vid, fseq: row.fseq, block: row.block, offset: row.offset };
        if best.get(&row.request).is_none_or(|(known, _)| rank < *known) {
            best.insert(row.request, (rank, target));
        }
    }
    best.into_iter().map(|(request, (_, target))| (request, target)).collect()
}

/// The classes of directories, each looked up once.
struct Classes<'a> {
    core: &'a Core,
    known: HashMap<FileId, Option<Arc<StorageClass>>>,
}

impl Classes<'_> {
    fn missing(
        &mut self,
        directory: FileId,
        copies: &[CopyPlace],
        leaving: &[Vid],
    ) -> Result<Vec<CopyRoute>> {
        let class = match self.known.get(&directory) {
            Some(class) => class.clone(),
            None => {
                let class = self.find(directory)?;
                self.known.insert(directory, class.clone());
                class
            }
        };
        Ok(routes::missing(class.as_deref(), copies, leaving))
    }

    fn find(&self, directory: FileId) -> Result<Option<Arc<StorageClass>>> {
        let table = self.core.store.storage_classes()?;
        if table.is_empty() {
            return Ok(None);
        }
        let Some(node) = self.core.store.node(directory)? else { return Ok(None) };
        Ok(nearest(self.core, &node, &table)?.map(|(class, _)| Arc::clone(class)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::plan_tests::drive;

    fn row(vid: &str, library: &str, rank: u8) -> TargetRow {
        let (vid, library) = (vid.parse().unwrap(), library.to_owned());
        TargetRow { request: RequestId(1), vid, fseq: 1, block: 1, offset: 0, library, rank }
    }

    fn chosen(rows: Vec<TargetRow>, drives: &[DriveView]) -> String {
        targets(rows, drives)[&RequestId(1)].vid.to_string()
    }

    #[test]
    fn of_two_copies_that_is_read_for_which_a_drive_works() {
        let mut drives = [drive("a", None), DriveView { library: "lib2".into(), ..drive("b", None) }];
        let rows = || vec![row("V1", "lib", 0), row("V2", "lib2", 0), row("V3", "", 1)];
        assert_eq!(chosen(rows(), &drives), "V1");
        drives[0].trouble = Some("dead".into());
        assert_eq!(chosen(rows(), &drives), "V2");
        drives[1].trouble = Some("dead".into());
        assert_eq!(chosen(rows(), &drives), "V1");
        // A suspect volume is not read because a drive for it works.
        assert_eq!(chosen(vec![row("V1", "lib2", 2), row("V2", "lib", 0)], &[drive("a", None)]), "V2");
    }
}
