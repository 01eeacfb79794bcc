//! Rows of directories that other heads keep.

use crate::store::{Store, StoreResult, engine::Row};
use base::{FileId, OtherHead, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// A directory that another head keeps, with all that is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReferralRow {
    pub(crate) at: OtherHead,
    pub(crate) giver: String,
    pub(crate) made: Timestamp,
}

/// All of them, by directory.
pub(crate) type ReferralTable = BTreeMap<FileId, ReferralRow>;

fn referral(row: &Row<'_>) -> StoreResult<(FileId, ReferralRow)> {
    let at = OtherHead { root: row.get(1)?, http: row.get(2)? };
    Ok((FileId(row.get(0)?), ReferralRow { at, giver: row.get(3)?, made: Timestamp(row.get(4)?) }))
}

impl Store {
    /// All referrals.
    pub(crate) fn referrals(&self) -> StoreResult<Arc<ReferralTable>> {
        // Nothing of this table waits to be written.
        let sql = "SELECT directory, root, http, giver, made FROM referral";
        self.referrals.get(|| Ok(self.all_now(sql, (), referral)?.into_iter().collect()))
    }

    /// Adds a referral, or replaces that of the same directory.
    pub(crate) fn put_referral(&self, directory: FileId, row: &ReferralRow) -> StoreResult<()> {
        self.referrals.change();
        self.pending.borrow_mut().set_visible();
        self.run(
            "INSERT INTO referral (directory, root, http, giver, made) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (directory) DO UPDATE SET root = ?2, http = ?3, giver = ?4, made = ?5",
            (directory.0, &row.at.root, &row.at.http, &row.giver, row.made.0),
        )
    }

    /// Ends a referral.
    pub(crate) fn delete_referral(&self, directory: FileId) -> StoreResult<()> {
        self.referrals.change();
        self.pending.borrow_mut().set_visible();
        self.run("DELETE FROM referral WHERE directory = ?1", (directory.0,))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::TestCatalogue;

    #[test]
    fn what_is_kept_is_what_the_database_has() {
        for place in TestCatalogue::all() {
            let mut store = place.create();
            let row = |root: &str| ReferralRow {
                at: OtherHead { root: root.to_owned(), http: "https://b:8443".to_owned() },
                giver: "ada".to_owned(),
                made: Timestamp(7),
            };
            assert!(store.referrals().unwrap().is_empty());
            store.begin();
            store.put_referral(FileId(1), &row("root://a:1094")).unwrap();
            store.put_referral(FileId(1), &row("root://b:1094")).unwrap();
            store.put_referral(FileId(7), &row("root://c:1094")).unwrap();
            store.commit().unwrap();
            store.begin();
            store.delete_referral(FileId(7)).unwrap();
            assert_eq!(store.referrals().unwrap().len(), 1);
            store.rollback().unwrap();
            assert_eq!(store.referrals().unwrap().len(), 2, "the group was given up");
            store.begin();
            store.delete_referral(FileId(7)).unwrap();
            store.commit().unwrap();
            drop(store);
            let store = Store::open(&place.catalogue).unwrap();
            let kept: ReferralTable = [(FileId(1), row("root://b:1094"))].into();
            assert_eq!(*store.referrals().unwrap(), kept);
        }
    }
}
