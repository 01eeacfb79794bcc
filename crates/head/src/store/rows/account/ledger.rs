//! Accounts in memory: what each holds, and its charges of this month.
//!
//! An account is a user in a group, in a project, on a pool. It has a row for each month in which something changed;
//! the newest row says what it holds. A change charges the space that was held since the last change. The charges of a
//! month without a row follow from the row before it ([`spread`]), so no work is due when a month ends.

mod usage;

use crate::store::{Charge, Node};
use base::{Month, Timestamp};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
pub(in crate::store) use usage::spread;
pub(crate) use usage::{Account, AccountUsage};
use wire::control::QuotaKind;

/// The payer of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payer<'a> {
    pub(crate) user: &'a str,
    pub(crate) group: &'a str,
    /// Empty: none.
    pub(crate) project: &'a str,
    /// Empty for what is on no pool: names, jobs, tape.
    pub(crate) pool: &'a str,
}

impl<'a> Payer<'a> {
    /// What a user does that has to do with no file. Groups are named like their users until tokens bring real ones.
    pub(crate) fn user(user: &'a str) -> Self {
        Self { user, group: user, project: "", pool: "" }
    }

    /// What `user` does with a file.
    pub(crate) fn of_file(user: &'a str, file: &'a Node) -> Self {
        Self { user, group: &file.group, project: &file.project, pool: "" }
    }

    /// Who owns a file.
    pub(crate) fn owner(file: &'a Node) -> Self {
        Self::of_file(&file.owner, file)
    }

    /// The same on a pool.
    pub(crate) fn on(self, pool: &'a str) -> Self {
        Self { pool, ..self }
    }
}

/// The names of an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccountKey {
    pub(crate) user: String,
    pub(crate) group: String,
    pub(crate) project: String,
    pub(crate) pool: String,
}

impl AccountKey {
    pub(crate) fn payer(&self) -> Payer<'_> {
        Payer { user: &self.user, group: &self.group, project: &self.project, pool: &self.pool }
    }
}

/// What a user, group or project may hold, and what of it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Most bytes.
    pub(crate) bytes: Option<u64>,
    /// Most files.
    pub(crate) files: Option<u64>,
    pub(in crate::store) used: AccountUsage,
}

/// What is used of a quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) bytes: u64,
    /// Bytes of writes under way.
    pub(crate) reserved: u64,
    pub(crate) files: u64,
}

impl Quota {
    /// What is used of it.
    pub(crate) fn used(&self) -> Used {
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let AccountUsage { bytes, reserved, files, .. } = self.used;
        Used { bytes: count(bytes), reserved: count(reserved), files: count(files) }
    }

    #[cfg(test)]
    pub(crate) fn example((bytes, files): (u64, u64), used: AccountUsage) -> Self {
        Self { bytes: Some(bytes), files: Some(files), used }
    }
}

/// All accounts.
#[derive(Debug, Default)]
pub(in crate::store) struct Ledger {
    /// Quotas by kind and name.
    quotas: [BTreeMap<String, Quota>; QuotaKind::ALL.len()],
    accounts: Vec<Account>,
    of_user: HashMap<String, Vec<usize>>,
    /// Those that may have to be written.
    changed: Vec<usize>,
    /// Rows of months that ended before they were written.
    ended: Vec<Account>,
    next_row: u64,
}

/// The undo record of a change of an account.
#[derive(Debug)]
pub(in crate::store) enum Entry {
    Account(usize, Account),
    /// A month ended.
    Ended,
    EndedWritten(Vec<Account>),
    Quota(QuotaKind, String, Option<Quota>),
}

impl Ledger {
    /// The accounts as the database has them: the newest row of each, and the number of the next row.
    pub(in crate::store) fn new(accounts: Vec<Account>, next_row: u64) -> Self {
        let mut ledger = Self { next_row, ..Self::default() };
        for account in accounts {
            ledger.add(account);
        }
        ledger
    }

    fn add(&mut self, account: Account) -> usize {
        let at = self.accounts.len();
        self.of_user.entry(account.key.user.clone()).or_default().push(at);
        self.accounts.push(account);
        at
    }

    fn find(&self, payer: Payer<'_>) -> Option<usize> {
        let mut own = self.of_user.get(payer.user)?.iter();
        own.find(|at| self.accounts[**at].key.payer() == payer).copied()
    }

    /// An account, made if there is none: one that holds nothing is not written.
    fn open(&mut self, payer: Payer<'_>, now: Timestamp) -> usize {
        self.find(payer).unwrap_or_else(|| {
            let Payer { user, group, project, pool } = payer;
            let [user, group, project, pool] = [user, group, project, pool].map(str::to_owned);
            self.add(Account {
                key: Arc::new(AccountKey { user, group, project, pool }),
                row: None,
                month: Month::of(now),
                held: AccountUsage::default(),
                since: now,
                spent: Charge::default(),
                is_changed: false,
            })
        })
    }

    /// Writes to an account.
    pub(in crate::store) fn post(
        &mut self,
        payer: Payer<'_>,
        (held, charge): (AccountUsage, Charge),
        now: Timestamp,
        mut undo: impl FnMut(Entry),
    ) {
        let at = self.open(payer, now);
        let account = &mut self.accounts[at];
        undo(Entry::Account(at, account.clone()));
        if account.is_over(now) {
            if account.is_changed {
                undo(Entry::Ended);
                self.ended.push(account.clone());
            }
            *account = account.next_row(now);
        }
        account.settle(now);
        account.held = account.held + held;
        account.spent = account.spent + charge;
        if !account.is_changed {
            account.is_changed = true;
            self.changed.push(at);
        }
        self.count(payer, held);
    }

    /// Keeps accounts right when a file changes. `pool_of` tells the pool of a partition.
    pub(in crate::store) fn settle<'a>(
        &mut self,
        (before, after): (Option<&Node>, Option<&Node>),
        pool_of: impl Fn(&str) -> &'a str,
        now: Timestamp,
        mut undo: impl FnMut(Entry),
    ) {
        // Nobody pays for what was removed: the facility keeps it of its own accord, and gives it up when it needs the room.
        let (before, after) =
            (before.filter(|node| !node.is_in_trash()), after.filter(|node| !node.is_in_trash()));
        match (before, after) {
            (Some(old), Some(new)) if Payer::owner(old) == Payer::owner(new) => {
                let held = AccountUsage::of_name(new) - AccountUsage::of_name(old);
                if held != AccountUsage::default() {
                    self.post(Payer::owner(new), (held, Charge::default()), now, &mut undo);
                }
            }
            _ => {
                for (node, sign) in [(before, Sign::Less), (after, Sign::More)] {
                    let Some(node) = node.filter(|node| !node.is_directory()) else { continue };
                    self.post(
                        Payer::owner(node),
                        (sign.of(AccountUsage::of_name(node)), Charge::default()),
                        now,
                        &mut undo,
                    );
                }
            }
        }
        for (node, other, sign) in [(before, after, Sign::Less), (after, before, Sign::More)] {
            let Some(node) = node else { continue };
            let same = other.filter(|other| (&other.group, &other.project) == (&node.group, &node.project));
            for replica in node.online() {
                let is_kept = same.into_iter().flat_map(Node::online).any(|known| {
                    (known.object, known.size, &known.owner, &known.partition)
                        == (replica.object, replica.size, &replica.owner, &replica.partition)
                });
                if !is_kept {
                    let payer = Payer::of_file(&replica.owner, node).on(pool_of(&replica.partition));
                    self.post(
                        payer,
                        (sign.of(AccountUsage::of_replica(replica.size)), Charge::default()),
                        now,
                        &mut undo,
                    );
                }
            }
        }
    }

    /// Undoes one change.
    pub(in crate::store) fn undo(&mut self, entry: Entry) {
        match entry {
            Entry::Account(at, account) => {
                if account.is_changed {
                    self.changed.push(at);
                }
                let (key, held) = (Arc::clone(&account.key), account.held);
                let now = std::mem::replace(&mut self.accounts[at], account).held;
                self.count(key.payer(), held - now);
            }
            Entry::Ended => drop(self.ended.pop()),
            Entry::EndedWritten(accounts) => self.ended = accounts,
            Entry::Quota(kind, name, quota) => self.put_quota(kind, &name, quota),
        }
    }

    /// Counts what an account holds more in its quotas.
    fn count(&mut self, payer: Payer<'_>, more: AccountUsage) {
        for (quotas, name) in self.quotas.iter_mut().zip([payer.user, payer.group, payer.project]) {
            if let Some(quota) = quotas.get_mut(name) {
                quota.used = quota.used + more;
            }
        }
    }

    fn put_quota(&mut self, kind: QuotaKind, name: &str, quota: Option<Quota>) {
        let quotas = &mut self.quotas[kind as usize];
        match quota {
            Some(quota) => quotas.insert(name.to_owned(), quota),
            None => quotas.remove(name),
        };
    }

    /// Sets a quota, or lifts one. What is used is counted here.
    pub(in crate::store) fn set_quota(&mut self, kind: QuotaKind, name: &str, quota: Quota) -> Entry {
        let before = self.quota(kind, name);
        let own = self.accounts.iter().filter(|account| {
            let AccountKey { user, group, project, .. } = &*account.key;
            [user, group, project][kind as usize] == name
        });
        let used = own.fold(AccountUsage::default(), |used, account| used + account.held);
        let is_limit = quota.bytes.is_some() || quota.files.is_some();
        self.put_quota(kind, name, is_limit.then_some(Quota { used, ..quota }));
        Entry::Quota(kind, name.to_owned(), before)
    }

    pub(in crate::store) fn quota(&self, kind: QuotaKind, name: &str) -> Option<Quota> {
        self.quotas[kind as usize].get(name).copied()
    }

    pub(in crate::store) fn quotas(&self) -> impl Iterator<Item = (QuotaKind, String, Quota)> {
        let of = |(kind, quotas): (QuotaKind, &BTreeMap<String, Quota>)| {
            let named = quotas.iter().map(move |(name, quota)| (kind, name.clone(), *quota));
            named.collect::<Vec<_>>()
        };
        QuotaKind::ALL.into_iter().zip(&self.quotas).flat_map(of)
    }

    /// Takes the rows that are to be written; from now on they count as written.
    pub(in crate::store) fn take_changed(&mut self, mut undo: impl FnMut(Entry)) -> Vec<Account> {
        let mut rows = std::mem::take(&mut self.ended);
        if !rows.is_empty() {
            undo(Entry::EndedWritten(rows.clone()));
        }
        for row in &mut rows {
            row.row = row.row.or_else(|| Some(next(&mut self.next_row)));
        }
        for at in std::mem::take(&mut self.changed) {
            let account = &mut self.accounts[at];
            if !account.is_changed {
                continue;
            }
            undo(Entry::Account(at, account.clone()));
            account.is_changed = false;
            account.row = account.row.or_else(|| Some(next(&mut self.next_row)));
            rows.push(account.clone());
        }
        rows
    }

    #[cfg(test)]
    pub(in crate::store) fn accounts(&self) -> &[Account] {
        &self.accounts
    }
}

fn next(number: &mut u64) -> u64 {
    *number += 1;
    *number - 1
}

/// Whether something comes or goes.
#[derive(Debug, Clone, Copy)]
enum Sign {
    More,
    Less,
}

impl Sign {
    fn of(self, held: AccountUsage) -> AccountUsage {
        match self {
            Self::More => held,
            Self::Less => AccountUsage::default() - held,
        }
    }
}
