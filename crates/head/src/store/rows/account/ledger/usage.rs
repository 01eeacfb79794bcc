//! What an account uses, and what was counted of it.

use super::AccountKey;
use crate::store::{Charge, Node, ReplicaState};
use base::{Month, Timestamp};
use std::{
    ops::{Add, Sub},
    sync::Arc,
};
use wire::control::NodeKind;

/// The files and bytes of an account, or a change of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AccountUsage {
    /// Files in the namespace.
    pub(crate) files: i64,
    /// Bytes of these, wherever they are.
    pub(crate) bytes: i64,
    /// By how much writes under way were said to make these more. Not stored: it follows from the replicas.
    pub(crate) reserved: i64,
    /// Replicas on disk.
    pub(crate) replicas: i64,
    /// Bytes of these.
    pub(crate) disk_bytes: i64,
}

// What is added is taken away again to the last bit, also where a size makes no sense.
impl Add for AccountUsage {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            files: self.files.wrapping_add(more.files),
            bytes: self.bytes.wrapping_add(more.bytes),
            reserved: self.reserved.wrapping_add(more.reserved),
            replicas: self.replicas.wrapping_add(more.replicas),
            disk_bytes: self.disk_bytes.wrapping_add(more.disk_bytes),
        }
    }
}

impl Sub for AccountUsage {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self {
            files: self.files.wrapping_sub(less.files),
            bytes: self.bytes.wrapping_sub(less.bytes),
            reserved: self.reserved.wrapping_sub(less.reserved),
            replicas: self.replicas.wrapping_sub(less.replicas),
            disk_bytes: self.disk_bytes.wrapping_sub(less.disk_bytes),
        }
    }
}

/// Sizes as the database has them.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl AccountUsage {
    /// What a node is in the namespace.
    pub(in crate::store) fn of_name(node: &Node) -> Self {
        if node.kind == NodeKind::Directory || node.is_hard_link() {
            return Self::default();
        }
        if !node.is_file() {
            return Self { files: 1, ..Self::default() };
        }
        // Room for mirrors may be reserved beside it: a file counts once.
        let coming = node
            .replicas
            .iter()
            .filter(|replica| matches!(replica.state, ReplicaState::Writing | ReplicaState::Reserved));
        let reserved = coming.map(|replica| replica.size.saturating_sub(node.size)).max().unwrap_or(0);
        Self { files: 1, bytes: signed(node.size), reserved: signed(reserved), ..Self::default() }
    }

    pub(super) fn of_replica(size: u64) -> Self {
        Self { replicas: 1, disk_bytes: signed(size), ..Self::default() }
    }
}

/// A row of an account: a month.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Account {
    pub(crate) key: Arc<AccountKey>,
    /// Number of the row; `None`: there is none yet.
    pub(in crate::store) row: Option<u64>,
    pub(crate) month: Month,
    pub(crate) held: AccountUsage,
    /// Until when the space that it holds was charged.
    pub(crate) since: Timestamp,
    pub(crate) spent: Charge,
    pub(in crate::store) is_changed: bool,
}

/// What the space held since `since` adds to the bill until `end`.
fn space(held: AccountUsage, since: Timestamp, end: Timestamp) -> Charge {
    let span = (end - since).0.max(0) as f64;
    Charge { disk_byte_ms: held.disk_bytes as f64 * span, ..Charge::default() }
}

impl Account {
    /// Charges the space that was held until `now`.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.spent = self.spent + space(self.held, self.since, now);
        self.since = self.since.max(now);
    }

    /// Whether the row is of an earlier month than `now`. A clock that is set back does not open old months again.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        Month::of(now) > self.month
    }

    /// The row of the month of `now`, with what is held.
    pub(super) fn next_row(&self, now: Timestamp) -> Self {
        let month = Month::of(now);
        Self {
            row: None,
            month,
            since: month.start().max(self.since),
            spent: Charge::default(),
            ..self.clone()
        }
    }
}

/// Gives each month of an account to `each`, with what was charged and what is held at its end. `rows` are those of the account,
/// in order; `until` is now.
pub(in crate::store) fn spread(
    rows: &[Account],
    until: Timestamp,
    mut each: impl FnMut(Month, Charge, AccountUsage),
) {
    for (at, row) in rows.iter().enumerate() {
        each(row.month, row.spent, row.held);
        if row.held == AccountUsage::default() {
            continue;
        }
        let end = rows.get(at + 1).map_or(until, |next| next.month.start());
        let (mut since, mut month) = (row.since, Month::of(row.since).max(row.month));
        while since < end {
            let stop = end.min(month.next().start());
            each(month, space(row.held, since, stop), row.held);
            (since, month) = (since.max(stop), month.next());
        }
    }
}
