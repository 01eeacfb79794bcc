//! Functions that expressions call.

use super::{
    Expr,
    check::Checker,
    graph::{Binary, Choice, Combination, Domain, Id, Part, Pick, Reduction, Rows, Scalar, Type, Unary},
    scope::unknown,
    value::{Kind, Object, Plain, Value, align},
};
use base::{Failure, Result};

/// Lists that are joined to one: rows of joined lists have numbers of 31 bits, see `SECOND` and `ELEMENTS_MAX`.
const LISTS_JOINED_MAX: u32 = 8;

/// Functions of one float.
const FLOAT_FUNCTIONS: [(&str, Unary); 24] = [
    ("sqrt", Unary::Sqrt),
    ("exp", Unary::Exp),
    ("expm1", Unary::Expm1),
    ("log", Unary::Log),
    ("log1p", Unary::Log1p),
    ("log10", Unary::Log10),
    ("log2", Unary::Log2),
    ("sin", Unary::Sin),
    ("cos", Unary::Cos),
    ("tan", Unary::Tan),
    ("asin", Unary::Asin),
    ("acos", Unary::Acos),
    ("atan", Unary::Atan),
    ("sinh", Unary::Sinh),
    ("cosh", Unary::Cosh),
    ("tanh", Unary::Tanh),
    ("asinh", Unary::Asinh),
    ("acosh", Unary::Acosh),
    ("atanh", Unary::Atanh),
    ("floor", Unary::Floor),
    ("ceil", Unary::Ceil),
    ("round", Unary::Round),
    ("isnan", Unary::IsNan),
    ("float", Unary::ToFloat),
];
/// The other functions, with the arguments they take. Those of lists make one value of the elements of each entry.
const OTHER_FUNCTIONS: [(&str, usize, usize); 25] = [
    ("abs", 1, 1),
    ("atan2", 2, 2),
    ("hypot", 2, 2),
    ("pow", 2, 2),
    ("min", 1, 16),
    ("max", 1, 16),
    ("where", 3, 3),
    ("any", 1, 1),
    ("all", 1, 1),
    ("sum", 1, 1),
    ("mean", 1, 1),
    ("count", 1, 1),
    ("first", 1, 1),
    ("last", 1, 1),
    ("argmin", 1, 1),
    ("argmax", 1, 1),
    ("argclosest", 2, 2),
    ("closest", 2, 2),
    ("pairs", 1, 2),
    ("triples", 1, 1),
    ("cross", 2, 2),
    ("concat", 2, LISTS_JOINED_MAX as usize),
    ("deltaphi", 2, 2),
    ("deltar", 2, 4),
    ("vector", 4, 4),
];

/// Names of the functions that expressions may call.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    FLOAT_FUNCTIONS.iter().map(|(name, _)| *name).chain(OTHER_FUNCTIONS.iter().map(|(name, _, _)| *name))
}

/// A function that is called: its name, and where.
#[derive(Clone, Copy)]
struct Called<'a> {
    name: &'a str,
    at: usize,
}

impl Checker<'_> {
    pub(super) fn call(&mut self, name: &str, arguments: &[Expr], at: usize) -> Result<Value> {
        let called = Called { name, at };
        if let Some((_, op)) = FLOAT_FUNCTIONS.iter().find(|(known, _)| *known == name) {
            expect_arguments(called, arguments.len(), 1, 1)?;
            let mut plain = self.plain(&arguments[0])?;
            plain.id = self.graph.float(plain.id);
            if *op != Unary::ToFloat {
                plain.id = self.graph.unary(*op, plain.id);
            }
            return Ok(Value::Plain(plain));
        }
        let Some((_, least, most)) = OTHER_FUNCTIONS.iter().find(|(known, _, _)| *known == name) else {
            return Err(unknown("function", name, at, function_names()));
        };
        expect_arguments(called, arguments.len(), *least, *most)?;
        match (name, arguments.len()) {
            ("pairs" | "triples" | "cross", _) => self.combination(called, arguments),
            ("concat", _) => self.concat(called, arguments),
            ("deltaphi", _) | ("deltar", 2) => self.distance(called, arguments),
            ("deltar", 3) => Err(Failure::invalid(format!("deltar at {at} takes 2 or 4 arguments, found 3"))
                .hint("deltar(Jet, Muon), or deltar(eta1, phi1, eta2, phi2)")),
            ("min" | "max", 1) | ("any" | "all" | "sum" | "mean" | "count", _) => {
                self.reduction(called, &arguments[0])
            }
            ("first" | "last" | "argmin" | "argmax" | "argclosest" | "closest", _) => {
                self.choice(called, arguments)
            }
            _ => self.elementwise(called, arguments),
        }
    }

    /// Functions that work row by row.
    fn elementwise(&mut self, Called { name, at }: Called<'_>, arguments: &[Expr]) -> Result<Value> {
        let mut plains = Vec::new();
        for (number, argument) in arguments.iter().enumerate() {
            let is_condition = name == "where" && number == 0;
            plains.push(if is_condition { self.truth(argument, name)? } else { self.plain(argument)? });
        }
        let (ids, selection) = align(self.graph, self.scope.collections(), &plains, name, at)?;
        let graph = &mut *self.graph;
        let id = match name {
            "abs" => {
                let a = graph.number(ids[0]);
                graph.unary(Unary::Abs, a)
            }
            "pow" => graph.power(ids[0], ids[1], false),
            "where" => {
                let (yes, no) = graph.unify(ids[1], ids[2]);
                graph.select(ids[0], yes, no)
            }
            "min" => self.fold(Binary::Min, &ids),
            "max" => self.fold(Binary::Max, &ids),
            "deltar" => self.delta_r([ids[0], ids[1], ids[2], ids[3]]),
            "vector" => return self.make_vector(&ids, selection),
            _ => {
                let (a, b) = (graph.float(ids[0]), graph.float(ids[1]));
                graph.binary(if name == "atan2" { Binary::Atan2 } else { Binary::Hypot }, a, b)
            }
        };
        Ok(Value::Plain(Plain { id, selection }))
    }

    fn fold(&mut self, op: Binary, ids: &[Id]) -> Id {
        let mut folded = self.graph.number(ids[0]);
        for id in &ids[1..] {
            let next = self.graph.number(*id);
            let (a, b) = self.graph.unify(folded, next);
            folded = self.graph.binary(op, a, b);
        }
        folded
    }

    /// A four-vector of `px`, `py`, `pz`, `energy`.
    fn make_vector(&mut self, ids: &[Id], selection: Option<Id>) -> Result<Value> {
        let vector = [0, 1, 2, 3].map(|i| self.graph.float(ids[i]));
        let domain = vector.iter().map(|id| self.graph.domain(*id)).max().unwrap_or(Domain::ENTRIES);
        Ok(Value::Object(Object { kind: Kind::Vector(vector), domain, selection }))
    }

    /// The argument, which must be a list; its domain and selection.
    fn list(&mut self, called: Called<'_>, argument: &Expr) -> Result<(Value, Domain, Option<Id>)> {
        let value = self.value(argument)?;
        let (domain, selection) = value.rows(self.graph);
        if domain == Domain::ENTRIES {
            let Called { name, at } = called;
            let found = value.describe(self.graph);
            return Err(Failure::invalid(format!(
                "{name} at {at} needs a list, found {found} at {}",
                argument.at
            ))
            .hint("lists are the columns with several values for each entry"));
        }
        Ok((value, domain, selection))
    }

    fn reduction(&mut self, called: Called<'_>, argument: &Expr) -> Result<Value> {
        let (value, domain, mask) = self.list(called, argument)?;
        let result = |checker: &Self, id| {
            Ok(Value::Plain(Plain { id, selection: checker.graph.parent_selection(domain) }))
        };
        if called.name == "count" {
            let id = self.graph.count(domain, mask);
            return result(self, id);
        }
        if let (Value::Object(object), "sum") = (&value, called.name) {
            let vector = self.vector(object, argument.at)?;
            let vector = vector.map(|component| self.graph.sum(domain, component.id, mask));
            let (domain, selection) = (self.graph.parent(domain), self.graph.parent_selection(domain));
            return Ok(Value::Object(Object { kind: Kind::Vector(vector), domain, selection }));
        }
        let id = self.as_plain(value, argument.at)?.id;
        if matches!(called.name, "any" | "all") && self.graph.ty(id) != Type::Bool {
            let found = self.graph.ty(id).name();
            return Err(Failure::invalid(format!(
                "`{}` needs bool, found {found} at {}",
                called.name, argument.at
            ))
            .hint("compare the elements with something, as in any(Jet.pt > 30)"));
        }
        let graph = &mut *self.graph;
        let id = match called.name {
            "any" => graph.any(domain, id, mask),
            "all" => graph.all(domain, id, mask),
            "sum" => graph.sum(domain, id, mask),
            "min" => graph.extremum(Reduction::Min, domain, id, mask),
            "max" => graph.extremum(Reduction::Max, domain, id, mask),
            _ => {
                let value = graph.float(id);
                let (sum, count) = (graph.sum(domain, value, mask), graph.count(domain, mask));
                let count = graph.float(count);
                graph.binary(Binary::Div, sum, count)
            }
        };
        result(self, id)
    }

    /// Functions that choose a row.
    fn choice(&mut self, called: Called<'_>, arguments: &[Expr]) -> Result<Value> {
        let (mut value, domain, mask) = self.list(called, &arguments[0])?;
        let pick = match called.name {
            "first" => Pick { domain, mask, choice: Choice::Nth(0), key: None },
            "last" => Pick { domain, mask, choice: Choice::Last, key: None },
            name => {
                let plain = self.as_plain(value, arguments[0].at)?;
                let mut key = plain.id;
                if name.ends_with("closest") {
                    let target = self.plain(&arguments[1])?;
                    let (ids, _) =
                        align(self.graph, self.scope.collections(), &[plain, target], name, called.at)?;
                    let (a, b) = (self.graph.float(ids[0]), self.graph.float(ids[1]));
                    let difference = self.graph.binary(Binary::Sub, a, b);
                    key = self.graph.unary(Unary::Abs, difference);
                }
                value = Value::Plain(plain);
                let choice = if name == "argmax" { Choice::Greatest } else { Choice::Least };
                self.graph.pick_best(domain, mask, choice, key)
            }
        };
        if called.name.starts_with("arg") {
            return Ok(Value::Place(pick));
        }
        self.pick_value(value, pick, called.at)
    }

    /// The argument as a part of a combination.
    fn part_of(&mut self, called: Called<'_>, argument: &Expr) -> Result<(Value, Part)> {
        let (value, domain, selection) = self.list(called, argument)?;
        if self.graph.is_combination(domain) {
            let Called { name, at } = called;
            return Err(Failure::invalid(format!(
                "{name} at {at} takes lists, found a combination at {}",
                argument.at
            ))
            .hint("combine three elements with triples"));
        }
        Ok((value, (domain, selection)))
    }

    fn combination(&mut self, called: Called<'_>, arguments: &[Expr]) -> Result<Value> {
        let mut values = Vec::new();
        let mut parts = Vec::new();
        for argument in arguments {
            let (value, part) = self.part_of(called, argument)?;
            values.push(value);
            parts.push(part);
        }
        let kind = match (called.name, arguments.len()) {
            ("pairs", 1) => Combination::Pairs,
            ("pairs", _) => Combination::Product,
            ("triples", _) => Combination::Triples,
            _ => Combination::Cross,
        };
        if arguments.len() == 1 {
            let size = if kind == Combination::Pairs { 2 } else { 3 };
            values.resize(size, values[0].clone());
            parts.resize(size, parts[0]);
        }
        let domain = self.graph.make_domain(Rows::Combination(kind, parts));
        Ok(Value::Object(Object { kind: Kind::Combination(values), domain, selection: None }))
    }

    fn concat(&mut self, called: Called<'_>, arguments: &[Expr]) -> Result<Value> {
        let mut joined: Option<Object> = None;
        for argument in arguments {
            let object = match self.part_of(called, argument)? {
                (Value::Object(object), _) => object,
                (value, _) => {
                    let (at, found) = (argument.at, value.describe(self.graph));
                    return Err(Failure::invalid(format!("concat needs collections, found {found} at {at}"))
                        .hint("concat(Muon, Electron).pt"));
                }
            };
            joined = Some(match joined {
                None => object,
                Some(before) => self.join_objects(before, object),
            });
            if joined.as_ref().is_some_and(|joined| joined.lists() > LISTS_JOINED_MAX) {
                return Err(Failure::invalid(format!(
                    "concat at {} joins more than {LISTS_JOINED_MAX} lists",
                    called.at
                ))
                .hint("count those that its arguments join already"));
            }
        }
        // There are two arguments at least.
        Ok(joined.map_or_else(|| unreachable!("concat has arguments"), Value::Object))
    }

    /// Distance in azimuth, or in pseudorapidity and azimuth: of two objects, or of each in one list to each in another.
    fn distance(&mut self, called: Called<'_>, arguments: &[Expr]) -> Result<Value> {
        let Called { name, at } = called;
        let mut objects = Vec::new();
        let mut plains = Vec::new();
        for argument in arguments {
            match self.value(argument)? {
                Value::Object(object) => objects.push(object),
                value if name == "deltaphi" => plains.push(self.as_plain(value, argument.at)?),
                value => {
                    let found = value.describe(self.graph);
                    return Err(Failure::invalid(format!(
                        "{name} needs objects, found {found} at {}",
                        argument.at
                    ))
                    .hint("deltar(Jet, Muon), or deltar(eta1, phi1, eta2, phi2)"));
                }
            }
        }
        if let [a, b] = &*objects {
            let [a, b] = self.facing(a, b);
            for name in if name == "deltar" { &["eta", "phi"][..] } else { &["phi"] } {
                for object in [&a, &b] {
                    let value = self.field(object, name, at)?;
                    plains.push(self.as_plain(value, at)?);
                }
            }
        }
        let (ids, selection) = align(self.graph, self.scope.collections(), &plains, name, at)?;
        let id = match *ids {
            [phi1, phi2] => self.delta_phi(phi1, phi2),
            [eta1, eta2, phi1, phi2] => self.delta_r([eta1, phi1, eta2, phi2]),
            _ => return Err(Failure::invalid(format!("{name} at {at} needs two objects, or numbers"))),
        };
        Ok(Value::Plain(Plain { id, selection }))
    }

    /// Two objects, each of which stands before each of the other if they are of different lists.
    fn facing(&mut self, a: &Object, b: &Object) -> [Object; 2] {
        let is_list = |object: &Object, graph: &super::graph::Graph| {
            object.domain != Domain::ENTRIES && !graph.is_combination(object.domain)
        };
        if a.domain == b.domain || !is_list(a, self.graph) || !is_list(b, self.graph) {
            return [a.clone(), b.clone()];
        }
        let parts = vec![(a.domain, a.selection), (b.domain, b.selection)];
        let domain = self.graph.make_domain(Rows::Combination(Combination::Cross, parts));
        [(0, a), (1, b)].map(|(number, object)| Object {
            kind: Kind::Part(number, Box::new(object.clone())),
            domain,
            selection: None,
        })
    }

    /// The difference of two angles, from -π to π.
    fn delta_phi(&mut self, a: Id, b: Id) -> Id {
        let graph = &mut *self.graph;
        let (a, b) = (graph.float(a), graph.float(b));
        let difference = graph.binary(Binary::Sub, a, b);
        let turn = graph.constant(Scalar::Float(std::f64::consts::TAU));
        let turns = graph.binary(Binary::Div, difference, turn);
        let turns = graph.unary(Unary::Round, turns);
        let whole = graph.binary(Binary::Mul, turns, turn);
        graph.binary(Binary::Sub, difference, whole)
    }

    fn delta_r(&mut self, [eta1, phi1, eta2, phi2]: [Id; 4]) -> Id {
        let phi = self.delta_phi(phi1, phi2);
        let graph = &mut *self.graph;
        let (a, b) = (graph.float(eta1), graph.float(eta2));
        let eta = graph.binary(Binary::Sub, a, b);
        let (eta, phi) = (graph.binary(Binary::Mul, eta, eta), graph.binary(Binary::Mul, phi, phi));
        let square = graph.binary(Binary::Add, eta, phi);
        graph.unary(Unary::Sqrt, square)
    }
}

fn expect_arguments(Called { name, at }: Called<'_>, found: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    Err(Failure::invalid(format!("{name} at {at} takes {wanted} arguments, found {found}")))
}
