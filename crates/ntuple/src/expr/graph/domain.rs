//! Rows over which values vary: entries, elements of lists, combinations of elements.
//!
//! A value of the graph stands in one *domain* (an index set, as in Chapel). Elementwise operations keep the domain;
//! [`Jagged`] operations lead from one to another: a value of the entry is *lifted* to its elements, a value of elements
//! is *reduced* to one of their entry. A selection of a list is no domain of its own: it is a truth value beside it.

use super::{Graph, Id, Key, Op, Scalar, Type};
use std::collections::HashMap;

/// Number of a domain in its [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Domain(pub(crate) u32);

impl Domain {
    /// One row for each entry.
    pub(crate) const ENTRIES: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The rows of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    /// One for each entry.
    Entries,
    /// The elements of the lists of one collection, by its number.
    Collection(usize),
    /// For each entry the elements of one list, then those of another.
    Joined(Domain, Domain),
    /// Elements taken together, from lists or selections of them.
    Combination(Combination, Vec<Part>),
}

/// A list, or those of its elements for which a truth value holds.
pub(crate) type Part = (Domain, Option<Id>);

/// Which elements are taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Combination {
    /// Two different elements of a list, each pair once.
    Pairs,
    /// Three different elements of a list.
    Triples,
    /// One element of each of two lists.
    Product,
    /// The same, but results stand beside each element of the first list.
    Cross,
}

/// From where a row of a domain takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum From {
    /// Its entry.
    Entry,
    /// One of the elements that it combines.
    Part(u8),
}

/// What is made of the rows that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Any,
    All,
    Sum,
    /// Skips NaN; NaN of nothing.
    Min,
    /// Skips NaN; NaN of nothing.
    Max,
}

/// Which of the rows that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Choice {
    Nth(u32),
    Last,
    /// That with the least key; the first of equals, never NaN.
    Least,
    /// That with the greatest key; the first of equals, never NaN.
    Greatest,
}

/// A row of `domain`, chosen among those that belong together and for which `mask` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pick {
    pub(crate) domain: Domain,
    pub(crate) choice: Choice,
    pub(crate) key: Option<Id>,
    pub(crate) mask: Option<Id>,
}

/// Operations that lead from one domain to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Jagged {
    /// The value of the entry or of a part.
    Lift(From, Id),
    /// Values of the first list, then of the second.
    Join(Id, Id),
    /// Number of the row in its entry, from 0.
    Position,
    /// Rows of a domain that belong together.
    Count(Domain),
    /// Rows of a domain that belong together, made one.
    Reduce(Reduction, Domain, Id),
    /// Place of the element, in its list, that is the part of this number of the picked row; -1 if there is no row.
    Pick(Pick, u8),
    /// The element of a list at a place; nothing if there is no such place.
    At(Id, Id),
}

/// All domains of a graph.
#[derive(Debug)]
pub(crate) struct Domains {
    rows: Vec<Rows>,
    known: HashMap<Rows, Domain>,
}

impl Default for Domains {
    fn default() -> Self {
        Self { rows: vec![Rows::Entries], known: HashMap::from([(Rows::Entries, Domain::ENTRIES)]) }
    }
}

impl Graph {
    pub(crate) fn make_domain(&mut self, rows: Rows) -> Domain {
        let next = Domain(self.domains.rows.len() as u32);
        let domain = *self.domains.known.entry(rows.clone()).or_insert(next);
        if domain == next {
            self.domains.rows.push(rows);
        }
        domain
    }

    pub(crate) fn rows(&self, domain: Domain) -> &Rows {
        &self.domains.rows[domain.index()]
    }

    pub(crate) fn domain(&self, id: Id) -> Domain {
        self.node(id).domain
    }

    /// The domain in which results of reducing `domain` stand.
    pub(crate) fn parent(&self, domain: Domain) -> Domain {
        match self.rows(domain) {
            Rows::Combination(Combination::Cross, parts) => parts[0].0,
            _ => Domain::ENTRIES,
        }
    }

    /// The parts of a combination; of a list it is itself the only one.
    pub(crate) fn parts(&self, domain: Domain) -> Vec<Part> {
        match self.rows(domain) {
            Rows::Combination(_, parts) => parts.clone(),
            _ => vec![(domain, None)],
        }
    }

    pub(crate) fn is_combination(&self, domain: Domain) -> bool {
        matches!(self.rows(domain), Rows::Combination(..))
    }

    pub(crate) fn plain_jagged(&mut self, op: Jagged, ty: Type, domain: Domain) -> Id {
        self.intern(Key::Jagged(op, domain), Op::Jagged(op), ty, domain)
    }

    /// The domain of a value that is computed of these: constants stand in all.
    pub(super) fn joint_domain(&self, ids: &[Id]) -> Domain {
        let varying = ids.iter().filter(|id| !matches!(self.node(**id).op, Op::Const(_)));
        let mut domains = varying.map(|id| self.domain(*id));
        let first = domains.next().unwrap_or(Domain::ENTRIES);
        debug_assert!(domains.all(|domain| domain == first), "operands are lifted to one domain before");
        first
    }

    /// What a node is computed from, the selections of the lists that its domain combines included.
    pub(crate) fn arguments(&self, id: Id) -> Vec<Id> {
        let mut arguments = match self.node(id).op {
            Op::Const(_) | Op::Column(_) | Op::Present(_) => Vec::new(),
            Op::Unary(_, a) => vec![a],
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![a, b],
            Op::Select(a, b, c) => vec![a, b, c],
            Op::Jagged(op) => op.arguments(),
        };
        let of = match self.node(id).op {
            Op::Jagged(op) => op.source().unwrap_or(self.domain(id)),
            _ => self.domain(id),
        };
        if let Rows::Combination(_, parts) = self.rows(of) {
            arguments.extend(parts.iter().filter_map(|(_, mask)| *mask));
        }
        arguments
    }
}

impl Jagged {
    /// The domain whose rows it makes one of, if it does that.
    pub(crate) fn source(self) -> Option<Domain> {
        match self {
            Self::Count(domain) | Self::Reduce(_, domain, _) => Some(domain),
            Self::Pick(pick, _) => Some(pick.domain),
            Self::Lift(..) | Self::Join(..) | Self::Position | Self::At(..) => None,
        }
    }

    /// The values that it names.
    pub(crate) fn arguments(self) -> Vec<Id> {
        match self {
            Self::Lift(_, a) | Self::Reduce(_, _, a) => vec![a],
            Self::Join(a, b) | Self::At(a, b) => vec![a, b],
            Self::Position | Self::Count(_) => Vec::new(),
            Self::Pick(pick, _) => pick.key.into_iter().chain(pick.mask).collect(),
        }
    }

    /// The same with other values and domains.
    fn with(self, value: &dyn Fn(Id) -> Id, domain: &dyn Fn(Domain) -> Domain) -> Self {
        match self {
            Self::Lift(from, a) => Self::Lift(from, value(a)),
            Self::Join(a, b) => Self::Join(value(a), value(b)),
            Self::Position => Self::Position,
            Self::Count(of) => Self::Count(domain(of)),
            Self::Reduce(how, of, a) => Self::Reduce(how, domain(of), value(a)),
            Self::At(a, place) => Self::At(value(a), value(place)),
            Self::Pick(pick, part) => Self::Pick(
                Pick {
                    domain: domain(pick.domain),
                    key: pick.key.map(value),
                    mask: pick.mask.map(value),
                    choice: pick.choice,
                },
                part,
            ),
        }
    }
}

/// A graph made anew from another, node by node.
pub(in crate::expr) struct Rebuilt {
    pub(in crate::expr) graph: Graph,
    /// The new number of each node.
    pub(in crate::expr) ids: Vec<Id>,
    domains: Vec<Domain>,
}

impl Rebuilt {
    pub(in crate::expr) fn new(of: &Graph) -> Self {
        Self { graph: Graph::default(), ids: Vec::with_capacity(of.len()), domains: vec![Domain::ENTRIES] }
    }

    fn domain(&mut self, of: &Graph, domain: Domain) -> Domain {
        // Domains are made of earlier ones, and of values that came before every value in them.
        while self.domains.len() <= domain.index() {
            let next = Domain(self.domains.len() as u32);
            let rows = match of.rows(next) {
                Rows::Entries => Rows::Entries,
                Rows::Collection(number) => Rows::Collection(*number),
                Rows::Joined(a, b) => Rows::Joined(self.domains[a.index()], self.domains[b.index()]),
                Rows::Combination(kind, parts) => {
                    let part = |(domain, mask): &Part| {
                        (self.domains[domain.index()], mask.map(|mask| self.ids[mask.index()]))
                    };
                    Rows::Combination(*kind, parts.iter().map(part).collect())
                }
            };
            let made = self.graph.make_domain(rows);
            self.domains.push(made);
        }
        self.domains[domain.index()]
    }

    /// Adds node `id` of the graph `of`; all before it were added.
    pub(in crate::expr) fn add(&mut self, of: &Graph, id: Id) {
        let node = of.node(id);
        let domain = self.domain(of, node.domain);
        let graph = &mut self.graph;
        let new = |id: Id| self.ids[id.index()];
        let added = match node.op {
            Op::Const(value) => graph.constant(value),
            Op::Column(column) => graph.plain_column(column, node.ty, domain),
            Op::Present(_) => graph.constant(Scalar::Bool(true)),
            Op::Unary(op, a) => graph.plain_unary(op, new(a)),
            Op::Binary(op, a, b) => graph.plain_binary(op, new(a), new(b)),
            Op::Compare(op, a, b) => graph.plain_compare(op, new(a), new(b)),
            Op::Select(a, b, c) => graph.plain_select(new(a), new(b), new(c)),
            Op::Jagged(op) => {
                if let Some(domain) = op.source() {
                    self.domain(of, domain);
                }
                let op = op.with(&|id| self.ids[id.index()], &|domain| self.domains[domain.index()]);
                self.graph.simplified(op, node.ty, domain)
            }
        };
        self.ids.push(added);
    }
}

impl Graph {
    /// The operation, or what it comes to if it works on constants.
    pub(crate) fn simplified(&mut self, op: Jagged, ty: Type, domain: Domain) -> Id {
        let constant = |graph: &Self, id: Id| match graph.node(id).op {
            Op::Const(value) => Some(value),
            _ => None,
        };
        match op {
            Jagged::Lift(_, a) | Jagged::At(a, _) if constant(self, a).is_some() => a,
            Jagged::Reduce(Reduction::All, _, a) if constant(self, a) == Some(Scalar::Bool(true)) => a,
            Jagged::Reduce(Reduction::Any, _, a) if constant(self, a) == Some(Scalar::Bool(false)) => a,
            Jagged::Join(a, b) if a == b && constant(self, a).is_some() => a,
            // Values of the row itself are nothing to lift.
            Jagged::Lift(_, a) if self.domain(a) == domain => a,
            op => self.plain_jagged(op, ty, domain),
        }
    }

    /// The value that `id`, a value in the domain of `pick`, has in the picked row.
    ///
    /// Combinations are never kept: their values are computed again from the elements that were picked.
    pub(crate) fn picked(&mut self, id: Id, pick: Pick) -> Id {
        let parent = self.parent(pick.domain);
        if self.domain(id) != pick.domain {
            // A constant, or a value of the parent.
            return id;
        }
        let place =
            |graph: &mut Self, part: u8| graph.simplified(Jagged::Pick(pick, part), Type::Int, parent);
        if !self.is_combination(pick.domain) {
            let place = place(self, 0);
            let ty = self.ty(id);
            return self.simplified(Jagged::At(id, place), ty, parent);
        }
        let mut made: HashMap<Id, Id> = HashMap::new();
        for id in self.cone(id, pick.domain) {
            let node = self.node(id);
            let new = |id: Id| made.get(&id).copied().unwrap_or(id);
            let value = match node.op {
                Op::Jagged(Jagged::Lift(From::Entry, a)) => self.lift_to(a, parent),
                Op::Jagged(Jagged::Lift(From::Part(0), a)) if self.domain(a) == parent => a,
                Op::Jagged(Jagged::Lift(From::Part(part), a)) => {
                    let place = place(self, part);
                    self.simplified(Jagged::At(a, place), node.ty, parent)
                }
                Op::Unary(op, a) => self.plain_unary(op, new(a)),
                Op::Binary(op, a, b) => self.plain_binary(op, new(a), new(b)),
                Op::Compare(op, a, b) => self.plain_compare(op, new(a), new(b)),
                Op::Select(a, b, c) => self.plain_select(new(a), new(b), new(c)),
                _ => id,
            };
            made.insert(id, value);
        }
        made[&id]
    }

    /// A value of entries as a value of `domain`.
    fn lift_to(&mut self, id: Id, domain: Domain) -> Id {
        let ty = self.ty(id);
        self.simplified(Jagged::Lift(From::Entry, id), ty, domain)
    }

    /// The values of `domain` of which `id` is computed within it, arguments first.
    fn cone(&self, id: Id, domain: Domain) -> Vec<Id> {
        let mut found = std::collections::BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if self.domain(id) == domain && found.insert(id) {
                open.extend(self.arguments(id));
            }
        }
        found.into_iter().collect()
    }

    /// Whether it is the same in every row of every domain.
    pub(crate) fn is_constant(&self, id: Id) -> bool {
        matches!(self.node(id).op, Op::Const(_))
    }
}
