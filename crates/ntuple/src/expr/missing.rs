//! Missing integers and truth values.
//!
//! A float that is missing is NaN, and NaN does the rest. The same rules hold for integers and truth values, which keep
//! all their bits: beside a value that can be missing stands a truth value that says where it is *present*.
//!
//! - Arithmetic with a missing value is missing. As a float it is NaN.
//! - A comparison with it is false, `!=` is true.
//! - A missing truth value is neither true nor false: `and` and `or` know their result from the other side alone if that
//!   decides it, and an entry passes a cut only if the cut is true.
//!
//! Where a row group has no missing value the same plan runs without all this: see [`Graph::all_present`].

use super::graph::{Binary, Cmp, Domain, Graph, Id, Op, Rebuilt, Scalar, Type, Unary};

impl Graph {
    /// A column of the schema.
    pub(crate) fn column(&mut self, column: usize, ty: Type, is_optional: bool, domain: Domain) -> Id {
        let id = self.plain_column(column, ty, domain);
        if is_optional && ty != Type::Float {
            let present = self.presence(column, domain);
            self.present.insert(id, present);
        }
        id
    }

    /// Where the integer or truth value `id` is present; `None` if it always is.
    pub(crate) fn present(&self, id: Id) -> Option<Id> {
        self.present.get(&id).copied()
    }

    /// `op` of one value.
    pub(crate) fn unary(&mut self, op: Unary, a: Id) -> Id {
        let value = self.plain_unary(op, a);
        let Some(present) = self.present(a) else { return value };
        if op == Unary::ToFloat {
            let nan = self.constant(Scalar::Float(f64::NAN));
            return self.plain_select(present, value, nan);
        }
        self.where_present(value, present)
    }

    /// `op` of two values of one type.
    pub(crate) fn binary(&mut self, op: Binary, a: Id, b: Id) -> Id {
        let Some(present) = self.both_present(a, b) else {
            return self.plain_binary(op, a, b);
        };
        if matches!(op, Binary::And | Binary::Or) {
            return self.connective(op, a, b);
        }
        let value = self.plain_binary(op, a, b);
        self.where_present(value, present)
    }

    /// `a and b`, or `a or b`: present where its truth is known.
    fn connective(&mut self, op: Binary, a: Id, b: Id) -> Id {
        let opposite = if op == Binary::And { Binary::Or } else { Binary::And };
        let (true_a, true_b) = (self.is_true(a), self.is_true(b));
        let (false_a, false_b) = (self.is_false(a), self.is_false(b));
        let value = self.plain_binary(op, true_a, true_b);
        let is_false = self.plain_binary(opposite, false_a, false_b);
        let present = self.plain_binary(Binary::Or, value, is_false);
        self.where_present(value, present)
    }

    /// Whether `a` stands in the relation `op` to `b`; always present.
    pub(crate) fn compare(&mut self, op: Cmp, a: Id, b: Id) -> Id {
        let holds = self.plain_compare(op, a, b);
        match (self.both_present(a, b), op) {
            (None, _) => holds,
            (Some(present), Cmp::NotEqual) => {
                let missing = self.plain_unary(Unary::Not, present);
                self.plain_binary(Binary::Or, missing, holds)
            }
            (Some(present), _) => self.plain_binary(Binary::And, present, holds),
        }
    }

    /// `yes` where `condition` is true, `no` where it is false, missing where it is missing.
    pub(crate) fn select(&mut self, condition: Id, yes: Id, no: Id) -> Id {
        let value = self.plain_select(condition, yes, no);
        let known = self.present(condition);
        if self.ty(value) == Type::Float {
            let Some(known) = known else { return value };
            let nan = self.constant(Scalar::Float(f64::NAN));
            return self.plain_select(known, value, nan);
        }
        if known.or(self.present(yes)).or(self.present(no)).is_none() {
            return value;
        }
        let always = self.constant(Scalar::Bool(true));
        let (yes, no) = (self.present(yes).unwrap_or(always), self.present(no).unwrap_or(always));
        let chosen = if yes == no { yes } else { self.plain_select(condition, yes, no) };
        let present = self.plain_binary(Binary::And, known.unwrap_or(always), chosen);
        self.where_present(value, present)
    }

    /// `a` as a float, NaN where it is missing.
    pub(crate) fn float(&mut self, a: Id) -> Id {
        if self.ty(a) == Type::Float { a } else { self.unary(Unary::ToFloat, a) }
    }

    /// Whether the truth value `a` is present and true.
    pub(crate) fn is_true(&mut self, a: Id) -> Id {
        match self.present(a) {
            Some(present) => self.plain_binary(Binary::And, present, a),
            None => a,
        }
    }

    fn is_false(&mut self, a: Id) -> Id {
        let not = self.plain_unary(Unary::Not, a);
        match self.present(a) {
            Some(present) => self.plain_binary(Binary::And, present, not),
            None => not,
        }
    }

    fn both_present(&mut self, a: Id, b: Id) -> Option<Id> {
        match (self.present(a), self.present(b)) {
            (Some(a), Some(b)) => Some(self.plain_binary(Binary::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Notes that `value` is present where `present` says, which follows from what it is computed of.
    pub(super) fn where_present(&mut self, value: Id, present: Id) -> Id {
        if !matches!(self.node(present).op, Op::Const(_)) {
            let known = *self.present.entry(value).or_insert(present);
            debug_assert_eq!(known, present, "one value is present in two ways");
        }
        value
    }

    /// Both cuts: an entry passes if it passes each.
    pub(crate) fn both_true(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = (self.is_true(a), self.is_true(b));
        self.plain_binary(Binary::And, a, b)
    }

    /// The same values where no row of any column is missing, and the new number of each: all that this module added
    /// folds away.
    pub(crate) fn all_present(&self) -> (Self, Vec<Id>) {
        let mut plain = Rebuilt::new(self);
        for index in 0..self.len() {
            plain.add(self, Id(index as u32));
        }
        (plain.graph, plain.ids)
    }
}
