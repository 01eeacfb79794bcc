//! Errors that show where in the expression they are.

use base::Failure;

/// Characters of an expression that are shown: a line of a terminal.
const SHOWN_MAX: usize = 72;
/// Characters in front of the place at least, if the expression is longer.
const BEFORE: usize = 48;

/// Adds the expression, and a caret under the character that the message names first, as in `unknown column "x" at 5`.
pub(crate) fn point(text: &str, mut failure: Failure) -> Failure {
    let chars: Vec<char> =
        text.chars().map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c }).collect();
    // One behind the last is the place of something that is not there.
    let Some(at) = place(&failure.what).filter(|at| (1..=chars.len() + 1).contains(at)) else {
        return failure;
    };
    let start = if chars.len() <= SHOWN_MAX { 0 } else { at.saturating_sub(BEFORE) };
    let end = chars.len().min(start + SHOWN_MAX);
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < chars.len() { "…" } else { "" });
    let shown: String = chars[start..end].iter().collect();
    let indent = " ".repeat(at - 1 - start + before.chars().count());
    failure.what += &format!("\n  {before}{shown}{after}\n  {indent}^");
    failure
}

/// The first number behind `at` that does not stand in quotes: names can be anything.
fn place(message: &str) -> Option<usize> {
    let mut rest = message;
    let mut quoted_by = None;
    while let Some(next) = rest.chars().next() {
        match quoted_by {
            // As `{:?}` writes quotes within quotes.
            Some('"') if next == '\\' => rest = &rest[1..],
            Some(quote) if next == quote => quoted_by = None,
            None if next == '"' || next == '`' => quoted_by = Some(next),
            None => {
                let digits = rest.strip_prefix(" at ").map(|behind| {
                    &behind[..behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len())]
                });
                if let Some(at) = digits.and_then(|digits| digits.parse().ok()) {
                    return Some(at);
                }
            }
            Some(_) => {}
        }
        rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, what: &str) -> Vec<String> {
        point(text, Failure::invalid(what)).what.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn a_caret_stands_under_the_place() {
        assert_eq!(shown("1 + ptt", "unknown column \"ptt\" at 5; columns are px"), ["  1 + ptt", "      ^"]);
        assert_eq!(shown("µ + x\n+ y", "unknown column \"y\" at 9"), ["  µ + x + y", "          ^"]);
        assert_eq!(shown("x +", "expected a value, found the end at 4"), ["  x +", "     ^"]);
        assert_eq!(shown("`x at 9`", "column \"x at \\\"9\" at 1 is text"), ["  `x at 9`", "  ^"]);
        assert_eq!(shown("x", "expression is empty"), Vec::<String>::new());
        assert_eq!(shown("x", "something at 7"), Vec::<String>::new());
        let long = "x".repeat(500);
        let lines = shown(&long, "unexpected 'x' at 300");
        assert_eq!(lines[0].chars().count(), 2 + SHOWN_MAX + 2);
        assert_eq!(lines[1].chars().count() - 1, 2 + 1 + BEFORE - 1);
    }

    proptest! {
        #[test]
        fn any_message_never_panics(text in ".{0,200}", what in ".{0,40}( at [0-9]{1,4})?[\"`\\\\]{0,3}.{0,9}") {
            point(&text, Failure::invalid(what));
        }
    }
}
