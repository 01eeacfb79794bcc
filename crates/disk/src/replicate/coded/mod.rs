//! Coded files, carried out: written as pieces, read from any that suffice, and pieces made anew (spec/coded.md).

mod gather;
mod rebuild;
#[cfg(test)]
mod tests;
mod threads;
mod window;
mod write;

pub(crate) use gather::{CodedFile, Reporter};
