//! Carries out the steps for the chunks of a row group.

use super::{
    Kept, Phase, Step, StepRows,
    combine::{Block, count_combinations},
    lists::{copy_columns, fill_lists, offsets},
    sinks::{Picked, Space, Taken, collect, keep, pick, prepare, reduce},
};
use crate::{
    column::Values,
    eval::{
        CHUNK_ROWS, Counters, Scratch,
        chunk::FillAll,
        flush,
        inputs::{Buffers, Inputs, Lists},
        kernels::Rows,
        program::Slot,
        registers::{Arrays, Registers},
    },
    expr::Domain,
    simd::{Kernel, dispatch},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Elements of one list in a chunk: their values stay in the second-level cache. An entry with more is a chunk alone.
const CHUNK_ELEMENTS: usize = 4096;

/// What one thread keeps from chunk to chunk.
#[derive(Debug, Default)]
pub(in crate::eval) struct State {
    phases: Vec<PhaseState>,
    space: Shared,
    /// Entries of the chunk that passed.
    picked: Vec<u32>,
}

#[derive(Debug)]
struct PhaseState {
    registers: Vec<Registers>,
    /// Values of the slots, and those that the step at hand computes.
    buffers: Buffers,
    fresh: Buffers,
}

/// What all phases use, one after the other.
#[derive(Debug, Default)]
struct Shared {
    lists: Vec<Lists>,
    local: Vec<Option<Arc<Values>>>,
    block: Block,
    picked: Vec<Picked>,
    space: Space,
    identity: Vec<u32>,
}

impl State {
    pub(in crate::eval) fn new(phases: &[Phase]) -> Self {
        let buffers = |slots: [usize; 3]| Buffers {
            floats: vec![Vec::new(); slots[0]],
            ints: vec![Vec::new(); slots[1]],
            masks: vec![Vec::new(); slots[2]],
        };
        let phase = |phase: &Phase| PhaseState {
            registers: phase.steps.iter().map(|step| Registers::new(&step.program)).collect(),
            buffers: buffers(phase.slots),
            fresh: buffers(phase.slots),
        };
        let space = Shared { identity: (0..CHUNK_ROWS as u32).collect(), ..Shared::default() };
        Self { phases: phases.iter().map(phase).collect(), space, picked: Vec::new() }
    }
}

/// What the steps fill.
pub(in crate::eval) struct Results<'w> {
    pub(in crate::eval) counters: &'w mut [Counters],
    pub(in crate::eval) scratch: &'w mut Scratch,
    pub(in crate::eval) arrays: &'w mut [Values],
    /// Lengths of the lists in arrays of lists.
    pub(in crate::eval) counts: &'w mut [Option<Vec<u32>>],
    /// Most that any counter can have counted since all were flushed.
    pub(in crate::eval) filled: u32,
    pub(in crate::eval) is_cancelled: &'w AtomicBool,
}

impl Results<'_> {
    /// Makes room in the counters for `rows` more: a row group has any number of combinations.
    pub(in crate::eval) fn reserve_counts(&mut self, rows: usize) {
        let rows = rows as u32;
        self.filled = self.filled.checked_add(rows).unwrap_or_else(|| {
            for counters in self.counters.iter_mut() {
                if let Counters::Counts { counters, stride, total } = counters {
                    flush(counters, *stride, total);
                }
            }
            rows
        });
    }
}

/// One row group.
pub(in crate::eval) struct JaggedGroup<'w> {
    pub(in crate::eval) phases: &'w [Phase],
    pub(in crate::eval) state: &'w mut State,
    pub(in crate::eval) results: Results<'w>,
    pub(in crate::eval) arrays: &'w Arrays,
    pub(in crate::eval) rows: usize,
}

impl JaggedGroup<'_> {
    /// Computes it.
    pub(in crate::eval) fn run(mut self) {
        let mut start = 0;
        while start < self.rows && !self.results.is_cancelled.load(Ordering::Relaxed) {
            let count = self.chunk_entries(start);
            self.chunk(start, count);
            start += count;
        }
    }

    /// Entries of the chunk that begins at `start`.
    fn chunk_entries(&self, start: usize) -> usize {
        let mut count = (self.rows - start).min(CHUNK_ROWS);
        for phase in self.phases {
            for list in &phase.lists {
                let super::ListOf::Column(column) = &list.of else { continue };
                let offsets = &offsets(self.arrays, *column)[start..=start + count];
                let most = offsets[0] as usize + CHUNK_ELEMENTS;
                count = offsets.partition_point(|offset| *offset as usize <= most).saturating_sub(1).max(1);
            }
        }
        count
    }

    fn chunk(&mut self, start: usize, count: usize) {
        let mut is_picked = false;
        let mut left = count;
        for (number, phase) in self.phases.iter().enumerate() {
            let State { phases, space, picked } = &mut *self.state;
            let rows = Rows { start, count: left, picked: is_picked.then(|| &picked[..left]) };
            run_phase(phase, &mut phases[number], space, &mut self.results, self.arrays, rows);
            let Some(Slot(slot)) = phase.cut else { continue };
            let mask = &phases[number].buffers.masks[slot as usize][..left];
            let passed = super::super::kernels::count(mask);
            if passed == 0 {
                return;
            }
            if passed == left {
                continue;
            }
            if !is_picked {
                picked.clear();
                picked.extend(0..left as u32);
            }
            let mut end = 0;
            for (row, keep) in mask.iter().enumerate() {
                picked[end] = picked[row];
                end += usize::from(*keep != 0);
            }
            (is_picked, left) = (true, passed);
        }
    }
}

fn run_phase(
    phase: &Phase,
    state: &mut PhaseState,
    shared: &mut Shared,
    results: &mut Results<'_>,
    arrays: &Arrays,
    rows: Rows<'_>,
) {
    fill_lists(&mut shared.lists, phase, arrays, rows);
    let mut local = std::mem::take(&mut shared.local);
    let columns = match rows.picked {
        Some(picked) => {
            copy_columns(&mut local, phase, arrays, rows.start, picked);
            &local
        }
        None => arrays,
    };
    for array in results.counts.iter_mut().flatten().filter(|_| phase.cut.is_none()) {
        array.resize(array.len() + rows.count, 0);
    }
    for (number, step) in phase.steps.iter().enumerate() {
        run_step(step, number, state, shared, results, columns, rows);
    }
    shared.local = local;
}

fn run_step(
    step: &Step,
    number: usize,
    state: &mut PhaseState,
    shared: &mut Shared,
    results: &mut Results<'_>,
    columns: &Arrays,
    rows: Rows<'_>,
) {
    let Shared { lists, block, picked, space, identity, .. } = shared;
    let PhaseState { registers, buffers, fresh } = state;
    let own = step.domain.index();
    let length = match step.rows {
        StepRows::Entries => rows.count,
        StepRows::List => lists[own].len(),
        StepRows::Combination(..) => 0,
    };
    let parents = if step.parent == Domain::ENTRIES { rows.count } else { lists[step.parent.index()].len() };
    prepare(step, fresh, picked, length, parents);
    let mut runner =
        Runner { step, registers: &mut registers[number], fresh, picked, space, results, of: rows.count };
    let inputs =
        Inputs { columns, buffers, start: 0, entries: &identity[..rows.count], parts: [&[]; 3], lists, own };
    match step.rows {
        StepRows::Entries => runner.block(inputs, rows, inputs.entries),
        StepRows::List => {
            let list = &lists[own];
            for start in (0..length).step_by(CHUNK_ROWS) {
                let count = (length - start).min(CHUNK_ROWS);
                let entries = list.entries.get(start..start + count).unwrap_or_default();
                let rows = Rows { start: list.base + start, count, picked: None };
                runner.block(Inputs { start, entries, ..inputs }, rows, entries);
            }
        }
        StepRows::Combination(..) if step.is_count_only() => {}
        StepRows::Combination(..) => {
            block.begin();
            // A single entry may have more of them than anyone waits for.
            while !runner.results.is_cancelled.load(Ordering::Relaxed)
                && block.fill(&step.rows, lists, buffers, rows.count)
            {
                let (entries, parts) = (block.entries(), block.parts());
                let count = entries.len();
                let parents = if step.parent == Domain::ENTRIES { entries } else { parts[0] };
                let rows = Rows { start: 0, count, picked: None };
                runner.block(Inputs { entries, parts, own: 0, ..inputs }, rows, parents);
            }
        }
    }
    count_rows(step, fresh, block, lists, buffers, parents, rows.count);
    finish(step, buffers, fresh);
}

fn count_rows(
    step: &Step,
    fresh: &mut Buffers,
    block: &mut Block,
    lists: &[Lists],
    buffers: &Buffers,
    parents: usize,
    entries: usize,
) {
    for Slot(slot) in &step.counts {
        let counts = &mut fresh.ints[*slot as usize];
        counts.clear();
        counts.resize(parents, 0);
        if let StepRows::Combination(..) = step.rows {
            count_combinations(counts, block, &step.rows, lists, buffers, entries);
        } else {
            let ends = lists[step.domain.index()].offsets.windows(2);
            counts.iter_mut().zip(ends).for_each(|(count, ends)| *count = i64::from(ends[1] - ends[0]));
        }
    }
}

/// Makes what the step computed known to later ones.
fn finish(step: &Step, buffers: &mut Buffers, fresh: &mut Buffers) {
    let kept = step.keeps.iter().map(|(_, kept)| *kept);
    let kept = kept.chain(step.reductions.iter().map(|sink| sink.kept));
    let places = step.picks.iter().flat_map(|sink| sink.places.iter().flatten());
    let kept = kept.chain(places.chain(&step.counts).map(|slot| Kept::Int(*slot)));
    for kept in kept {
        match kept {
            Kept::Float(Slot(slot)) => {
                std::mem::swap(&mut buffers.floats[slot as usize], &mut fresh.floats[slot as usize]);
            }
            Kept::Int(Slot(slot)) => {
                std::mem::swap(&mut buffers.ints[slot as usize], &mut fresh.ints[slot as usize]);
            }
            Kept::Mask(Slot(slot)) => {
                std::mem::swap(&mut buffers.masks[slot as usize], &mut fresh.masks[slot as usize]);
            }
        }
    }
}

/// What runs one step.
struct Runner<'r, 'w> {
    step: &'r Step,
    registers: &'r mut Registers,
    fresh: &'r mut Buffers,
    picked: &'r mut Vec<Picked>,
    space: &'r mut Space,
    results: &'r mut Results<'w>,
    /// Entries of the chunk that are left.
    of: usize,
}

impl Runner<'_, '_> {
    fn block(&mut self, inputs: Inputs<'_>, rows: Rows<'_>, parents: &[u32]) {
        dispatch(OneBlock { runner: self, inputs, rows, parents });
    }
}

/// One block of a step. Only this is compiled for wide vectors: what stands around it moves no values.
struct OneBlock<'b, 'r, 'w> {
    runner: &'b mut Runner<'r, 'w>,
    inputs: Inputs<'b>,
    rows: Rows<'b>,
    parents: &'b [u32],
}

impl Kernel for OneBlock<'_, '_, '_> {
    #[inline(always)]
    fn run(self) {
        let Self { runner, inputs, rows, parents } = self;
        let step = runner.step;
        runner.registers.run(&step.program, &inputs, rows);
        let taken = Taken { registers: runner.registers, inputs, rows, parents };
        for (value, kept) in &step.keeps {
            keep(runner.fresh, *value, *kept, &taken);
        }
        for sink in &step.reductions {
            reduce(runner.fresh, sink, &taken, runner.space);
        }
        let lists = step.part_lists();
        for (sink, state) in step.picks.iter().zip(runner.picked.iter_mut()) {
            pick(runner.fresh, sink, state, &taken, runner.space, &lists);
        }
        if !step.fills.is_empty() {
            runner.results.reserve_counts(rows.count);
        }
        let Results { counters, scratch, arrays, counts, .. } = &mut *runner.results;
        if !step.fills.is_empty() {
            let (fills, body) = (&step.fills[..], taken.registers);
            dispatch(FillAll { fills, counters, scratch, body, arrays: inputs.columns, rows, keep: None });
        }
        for sink in &step.arrays {
            let counts = counts[sink.number].as_mut().map(|counts| {
                let before = counts.len() - runner.of;
                &mut counts[before..]
            });
            collect(&mut arrays[sink.number], counts, sink, &taken, runner.space);
        }
    }
}

impl Step {
    /// Whether nothing but the number of its rows matters.
    fn is_count_only(&self) -> bool {
        let sinks = self.reductions.len() + self.picks.len() + self.fills.len() + self.arrays.len();
        sinks == 0
    }

    /// The lists of its parts, by their number.
    fn part_lists(&self) -> [usize; 3] {
        let mut lists = [self.domain.index(); 3];
        if let StepRows::Combination(_, parts) = &self.rows {
            lists.iter_mut().zip(parts).for_each(|(list, (domain, _))| *list = domain.index());
        }
        lists
    }
}
