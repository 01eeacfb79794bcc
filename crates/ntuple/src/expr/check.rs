//! From the tree to typed values: names are found, types are settled, functions are known.

use super::{
    Expr, Infix, Node, Prefix, Relation,
    graph::{Binary, Graph, Id, Scalar, Type, Unary},
};
use base::{Failure, Result};
use std::collections::HashMap;

/// The names that an expression may use.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    names: HashMap<String, Id>,
    columns: Vec<String>,
    refused: HashMap<String, String>,
}

impl Scope {
    /// Adds a column of the n-tuple.
    pub(crate) fn add_column(&mut self, name: &str, id: Id) {
        self.columns.push(name.to_owned());
        self.names.insert(name.to_owned(), id);
    }

    /// Adds a column that cannot be used, and why.
    pub(crate) fn add_refused(&mut self, name: &str, why: &str) {
        self.refused.insert(name.to_owned(), why.to_owned());
    }

    /// Adds a defined variable; it may not hide another name.
    pub(crate) fn define(&mut self, name: &str, id: Id) -> Result<()> {
        if self.names.contains_key(name) {
            return Err(Failure::new(
                base::ErrorKind::Exists,
                format!("{name:?} is already a column or variable"),
            )
            .hint("choose another name"));
        }
        self.columns.push(name.to_owned());
        self.names.insert(name.to_owned(), id);
        Ok(())
    }

    fn find(&self, name: &str, at: usize) -> Result<Option<Id>> {
        if let Some(id) = self.names.get(name) {
            return Ok(Some(*id));
        }
        if name == "pi" {
            return Ok(None);
        }
        if let Some(why) = self.refused.get(name) {
            return Err(Failure::unsupported(format!("column {name:?} at {at} {why}")));
        }
        Err(unknown("column", name, at, self.columns.iter().map(String::as_str)))
    }
}

/// How many names an error message lists.
const NAMES_SHOWN: usize = 12;

fn unknown<'a>(what: &str, name: &str, at: usize, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let mut listed = known.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if known.len() > NAMES_SHOWN {
        listed += &format!(" and {} more", known.len() - NAMES_SHOWN);
    }
    let failure = Failure::invalid(format!("unknown {what} {name:?} at {at}; {what}s are {listed}"));
    match closest(name, &known) {
        Some(near) => failure.hint(format!("did you mean {near:?}?")),
        None => failure,
    }
}

/// The known name with the fewest letters changed, if a third of the letters at most.
pub(crate) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = name.chars().count();
    let best = known.iter().map(|candidate| (distance(name, candidate), *candidate)).min()?;
    (best.0 <= 1.max(letters / 3)).then_some(best.1)
}

/// Letters to insert, delete or replace to make `b` of `a`, regardless of case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let changed = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Adds the value of `expr` to `graph`.
pub(crate) fn check(expr: &Expr, graph: &mut Graph, scope: &Scope) -> Result<Id> {
    let id = Checker { graph, scope }.value(expr)?;
    graph.check_size()?;
    Ok(id)
}

struct Checker<'a> {
    graph: &'a mut Graph,
    scope: &'a Scope,
}

/// Functions of one float.
const FLOAT_FUNCTIONS: [(&str, Unary); 21] = [
    ("sqrt", Unary::Sqrt),
    ("exp", Unary::Exp),
    ("expm1", Unary::Expm1),
    ("log", Unary::Log),
    ("log1p", Unary::Log1p),
    ("log10", Unary::Log10),
    ("log2", Unary::Log2),
    ("sin", Unary::Sin),
    ("cos", Unary::Cos),
    ("tan", Unary::Tan),
    ("asin", Unary::Asin),
    ("acos", Unary::Acos),
    ("atan", Unary::Atan),
    ("sinh", Unary::Sinh),
    ("cosh", Unary::Cosh),
    ("tanh", Unary::Tanh),
    ("floor", Unary::Floor),
    ("ceil", Unary::Ceil),
    ("round", Unary::Round),
    ("isnan", Unary::IsNan),
    ("float", Unary::ToFloat),
];
/// The other functions, with the arguments they take.
const OTHER_FUNCTIONS: [(&str, usize, usize); 7] = [
    ("abs", 1, 1),
    ("atan2", 2, 2),
    ("hypot", 2, 2),
    ("pow", 2, 2),
    ("min", 2, 16),
    ("max", 2, 16),
    ("where", 3, 3),
];

/// Names of the functions that expressions may call.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    FLOAT_FUNCTIONS.iter().map(|(name, _)| *name).chain(OTHER_FUNCTIONS.iter().map(|(name, _, _)| *name))
}

impl Checker<'_> {
    fn value(&mut self, expr: &Expr) -> Result<Id> {
        match &expr.node {
            Node::Float(value) => Ok(self.graph.constant(Scalar::Float(*value))),
            Node::Int(value) => Ok(self.graph.constant(Scalar::Int(*value))),
            Node::Bool(value) => Ok(self.graph.constant(Scalar::Bool(*value))),
            Node::Name(name) => Ok(match self.scope.find(name, expr.at)? {
                Some(id) => id,
                None => self.graph.constant(Scalar::Float(std::f64::consts::PI)),
            }),
            Node::Prefix(op, a) => self.prefix(*op, a),
            Node::Infix(op, a, b) => self.infix(*op, a, b),
            Node::Compare(first, rest) => self.comparison(first, rest),
            Node::Call(name, arguments) => self.call(name, arguments, expr.at),
        }
    }

    /// A value that must be true or false.
    fn truth(&mut self, expr: &Expr, operator: &str) -> Result<Id> {
        let id = self.value(expr)?;
        match self.graph.ty(id) {
            Type::Bool => Ok(id),
            ty => {
                Err(Failure::invalid(format!("`{operator}` needs bool, found {} at {}", ty.name(), expr.at))
                    .hint("compare numbers, as in x != 0, and put comparisons in parentheses beside & and |"))
            }
        }
    }

    /// A value to calculate with: truth values count as 0 and 1.
    fn number(&mut self, expr: &Expr) -> Result<Id> {
        let id = self.value(expr)?;
        Ok(self.graph.number(id))
    }

    fn float(&mut self, expr: &Expr) -> Result<Id> {
        let id = self.value(expr)?;
        Ok(self.graph.float(id))
    }

    fn prefix(&mut self, op: Prefix, a: &Expr) -> Result<Id> {
        if op == Prefix::Not {
            let a = self.truth(a, "not")?;
            return Ok(self.graph.unary(Unary::Not, a));
        }
        let a = self.number(a)?;
        Ok(if op == Prefix::Minus { self.graph.unary(Unary::Neg, a) } else { a })
    }

    fn infix(&mut self, op: Infix, a: &Expr, b: &Expr) -> Result<Id> {
        let op = match op {
            Infix::And | Infix::Or => {
                let (a, b) = (self.truth(a, op.symbol())?, self.truth(b, op.symbol())?);
                return Ok(self.graph.binary(if op == Infix::And { Binary::And } else { Binary::Or }, a, b));
            }
            Infix::Divide => {
                let (a, b) = (self.float(a)?, self.float(b)?);
                return Ok(self.graph.binary(Binary::Div, a, b));
            }
            Infix::Power => return self.power(a, b, true),
            Infix::Add => Binary::Add,
            Infix::Subtract => Binary::Sub,
            Infix::Multiply => Binary::Mul,
            Infix::Modulo => Binary::Mod,
        };
        let (a, b) = (self.number(a)?, self.number(b)?);
        let (a, b) = self.graph.unify(a, b);
        Ok(self.graph.binary(op, a, b))
    }

    fn power(&mut self, a: &Expr, b: &Expr, is_operator: bool) -> Result<Id> {
        let (a, b) = (self.value(a)?, self.value(b)?);
        Ok(self.graph.power(a, b, is_operator))
    }

    fn comparison(&mut self, first: &Expr, rest: &[(Relation, Expr)]) -> Result<Id> {
        let mut left = self.value(first)?;
        let mut all = None;
        for (relation, operand) in rest {
            let right = self.value(operand)?;
            let holds = self.graph.relate(*relation, left, right);
            all = Some(match all {
                Some(before) => self.graph.binary(Binary::And, before, holds),
                None => holds,
            });
            left = right;
        }
        // The parser never makes a comparison of one operand.
        Ok(all.unwrap_or(left))
    }

    fn call(&mut self, name: &str, arguments: &[Expr], at: usize) -> Result<Id> {
        if let Some((_, op)) = FLOAT_FUNCTIONS.iter().find(|(known, _)| *known == name) {
            expect_arguments(name, arguments.len(), 1, 1, at)?;
            let a = self.float(&arguments[0])?;
            return Ok(if *op == Unary::ToFloat { a } else { self.graph.unary(*op, a) });
        }
        let Some((_, least, most)) = OTHER_FUNCTIONS.iter().find(|(known, _, _)| *known == name) else {
            return Err(unknown("function", name, at, function_names()));
        };
        expect_arguments(name, arguments.len(), *least, *most, at)?;
        match name {
            "abs" => {
                let a = self.number(&arguments[0])?;
                Ok(self.graph.unary(Unary::Abs, a))
            }
            "pow" => self.power(&arguments[0], &arguments[1], false),
            "where" => {
                let condition = self.truth(&arguments[0], "where")?;
                let (yes, no) = (self.value(&arguments[1])?, self.value(&arguments[2])?);
                let (yes, no) = self.graph.unify(yes, no);
                Ok(self.graph.select(condition, yes, no))
            }
            "min" => self.fold(Binary::Min, arguments),
            "max" => self.fold(Binary::Max, arguments),
            _ => {
                let (a, b) = (self.float(&arguments[0])?, self.float(&arguments[1])?);
                Ok(self.graph.binary(if name == "atan2" { Binary::Atan2 } else { Binary::Hypot }, a, b))
            }
        }
    }

    fn fold(&mut self, op: Binary, arguments: &[Expr]) -> Result<Id> {
        let mut folded = self.number(&arguments[0])?;
        for argument in &arguments[1..] {
            let next = self.number(argument)?;
            let (a, b) = self.graph.unify(folded, next);
            folded = self.graph.binary(op, a, b);
        }
        Ok(folded)
    }
}

fn expect_arguments(name: &str, found: usize, least: usize, most: usize, at: usize) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    Err(Failure::invalid(format!("{name} at {at} takes {wanted} arguments, found {found}")))
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
            scope.add_column(name, graph.column(index, ty, false));
        }
        let id = check(&parse(text)?, &mut graph, &scope)?;
        Ok((graph.ty(id), graph.len()))
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
