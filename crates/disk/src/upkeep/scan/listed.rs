//! The objects on a partition, by name.

use crate::object::scanner::PLACES;
use base::{ObjectId, Result};
use std::sync::Arc;

/// Names of objects that are kept at a time: 32 MiB. A partition with more is listed several times.
const LISTED_MAX: usize = 4 << 20;
/// No object has a higher number.
const LAST: ObjectId = ObjectId(u64::MAX);

/// Objects of which something lay on the partition a short while ago, the first ones of those that are to be looked at.
pub(super) struct Listed {
    objects: Arc<[ObjectId]>,
    /// Up to which all are known.
    until: ObjectId,
}

impl Listed {
    /// Lists what is `in_place`, one place after the other, and rests after each.
    pub(super) fn new<E: From<base::Failure>>(
        in_place: impl Fn(u32) -> Result<Vec<ObjectId>>,
        rest: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        Self::of(LISTED_MAX, in_place, rest)
    }

    /// Lists the first `most` of what lies in all places.
    fn of<E: From<base::Failure>>(
        most: usize,
        in_place: impl Fn(u32) -> Result<Vec<ObjectId>>,
        mut rest: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let (mut objects, mut until) = (Vec::new(), LAST);
        let mut shorten = |objects: &mut Vec<ObjectId>| {
            if objects.len() > most {
                let (_, last, _) = objects.select_nth_unstable(most - 1);
                until = *last;
                objects.truncate(most);
            }
        };
        for place in 0..PLACES {
            objects.extend(in_place(place)?);
            if objects.len() >= 2 * most {
                shorten(&mut objects);
            }
            rest()?;
        }
        shorten(&mut objects);
        objects.sort_unstable();
        // Of what is being written something may lie in two places.
        objects.dedup();
        Ok(Self { objects: objects.into(), until })
    }

    /// All of them, in order.
    pub(super) fn objects(&self) -> Arc<[ObjectId]> {
        Arc::clone(&self.objects)
    }

    /// Whether it is known what comes after `object`.
    pub(super) fn reaches_beyond(&self, object: ObjectId) -> bool {
        object < self.until
    }

    /// Whether nothing was left out at the end.
    pub(super) fn is_all(&self) -> bool {
        self.until == LAST
    }

    /// The next objects after `after`, `most` of them and up to `end`, if that is the end of something; and up to which there are no
    /// others.
    pub(super) fn stretch(
        &self,
        after: ObjectId,
        end: Option<ObjectId>,
        most: usize,
    ) -> (&[ObjectId], ObjectId) {
        let end = end.unwrap_or(LAST).min(self.until);
        let left = &self.objects[self.objects.partition_point(|object| *object <= after)..];
        let left = &left[..left.partition_point(|object| *object <= end)];
        match left.get(most) {
            Some(_) => (&left[..most], left[most - 1]),
            None => (left, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Failure;

    fn listed(most: usize) -> Listed {
        let in_place = |place| Ok((0..10).map(|n| ObjectId(n * 1000 + u64::from(place))).collect());
        Listed::of::<Failure>(most, in_place, || Ok(())).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_not_known() {
        let all = listed(10_000);
        assert!(all.is_all() && all.reaches_beyond(ObjectId(u64::MAX - 1)) && !all.reaches_beyond(LAST));
        assert_eq!(all.objects().len(), 2570);
        let first = listed(300);
        assert_eq!((first.objects().len(), first.until), (300, ObjectId(1042)));
        assert!(
            !first.is_all() && first.reaches_beyond(ObjectId(1041)) && !first.reaches_beyond(ObjectId(1042))
        );
    }

    #[test]
    fn stretches_follow_each_other_and_leave_nothing_out() {
        for (most, chunk) in [(10_000, 64), (300, 64), (300, 1), (257, 1000)] {
            let listed = listed(most);
            for step in [None, Some(7), Some(500)] {
                let (mut all, mut after) = (Vec::new(), ObjectId(0));
                while listed.reaches_beyond(after) {
                    let end = step.map(|step| ObjectId(after.0 + step)).filter(|end| end.0 < 20_000);
                    let (some, through) = listed.stretch(after, end, chunk);
                    assert!(some.len() <= chunk && through > after);
                    assert!(some.iter().all(|object| *object > after && *object <= through));
                    all.extend_from_slice(some);
                    after = through;
                }
                // The first one is what comes after nothing.
                assert_eq!(all, listed.objects()[1..], "{most} {chunk} {step:?}");
            }
        }
    }

    #[test]
    fn it_ends_when_the_daemon_stops_and_fails_with_the_partition() {
        let stopped = || Err(Failure::unavailable("stopped"));
        assert!(Listed::of(10, |_| Ok(vec![ObjectId(1)]), stopped).is_err());
        assert!(
            Listed::of(10, |_| Err(Failure::unavailable("not mounted")), || Ok::<_, Failure>(())).is_err()
        );
    }
}
