//! Integers against constants with a fraction, compared by their values: as floats they would be rounded first.

use super::{
    Relation,
    graph::{Binary, Cmp, Graph, Id, Op, Scalar, Type, Unary},
};

/// 2⁶³: no integer of 64 bits is as large, and its negative is the smallest.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

impl Graph {
    /// `left relation right`, compared as floats only if both are or if both vary.
    pub(crate) fn relate(&mut self, relation: Relation, left: Id, right: Id) -> Id {
        let constant = |graph: &Self, id: Id| match graph.node(id).op {
            Op::Const(Scalar::Float(value)) if !value.is_nan() => Some(value),
            _ => None,
        };
        let types = (self.ty(left), self.ty(right));
        match (types, constant(self, left), constant(self, right)) {
            ((Type::Int, Type::Float), _, Some(c)) => self.relate_to(relation, left, c),
            ((Type::Float, Type::Int), Some(c), _) => self.relate_to(relation.mirrored(), right, c),
            _ => {
                let (a, b) = self.unify(left, right);
                match relation {
                    Relation::Less => self.compare(Cmp::Less, a, b),
                    Relation::LessEqual => self.compare(Cmp::LessEqual, a, b),
                    Relation::Greater => self.compare(Cmp::Less, b, a),
                    Relation::GreaterEqual => self.compare(Cmp::LessEqual, b, a),
                    Relation::Equal => self.compare(Cmp::Equal, a, b),
                    Relation::NotEqual => self.compare(Cmp::NotEqual, a, b),
                }
            }
        }
    }

    /// The integer `a` in a relation to `c`: the same as in a relation to a whole number beside `c`. Where there is none of
    /// 64 bits, it is the relation to the largest or smallest that always holds, or never.
    fn relate_to(&mut self, relation: Relation, a: Id, c: f64) -> Id {
        let (low, high) = (c.floor(), c.ceil());
        let mut whole = |value: i64| self.constant(Scalar::Int(value));
        let (least, most) = (whole(i64::MIN), whole(i64::MAX));
        let (low_id, high_id) = (whole(low as i64), whole(high as i64));
        match relation {
            Relation::Less if high >= BEYOND => self.compare(Cmp::LessEqual, a, most),
            Relation::Less => self.compare(Cmp::Less, a, high_id),
            Relation::LessEqual if low < -BEYOND => self.compare(Cmp::Less, a, least),
            Relation::LessEqual => self.compare(Cmp::LessEqual, a, low_id),
            Relation::Greater if low < -BEYOND => self.compare(Cmp::LessEqual, least, a),
            Relation::Greater => self.compare(Cmp::Less, low_id, a),
            Relation::GreaterEqual if high >= BEYOND => self.compare(Cmp::Less, most, a),
            Relation::GreaterEqual => self.compare(Cmp::LessEqual, high_id, a),
            Relation::Equal if low < high || !(-BEYOND..BEYOND).contains(&c) => {
                self.compare(Cmp::Less, a, least)
            }
            Relation::Equal => self.compare(Cmp::Equal, a, low_id),
            Relation::NotEqual => {
                let equal = self.relate_to(Relation::Equal, a, c);
                self.unary(Unary::Not, equal)
            }
        }
    }

    /// Both as floats unless both have the same type.
    pub(crate) fn unify(&mut self, a: Id, b: Id) -> (Id, Id) {
        if self.ty(a) == self.ty(b) {
            return (a, b);
        }
        let (a, b) = (self.number(a), self.number(b));
        if self.ty(a) == self.ty(b) { (a, b) } else { (self.float(a), self.float(b)) }
    }

    /// `a` to calculate with: truth values count as 0 and 1.
    pub(crate) fn number(&mut self, a: Id) -> Id {
        if self.ty(a) == Type::Bool { self.unary(Unary::ToInt, a) } else { a }
    }

    /// Powers are floats. Square and square root are exact operations and quick, as NumPy makes them of `**`; its function
    /// differs from the square root for minus infinity and minus zero.
    pub(crate) fn power(&mut self, a: Id, b: Id, is_operator: bool) -> Id {
        let (a, b) = (self.float(a), self.float(b));
        match self.node(b).op {
            Op::Const(Scalar::Float(2.0)) => self.binary(Binary::Mul, a, a),
            Op::Const(Scalar::Float(1.0)) => a,
            Op::Const(Scalar::Float(0.5)) if is_operator => self.unary(Unary::Sqrt, a),
            _ => self.binary(Binary::Pow, a, b),
        }
    }
}

impl Relation {
    /// The relation of the right side to the left.
    fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::graph::{Domain, apply_unary, compare},
        *,
    };
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// The value of a comparison of column 0, which is `value`.
    fn evaluate(graph: &Graph, id: Id, value: i64) -> Scalar {
        match graph.node(id).op {
            Op::Const(constant) => constant,
            Op::Column(_) => Scalar::Int(value),
            Op::Unary(op, a) => apply_unary(op, evaluate(graph, a, value)),
            Op::Compare(op, a, b) => {
                Scalar::Bool(compare(op, evaluate(graph, a, value), evaluate(graph, b, value)))
            }
            op => panic!("{op:?} is no part of a comparison"),
        }
    }

    /// The order of an integer and a float by their values.
    fn order(whole: i64, c: f64) -> Ordering {
        match c {
            c if c >= BEYOND => Ordering::Less,
            c if c < -BEYOND => Ordering::Greater,
            c => i128::from(whole).cmp(&(c.floor() as i128)).then(if c > c.floor() {
                Ordering::Less
            } else {
                Ordering::Equal
            }),
        }
    }

    fn edges() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>().prop_filter("a number", |c| !c.is_nan()),
            -4.0..4.0f64,
            any::<i64>().prop_map(|whole| whole as f64),
            Just(BEYOND),
            Just(-BEYOND),
            Just(BEYOND.next_down()),
            Just((-BEYOND).next_down()),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
        ]
    }

    proptest! {
        #[test]
        fn values_decide(
            whole in prop_oneof![any::<i64>(), -4i64..4, Just(i64::MIN), Just(i64::MAX)],
            c in edges(),
            is_near: bool,
        ) {
            let whole = if is_near { (c as i64).saturating_add(whole % 3) } else { whole };
            for relation in [Relation::Less, Relation::LessEqual, Relation::Greater, Relation::GreaterEqual, Relation::Equal, Relation::NotEqual] {
                let order = order(whole, c);
                let expected = match relation {
                    Relation::Less => order.is_lt(),
                    Relation::LessEqual => order.is_le(),
                    Relation::Greater => order.is_gt(),
                    Relation::GreaterEqual => order.is_ge(),
                    Relation::Equal => order.is_eq(),
                    Relation::NotEqual => order.is_ne(),
                };
                let mut graph = Graph::default();
                let (a, b) = (graph.column(0, Type::Int, false, Domain::ENTRIES), graph.constant(Scalar::Float(c)));
                let ids = [graph.relate(relation, a, b), graph.relate(relation.mirrored(), b, a)];
                for id in ids {
                    prop_assert_eq!(evaluate(&graph, id, whole), Scalar::Bool(expected), "{} {:?} {}", whole, relation, c);
                }
            }
        }
    }
}
