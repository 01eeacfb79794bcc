//! From the tree to typed values: names are found, types are settled, functions are known.

use super::{
    Expr, Infix, Node, Prefix, Relation,
    graph::{Binary, Choice, Domain, Graph, Id, Pick, Scalar, Type, Unary},
    scope::Scope,
    value::{Kind, Object, Plain, Value, align},
};
use base::{Failure, Result};

/// Adds the value of `expr` to `graph`.
pub(crate) fn check(expr: &Expr, graph: &mut Graph, scope: &Scope) -> Result<Value> {
    let mut checker = Checker { graph, scope };
    let value = checker.value(expr)?;
    graph.check_size()?;
    value.check_size()?;
    Ok(value)
}

/// Brings the values of one result into the rows of one domain; which of them count.
pub(crate) fn align_result(
    values: &[Plain],
    graph: &mut Graph,
    scope: &Scope,
    what: &str,
) -> Result<(Vec<Id>, Option<Id>)> {
    align(graph, scope.collections(), values, what, 1)
}

/// `value` as a number.
pub(crate) fn number(value: Value, graph: &mut Graph, scope: &Scope, at: usize) -> Result<Plain> {
    Checker { graph, scope }.as_plain(value, at)
}

pub(super) struct Checker<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) scope: &'a Scope,
}

impl Checker<'_> {
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Value> {
        let constant = |checker: &mut Self, value| Ok(Value::Plain(checker.graph.constant(value).into()));
        match &expr.node {
            Node::Float(value) => constant(self, Scalar::Float(*value)),
            Node::Int(value) => constant(self, Scalar::Int(*value)),
            Node::Bool(value) => constant(self, Scalar::Bool(*value)),
            Node::Name(name) => self.name(name, expr.at),
            Node::Prefix(op, a) => self.prefix(*op, a),
            Node::Infix(op, a, b) => self.infix(*op, a, b, expr.at),
            Node::Compare(first, rest) => self.comparison(first, rest, expr.at),
            Node::Call(name, arguments) => self.call(name, arguments, expr.at),
            Node::Field(inner, name) => {
                let value = self.value(inner)?;
                self.variable(value, name, expr.at)
            }
            Node::Index(inner, index) => self.index(inner, index, expr.at),
        }
    }

    fn name(&mut self, name: &str, at: usize) -> Result<Value> {
        let (mut value, fields) = match self.scope.find(name, at) {
            Err(_) if name == "pi" => {
                return Ok(Value::Plain(self.graph.constant(Scalar::Float(std::f64::consts::PI)).into()));
            }
            found => found?,
        };
        for field in fields.into_iter().flat_map(|fields| fields.split('.')) {
            value = self.variable(value, field, at)?;
        }
        Ok(value)
    }

    fn variable(&mut self, value: Value, name: &str, at: usize) -> Result<Value> {
        match &value {
            Value::Object(object) => self.field(object, name, at),
            value => {
                let found = value.describe(self.graph);
                Err(Failure::invalid(format!("{found} at {at} has no variable {name:?}")))
            }
        }
    }

    /// A value that must be a number or truth value.
    pub(super) fn plain(&mut self, expr: &Expr) -> Result<Plain> {
        let value = self.value(expr)?;
        self.as_plain(value, expr.at)
    }

    pub(super) fn as_plain(&mut self, value: Value, at: usize) -> Result<Plain> {
        match value {
            Value::Plain(plain) => Ok(plain),
            Value::Object(_) => Err(Failure::invalid(format!("expected a number at {at}, found an object"))
                .hint("name one of its variables, as in Muon.pt")),
            Value::Place(pick) if !self.graph.is_combination(pick.domain) && pick.mask.is_none() => {
                let position = self.graph.position(pick.domain);
                Ok(self.graph.at_pick(position, pick).into())
            }
            Value::Place(_) => Err(Failure::invalid(format!("expected a number at {at}, found a place"))
                .hint("use it in brackets, as in x[argmin(x)]")),
        }
    }

    /// A value that must be true or false.
    pub(super) fn truth(&mut self, expr: &Expr, operator: &str) -> Result<Plain> {
        let plain = self.plain(expr)?;
        match self.graph.ty(plain.id) {
            Type::Bool => Ok(plain),
            ty => {
                Err(Failure::invalid(format!("`{operator}` needs bool, found {} at {}", ty.name(), expr.at))
                    .hint("compare numbers, as in x != 0, and put comparisons in parentheses beside & and |"))
            }
        }
    }

    fn prefix(&mut self, op: Prefix, a: &Expr) -> Result<Value> {
        let mut plain = if op == Prefix::Not { self.truth(a, "not")? } else { self.plain(a)? };
        plain.id = match op {
            Prefix::Not => self.graph.unary(Unary::Not, plain.id),
            Prefix::Plus => self.graph.number(plain.id),
            Prefix::Minus => {
                let number = self.graph.number(plain.id);
                self.graph.unary(Unary::Neg, number)
            }
        };
        Ok(Value::Plain(plain))
    }

    fn infix(&mut self, op: Infix, a: &Expr, b: &Expr, at: usize) -> Result<Value> {
        let (a, b) = if matches!(op, Infix::And | Infix::Or) {
            (self.truth(a, op.symbol())?, self.truth(b, op.symbol())?)
        } else {
            match (self.value(a)?, self.value(b)?) {
                (Value::Object(a), Value::Object(b)) if matches!(op, Infix::Add | Infix::Subtract) => {
                    let op = if op == Infix::Add { Binary::Add } else { Binary::Sub };
                    return self.add_objects(op, &a, &b, at);
                }
                (x, y) => (self.as_plain(x, a.at)?, self.as_plain(y, b.at)?),
            }
        };
        let (ids, selection) = align(self.graph, self.scope.collections(), &[a, b], op.symbol(), at)?;
        let id = self.combine(op, ids[0], ids[1]);
        Ok(Value::Plain(Plain { id, selection }))
    }

    fn combine(&mut self, op: Infix, a: Id, b: Id) -> Id {
        let graph = &mut *self.graph;
        let op = match op {
            Infix::And => return graph.binary(Binary::And, a, b),
            Infix::Or => return graph.binary(Binary::Or, a, b),
            Infix::Divide => {
                let (a, b) = (graph.float(a), graph.float(b));
                return graph.binary(Binary::Div, a, b);
            }
            Infix::Power => return graph.power(a, b, true),
            Infix::Add => Binary::Add,
            Infix::Subtract => Binary::Sub,
            Infix::Multiply => Binary::Mul,
            Infix::Modulo => Binary::Mod,
        };
        let (a, b) = (graph.number(a), graph.number(b));
        let (a, b) = graph.unify(a, b);
        graph.binary(op, a, b)
    }

    fn comparison(&mut self, first: &Expr, rest: &[(Relation, Expr)], at: usize) -> Result<Value> {
        let mut plains = vec![self.plain(first)?];
        for (_, operand) in rest {
            plains.push(self.plain(operand)?);
        }
        let symbol = rest.first().map_or("", |(relation, _)| relation.symbol());
        let (ids, selection) = align(self.graph, self.scope.collections(), &plains, symbol, at)?;
        let mut all = None;
        for ((relation, _), pair) in rest.iter().zip(ids.windows(2)) {
            let holds = self.graph.relate(*relation, pair[0], pair[1]);
            all = Some(match all {
                Some(before) => self.graph.binary(Binary::And, before, holds),
                None => holds,
            });
        }
        // The parser never makes a comparison of one operand.
        Ok(Value::Plain(Plain { id: all.unwrap_or(ids[0]), selection }))
    }

    /// `list[condition]`, `list[place]`, `list[number]`.
    fn index(&mut self, inner: &Expr, index: &Expr, at: usize) -> Result<Value> {
        let value = self.value(inner)?;
        let (domain, selection) = value.rows(self.graph);
        if domain == Domain::ENTRIES {
            let found = value.describe(self.graph);
            return Err(Failure::invalid(format!("`[` at {at} needs a list, found {found}")));
        }
        if let Some(choice) = literal_place(index) {
            let pick = Pick { domain, mask: selection, choice: choice?, key: None };
            return self.pick_value(value, pick, at);
        }
        let plain = match self.value(index)? {
            Value::Place(pick) => return self.pick_value(value, pick, at),
            other => self.as_plain(other, index.at)?,
        };
        match self.graph.ty(plain.id) {
            Type::Bool => {
                let (name, of) = (self.domain_name(domain), self.domain_name(self.graph.domain(plain.id)));
                let rows = (self.graph.domain(plain.id), plain.selection);
                if rows != (domain, selection) {
                    let what = format!("`[` at {at} selects from {name} by a condition on {of}");
                    let hint = if rows.0 == domain {
                        "the condition and the list must be of the same selection"
                    } else {
                        "the condition must be one on the elements of the list"
                    };
                    return Err(Failure::invalid(what).hint(hint));
                }
                let holds = self.graph.is_true(plain.id);
                let selection = self.graph.both(selection, Some(holds));
                match value {
                    Value::Plain(value) => Ok(Value::Plain(Plain { selection, ..value })),
                    Value::Object(object) => Ok(Value::Object(Object { selection, ..object })),
                    Value::Place(_) => Err(Failure::invalid(format!("`[` at {at} cannot select places"))
                        .hint("select from the list first: argmin(deltar(Jet[Jet.pt > 30], Muon))")),
                }
            }
            Type::Int if selection.is_none() && !self.graph.is_combination(domain) => {
                let domain = self.graph.domain(plain.id);
                Ok(match value {
                    Value::Object(object) => {
                        let kind = Kind::At(Box::new(object), plain.id);
                        Value::Object(Object { kind, domain, selection: plain.selection })
                    }
                    value => {
                        let id = self.as_plain(value, at)?.id;
                        Value::Plain(Plain { id: self.graph.at_place(id, plain.id), ..plain })
                    }
                })
            }
            Type::Int => Err(Failure::invalid(format!("`[` at {at} takes a computed place in a selection"))
                .hint("use argmin, argmax, argclosest, first, or a number")),
            Type::Float => {
                Err(Failure::invalid(format!("`[` at {at} takes a condition or a place, found float")))
            }
        }
    }

    fn domain_name(&self, domain: Domain) -> String {
        self.graph.domain_name(domain, self.scope.collections())
    }

    /// `value` in the row that `pick` picks.
    pub(super) fn pick_value(&mut self, value: Value, pick: Pick, at: usize) -> Result<Value> {
        let (domain, selection) = value.rows(self.graph);
        if (domain, selection) != (pick.domain, pick.mask) {
            return self.pick_part(value, pick, at);
        }
        match value {
            Value::Object(object) => Ok(self.picked_object(object, pick)),
            value => {
                let plain = self.as_plain(value, at)?;
                let id = self.graph.at_pick(plain.id, pick);
                Ok(Value::Plain(Plain { id, selection: self.graph.parent_selection(pick.domain) }))
            }
        }
    }

    /// The element of a list that is a part of the picked combination: the lepton of the closest pair of jet and lepton.
    fn pick_part(&mut self, value: Value, pick: Pick, at: usize) -> Result<Value> {
        let (domain, selection) = value.rows(self.graph);
        let parts = self.graph.parts(pick.domain);
        let mut found = (0..parts.len()).filter(|part| parts[*part] == (domain, selection));
        let (Some(part), None) = (found.next(), found.next()) else {
            let (name, of) = (self.domain_name(domain), self.domain_name(pick.domain));
            return Err(Failure::invalid(format!("`[` at {at} takes from {name} a place in {of}"))
                .hint("the place must come from the same list, with the same selection"));
        };
        let place = self.graph.picked_place(pick, part as u8);
        let (domain, selection) = (self.graph.parent(pick.domain), self.graph.parent_selection(pick.domain));
        Ok(match value {
            Value::Object(object) => {
                Value::Object(Object { kind: Kind::At(Box::new(object), place), domain, selection })
            }
            value => {
                let id = self.as_plain(value, at)?.id;
                Value::Plain(Plain { id: self.graph.at_place(id, place), selection })
            }
        })
    }
}

/// `0`, `1` … from the front, `-1` for the last.
fn literal_place(index: &Expr) -> Option<Result<Choice>> {
    match &index.node {
        Node::Int(place) => Some(
            u32::try_from(*place)
                .map(Choice::Nth)
                .map_err(|_| Failure::invalid(format!("place {place} at {} is beyond any list", index.at))),
        ),
        Node::Prefix(Prefix::Minus, inner) => match inner.node {
            Node::Int(1) => Some(Ok(Choice::Last)),
            Node::Int(place) => Some(Err(Failure::invalid(format!(
                "place -{place} at {}: only -1, the last, counts from the end",
                index.at
            )))),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::parse, *};

    fn checked(text: &str) -> Result<(Type, usize)> {
        let mut graph = Graph::default();
        let mut scope = Scope::default();
        for (index, (name, ty)) in
            [("pt", Type::Float), ("eta", Type::Float), ("n", Type::Int), ("good", Type::Bool)]
                .into_iter()
                .enumerate()
        {
            let id = graph.column(index, ty, false, Domain::ENTRIES);
            scope.add_column(name, id, &graph);
        }
        let value = check(&parse(text)?, &mut graph, &scope)?;
        let plain = number(value, &mut graph, &scope, 1)?;
        Ok((graph.ty(plain.id), graph.len()))
    }

    #[test]
    fn types_follow_from_the_columns() {
        for (text, ty) in [
            ("pt", Type::Float),
            ("n + 1", Type::Int),
            ("n / 1", Type::Float),
            ("n * pt", Type::Float),
            ("n ** 2", Type::Float),
            ("abs(n)", Type::Int),
            ("good + (pt > 1)", Type::Int),
            ("1 < n < pt", Type::Bool),
            ("where(good, n, 0)", Type::Int),
            ("good ? n : 0.5", Type::Float),
            ("min(n, 1, 2)", Type::Int),
            ("pi", Type::Float),
            ("good == true", Type::Bool),
        ] {
            assert_eq!(checked(text).unwrap().0, ty, "{text}");
        }
    }

    #[test]
    fn errors_name_the_thing_and_the_place() {
        let failure = checked("1+ptt").unwrap_err();
        assert_eq!(failure.what, "unknown column \"ptt\" at 3; columns are pt, eta, n, good");
        assert_eq!(failure.hint.unwrap(), "did you mean \"pt\"?");
        let failure = checked("sqr(pt)").unwrap_err();
        assert!(failure.what.starts_with("unknown function \"sqr\" at 1; functions are sqrt, exp"));
        assert_eq!(failure.hint.unwrap(), "did you mean \"sqrt\"?");
        assert_eq!(checked("pt and good").unwrap_err().what, "`and` needs bool, found float at 1");
        assert_eq!(checked("atan2(pt)").unwrap_err().what, "atan2 at 1 takes 2 arguments, found 1");
        assert!(checked("zzzzzz").unwrap_err().hint.is_none());
    }

    #[test]
    fn equal_values_are_computed_once() {
        let once = checked("sqrt(pt*pt)").unwrap().1;
        assert_eq!(checked("sqrt(pt*pt) * sqrt(pt*pt)").unwrap().1, once + 1);
        // Constants fold: four columns, the operands and their results.
        assert_eq!(checked("1 + 2 * 3").unwrap().0, Type::Int);
    }
}
