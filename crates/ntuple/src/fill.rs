//! Axes and histograms. Bins follow boost-histogram exactly, so that results can be compared bin by bin.

use base::{Failure, Result};
use std::sync::Arc;

/// Most bins of one axis.
pub const AXIS_BINS_MAX: usize = 1 << 20;
/// Most bins of one histogram, flow bins included.
pub const HISTOGRAM_BINS_MAX: usize = 1 << 24;
/// Most axes of one histogram.
pub const HISTOGRAM_AXES_MAX: usize = 4;

/// How values are sorted into bins.
///
/// Every axis has an underflow bin (index 0) and an overflow bin (index `bins + 1`). Bins include their lower edge; the
/// upper edge of the last bin, infinity and NaN go to overflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// Bins of equal width.
    Regular {
        /// Number of bins.
        bins: usize,
        /// Lower edge of the first bin.
        low: f64,
        /// Upper edge of the last bin.
        high: f64,
    },
    /// Bins between given edges.
    Variable {
        /// Edges in ascending order; one more than bins.
        edges: Arc<[f64]>,
    },
    /// Bins of width 1 from `low`.
    Integer {
        /// First value.
        low: i64,
        /// Number of values.
        bins: usize,
    },
}

fn check_bins(bins: usize) -> Result<()> {
    if (1..=AXIS_BINS_MAX).contains(&bins) {
        return Ok(());
    }
    Err(Failure::invalid(format!("axis of {bins} bins; 1 to {AXIS_BINS_MAX} are possible")))
}

impl Axis {
    /// `bins` bins of equal width from `low` to `high`.
    pub fn regular(bins: usize, low: f64, high: f64) -> Result<Self> {
        check_bins(bins)?;
        if !(low.is_finite() && high.is_finite() && (high - low).is_finite()) || low == high {
            return Err(Failure::invalid(format!("axis from {low} to {high} has no width")));
        }
        Ok(Self::Regular { bins, low, high })
    }

    /// Bins between `edges`, which must ascend.
    pub fn variable(edges: &[f64]) -> Result<Self> {
        check_bins(edges.len().saturating_sub(1))?;
        match edges.windows(2).find(|pair| pair[0].partial_cmp(&pair[1]) != Some(std::cmp::Ordering::Less)) {
            Some(pair) => Err(Failure::invalid(format!("axis edges {}, {} do not ascend", pair[0], pair[1]))),
            None => Ok(Self::Variable { edges: edges.into() }),
        }
    }

    /// One bin for each of the values `low..low + bins`.
    pub fn integer(low: i64, bins: usize) -> Result<Self> {
        check_bins(bins)?;
        if low.unsigned_abs() > 1 << 52 {
            return Err(Failure::invalid(format!("integer axis from {low} is beyond 2**52")));
        }
        Ok(Self::Integer { low, bins })
    }

    /// Number of bins without flow bins.
    #[must_use]
    pub fn bins(&self) -> usize {
        match self {
            Self::Regular { bins, .. } | Self::Integer { bins, .. } => *bins,
            Self::Variable { edges } => edges.len() - 1,
        }
    }

    /// Number of bins with flow bins.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.bins() + 2
    }

    /// The bin of `x`: 0 is underflow, `bins + 1` overflow.
    #[must_use]
    pub fn index(&self, x: f64) -> usize {
        match self {
            Self::Regular { bins, low, high } => regular_bin(x, *low, high - low, *bins as f64) as usize,
            Self::Variable { edges } => edges.partition_point(|edge| *edge <= x || x.is_nan()),
            Self::Integer { low, bins } => integer_bin(x, *low as f64, *bins as f64) as usize,
        }
    }
}

/// Bin of a regular axis, 0 for underflow. `(x - low) / width * bins`, in this order, as boost-histogram rounds it.
#[inline(always)]
pub(crate) fn regular_bin(x: f64, low: f64, width: f64, bins: f64) -> u32 {
    let z = (x - low) / width;
    // Selects rather than branches, so that the loop around it becomes vector code. NaN fails both comparisons.
    let scaled = if z >= 0.0 { z * bins } else { -1.0 };
    let scaled = if z < 1.0 { scaled } else { bins };
    (crate::simd::truncate(scaled) + 1) as u32
}

/// Bin of an integer axis, 0 for underflow.
#[inline(always)]
pub(crate) fn integer_bin(x: f64, low: f64, bins: f64) -> u32 {
    let z = x.floor() - low;
    let scaled = if z >= 0.0 { z } else { -1.0 };
    let scaled = if z < bins { scaled } else { bins };
    (crate::simd::truncate(scaled) + 1) as u32
}

/// What a histogram counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Bins {
    /// Entries.
    Counts(Vec<u64>),
    /// Weights: their sum, and the sum of their squares.
    Weights(Vec<[f64; 2]>),
}

/// A filled histogram. Bins are in row-major order, the last axis fastest, flow bins included.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Its axes.
    pub axes: Vec<Axis>,
    /// Its bins.
    pub bins: Bins,
}

impl Histogram {
    /// An empty histogram.
    pub fn new(axes: Vec<Axis>, is_weighted: bool) -> Result<Self> {
        if !(1..=HISTOGRAM_AXES_MAX).contains(&axes.len()) {
            return Err(Failure::invalid(format!(
                "histogram of {} axes; 1 to {HISTOGRAM_AXES_MAX} are possible",
                axes.len()
            )));
        }
        let size = axes.iter().try_fold(1usize, |size, axis| size.checked_mul(axis.extent()));
        let Some(size) = size.filter(|size| *size <= HISTOGRAM_BINS_MAX) else {
            return Err(Failure::invalid(format!("histogram has more than {HISTOGRAM_BINS_MAX} bins")));
        };
        let bins =
            if is_weighted { Bins::Weights(vec![[0.0; 2]; size]) } else { Bins::Counts(vec![0; size]) };
        Ok(Self { axes, bins })
    }

    /// Number of bins, flow bins included.
    #[must_use]
    pub fn size(&self) -> usize {
        match &self.bins {
            Bins::Counts(bins) => bins.len(),
            Bins::Weights(bins) => bins.len(),
        }
    }

    /// Fills one entry; the simple version of the vector kernels.
    pub fn fill(&mut self, values: &[f64], weight: f64) {
        let index =
            self.axes.iter().zip(values).fold(0, |index, (axis, x)| index * axis.extent() + axis.index(*x));
        match &mut self.bins {
            Bins::Counts(bins) => bins[index] += 1,
            Bins::Weights(bins) => add(&mut bins[index], [weight, weight * weight]),
        }
    }

    /// Adds the bins of `other`, which must have the same axes and storage.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        match (&mut self.bins, &other.bins) {
            (Bins::Counts(all), Bins::Counts(more)) if self.axes == other.axes => {
                all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
            }
            (Bins::Weights(all), Bins::Weights(more)) if self.axes == other.axes => {
                all.iter_mut().zip(more).for_each(|(all, more)| add(all, *more));
            }
            _ => {
                return Err(Failure::invalid("histograms of different axes or storage cannot be added"));
            }
        }
        Ok(())
    }
}

#[inline(always)]
pub(crate) fn add(bin: &mut [f64; 2], more: [f64; 2]) {
    bin[0] += more[0];
    bin[1] += more[1];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_go_where_boost_histogram_puts_them() {
        let axis = Axis::regular(100, 0.0, 100.0).unwrap();
        for (x, bin) in [
            (-1e-300, 0),
            (f64::NEG_INFINITY, 0),
            (0.0, 1),
            (-0.0, 1),
            (1.0, 2),
            // 0.29 * 100 is 28.999999999999996: rounding is part of the convention.
            (29.0, 29),
            (99.999_999, 100),
            (100.0, 101),
            (f64::INFINITY, 101),
            (f64::NAN, 101),
        ] {
            assert_eq!(axis.index(x), bin, "{x}");
        }
        let axis = Axis::variable(&[0.0, 1.0, 10.0]).unwrap();
        for (x, bin) in
            [(-0.1, 0), (0.0, 1), (0.9, 1), (1.0, 2), (10.0, 3), (f64::NAN, 3), (f64::NEG_INFINITY, 0)]
        {
            assert_eq!(axis.index(x), bin, "{x}");
        }
        let axis = Axis::integer(-2, 4).unwrap();
        for (x, bin) in [(-3.0, 0), (-2.0, 1), (1.9, 4), (2.0, 5), (f64::NAN, 5), (f64::INFINITY, 5)] {
            assert_eq!(axis.index(x), bin, "{x}");
        }
    }

    #[test]
    fn impossible_axes_are_refused() {
        assert!(Axis::regular(0, 0.0, 1.0).is_err());
        assert!(Axis::regular(1, 1.0, 1.0).is_err());
        assert!(Axis::regular(1, 0.0, f64::INFINITY).is_err());
        assert!(Axis::variable(&[1.0]).is_err());
        assert!(Axis::variable(&[1.0, f64::NAN]).is_err());
        assert!(Axis::variable(&[1.0, 1.0]).is_err());
        let wide = Axis::regular(AXIS_BINS_MAX, 0.0, 1.0).unwrap();
        assert!(Histogram::new(vec![wide.clone(), wide], false).is_err());
        assert!(Histogram::new(vec![], false).is_err());
    }

    proptest! {
        #[test]
        fn counts_merge_in_any_order(values in prop::collection::vec(-2.0f64..3.0, 0..200), seed: u64) {
            let axis = Axis::regular(10, 0.0, 1.0).unwrap();
            let empty = Histogram::new(vec![axis], false).unwrap();
            let mut whole = empty.clone();
            let mut parts = vec![empty.clone(); 5];
            for (index, x) in values.iter().enumerate() {
                whole.fill(&[*x], 1.0);
                parts[index % 5].fill(&[*x], 1.0);
            }
            let mut rng = base::rng::Rng::new(seed);
            let mut merged = empty;
            while !parts.is_empty() {
                let part = parts.swap_remove(rng.below(parts.len() as u64) as usize);
                merged.merge(&part).unwrap();
            }
            prop_assert_eq!(merged, whole);
        }

        #[test]
        fn a_bin_holds_the_values_between_its_edges(bins in 1usize..50, x in -2.0f64..3.0) {
            let axis = Axis::regular(bins, 0.0, 1.0).unwrap();
            let index = axis.index(x);
            let edge = |index: usize| index as f64 / bins as f64;
            if index > 0 { prop_assert!(x >= edge(index - 1) - 1e-12) } else { prop_assert!(x < 0.0) }
            if index <= bins { prop_assert!(x <= edge(index) + 1e-12) } else { prop_assert!(x >= 1.0) }
        }
    }
}
