//! Analysis kernels: column decode, column cache, expressions, cuts, histogram fill.
//!
//! A [`Chain`] is several Parquet files as one table. A [`Plan`] says what to compute in one pass over it: variables,
//! a cut, histograms, arrays. [`Chain::run`] decodes the columns that the plan needs, keeps them in a [`ColumnCache`],
//! and fills, in chunks that stay in the first-level cache of the processor, with a vectorised interpreter.
//!
//! The interpreter computes in 64 bits, whatever the columns are stored in, and bins as boost-histogram does, so every
//! result can be checked bin by bin.

#![allow(clippy::inline_always, reason = "kernels must be drawn into both versions of simd::dispatch")]
#![allow(clippy::float_cmp, reason = "bins and tests are exact by definition, a margin would be wrong")]

pub mod chain;
pub mod column;
mod eval;
pub mod expr;
pub mod fill;
pub mod plan;
mod simd;

pub use chain::{Chain, Outcome, Progress, RunOptions};
pub use column::{
    Array, CacheUse, Column, ColumnCache, FileSource, Kind, MemorySource, Schema, Source, Values, changed,
};
pub use expr::Type;
pub use fill::{Axis, Bins, Histogram};
pub use plan::{HistogramSpec, Plan};
