//! Tables with few rows that are asked for often: kept in memory whole.

use crate::store::StoreResult;
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

/// A cached table.
pub(in crate::store) struct CachedTable<T> {
    /// `None`: to be read.
    table: RefCell<Option<Arc<T>>>,
    /// Whether the group under way has changed a row: what is given up then is not what is kept.
    is_changed: Cell<bool>,
}

impl<T> Default for CachedTable<T> {
    fn default() -> Self {
        Self { table: RefCell::default(), is_changed: Cell::default() }
    }
}

impl<T> CachedTable<T> {
    /// The table; read if it must be.
    pub(in crate::store) fn get(&self, read: impl FnOnce() -> StoreResult<T>) -> StoreResult<Arc<T>> {
        if let Some(table) = &*self.table.borrow() {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(read()?);
        *self.table.borrow_mut() = Some(Arc::clone(&table));
        Ok(table)
    }

    /// The same, of a table whose rows change so often that it is not read again each time.
    pub(in crate::store) fn update(
        &self,
        read: impl FnOnce() -> StoreResult<T>,
        change: impl FnOnce(&mut T),
    ) -> StoreResult<()>
    where
        T: Clone,
    {
        let mut table = self.get(read)?;
        // So that it is changed where it is, unless somebody looks at it.
        self.table.take();
        change(Arc::make_mut(&mut table));
        *self.table.borrow_mut() = Some(table);
        self.is_changed.set(true);
        Ok(())
    }

    /// A row is changed.
    pub(in crate::store) fn change(&self) {
        self.is_changed.set(true);
        *self.table.borrow_mut() = None;
    }

    /// A call or a group was given up.
    pub(in crate::store) fn forget_changes(&self) {
        if self.is_changed.get() {
            *self.table.borrow_mut() = None;
        }
    }

    /// The group is durable, or gone.
    pub(in crate::store) fn end_group(&self) {
        self.is_changed.set(false);
    }
}
