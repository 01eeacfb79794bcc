//! The simple version of the interpreter: one value at a time. The vector kernels must give the same bits.

use super::registers::{Arrays, array, present};
use crate::{
    column::Array,
    expr::{Graph, Id, Op, Scalar, Type, apply_binary, apply_unary, compare},
};

/// The value of `id` in one row.
pub(crate) fn evaluate(graph: &Graph, id: Id, arrays: &Arrays, row: usize) -> Scalar {
    let of = |id: Id| evaluate(graph, id, arrays, row);
    match graph.node(id).op {
        Op::Const(value) => value,
        Op::Column(column) => stored(array(arrays, column), row, graph.ty(id)),
        Op::Present(column) => Scalar::Bool(present(arrays, column).is_none_or(|present| present[row] == 1)),
        Op::Unary(op, a) => apply_unary(op, of(a)),
        Op::Binary(op, a, b) => apply_binary(op, of(a), of(b)),
        Op::Compare(op, a, b) => Scalar::Bool(compare(op, of(a), of(b))),
        Op::Jagged(_) => unreachable!("{id:?} is no value of entries alone"),
        Op::Select(condition, yes, no) => of(if of(condition) == Scalar::Bool(true) { yes } else { no }),
    }
}

fn stored(array: &Array, row: usize, ty: Type) -> Scalar {
    match (array, ty) {
        (Array::F32(values), _) => Scalar::Float(f64::from(values[row])),
        (Array::F64(values), _) => Scalar::Float(values[row]),
        (Array::I32(values), Type::Int) => Scalar::Int(i64::from(values[row])),
        (Array::I64(values), Type::Int) => Scalar::Int(values[row]),
        (Array::Bool(values), Type::Bool) => Scalar::Bool(values[row] != 0),
        (Array::I32(values), _) => Scalar::Float(f64::from(values[row])),
        (Array::I64(values), _) => Scalar::Float(values[row] as f64),
        (Array::Bool(values), _) => Scalar::Float(f64::from(values[row])),
    }
}
