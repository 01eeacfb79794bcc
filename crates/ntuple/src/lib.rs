//! Analysis kernels: column decode, column cache, expressions, cuts, histogram fill.
