//! Values of lists and combinations, with the rules for missing ones: see `missing.rs`.
//!
//! - A sum with a missing element is missing, least and greatest skip it, and a truth value that is missing is not true.
//! - An element that is not there is missing: the first of an empty list, or one at a place outside.

use super::graph::{
    Binary, Choice, Cmp, Domain, From, Graph, Id, Jagged, Op, Pick, Reduction, Rows, Scalar, Type, Unary,
};

impl Graph {
    /// The value of the entry or part of each row of `domain`.
    pub(crate) fn lift(&mut self, from: From, id: Id, domain: Domain) -> Id {
        let present =
            self.present(id).map(|present| self.simplified(Jagged::Lift(from, present), Type::Bool, domain));
        let ty = self.ty(id);
        let value = self.simplified(Jagged::Lift(from, id), ty, domain);
        self.perhaps_missing(value, present)
    }

    /// Values of two lists, one after the other; they have one type.
    pub(crate) fn join(&mut self, a: Id, b: Id, domain: Domain) -> Id {
        let present = match (self.present(a), self.present(b)) {
            (None, None) => None,
            (a, b) => {
                let always = self.constant(Scalar::Bool(true));
                let op = Jagged::Join(a.unwrap_or(always), b.unwrap_or(always));
                Some(self.simplified(op, Type::Bool, domain))
            }
        };
        let ty = self.ty(a);
        let value = self.simplified(Jagged::Join(a, b), ty, domain);
        self.perhaps_missing(value, present)
    }

    /// Place of each element in its list.
    pub(crate) fn position(&mut self, domain: Domain) -> Id {
        self.plain_jagged(Jagged::Position, Type::Int, domain)
    }

    fn perhaps_missing(&mut self, value: Id, present: Option<Id>) -> Id {
        match present {
            Some(present) => self.where_present(value, present),
            None => value,
        }
    }

    pub(crate) fn reduce(&mut self, how: Reduction, domain: Domain, id: Id) -> Id {
        let (ty, parent) = (self.ty(id), self.parent(domain));
        self.simplified(Jagged::Reduce(how, domain, id), ty, parent)
    }

    /// Both, where `None` is always true.
    pub(crate) fn both(&mut self, a: Option<Id>, b: Option<Id>) -> Option<Id> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.plain_binary(Binary::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether the truth value `id` holds for any selected row.
    pub(crate) fn any(&mut self, domain: Domain, id: Id, mask: Option<Id>) -> Id {
        let holds = self.is_true(id);
        let holds = self.both(Some(holds), mask).unwrap_or(holds);
        self.reduce(Reduction::Any, domain, holds)
    }

    /// Whether it holds for every selected row.
    pub(crate) fn all(&mut self, domain: Domain, id: Id, mask: Option<Id>) -> Id {
        let mut holds = self.is_true(id);
        if let Some(mask) = mask {
            let other = self.plain_unary(Unary::Not, mask);
            holds = self.plain_binary(Binary::Or, other, holds);
        }
        self.reduce(Reduction::All, domain, holds)
    }

    /// Sum of the selected rows.
    pub(crate) fn sum(&mut self, domain: Domain, id: Id, mask: Option<Id>) -> Id {
        let id = self.number(id);
        let mut value = id;
        if let Some(mask) = mask {
            let zero = if self.ty(id) == Type::Int { Scalar::Int(0) } else { Scalar::Float(0.0) };
            let zero = self.constant(zero);
            value = self.plain_select(mask, id, zero);
        }
        let sum = self.reduce(Reduction::Sum, domain, value);
        let present = self.present(id).map(|present| self.all(domain, present, mask));
        self.perhaps_missing(sum, present)
    }

    /// Number of selected rows.
    pub(crate) fn count(&mut self, domain: Domain, mask: Option<Id>) -> Id {
        match mask {
            Some(mask) => {
                let one = self.plain_unary(Unary::ToInt, mask);
                self.reduce(Reduction::Sum, domain, one)
            }
            None => {
                let parent = self.parent(domain);
                self.plain_jagged(Jagged::Count(domain), Type::Int, parent)
            }
        }
    }

    /// The least or greatest of the selected rows that are not missing; missing if there is none.
    pub(crate) fn extremum(&mut self, how: Reduction, domain: Domain, id: Id, mask: Option<Id>) -> Id {
        let id = self.number(id);
        let present = self.present(id);
        let keep = self.both(present, mask);
        let is_float = self.ty(id) == Type::Float;
        let nothing = match how {
            _ if is_float => Scalar::Float(f64::NAN),
            Reduction::Min => Scalar::Int(i64::MAX),
            _ => Scalar::Int(i64::MIN),
        };
        let nothing = self.constant(nothing);
        let value = keep.map_or(id, |keep| self.plain_select(keep, id, nothing));
        let best = self.reduce(how, domain, value);
        if is_float {
            return best;
        }
        let keep = keep.unwrap_or_else(|| self.constant(Scalar::Bool(true)));
        let present = self.reduce(Reduction::Any, domain, keep);
        self.where_present(best, present)
    }

    /// The place, in its list, of the element that is the part of that number of the picked row; -1 if there is none.
    pub(crate) fn picked_place(&mut self, pick: Pick, part: u8) -> Id {
        let parent = self.parent(pick.domain);
        self.simplified(Jagged::Pick(pick, part), Type::Int, parent)
    }

    /// Which rows of the parent of `domain` have results.
    pub(crate) fn parent_selection(&self, domain: Domain) -> Option<Id> {
        if self.parent(domain) == Domain::ENTRIES { None } else { self.parts(domain)[0].1 }
    }

    /// Whether a row was picked.
    fn is_picked(&mut self, pick: Pick) -> Id {
        let place = self.picked_place(pick, 0);
        let zero = self.constant(Scalar::Int(0));
        self.plain_compare(Cmp::LessEqual, zero, place)
    }

    /// The value of the picked row.
    pub(crate) fn at_pick(&mut self, id: Id, pick: Pick) -> Id {
        let mut value = self.picked(id, pick);
        let is_picked = self.is_picked(pick);
        // An element of a list is missing by itself if nothing was picked; what is computed from it need not be.
        if !matches!(self.node(value).op, Op::Jagged(Jagged::At(..))) {
            let nothing = match self.ty(value) {
                Type::Float => Scalar::Float(f64::NAN),
                Type::Int => Scalar::Int(0),
                Type::Bool => Scalar::Bool(false),
            };
            let nothing = self.constant(nothing);
            value = self.plain_select(is_picked, value, nothing);
        }
        // The same element, taken in another way, is present in the same entries.
        if self.ty(value) == Type::Float || self.present(value).is_some() {
            return value;
        }
        let present = match self.present(id) {
            Some(present) => {
                let present = self.picked(present, pick);
                self.plain_binary(Binary::And, is_picked, present)
            }
            None => is_picked,
        };
        self.where_present(value, present)
    }

    /// The elements of a list at `place` in it, which is a value of another domain.
    pub(crate) fn at_place(&mut self, id: Id, place: Id) -> Id {
        let none = self.constant(Scalar::Int(-1));
        let domain = self.domain(place);
        let place = match self.present(place) {
            Some(present) => self.plain_select(present, place, none),
            None => place,
        };
        let ty = self.ty(id);
        let value = self.simplified(Jagged::At(id, place), ty, domain);
        if ty == Type::Float || self.present(value).is_some() {
            return value;
        }
        let list = self.domain(id);
        let mut there = self.is_inside(list, place);
        if let Some(present) = self.present(id) {
            let present = self.simplified(Jagged::At(present, place), Type::Bool, domain);
            there = self.plain_binary(Binary::And, there, present);
        }
        self.where_present(value, there)
    }

    /// Whether the list of the entry has an element at `place`.
    fn is_inside(&mut self, list: Domain, place: Id) -> Id {
        let domain = self.domain(place);
        let zero = self.constant(Scalar::Int(0));
        let count = self.count(list, None);
        let count = self.lift(From::Entry, count, domain);
        let (least, most) =
            (self.plain_compare(Cmp::LessEqual, zero, place), self.plain_compare(Cmp::Less, place, count));
        self.plain_binary(Binary::And, least, most)
    }

    /// A pick by the least or greatest of values; those that are missing are never picked.
    pub(crate) fn pick_best(&mut self, domain: Domain, mask: Option<Id>, choice: Choice, key: Id) -> Pick {
        let key = self.float(key);
        Pick { domain, choice, key: Some(key), mask }
    }

    /// How error messages call the rows of `domain`.
    pub(crate) fn domain_name(&self, domain: Domain, collections: &[String]) -> String {
        let name = |domain| self.domain_name(domain, collections);
        match self.rows(domain) {
            Rows::Entries => "the entry".to_owned(),
            Rows::Collection(number) => match collections[*number].as_str() {
                "" => "lists without a collection".to_owned(),
                collection => collection.to_owned(),
            },
            Rows::Joined(a, b) => format!("concat({}, {})", name(*a), name(*b)),
            Rows::Combination(kind, parts) => {
                let parts: Vec<String> = parts.iter().map(|(domain, _)| name(*domain)).collect();
                use super::graph::Combination as Kind;
                match kind {
                    Kind::Pairs => format!("pairs({})", parts[0]),
                    Kind::Triples => format!("triples({})", parts[0]),
                    Kind::Product => format!("pairs({})", parts.join(", ")),
                    Kind::Cross => format!("cross({})", parts.join(", ")),
                }
            }
        }
    }
}
