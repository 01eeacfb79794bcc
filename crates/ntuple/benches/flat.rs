//! Milliseconds of warm passes over a flat n-tuple: `cargo bench -p ntuple --bench flat -- FILE.parquet…`.
//!
//! The files need the columns px, py, eta, q, e, phi, chi2, iso, dxy, btag, met and ht. The queries are those of
//! common comparisons: one histogram, with a cut, of a derived variable, two-dimensional, and ten in one pass.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use ntuple::{Axis, Chain, ColumnCache, FileSource, HistogramSpec, Plan, RunOptions, Source};
use std::{ops::ControlFlow, path::Path, sync::Arc, time::Instant};

const REPEATS: usize = 15;
const TEN: [(&str, f64, f64); 10] = [
    ("px", -50.0, 50.0),
    ("py", -50.0, 50.0),
    ("e", 0.0, 200.0),
    ("phi", -3.2, 3.2),
    ("chi2", 0.0, 20.0),
    ("iso", 0.0, 1.0),
    ("dxy", -0.05, 0.05),
    ("btag", 0.0, 1.0),
    ("met", 0.0, 200.0),
    ("ht", 0.0, 800.0),
];

fn spec(axes: &[(&str, f64, f64)]) -> HistogramSpec {
    let axes =
        axes.iter().map(|(expr, low, high)| ((*expr).to_owned(), Axis::regular(100, *low, *high).unwrap()));
    HistogramSpec { axes: axes.collect(), cut: None, weight: None }
}

fn main() {
    let paths: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if paths.is_empty() {
        return println!("no files given");
    }
    let sources =
        paths.iter().map(|path| Arc::new(FileSource::open(Path::new(path)).unwrap()) as Arc<dyn Source>);
    let chain = Chain::open(sources.collect()).unwrap();
    let cache = ColumnCache::new(8 << 30);
    let weighted = HistogramSpec { weight: Some("iso".to_owned()), ..spec(&[("px", -50.0, 50.0)]) };
    let queries: Vec<(&str, Option<&str>, Vec<HistogramSpec>)> = vec![
        ("F1", None, vec![spec(&[("px", -50.0, 50.0)])]),
        ("F2", Some("abs(eta) < 2.4 and q > 0"), vec![spec(&[("px", -50.0, 50.0)])]),
        ("F3", Some("abs(eta) < 2.4 and q > 0"), vec![spec(&[("sqrt(px*px + py*py)", 0.0, 100.0)])]),
        ("F4", Some("abs(eta) < 2.4"), vec![spec(&[("px", -50.0, 50.0), ("py", -50.0, 50.0)])]),
        ("F6", Some("abs(eta) < 2.4"), TEN.iter().map(|one| spec(&[*one])).collect()),
        ("weight", None, vec![weighted]),
    ];
    for (name, cut, specs) in queries {
        let mut times = Vec::new();
        for _ in 0..=REPEATS {
            let begin = Instant::now();
            let mut plan = Plan::new(chain.schema());
            if let Some(cut) = cut {
                plan.filter(cut).unwrap();
            }
            for spec in &specs {
                plan.histogram(spec.clone()).unwrap();
            }
            chain
                .run(plan, &RunOptions { threads: 0, cache: &cache }, |_| ControlFlow::Continue(()))
                .unwrap();
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let cold = times.remove(0);
        times.sort_by(f64::total_cmp);
        println!("{name:8} cold {cold:8.1} ms, warm median {:7.2} best {:7.2}", times[REPEATS / 2], times[0]);
    }
}
