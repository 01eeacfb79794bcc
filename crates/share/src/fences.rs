//! What a disk server refuses for one object.

use crate::{Generation, Incarnation};
use base::ByteRange;
use serde::{Deserialize, Serialize};

/// An order of the head: from now on, no write of a generation below `floor` in this range.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fence {
    /// The start of the head that orders it.
    pub incarnation: Incarnation,
    /// The grant that it ends.
    pub generation: Generation,
    /// Where.
    pub range: ByteRange,
    /// The oldest generation that still has a grant anywhere in the file: older ones may be refused everywhere.
    pub oldest: Generation,
}

/// Why a disk server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The grant has ended; grants in this range begin with this generation.
    Fenced(Generation),
    /// The order is of a head that a newer one has replaced.
    Replaced(Incarnation),
    /// Too many ranges have fences of their own. The head ends the oldest grants first, and asks again.
    Full,
}

/// The fences of one object. They are durable before they are acknowledged, and last as long as the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fences {
    /// The newest head that was heard of.
    incarnation: Incarnation,
    /// From each offset on, the lowest generation that may write; ascending, none for what was never fenced.
    floors: Vec<(u64, Generation)>,
}

impl Fences {
    /// Ranges with different floors: some KiB of log for each object at worst.
    pub const RANGES_MAX: usize = 1024;

    /// Carries out an order. A repeated order changes nothing.
    ///
    /// # Errors
    /// [`Refusal::Replaced`], [`Refusal::Full`]; nothing has changed then.
    pub fn raise(&mut self, fence: &Fence) -> Result<(), Refusal> {
        if fence.incarnation < self.incarnation {
            return Err(Refusal::Replaced(self.incarnation));
        }
        let mut floors = self.floors.clone();
        raise(&mut floors, ByteRange { offset: 0, end: u64::MAX }, fence.oldest);
        raise(&mut floors, fence.range, fence.generation.next());
        if floors.len() > Self::RANGES_MAX {
            return Err(Refusal::Full);
        }
        self.incarnation = fence.incarnation;
        self.floors = floors;
        Ok(())
    }

    /// Whether a write under a grant may be carried out.
    ///
    /// # Errors
    /// [`Refusal::Fenced`] with the highest floor in the range.
    pub fn admit(&self, generation: Generation, range: ByteRange) -> Result<(), Refusal> {
        let floor = self.floor(range);
        if generation < floor { Err(Refusal::Fenced(floor)) } else { Ok(()) }
    }

    /// The highest floor in a range.
    fn floor(&self, range: ByteRange) -> Generation {
        let first = self.floors.partition_point(|(offset, _)| *offset <= range.offset).saturating_sub(1);
        let within = self.floors[first.min(self.floors.len())..].iter();
        within
            .take_while(|(offset, _)| *offset < range.end)
            .map(|(_, floor)| *floor)
            .max()
            .unwrap_or_default()
    }
}

/// Raises the floors in a range to at least `floor`.
fn raise(floors: &mut Vec<(u64, Generation)>, range: ByteRange, floor: Generation) {
    if range.is_empty() || floor == Generation(0) {
        return;
    }
    let at = |floors: &[(u64, Generation)], offset: u64| {
        let next = floors.partition_point(|(start, _)| *start <= offset);
        next.checked_sub(1).map_or(Generation(0), |index| floors[index].1)
    };
    let behind = at(floors, range.end);
    let mut raised: Vec<_> = floors.iter().copied().filter(|(start, _)| *start < range.offset).collect();
    raised.push((range.offset, at(floors, range.offset).max(floor)));
    let within = floors.iter().filter(|(start, _)| *start > range.offset && *start < range.end);
    raised.extend(within.map(|(start, old)| (*start, (*old).max(floor))));
    if range.end < u64::MAX {
        raised.push((range.end, behind));
    }
    raised.extend(floors.iter().copied().filter(|(start, _)| *start > range.end));
    raised.dedup_by(|next, before| next.1 == before.1);
    *floors = raised;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(incarnation: u64, generation: u64, offset: u64, end: u64) -> Fence {
        let (incarnation, generation) = (Incarnation(incarnation), Generation(generation));
        Fence { incarnation, generation, range: ByteRange { offset, end }, oldest: Generation(0) }
    }

    #[test]
    fn an_ended_grant_is_refused_where_it_counted_and_nowhere_else() {
        let mut fences = Fences::default();
        fences.raise(&order(1, 7, 10, 20)).unwrap();
        let admit = |generation, offset, end| fences.admit(Generation(generation), ByteRange { offset, end });
        assert_eq!(admit(7, 19, 25), Err(Refusal::Fenced(Generation(8))));
        assert_eq!(admit(7, 0, 11), Err(Refusal::Fenced(Generation(8))));
        for (generation, offset, end) in [(8, 10, 20), (1, 0, 10), (1, 20, u64::MAX)] {
            assert_eq!(admit(generation, offset, end), Ok(()));
        }
    }

    #[test]
    fn a_head_that_was_replaced_is_not_obeyed() {
        let mut fences = Fences::default();
        fences.raise(&order(5, 1, 0, 8)).unwrap();
        let before = fences.clone();
        assert_eq!(fences.raise(&order(4, 9, 0, 8)), Err(Refusal::Replaced(Incarnation(5))));
        assert_eq!(fences, before);
    }

    #[test]
    fn fences_are_bounded_and_what_is_old_needs_none() {
        let mut fences = Fences::default();
        for number in 0..Fences::RANGES_MAX as u64 / 2 {
            fences.raise(&order(1, number + 1, 4 * number + 1, 4 * number + 2)).unwrap();
        }
        let next = order(1, 5000, 1 << 20, (1 << 20) + 1);
        assert_eq!(fences.raise(&next), Err(Refusal::Full));
        fences.raise(&Fence { oldest: Generation(5000), ..next }).unwrap();
        assert_eq!(fences.floors.len(), 3);
    }

    proptest! {
        /// Byte by byte, floors are the highest that were ordered, in any order and however often.
        #[test]
        fn floors_are_those_of_each_byte(orders in prop::collection::vec((0_u64..30, 0_u64..30, 1_u64..9, 0_u64..5), 0..20)) {
            let mut fences = Fences::default();
            let mut bytes = [0; 40];
            for (offset, end, generation, oldest) in orders {
                let fence = Fence { oldest: Generation(oldest), ..order(1, generation, offset, end) };
                fences.raise(&fence).unwrap();
                for (at, floor) in bytes.iter_mut().enumerate() {
                    let is_within = (offset..end).contains(&(at as u64));
                    *floor = oldest.max(*floor).max(if is_within { generation + 1 } else { 0 });
                }
            }
            prop_assert!(fences.floors.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 != two[1].1));
            for start in 0..39 {
                for end in start + 1..40 {
                    let range = ByteRange { offset: start as u64, end: end as u64 };
                    prop_assert_eq!(fences.floor(range).0, *bytes[start..end].iter().max().unwrap());
                }
            }
        }
    }
}
