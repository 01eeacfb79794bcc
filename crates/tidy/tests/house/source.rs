//! One Rust file with what is code, what is text and what is a test.

use crate::mask::{Literal, rust};

/// A Rust file.
pub(crate) struct Source {
    /// Path below the root of the repository.
    pub(crate) path: String,
    /// Name of its crate.
    pub(crate) package: String,
    pub(crate) text: String,
    /// As `text`, with blanks for comments and in literals.
    pub(crate) code: String,
    pub(crate) literals: Vec<Literal>,
    /// For each line, whether only tests, benchmarks and examples have it.
    pub(crate) is_test: Vec<bool>,
}

impl Source {
    pub(crate) fn new(path: String, package: &str, text: String, is_test: bool) -> Self {
        let masked = rust(&text);
        let mut source = Self {
            path,
            package: package.to_owned(),
            is_test: vec![is_test; text.lines().count() + 1],
            text,
            code: masked.code,
            literals: masked.literals,
        };
        source.mark_tests();
        source
    }

    /// Marks what stands behind `#[cfg(test)]`.
    fn mark_tests(&mut self) {
        let starts: Vec<_> = self.code.match_indices("#[cfg(test)]").map(|(at, _)| at).collect();
        for start in starts {
            let end = self.item_end(start);
            let (first, last) = (self.line(start), self.line(end));
            self.is_test[first - 1..last].fill(true);
        }
    }

    /// The last byte of the item that begins at or behind `from`: its semicolon or its closing brace.
    pub(crate) fn item_end(&self, from: usize) -> usize {
        let mut depth = 0_usize;
        let (mut parens, mut has_body) = (0_i32, false);
        for (at, byte) in self.code.bytes().enumerate().skip(from) {
            match byte {
                b'(' | b'[' => parens += 1,
                b')' | b']' => parens -= 1,
                b'{' => (depth, has_body) = (depth + 1, true),
                b'}' => {
                    depth = depth.saturating_sub(1);
                    // A pattern among the parameters is not the body.
                    if depth == 0 && has_body && parens == 0 {
                        return at;
                    }
                }
                b';' if parens == 0 && depth == 0 => return at,
                _ => {}
            }
        }
        self.code.len().saturating_sub(1)
    }

    /// The line of a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.code[..at].matches('\n').count()
    }

    /// `path:line` of a byte.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.line(at))
    }

    pub(crate) fn is_test_at(&self, at: usize) -> bool {
        self.is_test[self.line(at) - 1]
    }

    /// Every place of a word in the code, with no letter of a longer word before or behind it.
    pub(crate) fn places_of<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_letter = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let bytes = self.code.as_bytes();
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            let starts_word = word.as_bytes()[0].is_ascii_alphanumeric();
            let ends_word = word.ends_with(|c: char| c.is_ascii_alphanumeric());
            !(starts_word && is_letter(before) || ends_word && is_letter(bytes.get(at + word.len())))
        })
    }
}

#[test]
fn an_item_ends_with_its_body_and_not_with_a_pattern_among_its_parameters() {
    let text = "fn a(A { b }: A) {\n    b\n}\nfn c() {}\n";
    let source = Source::new("x.rs".into(), "x", text.into(), false);
    assert_eq!(source.line(source.item_end(0)), 3);
}

#[test]
fn a_test_module_is_marked_and_nothing_behind_it() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
    let source = Source::new("x.rs".into(), "x", text.into(), false);
    assert_eq!(source.is_test, [false, true, true, true, true, false, false]);
    let words: Vec<_> = source.places_of("fn").map(|at| source.line(at)).collect();
    assert_eq!(words, [1, 4, 6]);
}
