//! Typed operations without repetition: every distinct value of all expressions of a plan is one node.

mod apply;
mod domain;

pub(crate) use apply::{
    apply_binary, apply_unary, compare, float_binary, float_unary, holds, int_binary, is_sure_radius,
};
use base::{Failure, Result};
pub(super) use domain::Rebuilt;
pub(crate) use domain::{Choice, Combination, Domain, Domains, From, Jagged, Part, Pick, Reduction, Rows};
use std::collections::HashMap;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// 64-bit integer; wraps around.
    Int,
    /// 64-bit floating point.
    Float,
}

impl Type {
    /// The name in error messages and in Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
        }
    }
}

/// One value, for constants and for the naive evaluator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    pub(crate) fn ty(self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Float(_) => Type::Float,
        }
    }

    /// Bits that are equal only for the same value; NaN equals itself.
    fn key(self) -> u64 {
        match self {
            Self::Bool(value) => u64::from(value),
            Self::Int(value) => value as u64,
            Self::Float(value) => value.to_bits(),
        }
    }
}

/// A node of a [`Graph`]; arguments have smaller numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Comparisons after `>` and `>=` have been turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Cmp {
    Less,
    LessEqual,
    Equal,
    NotEqual,
}

/// Operations on one value. The first group works on floats only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Sqrt,
    Exp,
    /// `exp(x) - 1`, exact near 0.
    Expm1,
    Log,
    /// `log(1 + x)`, exact near 0.
    Log1p,
    Log10,
    Log2,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    /// The square root, of the absolute value and with its sign: a mass from its square.
    SignedSqrt,
    Floor,
    Ceil,
    Round,
    IsNan,
    /// On floats or integers.
    Neg,
    /// On floats or integers.
    Abs,
    /// On truth values.
    Not,
    /// Bool or int to float.
    ToFloat,
    /// Bool to int.
    ToInt,
}

/// Operations on two values of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    /// Floats only.
    Div,
    Mod,
    Min,
    Max,
    /// Floats only.
    Pow,
    /// Floats only.
    Atan2,
    /// Floats only.
    Hypot,
    And,
    Or,
}

/// What a node computes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Const(Scalar),
    /// Column of the schema.
    Column(usize),
    /// Whether a row of that column has a value.
    Present(usize),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    Compare(Cmp, Id, Id),
    Select(Id, Id, Id),
    Jagged(Jagged),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) ty: Type,
    /// The rows in which it has a value. Constants are the same in all.
    pub(crate) domain: Domain,
}

/// Most distinct values of one plan: hundreds of histograms fit.
const NODES_MAX: usize = 65_536;

/// What makes two nodes the same: operation, type, arguments or constant bits.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Const(Type, u64),
    Column(usize),
    Present(usize),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    Compare(Cmp, Id, Id),
    Select(Id, Id, Id),
    Jagged(Jagged, Domain),
}

/// All values of a plan.
///
/// Floats that are missing are NaN. Integers and truth values have no such value: beside each of those that can be
/// missing stands a truth value that says where it is present; see `missing.rs`.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    known: HashMap<Key, Id>,
    /// Where an integer or truth value is present; those not listed always are.
    pub(super) present: HashMap<Id, Id>,
    domains: Domains,
}

impl Graph {
    pub(crate) fn node(&self, id: Id) -> Node {
        self.nodes[id.index()]
    }

    pub(crate) fn ty(&self, id: Id) -> Type {
        self.node(id).ty
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn constant(&mut self, value: Scalar) -> Id {
        self.intern(Key::Const(value.ty(), value.key()), Op::Const(value), value.ty(), Domain::ENTRIES)
    }

    pub(super) fn plain_column(&mut self, column: usize, ty: Type, domain: Domain) -> Id {
        self.intern(Key::Column(column), Op::Column(column), ty, domain)
    }

    pub(super) fn presence(&mut self, column: usize, domain: Domain) -> Id {
        self.intern(Key::Present(column), Op::Present(column), Type::Bool, domain)
    }

    pub(super) fn plain_unary(&mut self, op: Unary, a: Id) -> Id {
        if let Op::Const(value) = self.node(a).op {
            return self.constant(apply_unary(op, value));
        }
        let ty = match op {
            Unary::Not | Unary::IsNan => Type::Bool,
            Unary::ToInt => Type::Int,
            Unary::Neg | Unary::Abs => self.ty(a),
            _ => Type::Float,
        };
        self.intern(Key::Unary(op, a), Op::Unary(op, a), ty, self.domain(a))
    }

    pub(super) fn plain_binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        debug_assert_eq!(self.ty(a), self.ty(b));
        match (op, self.node(a).op, self.node(b).op) {
            (op, Op::Const(x), Op::Const(y)) => return self.constant(apply_binary(op, x, y)),
            // What is always present folds away.
            (Binary::And, Op::Const(Scalar::Bool(x)), _) => return if x { b } else { a },
            (Binary::And, _, Op::Const(Scalar::Bool(y))) => return if y { a } else { b },
            (Binary::Or, Op::Const(Scalar::Bool(x)), _) => return if x { a } else { b },
            (Binary::Or, _, Op::Const(Scalar::Bool(y))) => return if y { b } else { a },
            _ => {}
        }
        let (ty, domain) = (self.ty(a), self.joint_domain(&[a, b]));
        self.intern(Key::Binary(op, a, b), Op::Binary(op, a, b), ty, domain)
    }

    pub(super) fn plain_compare(&mut self, op: Cmp, a: Id, b: Id) -> Id {
        debug_assert_eq!(self.ty(a), self.ty(b));
        if let (Op::Const(x), Op::Const(y)) = (self.node(a).op, self.node(b).op) {
            return self.constant(Scalar::Bool(compare(op, x, y)));
        }
        let domain = self.joint_domain(&[a, b]);
        self.intern(Key::Compare(op, a, b), Op::Compare(op, a, b), Type::Bool, domain)
    }

    pub(super) fn plain_select(&mut self, condition: Id, yes: Id, no: Id) -> Id {
        debug_assert_eq!(self.ty(yes), self.ty(no));
        match self.node(condition).op {
            Op::Const(Scalar::Bool(true)) => yes,
            Op::Const(_) => no,
            _ => {
                let (ty, domain) = (self.ty(yes), self.joint_domain(&[condition, yes, no]));
                self.intern(Key::Select(condition, yes, no), Op::Select(condition, yes, no), ty, domain)
            }
        }
    }

    /// Refuses plans beyond the bound; checked after each expression, whose own size is bound.
    pub(crate) fn check_size(&self) -> Result<()> {
        if self.nodes.len() <= NODES_MAX {
            return Ok(());
        }
        Err(Failure::invalid(format!("plan has more than {NODES_MAX} distinct values"))
            .hint("fill the histograms in several passes"))
    }

    fn intern(&mut self, key: Key, op: Op, ty: Type, domain: Domain) -> Id {
        let next = Id(self.nodes.len() as u32);
        let id = *self.known.entry(key).or_insert(next);
        if id == next {
            self.nodes.push(Node { op, ty, domain });
        }
        id
    }
}
