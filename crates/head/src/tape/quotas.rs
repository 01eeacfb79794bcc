//! Quotas of drives: how many of them read or write files of a group at the same time.
//!
//! A session counts for each group of which it has files. What nobody waits for counts for none, and is limited by none.

use super::plan::{View, Work};
use crate::{Apply, Context, Core, Topic, store::DriveQuotaRow};
use base::{Failure, Result, units::counted};
use wire::control::{Done, DriveQuota, DriveQuotas, GetDriveQuotas, RequestKind, SetDriveQuota};

/// Quotas in all.
const QUOTAS_MAX: usize = 1000;
/// Bytes of the name of a group at most.
const GROUP_BYTES_MAX: usize = 256;

/// What a busy drive does, as far as quotas ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Serving {
    pub(crate) kind: RequestKind,
    pub(crate) groups: Vec<String>,
}

/// Drives that files of a group have for one direction.
fn used(view: &View, group: &str, kind: RequestKind) -> u32 {
    let serves = |serving: &&Serving| serving.kind == kind && serving.groups.iter().any(|one| one == group);
    view.drives.iter().filter_map(|drive| drive.serving.as_ref()).filter(serves).count() as u32
}

/// Quotas of groups that may have no further drive now.
pub(super) fn exhausted(view: &View) -> Vec<&DriveQuotaRow> {
    let is_full = |quota: &&DriveQuotaRow| used(view, &quota.group, quota.kind) >= quota.drives;
    view.quotas.iter().filter(is_full).collect()
}

/// The one of these quotas that keeps a request from a further drive.
pub(super) fn hindering<'a>(exhausted: &[&'a DriveQuotaRow], work: &Work) -> Option<&'a DriveQuotaRow> {
    let is_its = |quota: &&&DriveQuotaRow| quota.kind == work.kind && quota.group == work.group;
    exhausted.iter().find(is_its).copied().filter(|_| !work.can_wait)
}

/// Why a request waits for one of its group's drives, in words.
pub(super) fn explain(quota: &DriveQuotaRow) -> String {
    let DriveQuotaRow { group, kind, drives } = quota;
    let what = match kind {
        RequestKind::Archive => "archives",
        RequestKind::Recall => "recalls",
    };
    match drives {
        0 => format!("group {group} may have no drive for {what}"),
        most => {
            let drives = counted(u64::from(*most), "drive", "drives");
            format!("group {group} has the {drives} that it may have for {what}")
        }
    }
}

impl Apply for SetDriveQuota {
    const TOPIC: Topic = Topic::Tape;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set quotas of drives")?;
        if self.group.is_empty() || self.group.len() > GROUP_BYTES_MAX {
            return Err(Failure::invalid(format!("`{}` is no name of a group", self.group))
                .hint("`bp stat` shows the group of a file"));
        }
        let quotas = core.store.drive_quotas()?;
        let is_it = |quota: &DriveQuotaRow| quota.group == self.group && quota.kind == self.kind;
        let is_known = quotas.iter().any(is_it);
        if self.drives.is_none() && !is_known {
            let what = format!("group {} has no quota of drives for {}", self.group, self.kind.as_str());
            return Err(Failure::not_found(what).hint("`bp drive quota` lists them"));
        }
        if !is_known && quotas.len() >= QUOTAS_MAX {
            let what = format!("the facility has {QUOTAS_MAX} quotas of drives: no more are possible");
            return Err(Failure::busy(what).hint("remove one that no group needs"));
        }
        core.store.set_drive_quota(&self.group, self.kind, self.drives)?;
        Ok(Done {})
    }
}

impl Apply for GetDriveQuotas {
    fn apply(self, core: &mut Core, context: &Context) -> Result<DriveQuotas> {
        let view = super::view(core, context.now)?;
        let quotas = view.quotas.iter().map(|quota| DriveQuota {
            group: quota.group.clone(),
            kind: quota.kind,
            drives: quota.drives,
            used: used(&view, &quota.group, quota.kind),
        });
        Ok(DriveQuotas { quotas: quotas.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::{
        plan::{DriveView, next_session},
        plan_tests::{NOW, archive, drive, explain, view},
    };

    fn quota(kind: RequestKind, drives: u32) -> DriveQuotaRow {
        DriveQuotaRow { group: "cms".into(), kind, drives }
    }

    fn busy(kind: RequestKind, groups: &[&str]) -> DriveView {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        DriveView {
            busy_with: Some("V00002".parse().unwrap()),
            serving: Some(Serving { kind, groups }),
            ..drive("b", Some(2))
        }
    }

    #[test]
    fn a_group_has_no_more_drives_than_its_quota_and_others_go_on() {
        let other = Work { group: "lhcb".into(), ..archive(2, 1) };
        let mut view =
            view(vec![drive("a", None), busy(RequestKind::Archive, &["cms"])], vec![archive(1, 1)]);
        assert!(next_session(&view, "a", NOW).is_some(), "there is no quota");
        view.quotas = vec![quota(RequestKind::Archive, 1)];
        assert_eq!(next_session(&view, "a", NOW), None);
        let why = explain(&view, &view.queue[0], NOW);
        assert_eq!(why, "group cms has the 1 drive that it may have for archives");
        view.queue.push(other);
        let plan = next_session(&view, "a", NOW).unwrap();
        let crate::tape::plan::PlannedWork::Archive(files) = plan.work else { panic!("it writes") };
        assert_eq!(files.concat(), [base::RequestId(2)]);
        view.queue.pop();
        view.quotas = vec![quota(RequestKind::Archive, 2)];
        assert!(next_session(&view, "a", NOW).is_some());
        // Drives that read do not count for what is written.
        view.quotas = vec![quota(RequestKind::Archive, 1)];
        view.drives[1] = busy(RequestKind::Recall, &["cms"]);
        assert!(next_session(&view, "a", NOW).is_some());
        view.quotas = vec![quota(RequestKind::Archive, 0)];
        assert_eq!(explain(&view, &view.queue[0], NOW), "group cms may have no drive for archives");
        // A repack is for everybody.
        view.queue[0].can_wait = true;
        assert!(next_session(&view, "a", NOW).is_some());
    }
}
