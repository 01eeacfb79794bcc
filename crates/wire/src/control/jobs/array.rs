//! Arrays: one specification that is run once for each index.

use base::{Failure, JobId, Result};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Elements of one array.
pub const ARRAY_LEN_MAX: u64 = 1_000_000;
/// Ranges that the text of an array may have.
const RANGES_MAX: usize = 10_000;

/// Indices from `start` to `end`, both included, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IndexRange {
    /// The first.
    pub start: u32,
    /// None is beyond it.
    pub end: u32,
    /// Distance of two, from 1.
    pub step: u32,
}

impl IndexRange {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::from(self.end.saturating_sub(self.start) / self.step.max(1)) + 1
    }

    /// Whether an index is one of them.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        (self.start..=self.end).contains(&index) && (index - self.start).is_multiple_of(self.step.max(1))
    }
}

impl fmt::Display for IndexRange {
    /// `7`, `1-10` or `1-10:2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.start == self.end, self.step) {
            (true, _) => write!(f, "{}", self.start),
            (false, 1) => write!(f, "{}-{}", self.start, self.end),
            (false, step) => write!(f, "{}-{}:{step}", self.start, self.end),
        }
    }
}

impl FromStr for IndexRange {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Failure::invalid(format!("{text:?} is not a range of indices"))
                .hint("write 7, 1-10 or 1-10:2; the end is included")
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
        let (range, step) =
            text.split_once(':').map_or((text, 1), |(range, step)| (range, number(step).unwrap_or(0)));
        let (start, end) = range.split_once('-').unwrap_or((range, range));
        let range = Self { start: number(start)?, end: number(end)?, step };
        if range.step == 0 || range.end < range.start { Err(bad()) } else { Ok(range) }
    }
}

/// Indices of an array, in the order in which they were named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRange {
    /// The indices; none twice.
    pub indices: Vec<IndexRange>,
    /// Elements that run at the same time at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_max: Option<u32>,
}

impl ArrayRange {
    /// How many elements it has.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.indices.iter().map(IndexRange::count).sum()
    }

    /// Refuses an array without elements, with too many, or that names one twice.
    pub fn check(&self) -> Result<()> {
        let count = self.count();
        if self.indices.is_empty() || self.indices.len() > RANGES_MAX || count > ARRAY_LEN_MAX {
            return Err(Failure::invalid(format!(
                "an array of {count} elements in {} ranges",
                self.indices.len()
            ))
            .hint(format!("it may have 1 to {ARRAY_LEN_MAX} elements in {RANGES_MAX} ranges")));
        }
        if self.indices.iter().any(|range| range.step == 0 || range.end < range.start) {
            return Err(Failure::invalid("a range of an array ends before it starts, or has the step 0"));
        }
        if self.running_max == Some(0) {
            return Err(Failure::invalid("an array of which 0 elements may run at a time never runs")
                .hint("submit it with a hold instead"));
        }
        let mut all: Vec<u32> = self.indices().collect();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(Failure::invalid(format!("index {} is named twice", twice[0]))),
            None => Ok(()),
        }
    }

    /// All indices, in order. Bounded once [`Self::check`] accepted it.
    pub fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.indices.iter().flat_map(|range| (range.start..=range.end).step_by(range.step.max(1) as usize))
    }
}

impl fmt::Display for ArrayRange {
    /// `1-10:2,20%4`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&ranges_text(&self.indices))?;
        self.running_max.map_or(Ok(()), |most| write!(f, "%{most}"))
    }
}

impl FromStr for ArrayRange {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let (indices, most) = match text.split_once('%') {
            None => (text, None),
            Some((indices, most)) => {
                let bad =
                    || Failure::invalid(format!("{most:?} is not a number of elements that run at a time"));
                (indices, Some(most.parse().map_err(|_| bad())?))
            }
        };
        let range = Self { indices: parse_ranges(indices)?, running_max: most };
        range.check().map(|()| range)
    }
}

/// Ranges with commas between them.
pub(super) fn ranges_text(ranges: &[IndexRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Reads ranges with commas between them.
pub(super) fn parse_ranges(text: &str) -> Result<Vec<IndexRange>> {
    if text.split(',').nth(RANGES_MAX).is_some() {
        return Err(Failure::invalid(format!("an array may have {RANGES_MAX} ranges")));
    }
    text.split(',').map(str::parse).collect()
}

/// Which element of an array a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArrayElement {
    /// The array: the id of its first element.
    pub array: JobId,
    /// The index of this one.
    pub index: u32,
}

/// The elements of an array that is shown as one entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayElements {
    /// All elements.
    pub count: u64,
    /// How many are in each state, by the word of the state.
    pub states: BTreeMap<String, u64>,
    /// Indices of those that have not started.
    pub waiting: Vec<IndexRange>,
    /// Elements that run at the same time at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_max: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_arrays() {
        let range: ArrayRange = "1-10:2,20%4".parse().unwrap();
        assert_eq!(range.indices().collect::<Vec<_>>(), [1, 3, 5, 7, 9, 20]);
        assert_eq!((range.count(), range.running_max), (6, Some(4)));
        assert_eq!(range.to_string(), "1-10:2,20%4");
        for bad in ["", "a", "3-1", "1-5:0", "1,1", "1-3,2", "1%0", "1%x", "-1", "0-4294967295", "1-1000001"]
        {
            assert!(bad.parse::<ArrayRange>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_range_counts_what_it_lists(start in 0u32..500, len in 0u32..500, step in 1u32..9) {
            let range = ArrayRange { indices: vec![IndexRange { start, end: start + len, step }], running_max: None };
            prop_assert_eq!(range.indices().count() as u64, range.count());
            prop_assert!(range.indices().all(|index| range.indices[0].contains(index)));
            let back: ArrayRange = range.to_string().parse().unwrap();
            prop_assert_eq!(back.indices().collect::<Vec<_>>(), range.indices().collect::<Vec<_>>());
        }

        #[test]
        fn noise_is_refused_or_read(text in "[0-9,:%_-]{0,20}") {
            let _ = text.parse::<ArrayRange>();
        }
    }
}
