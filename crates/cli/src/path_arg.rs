//! Paths on the command line. A path that ends with a slash names a directory, never a file.

use crate::context::Context;
use base::{ErrorKind, Failure, FilePath, Result};
use std::str::FromStr;
use wire::{
    control::{NodeKind, Stat},
    names_directory,
};

/// A path of the facility among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathArg {
    path: FilePath,
    is_slashed: bool,
}

impl FromStr for PathArg {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self { path: text.parse()?, is_slashed: names_directory(text) })
    }
}

/// The paths; one that names a directory and is that of a file is refused, before anything is done to any of them.
pub(crate) fn paths(context: &mut Context, written: Vec<PathArg>) -> Result<Vec<FilePath>> {
    for PathArg { path, .. } in written.iter().filter(|one| one.is_slashed) {
        match context.call(&Stat { path: path.clone() }) {
            Ok(info) if info.entry.kind == NodeKind::File => {
                let what = format!("{path}/ names a directory, and {path} is a file");
                return Err(Failure::new(ErrorKind::NotDirectory, what).hint("remove the slash at the end"));
            }
            // What is not there, or a pattern, is told by whoever looks for it.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(written.into_iter().map(|one| one.path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_is_kept_in_mind() {
        let is_slashed = |text: &str| text.parse::<PathArg>().unwrap().is_slashed;
        assert_eq!(["/a", "/a/", "/a/.", "/a//", "/a/b"].map(is_slashed), [false, true, true, true, false]);
        assert!("a/".parse::<PathArg>().is_err());
    }
}
