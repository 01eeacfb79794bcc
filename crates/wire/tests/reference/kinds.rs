//! Types of Rust in the words of spec/management.md §3.

/// Types that are declared elsewhere, and the words for them.
const WORDS: [(&str, &str); 43] = [
    ("bool", "bool"),
    ("u8", "number"),
    ("u16", "number"),
    ("u32", "number"),
    ("u64", "number"),
    ("i32", "number"),
    ("usize", "number"),
    ("f64", "number"),
    ("String", "text"),
    ("FilePath", "path"),
    ("Timestamp", "time"),
    ("NanoTime", "time in ns"),
    ("Millis", "span"),
    ("FileId", "id"),
    ("ObjectId", "id"),
    ("JobId", "id"),
    ("RequestId", "id"),
    ("SessionId", "id"),
    ("Vid", "vid"),
    ("Checksums", "sums"),
    ("Failure", "failure"),
    ("Month", "month"),
    ("OtherHead", "{root, http}"),
    ("core::net::IpAddr", "address"),
    ("EventType", "text"),
    ("HostLabel", "label"),
    ("AttributeName", "text"),
    ("AttributeValue", "hex"),
    ("ProjectName", "text"),
    ("Subject", "subject"),
    ("Rights", "right"),
    ("FailureDomain", "failure domain"),
    ("ByteRange", "{offset, end}"),
    ("ClientId", "id"),
    ("Generation", "number"),
    ("Incarnation", "number"),
    ("Assurance", "{doubt, is_certain}"),
    ("Verdict", "wait, {doubt}, deadlock or cancelled"),
    ("LockOwner", "number"),
    ("Fence", "{incarnation, generation, range, oldest}"),
    ("Mode", "text"),
    ("LockMode", "text"),
    ("Holder", "{owner, group, mode}"),
];

/// What a type holds: `Vec<` and the like taken away, or `None`.
fn inside<'a>(kind: &'a str, wrapper: &str) -> Option<&'a str> {
    kind.strip_prefix(wrapper)?.strip_prefix('<')?.strip_suffix('>')
}

/// The parts of a list of types, where those in brackets stay whole.
fn parts(kinds: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, letter) in kinds.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                found.push(kinds[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(kinds[start..].trim());
    found
}

/// A type in words. `named` is told every type that has a section of its own.
pub(crate) fn words(kind: &str, named: &mut dyn FnMut(&str)) -> String {
    if let Some((_, words)) = WORDS.iter().find(|(name, _)| *name == kind) {
        return (*words).to_owned();
    }
    if let Some(kind) = inside(kind, "Option") {
        return words(kind, named);
    }
    if let Some(kind) = inside(kind, "Vec") {
        return match inside(kind, "Option") {
            Some(kind) => format!("[{} or null]", words(kind, named)),
            None => format!("[{}]", words(kind, named)),
        };
    }
    if let Some(kinds) = inside(kind, "BTreeMap") {
        let kinds: Vec<_> = parts(kinds).into_iter().map(|kind| words(kind, named)).collect();
        return format!("{{{}}}", kinds.join(": "));
    }
    if let Some((kind, count)) =
        kind.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|rest| rest.split_once("; "))
    {
        let or_null = if kind.starts_with("Option<") { " or null" } else { "" };
        return format!("[{count} of {}{or_null}]", words(kind, named));
    }
    if let Some(kinds) = kind.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        let kinds: Vec<_> = parts(kinds).into_iter().map(|kind| words(kind, named)).collect();
        return format!("[{}]", kinds.join(", "));
    }
    let name = kind.rsplit("::").next().unwrap_or(kind);
    named(name);
    format!("[{name}](#{})", name.to_lowercase())
}

#[test]
fn types_have_words() {
    let mut seen = Vec::new();
    let mut shown = |kind: &str| words(kind, &mut |name| seen.push(name.to_owned()));
    assert_eq!(shown("Option<Vec<(ObjectId, u64)>>"), "[[id, number]]");
    assert_eq!(shown("Vec<Option<Failure>>"), "[failure or null]");
    assert_eq!(shown("[Option<Vec<u8>>; 2]"), "[2 of [number] or null]");
    assert_eq!(shown("BTreeMap<String, super::Entry>"), "{text: [Entry](#entry)}");
    assert_eq!(seen, ["Entry"]);
}
