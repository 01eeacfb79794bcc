//! `bp get`: copies files out of the facility; with `--pool` it reserves room for one instead, as SHIFT's `sfget` did.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    mover::CopyOptions,
    path_arg::{self, PathArg},
    transfer,
    words::exact_time,
};
use base::{
    ErrorKind, Failure, FilePath, Result,
    units::{Size, Span, human_bytes},
};
use serde::Serialize;
use std::path::PathBuf;
use wire::control::{Allocate, Allocated, Allocation};

/// Copy files out of the facility, or reserve space for a new one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace local files that exist
    #[arg(long, conflicts_with = "pool")]
    replace: bool,
    /// Do not copy: reserve space in this pool for a new file PATH and print the URL to write to; if PATH exists,
    /// only print its URL
    #[arg(long, value_name = "POOL", requires = "size")]
    pool: Option<String>,
    /// Space to reserve: the largest size of the file, e.g. 20GB
    #[arg(long, requires = "pool")]
    size: Option<Size>,
    /// How long to reserve the space, e.g. 12h or 7d [default: 1d]
    #[arg(long = "for", value_name = "TIME", requires = "pool")]
    lifetime: Option<Span>,
    /// Make missing directories
    #[arg(long, short, requires = "pool")]
    parents: bool,
    /// Files (* and ? in the last component are wildcards), then the local name (- is
    /// standard output) or the directory for them
    #[arg(required = true, num_args = 1.., value_names = ["PATH", "LOCAL"])]
    files: Vec<String>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.restore_umask();
    match (&args.pool, args.size) {
        (Some(pool), Some(Size(size))) => reserve(&args, pool.clone(), size, context),
        _ => copy(args, context),
    }
}

fn copy(args: Args, context: &mut Context) -> Run {
    let mut sources = args.files;
    let target = sources.pop().filter(|_| !sources.is_empty()).map(PathBuf::from).ok_or_else(|| {
        Failure::invalid("get needs files and a local name")
            .hint("`bp get PATH .` copies it here; --pool and --size reserve space for a new file")
    })?;
    let written = sources.iter().map(|text| text.parse()).collect::<Result<Vec<PathArg>>>()?;
    let paths = path_arg::paths(context, written)?;
    let paths = glob::expand(context, &paths, Match::Files)?;
    if target.as_os_str() == "-" {
        transfer::stage(context, &paths)?;
        return context.each(paths, |context, path| transfer::print(context, &path));
    }
    let into = target.is_dir();
    if !into && (paths.len() > 1 || target.as_os_str().to_string_lossy().ends_with('/')) {
        let what = format!("{} is no directory to put files into", target.display());
        return Err(Failure::new(ErrorKind::NotDirectory, what).into());
    }
    let copy_options = CopyOptions { replace: args.replace, make_path: false, resume: false, verify: true };
    let code = transfer::as_they_come(context, paths, |context, path| {
        let local = if into { target.join(path.name()) } else { target.clone() };
        transfer::download(context, &path, &local, copy_options)
    })?;
    Ok(code)
}

/// What `--json` prints of a reservation.
#[derive(Serialize)]
struct Line<'a> {
    url: &'a str,
    #[serde(flatten)]
    allocation: &'a Allocation,
}

fn reserve(args: &Args, pool: String, size: u64, context: &mut Context) -> Run {
    let [path] = &args.files[..] else {
        return Err(Failure::invalid(format!(
            "space can be reserved for one file at a time, not for \
            {}",
            args.files.len()
        ))
        .hint("reserve space for each file separately")
        .into());
    };
    let path: FilePath = path.parse()?;
    let lifetime = args.lifetime.map(|span| span.0);
    let call = Allocate { path: path.clone(), pool, size, lifetime, mode: 0o644, parents: args.parents };
    let allocation = context.call(&call)?;
    // As shown it holds no token: whoever writes brings his own.
    let url = context.url(&path)?.to_string();
    if context.output.is_json() {
        context.output.json(&Line { url: &url, allocation: &allocation })?;
        return Ok(0);
    }
    context.output.line(&url)?;
    context.output.aside(&told(&allocation))?;
    Ok(0)
}

/// What people want to know beside the URL.
fn told(allocation: &Allocation) -> String {
    let Allocation { path, outcome, pool, size, until, is_begun, .. } = allocation;
    let size = human_bytes(*size);
    let until = until.map(|until| format!(" until {}", exact_time(until))).unwrap_or_default();
    match (outcome, is_begun) {
        (Allocated::New, _) => format!("{path}: {size} reserved in pool {pool}{until}"),
        (Allocated::Known, false) => format!("{path}: {size} are already reserved in pool {pool}{until}"),
        (Allocated::Known, true) => format!("{path}: {size} are reserved in pool {pool}, and being written"),
        (Allocated::Written, _) if pool.is_empty() => format!("{path} exists: {size}, on tape"),
        (Allocated::Written, _) => format!("{path} exists: {size} in pool {pool}"),
    }
}
