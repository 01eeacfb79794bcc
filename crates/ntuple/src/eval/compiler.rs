//! From the graph of a plan to a list of instructions on registers.

use super::program::{
    Arg, Comparison, FloatFrom, Input, Instruction, IntFrom, MaskFrom, Program, Slot, Slots, Test, Value,
};
use crate::expr::{Binary, Cmp, From, Graph, Id, Jagged, Op, Scalar, Type, Unary};
use std::collections::HashMap;

/// Registers that are free again, and how many there are.
#[derive(Default)]
struct Bank {
    free: Vec<u16>,
    count: u16,
}

impl Bank {
    fn take(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

/// Constants stand in the instructions that use them, and only masks come from comparisons.
const NOT_COMPUTED: &str = "no instruction computes this type from this operation";

struct Compiler<'a> {
    graph: &'a Graph,
    slots: &'a Slots,
    program: Program,
    /// Uses that are still to come.
    uses: HashMap<Id, u32>,
    registers: HashMap<Id, u16>,
    floats: Bank,
    ints: Bank,
    masks: Bank,
}

/// Compiles the values `roots`, all of one domain; their registers hold until the end of the program. What is in `slots`
/// was computed before.
pub(super) fn compile(graph: &Graph, roots: &[Id], slots: &Slots) -> (Program, Vec<Value>) {
    let mut compiler = Compiler {
        graph,
        slots,
        program: Program::default(),
        uses: HashMap::new(),
        registers: HashMap::new(),
        floats: Bank::default(),
        ints: Bank::default(),
        masks: Bank::default(),
    };
    let mut needed = vec![false; graph.len()];
    for root in roots {
        // A column is used where it is stored: no instruction.
        if !matches!(graph.node(*root).op, Op::Column(_)) {
            compiler.need(*root, &mut needed);
        }
    }
    for index in (0..needed.len()).rev() {
        if needed[index] {
            let id = Id(index as u32);
            compiler.arguments(id).into_iter().for_each(|argument| compiler.need(argument, &mut needed));
        }
    }
    for index in (0..needed.len()).filter(|index| needed[*index]) {
        compiler.emit(Id(index as u32));
    }
    let values = roots.iter().map(|root| compiler.value(*root)).collect();
    let mut program = compiler.program;
    (program.floats, program.ints, program.masks) =
        (compiler.floats.count.into(), compiler.ints.count.into(), compiler.masks.count.into());
    (program, values)
}

impl Compiler<'_> {
    fn need(&mut self, id: Id, needed: &mut [bool]) {
        needed[id.index()] = true;
        *self.uses.entry(id).or_insert(0) += 1;
    }

    /// What the instruction of `id` reads; columns inside fused instructions are not read from registers.
    fn arguments(&self, id: Id) -> Vec<Id> {
        if self.slots.contains_key(&id) || self.fused_compare(id).is_some() {
            return Vec::new();
        }
        if self.sum_of_parts(id).is_some() {
            return Vec::new();
        }
        if let Some((a, b)) = self.sum_of_squares(id) {
            return vec![a, b];
        }
        match self.graph.node(id).op {
            Op::Const(_) | Op::Column(_) | Op::Present(_) => Vec::new(),
            Op::Unary(Unary::ToFloat, a) if matches!(self.graph.node(a).op, Op::Column(_)) => Vec::new(),
            Op::Unary(_, a) => vec![a],
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![a, b],
            Op::Select(a, b, c) => vec![a, b, c],
            Op::Jagged(Jagged::At(_, place)) => vec![place],
            Op::Jagged(_) => Vec::new(),
        }
    }

    /// What is read of slots to compute `id`, if it is computed of them.
    fn input<T>(&self, id: Id, constant: impl Fn(Scalar) -> Option<T>) -> Option<Input<T>> {
        if let Some(slot) = self.slots.get(&id) {
            return Some(Input::Own(*slot));
        }
        let slot = |id: Id| *self.slots.get(&id).expect("a step runs when its inputs were computed");
        let side = |id: Id| match self.graph.node(id).op {
            Op::Const(value) => Arg::Const(constant(value).expect("both sides have one type")),
            _ => Arg::Register(slot(id).0),
        };
        match self.graph.node(id).op {
            Op::Jagged(Jagged::Lift(from, a)) => Some(Input::Lift(slot(a), from)),
            Op::Jagged(Jagged::Join(a, b)) => Some(Input::Join(side(a), side(b))),
            Op::Jagged(Jagged::At(a, place)) => {
                Some(Input::At(slot(a), self.graph.domain(a), self.int(place)))
            }
            _ => None,
        }
    }

    /// `a + b`, or `a + b + c`, of floats that are lifted.
    fn sum_of_parts(&self, id: Id) -> Option<[Option<(Slot, From)>; 3]> {
        let node = self.graph.node(id);
        let (Op::Binary(Binary::Add, left, last), Type::Float) = (node.op, node.ty) else {
            return None;
        };
        let lifted = |id: Id| match self.graph.node(id).op {
            Op::Jagged(Jagged::Lift(from, a)) => Some((*self.slots.get(&a)?, from)),
            _ => None,
        };
        let last = lifted(last)?;
        if let Some(first) = lifted(left) {
            return Some([Some(first), Some(last), None]);
        }
        let Op::Binary(Binary::Add, first, second) = self.graph.node(left).op else {
            return None;
        };
        Some([Some(lifted(first)?), Some(lifted(second)?), Some(last)])
    }

    /// `a*a + b*b` of floats.
    fn sum_of_squares(&self, id: Id) -> Option<(Id, Id)> {
        let node = self.graph.node(id);
        let Op::Binary(Binary::Add, left, right) = node.op else {
            return None;
        };
        match (node.ty, self.graph.node(left).op, self.graph.node(right).op) {
            (Type::Float, Op::Binary(Binary::Mul, a, c), Op::Binary(Binary::Mul, b, d))
                if a == c && b == d =>
            {
                Some((a, b))
            }
            _ => None,
        }
    }

    /// `column < constant` and its like, with or without `abs`.
    fn fused_compare(&self, id: Id) -> Option<(usize, bool, Test)> {
        let Op::Compare(op, a, b) = self.graph.node(id).op else {
            return None;
        };
        let (side, value, constant) = match (self.graph.node(a).op, self.graph.node(b).op, op) {
            (_, Op::Const(Scalar::Float(c)), Cmp::Less) => (Comparison::Less, a, c),
            (_, Op::Const(Scalar::Float(c)), Cmp::LessEqual) => (Comparison::LessEqual, a, c),
            (Op::Const(Scalar::Float(c)), _, Cmp::Less) => (Comparison::Greater, b, c),
            (Op::Const(Scalar::Float(c)), _, Cmp::LessEqual) => (Comparison::GreaterEqual, b, c),
            _ => return None,
        };
        let (column, is_abs) = match self.graph.node(value).op {
            Op::Unary(Unary::Abs, inner) => (inner, true),
            _ => (value, false),
        };
        match self.graph.node(column).op {
            Op::Column(column) => Some((column, is_abs, Test::new(side, constant))),
            Op::Unary(Unary::ToFloat, inner) => match self.graph.node(inner).op {
                Op::Column(column) => Some((column, is_abs, Test::new(side, constant))),
                _ => None,
            },
            _ => None,
        }
    }

    fn emit(&mut self, id: Id) {
        let node = self.graph.node(id);
        if matches!(node.op, Op::Const(_)) {
            return;
        }
        // The result may not overwrite an argument while it is read, so arguments are freed afterwards.
        let (out, instruction) = match node.ty {
            Type::Float => {
                let out = self.floats.take();
                (out, Instruction::Float(out, self.float_from(id)))
            }
            Type::Int => {
                let out = self.ints.take();
                (out, Instruction::Int(out, self.int_from(id)))
            }
            Type::Bool => {
                let out = self.masks.take();
                (out, Instruction::Mask(out, self.mask_from(id)))
            }
        };
        self.program.instructions.push(instruction);
        self.registers.insert(id, out);
        for argument in self.arguments(id) {
            self.release(argument);
        }
    }

    fn release(&mut self, id: Id) {
        let Some(uses) = self.uses.get_mut(&id) else {
            return;
        };
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let Some(register) = self.registers.get(&id) else {
            return;
        };
        let bank = match self.graph.ty(id) {
            Type::Float => &mut self.floats,
            Type::Int => &mut self.ints,
            Type::Bool => &mut self.masks,
        };
        bank.free.push(*register);
    }

    fn float_from(&self, id: Id) -> FloatFrom {
        let constant = |value| if let Scalar::Float(value) = value { Some(value) } else { None };
        if let Some(input) = self.input(id, constant) {
            return FloatFrom::Input(input);
        }
        if let Some(parts) = self.sum_of_parts(id) {
            return FloatFrom::SumOfParts(parts);
        }
        if let Some((a, b)) = self.sum_of_squares(id) {
            return FloatFrom::SumSquares(self.float(a), self.float(b));
        }
        match self.graph.node(id).op {
            Op::Column(column) => FloatFrom::Column(column),
            Op::Unary(Unary::ToFloat, a) => {
                let argument = self.graph.node(a);
                match (argument.op, argument.ty) {
                    (Op::Column(column), _) => FloatFrom::Column(column),
                    (_, Type::Int) => FloatFrom::Int(self.int(a)),
                    _ => FloatFrom::Mask(self.mask(a)),
                }
            }
            Op::Unary(op, a) => FloatFrom::Unary(op, self.float(a)),
            Op::Binary(op, a, b) => FloatFrom::Binary(op, self.float(a), self.float(b)),
            Op::Select(c, yes, no) => FloatFrom::Select(self.register(c), self.float(yes), self.float(no)),
            Op::Compare(..) | Op::Const(_) | Op::Present(_) | Op::Jagged(_) => unreachable!("{NOT_COMPUTED}"),
        }
    }

    fn int_from(&self, id: Id) -> IntFrom {
        let constant = |value| if let Scalar::Int(value) = value { Some(value) } else { None };
        if let Some(input) = self.input(id, constant) {
            return IntFrom::Input(input);
        }
        match self.graph.node(id).op {
            Op::Column(column) => IntFrom::Column(column),
            Op::Unary(Unary::ToInt, a) => IntFrom::Mask(self.mask(a)),
            Op::Unary(op, a) => IntFrom::Unary(op, self.int(a)),
            Op::Binary(op, a, b) => IntFrom::Binary(op, self.int(a), self.int(b)),
            Op::Select(c, yes, no) => IntFrom::Select(self.register(c), self.int(yes), self.int(no)),
            Op::Jagged(Jagged::Position) => IntFrom::Position,
            Op::Compare(..) | Op::Const(_) | Op::Present(_) | Op::Jagged(_) => unreachable!("{NOT_COMPUTED}"),
        }
    }

    fn mask_from(&self, id: Id) -> MaskFrom {
        let constant = |value| if let Scalar::Bool(value) = value { Some(u8::from(value)) } else { None };
        if let Some(input) = self.input(id, constant) {
            return MaskFrom::Input(input);
        }
        if let Some((column, is_abs, test)) = self.fused_compare(id) {
            return MaskFrom::CompareColumn { column, is_abs, test };
        }
        match self.graph.node(id).op {
            Op::Column(column) => MaskFrom::Column(column),
            Op::Present(column) => MaskFrom::Present(column),
            Op::Unary(Unary::IsNan, a) => MaskFrom::IsNan(self.float(a)),
            Op::Unary(_, a) => MaskFrom::Not(self.mask(a)),
            Op::Binary(Binary::And, a, b) => MaskFrom::And(self.mask(a), self.mask(b)),
            Op::Binary(_, a, b) => MaskFrom::Or(self.mask(a), self.mask(b)),
            Op::Compare(op, a, b) => match self.graph.ty(a) {
                Type::Float => MaskFrom::CompareFloats(op, self.float(a), self.float(b)),
                Type::Int => MaskFrom::CompareInts(op, self.int(a), self.int(b)),
                Type::Bool => MaskFrom::CompareMasks(op, self.mask(a), self.mask(b)),
            },
            Op::Select(c, yes, no) => MaskFrom::Select(self.register(c), self.mask(yes), self.mask(no)),
            Op::Const(_) | Op::Jagged(_) => unreachable!("{NOT_COMPUTED}"),
        }
    }

    fn register(&self, id: Id) -> u16 {
        *self.registers.get(&id).expect("arguments have smaller numbers and were emitted before")
    }

    fn float(&self, id: Id) -> Arg<f64> {
        match self.graph.node(id).op {
            Op::Const(Scalar::Float(value)) => Arg::Const(value),
            _ => Arg::Register(self.register(id)),
        }
    }

    fn int(&self, id: Id) -> Arg<i64> {
        match self.graph.node(id).op {
            Op::Const(Scalar::Int(value)) => Arg::Const(value),
            _ => Arg::Register(self.register(id)),
        }
    }

    fn mask(&self, id: Id) -> Arg<u8> {
        match self.graph.node(id).op {
            Op::Const(Scalar::Bool(value)) => Arg::Const(u8::from(value)),
            _ => Arg::Register(self.register(id)),
        }
    }

    fn value(&self, id: Id) -> Value {
        let node = self.graph.node(id);
        match (node.op, node.ty) {
            (Op::Column(column), _) => Value::Column(column),
            (_, Type::Float) => Value::Float(self.float(id)),
            (_, Type::Int) => Value::Int(self.int(id)),
            (_, Type::Bool) => Value::Mask(self.mask(id)),
        }
    }
}
