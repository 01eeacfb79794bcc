//! What writers say about when their content changed where it comes from. It is kept until the commit; a head that starts
//! anew in between has forgotten it, and the file then has the time at which it was stored.

use base::{ObjectId, Timestamp};
use std::collections::BTreeMap;

/// Writes of which it is kept. More are under way on no head; those that ended without a commit go first.
const SOURCES_MAX: usize = 10_000;

/// By the object that is written.
#[derive(Debug, Default)]
pub(crate) struct Sources(BTreeMap<ObjectId, Timestamp>);

impl Sources {
    pub(in crate::pool) fn note(&mut self, object: ObjectId, then: Option<Timestamp>) {
        let Some(then) = then else { return };
        self.0.insert(object, then);
        if self.0.len() > SOURCES_MAX {
            self.0.pop_first();
        }
    }

    pub(in crate::pool) fn take(&mut self, object: ObjectId) -> Option<Timestamp> {
        self.0.remove(&object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut sources = Sources::default();
        for object in 0..=SOURCES_MAX as u64 {
            sources.note(ObjectId(object), Some(Timestamp(1)));
        }
        sources.note(ObjectId(99_999), None);
        assert_eq!((sources.take(ObjectId(0)), sources.take(ObjectId(1))), (None, Some(Timestamp(1))));
        assert_eq!((sources.take(ObjectId(1)), sources.take(ObjectId(99_999))), (None, None));
    }
}
