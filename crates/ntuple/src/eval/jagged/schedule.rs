//! Makes the steps of a plan.

use super::{ArraySink, Kept, ListOf, Phase, PhaseList, PickSink, ReductionSink, Step, StepRows};
use crate::{
    column::Schema,
    eval::{
        compiled::CompiledFill,
        compiler::compile,
        program::{Slot, Slots},
    },
    expr::{Domain, Graph, Id, Jagged, Op, Pick, Rows, Type},
    plan::Plan,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A plan as it stands in a graph, where `of` says which number each of its values has there.
pub(super) struct Query<'a> {
    plan: &'a Plan,
    graph: &'a Graph,
    of: &'a dyn Fn(Id) -> Id,
}

/// What a step has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// A value of every row, for later steps.
    Kept(Id),
    /// A reduction, a pick, or the number of rows.
    Result(Id),
    Fill(usize),
    Array(usize),
}

/// The phases of a plan: its filters, then its results.
pub(in crate::eval) fn phases(
    plan: &Plan,
    graph: &Graph,
    of: &dyn Fn(Id) -> Id,
    filters: &[Id],
    fills: &[CompiledFill],
    is_cut_shared: bool,
) -> Vec<Phase> {
    let query = Query { plan, graph, of };
    let mut phases: Vec<Phase> = filters.iter().map(|filter| query.filter(of(*filter))).collect();
    phases.push(query.results(fills, is_cut_shared));
    phases
}

impl Query<'_> {
    fn filter(&self, cut: Id) -> Phase {
        let mut scheduler = Scheduler::new(self);
        scheduler.need(cut);
        scheduler.keep(cut);
        let mut phase = scheduler.run(&[], false);
        phase.cut = Some(scheduler_slot(&scheduler, cut));
        phase
    }

    fn results(&self, fills: &[CompiledFill], is_cut_shared: bool) -> Phase {
        let mut scheduler = Scheduler::new(self);
        for number in 0..self.plan.fills.len() {
            scheduler.targets.insert(Target::Fill(number));
        }
        for number in 0..self.plan.arrays.len() {
            scheduler.targets.insert(Target::Array(number));
        }
        scheduler.is_cut_shared = is_cut_shared;
        for target in scheduler.targets.clone() {
            scheduler.roots(target).into_iter().for_each(|id| scheduler.need(id));
        }
        scheduler.run(fills, is_cut_shared)
    }
}

fn scheduler_slot(scheduler: &Scheduler<'_>, id: Id) -> Slot {
    *scheduler.slots.get(&id).expect("all targets were computed")
}

struct Scheduler<'a> {
    query: &'a Query<'a>,
    graph: &'a Graph,
    is_cut_shared: bool,
    targets: BTreeSet<Target>,
    seen: BTreeSet<Id>,
    /// Domains whose lists are used.
    domains: BTreeSet<Domain>,
    columns: BTreeMap<usize, Domain>,
    /// What was computed.
    slots: Slots,
    counts: [usize; 3],
}

impl<'a> Scheduler<'a> {
    fn new(query: &'a Query<'a>) -> Self {
        Self {
            query,
            graph: query.graph,
            is_cut_shared: false,
            targets: BTreeSet::new(),
            seen: BTreeSet::new(),
            domains: BTreeSet::new(),
            columns: BTreeMap::new(),
            slots: HashMap::new(),
            counts: [0; 3],
        }
    }

    /// The values that a target takes up.
    fn roots(&self, target: Target) -> Vec<Id> {
        let of = self.query.of;
        match target {
            Target::Kept(id) => vec![id],
            Target::Result(id) => match self.graph.node(id).op {
                Op::Jagged(op) => op.arguments(),
                _ => Vec::new(),
            },
            Target::Fill(number) => {
                let fill = &self.query.plan.fills[number];
                let cut = fill.cut.filter(|_| !self.is_cut_shared);
                fill.values.iter().copied().chain(cut).chain(fill.weight).map(of).collect()
            }
            Target::Array(number) => {
                let array = self.query.plan.arrays[number];
                let present = self.query.plan.graph.present(array.id);
                [array.id].into_iter().chain(present).chain(array.selection).map(of).collect()
            }
        }
    }

    /// The domain over whose rows a target is computed.
    fn domain(&self, target: Target) -> Domain {
        match target {
            Target::Kept(id) => self.graph.domain(id),
            Target::Result(id) => match self.graph.node(id).op {
                Op::Jagged(op) => op.source().unwrap_or(Domain::ENTRIES),
                _ => Domain::ENTRIES,
            },
            // Presence may be a constant in the other graph, and the domains have other numbers there.
            target => self
                .roots(target)
                .into_iter()
                .map(|id| self.graph.domain(id))
                .max()
                .unwrap_or(Domain::ENTRIES),
        }
    }

    /// Notes all that `id` is computed from, and what of it has to be kept.
    fn need(&mut self, id: Id) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !self.seen.insert(id) {
                continue;
            }
            let domain = self.graph.domain(id);
            self.use_domain(domain);
            match self.graph.node(id).op {
                Op::Column(column) | Op::Present(column) if domain != Domain::ENTRIES => {
                    self.columns.insert(column, domain);
                }
                Op::Jagged(op) => self.need_jagged(id, op),
                _ => {}
            }
            open.extend(self.graph.arguments(id));
        }
    }

    fn need_jagged(&mut self, id: Id, op: Jagged) {
        match op {
            Jagged::Lift(_, a) => self.keep(a),
            Jagged::At(a, _) => {
                self.keep(a);
                self.use_domain(self.graph.domain(a));
            }
            Jagged::Join(a, b) => {
                self.keep(a);
                self.keep(b);
            }
            Jagged::Position => {}
            Jagged::Count(domain) | Jagged::Reduce(_, domain, _) | Jagged::Pick(Pick { domain, .. }, _) => {
                self.use_domain(domain);
                self.targets.insert(Target::Result(id));
            }
        }
    }

    fn use_domain(&mut self, domain: Domain) {
        if domain == Domain::ENTRIES || !self.domains.insert(domain) {
            return;
        }
        match self.graph.rows(domain).clone() {
            Rows::Entries | Rows::Collection(_) => {}
            Rows::Joined(a, b) => {
                self.use_domain(a);
                self.use_domain(b);
            }
            Rows::Combination(_, parts) => {
                for (domain, mask) in parts {
                    self.use_domain(domain);
                    if let Some(mask) = mask {
                        self.keep(mask);
                    }
                }
            }
        }
    }

    /// Keeps the value of every row for later steps.
    fn keep(&mut self, id: Id) {
        let is_result = matches!(self.graph.node(id).op, Op::Jagged(op) if op.source().is_some());
        if !is_result && !self.graph.is_constant(id) {
            self.targets.insert(Target::Kept(id));
        }
    }

    fn slot(&mut self, id: Id) -> Kept {
        let bank = match self.graph.ty(id) {
            Type::Float => 0,
            Type::Int => 1,
            Type::Bool => 2,
        };
        let slot = *self.slots.entry(id).or_insert_with(|| {
            self.counts[bank] += 1;
            Slot(self.counts[bank] as u16 - 1)
        });
        [Kept::Float(slot), Kept::Int(slot), Kept::Mask(slot)][bank]
    }

    /// Whether `id` can be computed in a step now.
    fn is_ready(&self, id: Id) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        let is_there = |id: &Id| self.slots.contains_key(id) || self.graph.is_constant(*id);
        while let Some(id) = open.pop() {
            if is_there(&id) || !seen.insert(id) {
                continue;
            }
            let is_possible = match self.graph.node(id).op {
                Op::Jagged(Jagged::Lift(_, a)) => is_there(&a),
                Op::Jagged(Jagged::Join(a, b)) => is_there(&a) && is_there(&b),
                Op::Jagged(Jagged::At(a, place)) => {
                    open.push(place);
                    is_there(&a)
                }
                Op::Jagged(Jagged::Position) => true,
                Op::Jagged(_) => false,
                Op::Const(_) | Op::Column(_) | Op::Present(_) => true,
                Op::Unary(..) | Op::Binary(..) | Op::Compare(..) | Op::Select(..) => {
                    // Without the selections of the lists that it combines: the step itself waits for them.
                    open.extend(self.operands(id));
                    true
                }
            };
            if !is_possible {
                return false;
            }
        }
        true
    }

    fn operands(&self, id: Id) -> Vec<Id> {
        match self.graph.node(id).op {
            Op::Unary(_, a) => vec![a],
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![a, b],
            Op::Select(a, b, c) => vec![a, b, c],
            _ => Vec::new(),
        }
    }

    /// Whether the rows of a domain are known now.
    fn has_rows(&self, domain: Domain) -> bool {
        match self.graph.rows(domain) {
            Rows::Combination(_, parts) => {
                parts.iter().filter_map(|(_, mask)| *mask).all(|mask| self.slots.contains_key(&mask))
            }
            _ => true,
        }
    }

    /// Makes steps until every target has one.
    fn run(&mut self, fills: &[CompiledFill], is_cut_shared: bool) -> Phase {
        let mut steps = Vec::new();
        while !self.targets.is_empty() {
            let before = self.targets.len();
            let domains: BTreeSet<Domain> = self.targets.iter().map(|target| self.domain(*target)).collect();
            for domain in domains {
                let is_now = |target: &Target| {
                    self.domain(*target) == domain
                        && self.roots(*target).into_iter().all(|id| self.is_ready(id))
                };
                let now: Vec<Target> = if self.has_rows(domain) {
                    self.targets.iter().copied().filter(is_now).collect()
                } else {
                    Vec::new()
                };
                if !now.is_empty() {
                    self.targets.retain(|target| !now.contains(target));
                    steps.push(self.step(domain, &now, fills, is_cut_shared));
                }
            }
            assert!(self.targets.len() < before, "values of a plan depend on earlier ones only");
        }
        let needing: BTreeSet<Domain> =
            steps.iter().filter(|step| step.needs_entries()).map(|step| step.domain).collect();
        let list = |domain: &Domain| {
            let (of, has_entries) = (self.list_of(*domain)?, needing.contains(domain));
            Some(PhaseList { domain: *domain, of, has_entries })
        };
        let lists = self.domains.iter().filter_map(list).collect();
        let columns = self.columns.iter().map(|(column, domain)| (*column, *domain)).collect();
        Phase { steps, lists, slots: self.counts, cut: None, columns }
    }

    fn list_of(&self, domain: Domain) -> Option<ListOf> {
        match self.graph.rows(domain) {
            Rows::Collection(number) => {
                let columns = self.query.plan.column_indices();
                let name = &self.query.plan.collections()[*number];
                let schema: &Schema = &self.query.plan.schema;
                let column =
                    columns.iter().find(|column| schema.columns[**column].collection.as_ref() == Some(name));
                Some(ListOf::Column(*column.expect("a column of every collection is read")))
            }
            Rows::Joined(a, b) => Some(ListOf::Joined(*a, *b)),
            Rows::Entries | Rows::Combination(..) => None,
        }
    }

    fn step(&mut self, domain: Domain, now: &[Target], fills: &[CompiledFill], is_cut_shared: bool) -> Step {
        let graph = self.graph;
        let roots: Vec<Id> = now.iter().flat_map(|target| self.roots(*target)).collect();
        let (program, values) = compile(graph, &roots, &self.slots);
        let mut values = values.into_iter();
        let rows = match graph.rows(domain) {
            Rows::Entries => StepRows::Entries,
            Rows::Collection(_) | Rows::Joined(..) => StepRows::List,
            Rows::Combination(kind, parts) => {
                let mask = |mask: Option<Id>| mask.map(|mask| self.slots[&mask]);
                StepRows::Combination(*kind, parts.iter().map(|(domain, of)| (*domain, mask(*of))).collect())
            }
        };
        let mut step = Step { rows, program, ..Step::of(domain, graph.parent(domain)) };
        let mut picks: Vec<Pick> = Vec::new();
        for target in now {
            let count = self.roots(*target).len();
            let mut own = values.by_ref().take(count).collect::<Vec<_>>().into_iter();
            let mut next = || own.next().expect("compile gives one value for each root");
            match *target {
                Target::Kept(id) => step.keeps.push((next(), self.slot(id))),
                Target::Result(id) => match graph.node(id).op {
                    Op::Jagged(Jagged::Count(_)) => {
                        self.slot(id);
                        step.counts.push(self.slots[&id]);
                    }
                    Op::Jagged(Jagged::Reduce(how, _, _)) => {
                        step.reductions.push(ReductionSink { how, value: next(), kept: self.slot(id) });
                    }
                    Op::Jagged(Jagged::Pick(pick, part)) => {
                        self.slot(id);
                        let number = picks.iter().position(|known| *known == pick).unwrap_or_else(|| {
                            picks.push(pick);
                            let (key, mask) = (pick.key.map(|_| next()), pick.mask.map(|_| next()));
                            step.picks.push(PickSink { choice: pick.choice, key, mask, places: [None; 3] });
                            picks.len() - 1
                        });
                        step.picks[number].places[usize::from(part)] = Some(self.slots[&id]);
                    }
                    op => unreachable!("{op:?} is no result of rows"),
                },
                Target::Fill(number) => {
                    let fill = &self.query.plan.fills[number];
                    let values = fill.values.iter().map(|_| next()).collect();
                    let cut = fill.cut.filter(|_| !is_cut_shared).map(|_| next());
                    let weight = fill.weight.map(|_| next());
                    step.fills.push(CompiledFill { values, cut, weight, ..fills[number].clone() });
                }
                Target::Array(number) => step.arrays.push(self.array(number, next)),
            }
        }
        step
    }

    fn array(&self, number: usize, mut next: impl FnMut() -> crate::eval::program::Value) -> ArraySink {
        let array = self.query.plan.arrays[number];
        let value = next();
        let present = self.query.plan.graph.present(array.id).map(|_| next());
        let selection = array.selection.map(|_| next());
        ArraySink { number, value, present, selection }
    }
}
