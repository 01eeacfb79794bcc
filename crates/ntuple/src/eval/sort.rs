//! Values to bin numbers, a chunk at a time.

use super::kernels::ToFloat;
use crate::fill::{Axis, integer_bin, regular_bin};

/// Writes the bin of each value, 0 for underflow.
#[inline(always)]
pub(super) fn sort<T: ToFloat>(out: &mut [u32], axis: &Axis, values: &[T]) {
    match axis {
        Axis::Regular { bins, low, high } => {
            // A product with the inverse width, corrected near the edges, was tried: the division hides behind the rest
            // of the loop, the correction does not.
            let (bins, low, width) = (*bins as f64, *low, high - low);
            out.iter_mut()
                .zip(values)
                .for_each(|(out, x)| *out = regular_bin(x.to_float(), low, width, bins));
        }
        Axis::Integer { low, bins } => {
            let (low, bins) = (*low as f64, *bins as f64);
            out.iter_mut().zip(values).for_each(|(out, x)| *out = integer_bin(x.to_float(), low, bins));
        }
        axis @ Axis::Variable { .. } => {
            out.iter_mut().zip(values).for_each(|(out, x)| *out = axis.index(x.to_float()) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(axis: &Axis, values: &[f64]) -> Result<(), TestCaseError> {
        let mut found = vec![0; values.len()];
        sort(&mut found, axis, values);
        for (x, bin) in values.iter().zip(found) {
            prop_assert_eq!(bin as usize, axis.index(*x), "{} on {:?}", x, axis);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn bins_are_those_of_the_convention(
            bins in 1usize..2000,
            low in prop_oneof![-1e3..1e3f64, Just(0.0), any::<f64>()],
            width in prop_oneof![-1e3..1e3f64, 1e-12..1e-3f64, any::<f64>()],
            values in prop::collection::vec(prop_oneof![any::<f64>(), -2e3..2e3f64], 0..300),
        ) {
            if let Ok(axis) = Axis::regular(bins, low, low + width) {
                check(&axis, &values)?;
                let edges = (0..=bins).map(|i| low + i as f64 * width / bins as f64);
                let near: Vec<f64> = edges.flat_map(|x| [x, x.next_up(), x.next_down()]).collect();
                check(&axis, &near)?;
                check(&axis, &[0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])?;
            }
        }

        #[test]
        fn irregular_bins_too(values in prop::collection::vec(prop_oneof![any::<f64>(), -9.0..9.0f64], 0..100)) {
            check(&Axis::variable(&[-3.0, 0.0, 0.1, 7.0]).unwrap(), &values)?;
            check(&Axis::integer(-3, 7).unwrap(), &values)?;
        }
    }
}
