//! The vector interpreter against the naive one.

use super::{naive::evaluate, *};
use crate::{
    column::{Column, Schema, Values},
    expr::{Id, Scalar, Type},
    fill::Axis,
    plan::{HistogramSpec, Plan},
};
use base::rng::Rng;
use proptest::prelude::*;
use std::sync::Arc;

fn schema() -> Schema {
    let columns = [
        ("x", Type::Float),
        ("y", Type::Float),
        ("i", Type::Int),
        ("n", Type::Int),
        ("m", Type::Float),
        ("b", Type::Bool),
        ("o", Type::Int),
        ("p", Type::Bool),
    ];
    Schema {
        columns: columns
            .map(|(name, ty)| Column { is_optional: ["i", "o", "p"].contains(&name), ..Column::of(name, ty) })
            .into(),
        refused: Vec::new(),
    }
}

fn columns(rows: usize, seed: u64) -> Vec<Option<Arc<Values>>> {
    let mut rng = Rng::new(seed);
    let special = [0.0, -0.0, 1.0, -1.0, 2.4, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, 60.0];
    let mut floats = |_| match rng.below(8) {
        0 => special[rng.below(10) as usize],
        _ => rng.below(2_000_001) as f64 / 1e5 - 10.0,
    };
    let x: Vec<f32> = (0..rows).map(&mut floats).map(|x| x as f32).collect();
    let y: Vec<f64> = (0..rows).map(&mut floats).collect();
    let m: Vec<i32> = (0..rows).map(|_| rng.below(7) as i32 - 3).collect();
    let i: Vec<i32> = (0..rows).map(|_| rng.below(7) as i32 - 3).collect();
    let n = (0..rows).map(|_| if rng.chance(1, 9) { i64::MIN } else { rng.below(100) as i64 - 50 }).collect();
    let b: Vec<u8> = (0..rows).map(|_| rng.below(2) as u8).collect();
    let present = |rng: &mut Rng| (0..rows).map(|_| rng.below(4).min(1) as u8).collect();
    // Every second time nothing is missing, and the other version of the plan runs.
    let gaps = seed.is_multiple_of(2).then(|| [present(&mut rng), present(&mut rng)]);
    let [o, p] = gaps.map_or([None, None], |gaps| gaps.map(Some));
    let optional = [
        Values {
            array: Array::I64((0..rows).map(|row| row as i64 % 7 - 3).collect()),
            present: o,
            offsets: None,
        },
        Values {
            array: Array::Bool((0..rows).map(|row| (row % 3 == 0).into()).collect()),
            present: p,
            offsets: None,
        },
    ];
    [Array::F32(x), Array::F64(y), Array::I32(i), Array::I64(n), Array::I32(m), Array::Bool(b)]
        .map(Values::from)
        .into_iter()
        .chain(optional)
        .map(|values| Some(Arc::new(values)))
        .collect()
}

/// Expressions with a number, and with a truth value, as their result.
fn expressions() -> (BoxedStrategy<String>, BoxedStrategy<String>) {
    let number = prop_oneof![
        Just("x"),
        Just("y"),
        Just("i"),
        Just("n"),
        Just("m"),
        Just("b"),
        Just("o"),
        Just("p"),
        Just("2"),
        Just("0.5"),
        Just("-3"),
        Just("2.4"),
        Just("pi")
    ]
    .prop_map(str::to_owned);
    let relation = prop_oneof![Just("<"), Just("<="), Just(">"), Just(">="), Just("=="), Just("!=")];
    let truth = prop_oneof![
        Just("b".to_owned()),
        Just("p".to_owned()),
        (number.clone(), relation.clone(), number.clone()).prop_map(|(a, r, b)| format!("{a} {r} {b}")),
        (number.clone(), relation, number.clone()).prop_map(|(a, r, b)| format!("abs({a}) {r} {b}")),
    ];
    let number = number.prop_recursive(4, 24, 3, move |inner| {
        let infix = prop_oneof![Just("+"), Just("-"), Just("*"), Just("/"), Just("%"), Just("**")];
        let one = prop_oneof![
            Just("sqrt"),
            Just("abs"),
            Just("-"),
            Just("floor"),
            Just("ceil"),
            Just("round"),
            Just("atan"),
            Just("exp")
        ];
        let two = prop_oneof![Just("min"), Just("max"), Just("hypot"), Just("atan2"), Just("pow")];
        let cut = prop_oneof![
            Just("b"),
            Just("x < 1"),
            Just("not (y >= i)"),
            Just("isnan(x) or n == 3"),
            Just("b == (i > 0)")
        ];
        prop_oneof![
            (inner.clone(), infix, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (one, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (two, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            (cut, inner.clone(), inner).prop_map(|(c, a, b)| format!("where({c}, {a}, {b})")),
        ]
    });
    let truth = truth.prop_recursive(3, 12, 2, |inner| {
        let infix = prop_oneof![Just("and"), Just("or"), Just("&&"), Just("|"), Just("=="), Just("!=")];
        prop_oneof![
            (inner.clone(), infix, inner.clone()).prop_map(|(a, op, b)| format!("(({a}) {op} ({b}))")),
            inner.clone().prop_map(|a| format!("(not ({a}))")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("(b ? ({a}) : ({b}))")),
        ]
    });
    (number.boxed(), truth.boxed())
}

fn same(array: &Array, row: usize, value: Scalar) -> bool {
    match (array, value) {
        (Array::F32(values), Scalar::Float(value)) => same_float(f64::from(values[row]), value),
        (Array::F64(values), Scalar::Float(value)) => same_float(values[row], value),
        (Array::I32(values), Scalar::Int(value)) => i64::from(values[row]) == value,
        (Array::I32(values), Scalar::Float(value)) => f64::from(values[row]) == value,
        (Array::I64(values), Scalar::Int(value)) => values[row] == value,
        (Array::Bool(values), Scalar::Bool(value)) => (values[row] == 1) == value,
        _ => false,
    }
}

fn same_float(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn counters_are_flushed_before_they_overflow() {
    let mut plan = Plan::new(&schema());
    let axes = vec![("x".to_owned(), Axis::regular(1, 0.0, 1.0).unwrap())];
    plan.histogram(HistogramSpec { axes, cut: None, weight: None }).unwrap();
    let compiled = Compiled::new(&mut plan);
    let Worker { mut counters, mut scratch, .. } = Worker::new(&compiled);
    let mut results = Results {
        counters: &mut counters,
        scratch: &mut scratch,
        arrays: &mut [],
        counts: &mut [],
        filled: u32::MAX - 600,
        is_cancelled: &NEVER,
    };
    // Room for one block, then not for another.
    for (flushed, left) in [(0, 7), (7, 0)] {
        if let Counters::Counts { counters, .. } = &mut results.counters[0] {
            counters[1] = 7;
        }
        results.reserve_counts(CHUNK_ROWS);
        let Counters::Counts { counters, total, .. } = &results.counters[0] else { unreachable!() };
        assert_eq!((total[1], counters[1]), (flushed, left));
    }
    assert_eq!(results.filled, CHUNK_ROWS as u32);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arrays_are_those_of_the_naive_evaluator(
        number in expressions().0, truth in expressions().1, cut in expressions().1, rows in 1usize..2500, seed: u64
    ) {
        let arrays = columns(rows, seed);
        let mut plan = Plan::new(&schema());
        plan.array(&number).unwrap();
        plan.array(&truth).unwrap();
        plan.filter(&cut).unwrap();
        let ids: Vec<Id> = plan.arrays.iter().map(|array| array.id).collect();
        let filter = plan.filters[0];
        let compiled = Compiled::new(&mut plan);
        let out = Worker::new(&compiled).row_group(&arrays, rows, &NEVER).arrays;
        let kept: Vec<usize> = (0..rows).filter(|row| evaluate(&plan.graph, filter, &arrays, *row) == Scalar::Bool(true)).collect();
        for (id, array) in ids.iter().zip(&out) {
            let (array, present) = (&array.array, array.present.as_ref());
            prop_assert_eq!(array.len(), kept.len());
            for (index, row) in kept.iter().enumerate() {
                let expected = evaluate(&plan.graph, *id, &arrays, *row);
                let is_there = plan.graph.present(*id).is_none_or(|id| evaluate(&plan.graph, id, &arrays, *row) == Scalar::Bool(true));
                prop_assert_eq!(present.is_none_or(|present| present[index] == 1), is_there);
                prop_assert!(!is_there || same(array, index, expected), "{} {} row {}: {:?}", number, truth, row, expected);
            }
        }
    }

    #[test]
    fn histograms_are_those_filled_one_by_one(
        numbers in prop::collection::vec(expressions().0, 1..3),
        cut in prop::option::of(expressions().1),
        filter in prop::option::of(expressions().1),
        weight in prop::option::of(expressions().0),
        kind in 0usize..3,
        rows in 1usize..2500,
        seed: u64,
    ) {
        let arrays = columns(rows, seed);
        let axis = match kind {
            0 => Axis::regular(10, -5.0, 5.0).unwrap(),
            1 => Axis::variable(&[-3.0, 0.0, 0.5, 7.0]).unwrap(),
            _ => Axis::integer(-3, 5).unwrap(),
        };
        let mut plan = Plan::new(&schema());
        if let Some(filter) = &filter {
            plan.filter(filter).unwrap();
        }
        let axes: Vec<_> = numbers.iter().map(|number| (number.clone(), axis.clone())).collect();
        plan.histogram(HistogramSpec { axes: axes.clone(), cut: cut.clone(), weight: weight.clone() }).unwrap();
        // A second one with another cut keeps the first cut from being shared.
        plan.histogram(HistogramSpec { axes, cut: Some("x < y".to_owned()), weight: None }).unwrap();
        let fills = plan.fills.clone();
        let filter = plan.filters.first().copied();
        let compiled = Compiled::new(&mut plan);
        let mut worker = Worker::new(&compiled);
        let partial = worker.row_group(&arrays, rows, &NEVER);
        let mut found: Vec<_> = fills.iter().map(|fill| fill.empty.clone()).collect();
        let weighted = found.iter_mut().filter_map(|found| match &mut found.bins {
            Bins::Weights(bins) => Some(bins),
            Bins::Counts(_) => None,
        });
        weighted.zip(partial.into_sums(&mut [], &mut [])).for_each(|(bins, sums)| *bins = sums);
        worker.finish(&mut found);
        for (fill, found) in fills.iter().zip(found) {
            let mut expected = fill.empty.clone();
            for row in 0..rows {
                let of = |id: Id| evaluate(&plan.graph, id, &arrays, row);
                let float = |id: Id| match of(id) { Scalar::Float(value) => value, other => panic!("{other:?}") };
                if [filter, fill.cut].into_iter().flatten().all(|id| of(id) == Scalar::Bool(true)) {
                    let values: Vec<f64> = fill.values.iter().map(|id| float(*id)).collect();
                    expected.fill(&values, fill.weight.map_or(1.0, float));
                }
            }
            // NaN weights make NaN sums: compare as text.
            prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
    }
}
