//! Groups of changes and the calls in them: begun, kept or dropped together, told to those who wait.

use super::{
    Store,
    error::{StoreError, StoreResult},
};
use crate::waiters::Awaited;
use std::sync::atomic::Ordering;

/// The nesting of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    /// Every statement is its own transaction.
    Outside,
    /// In a group of calls: a transaction.
    Group,
    /// In a call of the group: a savepoint.
    Call,
}

impl Store {
    /// Starts a group of changes.
    pub fn begin(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Outside);
        self.wanted.set(Depth::Group);
    }

    /// Makes the group durable, and says so to those who keep answers about the namespace.
    pub fn commit(&mut self) -> StoreResult<()> {
        self.flush()?;
        if self.entered.get() > Depth::Outside {
            self.engine.commit()?;
        }
        self.leave();
        self.grants.end_group();
        self.referrals.end_group();
        self.mounts.end_group();
        self.fair_share.end_group();
        self.layouts.end_group();
        self.storage_classes.end_group();
        self.queues.end_group();
        self.active.get_mut().commit();
        self.is_active_stale.set(false);
        let (files, is_visible) = self.pending.get_mut().commit();
        let (cache, changed) = (self.cache.get_mut(), self.changed.get_mut());
        for (id, now) in files {
            changed.push(Awaited::File(id));
            cache.forget(id);
            if let Some(node) = now {
                cache.insert(&node);
            }
        }
        // Whoever waits for the group is answered after this.
        if is_visible {
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Forgets the group. Also right when the engine has rolled back by itself, as it does on a full disk.
    pub fn rollback(&mut self) -> StoreResult<()> {
        self.leave();
        self.changes.set(self.changes.get() + 1);
        self.grants.forget_changes();
        self.referrals.forget_changes();
        self.mounts.forget_changes();
        self.fair_share.forget_changes();
        self.layouts.forget_changes();
        self.storage_classes.forget_changes();
        self.queues.forget_changes();
        self.grants.end_group();
        self.referrals.end_group();
        self.mounts.end_group();
        self.fair_share.end_group();
        self.layouts.end_group();
        self.storage_classes.end_group();
        self.queues.end_group();
        self.pending.get_mut().forget();
        self.ids.forget();
        self.active.get_mut().forget();
        self.is_active_stale.set(false);
        self.policies.take();
        self.hosts.take();
        self.labels.take();
        // A connection that broke during the commit does not tell whether that happened: nothing that was known counts.
        self.cache.get_mut().clear();
        self.engine.rollback()
    }

    pub(super) fn leave(&self) {
        self.wanted.set(Depth::Outside);
        self.entered.set(Depth::Outside);
    }

    /// Starts one call inside the group, so that a refused call leaves nothing behind.
    pub fn begin_call(&mut self) {
        debug_assert_eq!(self.wanted.get(), Depth::Group);
        self.wanted.set(Depth::Call);
        self.pending.get_mut().begin_call();
        self.begin_call_leases();
        self.active.get_mut().begin_call();
    }

    /// A call was refused: its jobs stand where they stood.
    fn undo_active(&mut self) {
        if self.is_active_stale.get() {
            self.active.get_mut().forget();
        } else {
            self.active.get_mut().undo_call();
        }
    }

    /// Ends the call: keeps its changes or drops them.
    pub fn end_call(&mut self, keep: bool) -> StoreResult<()> {
        self.wanted.set(Depth::Group);
        if !keep {
            // What was derived from its changes does not hold.
            self.changes.set(self.changes.get() + 1);
            self.undo_active();
            self.policies.take();
            self.hosts.take();
            self.labels.take();
            self.grants.forget_changes();
            self.referrals.forget_changes();
            self.mounts.forget_changes();
            self.fair_share.forget_changes();
            self.layouts.forget_changes();
            self.storage_classes.forget_changes();
            self.queues.forget_changes();
            for (sequence, ids) in self.pending.get_mut().undo_call() {
                self.ids.set(sequence, Some(ids));
            }
        }
        if self.entered.get() < Depth::Call {
            return Ok(());
        }
        self.entered.set(Depth::Group);
        if keep { self.engine.release_mark() } else { self.engine.return_to_mark() }
    }

    /// Enters what the caller began, before the first row is written.
    pub(super) fn enter(&self) -> StoreResult<()> {
        let (wanted, entered) = (self.wanted.get(), self.entered.get());
        // What is written now would be durable alone, while the rest of the group is reported as failed.
        if entered > Depth::Outside && !self.engine.is_in_transaction() {
            return Err(StoreError::RolledBack);
        }
        if entered >= wanted {
            return Ok(());
        }
        if entered == Depth::Outside {
            self.engine.begin()?;
            self.entered.set(Depth::Group);
        }
        if wanted == Depth::Call {
            self.engine.mark()?;
            self.entered.set(Depth::Call);
        }
        Ok(())
    }

    /// Notes a change for those who wait for it.
    pub(crate) fn note_changed(&self, what: Awaited) {
        self.changed.borrow_mut().push(what);
    }

    /// Takes the files and jobs that were changed since the last time, perhaps more.
    pub(crate) fn take_changed(&mut self) -> Vec<Awaited> {
        std::mem::take(self.changed.get_mut())
    }

    /// Changes since the store was opened.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(super) fn count_change(&self) {
        debug_assert!(self.wanted.get() > Depth::Outside, "a change outside a group is never written");
        self.changes.set(self.changes.get() + 1);
    }
}
