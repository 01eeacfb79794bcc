//! `docs/reference/api.md`: every call of the management API, made from its declaration and from the comments of the
//! types.
//!
//! `wire::control::CALLS` lists the calls, and the sources say what their fields mean. The test compares the page with
//! the file; `UPDATE_SNAPSHOTS=1 cargo test -p wire --test reference` writes it anew.

mod declared;
mod kinds;
#[path = "../../../cli/src/page.rs"]
mod page;

use declared::{Declared, Field};
use page::{escaped, is_current, paragraph};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::LazyLock,
};
use wire::control::{Audience, CALLS, CallInfo, Effect};

/// The table of calls; its comments are the headings of the page.
const TABLE: &str = include_str!("../../src/control/calls.rs");

/// Limits that comments name.
const LIMITS: &str = include_str!("../../../base/src/limits.rs");

/// The sources of the API: its types, and constants that comments name.
static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control");
    declared::below(&folder)
});

/// What the page says before the calls.
const PREFACE: &str = "# Management API: calls

Reference for developers. Each call is `POST /api/v1/NAME` with a JSON object.
[spec/management.md](../../spec/management.md) says how calls travel, who asks, how values are written, and how calls
fail.

- A field with `?` may be left out. Then it is none, false, 0 or empty, unless its text says what it is.
- *For people* means users; the head checks for which of them ([spec/management.md](../../spec/management.md) §8).
- *Audited*: the audit log has each call, with these fields. *Refusals audited*: it has a call only when it was
  refused, as it has calls that change nothing ([spec/audit.md](../../spec/audit.md) §3).
- *Waits*: with `?wait=SPAN` the answer is held back while there is nothing to tell.
- *Strict*: unknown fields are refused.
- Types in small letters are those of spec/management.md §3; `[x]` is a list.

The page is made from `crates/wire/src/control`: `UPDATE_SNAPSHOTS=1 cargo test -p wire --test reference` makes it anew,
and a test holds that it is current.
";

/// The types of the API, and those of them that the page needs.
struct Page {
    types: BTreeMap<String, Declared>,
    named: BTreeSet<String>,
    text: String,
}

impl Page {
    fn new() -> Self {
        let mut types = BTreeMap::new();
        declared::file(include_str!("../../src/media/object.rs"), &mut types);
        SOURCES.iter().for_each(|source| declared::file(source, &mut types));
        Self { types, named: BTreeSet::new(), text: PREFACE.to_owned() }
    }

    fn words(&mut self, kind: &str) -> String {
        let named = &mut self.named;
        kinds::words(kind, &mut |name| {
            named.insert(name.to_owned());
        })
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The declaration of a type; the page cannot be made without it.
    fn declared(&self, name: &str) -> &Declared {
        self.types
            .get(name)
            .unwrap_or_else(|| panic!("{name} is declared nowhere below crates/wire/src/control"))
    }

    fn fields(&mut self, fields: &[Field]) {
        if fields.is_empty() {
            return;
        }
        self.line("\n| field | type | meaning |\n| --- | --- | --- |");
        for field in fields {
            let kind = self.words(&field.kind);
            assert!(!field.about.is_empty(), "{} has a comment", field.name);
            let name = if field.is_flat { "its fields".to_owned() } else { format!("`{}`", field.name) };
            let mark = if field.is_optional { "?" } else { "" };
            let row = format!("| {name}{mark} | {kind} | {} |", plain(&field.about));
            self.line(&row);
        }
    }

    /// The section of a call.
    fn call(&mut self, call: &CallInfo) {
        let declared = self.declared(call.request);
        let (about, is_strict, fields) =
            (plain(&declared.about), declared.is_strict, declared.fields.clone());
        let _ = write!(self.text, "\n### {}\n\n{}", call.name, lines(&about));
        let reply = if call.reply == "Done" { "`{}`".to_owned() } else { self.words(call.reply) };
        let mut facts = vec![format!("For {}", audience(call)), effect(call)];
        facts.extend(call.can_wait.then(|| "Waits".to_owned()));
        facts.extend(is_strict.then(|| "Strict".to_owned()));
        let _ = write!(self.text, "\n{}. Reply: {reply}.\n", facts.join(". "));
        self.fields(&fields);
    }

    /// The section of a type.
    fn section(&mut self, name: &str) {
        let declared = self.declared(name);
        let (about, is_text) = (plain(&declared.about), declared.is_text);
        let (is_strict, fields) = (declared.is_strict, declared.fields.clone());
        let choices: Vec<_> = declared.choices.iter().map(row).collect();
        let _ = write!(self.text, "\n### {name}\n\n{}", lines(&about));
        if is_text {
            return self.line("\nText.");
        }
        if is_strict {
            self.line("\nStrict.");
        }
        self.fields(&fields);
        if !choices.is_empty() {
            self.line("\n| one of | meaning |\n| --- | --- |");
        }
        for (name, about, carried) in choices {
            let carried: Vec<_> = carried
                .iter()
                .map(|(field, kind)| match (field, self.words(kind)) {
                    (Some(field), kind) => format!("`{field}`: {kind}"),
                    (None, kind) => kind,
                })
                .collect();
            let colon = if carried.is_empty() { "" } else { ": " };
            let row = format!("| `{name}`{colon}{} | {} |", carried.join(", "), plain(&about));
            self.line(&row);
        }
    }

    /// The sections of all types that were named, also by each other, in the order of the alphabet.
    fn sections(&mut self) {
        self.line("\n## Types");
        let mut done = BTreeMap::new();
        while let Some(name) = self.named.iter().find(|name| !done.contains_key(*name)).cloned() {
            let before = std::mem::take(&mut self.text);
            self.section(&name);
            done.insert(name, std::mem::replace(&mut self.text, before));
        }
        self.text.extend(done.into_values());
    }
}

/// A choice in its parts: name, comment, and the fields that it carries.
fn row(choice: &declared::Choice) -> (String, String, Vec<(Option<String>, String)>) {
    let one = choice.carries.iter().map(|kind| (None, kind.clone()));
    let fields = choice.fields.iter().map(|field| (Some(field.name.clone()), field.kind.clone()));
    (choice.name.clone(), choice.about.clone(), one.chain(fields).collect())
}

/// A comment for readers of JSON: without the links of rustdoc, with names of calls and with values of constants.
fn plain(about: &str) -> String {
    let pieces = about.split('`').enumerate().map(|(number, piece)| {
        if number % 2 == 0 {
            let target = piece.strip_prefix("](").and_then(|rest| rest.split_once(')'));
            let text = target.map_or(piece, |(_, rest)| rest);
            return text.trim_start_matches(']').trim_end_matches('[').to_owned();
        }
        let name = piece.trim_end_matches("()").rsplit("::").next().unwrap_or(piece);
        let call = CALLS.iter().find(|call| call.request == name).map(|call| format!("`{}`", call.name));
        let constant = || constant(name);
        let none = || (piece == "None").then(|| "none".to_owned());
        call.or_else(constant).or_else(none).unwrap_or_else(|| format!("`{piece}`"))
    });
    escaped(&pieces.collect::<String>())
}

/// The value of a constant that a comment names.
fn constant(name: &str) -> Option<String> {
    SOURCES.iter().map(String::as_str).chain([LIMITS]).flat_map(str::lines).find_map(|line| {
        let (declared, value) = line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(" = ")?;
        let value = value.replace('_', "").replace(" << 10", " KiB").replace(" << 20", " MiB");
        (declared.split_once(':')?.0 == name).then_some(value)
    })
}

/// Text that is escaped already, in lines that fit.
fn lines(about: &str) -> String {
    paragraph(&about.replace("\\<", "<").replace("\\*", "*").replace("\\|", "|"))
}

/// Who may make a call.
fn audience(call: &CallInfo) -> &'static str {
    match call.audience {
        Audience::People | Audience::Mounts => "people",
        Audience::Disk => "disk servers",
        Audience::Tape => "tape servers",
        Audience::Cpu => "workers",
        Audience::Hosts => "every host that joined",
        Audience::Rooms => "the head's own process",
    }
}

/// What a call does, and what the audit log has of it.
fn effect(call: &CallInfo) -> String {
    if call.effect == Effect::Reads {
        return "Changes nothing".to_owned();
    }
    let is_of_users = matches!(call.audience, Audience::People | Audience::Mounts | Audience::Hosts);
    let audited = if is_of_users { "Audited" } else { "Refusals audited" };
    let named: Vec<_> = call.named.iter().map(|name| format!("`{name}`")).collect();
    if named.is_empty() { audited.to_owned() } else { format!("{audited} with {}", named.join(", ")) }
}

/// Calls with the headings of the table, in its order.
fn headed() -> Vec<(&'static str, Vec<&'static CallInfo>)> {
    let mut groups: Vec<(&str, Vec<&CallInfo>)> = Vec::new();
    for line in TABLE.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix("// ") {
            groups.push((heading, Vec::new()));
        }
        let call = line
            .split_once(" => ")
            .and_then(|(request, _)| CALLS.iter().find(|call| call.request == request));
        if let (Some(call), Some((_, calls))) = (call, groups.last_mut()) {
            calls.push(call);
        }
    }
    groups
}

#[test]
fn the_reference_of_the_api_is_current() {
    let mut page = Page::new();
    let mut listed = 0;
    for (heading, calls) in headed() {
        page.line(&format!("\n## {heading}"));
        listed += calls.len();
        for call in calls.into_iter().filter(|call| call.audience != Audience::Rooms) {
            page.call(call);
        }
    }
    assert_eq!(listed, CALLS.len(), "every call stands below a heading");
    page.sections();
    let inner =
        CALLS.iter().filter(|call| call.audience == Audience::Rooms).map(|call| format!("`{}`", call.name));
    let inner: Vec<_> = inner.collect();
    page.line("\n## Without a path\n\nOnly the head's own process makes these calls.\n");
    let text = paragraph(&format!("{}.", inner.join(", ")));
    page.text.push_str(&text);
    is_current("api.md", &page.text);
}
