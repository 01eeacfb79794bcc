//! Which columns of an RNTuple hold the values of which column of the n-tuple.
//!
//! A field with sub-fields gives its leaves a name, as in Parquet: `Jet`, a vector of structures with `pt`, is `Jet.pt`;
//! `MET`, a structure, is `MET.pt`. Members of base classes are members.

use super::envelope::{ColumnRecord, Description, Field};
use crate::column::{FileColumn, Kind};
use std::collections::HashMap;

/// Nesting of fields: classes of experiments are some ten deep.
const DEPTH_MAX: usize = 64;

/// Columns with the same content, one of which each cluster has.
pub(super) type Representations = Vec<u32>;

/// What makes lists of values.
#[derive(Debug, Clone)]
pub(super) enum List {
    /// Their ends, counted from the beginning of the cluster.
    Ends(Representations),
    /// All are of this length.
    Fixed(u64),
}

/// What the values are.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Values(Representations),
    /// Lengths of the lists that end there.
    Lengths(Representations),
}

/// How the values of a column are found.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) list: Option<List>,
    /// Ends of lists of no or one value: those that may be missing.
    pub(super) optional: Option<Representations>,
    pub(super) content: Content,
}

/// A column of the n-tuple; without access it cannot be used.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) about: FileColumn,
    pub(super) access: Option<Access>,
}

/// The leaves of all fields, in their order.
pub(super) fn leaves(description: &Description) -> Vec<Leaf> {
    let mut walk = Walk {
        description,
        children: HashMap::new(),
        columns: columns_by_field(description),
        found: Vec::new(),
    };
    let mut top = Vec::new();
    for (id, field) in description.fields.iter().enumerate() {
        let id = id as u32;
        if field.parent == id {
            top.push(id);
        } else {
            walk.children.entry(field.parent).or_default().push(id);
        }
    }
    for id in top {
        let name = description.fields[id as usize].name.clone();
        if name.starts_with('_') && walk.is_shown_elsewhere(id) {
            continue;
        }
        walk.field(id, &name, &Place::default());
    }
    refuse_twins(walk.found)
}

/// For each field the columns of each of its places, all representations of a place together.
fn columns_by_field(description: &Description) -> HashMap<u32, Vec<Representations>> {
    let own = description.columns.iter().enumerate().map(|(id, column)| (id as u32, column.field));
    let all = own.chain(description.aliases.iter().copied());
    let mut places: HashMap<(u32, u16), usize> = HashMap::new();
    let mut found: HashMap<u32, Vec<Representations>> = HashMap::new();
    for (id, field) in all {
        let Some(column) = description.columns.get(id as usize) else { continue };
        let place = places.entry((field, column.representation)).or_default();
        let known = found.entry(field).or_default();
        if known.len() == *place {
            known.push(Vec::new());
        }
        known[*place].push(id);
        *place += 1;
    }
    found
}

/// Names that are there twice mean neither.
fn refuse_twins(mut leaves: Vec<Leaf>) -> Vec<Leaf> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for leaf in &leaves {
        *counts.entry(leaf.about.name.clone()).or_default() += 1;
    }
    for leaf in &mut leaves {
        let count = counts.get(&leaf.about.name).copied().unwrap_or(0);
        if count > 1 {
            leaf.access = None;
            leaf.about.kind = Err(format!("is there {count} times; give each a name of its own"));
        }
    }
    leaves
}

/// What was passed on the way to a field.
#[derive(Debug, Clone, Default)]
struct Place {
    list: Option<List>,
    optional: Option<Representations>,
    refused: Option<&'static str>,
    depth: usize,
}

const LIST_OF_LISTS: &str = "is a list of lists; only lists of values can be used";

impl Place {
    /// The place inside of lists.
    fn inside(&self, list: List) -> Self {
        let mut here = self.clone();
        if self.optional.is_some() {
            here.refused = Some("is a list that may be missing as a whole; only lists of values can be used");
        } else if here.list.replace(list).is_some() {
            here.refused = Some(LIST_OF_LISTS);
        }
        here
    }

    /// The place of values that may be missing.
    fn maybe(&self, ends: Representations) -> Self {
        let mut here = self.clone();
        if here.optional.replace(ends).is_some() {
            here.refused = Some("may be missing in two ways; only plain optional values can be used");
        }
        here
    }
}

struct Walk<'a> {
    description: &'a Description,
    children: HashMap<u32, Vec<u32>>,
    columns: HashMap<u32, Vec<Representations>>,
    found: Vec<Leaf>,
}

impl Walk<'_> {
    /// Whether projected fields show the collection under other names, as ROOT's importer of NanoAOD makes them.
    fn is_shown_elsewhere(&self, id: u32) -> bool {
        let own = self.columns.get(&id).and_then(|places| places.first());
        own.is_some_and(|own| self.description.aliases.iter().any(|(column, _)| own.contains(column)))
    }

    fn field(&mut self, id: u32, name: &str, place: &Place) {
        let field = &self.description.fields[id as usize];
        let place = Place { depth: place.depth + 1, ..place.clone() };
        if place.depth > DEPTH_MAX {
            return self.refuse(name, field, "is nested too deeply");
        }
        let first = self.columns.get(&id).and_then(|places| places.first()).cloned();
        match (field.role, first) {
            (0, first) => self.leaf(id, name, first, place),
            (1, Some(ends)) => {
                let is_map =
                    ["std::map<", "std::unordered_map<", "std::multimap<", "std::unordered_multimap<"];
                if is_map.iter().any(|prefix| field.type_name.starts_with(prefix)) {
                    return self.refuse(
                        name,
                        field,
                        "is a map; only lists and structures of values can be used",
                    );
                }
                let is_optional = ["std::optional<", "std::unique_ptr<"]
                    .iter()
                    .any(|prefix| field.type_name.starts_with(prefix));
                let here = if is_optional { place.maybe(ends) } else { place.inside(List::Ends(ends)) };
                self.children(id, name, &here);
            }
            (2, _) => self.children(id, name, &place),
            (3, _) => self.refuse(name, field, "is a variant; only values of one type can be used"),
            (4, _) => self.refuse(
                name,
                field,
                "is an object as ROOT's streamer writes it; only numbers can be used",
            ),
            _ => self.refuse(name, field, "has a structure that is not known"),
        }
    }

    fn leaf(&mut self, id: u32, name: &str, first: Option<Representations>, mut place: Place) {
        let field = &self.description.fields[id as usize];
        if let Some(repeat) = field.repeat {
            place = place.inside(List::Fixed(repeat));
        }
        match first {
            None => self.children(id, name, &place),
            Some(_) if field.type_name == "std::string" => {
                self.refuse(name, field, "is text or bytes, not numbers");
            }
            Some(ends) if field.type_name.contains("RNTupleCardinality<") => {
                self.add(name, &place, Content::Lengths(ends), Ok(Kind::I32));
            }
            Some(values) => {
                let kind = self.kind(&values);
                self.add(name, &place, Content::Values(values), kind);
            }
        }
    }

    /// The sub-fields. What has no name of its own adds nothing to that of its leaves.
    fn children(&mut self, id: u32, name: &str, place: &Place) {
        let role = self.description.fields[id as usize].role;
        for child in self.children.get(&id).cloned().unwrap_or_default() {
            let own = &self.description.fields[child as usize].name;
            let is_nameless = own.starts_with(':') || (role != 2 && own == "_0");
            let full = if is_nameless { name.to_owned() } else { format!("{name}.{own}") };
            self.field(child, &full, place);
        }
    }

    /// The kind that holds the values of all representations.
    fn kind(&self, columns: &Representations) -> Result<Kind, String> {
        let mut all: Option<Kind> = None;
        for id in columns {
            let kind = kind_of(&self.description.columns[*id as usize])?;
            all = Some(all.map_or(kind, |other| if other.holds(kind) { other } else { kind }));
        }
        all.ok_or_else(|| "has no values".to_owned())
    }

    fn add(&mut self, name: &str, place: &Place, content: Content, kind: Result<Kind, String>) {
        let kind = place.refused.map_or(kind, |why| Err(why.to_owned()));
        let is_list = place.list.is_some();
        let mut about = match &kind {
            Ok(kind) => FileColumn::of_kind(name, *kind, is_list),
            Err(why) => FileColumn::refused(name, "of another kind", why),
        };
        about.is_optional = place.optional.is_some();
        let access = Access { list: place.list.clone(), optional: place.optional.clone(), content };
        self.found.push(Leaf { about, access: kind.is_ok().then_some(access) });
    }

    fn refuse(&mut self, name: &str, field: &Field, why: &str) {
        let about = FileColumn::refused(name, &field.type_name, why);
        self.found.push(Leaf { about, access: None });
    }
}

/// How the elements of a column are kept, or why they cannot be used.
fn kind_of(column: &ColumnRecord) -> Result<Kind, String> {
    Ok(match column.kind {
        0x00 => Kind::Bool,
        0x01..=0x07 | 0x11..=0x13 => Kind::I32,
        0x08..=0x0a | 0x14..=0x16 => Kind::I64,
        0x0b | 0x0c | 0x17 | 0x18 | 0x1c | 0x1d => Kind::F32,
        0x0d | 0x19 => Kind::F64,
        kind => return Err(format!("is stored as column type {kind:#04x}, which is not known")),
    })
}
