//! `bp man`: the manual pages.

use crate::{
    context::{Context, Run},
    help,
};
use base::Failure;
use std::path::PathBuf;

/// Print the manual page, or write all pages to a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write a page for every verb into this directory
    directory: Option<PathBuf>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if let Some(directory) = args.directory {
        let pages = || {
            std::fs::create_dir_all(&directory)?;
            clap_mangen::generate_to(help::command(), &directory)
        };
        pages().map_err(|cause| Failure::io(format!("write pages into {}", directory.display()), &cause))?;
        return Ok(0);
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(help::command()).render(&mut page);
    rendered.map_err(|cause| Failure::io("make the page", &cause))?;
    context.output.bytes(&page)?;
    Ok(0)
}
