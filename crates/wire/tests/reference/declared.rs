//! Types as the sources declare them: structs and enums with their comments, read line by line as rustfmt leaves them.

use std::{collections::BTreeMap, mem::take, path::Path};

/// A struct or an enum.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) about: String,
    /// Whether it is written as text by functions of its own.
    pub(crate) is_text: bool,
    /// Whether it refuses unknown fields.
    pub(crate) is_strict: bool,
    pub(crate) fields: Vec<Field>,
    pub(crate) choices: Vec<Choice>,
}

/// A field of a struct, or of a choice.
#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) about: String,
    /// Whether it may be left out.
    pub(crate) is_optional: bool,
    /// Whether its own fields stand in its place.
    pub(crate) is_flat: bool,
}

/// A variant of an enum.
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) about: String,
    /// What it carries, if it is one thing.
    pub(crate) carries: Option<String>,
    pub(crate) fields: Vec<Field>,
}

/// What stands before an item: its comment and its attributes.
#[derive(Default)]
struct Before {
    about: String,
    attributes: String,
}

impl Before {
    /// Takes a line that belongs to the next item.
    fn takes(&mut self, text: &str) -> bool {
        if let Some(comment) = text.strip_prefix("///") {
            let space = if self.about.is_empty() { "" } else { " " };
            self.about.extend([space, comment.trim()]);
        } else if text.starts_with("#[") {
            self.attributes.push_str(text);
        } else {
            return false;
        }
        true
    }

    fn field(self, text: &str, is_default: bool) -> Option<Field> {
        let (name, kind) = text.trim_start_matches("pub ").trim_end_matches(',').split_once(": ")?;
        let renamed = self.attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
        Some(Field {
            name: renamed.unwrap_or(name).to_owned(),
            is_optional: is_default || kind.starts_with("Option<") || self.attributes.contains("(default"),
            is_flat: self.attributes.contains("flatten"),
            kind: kind.to_owned(),
            about: self.about,
        })
    }
}

/// The sources below a folder.
pub(crate) fn below(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder of the sources can be read");
    let paths = entries.map(|entry| entry.expect("the entry can be read").path());
    let found = paths.flat_map(|path| {
        if path.is_dir() {
            return below(&path);
        }
        vec![std::fs::read_to_string(&path).expect("the source can be read")]
    });
    found.collect()
}

/// The public structs and enums of one source.
pub(crate) fn file(source: &str, found: &mut BTreeMap<String, Declared>) {
    let mut before = Before::default();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if before.takes(line) {
            continue;
        }
        let Before { about, attributes } = take(&mut before);
        let item = ["pub struct ", "pub enum "].iter().find_map(|word| line.strip_prefix(word));
        let Some(item) = item else { continue };
        let name: String = item.chars().take_while(char::is_ascii_alphanumeric).collect();
        let is_default = attributes.contains("serde(default");
        let mut declared = Declared {
            about,
            is_text: attributes.contains("try_from = \"String\""),
            is_strict: attributes.contains("deny_unknown_fields"),
            ..Declared::default()
        };
        if line.ends_with(" {") {
            let mut body = lines.by_ref().take_while(|line| *line != "}");
            if line.starts_with("pub enum ") {
                declared.choices = choices(&mut body);
            } else {
                declared.fields = fields(&mut body, is_default);
            }
        }
        found.insert(name, declared);
    }
}

fn fields(lines: &mut dyn Iterator<Item = &str>, is_default: bool) -> Vec<Field> {
    let mut before = Before::default();
    let lines = lines
        .map(str::trim)
        .filter_map(|text| if before.takes(text) { None } else { take(&mut before).field(text, is_default) });
    lines.collect()
}

fn choices(mut lines: &mut dyn Iterator<Item = &str>) -> Vec<Choice> {
    let (mut before, mut found) = (Before::default(), Vec::new());
    while let Some(text) = lines.next().map(str::trim) {
        if text.is_empty() || before.takes(text) {
            continue;
        }
        let about = take(&mut before).about;
        let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
        let carries = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix("),")).map(str::to_owned);
        let fields = if text.ends_with(" {") {
            fields(&mut Iterator::take_while(&mut lines, |line| line.trim() != "},"), false)
        } else {
            Vec::new()
        };
        found.push(Choice { name: snake(&name), about, carries, fields });
    }
    found
}

/// A name as JSON has it.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[test]
fn structs_and_enums_are_read() {
    let source = "/// A.\n/// B.\n#[serde(deny_unknown_fields)]\npub struct One {\n    /// C.\n    pub a: Option<u8>,\n    \
                  /// D.\n    #[serde(rename = \"type\")]\n    pub b: Two,\n}\n/// E.\npub enum Two {\n    /// F.\n    \
                  UpTo(u8),\n    /// G.\n    At {\n        /// H.\n        c: bool,\n    },\n}\n";
    let mut found = BTreeMap::new();
    file(source, &mut found);
    let (one, two) = (&found["One"], &found["Two"]);
    assert_eq!((one.about.as_str(), one.is_strict, one.fields.len()), ("A. B.", true, 2));
    assert!(one.fields[0].is_optional && !one.fields[1].is_optional);
    assert_eq!((one.fields[1].name.as_str(), one.fields[1].kind.as_str()), ("type", "Two"));
    assert_eq!((two.choices[0].name.as_str(), two.choices[0].carries.as_deref()), ("up_to", Some("u8")));
    assert_eq!((two.choices[1].fields[0].name.as_str(), two.choices[1].about.as_str()), ("c", "G."));
}
