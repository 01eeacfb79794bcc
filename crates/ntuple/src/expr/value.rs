//! What an expression means: numbers, objects, places; for an entry, or for each element of a list.

use super::graph::{Domain, Graph, Id, Pick, Rows};
use base::{Failure, Result};

/// The meaning of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// A number or truth value.
    Plain(Plain),
    /// Something that has variables: an element of a collection, a combination of such, a four-vector.
    Object(Object),
    /// A row of a list, by `argmin` and its like.
    Place(Pick),
}

/// A number or truth value: of the entry, or of those rows of its domain that are selected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plain {
    pub(crate) id: Id,
    /// A truth value of the same domain; all rows if `None`.
    pub(crate) selection: Option<Id>,
}

/// An object of the entry, or one in each selected row of a domain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) domain: Domain,
    pub(crate) selection: Option<Id>,
}

/// Where the variables of an object come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Columns whose names begin alike.
    Collection(String),
    /// Elements of two lists.
    Joined(Box<Object>, Box<Object>),
    /// Parts `a`, `b`, `c`, each in the list that it is taken from.
    Combination(Vec<Value>),
    /// The object of that number in a combination.
    Part(u8, Box<Object>),
    /// That in one row.
    Picked(Box<Object>, Pick),
    /// That at a place in the list of the entry.
    At(Box<Object>, Id),
    /// `px`, `py`, `pz`, `energy`.
    Vector([Id; 4]),
}

impl Object {
    /// Lists that were joined to make it.
    pub(super) fn lists(&self) -> u32 {
        match &self.kind {
            Kind::Joined(first, second) => first.lists() + second.lists(),
            _ => 1,
        }
    }

    /// Objects of which it is made, itself included.
    fn size(&self) -> usize {
        let parts = match &self.kind {
            Kind::Collection(_) | Kind::Vector(_) => 0,
            Kind::Joined(first, second) => first.size() + second.size(),
            Kind::Combination(parts) => parts.iter().map(Value::size).sum(),
            Kind::Part(_, inner) | Kind::Picked(inner, _) | Kind::At(inner, _) => inner.size(),
        };
        1 + parts
    }
}

impl From<Id> for Plain {
    fn from(id: Id) -> Self {
        Self { id, selection: None }
    }
}

/// Most objects of which one is made: bounds the stack of what walks them, and what definitions of definitions add up to.
const OBJECTS_MAX: usize = 256;

/// The names of the parts of a combination.
pub(super) const PARTS: [&str; 3] = ["a", "b", "c"];

impl Value {
    /// What it is, as error messages and the list of columns name it.
    pub(crate) fn describe(&self, graph: &Graph) -> String {
        let (name, domain) = match self {
            Self::Plain(plain) => (graph.ty(plain.id).name(), graph.domain(plain.id)),
            Self::Object(object) => ("object", object.domain),
            Self::Place(pick) => ("place", graph.parent(pick.domain)),
        };
        if domain == Domain::ENTRIES { name.to_owned() } else { format!("list[{name}]") }
    }

    /// Objects of which it is made.
    fn size(&self) -> usize {
        if let Self::Object(object) = self { object.size() } else { 0 }
    }

    /// Refuses objects beyond the bound; checked after each expression, whose own size is bound.
    pub(super) fn check_size(&self) -> Result<()> {
        if self.size() <= OBJECTS_MAX {
            return Ok(());
        }
        Err(Failure::invalid(format!("object is made of more than {OBJECTS_MAX} others"))
            .hint("define its variables instead, each as a number"))
    }

    /// Its rows, and which of them are selected.
    pub(super) fn rows(&self, graph: &Graph) -> (Domain, Option<Id>) {
        match self {
            Self::Plain(plain) => (graph.domain(plain.id), plain.selection),
            Self::Object(object) => (object.domain, object.selection),
            Self::Place(pick) => (graph.parent(pick.domain), graph.parent_selection(pick.domain)),
        }
    }
}

/// Brings values into one domain, so that they can be combined row by row.
///
/// A value of the entry goes to every row, one of a list to the combinations that the list is part of once. `what` names
/// the operation, `at` its place.
pub(super) fn align(
    graph: &mut Graph,
    collections: &[String],
    values: &[Plain],
    what: &str,
    at: usize,
) -> Result<(Vec<Id>, Option<Id>)> {
    let mut target = Domain::ENTRIES;
    for value in values {
        let domain = graph.domain(value.id);
        if domain == target || domain == Domain::ENTRIES || part_of(graph, domain, target).is_some() {
            continue;
        }
        if target == Domain::ENTRIES || part_of(graph, target, domain).is_some() {
            target = domain;
            continue;
        }
        let (a, b) = (graph.domain_name(target, collections), graph.domain_name(domain, collections));
        return Err(Failure::invalid(format!(
            "`{what}` at {at} takes values of {a} together with values of {b}"
        ))
        .hint(mixing_hint(graph, target, domain)));
    }
    let mut selection = None;
    let mut ids = Vec::with_capacity(values.len());
    for value in values {
        let domain = graph.domain(value.id);
        if graph.is_constant(value.id) || domain == target {
            ids.push(value.id);
        } else if domain == Domain::ENTRIES {
            ids.push(graph.lift(super::graph::From::Entry, value.id, target));
        } else {
            let part = part_of(graph, domain, target).expect("the target was chosen so");
            if graph.parts(target)[usize::from(part)].1 != value.selection {
                return Err(other_selection(graph, collections, domain, what, at));
            }
            ids.push(graph.lift(super::graph::From::Part(part), value.id, target));
        }
        if domain == target && domain != Domain::ENTRIES {
            match selection {
                None => selection = Some(value.selection),
                Some(known) if known == value.selection => {}
                Some(_) => return Err(other_selection(graph, collections, domain, what, at)),
            }
        }
    }
    Ok((ids, selection.flatten()))
}

fn other_selection(graph: &Graph, collections: &[String], domain: Domain, what: &str, at: usize) -> Failure {
    let name = graph.domain_name(domain, collections);
    Failure::invalid(format!("`{what}` at {at} takes two different selections of {name} together"))
        .hint("define the selection first, as in define(\"good\", \"Jet[Jet.pt > 30]\"), and use good.pt and good.eta")
}

fn mixing_hint(graph: &Graph, a: Domain, b: Domain) -> &'static str {
    if graph.is_combination(a) || graph.is_combination(b) {
        "use the parts of the combination, as in p.a.pt and p.b.pt"
    } else {
        "reduce one of them (any, sum, max …), or combine them: pairs(Jet, Muon), deltar(Jet, Muon)"
    }
}

/// Which part of the combination `whole` the list `part` is, if it is exactly one of them.
fn part_of(graph: &Graph, part: Domain, whole: Domain) -> Option<u8> {
    let Rows::Combination(_, parts) = graph.rows(whole) else { return None };
    let mut found = parts.iter().enumerate().filter(|(_, (domain, _))| *domain == part);
    let only = found.next().filter(|_| found.next().is_none());
    only.filter(|_| parts.len() == 2).map(|(number, _)| number as u8)
}
