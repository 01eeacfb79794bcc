//! Several files as one table, computed by several threads.

mod agree;
mod packets;
mod pass;

use crate::{
    Plan,
    column::{
        self, Befriended, ColumnCache, DataFile, Defaults, Friend, OpenOptions, Schema, Slice, Source, Values,
    },
    fill::{Bins, Histogram},
};
use base::{Failure, Result};
pub use packets::{Node, PACKET_ENTRIES, RowGroups, Sums};
use std::{ops::ControlFlow, sync::Arc};

/// Files of one chain.
pub const CHAIN_FILES_MAX: usize = 100_000;
/// Threads of one pass.
pub const THREADS_MAX: usize = 256;

/// Files as one table.
#[derive(Debug)]
pub struct Chain {
    files: Vec<OpenFile>,
    schema: Schema,
    entries: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<dyn DataFile>,
    /// Index in the file for each column of the schema; `None` if it lacks the column, which then has its default.
    columns: Vec<Option<usize>>,
}

/// How far a pass is. Every entry counts once, when its row group is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Entries done.
    pub done: u64,
    /// Entries of the pass.
    pub total: u64,
}

/// How to run a pass.
pub struct RunOptions<'a> {
    /// Threads to use; 0 for one per processor.
    pub threads: usize,
    /// Where decoded columns are kept.
    pub cache: &'a ColumnCache,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { threads: 0, cache: ColumnCache::shared() }
    }
}

/// What a pass gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Histograms in the order of the plan.
    pub histograms: Vec<Histogram>,
    /// Arrays in the order of the plan, entries in the order of the chain.
    pub arrays: Vec<Values>,
    /// For each array the length of the list of each entry; `None` if every entry has one value.
    pub counts: Vec<Option<Vec<u32>>>,
}

/// What a pass over some packets gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Histograms in the order of the plan; weighted ones are empty.
    pub histograms: Vec<Histogram>,
    /// Sums of the weighted ones.
    pub nodes: Vec<Node>,
    /// Arrays in the order of the plan, entries in the order of the packets.
    pub arrays: Vec<Values>,
    /// For each array the length of the list of each entry; `None` if every entry has one value.
    pub counts: Vec<Option<Vec<u32>>>,
}

impl Part {
    /// The result, if these are all packets.
    fn finish(self) -> Outcome {
        let Self { mut histograms, nodes, arrays, counts } = self;
        let weighted = histograms.iter_mut().filter_map(|histogram| match &mut histogram.bins {
            Bins::Weights(bins) => Some(bins),
            Bins::Counts(_) => None,
        });
        for (bins, sums) in weighted.zip(packets::total(nodes).unwrap_or_default()) {
            *bins = sums;
        }
        Outcome { histograms, arrays, counts }
    }
}

impl Chain {
    /// Opens Parquet files, or ROOT files with one RNTuple each, as [`Chain::join`] does.
    pub fn open(sources: Vec<Arc<dyn Source>>) -> Result<Self> {
        let open = |source| column::open(source, OpenOptions::default());
        Self::join(sources.into_iter().map(open).collect::<Result<_>>()?, &Defaults::new())
    }

    /// Joins files whose columns must agree: the same names, with types that one column can hold without a change of value.
    /// Columns with a default need not be in every file. Files without entries add nothing, and change nothing.
    pub fn join(mut files: Vec<Arc<dyn DataFile>>, defaults: &Defaults) -> Result<Self> {
        if files.is_empty() || files.len() > CHAIN_FILES_MAX {
            return Err(Failure::invalid(format!(
                "chain of {} files; 1 to {CHAIN_FILES_MAX} are possible",
                files.len()
            )));
        }
        if files.iter().any(|file| file.entries() > 0) {
            files.retain(|file| file.entries() > 0);
        } else {
            files.truncate(1);
        }
        let (schema, indices) = agree::agree(&files, defaults)?;
        Ok(Self::new(files, schema, indices))
    }

    /// Some files of a chain whose columns are `schema`: what another process opened as a whole.
    pub fn of_files(files: Vec<Arc<dyn DataFile>>, schema: Schema) -> Result<Self> {
        let indices = agree::find(&files, &schema)?;
        Ok(Self::new(files, schema, indices))
    }

    fn new(files: Vec<Arc<dyn DataFile>>, schema: Schema, indices: Vec<agree::Indices>) -> Self {
        let entries = files.iter().map(|file| file.entries()).sum();
        let files =
            files.into_iter().zip(indices).map(|(file, columns)| OpenFile { file, columns }).collect();
        Self { files, schema, entries }
    }

    /// The files that have entries, in their order.
    pub fn files(&self) -> impl Iterator<Item = &dyn DataFile> {
        self.files.iter().map(|open| &*open.file)
    }

    /// The same, to keep.
    pub fn shared_files(&self) -> impl Iterator<Item = &Arc<dyn DataFile>> {
        self.files.iter().map(|open| &open.file)
    }

    /// The same entries with the columns of a friend beside theirs, whose names get a prefix. `places` has for each of its
    /// files where another process finds it.
    pub fn befriend(&self, friend: &Self, places: &[String], prefix: &str) -> Result<Self> {
        let entries: Vec<u64> = self.files().map(DataFile::entries).collect();
        let placed: Vec<_> = friend.shared_files().cloned().zip(places.iter().cloned()).collect();
        if placed.iter().any(|(file, _)| file.friends().is_some()) {
            return Err(
                Failure::invalid("a friend cannot have friends").hint("name them one after the other")
            );
        }
        let add = |(file, slices): (&Arc<dyn DataFile>, Vec<Slice>)| {
            let (main, known) = file.friends().unwrap_or((file, &[]));
            let friend = Friend::new(slices, prefix, &friend.schema.columns)?;
            let friends = known.iter().cloned().chain([friend]).collect();
            Ok(Arc::new(Befriended::new(Arc::clone(main), friends)?) as Arc<dyn DataFile>)
        };
        let files = self.shared_files().zip(column::divide(&entries, &placed)?).map(add);
        let mut schema = self.schema.clone();
        schema.columns.extend(friend.schema.columns.iter().map(|column| column.with_prefix(prefix)));
        let refused = friend.schema.refused.iter();
        schema.refused.extend(refused.map(|(name, why)| (format!("{prefix}{name}"), why.clone())));
        Self::of_files(files.collect::<Result<_>>()?, schema)
    }

    /// Its row groups with the packets that they belong to.
    #[must_use]
    pub fn packets(&self) -> Vec<RowGroups> {
        let groups = self.files.iter().enumerate().flat_map(|(index, open)| {
            (0..open.file.row_groups()).map(move |group| (index, group, open.file.rows(group)))
        });
        packets::divide(groups)
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows of all files.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Runs `plan` over all entries.
    ///
    /// `progress` is called on this thread several times a second and at the end; if it breaks, the pass stops with a
    /// failure of kind `Busy` that says cancelled. The result does not depend on the number of threads.
    pub fn run(
        &self,
        plan: Plan,
        options: &RunOptions<'_>,
        progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Outcome> {
        self.run_packets(plan, &self.packets(), options, progress).map(Part::finish)
    }

    /// Runs `plan` over some packets: their numbers follow each other.
    pub fn run_packets(
        &self,
        mut plan: Plan,
        groups: &[RowGroups],
        options: &RunOptions<'_>,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Part> {
        if plan.schema != self.schema {
            return Err(Failure::invalid("plan was made for another n-tuple"));
        }
        let counts: Vec<usize> = self.files().map(DataFile::row_groups).collect();
        packets::check(groups, &counts)?;
        pass::run(self, &mut plan, self.tasks(groups), options, &mut progress)
    }

    fn tasks(&self, groups: &[RowGroups]) -> Vec<pass::Task> {
        let tasks = groups.iter().flat_map(|RowGroups { packet, file, groups }| {
            groups.clone().map(|row_group| pass::Task {
                packet: *packet,
                file: *file,
                row_group,
                rows: self.files[*file].file.rows(row_group),
            })
        });
        tasks.filter(|task| task.rows > 0).collect()
    }
}

#[cfg(test)]
mod tests;
