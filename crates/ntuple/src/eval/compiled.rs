//! A query made ready for the kernels: programs, fills and arrays.

use super::{
    compiler::compile,
    jagged::{Phase, phases},
    program::{Arg, Program, Slots, Value},
    registers::Arrays,
};
use crate::{
    column::{Array, Kind, Schema, Values},
    expr::{Domain, From, Graph, Id, Op, Scalar, Type},
    fill::Axis,
    plan::{Collected, Fill, Plan},
};
use std::collections::BTreeSet;

/// A plan ready to run; shared by all threads.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// For row groups in which no value is missing.
    pub(super) plain: Variant,
    /// For all others; `None` if no integer or truth value that is read can be missing.
    pub(super) with_missing: Option<Variant>,
}

/// The programs of a plan, for row groups with or without missing values.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) filter: Option<(Program, Value)>,
    pub(super) body: Program,
    pub(super) fills: Vec<CompiledFill>,
    pub(super) arrays: Vec<CompiledArray>,
    /// What runs instead of the programs if the plan has lists.
    pub(super) phases: Option<Vec<Phase>>,
}

#[derive(Debug, Clone)]
pub(super) struct CompiledFill {
    /// Its number in the plan.
    pub(super) number: usize,
    pub(super) values: Vec<Value>,
    pub(super) cut: Option<Value>,
    pub(super) weight: Option<Value>,
    pub(super) axes: Vec<Axis>,
    pub(super) size: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CompiledArray {
    pub(super) value: Value,
    pub(super) ty: Type,
    /// Where it is present; `None` if everywhere.
    pub(super) present: Option<Value>,
    /// Whether each entry has a list of values.
    pub(super) is_list: bool,
}

/// A cut that all results share moves in front of everything.
fn shared_cut(plan: &Plan) -> Option<Id> {
    let first = plan.fills.first()?.cut?;
    let is_shared = plan.arrays.is_empty() && plan.fills.iter().all(|fill| fill.cut == Some(first));
    (is_shared && plan.graph.domain(first) == Domain::ENTRIES).then_some(first)
}

impl Compiled {
    /// Compiles `plan`.
    pub(crate) fn new(plan: &mut Plan) -> Self {
        let is_jagged = has_lists(plan);
        let (filters, shared) = cuts(plan, is_jagged);
        let filter =
            if is_jagged { None } else { filters.iter().copied().reduce(|a, b| plan.graph.both_true(a, b)) };
        let (graph, ids) = plan.graph.all_present();
        let can_be_missing = plan
            .column_indices()
            .iter()
            .map(|column| &plan.schema.columns[*column])
            .any(|column| column.is_optional && column.ty != Type::Float);
        let variant = |graph: &Graph, of: &dyn Fn(Id) -> Id| {
            if is_jagged {
                Variant::jagged(plan, graph, of, &filters, shared.is_some())
            } else {
                Variant::new(plan, graph, of, filter, shared.is_some())
            }
        };
        Self {
            plain: variant(&graph, &|id: Id| ids[id.index()]),
            with_missing: can_be_missing.then(|| variant(&plan.graph, &|id| id)),
        }
    }

    /// Arrays of the kinds that the plan gives for an n-tuple of `schema`.
    pub(crate) fn empty_arrays(&self, schema: &Schema) -> Vec<Values> {
        let kind = |array: &CompiledArray| match array.value {
            Value::Column(column) => schema.columns[column].kind,
            _ => computed(array.ty),
        };
        self.plain.arrays.iter().map(|array| Array::empty(kind(array)).into()).collect()
    }

    /// Lengths of no lists, for the arrays that have lists.
    pub(crate) fn empty_counts(&self) -> Vec<Option<Vec<u32>>> {
        self.plain.arrays.iter().map(|array| array.is_list.then(Vec::new)).collect()
    }

    /// Which variant computes a row group of these columns.
    pub(super) fn variant(&self, arrays: &Arrays) -> (&Variant, bool) {
        let is_missing = || arrays.iter().flatten().any(|values| values.present.is_some());
        match &self.with_missing {
            Some(variant) if is_missing() => (variant, true),
            _ => (&self.plain, false),
        }
    }
}

/// The cuts that run one after the other in front of the results, and the one among them that all results share.
///
/// A last cut on combinations is no filter but a part of the results: they often need the same combinations, and making
/// those twice costs more than what the cut spares.
fn cuts(plan: &mut Plan, is_jagged: bool) -> (Vec<Id>, Option<Id>) {
    let mut filters = plan.filters.clone();
    let mut shared = shared_cut(plan);
    if is_jagged && plan.arrays.is_empty() {
        shared = shared.filter(|cut| !has_combinations(&plan.graph, *cut));
        if let Some(cut) = filters.pop_if(|cut| shared.is_none() && has_combinations(&plan.graph, *cut)) {
            for fill in &mut plan.fills {
                let domains = fill.values.iter().chain(&fill.cut).map(|id| plan.graph.domain(*id));
                let domain = domains.max().unwrap_or(Domain::ENTRIES);
                let lifted = plan.graph.lift(From::Entry, cut, domain);
                fill.cut = plan.graph.both(Some(lifted), fill.cut);
            }
        }
    }
    filters.extend(shared);
    (filters, shared)
}

/// Whether `id` is computed from combinations of elements.
fn has_combinations(graph: &Graph, id: Id) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let source = match graph.node(id).op {
            Op::Jagged(op) => op.source(),
            _ => None,
        };
        if source.is_some_and(|domain| graph.is_combination(domain)) {
            return true;
        }
        if seen.insert(id) {
            open.extend(graph.arguments(id));
        }
    }
    false
}

/// Whether anything that the plan computes comes from a list.
fn has_lists(plan: &Plan) -> bool {
    plan.column_indices().iter().any(|column| plan.schema.columns[*column].collection.is_some())
}

/// The kind in which values of a type are computed.
pub(super) fn computed(ty: Type) -> Kind {
    match ty {
        Type::Float => Kind::F64,
        Type::Int => Kind::I64,
        Type::Bool => Kind::Bool,
    }
}

impl Variant {
    /// Compiles the values of `plan` as they stand in `graph`, where `of` says which number each has there.
    pub(super) fn new(
        plan: &Plan,
        graph: &Graph,
        of: &dyn Fn(Id) -> Id,
        filter: Option<Id>,
        is_cut_shared: bool,
    ) -> Self {
        let own_cut = |fill: &Fill| if is_cut_shared { None } else { fill.cut };
        let mut roots = Vec::new();
        for fill in &plan.fills {
            roots.extend(fill.values.iter().copied().chain(own_cut(fill)).chain(fill.weight).map(of));
        }
        let is_always = |id: Id| matches!(graph.node(id).op, Op::Const(Scalar::Bool(true)));
        let present = |id: Id| plan.graph.present(id).map(of).filter(|present| !is_always(*present));
        for array in &plan.arrays {
            roots.extend([of(array.id)].into_iter().chain(present(array.id)));
        }
        let (body, values) = compile(graph, &roots, &Slots::new());
        let mut values = values.into_iter();
        let mut next = || values.next().expect("compile gives one value for each root");
        let mut fills = Vec::new();
        for (number, fill) in plan.fills.iter().enumerate() {
            fills.push(CompiledFill {
                number,
                values: fill.values.iter().map(|_| next()).collect(),
                cut: own_cut(fill).map(|_| next()),
                weight: fill.weight.map(|_| next()),
                axes: fill.empty.axes.clone(),
                size: fill.empty.size(),
            });
        }
        let array = |array: &Collected| CompiledArray {
            value: next(),
            ty: plan.graph.ty(array.id),
            present: present(array.id).map(|_| next()),
            is_list: false,
        };
        let arrays = plan.arrays.iter().map(array).collect();
        let filter = filter.map(of).filter(|id| !is_always(*id)).map(|id| {
            let (program, values) = compile(graph, &[id], &Slots::new());
            (program, values[0])
        });
        Self { filter, body, fills, arrays, phases: None }
    }

    /// Compiles a plan with lists; its results have sizes and kinds only, the phases know how to compute them.
    fn jagged(
        plan: &Plan,
        graph: &Graph,
        of: &dyn Fn(Id) -> Id,
        filters: &[Id],
        is_cut_shared: bool,
    ) -> Self {
        let constant = |id: Id| match graph.node(of(id)).op {
            Op::Const(value) => Some(value),
            _ => None,
        };
        let fill = |(number, fill): (usize, &Fill)| CompiledFill {
            number,
            values: Vec::new(),
            cut: None,
            weight: fill.weight.map(|_| Value::Float(Arg::Const(0.0))),
            axes: fill.empty.axes.clone(),
            size: fill.empty.size(),
        };
        let fills: Vec<CompiledFill> = plan.fills.iter().enumerate().map(fill).collect();
        let array = |array: &Collected| CompiledArray {
            value: match plan.graph.node(array.id).op {
                Op::Column(column) => Value::Column(column),
                _ => Value::Mask(Arg::Const(0)),
            },
            ty: plan.graph.ty(array.id),
            present: plan.graph.present(array.id).map(|_| Value::Mask(Arg::Const(1))),
            is_list: plan.graph.domain(array.id) != Domain::ENTRIES,
        };
        let never = filters.iter().any(|filter| constant(*filter) == Some(Scalar::Bool(false)));
        let varying: Vec<Id> = filters.iter().copied().filter(|filter| constant(*filter).is_none()).collect();
        let phases =
            if never { Vec::new() } else { phases(plan, graph, of, &varying, &fills, is_cut_shared) };
        Self {
            filter: None,
            body: Program::default(),
            fills,
            arrays: plan.arrays.iter().map(array).collect(),
            phases: Some(phases),
        }
    }
}
