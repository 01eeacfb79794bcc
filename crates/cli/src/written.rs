//! Paths as somebody wrote them: with a slash at its end a path is that of a directory, and never means a file.

use crate::context::Context;
use base::{ErrorKind, Failure, FilePath, Result};
use std::str::FromStr;
use wire::{
    control::{NodeKind, Stat},
    names_directory,
};

/// A path of the facility among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    path: FilePath,
    is_slashed: bool,
}

impl FromStr for Written {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self { path: text.parse()?, is_slashed: names_directory(text) })
    }
}

/// The paths; one that names a directory and is that of a file is refused, before anything is done to any of them.
pub(crate) fn paths(context: &mut Context, written: Vec<Written>) -> Result<Vec<FilePath>> {
    for Written { path, .. } in written.iter().filter(|one| one.is_slashed) {
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
        let is_slashed = |text: &str| text.parse::<Written>().unwrap().is_slashed;
        assert_eq!(["/a", "/a/", "/a/.", "/a//", "/a/b"].map(is_slashed), [false, true, true, true, false]);
        assert!("a/".parse::<Written>().is_err());
    }
}
