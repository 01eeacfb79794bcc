//! `bp evict`: drops disk replicas of files that are on tape.

use super::wait::{self, Timeout};
use crate::{
    context::{Context, Run},
    glob::{self, Match},
};
use base::FilePath;
use wire::control::Evict;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files; * and ? in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<FilePath>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = glob::expand(context, &args.paths, Match::Files)?;
    let outcomes = context.call(&Evict { paths })?;
    wait::asked(context, outcomes, None, &Timeout::default())
}
