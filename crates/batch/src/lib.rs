//! Worker node: shepherd, scratch, stage in and out, usage.
