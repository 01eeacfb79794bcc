//! Blanks what is not code, keeping every byte's place: comments, and what stands between the quotes of literals.

/// A string literal without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal {
    /// Where its opening quote is, in bytes.
    pub(crate) quote: usize,
    pub(crate) text: String,
}

/// Code with blanks instead of comments and literals, and the literals.
pub(crate) struct Masked {
    pub(crate) code: String,
    pub(crate) literals: Vec<Literal>,
}

struct Masker<'a> {
    bytes: &'a [u8],
    code: Vec<u8>,
    at: usize,
    literals: Vec<Literal>,
}

impl Masker<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn keep(&mut self, len: usize) {
        self.code.extend_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
    }

    fn blank(&mut self, len: usize) {
        let end = (self.at + len).min(self.bytes.len());
        let blanks = self.bytes[self.at..end].iter();
        self.code.extend(blanks.map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        self.at = end;
    }

    /// Blanks up to `end`, a place relative to here; the whole rest if there is none.
    fn blank_to(&mut self, end: Option<usize>) {
        let rest = self.bytes.len() - self.at;
        self.blank(end.unwrap_or(rest));
    }

    /// A literal: its opening is kept, `len` bytes are blanked, its close is kept.
    fn literal(&mut self, opening: usize, close: usize, len: Option<usize>) {
        self.keep(opening);
        let quote = self.at - 1;
        let start = self.at;
        self.blank_to(len);
        let text = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
        self.literals.push(Literal { quote, text });
        self.keep(close.min(self.bytes.len() - self.at));
    }

    fn done(self) -> Masked {
        Masked {
            code: String::from_utf8(self.code).expect("whole characters are blanked"),
            literals: self.literals,
        }
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Length of what stands between quotes where a backslash hides the byte behind it.
fn until_quote(bytes: &[u8], quote: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            _ if bytes[at..].starts_with(quote) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// Length of a block comment, which may hold others.
fn block_comment(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Hashes of a raw string that begins here, if one does.
fn raw_hashes(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(b"r")?;
    let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
    (rest.get(hashes) == Some(&b'"')).then_some(hashes)
}

/// Length of a character literal with its quotes; a lifetime is none.
fn character(bytes: &[u8]) -> Option<usize> {
    if bytes.get(1) == Some(&b'\\') {
        return until_quote(&bytes[1..], b"'").map(|len| len + 2);
    }
    let end = find(bytes.get(1..bytes.len().min(6))?, b"'")? + 1;
    let inside = std::str::from_utf8(&bytes[1..end]).ok()?;
    (inside.chars().count() == 1).then_some(end + 1)
}

/// Masks Rust.
pub(crate) fn rust(text: &str) -> Masked {
    let mut masker =
        Masker { bytes: text.as_bytes(), code: Vec::with_capacity(text.len()), at: 0, literals: Vec::new() };
    while masker.at < text.len() {
        let rest = masker.rest();
        let is_word = masker.code.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if rest.starts_with(b"//") {
            let end = find(rest, b"\n");
            masker.blank_to(end);
        } else if rest.starts_with(b"/*") {
            let end = block_comment(rest);
            masker.blank_to(end);
        } else if let Some(hashes) = raw_hashes(rest).filter(|_| !is_word || rest_is_raw_bytes(&masker)) {
            let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let len = find(&rest[hashes + 2..], &close);
            masker.literal(hashes + 2, close.len(), len);
        } else if rest.starts_with(b"\"") {
            let len = until_quote(&rest[1..], b"\"");
            masker.literal(1, 1, len);
        } else if let Some(len) = rest.starts_with(b"'").then(|| character(rest)).flatten() {
            masker.keep(1);
            masker.blank(len - 2);
            masker.keep(1);
        } else {
            masker.keep(1);
        }
    }
    masker.done()
}

/// Whether the letter before `r"` is the `b` or `c` of a raw literal and not the end of a word.
fn rest_is_raw_bytes(masker: &Masker<'_>) -> bool {
    let code = &masker.code;
    matches!(code.last(), Some(b'b' | b'c'))
        && !code
            .get(code.len().wrapping_sub(2))
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Masks Python.
pub(crate) fn python(text: &str) -> Masked {
    let mut masker =
        Masker { bytes: text.as_bytes(), code: Vec::with_capacity(text.len()), at: 0, literals: Vec::new() };
    while masker.at < text.len() {
        let rest = masker.rest();
        let quotes: [&[u8]; 4] = [b"\"\"\"", b"'''", b"\"", b"'"];
        if rest.starts_with(b"#") {
            let end = find(rest, b"\n");
            masker.blank_to(end);
        } else if let Some(quote) = quotes.into_iter().find(|quote| rest.starts_with(quote)) {
            let len = until_quote(&rest[quote.len()..], quote);
            masker.literal(quote.len(), quote.len(), len);
        } else {
            masker.keep(1);
        }
    }
    masker.done()
}

#[test]
fn comments_and_literals_are_blanked_in_place() {
    let text =
        "let a = \"x // {\"; // tail }\nlet b = r#\"q\"{\"#; /* a /* b */ c */ '{' '\\'' 'static b\"z\"";
    let masked = rust(text);
    assert_eq!(masked.code.len(), text.len());
    let words: Vec<_> = masked.code.split_whitespace().collect();
    assert_eq!(words.join(" "), "let a = \" \"; let b = r#\" \"#; ' ' ' ' 'static b\" \"");
    let literals: Vec<_> = masked.literals.iter().map(|literal| literal.text.as_str()).collect();
    assert_eq!(literals, ["x // {", "q\"{", "z"]);
}

#[test]
fn python_strings_over_several_lines_are_blanked() {
    let masked = python("def f():\n    \"\"\"One\ntwo: # not\n\"\"\"\n    return 'x' # why\n");
    assert!(!masked.code.contains("two") && !masked.code.contains("why"));
    assert_eq!(masked.code.lines().count(), 5);
}
