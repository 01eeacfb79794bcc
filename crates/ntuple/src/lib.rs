//! Analysis kernels: histograms over columns of Parquet and ROOT files.
//!
//! **Problem.** An analyst changes a cut and wants the new histogram at once, over more entries than fit into memory.
//!
//! **Idea.** A [`Chain`] is several files as one table. A [`Plan`] says what to compute in one pass over it: variables, a cut,
//! histograms, arrays. [`Chain::run`] decodes the columns that the plan needs, caches them in a [`ColumnCache`], and fills
//! with a vectorised interpreter, in chunks that stay in the first-level cache of the processor. The interpreter computes in 64
//! bits, whatever the columns are stored in, and bins as boost-histogram does, so that every result can be checked bin by bin.
//!
//! **Start reading** with [`Plan`], then [`Chain::run`]; [`expr`] is the language of expressions.

#![allow(clippy::inline_always, reason = "kernels must be drawn into both versions of simd::dispatch")]
#![allow(clippy::float_cmp, reason = "bins and tests are exact by definition, a margin would be wrong")]

pub mod chain;
pub mod column;
mod eval;
pub mod expr;
pub mod fill;
pub mod plan;
mod simd;

pub use chain::{Chain, Node, Outcome, PACKET_ENTRIES, Part, Progress, RowGroups, RunOptions};
pub use column::{
    Array, CacheUse, Column, ColumnCache, DataFile, DefaultValue, Defaults, DiskUse, FileColumn, FileSource,
    Kind, MemorySource, OpenOptions, ParquetFile, RNTuple, Schema, Source, Values, changed,
};
pub use expr::Type;
pub use fill::{Axis, Bins, Histogram};
pub use plan::{HistogramSpec, Plan};
