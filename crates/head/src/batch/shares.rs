//! Shares of the CPU slots: what groups and users are entitled to, and how far they have used it.

use super::{list::pass, member};
use crate::{
    Apply, Context, Core,
    store::{JobRow, Member},
};
use base::{
    Failure, Result, Timestamp, check_name,
    units::{counted, human_span, noun},
};
use wire::control::{Done, GetShares, SetShare, ShareInfo, Shares};

/// Shares lie between these, so that no ratio of two is lost in a number.
const SHARE_MIN: f64 = 1e-6;
const SHARE_MAX: f64 = 1e6;
/// Jobs that are counted to say how many go before one.
const AHEAD_MAX: usize = 1000;

impl Apply for SetShare {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set shares")?;
        check_name("group", &self.group)?;
        if let Some(user) = &self.user {
            check_name("user", user)?;
        }
        if !(SHARE_MIN..=SHARE_MAX).contains(&self.share) {
            let what = format!("a share of {} is not between {SHARE_MIN} and {SHARE_MAX}", self.share);
            return Err(Failure::invalid(what).hint("shares count relative to each other: 1, 3, 100"));
        }
        let member = Member { group: self.group, user: self.user.unwrap_or_default() };
        core.store.set_share(&member, self.share)?;
        Ok(Done {})
    }
}

impl Apply for GetShares {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Shares> {
        let fair = core.store.fair_share()?;
        let half_life = fair.half_life();
        let shares = fair.accounts().iter().map(|(member, account)| {
            let (used, slots) = account.used(context.now, half_life);
            ShareInfo {
                group: member.group.clone(),
                user: (!member.user.is_empty()).then(|| member.user.clone()),
                share: account.share,
                used_seconds: used,
                slots,
            }
        });
        Ok(Shares { half_life, shares: shares.collect() })
    }
}

/// Why a queued job is not running yet: its place in line, and what its owner has used.
pub(super) fn place(core: &Core, job: &JobRow, now: Timestamp) -> Result<String> {
    let fair = core.store.fair_share()?;
    let (active, queues) = (core.store.active()?, core.store.queues()?);
    let ahead = pass(core, &active, &queues, &core.live.jobs_held_back, now)?.ahead_of(job.id, AHEAD_MAX);
    let member = member(job);
    let jobs = counted(ahead as u64, "job", "jobs");
    let ahead = match ahead {
        0 => "no job goes before it".to_owned(),
        AHEAD_MAX => format!("{jobs} or more go before it"),
        _ => format!("{jobs} {} before it", noun(ahead as u64, "goes", "go")),
    };
    let account = fair.account(&Member::group(&member.group));
    let (used, _) = account.used(now, fair.half_life());
    let used = human_span(base::Millis((used * 1000.0) as i64));
    Ok(format!(
        "{ahead}; group {} (share {}) has used {used} of slot time lately",
        member.group, account.share
    ))
}
