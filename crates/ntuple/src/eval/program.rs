//! Instructions on registers.

use crate::expr::{Binary, Cmp, Domain, From, Id, Unary};
use std::collections::HashMap;

/// A register or a constant.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arg<T> {
    Register(u16),
    Const(T),
}

/// What a program computes for its user.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Float(Arg<f64>),
    Int(Arg<i64>),
    Mask(Arg<u8>),
    /// A column, as it is stored.
    Column(usize),
}

/// A register, and what is computed into it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction {
    Float(u16, FloatFrom),
    Int(u16, IntFrom),
    Mask(u16, MaskFrom),
}

/// A value that was computed before, for all rows of a domain of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u16);

/// Slots of the values that were computed before.
pub(super) type Slots = HashMap<Id, Slot>;

/// What a register is computed from that other rows, or an earlier program, gave.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input<T> {
    /// The same row.
    Own(Slot),
    /// The entry of the row, or a part of it.
    Lift(Slot, From),
    /// Rows of two lists, one after the other; registers are slots.
    Join(Arg<T>, Arg<T>),
    /// The element at a place in the list of the entry.
    At(Slot, Domain, Arg<i64>),
}

/// What a register of floats is computed from.
#[derive(Debug, Clone, Copy)]
pub(super) enum FloatFrom {
    Input(Input<f64>),
    /// The sum of the values of two or three parts: the momentum of a combination.
    SumOfParts([Option<(Slot, From)>; 3]),
    Column(usize),
    Int(Arg<i64>),
    Mask(Arg<u8>),
    Unary(Unary, Arg<f64>),
    Binary(Binary, Arg<f64>, Arg<f64>),
    /// `a*a + b*b`, the start of every radius.
    SumSquares(Arg<f64>, Arg<f64>),
    /// The register of the condition, then the value where it holds and where not.
    Select(u16, Arg<f64>, Arg<f64>),
}

/// What a register of integers is computed from.
#[derive(Debug, Clone, Copy)]
pub(super) enum IntFrom {
    Input(Input<i64>),
    /// Number of the row in its entry.
    Position,
    Column(usize),
    Mask(Arg<u8>),
    Unary(Unary, Arg<i64>),
    Binary(Binary, Arg<i64>, Arg<i64>),
    /// The register of the condition, then the value where it holds and where not.
    Select(u16, Arg<i64>, Arg<i64>),
}

/// What a register of truth values is computed from.
#[derive(Debug, Clone, Copy)]
pub(super) enum MaskFrom {
    Input(Input<u8>),
    Column(usize),
    /// Where a column has values.
    Present(usize),
    Not(Arg<u8>),
    And(Arg<u8>, Arg<u8>),
    Or(Arg<u8>, Arg<u8>),
    IsNan(Arg<f64>),
    CompareFloats(Cmp, Arg<f64>, Arg<f64>),
    CompareInts(Cmp, Arg<i64>, Arg<i64>),
    CompareMasks(Cmp, Arg<u8>, Arg<u8>),
    /// A column, or its absolute value, against a constant: no load, no widening.
    CompareColumn {
        column: usize,
        is_abs: bool,
        test: Test,
    },
    /// The register of the condition, then the value where it holds and where not.
    Select(u16, Arg<u8>, Arg<u8>),
}

/// A comparison of a value with a constant on its right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Test {
    pub(super) relation: Comparison,
    pub(super) constant: f64,
    /// The constant for 32-bit values: see [`Test::new`].
    pub(super) nearest: f32,
}

impl Program {
    /// Whether it reads anything by the entry of a row.
    pub(super) fn needs_entries(&self) -> bool {
        fn by_entry<T>(input: &Input<T>) -> bool {
            matches!(input, Input::Lift(_, From::Entry) | Input::At(..))
        }
        self.instructions.iter().any(|instruction| match instruction {
            Instruction::Float(_, FloatFrom::Input(input)) => by_entry(input),
            Instruction::Float(_, FloatFrom::SumOfParts(_)) => true,
            Instruction::Int(_, IntFrom::Input(input)) => by_entry(input),
            Instruction::Mask(_, MaskFrom::Input(input)) => by_entry(input),
            Instruction::Int(_, IntFrom::Position) => true,
            _ => false,
        })
    }
}

/// The relation of the value to the constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Test {
    /// For 32-bit x and any c, `x < c` is `x < up(c)` and `x <= c` is `x <= down(c)`, where `up` and `down` are the
    /// 32-bit neighbours of c: no 32-bit number lies between c and its neighbour.
    pub(super) fn new(relation: Comparison, constant: f64) -> Self {
        let near = constant as f32;
        let nearest = match relation {
            Comparison::Less | Comparison::GreaterEqual if f64::from(near) < constant => near.next_up(),
            Comparison::LessEqual | Comparison::Greater if f64::from(near) > constant => near.next_down(),
            _ => near,
        };
        Self { relation, constant, nearest }
    }
}

/// Instructions, and the registers of each kind that they use.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    pub(super) floats: usize,
    pub(super) ints: usize,
    pub(super) masks: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn narrow_tests_answer_as_wide_ones(x: f32, c in prop_oneof![any::<f64>(), any::<f32>().prop_map(f64::from), -3.0..3.0f64]) {
            let wide = f64::from(x);
            prop_assert_eq!(x < Test::new(Comparison::Less, c).nearest, wide < c);
            prop_assert_eq!(x <= Test::new(Comparison::LessEqual, c).nearest, wide <= c);
            prop_assert_eq!(x > Test::new(Comparison::Greater, c).nearest, wide > c);
            prop_assert_eq!(x >= Test::new(Comparison::GreaterEqual, c).nearest, wide >= c);
        }
    }
}
