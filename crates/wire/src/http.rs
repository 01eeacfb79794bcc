//! HTTP header fields: ranges.
