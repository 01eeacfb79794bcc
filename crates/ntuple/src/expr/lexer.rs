//! Text to tokens.

use super::{EXPRESSION_BYTES_MAX, Relation};
use base::{Failure, Result};

/// A word of the language.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Float(f64),
    Int(i64),
    Bool(bool),
    Name(String),
    Relation(Relation),
    /// `and`, `&&`.
    And,
    /// `or`, `||`.
    Or,
    /// `not`.
    Not,
    /// `!`, `~`.
    Bang,
    /// `&`.
    Ampersand,
    /// `|`.
    Bar,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Power,
    Question,
    Colon,
    Comma,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    /// `.` in front of a name, behind something that is no name.
    Dot,
    End,
}

/// A token and the character at which it begins, counted from 1.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) at: usize,
}

struct Lexer<'a> {
    chars: &'a [char],
    next: usize,
}

/// Splits `text` into tokens; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "expression of {} bytes is longer than {EXPRESSION_BYTES_MAX}",
            text.len()
        )));
    }
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, next: 0 };
    let mut out = Vec::new();
    loop {
        while lexer.peek(0).is_some_and(char::is_whitespace) {
            lexer.next += 1;
        }
        let at = lexer.next + 1;
        let token = lexer.token(at)?;
        let is_end = token == Token::End;
        out.push(Placed { token, at });
        if is_end {
            return Ok(out);
        }
    }
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.next + ahead).copied()
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let rest = &self.chars[self.next..];
        let length = rest.iter().position(|c| !keep(*c)).unwrap_or(rest.len());
        self.next += length;
        rest[..length].iter().collect()
    }

    fn token(&mut self, at: usize) -> Result<Token> {
        let Some(first) = self.peek(0) else {
            return Ok(Token::End);
        };
        let is_number =
            first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit()));
        if is_number {
            return self.number(at);
        }
        if first.is_alphabetic() || first == '_' {
            return Ok(word(self.take_while(|c| c.is_alphanumeric() || c == '_' || c == '.')));
        }
        if first == '`' {
            return self.quoted(at);
        }
        self.symbol(first, at)
    }

    fn number(&mut self, at: usize) -> Result<Token> {
        let mut text = self.take_while(|c| c.is_ascii_digit() || c == '.');
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                text.extend(&self.chars[self.next..=self.next + sign]);
                self.next += 1 + sign;
                text += &self.take_while(|c| c.is_ascii_digit());
            }
        }
        if self.peek(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return Err(Failure::invalid(format!("number {text:?} at {at} runs into a name")));
        }
        // Whole numbers beyond 64 bits are still numbers.
        if let Ok(value) = text.parse::<i64>() {
            return Ok(Token::Int(value));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Token::Float(value)),
            _ => Err(Failure::invalid(format!("{text:?} at {at} is not a number"))),
        }
    }

    fn quoted(&mut self, at: usize) -> Result<Token> {
        self.next += 1;
        let name = self.take_while(|c| c != '`');
        if self.peek(0).is_none() || name.is_empty() {
            return Err(Failure::invalid(format!("name in backticks at {at} is empty or has no end")));
        }
        self.next += 1;
        Ok(Token::Name(name))
    }

    fn symbol(&mut self, first: char, at: usize) -> Result<Token> {
        let (token, length) = match (first, self.peek(1)) {
            ('*', Some('*')) => (Token::Power, 2),
            ('<', Some('=')) => (Token::Relation(Relation::LessEqual), 2),
            ('>', Some('=')) => (Token::Relation(Relation::GreaterEqual), 2),
            ('=', Some('=')) => (Token::Relation(Relation::Equal), 2),
            ('!', Some('=')) => (Token::Relation(Relation::NotEqual), 2),
            ('&', Some('&')) => (Token::And, 2),
            ('|', Some('|')) => (Token::Or, 2),
            ('<', _) => (Token::Relation(Relation::Less), 1),
            ('>', _) => (Token::Relation(Relation::Greater), 1),
            ('!' | '~', _) => (Token::Bang, 1),
            ('&', _) => (Token::Ampersand, 1),
            ('|', _) => (Token::Bar, 1),
            ('+', _) => (Token::Plus, 1),
            ('-', _) => (Token::Minus, 1),
            ('*', _) => (Token::Star, 1),
            ('/', _) => (Token::Slash, 1),
            ('%', _) => (Token::Percent, 1),
            ('?', _) => (Token::Question, 1),
            (':', _) => (Token::Colon, 1),
            (',', _) => (Token::Comma, 1),
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            ('[', _) => (Token::OpenBracket, 1),
            (']', _) => (Token::CloseBracket, 1),
            ('.', _) => (Token::Dot, 1),
            ('^', _) => {
                return Err(Failure::invalid(format!("`^` at {at} is not an operator here"))
                    .hint("write a**b for a power, a != b for exclusive or of truth values"));
            }
            ('=', _) => {
                return Err(
                    Failure::invalid(format!("`=` at {at} is not an operator")).hint("write == to compare")
                );
            }
            (other, _) => return Err(Failure::invalid(format!("unexpected {other:?} at {at}"))),
        };
        self.next += length;
        Ok(token)
    }
}

fn word(text: String) -> Token {
    match text.as_str() {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "true" | "True" => Token::Bool(true),
        "false" | "False" => Token::Bool(false),
        _ => Token::Name(text),
    }
}

impl Token {
    /// The token as an error message names it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Float(value) => format!("number {value}"),
            Self::Int(value) => format!("number {value}"),
            Self::Bool(value) => format!("`{value}`"),
            Self::Name(name) => format!("name {name:?}"),
            Self::Relation(relation) => format!("`{}`", relation.symbol()),
            Self::And => "`and`".to_owned(),
            Self::Or => "`or`".to_owned(),
            Self::Not => "`not`".to_owned(),
            Self::Bang => "`!`".to_owned(),
            Self::Ampersand => "`&`".to_owned(),
            Self::Bar => "`|`".to_owned(),
            Self::Plus => "`+`".to_owned(),
            Self::Minus => "`-`".to_owned(),
            Self::Star => "`*`".to_owned(),
            Self::Slash => "`/`".to_owned(),
            Self::Percent => "`%`".to_owned(),
            Self::Power => "`**`".to_owned(),
            Self::Question => "`?`".to_owned(),
            Self::Colon => "`:`".to_owned(),
            Self::Comma => "`,`".to_owned(),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::OpenBracket => "`[`".to_owned(),
            Self::CloseBracket => "`]`".to_owned(),
            Self::Dot => "`.`".to_owned(),
            Self::End => "the end".to_owned(),
        }
    }
}
