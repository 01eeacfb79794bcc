//! Plans with lists: steps over the rows of one domain each, for one chunk of entries at a time.
//!
//! **Idea.** The entries of a chunk are cut by one filter after the other, and only those that pass go on. Then a list of
//! *steps* runs. Each goes over the rows of one domain in blocks: a small program computes values of the block, and its
//! *sinks* take them up: a slot that keeps a value of every row for later steps, a reduction to the entry, the choice of a
//! row, a histogram, an array. Combinations of elements are made block by block and never kept.
//!
//! **Start reading** with [`Phase`], then `run.rs`; `schedule.rs` makes the steps.

mod combine;
mod lists;
mod run;
mod schedule;
mod sinks;

use super::{
    compiled::CompiledFill,
    program::{Program, Slot, Value},
};
use crate::expr::{Choice, Combination, Domain, Reduction};
pub(super) use run::{JaggedGroup, Results, State};
pub(super) use schedule::phases;

/// A cut on entries, or the results: what is computed for the entries that are left.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) steps: Vec<Step>,
    /// Domains whose lists it uses, each after those that it is made of.
    pub(super) lists: Vec<PhaseList>,
    /// Slots of floats, integers and truth values.
    pub(super) slots: [usize; 3],
    /// The truth value that decides which entries pass.
    pub(super) cut: Option<Slot>,
    /// Columns of lists that it reads, each with its domain.
    pub(super) columns: Vec<(usize, Domain)>,
}

/// Lists of one domain.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseList {
    pub(super) domain: Domain,
    pub(super) of: ListOf,
    /// Whether a step needs to know the entry of each element.
    pub(super) has_entries: bool,
}

/// Where the lists of a domain come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListOf {
    /// A column of their collection.
    Column(usize),
    Joined(Domain, Domain),
}

/// A value for each row of a domain, of the type of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Float(Slot),
    Int(Slot),
    Mask(Slot),
}

/// Rows of one domain, what is computed for them, and what takes it up.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) domain: Domain,
    pub(super) rows: StepRows,
    /// Where results stand beside, one for each row of this domain.
    pub(super) parent: Domain,
    pub(super) program: Program,
    pub(super) keeps: Vec<(Value, Kept)>,
    pub(super) reductions: Vec<ReductionSink>,
    pub(super) picks: Vec<PickSink>,
    pub(super) counts: Vec<Slot>,
    pub(super) fills: Vec<CompiledFill>,
    pub(super) arrays: Vec<ArraySink>,
}

impl Step {
    /// A step that does nothing.
    fn of(domain: Domain, parent: Domain) -> Self {
        Self {
            domain,
            rows: StepRows::Entries,
            parent,
            program: Program::default(),
            keeps: Vec::new(),
            reductions: Vec::new(),
            picks: Vec::new(),
            counts: Vec::new(),
            fills: Vec::new(),
            arrays: Vec::new(),
        }
    }
}

impl Step {
    /// Whether it needs to know the entry of each row.
    fn needs_entries(&self) -> bool {
        let sinks = self.reductions.len() + self.picks.len() + self.arrays.len();
        sinks > 0 || self.program.needs_entries()
    }
}

/// Which rows a step goes over.
#[derive(Debug, Clone)]
pub(super) enum StepRows {
    Entries,
    List,
    /// Elements of these lists for which the truth value in the slot, if there is one, holds.
    Combination(Combination, Vec<(Domain, Option<Slot>)>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ReductionSink {
    pub(super) how: Reduction,
    pub(super) value: Value,
    pub(super) kept: Kept,
}

#[derive(Debug, Clone)]
pub(super) struct PickSink {
    pub(super) choice: Choice,
    pub(super) key: Option<Value>,
    pub(super) mask: Option<Value>,
    /// The slot for the place of each part; those that nobody asks for are missing.
    pub(super) places: [Option<Slot>; 3],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ArraySink {
    /// Its number in the plan.
    pub(super) number: usize,
    pub(super) value: Value,
    pub(super) present: Option<Value>,
    pub(super) selection: Option<Value>,
}
