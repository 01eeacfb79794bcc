//! Rows by a list of keys: one query where each is a round trip, else one for each run of keys that lie close together.

use crate::store::{
    Row, Store, StoreResult,
    engine::{Cell, Params},
};

/// How far two keys of a run may be from each other: to step over a row costs less than to look for one from the root of
/// a table.
const STEP_MAX: u64 = 8;

/// Lists as parameters.
pub(in crate::store) struct Lists<'a, const COUNT: usize>(pub(in crate::store) [Cell<'a>; COUNT]);

impl<const COUNT: usize> Params for Lists<'_, COUNT> {
    fn with<R>(&self, give: impl FnOnce(&[Cell<'_>]) -> R) -> R {
        give(&self.0)
    }
}

impl Store {
    /// The rows of `select`, which begins with the column `key`, for those of `keys` that there are; in any order. A key can
    /// have several rows.
    pub(in crate::store) fn rows_by_key<T>(
        &self,
        select: &str,
        key: &str,
        mut keys: Vec<i64>,
        mut read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        self.flush()?;
        if self.engine.is_remote() {
            let sql = format!("{select} WHERE {key} = ANY (?1::bigint[])");
            return self.all_now(&sql, Lists([Cell::Integers(&keys)]), read);
        }
        keys.sort_unstable();
        let sql = format!("{select} WHERE {key} BETWEEN ?1 AND ?2");
        let mut rows = Vec::with_capacity(keys.len());
        for run in keys.chunk_by(|before, after| after.abs_diff(*before) <= STEP_MAX) {
            let bounds = [Cell::Integer(run[0]), Cell::Integer(run[run.len() - 1])];
            self.engine.query(&sql, &bounds, &mut |row| {
                if run.binary_search(&row.get(0)?).is_ok() {
                    rows.push(read(row)?);
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewNode, testing::TestCatalogue};
    use base::{FileId, Timestamp};
    use wire::control::NodeKind;

    #[test]
    fn rows_are_found_however_far_their_keys_are_from_each_other() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            store.begin();
            let new = |name| NewNode {
                parent: FileId(1),
                name,
                kind: NodeKind::File,
                owner: "ada",
                mode: 0,
                now: Timestamp(1),
            };
            let names: Vec<_> = (0..100).map(|number| format!("f{number}")).collect();
            let ids: Vec<_> =
                names.iter().map(|name| store.insert_node(&new(name)).unwrap().0 as i64).collect();
            store.commit().unwrap();
            for step in [1, 2, STEP_MAX as usize, STEP_MAX as usize + 1, 40] {
                // Backwards, twice, and two that nobody has, as far from each other as can be.
                let mut wanted: Vec<_> = ids.iter().copied().step_by(step).collect();
                let keys = wanted.iter().rev().chain(&wanted).copied().chain([i64::MIN, i64::MAX]).collect();
                let mut found =
                    store.rows_by_key("SELECT id FROM node", "id", keys, |row| row.get::<i64>(0)).unwrap();
                found.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(found, wanted, "every {step}. key");
            }
            assert!(store.rows_by_key("SELECT id FROM node", "id", vec![], |_| Ok(())).unwrap().is_empty());
        }
    }

    #[test]
    fn a_key_can_have_several_rows() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            let select = "SELECT file, holder FROM pin";
            store.begin();
            for holder in ["a", "b"] {
                store.put_pin(FileId(7), holder, None).unwrap();
            }
            store.put_pin(FileId(9), "c", None).unwrap();
            store.commit().unwrap();
            let mut found =
                store.rows_by_key(select, "file", vec![7, 8], |row| row.get::<String>(1)).unwrap();
            found.sort_unstable();
            assert_eq!(found, ["a", "b"]);
        }
    }
}
