//! Tokens to a tree, by precedence climbing.

use super::{
    EXPRESSION_DEPTH_MAX, EXPRESSION_OPERATORS_MAX, Expr, Infix, Node, Prefix, is_plain_name,
    lexer::{Placed, Token, tokens},
};
use base::{Failure, Result};

/// Parses `text`. Errors say what was found and at which character, counted from 1.
pub fn parse(text: &str) -> Result<Expr> {
    let tokens = tokens(text)?;
    if tokens.len() == 1 {
        return Err(Failure::invalid("expression is empty"));
    }
    let mut parser = Parser { tokens, next: 0, depth: 0, operators: 0 };
    let expr = parser.choice()?;
    match parser.peek() {
        Token::End => Ok(expr),
        other => Err(Failure::invalid(format!(
            "expected an operator, found {} at {}",
            other.describe(),
            parser.at()
        ))),
    }
}

/// Binding strength of the operators between two operands, weakest first.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const BAR: u8 = 5;
const AMPERSAND: u8 = 6;
const SUM: u8 = 7;
const PRODUCT: u8 = 8;
const SIGN: u8 = 9;
const POWER: u8 = 10;

fn infix(token: &Token) -> Option<(Infix, u8)> {
    Some(match token {
        Token::Or => (Infix::Or, OR),
        Token::And => (Infix::And, AND),
        Token::Bar => (Infix::Or, BAR),
        Token::Ampersand => (Infix::And, AMPERSAND),
        Token::Plus => (Infix::Add, SUM),
        Token::Minus => (Infix::Subtract, SUM),
        Token::Star => (Infix::Multiply, PRODUCT),
        Token::Slash => (Infix::Divide, PRODUCT),
        Token::Percent => (Infix::Modulo, PRODUCT),
        Token::Power => (Infix::Power, POWER),
        _ => return None,
    })
}

struct Parser {
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
    operators: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].token
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        // The end is never passed, so `peek` always has a token.
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn expect(&mut self, wanted: &Token) -> Result<()> {
        if self.peek() == wanted {
            self.advance();
            return Ok(());
        }
        let found = self.peek().describe();
        Err(Failure::invalid(format!("expected {}, found {found} at {}", wanted.describe(), self.at())))
    }

    /// Counts the nesting around `parse`.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Result<Expr>) -> Result<Expr> {
        if self.depth == EXPRESSION_DEPTH_MAX {
            return Err(Failure::invalid(format!(
                "expression is nested deeper than {EXPRESSION_DEPTH_MAX} at {}",
                self.at()
            ))
            .hint("define parts of it as variables"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// `c ? a : b`, the weakest operator.
    fn choice(&mut self) -> Result<Expr> {
        self.nested(|parser| {
            let at = parser.at();
            let condition = parser.climb(OR)?;
            if *parser.peek() != Token::Question {
                return Ok(condition);
            }
            parser.advance();
            let yes = parser.choice()?;
            parser.expect(&Token::Colon)?;
            let no = parser.choice()?;
            Ok(Expr { node: Node::Call("where".to_owned(), vec![condition, yes, no]), at })
        })
    }

    /// An operand and all operators behind it that bind at least as strongly as `weakest`.
    fn climb(&mut self, weakest: u8) -> Result<Expr> {
        let mut left = self.prefix()?;
        loop {
            if matches!(self.peek(), Token::Relation(_)) && weakest <= COMPARE {
                left = self.comparison(left)?;
                self.count_operator()?;
                continue;
            }
            let Some((op, strength)) = infix(self.peek()).filter(|(_, strength)| *strength >= weakest) else {
                return Ok(left);
            };
            let at = self.at();
            self.advance();
            self.count_operator()?;
            // `**` groups to the right and takes a signed exponent.
            let right = if op == Infix::Power {
                self.nested(|parser| parser.climb(SIGN))?
            } else {
                self.nested(|parser| parser.climb(strength + 1))?
            };
            left = Expr { node: Node::Infix(op, Box::new(left), Box::new(right)), at };
        }
    }

    /// A long sum is a deep tree to the left, and everything that walks it recurses: the number of operators is bound.
    fn count_operator(&mut self) -> Result<()> {
        self.operators += 1;
        if self.operators > EXPRESSION_OPERATORS_MAX {
            return Err(Failure::invalid(format!(
                "more than {EXPRESSION_OPERATORS_MAX} operators at {}",
                self.at()
            ))
            .hint("define parts of it as variables"));
        }
        Ok(())
    }

    fn comparison(&mut self, first: Expr) -> Result<Expr> {
        let at = self.at();
        let mut rest = Vec::new();
        while let Token::Relation(relation) = *self.peek() {
            self.advance();
            rest.push((relation, self.nested(|parser| parser.climb(COMPARE + 1))?));
        }
        Ok(Expr { node: Node::Compare(Box::new(first), rest), at })
    }

    fn prefix(&mut self) -> Result<Expr> {
        let at = self.at();
        let (op, strength) = match self.peek() {
            Token::Minus => (Prefix::Minus, SIGN),
            Token::Plus => (Prefix::Plus, SIGN),
            Token::Bang => (Prefix::Not, SIGN),
            Token::Not => (Prefix::Not, NOT),
            _ => return self.postfix(),
        };
        self.advance();
        let operand = self.nested(|parser| parser.climb(strength))?;
        Ok(Expr { node: Node::Prefix(op, Box::new(operand)), at })
    }

    /// An operand with what stands behind it in brackets or after a dot.
    fn postfix(&mut self) -> Result<Expr> {
        let mut operand = self.operand()?;
        loop {
            let at = self.at();
            match self.peek() {
                Token::OpenBracket => {
                    self.advance();
                    self.count_operator()?;
                    let index = self.choice()?;
                    self.expect(&Token::CloseBracket)?;
                    operand = Expr { node: Node::Index(Box::new(operand), Box::new(index)), at };
                }
                Token::Dot => {
                    self.advance();
                    let Token::Name(names) = self.advance() else {
                        return Err(Failure::invalid(format!("expected a name behind `.` at {at}")));
                    };
                    for name in names.split('.') {
                        self.count_operator()?;
                        if name.is_empty() {
                            return Err(Failure::invalid(format!("name behind `.` at {at} is empty")));
                        }
                        operand = Expr { node: Node::Field(Box::new(operand), name.to_owned()), at };
                    }
                }
                _ => return Ok(operand),
            }
        }
    }

    fn operand(&mut self) -> Result<Expr> {
        let at = self.at();
        let node = match self.advance() {
            Token::Float(value) => Node::Float(value),
            Token::Int(value) => Node::Int(value),
            Token::Bool(value) => Node::Bool(value),
            Token::Name(name) if *self.peek() == Token::Open => {
                if !is_plain_name(&name) {
                    return Err(Failure::invalid(format!("`{name}` at {at} is no name of a function")));
                }
                Node::Call(name, self.arguments()?)
            }
            Token::Name(name) => Node::Name(name),
            Token::Open => {
                let inner = self.choice()?;
                self.expect(&Token::Close)?;
                return Ok(inner);
            }
            other => {
                return Err(Failure::invalid(format!(
                    "expected a value, found {} at {at}",
                    other.describe()
                )));
            }
        };
        Ok(Expr { node, at })
    }

    fn arguments(&mut self) -> Result<Vec<Expr>> {
        self.expect(&Token::Open)?;
        let mut arguments = Vec::new();
        while *self.peek() != Token::Close {
            arguments.push(self.choice()?);
            if *self.peek() != Token::Comma {
                break;
            }
            self.advance();
        }
        self.expect(&Token::Close)?;
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).unwrap().to_string()
    }

    #[test]
    fn only_plain_names_are_functions() {
        assert_eq!(shown("`sqrt`(x)"), "sqrt(x)");
        assert!(parse("`a + b`(x)").unwrap_err().what.contains("`a + b` at 1"));
    }

    #[test]
    fn operators_bind_as_in_python() {
        assert_eq!(shown("1 + 2 * 3 - 4"), "((1 + (2 * 3)) - 4)");
        assert_eq!(shown("-x**2"), "(-(x ** 2))");
        assert_eq!(shown("2**-x**2"), "(2 ** (-(x ** 2)))");
        assert_eq!(shown("a - b - c"), "((a - b) - c)");
        assert_eq!(shown("a or b and not c < 1"), "(a or (b and (not (c < 1))))");
        assert_eq!(shown("!a && b || c"), "(((not a) and b) or c)");
        assert_eq!(shown("60 < m <= 120 and q"), "((60 < m <= 120) and q)");
        assert_eq!(shown("(a < 1) & (b > 2) | c"), "(((a < 1) and (b > 2)) or c)");
        assert_eq!(shown("a ? b : c ? d : e"), "where(a, b, where(c, d, e))");
        assert_eq!(shown("`odd name` + 1.5e3"), "(`odd name` + 1500.0)");
        assert_eq!(shown("a and not b or c"), "((a and (not b)) or c)");
    }

    #[test]
    fn errors_say_where() {
        let what = |text: &str| parse(text).unwrap_err().what;
        assert_eq!(what("a +"), "expected a value, found the end at 4");
        assert_eq!(what("(a"), "expected `)`, found the end at 3");
        assert_eq!(what("a b"), "expected an operator, found name \"b\" at 3");
        assert_eq!(what("a ^ 2"), "`^` at 3 is not an operator here");
        assert_eq!(what("a = 2"), "`=` at 3 is not an operator");
        assert_eq!(what("2x"), "number \"2\" at 1 runs into a name");
        assert_eq!(what(" "), "expression is empty");
        assert!(what(&"(".repeat(100)).starts_with("expression is nested deeper than 64"));
        assert!(what(&"-".repeat(5000)).starts_with("expression is nested deeper than 64"));
        assert!(what(&"1+".repeat(2000)).starts_with("more than 500 operators"));
        assert!(what(&"1".repeat(9000)).starts_with("expression of 9000 bytes"));
    }
}
