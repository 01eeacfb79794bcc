//! Chains of files written for the test.

use super::*;
use crate::{
    Type,
    column::{
        Array, DefaultValue, Kind,
        testing::{Data, Layout, source, write},
    },
    fill::{Axis, Bins},
    plan::HistogramSpec,
};
use base::{ErrorKind, rng::Rng};
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

/// Small packets, so that a small chain has many.
fn small_packets(chain: &Chain) -> Vec<RowGroups> {
    let mut groups = Vec::new();
    for whole in chain.packets() {
        for group in whole.groups {
            groups.push(RowGroups { packet: groups.len() / 2, file: whole.file, groups: group..group + 1 });
        }
    }
    groups
}

#[test]
fn parts_of_a_chain_give_what_the_whole_gives() {
    let chain = chain();
    let groups = small_packets(&chain);
    let cache = ColumnCache::new(1 << 20);
    let options = RunOptions { threads: 2, cache: &cache };
    let part = |groups: &[RowGroups]| {
        let mut plan = plan(&chain);
        plan.array("n").unwrap();
        chain.run_packets(plan, groups, &options, |_| ControlFlow::Continue(())).unwrap()
    };
    let whole = part(&groups);
    assert!(whole.nodes.len() > 1, "a number of packets that is no power of two");
    let mut nodes = packets::Nodes::default();
    let mut counts: Option<Histogram> = None;
    let mut numbers = 0;
    for packet in 0..=groups.last().unwrap().packet {
        let own: Vec<_> = groups.iter().filter(|one| one.packet == packet).cloned().collect();
        let Part { histograms, nodes: sums, arrays, .. } = part(&own);
        for node in sums {
            nodes.push(node.index, node.sums);
        }
        match &mut counts {
            None => counts = Some(histograms[0].clone()),
            Some(counts) => counts.merge(&histograms[0]).unwrap(),
        }
        numbers += arrays[0].array.len();
    }
    assert_eq!(nodes.into_vec(), whole.nodes);
    assert_eq!(counts.unwrap(), whole.histograms[0]);
    assert_eq!(numbers, whole.arrays[0].array.len());
    let mut wrong = groups;
    wrong.swap(0, 3);
    assert!(chain.run_packets(plan(&chain), &wrong, &options, |_| ControlFlow::Continue(())).is_err());
}

#[test]
fn some_files_are_read_as_those_of_the_chain() {
    let files = |second: &str| [file("a", 900, 1, "required int32"), file("b", 900, 2, second)];
    let chain = Chain::open(files("optional int32").into()).unwrap();
    let open = |source| column::open(source, OpenOptions::default()).unwrap();
    let second = open(files("optional int32")[1].clone());
    let part = Chain::of_files(vec![second], chain.schema().clone()).unwrap();
    assert_eq!((part.schema(), part.entries()), (chain.schema(), 900));
    let columns = ["x", "w", "n"].map(|name| (name, "required float", Data::F32(vec![Some(1.0)])));
    let first = open(source("c", write(&columns, &Layout::default())));
    let failure = Chain::of_files(vec![first], chain.schema().clone()).unwrap_err();
    assert_eq!(failure.what, "c: column \"n\" is not that of the chain");
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
    assert_eq!(out.arrays[1], Array::F64(expected.iter().map(|n| f64::from(*n) + 0.5).collect()).into());
    assert_eq!(out.arrays[0], Array::I32(expected).into());
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
        "b: no columns \"w\", \"n\", which a has"
    );
    let float_n = [
        ("x", "required float", Data::F32(vec![Some(1.0)])),
        ("w", "required double", Data::F64(vec![Some(1.0)])),
        ("n", "required float", Data::F32(vec![Some(1.0)])),
    ];
    assert_eq!(
        open(source("b", write(&float_n, &Layout::default()))),
        "b: column \"n\" is float32, in a it is int32"
    );
    let extra = [
        float_n[0].clone(),
        float_n[1].clone(),
        ("n", "required int32", Data::I32(vec![Some(1)])),
        ("z", "required int32", Data::I32(vec![Some(1)])),
    ];
    assert_eq!(open(source("b", write(&extra, &Layout::default()))), "b: column \"z\" is not in a");
    assert!(Chain::open(vec![]).is_err());
    let without_n = &extra[..2];
    assert_eq!(open(source("b", write(without_n, &Layout::default()))), "b: no column \"n\", which a has");
}

#[test]
fn a_column_that_a_file_lacks_has_its_default() {
    let files = |names: &[&str]| {
        let file = |name: &&str| {
            let column = |name| (name, "required int32", Data::I32(vec![Some(1), Some(2)]));
            let columns: Vec<_> = name.split('+').map(column).collect();
            column::open(source(name, write(&columns, &Layout::default())), OpenOptions::default()).unwrap()
        };
        names.iter().map(file).collect::<Vec<_>>()
    };
    let join = |names: &[&str], defaults: &[(&str, DefaultValue)]| {
        let defaults = defaults.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Chain::join(files(names), &defaults)
    };
    let (seven, missing) = (DefaultValue::Int(7), DefaultValue::Missing);
    for names in [["x+n", "x"], ["x", "x+n"]] {
        let chain = join(&names, &[("n", seven)]).unwrap();
        let mut expected = vec![1, 2, 7, 7];
        expected.rotate_left(if names[0] == "x" { 2 } else { 0 });
        assert_eq!(arrays(&chain, &["n"], None), [Values::from(Array::I32(expected))]);
        let again = Chain::of_files(files(&names), chain.schema().clone()).unwrap();
        assert_eq!(arrays(&again, &["n"], None), arrays(&chain, &["n"], None));
        let chain = join(&names, &[("n", missing)]).unwrap();
        assert!(chain.schema().columns.iter().any(|column| column.name == "n" && column.is_optional));
        assert_eq!(arrays(&chain, &["n"], Some("n > 0"))[0].array.len(), 2);
        let wide = join(&names, &[("n", DefaultValue::Int(BIG))]).unwrap();
        assert_eq!(arrays(&wide, &["n"], Some("n > 2")), [Values::from(Array::I64(vec![BIG; 2]))]);
        let failure = join(&names, &[("n", DefaultValue::Float(0.5))]).unwrap_err();
        assert_eq!(failure.what, "default 0.5 of column \"n\", which is int");
    }
    let failure = join(&["x", "x"], &[("m", seven)]).unwrap_err();
    assert_eq!(failure.what, "no file has a column \"m\", for which there is a default");
    assert_eq!(join(&["x+n", "x+n"], &[("n", seven)]).unwrap().schema().columns[1].default, None);
}

#[test]
fn times_are_numbers_by_request() {
    let numbers = ["x".to_owned()];
    let open = |declaration, data: Data| {
        let bytes = write(&[("x", declaration, data)], &Layout::default());
        let options = OpenOptions { numbers: &numbers, ..OpenOptions::default() };
        column::open(source(declaration, bytes), options).unwrap()
    };
    let files = vec![
        open("required int64 x (TIMESTAMP(MILLIS,true))", ints(&[1_500])),
        open("optional int64 x (TIMESTAMP(NANOS,false))", Data::I64(vec![Some(2_250_000_000), None])),
        open("required int32 x (DATE)", Data::I32(vec![Some(-1)])),
        open("required int32 x (DECIMAL(9,2))", Data::I32(vec![Some(-12_345)])),
        open("required int64 x (DECIMAL(18,18))", ints(&[1])),
        open("required float", Data::F32(vec![Some(0.5)])),
    ];
    let chain = Chain::join(files, &Defaults::new()).unwrap();
    let found = arrays(&chain, &["x"], Some("x == x"));
    assert_eq!(found, [Values::from(Array::F64(vec![1.5, 2.25, -86_400.0, -123.45, 1e-18, 0.5]))]);
}

/// A chain of files of one column, `x`, each by its declaration and values.
fn of_one_column(files: &[(&str, Data)]) -> Result<Chain> {
    let open = |(index, (declaration, data)): (usize, &(&str, Data))| {
        let columns = [("x", *declaration, data.clone())];
        source(&index.to_string(), write(&columns, &Layout::default()))
    };
    Chain::open(files.iter().enumerate().map(open).collect())
}

fn arrays(chain: &Chain, exprs: &[&str], filter: Option<&str>) -> Vec<Values> {
    let mut plan = Plan::new(chain.schema());
    for expr in exprs {
        plan.array(expr).unwrap();
    }
    if let Some(filter) = filter {
        plan.filter(filter).unwrap();
    }
    run(chain, plan, 2, &ColumnCache::new(0)).unwrap().arrays
}

fn ints(values: &[i64]) -> Data {
    Data::I64(values.iter().map(|value| Some(*value)).collect())
}

const BIG: i64 = (1 << 53) + 1;

#[test]
fn narrow_and_wide_integers_are_wide_to_the_last_bit() {
    let (narrow, wide) = (("required int32", Data::I32(vec![Some(-1)])), ("required int64", ints(&[BIG])));
    for (files, expected) in
        [([narrow.clone(), wide.clone()], vec![-1, BIG]), ([wide, narrow], vec![BIG, -1])]
    {
        let chain = of_one_column(&files).unwrap();
        let expected = Values::from(Array::I64(expected));
        assert_eq!(arrays(&chain, &["x", "x + 0"], None), [expected.clone(), expected]);
        // The kind of an array does not depend on which rows are left.
        assert_eq!(arrays(&chain, &["x"], Some("x > 0 and x < 0")), [Array::I64(vec![]).into()]);
        assert_eq!(arrays(&chain, &["x"], Some("x == -1")), [Array::I64(vec![-1]).into()]);
    }
}

#[test]
fn signed_and_unsigned_integers_keep_their_values() {
    let chain = of_one_column(&[
        ("required int32 x (INTEGER(32,false))", Data::I32(vec![Some(-1)])),
        ("required int32", Data::I32(vec![Some(-1)])),
        ("required int64 x (INTEGER(64,false))", ints(&[i64::MAX])),
    ])
    .unwrap();
    let expected = Array::I64(vec![i64::from(u32::MAX), -1, i64::MAX]);
    assert_eq!(arrays(&chain, &["x"], None), [expected.into()]);

    let chain = of_one_column(&[("required int64 x (INTEGER(64,false))", ints(&[7, -1]))]).unwrap();
    let mut plan = Plan::new(chain.schema());
    plan.array("x").unwrap();
    let failure = run(&chain, plan, 1, &ColumnCache::new(0)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unsupported);
    assert!(failure.what.contains("column \"x\": 18446744073709551615 is too large"), "{failure}");
}

#[test]
fn floats_of_two_widths_are_of_the_wider() {
    let chain = of_one_column(&[
        ("required float", Data::F32(vec![Some(0.1)])),
        ("optional double", Data::F64(vec![Some(0.1), None])),
    ])
    .unwrap();
    let Array::F64(x) = &arrays(&chain, &["x"], None)[0].array else { panic!("x") };
    assert_eq!(x[..2], [f64::from(0.1f32), 0.1]);
    assert!(x[2].is_nan());
}

#[test]
fn types_of_other_meaning_are_refused_by_name() {
    let long = |declaration| (declaration, ints(&[1]));
    let kinds = [
        (long("required int64"), "int64"),
        (long("required int64 x (TIMESTAMP(MILLIS,true))"), "timestamp[ms, UTC]"),
        (long("required int64 x (TIMESTAMP(MICROS,true))"), "timestamp[us, UTC]"),
        (long("required int64 x (TIMESTAMP(MICROS,false))"), "timestamp[us]"),
        (long("required int64 x (TIMESTAMP(NANOS,true))"), "timestamp[ns, UTC]"),
        (long("required int64 x (TIME(MICROS,true))"), "time[us, UTC]"),
        (long("required int64 x (DECIMAL(18,2))"), "decimal(18, 2)"),
        (("required int32 x (DATE)", Data::I32(vec![Some(1)])), "date"),
        (("required int32 x (TIME(MILLIS,true))", Data::I32(vec![Some(1)])), "time[ms, UTC]"),
        (("required boolean", Data::Bool(vec![Some(true)])), "bool"),
        (("required double", Data::F64(vec![Some(1.0)])), "float64"),
        (("required binary x (STRING)", Data::Text(vec![Some("1")])), "text"),
    ];
    for (i, (a, first)) in kinds.iter().enumerate() {
        for (j, (b, second)) in kinds.iter().enumerate() {
            let chain = of_one_column(&[a.clone(), b.clone()]);
            let are_both_refused =
                ["text", "decimal(18, 2)"].contains(first) && ["text", "decimal(18, 2)"].contains(second);
            if i == j || are_both_refused {
                assert!(chain.is_ok(), "{first} {second}");
                continue;
            }
            let failure = chain.unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Invalid);
            assert_eq!(failure.what, format!("1: column \"x\" is {second}, in 0 it is {first}"));
        }
    }
}

#[test]
fn integers_with_missing_values_are_exact() {
    let file = ("optional int64", Data::I64(vec![Some(BIG), None, Some(BIG + 1)]));
    let chain = of_one_column(&[("required int32", Data::I32(vec![Some(1)])), file]).unwrap();
    assert_eq!((chain.schema().columns[0].ty, chain.schema().columns[0].kind), (Type::Int, Kind::I64));
    let found =
        arrays(&chain, &["x", "x == 9007199254740993", "x != 9007199254740993", "isnan(x)", "x * 1.0"], None);
    let Values { array: Array::I64(x), present, .. } = &found[0] else { panic!("x") };
    assert_eq!(present.as_deref(), Some(&[1, 1, 0, 1][..]));
    assert_eq!([x[0], x[1], x[3]], [1, BIG, BIG + 1]);
    assert_eq!(found[1], Array::Bool(vec![0, 1, 0, 0]).into());
    assert_eq!(found[2], Array::Bool(vec![1, 0, 1, 1]).into());
    assert_eq!(found[3], Array::Bool(vec![0, 0, 1, 0]).into());
    let Values { array: Array::F64(floats), present: None, .. } = &found[4] else { panic!("floats") };
    assert!(floats[2].is_nan() && floats[0] == 1.0);
    // Without the missing one there is nothing to say of missing values.
    assert_eq!(arrays(&chain, &["x"], Some("x > 1")), [Array::I64(vec![BIG, BIG + 1]).into()]);
}

#[test]
fn a_missing_truth_value_is_neither_true_nor_false() {
    let values = vec![Some(true), None, Some(false)];
    let chain = of_one_column(&[("optional boolean", Data::Bool(values))]).unwrap();
    assert_eq!(chain.schema().columns[0].ty, Type::Bool);
    for (cut, passed) in [
        ("x", 1),
        ("not x", 1),
        ("x or not x", 2),
        ("x and not x", 0),
        ("x or true", 3),
        ("not (x and false)", 3),
        ("x == x", 2),
        ("x != x", 1),
        ("isnan(x)", 1),
        ("x ? true : true", 2),
    ] {
        assert_eq!(arrays(&chain, &["1"], Some(cut))[0].array.len(), passed, "{cut}");
    }
    let found = arrays(&chain, &["not x", "x + 1", "x ? 5 : 6"], None);
    let present = Some(vec![1, 0, 1]);
    assert!(found.iter().all(|values| values.present == present), "{found:?}");
    let Array::I64(chosen) = &found[2].array else { panic!("chosen") };
    assert_eq!([chosen[0], chosen[2]], [5, 6]);
}

#[test]
fn files_without_entries_change_nothing() {
    let full = ("required int32", Data::I32(vec![Some(3)]));
    let nothing: [(&str, Data); 4] = [
        ("optional int64", Data::I64(vec![])),
        ("required double", Data::F64(vec![])),
        ("required binary", Data::Text(vec![])),
        ("required int64 x (TIMESTAMP(MICROS,true))", Data::I64(vec![])),
    ];
    let alone = of_one_column(std::slice::from_ref(&full)).unwrap();
    for empty in nothing {
        for files in [[full.clone(), empty.clone()], [empty.clone(), full.clone()]] {
            let chain = of_one_column(&files).unwrap();
            assert_eq!(chain.schema(), alone.schema());
            assert_eq!(arrays(&chain, &["x"], None), arrays(&alone, &["x"], None));
        }
        let chain = of_one_column(&[empty.clone(), empty]).unwrap();
        assert_eq!(chain.entries(), 0);
        assert_eq!(arrays(&chain, &["1"], None), [Array::I64(vec![]).into()]);
    }
}

#[test]
fn a_column_of_nothing_but_missing_values_goes_with_every_other() {
    let nothing = ("optional int32 x (UNKNOWN)", Data::I32(vec![None, None]));
    for (other, kind, is_float) in [
        (("required int64", ints(&[BIG])), Kind::I64, false),
        (("required double", Data::F64(vec![Some(0.5)])), Kind::F64, true),
        (("required boolean", Data::Bool(vec![Some(true)])), Kind::Bool, false),
    ] {
        for files in [[nothing.clone(), other.clone()], [other.clone(), nothing.clone()]] {
            let chain = of_one_column(&files).unwrap();
            assert_eq!(chain.schema().columns[0].kind, kind);
            let found = arrays(&chain, &["x", "isnan(x)"], None);
            assert_eq!(found[0].present.is_none(), is_float);
            let Array::Bool(missing) = &found[1].array else { panic!("missing") };
            assert_eq!(missing.iter().map(|one| u32::from(*one)).sum::<u32>(), 2);
        }
    }
    let chain = of_one_column(std::slice::from_ref(&nothing)).unwrap();
    assert_eq!(chain.schema().refused[0].1, "has no type: all its values are missing");
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
