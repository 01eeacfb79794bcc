//! bp: one file per verb.

fn main() {}
