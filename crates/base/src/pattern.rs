//! Patterns for names, with the grammar of shells: in paths of commands and in outputs of jobs they mean the same.

/// Whether `name` has a character that means something in a pattern.
#[must_use]
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Whether `name` is what `pattern` says: `*` is any run of characters, `?` one, `[a-z]` and `[!a-z]` one of a set. A dot at the
/// beginning is a character as any other.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // On a mismatch only the last `*` takes one character more: the work is bounded by the product of the lengths.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(length) = one(&pattern[p..], name[n]) {
            p += length;
            n += 1;
        } else {
            let Some((at, taken)) = star else { return false };
            star = Some((at, taken + 1));
            p = at + 1;
            n = taken + 1;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// How much of the pattern means this one character; `None` if it means another one.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match set(pattern) {
            Some((length, has)) => has(character).then_some(length),
            // Without an end it is a bracket.
            None => (character == '[').then_some(1),
        },
        c => (*c == character).then_some(1),
    }
}

/// A set in brackets: its length, and what is in it.
fn set(pattern: &[char]) -> Option<(usize, impl Fn(char) -> bool + '_)> {
    let is_negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(is_negated);
    // A bracket that comes first is itself.
    let end = (first + 1..pattern.len()).find(|at| pattern[*at] == ']')?;
    let members = &pattern[first..end];
    let has = move |c: char| {
        let mut at = 0;
        let mut is_in = false;
        while at < members.len() {
            if at + 2 < members.len() && members[at + 1] == '-' {
                is_in |= (members[at]..=members[at + 2]).contains(&c);
                at += 3;
            } else {
                is_in |= members[at] == c;
                at += 1;
            }
        }
        is_in != is_negated
    };
    Some((end + 1, has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_those_of_shells() {
        for (pattern, name) in [
            ("*", "a"),
            ("*", ".a"),
            ("run*.parquet", "run7.parquet"),
            ("*a*b", "xaab"),
            ("?", "ü"),
            ("a", "a"),
            ("**", ""),
            ("a*a", "aba"),
            ("run?.root", "run7.root"),
            ("[a-c]x", "bx"),
            ("[!a]", "b"),
            ("[]]", "]"),
            ("a[b", "a[b"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("?", ""),
            ("a*a", "a"),
            ("*.root", "x.parquet"),
            ("a", "A"),
            ("", "a"),
            ("?*?", "a"),
            ("[a-c]x", "dx"),
            ("[!a]", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        // The worst case of naive backtracking.
        assert!(!matches(&"*a".repeat(100), &format!("{}b", "a".repeat(250))));
        assert!(is_pattern("a[1]") && !is_pattern("a]"));
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[\\[\\]!^a*?-]{0,12}", name in "[\\[\\]a-]{0,12}") {
            let _ = matches(&pattern, &name);
        }

        #[test]
        fn a_name_without_wildcards_means_itself(name in "[a-z.\\]]{1,12}", other in "[a-z.\\]]{1,12}") {
            prop_assert!(matches(&name, &name) && !is_pattern(&name));
            prop_assert_eq!(matches(&name, &other), name == other);
        }
    }
}
