//! `bp du`: counts the bytes and files below directories.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    walk,
};
use base::{FilePath, units::human_bytes};
use serde::Serialize;
use wire::control::{FileState, NodeKind};

/// Show bytes and files below directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directories or files
    #[arg(default_value = "/", value_name = "PATH")]
    paths: Vec<FilePath>,
    /// Show directories down to this depth; 0: only the named ones
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    depth: usize,
}

/// The files and bytes below a path.
#[derive(Debug, Clone, Serialize)]
struct Usage {
    path: FilePath,
    #[serde(skip)]
    depth: usize,
    files: u64,
    bytes: u64,
    /// Of files that are on tape only.
    nearline_bytes: u64,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let (mut code, mut all) = (0, Vec::new());
    let ended = context.each(args.paths, |context, root| {
        let (mut sums, walked) = sums(context, &root, args.depth)?;
        all.append(&mut sums);
        code = if code == 0 { walked } else { code };
        Ok(())
    })?;
    show(context, &all)?;
    Ok(if ended == 0 { code } else { ended })
}

/// The sums of directories down to a depth, each after those above it.
fn sums(context: &mut Context, root: &FilePath, depth_max: usize) -> Run<(Vec<Usage>, u8)> {
    let mut sums: Vec<Usage> = Vec::new();
    // Those that are open: places in `sums`, the outermost first.
    let mut open: Vec<usize> = Vec::new();
    let code = walk::walk(context, root, &mut |_, met| {
        open.retain(|at| sums[*at].depth < met.depth);
        let is_file = met.entry.kind != NodeKind::Directory;
        if met.depth == 0 || (!is_file && met.depth <= depth_max) {
            open.push(sums.len());
            let (path, depth) = (met.path.clone(), met.depth);
            sums.push(Usage { path, depth, files: 0, bytes: 0, nearline_bytes: 0 });
        }
        for at in open.iter().filter(|_| is_file) {
            sums[*at].files += 1;
            sums[*at].bytes = sums[*at].bytes.saturating_add(met.entry.size);
            if met.entry.state == Some(FileState::Nearline) {
                sums[*at].nearline_bytes = sums[*at].nearline_bytes.saturating_add(met.entry.size);
            }
        }
        Ok(())
    })?;
    Ok((sums, code))
}

fn show(context: &mut Context, sums: &[Usage]) -> Run<()> {
    if context.output.is_json() {
        return sums.iter().try_for_each(|sum| context.output.json(sum));
    }
    let mut table = Table::new([
        Column::Right("size"),
        Column::Right("on tape only"),
        Column::Right("files"),
        Column::Path("path"),
    ]);
    for sum in sums {
        table.row([
            Cell::from(human_bytes(sum.bytes)),
            human_bytes(sum.nearline_bytes).into(),
            sum.files.to_string().into(),
            sum.path.as_str().into(),
        ]);
    }
    if table.is_empty() { Ok(()) } else { context.output.table(&table) }
}
