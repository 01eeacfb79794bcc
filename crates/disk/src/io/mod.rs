//! Ways to the bytes: direct, mapped, many at once.

pub(crate) mod direct;
pub(crate) mod map;
pub(crate) mod ring;
