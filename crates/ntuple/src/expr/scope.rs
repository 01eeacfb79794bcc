//! The names that expressions use.

use super::{
    graph::{Domain, Graph, Id, Rows},
    value::{Kind, Object, Plain, Value},
};
use crate::column::collection_of;
use base::{Failure, Result};
use std::collections::HashMap;

/// The names that an expression may use.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    names: HashMap<String, Value>,
    columns: Vec<String>,
    refused: HashMap<String, String>,
    /// Collections of lists, by their number.
    collections: Vec<String>,
    /// Objects of which columns are the variables: collections, and what stands before the underscore of other columns.
    objects: HashMap<String, Object>,
}

impl Scope {
    /// Adds a column of the n-tuple.
    pub(crate) fn add_column(&mut self, name: &str, id: Id, graph: &Graph) {
        self.columns.push(name.to_owned());
        self.names.insert(name.to_owned(), Value::Plain(id.into()));
        let (collection, domain) = (collection_of(name), graph.domain(id));
        if collection.is_empty() {
            return;
        }
        let object = Object { kind: Kind::Collection(collection.to_owned()), domain, selection: None };
        let known = self.objects.entry(collection.to_owned()).or_insert_with(|| object.clone());
        if known.domain == Domain::ENTRIES {
            *known = object;
        }
    }

    /// The domain of the lists of a collection.
    pub(crate) fn collection(&mut self, name: &str, graph: &mut Graph) -> Domain {
        let number = self.collections.iter().position(|known| known == name).unwrap_or_else(|| {
            self.collections.push(name.to_owned());
            self.collections.len() - 1
        });
        graph.make_domain(Rows::Collection(number))
    }

    /// Names of the collections of lists.
    pub(crate) fn collections(&self) -> &[String] {
        &self.collections
    }

    /// Adds a column that cannot be used, and why.
    pub(crate) fn add_refused(&mut self, name: &str, why: &str) {
        self.refused.insert(name.to_owned(), why.to_owned());
    }

    /// Adds a defined variable; it may not hide another name.
    pub(crate) fn define(&mut self, name: &str, value: Value) -> Result<()> {
        let is_collection = self.objects.get(name).is_some_and(|object| object.domain != Domain::ENTRIES);
        if self.names.contains_key(name) || is_collection {
            return Err(Failure::new(
                base::ErrorKind::Exists,
                format!("{name:?} is already a column, collection or variable"),
            )
            .hint("choose another name"));
        }
        self.columns.push(name.to_owned());
        self.names.insert(name.to_owned(), value);
        Ok(())
    }

    /// The column of the variable `name` of a collection.
    pub(super) fn column_of(&self, collection: &str, name: &str) -> Option<Plain> {
        let found = ["_", "."].map(|between| self.names.get(&format!("{collection}{between}{name}")));
        match found.into_iter().flatten().next() {
            Some(Value::Plain(plain)) => Some(*plain),
            _ => None,
        }
    }

    /// The variables of a collection.
    pub(super) fn columns_of(&self, collection: &str) -> Vec<String> {
        let of = |name: &String| name.strip_prefix(collection)?.strip_prefix(['_', '.']).map(str::to_owned);
        self.columns.iter().filter_map(of).collect()
    }

    /// The value of a name, and what stands behind it after a dot.
    pub(super) fn find<'n>(&self, name: &'n str, at: usize) -> Result<(Value, Option<&'n str>)> {
        if let Some(value) = self.names.get(name) {
            return Ok((value.clone(), None));
        }
        if let Some((base, fields)) = name.split_once('.') {
            let object = self.objects.get(base).cloned().map(Value::Object);
            if let Some(value) = self.names.get(base).cloned().or(object) {
                return Ok((value, Some(fields)));
            }
        }
        if let Some(object) = self.objects.get(name) {
            return Ok((Value::Object(object.clone()), None));
        }
        // Files that keep structures in lists call `Jet.pt` what others call `Jet_pt`.
        if let Some(value) = self.names.get(&name.replacen('_', ".", 1)) {
            return Ok((value.clone(), None));
        }
        if let Some(why) = self.refused.get(name) {
            return Err(Failure::unsupported(format!("column {name:?} at {at} {why}")));
        }
        Err(unknown("column", name, at, self.columns.iter().map(String::as_str)))
    }
}

/// How many names an error message lists.
const NAMES_SHOWN: usize = 12;

pub(super) fn unknown<'a>(
    what: &str,
    name: &str,
    at: usize,
    known: impl Iterator<Item = &'a str>,
) -> Failure {
    let known: Vec<&str> = known.collect();
    let mut listed = known.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if known.len() > NAMES_SHOWN {
        listed += &format!(" and {} more", known.len() - NAMES_SHOWN);
    }
    let failure = Failure::invalid(format!("unknown {what} {name:?} at {at}; {what}s are {listed}"));
    match closest(name, &known) {
        Some(near) => failure.hint(format!("did you mean {near:?}?")),
        None => failure,
    }
}

/// The known name with the fewest letters changed, if a third of the letters at most.
pub(crate) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = name.chars().count();
    let best = known.iter().map(|candidate| (distance(name, candidate), *candidate)).min()?;
    (best.0 <= 1.max(letters / 3)).then_some(best.1)
}

/// Letters to insert, delete or replace to make `b` of `a`, regardless of case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let changed = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
