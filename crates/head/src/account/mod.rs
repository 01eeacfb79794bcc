//! Accounts and the bill: stored data and used resources of each user.

mod quota;

pub(crate) use quota::{Growth, refuse_excess};

use crate::{
    Apply, Context, Core, Topic,
    namespace::resolve,
    store::{AccountKey, AccountUsage, Charge, Payer, Replica},
};
use base::{Month, Result, Timestamp};
use std::{cmp::Reverse, collections::BTreeMap};
use wire::control::{
    AccountLine, AccountPart, Accounts, Bill, BillLine, Done, GetAccounts, GetBill, ReportTraffic, SetProject,
};

/// Most lines of an answer.
const LINES_MAX: usize = base::limits::LIST_ENTRIES_MAX;
pub(crate) const BYTE_MS_PER_GB_HOUR: f64 = 1e9 * 3_600_000.0;

/// By what a line is told apart; what does not tell lines apart is `None`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LineKey {
    month: Option<Month>,
    parts: [Option<String>; 4],
}

impl LineKey {
    fn of(by: &[AccountPart], key: &AccountKey, month: Month) -> Self {
        let part = |part, name: &String| by.contains(&part).then(|| name.clone());
        Self {
            month: by.contains(&AccountPart::Month).then_some(month),
            parts: [
                part(AccountPart::User, &key.user),
                part(AccountPart::Group, &key.group),
                part(AccountPart::Project, &key.project),
                part(AccountPart::Pool, &key.pool),
            ],
        }
    }
}

/// What belongs to a line.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    spent: Charge,
    held: AccountUsage,
}

impl Sum {
    fn line(self, key: LineKey) -> AccountLine {
        let Self { spent, held } = self;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let [user, group, project, pool] = key.parts;
        AccountLine {
            user,
            group,
            project,
            pool,
            month: key.month,
            files: count(held.files),
            bytes: count(held.bytes),
            replicas: count(held.replicas),
            disk_bytes: count(held.disk_bytes),
            disk_gb_hours: spent.disk_byte_ms / BYTE_MS_PER_GB_HOUR,
            in_bytes: spent.bytes_in,
            in_transfers: spent.transfers_in,
            out_bytes: spent.bytes_out,
            out_transfers: spent.transfers_out,
            tape_written_bytes: spent.tape_written,
            tape_read_bytes: spent.tape_read,
            tape_loads: spent.tape_loads,
            jobs: spent.jobs,
            cpu: spent.cpu,
            slot_wall: spent.slot_wall,
            memory_gb_hours: spent.memory_byte_ms / BYTE_MS_PER_GB_HOUR,
        }
    }
}

/// Adds up accounts. What a line holds is what its accounts held last: months are in order.
struct Sums<'a> {
    ask: &'a GetAccounts,
    lines: BTreeMap<LineKey, Sum>,
    /// The account that is being read, its lines, and what it holds in each.
    account: Option<AccountKey>,
    held: BTreeMap<LineKey, AccountUsage>,
}

impl<'a> Sums<'a> {
    fn new(ask: &'a GetAccounts) -> Self {
        Self { ask, lines: BTreeMap::new(), account: None, held: BTreeMap::new() }
    }

    fn is_wanted(&self, key: &AccountKey, month: Month) -> bool {
        let is = |wanted: &Option<String>, name: &String| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.ask.user, &key.user)
            && is(&self.ask.group, &key.group)
            && is(&self.ask.project, &key.project)
            && is(&self.ask.pool, &key.pool)
            && self.ask.month.is_none_or(|wanted| wanted == month)
    }

    fn add(&mut self, key: &AccountKey, month: Month, spent: Charge, held: AccountUsage) {
        if !self.is_wanted(key, month) {
            return;
        }
        if self.account.as_ref() != Some(key) {
            self.close();
            self.account = Some(key.clone());
        }
        let line = LineKey::of(&self.ask.by, key, month);
        let sum = self.lines.entry(line.clone()).or_default();
        sum.spent = sum.spent + spent;
        self.held.insert(line, held);
    }

    fn close(&mut self) {
        for (line, held) in std::mem::take(&mut self.held) {
            let sum = self.lines.entry(line).or_default();
            sum.held = sum.held + held;
        }
    }

    fn lines(mut self) -> Vec<AccountLine> {
        self.close();
        let is_empty = |sum: &Sum| sum.held == AccountUsage::default() && sum.spent == Charge::default();
        let lines = self.lines.into_iter().filter(|(_, sum)| !is_empty(sum));
        lines.map(|(key, sum)| sum.line(key)).collect()
    }
}

fn lines(core: &Core, ask: &GetAccounts, now: Timestamp) -> Result<Vec<AccountLine>> {
    let mut sums = Sums::new(ask);
    core.store.each_account_month(now, |key, month, spent, held| sums.add(key, month, spent, held))?;
    Ok(sums.lines())
}

/// Charges a write that has come to its end.
pub(crate) fn written(core: &Core, replica: &Replica, size: u64) -> Result<()> {
    let charge = Charge { bytes_in: size, transfers_in: 1, ..Charge::default() };
    charge_for(core, &replica.owner, Some(replica), &charge)
}

/// Charges what was moved.
pub(crate) fn moved(core: &Core, line: &ReportTraffic) -> Result<()> {
    let charge = Charge { bytes_out: line.out_bytes, transfers_out: line.out_transfers, ..Charge::default() };
    let replica = line.object.map(|object| core.store.replica(object)).transpose()?.flatten();
    charge_for(core, &line.owner, replica.as_ref(), &charge)
}

/// Charges `user` for what was done with a replica, if it is still there.
fn charge_for(core: &Core, user: &str, replica: Option<&Replica>, charge: &Charge) -> Result<()> {
    let Some(replica) = replica else { return Ok(core.store.charge(Payer::user(user), charge)?) };
    let pool = core.store.partition(&replica.partition)?.map_or_else(String::new, |partition| partition.pool);
    match core.store.node(replica.file)? {
        Some(file) => Ok(core.store.charge(Payer::of_file(user, &file).on(&pool), charge)?),
        None => Ok(core.store.charge(Payer::user(user).on(&pool), charge)?),
    }
}

impl Apply for GetAccounts {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Accounts> {
        let mut lines = lines(core, &self, context.now)?;
        let lines_len = lines.len() as u64;
        if self.top.is_some() || !self.by.contains(&AccountPart::Month) {
            let cost = |line: &AccountLine| ((line.disk_gb_hours * 1e9) as u64, line.bytes);
            lines.sort_by_key(|line| Reverse(cost(line)));
        }
        lines.truncate(self.top.unwrap_or(LINES_MAX).min(LINES_MAX));
        let span = self
            .month
            .map_or((Timestamp(0), Timestamp(i64::MAX)), |month| (month.start(), month.next().start()));
        Ok(Accounts { lines, lines_len, interruptions: core.store.restarts(span.0..span.1)? })
    }
}

impl Apply for GetBill {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Bill> {
        let ask = GetAccounts { by: vec![AccountPart::User], ..GetAccounts::default() };
        let lines = lines(core, &ask, context.now)?.into_iter().filter_map(bill_line).collect();
        Ok(Bill { lines })
    }
}

/// A line of the bill; files that only stand in the namespace cost nothing.
fn bill_line(line: AccountLine) -> Option<BillLine> {
    let bill = BillLine {
        owner: line.user.unwrap_or_default(),
        jobs: line.jobs,
        cpu: line.cpu,
        slot_wall: line.slot_wall,
        tape_loads: line.tape_loads,
        tape_written_bytes: line.tape_written_bytes,
        tape_read_bytes: line.tape_read_bytes,
        in_bytes: line.in_bytes,
        out_bytes: line.out_bytes,
        disk_gb_hours: line.disk_gb_hours,
    };
    let is_free = bill == BillLine { owner: bill.owner.clone(), ..BillLine::default() };
    (!is_free || line.replicas > 0).then_some(bill)
}

impl Apply for SetProject {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("assign files to a project")?;
        let node = resolve(core, &context.who, &self.path)?;
        let project = self.project.as_ref().map_or("", |project| project.as_str());
        core.store.set_project(node.id, project)?;
        core.touch(Topic::Files);
        Ok(Done {})
    }
}
