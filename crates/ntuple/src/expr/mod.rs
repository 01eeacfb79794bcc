//! The expression language of cuts, weights and derived variables.
//!
//! What users of ROOT, numexpr and pandas type works: `sqrt(px**2 + py**2) > 20 and abs(eta) < 2.4`.
//!
//! | binds | operators |
//! | --- | --- |
//! | weakest | `c ? a : b` (the same as `where(c, a, b)`) |
//! | | `or` `\|\|` |
//! | | `and` `&&` |
//! | | `not` |
//! | | `<` `<=` `>` `>=` `==` `!=`, chained as in Python: `60 < mass < 120` |
//! | | `\|` (or, of truth values) |
//! | | `&` (and, of truth values) |
//! | | `+` `-` |
//! | | `*` `/` `%` |
//! | | unary `-` `+` `!` `~` |
//! | strongest | `**` (groups to the right) |
//!
//! Behind an operand stand `[…]` and `.name`: `Jet.pt[abs(Jet.eta) < 1]`, `(mu.a + mu.b).mass`. What lists mean is in
//! docs/design/0009-jagged-expressions.md.
//!
//! `/` always divides exactly, `%` takes the sign of its right side as in Python, `^` is refused because half of the
//! field reads it as power and the other half as exclusive or. Names with odd characters are written in backticks.

mod caret;
mod check;
mod exact;
mod functions;
mod graph;
mod lexer;
mod lists;
mod missing;
mod objects;
mod parser;
mod scope;
mod value;

pub(crate) use caret::point;
pub(crate) use check::{align_result, check, number};
pub use graph::Type;
pub(crate) use graph::{
    Binary, Choice, Cmp, Combination, Domain, From, Graph, Id, Jagged, Op, Pick, Reduction, Rows, Scalar,
    Unary, float_binary, float_unary, holds, int_binary, is_sure_radius,
};
#[cfg(test)]
pub(crate) use graph::{apply_binary, apply_unary, compare};
pub use parser::parse;
pub(crate) use scope::Scope;
pub(crate) use value::{Plain, Value};

use std::fmt;

/// Longest expression in bytes: a cut of a hundred terms fits.
pub const EXPRESSION_BYTES_MAX: usize = 8192;
/// Deepest nesting: bounds the stack of parser and checker.
pub const EXPRESSION_DEPTH_MAX: usize = 64;
/// Operators of one expression: bounds the depth of its tree.
pub const EXPRESSION_OPERATORS_MAX: usize = 500;

/// An expression as it was written.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it is.
    pub node: Node,
    /// Character at which it was written, counted from 1.
    pub at: usize,
}

/// Two expressions are equal if they say the same, wherever they were written.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

/// The kinds of expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A number with a point or an exponent; never negative, never NaN.
    Float(f64),
    /// A whole number; never negative.
    Int(i64),
    /// `true` or `false`.
    Bool(bool),
    /// A column, a defined variable or a constant.
    Name(String),
    /// A sign or a negation.
    Prefix(Prefix, Box<Expr>),
    /// Two operands.
    Infix(Infix, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: every neighbouring pair must hold.
    Compare(Box<Expr>, Vec<(Relation, Expr)>),
    /// A function of its arguments.
    Call(String, Vec<Expr>),
    /// `a.name`, where `a` is more than a name.
    Field(Box<Expr>, String),
    /// `a[b]`.
    Index(Box<Expr>, Box<Expr>),
}

/// Operators in front of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// `-a`.
    Minus,
    /// `+a`.
    Plus,
    /// `not a`.
    Not,
}

/// Operators between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Infix {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`.
    Divide,
    /// `a % b`.
    Modulo,
    /// `a ** b`.
    Power,
    /// `a and b`.
    And,
    /// `a or b`.
    Or,
}

impl Infix {
    /// The operator as it is printed.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "**",
            Self::And => "and",
            Self::Or => "or",
        }
    }
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterEqual,
    /// `a == b`.
    Equal,
    /// `a != b`.
    NotEqual,
}

impl Relation {
    /// The operator as it is printed.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }
}

/// Words that are not names unless written in backticks.
const KEYWORDS: [&str; 7] = ["and", "or", "not", "true", "false", "True", "False"];

fn is_plain_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '.')
        && !KEYWORDS.contains(&name)
}

impl fmt::Display for Expr {
    /// Prints with every parenthesis, so that what is printed parses to the same expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::Float(value) => write!(f, "{value:?}"),
            Node::Int(value) => write!(f, "{value}"),
            Node::Bool(value) => write!(f, "{value}"),
            Node::Name(name) if is_plain_name(name) => f.write_str(name),
            Node::Name(name) => write!(f, "`{name}`"),
            Node::Field(a, name) if is_plain_name(name) => write!(f, "({a}).{name}"),
            Node::Field(a, name) => write!(f, "({a}).`{name}`"),
            Node::Index(a, index) => write!(f, "({a})[{index}]"),
            Node::Prefix(Prefix::Minus, a) => write!(f, "(-{a})"),
            Node::Prefix(Prefix::Plus, a) => write!(f, "(+{a})"),
            Node::Prefix(Prefix::Not, a) => write!(f, "(not {a})"),
            Node::Infix(op, a, b) => write!(f, "({a} {} {b})", op.symbol()),
            Node::Compare(first, rest) => {
                write!(f, "({first}")?;
                for (relation, operand) in rest {
                    write!(f, " {} {operand}", relation.symbol())?;
                }
                f.write_str(")")
            }
            Node::Call(name, arguments) => {
                write!(f, "{name}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Parses, prints and checks any bytes; a fuzz body.
pub fn fuzz_expr(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(expr) = parse(&text) else { return };
    // What we print is longer than what was typed and may exceed the bound; then there is nothing to compare.
    if let Ok(again) = parse(&expr.to_string()) {
        assert_eq!(again, expr, "printing changed the meaning of {text:?}");
    }
    let mut graph = Graph::default();
    let mut scope = Scope::default();
    let jets = scope.collection("J", &mut graph);
    let columns =
        [("x", Type::Float), ("n", Type::Int), ("b", Type::Bool), ("J_pt", Type::Float), ("J_n", Type::Int)];
    for (index, (name, ty)) in columns.into_iter().enumerate() {
        let domain = if name.starts_with('J') { jets } else { Domain::ENTRIES };
        let id = graph.column(index, ty, ty == Type::Int, domain);
        scope.add_column(name, id, &graph);
    }
    let _ = check(&expr, &mut graph, &scope);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn arbitrary_expr() -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![
            (0.0..1e6f64).prop_map(Node::Float),
            (0i64..1000).prop_map(Node::Int),
            any::<bool>().prop_map(Node::Bool),
            prop_oneof![Just("x"), Just("n"), Just("b"), Just("and"), Just("odd name")]
                .prop_map(|name| Node::Name(name.to_owned())),
        ]
        .prop_map(|node| Expr { node, at: 1 });
        leaf.prop_recursive(5, 40, 4, |inner| {
            let boxed = inner.clone().prop_map(Box::new);
            let prefix = prop_oneof![Just(Prefix::Minus), Just(Prefix::Plus), Just(Prefix::Not)];
            let infix = prop_oneof![
                Just(Infix::Add),
                Just(Infix::Subtract),
                Just(Infix::Multiply),
                Just(Infix::Divide),
                Just(Infix::Modulo),
                Just(Infix::Power),
                Just(Infix::And),
                Just(Infix::Or),
            ];
            let relation =
                prop_oneof![Just(Relation::Less), Just(Relation::Equal), Just(Relation::GreaterEqual)];
            prop_oneof![
                (prefix, boxed.clone()).prop_map(|(op, a)| Node::Prefix(op, a)),
                (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Node::Index(a, b)),
                (boxed.clone(), prop_oneof![Just("pt"), Just("odd name")])
                    .prop_map(|(a, name)| Node::Field(a, name.to_owned())),
                (infix, boxed.clone(), boxed.clone()).prop_map(|(op, a, b)| Node::Infix(op, a, b)),
                (boxed, prop::collection::vec((relation, inner.clone()), 1..3))
                    .prop_map(|(a, rest)| Node::Compare(a, rest)),
                (prop_oneof![Just("sqrt"), Just("min"), Just("where")], prop::collection::vec(inner, 0..4))
                    .prop_map(|(name, arguments)| Node::Call(name.to_owned(), arguments)),
            ]
            .prop_map(|node| Expr { node, at: 1 })
        })
    }

    proptest! {
        #[test]
        fn printing_keeps_the_meaning(expr in arbitrary_expr()) {
            prop_assert_eq!(parse(&expr.to_string()).unwrap(), expr);
        }

        #[test]
        fn any_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_expr(&data);
        }

        #[test]
        fn any_text_of_the_language_never_panics(
            words in prop::collection::vec(
                prop_oneof![
                    Just("x"), Just("n"), Just("b"), Just("1"), Just("2.5e3"), Just("("), Just(")"), Just(","), Just("-"),
                    Just("**"), Just("<"), Just("=="), Just("and"), Just("not"), Just("!"), Just("~"), Just("&"), Just("|"),
                    Just("?"), Just(":"), Just("where("), Just("min("), Just("abs("), Just("%"), Just("/"), Just("+"),
                    Just("J"), Just("J.pt"), Just("J_n"), Just("["), Just("]"), Just(".a"), Just("pairs("), Just("any("), Just("sum("),
                    Just("argmin("), Just("concat("), Just("deltar("), Just("0"),
                ],
                0..40,
            )
        ) {
            fuzz_expr(words.join(" ").as_bytes());
        }

        #[test]
        fn a_mutated_expression_never_panics(expr in arbitrary_expr(), at: prop::sample::Index, byte: u8) {
            let mut text = expr.to_string().into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            fuzz_expr(&text);
        }
    }
}
