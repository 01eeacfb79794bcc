//! `bp chmod`: sets permission bits.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    path_arg::{self, PathArg},
    walk,
};
use wire::control::SetMode;

/// Set permission bits
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Octal, as 644
    #[arg(value_parser = octal)]
    mode: u32,
    /// Files or directories; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
    /// Also everything below; directories need x to be entered: use 755, not 644
    #[arg(long, short = 'R')]
    recursive: bool,
}

fn octal(text: &str) -> Result<u32, String> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = if is_octal { u32::from_str_radix(text, 8).ok() } else { None };
    mode.filter(|mode| *mode <= 0o7777).ok_or_else(|| "not an octal mode such as 644".to_owned())
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, Match::All)?;
    walk::each(context, paths, args.recursive, &mut |context, path| {
        context.done(&SetMode { path: path.clone(), mode: args.mode })
    })
}
