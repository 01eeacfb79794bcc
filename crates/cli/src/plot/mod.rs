//! Histograms for people: in the terminal, as SVG and as PNG.
//!
//! A plot becomes a few shapes (`layout.rs`), which are written down (`svg.rs`) or painted (`png.rs`).

mod layout;
mod letters;
mod png;
mod svg;
mod text;

pub(crate) use png::png;
pub(crate) use svg::svg;
pub(crate) use text::lines;

/// A histogram with one axis.
#[derive(Debug, Clone)]
pub(crate) struct Plot {
    /// What was filled, with its cut.
    pub(crate) title: String,
    /// Edges of the bins; one more than bins.
    pub(crate) edges: Vec<f64>,
    /// Contents of the bins.
    pub(crate) values: Vec<f64>,
}

impl Plot {
    /// Largest content, at least a little above 0.
    fn top(&self) -> f64 {
        self.values.iter().copied().filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Smallest content, at most 0.
    fn bottom(&self) -> f64 {
        self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::min)
    }
}

/// Round numbers from `low` to `high`, about `count` of them.
fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    // The bound keeps rounding from making it endless.
    (first..)
        .map(|number| number as f64 * step)
        .take_while(|x| *x <= high + step * 1e-9)
        .take(4 * count + 4)
        .collect()
}

/// A number as people write it beside an axis.
fn label(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&x.abs()) {
        return format!("{x:.2e}").replace(".00e", "e");
    }
    let text = format!("{x:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(-1.0, 1.0, 4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert!(ticks(1.0, 1.0, 4).is_empty());
        assert_eq!([0.0, 0.25, 1500.0, 2e6, -1e-5].map(label), ["0", "0.25", "1500", "2e6", "-1e-5"]);
    }

    pub(super) fn plot() -> Plot {
        Plot {
            title: "pt where a < b & \"c\"".to_owned(),
            edges: (0..=20).map(|bin| f64::from(bin) * 5.0).collect(),
            values: (0..20).map(|bin| 1000.0 * (-0.5 * (f64::from(bin) - 8.0).powi(2) / 9.0).exp()).collect(),
        }
    }

    proptest! {
        #[test]
        fn any_histogram_is_drawn(values in prop::collection::vec(any::<f64>(), 1..60), low: f64, width in 1e-300f64..1e300, columns in 1usize..300) {
            let edges = (0..=values.len()).map(|bin| low + width * bin as f64).collect();
            let plot = Plot { title: "any".to_owned(), edges, values };
            prop_assert_eq!(lines(&plot, columns).len(), plot.values.len());
            prop_assert!(svg(&plot).ends_with("</svg>\n"));
            prop_assert_eq!(&png(&plot)[..8], b"\x89PNG\r\n\x1a\n");
        }
    }
}
