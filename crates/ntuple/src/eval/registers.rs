//! Registers of one thread, and the interpreter that runs a program on them.

use super::{
    CHUNK_ROWS,
    inputs::{Inputs, read},
    kernels::{In, Rows, ToFloat, compare_column, load, load_float, map, select, zip},
    program::{Arg, Comparison, FloatFrom, Instruction, IntFrom, MaskFrom, Program, Test},
};
use crate::{
    column::{Array, Values, with_values},
    expr::{Binary, Cmp, Unary, float_binary, float_unary, holds, int_binary, is_sure_radius},
    simd::{Kernel, dispatch},
};
use std::sync::Arc;

/// Decoded columns of a row group by their index in the schema; those that are not read are missing.
pub(crate) type Arrays = [Option<Arc<Values>>];

/// Vectors of one chunk each.
#[derive(Debug, Default)]
pub(super) struct Registers {
    floats: Vec<Vec<f64>>,
    ints: Vec<Vec<i64>>,
    masks: Vec<Vec<u8>>,
}

/// Takes a register out of its bank while `$compute` writes it and reads others.
///
/// A macro because a closure would be compiled on its own, without the wide vectors of its caller.
macro_rules! write {
    ($self:ident.$bank:ident[$register:expr], $count:expr, |$out:ident| $compute:expr) => {{
        let mut register = std::mem::take(&mut $self.$bank[$register as usize]);
        {
            let $out = &mut register[..$count];
            $compute;
        }
        $self.$bank[$register as usize] = register;
    }};
}

macro_rules! access {
    ($read:ident, $bank:ident, $ty:ty) => {
        /// The values of an argument.
        #[inline(always)]
        pub(super) fn $read(&self, arg: Arg<$ty>, count: usize) -> In<'_, $ty> {
            match arg {
                Arg::Register(register) => In::Slice(&self.$bank[register as usize][..count]),
                Arg::Const(value) => In::Const(value),
            }
        }
    };
}

/// The column of index `column`, which the plan reads.
#[inline(always)]
pub(super) fn array(arrays: &Arrays, column: usize) -> &Array {
    &values(arrays, column).array
}

/// Where that column has values; `None` if everywhere.
#[inline(always)]
pub(super) fn present(arrays: &Arrays, column: usize) -> Option<&[u8]> {
    values(arrays, column).present.as_deref()
}

#[inline(always)]
fn values(arrays: &Arrays, column: usize) -> &Values {
    arrays[column].as_ref().expect("every column that the plan reads was decoded")
}

struct Run<'a> {
    registers: &'a mut Registers,
    program: &'a Program,
    inputs: &'a Inputs<'a>,
    rows: Rows<'a>,
}

impl Kernel for Run<'_> {
    #[inline(always)]
    fn run(self) {
        for instruction in &self.program.instructions {
            self.registers.step(*instruction, self.inputs, self.rows);
        }
    }
}

impl Registers {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            floats: vec![vec![0.0; CHUNK_ROWS]; program.floats],
            ints: vec![vec![0; CHUNK_ROWS]; program.ints],
            masks: vec![vec![0; CHUNK_ROWS]; program.masks],
        }
    }

    access!(float, floats, f64);
    access!(int, ints, i64);
    access!(mask, masks, u8);

    /// The first `count` values of a register.
    #[inline(always)]
    pub(super) fn register(&self, register: u16, count: usize) -> &[f64] {
        &self.floats[register as usize][..count]
    }

    /// Runs all of `program` on the rows of one chunk.
    ///
    /// A kernel of its own: drawn into each of its callers, it would be most of the time that this crate takes to compile.
    pub(super) fn run(&mut self, program: &Program, inputs: &Inputs<'_>, rows: Rows<'_>) {
        dispatch(Run { registers: self, program, inputs, rows });
    }

    #[inline(always)]
    fn step(&mut self, instruction: Instruction, inputs: &Inputs<'_>, rows: Rows<'_>) {
        match instruction {
            Instruction::Float(out, from) => {
                write!(self.floats[out], rows.count, |out| self.compute_floats(out, from, inputs, rows));
            }
            Instruction::Int(out, from) => {
                write!(self.ints[out], rows.count, |out| self.compute_ints(out, from, inputs, rows));
            }
            Instruction::Mask(out, from) => {
                write!(self.masks[out], rows.count, |out| self.compute_masks(out, from, inputs, rows));
            }
        }
    }

    #[inline(always)]
    fn compute_floats(&self, out: &mut [f64], from: FloatFrom, inputs: &Inputs<'_>, rows: Rows<'_>) {
        let (n, arrays) = (rows.count, inputs.columns);
        match from {
            FloatFrom::Input(from) => read(out, from, inputs, |place| self.int(place, n)),
            FloatFrom::Column(column) => load_float(out, array(arrays, column), rows),
            FloatFrom::SumOfParts(parts) => inputs.sum_of_parts(out, parts),
            FloatFrom::Int(a) => map(out, self.int(a, n), |a| a as f64),
            FloatFrom::Mask(a) => map(out, self.mask(a, n), f64::from),
            FloatFrom::Unary(op, a) => unary(op, out, self.float(a, n)),
            FloatFrom::Binary(op, a, b) => binary(op, out, self.float(a, n), self.float(b, n)),
            FloatFrom::SumSquares(a, b) => {
                zip(out, self.float(a, n), self.float(b, n), |a, b| a * a + b * b);
            }
            FloatFrom::Select(condition, yes, no) => {
                select(out, self.condition(condition, n), self.float(yes, n), self.float(no, n));
            }
        }
    }

    #[inline(always)]
    fn compute_ints(&self, out: &mut [i64], from: IntFrom, inputs: &Inputs<'_>, rows: Rows<'_>) {
        let (n, arrays) = (rows.count, inputs.columns);
        match from {
            IntFrom::Input(from) => read(out, from, inputs, |place| self.int(place, n)),
            IntFrom::Position => inputs.positions(out),
            IntFrom::Column(column) => load_int(out, array(arrays, column), rows),
            IntFrom::Mask(a) => map(out, self.mask(a, n), i64::from),
            IntFrom::Unary(Unary::Neg, a) => map(out, self.int(a, n), i64::wrapping_neg),
            IntFrom::Unary(_, a) => map(out, self.int(a, n), i64::wrapping_abs),
            IntFrom::Binary(op, a, b) => integer(op, out, self.int(a, n), self.int(b, n)),
            IntFrom::Select(condition, yes, no) => {
                select(out, self.condition(condition, n), self.int(yes, n), self.int(no, n));
            }
        }
    }

    #[inline(always)]
    fn compute_masks(&self, out: &mut [u8], from: MaskFrom, inputs: &Inputs<'_>, rows: Rows<'_>) {
        let (n, arrays) = (rows.count, inputs.columns);
        match from {
            MaskFrom::Input(from) => read(out, from, inputs, |place| self.int(place, n)),
            MaskFrom::Column(column) => load_mask(out, array(arrays, column), rows),
            MaskFrom::Present(column) => match present(arrays, column) {
                Some(present) => load(out, present, rows, |value| value),
                None => out.fill(1),
            },
            MaskFrom::Not(a) => map(out, self.mask(a, n), |a| a ^ 1),
            MaskFrom::And(a, b) => zip(out, self.mask(a, n), self.mask(b, n), |a, b| a & b),
            MaskFrom::Or(a, b) => zip(out, self.mask(a, n), self.mask(b, n), |a, b| a | b),
            MaskFrom::IsNan(a) => map(out, self.float(a, n), |a| u8::from(a.is_nan())),
            MaskFrom::CompareFloats(op, a, b) => relate(op, out, self.float(a, n), self.float(b, n)),
            MaskFrom::CompareInts(op, a, b) => relate(op, out, self.int(a, n), self.int(b, n)),
            MaskFrom::CompareMasks(op, a, b) => relate(op, out, self.mask(a, n), self.mask(b, n)),
            MaskFrom::CompareColumn { column, is_abs, test } => {
                test_column(out, array(arrays, column), rows, is_abs, test);
            }
            MaskFrom::Select(condition, yes, no) => {
                select(out, self.condition(condition, n), self.mask(yes, n), self.mask(no, n));
            }
        }
    }

    /// The rows of a column of integers.
    #[inline(always)]
    pub(super) fn load_column(out: &mut [i64], arrays: &Arrays, column: usize, rows: Rows<'_>) {
        load_int(out, array(arrays, column), rows);
    }

    #[inline(always)]
    fn condition(&self, register: u16, count: usize) -> &[u8] {
        &self.masks[register as usize][..count]
    }
}

#[inline(always)]
fn load_int(out: &mut [i64], array: &Array, rows: Rows<'_>) {
    match array {
        Array::I32(values) => load(out, values, rows, i64::from),
        Array::I64(values) => load(out, values, rows, |value| value),
        Array::Bool(values) => load(out, values, rows, i64::from),
        // A chain never mixes integers and floats in one column.
        Array::F32(_) | Array::F64(_) => unreachable!("an integer column was decoded as float"),
    }
}

#[inline(always)]
fn load_mask(out: &mut [u8], array: &Array, rows: Rows<'_>) {
    match array {
        Array::Bool(values) => load(out, values, rows, |value| value),
        array => {
            with_values!(array, values => load(out, values, rows, |value| u8::from(value.to_float() != 0.0)));
        }
    }
}

/// One loop for each operation that the compiler can make vector code of: the match stands outside the loops.
#[inline(always)]
fn unary(op: Unary, out: &mut [f64], a: In<'_, f64>) {
    match op {
        Unary::Sqrt => map(out, a, f64::sqrt),
        Unary::Neg => map(out, a, |a| -a),
        Unary::Abs => map(out, a, f64::abs),
        Unary::Floor => map(out, a, f64::floor),
        Unary::Ceil => map(out, a, f64::ceil),
        Unary::SignedSqrt => map(out, a, |a| a.abs().sqrt().copysign(a)),
        Unary::Round => map(out, a, f64::round_ties_even),
        // The others are calls of the mathematical library, beside which the match inside the loop costs nothing.
        op => map(out, a, |a| float_unary(op, a)),
    }
}

#[inline(always)]
fn binary(op: Binary, out: &mut [f64], a: In<'_, f64>, b: In<'_, f64>) {
    match op {
        Binary::Add => zip(out, a, b, |a, b| a + b),
        Binary::Sub => zip(out, a, b, |a, b| a - b),
        Binary::Mul => zip(out, a, b, |a, b| a * b),
        Binary::Div => zip(out, a, b, |a, b| a / b),
        Binary::Min => zip(out, a, b, |a, b| float_binary(Binary::Min, a, b)),
        Binary::Max => zip(out, a, b, |a, b| float_binary(Binary::Max, a, b)),
        Binary::Hypot => hypot(out, a, b),
        op => zip(out, a, b, |a, b| float_binary(op, a, b)),
    }
}

/// All of it is vector code; then the few results that need more than that are computed again.
#[inline(always)]
fn hypot(out: &mut [f64], a: In<'_, f64>, b: In<'_, f64>) {
    zip(out, a, b, |a, b| (a * a + b * b).sqrt());
    // Without an early end, so that this is vector code, too.
    if out.iter().fold(true, |all, radius| all & is_sure_radius(*radius)) {
        return;
    }
    for (index, radius) in out.iter_mut().enumerate() {
        if !is_sure_radius(*radius) {
            *radius = float_binary(Binary::Hypot, a.at(index), b.at(index));
        }
    }
}

#[inline(always)]
fn integer(op: Binary, out: &mut [i64], a: In<'_, i64>, b: In<'_, i64>) {
    match op {
        Binary::Add => zip(out, a, b, i64::wrapping_add),
        Binary::Sub => zip(out, a, b, i64::wrapping_sub),
        Binary::Mul => zip(out, a, b, i64::wrapping_mul),
        op => zip(out, a, b, |a, b| int_binary(op, a, b)),
    }
}

#[inline(always)]
fn relate<T: PartialOrd + Copy>(op: Cmp, out: &mut [u8], a: In<'_, T>, b: In<'_, T>) {
    match op {
        Cmp::Less => zip(out, a, b, |a, b| u8::from(holds(Cmp::Less, a, b))),
        Cmp::LessEqual => zip(out, a, b, |a, b| u8::from(holds(Cmp::LessEqual, a, b))),
        Cmp::Equal => zip(out, a, b, |a, b| u8::from(holds(Cmp::Equal, a, b))),
        Cmp::NotEqual => zip(out, a, b, |a, b| u8::from(holds(Cmp::NotEqual, a, b))),
    }
}

#[inline(always)]
fn test_column(out: &mut [u8], array: &Array, rows: Rows<'_>, is_abs: bool, test: Test) {
    let constant = (test.constant, test.nearest);
    match test.relation {
        Comparison::Less => compare_column(out, array, rows, is_abs, constant, |x, c| x < c, |x, c| x < c),
        Comparison::LessEqual => {
            compare_column(out, array, rows, is_abs, constant, |x, c| x <= c, |x, c| x <= c);
        }
        Comparison::Greater => compare_column(out, array, rows, is_abs, constant, |x, c| x > c, |x, c| x > c),
        Comparison::GreaterEqual => {
            compare_column(out, array, rows, is_abs, constant, |x, c| x >= c, |x, c| x >= c);
        }
    }
}
