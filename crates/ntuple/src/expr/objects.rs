//! Variables of objects: columns of a collection, parts of a combination, and what follows from them.

use super::{
    check::Checker,
    graph::{Binary, Domain, From, Id, Pick, Rows, Scalar, Type, Unary},
    scope::unknown,
    value::{Kind, Object, PARTS, Plain, Value, align},
};
use base::{Failure, Result};

/// Variables of every object with `pt`, `eta`, `phi` and `mass` that it need not have itself.
const DERIVED: [&str; 6] = ["px", "py", "pz", "energy", "p", "index"];
/// Variables of a four-vector.
const OF_VECTORS: [&str; 9] = ["pt", "eta", "phi", "mass", "px", "py", "pz", "energy", "p"];

impl Checker<'_> {
    /// The variable `name` of `object`.
    pub(super) fn field(&mut self, object: &Object, name: &str, at: usize) -> Result<Value> {
        let selection = object.selection;
        let id = match &object.kind {
            Kind::Collection(collection) => return self.of_collection(object, collection, name, at),
            Kind::Joined(first, second) => return self.of_joined(object, first, second, name, at),
            Kind::Vector(vector) => self.of_vector(*vector, name, at)?,
            Kind::Combination(parts) => return self.part(object, parts, name, at),
            Kind::Part(number, inner) => {
                let id = self.number_of(inner, name, at)?;
                self.graph.lift(From::Part(*number), id, object.domain)
            }
            Kind::At(inner, place) => {
                let id = self.number_of(inner, name, at)?;
                self.graph.at_place(id, *place)
            }
            Kind::Picked(inner, pick) => match self.field(inner, name, at)? {
                Value::Object(inner) => return Ok(self.picked_object(inner, *pick)),
                value => {
                    let id = self.of_each(value, inner, name, at)?;
                    self.graph.at_pick(id, *pick)
                }
            },
        };
        Ok(Value::Plain(Plain { id, selection }))
    }

    fn number_of(&mut self, object: &Object, name: &str, at: usize) -> Result<Id> {
        let value = self.field(object, name, at)?;
        self.of_each(value, object, name, at)
    }

    /// `value`, the variable `name` of `object`, in each of its rows. A value of the entry is the same in all.
    fn of_each(&mut self, value: Value, object: &Object, name: &str, at: usize) -> Result<Id> {
        let Plain { id, selection } = self.as_plain(value, at)?;
        let domain = self.graph.domain(id);
        if self.graph.is_constant(id) || (domain, selection) == (object.domain, object.selection) {
            return Ok(id);
        }
        if domain == Domain::ENTRIES {
            return Ok(self.graph.lift(From::Entry, id, object.domain));
        }
        let collections = self.scope.collections();
        let [of, found] = [object.domain, domain].map(|domain| self.graph.domain_name(domain, collections));
        let what = if of == found { format!("a selection of {found}") } else { found };
        Err(Failure::invalid(format!(
            "variable {name:?} at {at} has values of {what}, not one for each element of {of}"
        ))
        .hint("define it without a selection, from variables of the collection whose name it begins with"))
    }

    /// `object` in the row that `pick` picks.
    pub(super) fn picked_object(&self, object: Object, pick: Pick) -> Value {
        let domain = self.graph.parent(pick.domain);
        let selection = self.graph.parent_selection(pick.domain);
        Value::Object(Object { kind: Kind::Picked(Box::new(object), pick), domain, selection })
    }

    fn of_collection(&mut self, object: &Object, collection: &str, name: &str, at: usize) -> Result<Value> {
        if let Some(plain) = self.scope.column_of(collection, name) {
            if object.selection.is_none() {
                // The same as its own name.
                return Ok(Value::Plain(plain));
            }
            let whole = Object { selection: None, ..object.clone() };
            let id = self.of_each(Value::Plain(plain), &whole, name, at)?;
            return Ok(Value::Plain(Plain { id, selection: object.selection }));
        }
        if DERIVED.contains(&name) {
            return self.derived(object, name, at);
        }
        let known = self.scope.columns_of(collection);
        let known = known.iter().map(String::as_str).chain(DERIVED);
        Err(unknown(&format!("variable of {collection}"), name, at, known))
    }

    fn of_joined(
        &mut self,
        object: &Object,
        first: &Object,
        second: &Object,
        name: &str,
        at: usize,
    ) -> Result<Value> {
        if name == "index" {
            return self.derived(object, name, at);
        }
        let plain = |id| Value::Plain(Plain { id, selection: object.selection });
        if name == "source" {
            let before = first.lists();
            let number = self.graph.constant(Scalar::Int(i64::from(before)));
            let zero = self.graph.constant(Scalar::Int(0));
            let earlier = match first.kind {
                Kind::Joined(..) => self.number_of(first, name, at)?,
                _ => zero,
            };
            return Ok(plain(self.graph.join(earlier, number, object.domain)));
        }
        let (a, b) = (self.number_of(first, name, at)?, self.number_of(second, name, at)?);
        let (a, b) = self.unify_joined(a, b);
        Ok(plain(self.graph.join(a, b, object.domain)))
    }

    fn unify_joined(&mut self, a: Id, b: Id) -> (Id, Id) {
        match (self.graph.ty(a), self.graph.ty(b)) {
            (x, y) if x == y => (a, b),
            (Type::Float, _) | (_, Type::Float) => (self.graph.float(a), self.graph.float(b)),
            _ => (self.graph.number(a), self.graph.number(b)),
        }
    }

    fn part(&mut self, object: &Object, parts: &[Value], name: &str, at: usize) -> Result<Value> {
        let found = PARTS[..parts.len()].iter().position(|part| *part == name);
        let Some(number) = found else {
            let known = PARTS[..parts.len()].iter().copied();
            return Err(unknown("part of a combination", name, at, known));
        };
        let (domain, selection) = (object.domain, object.selection);
        Ok(match &parts[number] {
            Value::Object(inner) => {
                let kind = Kind::Part(number as u8, Box::new(inner.clone()));
                Value::Object(Object { kind, domain, selection })
            }
            value => {
                let id = self.as_plain(value.clone(), at)?.id;
                let id = self.graph.lift(From::Part(number as u8), id, domain);
                Value::Plain(Plain { id, selection })
            }
        })
    }

    fn derived(&mut self, object: &Object, name: &str, at: usize) -> Result<Value> {
        if name == "index" {
            if matches!(self.graph.rows(object.domain), Rows::Entries) {
                return Err(Failure::invalid(format!("`index` at {at} needs a list")));
            }
            let id = self.graph.position(object.domain);
            return Ok(Value::Plain(Plain { id, selection: object.selection }));
        }
        let of = |checker: &mut Self, name: &str| {
            let id = checker.number_of(object, name, at)?;
            Ok::<Id, Failure>(checker.graph.float(id))
        };
        let id = match name {
            "px" | "py" => {
                let (pt, phi) = (of(self, "pt")?, of(self, "phi")?);
                let op = if name == "px" { Unary::Cos } else { Unary::Sin };
                let direction = self.graph.unary(op, phi);
                self.graph.binary(Binary::Mul, pt, direction)
            }
            "pz" => {
                let (pt, eta) = (of(self, "pt")?, of(self, "eta")?);
                let slope = self.graph.unary(Unary::Sinh, eta);
                self.graph.binary(Binary::Mul, pt, slope)
            }
            "p" => {
                let (pt, pz) = (of(self, "pt")?, of(self, "pz")?);
                self.graph.binary(Binary::Hypot, pt, pz)
            }
            _ => {
                let parts = ["px", "py", "pz", "mass"];
                let [px, py, pz, mass] = [0, 1, 2, 3].map(|part| of(self, parts[part]));
                let squares = self.sum_of_squares(&[px?, py?, pz?, mass?]);
                self.graph.unary(Unary::Sqrt, squares)
            }
        };
        Ok(Value::Plain(Plain { id, selection: object.selection }))
    }

    fn sum_of_squares(&mut self, values: &[Id]) -> Id {
        let squares: Vec<Id> = values.iter().map(|x| self.graph.binary(Binary::Mul, *x, *x)).collect();
        let sum = squares.into_iter().reduce(|a, b| self.graph.binary(Binary::Add, a, b));
        sum.unwrap_or_else(|| self.graph.constant(Scalar::Float(0.0)))
    }

    fn of_vector(&mut self, [px, py, pz, energy]: [Id; 4], name: &str, at: usize) -> Result<Id> {
        Ok(match name {
            "px" => px,
            "py" => py,
            "pz" => pz,
            "energy" => energy,
            "pt" | "p" => {
                let squares = if name == "pt" { vec![px, py] } else { vec![px, py, pz] };
                let squares = self.sum_of_squares(&squares);
                self.graph.unary(Unary::Sqrt, squares)
            }
            "phi" => self.graph.binary(Binary::Atan2, py, px),
            "eta" => {
                let pt = self.of_vector([px, py, pz, energy], "pt", at)?;
                let slope = self.graph.binary(Binary::Div, pz, pt);
                self.graph.unary(Unary::Asinh, slope)
            }
            "mass" => {
                let momentum = self.sum_of_squares(&[px, py, pz]);
                let energy = self.graph.binary(Binary::Mul, energy, energy);
                let square = self.graph.binary(Binary::Sub, energy, momentum);
                self.graph.unary(Unary::SignedSqrt, square)
            }
            _ => return Err(unknown("variable of a four-vector", name, at, OF_VECTORS.into_iter())),
        })
    }

    /// The four-vector of an object.
    pub(super) fn vector(&mut self, object: &Object, at: usize) -> Result<[Plain; 4]> {
        let mut vector = [Plain { id: Id(0), selection: object.selection }; 4];
        for (component, name) in vector.iter_mut().zip(["px", "py", "pz", "energy"]) {
            let id = self.number_of(object, name, at).map_err(|failure| {
                failure.during(format!("`{name}` of an object follows from pt, eta, phi and mass"))
            })?;
            component.id = self.graph.float(id);
        }
        Ok(vector)
    }

    /// Sum or difference of the four-vectors of two objects.
    pub(super) fn add_objects(&mut self, op: Binary, a: &Object, b: &Object, at: usize) -> Result<Value> {
        let (a, b) = (self.vector(a, at)?, self.vector(b, at)?);
        let symbol = if op == Binary::Add { "+" } else { "-" };
        let all: Vec<Plain> = a.into_iter().chain(b).collect();
        let (ids, selection) = align(self.graph, self.scope.collections(), &all, symbol, at)?;
        let vector = [0, 1, 2, 3].map(|i| self.graph.binary(op, ids[i], ids[i + 4]));
        let domain = vector.iter().map(|id| self.graph.domain(*id)).max().unwrap_or(Domain::ENTRIES);
        Ok(Value::Object(Object { kind: Kind::Vector(vector), domain, selection }))
    }

    /// The elements of one list, then those of another.
    pub(super) fn join_objects(&mut self, first: Object, second: Object) -> Object {
        let domain = self.graph.make_domain(Rows::Joined(first.domain, second.domain));
        let selection = match (first.selection, second.selection) {
            (None, None) => None,
            (a, b) => {
                let always = self.graph.constant(Scalar::Bool(true));
                Some(self.graph.join(a.unwrap_or(always), b.unwrap_or(always), domain))
            }
        };
        Object { kind: Kind::Joined(Box::new(first), Box::new(second)), domain, selection }
    }
}
