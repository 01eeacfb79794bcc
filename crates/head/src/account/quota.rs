//! Quotas: hard limits on the data of users, groups and projects.
//!
//! A quota counts files and their bytes in the namespace, wherever the bytes are: evictions, recalls and mirrors do not
//! change the count. An unfinished write counts with the size that its client announced.

use crate::{
    Apply, Context, Core,
    store::{Node, Quota, Used},
};
use base::{
    Failure, Result, check_name,
    units::{counted, human_bytes},
};
use wire::control::{Done, GetQuotas, QuotaInfo, QuotaKind, Quotas, SetQuota};

/// The files and bytes that a call adds. They have been counted already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    /// A file was made.
    pub(crate) is_new: bool,
    /// Bytes; 0: nobody knows, or none.
    pub(crate) bytes: u64,
}

/// Refuses what a call has added to `file` where a quota does not hold any more.
pub(crate) fn refuse_excess(core: &Core, file: &Node, growth: Growth) -> Result<()> {
    for (kind, name, quota) in core.store.quotas_of(file)? {
        if let Some(what) = excess(&quota, growth) {
            return Err(Failure::over_quota(format!(
                "the quota of {} {name} is reached: {what}",
                kind.as_str()
            ))
            .hint("remove files, or ask the operator for more; `bp quota` shows how much is used"));
        }
    }
    Ok(())
}

/// Returns the quota that is exceeded, if any.
fn excess(quota: &Quota, growth: Growth) -> Option<String> {
    let Used { bytes: held, reserved, files } = quota.used();
    if let Some(max) = quota.files
        && growth.is_new
        && files > max
    {
        return Some(format!("{} of {max}", counted(files - 1, "file", "files")));
    }
    let max = quota.bytes?;
    let is_full = match growth {
        Growth { is_new: false, bytes: 0 } => false,
        // How much comes is not known; that something comes is.
        Growth { is_new: true, bytes: 0 } => held + reserved >= max,
        Growth { .. } => held + reserved > max,
    };
    if !is_full {
        return None;
    }
    let before = (held + reserved).saturating_sub(growth.bytes);
    let used = format!("{} of {} are used or being written", human_bytes(before), human_bytes(max));
    Some(if growth.bytes > 0 {
        format!("{used}, {} more exceed it", human_bytes(growth.bytes))
    } else {
        used
    })
}

impl Apply for SetQuota {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set quotas")?;
        // Names of projects are a part of these.
        check_name(self.kind.as_str(), &self.name)?;
        core.store.set_quota((self.kind, &self.name), self.bytes, self.files)?;
        Ok(Done {})
    }
}

impl Apply for GetQuotas {
    fn apply(self, core: &mut Core, _: &Context) -> Result<Quotas> {
        let quotas = core.store.quotas()?.into_iter().map(|(kind, name, quota)| info(kind, name, &quota));
        Ok(Quotas { quotas: quotas.collect() })
    }
}

fn info(kind: QuotaKind, name: String, quota: &Quota) -> QuotaInfo {
    let Used { bytes, reserved: reserved_bytes, files } = quota.used();
    QuotaInfo { kind, name, bytes, reserved_bytes, bytes_max: quota.bytes, files, files_max: quota.files }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::AccountUsage;

    #[test]
    fn a_file_that_fits_to_the_last_byte_is_taken() {
        let quota = |bytes, reserved, files| {
            Quota::example((100, 2), AccountUsage { files, bytes, reserved, ..AccountUsage::default() })
        };
        let growth = Growth { is_new: true, bytes: 40 };
        assert_eq!(excess(&quota(60, 40, 2), growth), None);
        let more = excess(&quota(61, 40, 2), growth).expect("one byte too many");
        assert_eq!(more, "61 B of 100 B are used or being written, 40 B more exceed it");
        assert_eq!(excess(&quota(1, 0, 3), growth).expect("a file too many"), "2 files of 2");
        assert_eq!(excess(&quota(500, 0, 9), Growth { is_new: false, bytes: 0 }), None, "nothing is added");
        assert!(
            excess(&quota(100, 0, 1), Growth { is_new: true, bytes: 0 }).is_some(),
            "nothing fits any more"
        );
    }
}
