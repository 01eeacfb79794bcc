//! What lies on a partition, by name.

use super::pace::Pace;
use base::{ObjectId, Result};
use disk::{Partition, scan::PLACES};
use net::shutdown::Token;

/// Names of objects that are kept at a time: 32 MiB. A partition with more is listed several times.
const LISTED_MAX: usize = 4 << 20;

/// Objects that lay on the partition a short while ago: names that were read, for what the catalogue has is nearly always there,
/// and a look at each would cost as much again.
#[derive(Default)]
pub(super) struct Listed {
    objects: Vec<ObjectId>,
    /// Up to which all are known; `None`: nothing is.
    until: Option<ObjectId>,
}

impl Listed {
    /// Lists the first ones after `after`, at the pace. `None`: it is time to stop.
    pub(super) fn new(
        partition: &Partition,
        after: ObjectId,
        pace: &mut Pace,
        token: &Token,
    ) -> Result<Option<Self>> {
        Self::of(LISTED_MAX, |place| partition.described_in(place, after), || pace.rest(0, 0, token))
    }

    /// Lists the first `most` of what lies in all places.
    fn of(
        most: usize,
        in_place: impl Fn(u32) -> Result<Vec<ObjectId>>,
        mut rest: impl FnMut() -> bool,
    ) -> Result<Option<Self>> {
        let mut listed = Self { objects: Vec::new(), until: Some(ObjectId(u64::MAX)) };
        for place in 0..PLACES {
            listed.objects.extend(in_place(place)?);
            if listed.objects.len() >= 2 * most {
                listed.shorten(most);
            }
            if !rest() {
                return Ok(None);
            }
        }
        listed.shorten(most);
        listed.objects.sort_unstable();
        Ok(Some(listed))
    }

    /// Keeps the first ones only.
    fn shorten(&mut self, most: usize) {
        if self.objects.len() > most {
            let (_, last, _) = self.objects.select_nth_unstable(most - 1);
            self.until = Some(*last);
            self.objects.truncate(most);
        }
    }

    pub(super) fn reaches(&self, object: ObjectId) -> bool {
        self.until.is_some_and(|until| object <= until)
    }

    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.objects.binary_search(&object).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_known() {
        let in_place = |place| Ok((0..10).map(|n| ObjectId(n * 1000 + u64::from(place))).collect());
        let all = Listed::of(10_000, in_place, || true).unwrap().unwrap();
        assert!(all.reaches(ObjectId(u64::MAX)));
        assert!(all.has(ObjectId(9007)) && !all.has(ObjectId(999)));
        let first = Listed::of(300, in_place, || true).unwrap().unwrap();
        assert_eq!(first.objects.len(), 300);
        assert!(first.has(ObjectId(256)) && first.has(ObjectId(1042)) && !first.has(ObjectId(1043)));
        assert!(first.reaches(ObjectId(1042)) && !first.reaches(ObjectId(1043)));
        assert!(!Listed::default().reaches(ObjectId(0)), "nothing was listed");
    }

    #[test]
    fn it_ends_when_the_daemon_stops_and_fails_with_the_partition() {
        assert!(Listed::of(10, |_| Ok(vec![ObjectId(1)]), || false).unwrap().is_none());
        assert!(Listed::of(10, |_| Err(base::Failure::unavailable("not mounted")), || true).is_err());
    }
}
