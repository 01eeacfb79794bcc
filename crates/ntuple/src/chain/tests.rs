//! Chains of files written for the test.

use super::*;
use crate::column::testing::{Data, Layout, source, write};
use crate::fill::{Axis, Bins};
use crate::plan::HistogramSpec;
use base::rng::Rng;
use proptest::prelude::*;

fn file(name: &str, rows: usize, seed: u64, declaration: &str) -> Arc<dyn Source> {
    let mut rng = Rng::new(seed);
    let x = (0..rows).map(|_| Some(rng.below(1000) as f32 / 100.0)).collect();
    let w = (0..rows).map(|_| Some(rng.below(1000) as f64 / 333.0)).collect();
    let n = (0..rows).map(|row| Some(row as i32)).collect();
    let layout = Layout { rows_per_group: 700, ..Layout::default() };
    let columns = [
        ("x", "required float", Data::F32(x)),
        ("w", "required double", Data::F64(w)),
        ("n", declaration, Data::I32(n)),
    ];
    source(name, write(&columns, &layout))
}

fn chain() -> Chain {
    let files = [("a", 3000), ("b", 0), ("c", 50), ("d", 2111)];
    Chain::open(
        files
            .iter()
            .enumerate()
            .map(|(i, (name, rows))| file(name, *rows, i as u64, "required int32"))
            .collect(),
    )
    .unwrap()
}

fn plan(chain: &Chain) -> Plan {
    let mut plan = Plan::new(chain.schema());
    plan.filter("x > 1").unwrap();
    for weight in [None, Some("w".to_owned())] {
        let axes = vec![("x".to_owned(), Axis::regular(20, 0.0, 10.0).unwrap())];
        plan.histogram(HistogramSpec { axes, cut: Some("n % 3 != 0".to_owned()), weight }).unwrap();
    }
    plan
}

fn run(chain: &Chain, plan: Plan, threads: usize, cache: &ColumnCache) -> Result<Outcome> {
    chain.run(plan, &RunOptions { threads, cache }, |_| ControlFlow::Continue(()))
}

#[test]
fn the_answer_does_not_depend_on_threads_or_cache() {
    let chain = chain();
    let cache = ColumnCache::new(1 << 20);
    let first = run(&chain, plan(&chain), 1, &cache).unwrap();
    for threads in [1, 2, 5] {
        assert_eq!(run(&chain, plan(&chain), threads, &cache).unwrap(), first);
        assert_eq!(run(&chain, plan(&chain), threads, &ColumnCache::new(0)).unwrap(), first);
    }
    let Bins::Counts(counts) = &first.histograms[0].bins else { panic!("counts") };
    assert!(counts.iter().sum::<u64>() > 1000);
    // Three columns of nine row groups, decoded once.
    assert_eq!(cache.use_now().misses, 3 * 10);
}

#[test]
fn arrays_come_in_the_order_of_the_chain() {
    let chain = chain();
    let mut plan = Plan::new(chain.schema());
    plan.array("n").unwrap();
    plan.array("n + 0.5").unwrap();
    plan.filter("n % 100 == 99").unwrap();
    let out = run(&chain, plan, 3, &ColumnCache::new(0)).unwrap();
    let expected: Vec<i32> = [3000, 50, 2111].into_iter().flat_map(|rows| (99..rows).step_by(100)).collect();
    assert_eq!(out.arrays[1], Array::F64(expected.iter().map(|n| f64::from(*n) + 0.5).collect()));
    assert_eq!(out.arrays[0], Array::I32(expected));
}

#[test]
fn progress_counts_every_entry_once() {
    let chain = chain();
    let mut last = None;
    let cache = ColumnCache::new(0);
    chain
        .run(plan(&chain), &RunOptions { threads: 2, cache: &cache }, |now| {
            last = Some(now);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(last, Some(Progress { done: 5161, total: 5161 }));
    let broken =
        chain.run(plan(&chain), &RunOptions { threads: 2, cache: &cache }, |_| ControlFlow::Break(()));
    assert_eq!(broken.unwrap_err().what, "cancelled");
}

#[test]
fn files_that_disagree_are_named() {
    let open = |second| Chain::open(vec![file("a", 10, 1, "required int32"), second]).unwrap_err().what;
    let only_x = [("x", "required float", Data::F32(vec![Some(1.0)]))];
    assert_eq!(
        open(source("b", write(&only_x, &Layout::default()))),
        "b: no usable column \"w\", which a has"
    );
    let float_n = [
        ("x", "required float", Data::F32(vec![Some(1.0)])),
        ("w", "required double", Data::F64(vec![Some(1.0)])),
        ("n", "required float", Data::F32(vec![Some(1.0)])),
    ];
    assert_eq!(
        open(source("b", write(&float_n, &Layout::default()))),
        "b: column \"n\" is float, in a it is int"
    );
    let extra = [
        float_n[0].clone(),
        float_n[1].clone(),
        ("n", "required int32", Data::I32(vec![Some(1)])),
        ("z", "required int32", Data::I32(vec![Some(1)])),
    ];
    assert_eq!(open(source("b", write(&extra, &Layout::default()))), "b: column \"z\" is not in a");
    assert!(Chain::open(vec![]).is_err());
}

#[test]
fn an_integer_that_may_be_missing_is_a_float_in_the_whole_chain() {
    let missing = [
        ("x", "required float", Data::F32(vec![Some(1.0); 2])),
        ("w", "required double", Data::F64(vec![Some(1.0); 2])),
        ("n", "optional int32", Data::I32(vec![Some(1), None])),
    ];
    let chain = Chain::open(vec![
        file("a", 3, 1, "required int32"),
        source("b", write(&missing, &Layout::default())),
    ])
    .unwrap();
    assert_eq!(chain.schema().columns[2].ty, Type::Float);
    let mut plan = Plan::new(chain.schema());
    plan.array("n").unwrap();
    plan.array("isnan(n)").unwrap();
    let out = run(&chain, plan, 2, &ColumnCache::new(0)).unwrap();
    let Array::F64(n) = &out.arrays[0] else { panic!("n") };
    assert_eq!(n[..4], [0.0, 1.0, 2.0, 1.0]);
    assert_eq!(out.arrays[1], Array::Bool(vec![0, 0, 0, 0, 1]));
}

#[test]
fn a_damaged_file_is_named_and_stops_the_pass() {
    let source_bytes = |name: &str| {
        let columns =
            [("x", "required float", Data::F32((0..5000u16).map(|i| Some(f32::from(i))).collect()))];
        (name.to_owned(), write(&columns, &Layout::default()))
    };
    let (name, mut bytes) = source_bytes("bad.parquet");
    bytes[8..2000].fill(0xff);
    let (good_name, good) = source_bytes("good.parquet");
    let chain = Chain::open(vec![source(&good_name, good), source(&name, bytes)]).unwrap();
    let mut plan = Plan::new(chain.schema());
    plan.array("x").unwrap();
    let failure = run(&chain, plan, 2, &ColumnCache::new(0)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.starts_with("bad.parquet: row group 0, column \"x\": "), "{failure}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_chain_is_the_sum_of_its_files(rows in prop::collection::vec(0usize..2000, 1..5)) {
        let files: Vec<_> = rows.iter().enumerate().map(|(i, rows)| file(&i.to_string(), *rows, i as u64, "required int32")).collect();
        let cache = ColumnCache::new(0);
        let whole = Chain::open(files.clone()).unwrap();
        let whole = run(&whole, plan(&whole), 3, &cache).unwrap();
        let mut sum: Option<Histogram> = None;
        for file in files.into_iter().rev() {
            let part = Chain::open(vec![file]).unwrap();
            let part = run(&part, plan(&part), 1, &cache).unwrap().histograms.swap_remove(0);
            match &mut sum {
                Some(sum) => sum.merge(&part).unwrap(),
                None => sum = Some(part),
            }
        }
        prop_assert_eq!(Some(&whole.histograms[0]), sum.as_ref());
    }
}
