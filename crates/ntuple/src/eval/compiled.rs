//! A query made ready for the kernels: programs, fills and arrays.

use super::{
    program::{Program, Value, compile},
    registers::Arrays,
};
use crate::{
    column::{Array, Kind, Schema, Values},
    expr::{Graph, Id, Op, Scalar, Type},
    fill::Axis,
    plan::{Fill, Plan},
};

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
}

#[derive(Debug)]
pub(super) struct CompiledFill {
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
}

/// A cut that all results share moves in front of everything.
fn shared_cut(plan: &Plan) -> Option<Id> {
    let first = plan.fills.first()?.cut?;
    (plan.arrays.is_empty() && plan.fills.iter().all(|fill| fill.cut == Some(first))).then_some(first)
}

impl Compiled {
    /// Compiles `plan`.
    pub(crate) fn new(plan: &mut Plan) -> Self {
        let shared = shared_cut(plan);
        let filter = match (plan.filter, shared) {
            (Some(a), Some(b)) => Some(plan.graph.both_true(a, b)),
            (a, b) => a.or(b),
        };
        let (graph, ids) = plan.graph.all_present();
        let can_be_missing = plan
            .column_indices()
            .iter()
            .map(|column| &plan.schema.columns[*column])
            .any(|column| column.is_optional && column.ty != Type::Float);
        let own = |id: Id| id;
        Self {
            plain: Variant::new(plan, &graph, &|id: Id| ids[id.index()], filter, shared.is_some()),
            with_missing: can_be_missing
                .then(|| Variant::new(plan, &plan.graph, &own, filter, shared.is_some())),
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

    /// Which variant computes a row group of these columns.
    pub(super) fn variant(&self, arrays: &Arrays) -> (&Variant, bool) {
        let is_missing = || arrays.iter().flatten().any(|values| values.present.is_some());
        match &self.with_missing {
            Some(variant) if is_missing() => (variant, true),
            _ => (&self.plain, false),
        }
    }
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
        for id in &plan.arrays {
            roots.extend([of(*id)].into_iter().chain(present(*id)));
        }
        let (body, values) = compile(graph, &roots);
        let mut values = values.into_iter();
        let mut next = || values.next().expect("compile gives one value for each root");
        let mut fills = Vec::new();
        for fill in &plan.fills {
            fills.push(CompiledFill {
                values: fill.values.iter().map(|_| next()).collect(),
                cut: own_cut(fill).map(|_| next()),
                weight: fill.weight.map(|_| next()),
                axes: fill.empty.axes.clone(),
                size: fill.empty.size(),
            });
        }
        let array = |id: &Id| CompiledArray {
            value: next(),
            ty: plan.graph.ty(*id),
            present: present(*id).map(|_| next()),
        };
        let arrays = plan.arrays.iter().map(array).collect();
        let filter = filter.map(of).filter(|id| !is_always(*id)).map(|id| {
            let (program, values) = compile(graph, &[id]);
            (program, values[0])
        });
        Self { filter, body, fills, arrays }
    }
}
