//! `bp cp`: copies files between this host and servers, or from server to server.

use crate::{
    context::{Context, Run},
    mover::{self, Bars, CopyOptions, CopyResult, Job, Location, Mover},
    transfer,
    words::counted,
};
use base::{Failure, Result, units::human_bytes};
use client::xrd::Options;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Smallest copy whose rate is shown.
const RATE_BYTES_MIN: u64 = 1 << 20;
/// Most files that may be copied at once.
const PARALLEL_MAX: u16 = 256;

/// Copy files between this host and servers, or from server to server
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Copy directories and their contents
    #[arg(long, short)]
    recursive: bool,
    /// Files copied at once
    #[arg(long, short = 'j', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(PARALLEL_MAX)))]
    parallel: u16,
    /// Connections for each file [default: chosen by size and distance]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    streams: Option<u16>,
    /// Replace files that exist
    #[arg(long)]
    replace: bool,
    /// Continue interrupted downloads, and keep partial files to continue from
    #[arg(long)]
    resume: bool,
    /// Compare checksums at the end; this is the default
    #[arg(long, overrides_with = "no_verify")]
    verify: bool,
    /// Do not compare checksums
    #[arg(long, overrides_with = "verify")]
    no_verify: bool,
    /// Only show what would be copied
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Local paths, bp:/path in the facility, root:// and roots:// URLs (* and ? in the last component
    /// are wildcards), or - for standard input or output; then the target: a file, or a directory,
    /// which is made if it ends with /
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "TARGET"])]
    paths: Vec<String>,
}

/// What `--json` prints for each file.
#[derive(Serialize)]
struct Line<'a> {
    source: String,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a Failure>,
}

pub(crate) fn run(mut args: Args, context: &mut Context) -> Run {
    context.restore_umask();
    let target = args.paths.pop().ok_or_else(|| Failure::invalid("cp needs a target"))?;
    let options = Options { streams: args.streams.unwrap_or(0), ..context.xrd_options() };
    let sources = args.paths.iter().map(|text| Location::parse(text, context)).collect::<Result<Vec<_>>>()?;
    let must_be_directory = target.ends_with('/');
    let target = Location::parse(&target, context)?;
    let plan = mover::plan(&sources, &target, must_be_directory, args.recursive, &options)?;
    if args.dry_run {
        return dry_run(context, &plan.jobs);
    }
    let own: Vec<_> = plan.jobs.iter().filter_map(|job| job.source.facility_path()).collect();
    if !own.is_empty() {
        transfer::stage(context, &own)?;
    }
    let parents: Vec<_> = if must_be_directory { vec![target] } else { Vec::new() };
    for directory in plan.directories.iter().chain(&parents) {
        directory.make_directory(&options)?;
    }
    let copy_options =
        CopyOptions { replace: args.replace, make_path: true, resume: args.resume, verify: !args.no_verify };
    copy(context, &Mover::new(options), plan.jobs, usize::from(args.parallel), copy_options)
}

fn dry_run(context: &mut Context, jobs: &[Job]) -> Run {
    for Job { source, target, bytes } in jobs {
        if context.output.is_json() {
            context.output.json(&line(source, target, Some(*bytes)))?;
        } else {
            context.output.line(format!("{source} -> {target}  {}", human_bytes(*bytes)))?;
        }
    }
    Ok(0)
}

fn line<'a>(source: &Location, target: &Location, bytes: Option<u64>) -> Line<'a> {
    let (source, target) = (source.to_string(), target.to_string());
    let (resumed_bytes, seconds, checksum, is_verified, failure) = (None, None, None, None, None);
    Line { source, target, bytes, resumed_bytes, seconds, checksum, is_verified, failure }
}

/// Copies all files, goes on after failures, and returns the exit code of the first.
fn copy(
    context: &mut Context,
    mover: &Mover,
    jobs: Vec<Job>,
    parallel: usize,
    copy_options: CopyOptions,
) -> Run {
    let (files, bytes) = (jobs.len(), jobs.iter().map(|job| job.bytes).sum());
    let bars = Bars::new(&context.output, files, bytes);
    let (mut code, mut done, mut moved) = (0, 0u64, 0u64);
    let began = Instant::now();
    mover::run(mover, jobs, parallel.min(files.max(1)), copy_options, &bars, &mut |ended| {
        if let Err(failure) = &ended.outcome {
            code = if code == 0 { failure.kind.exit_code() } else { code };
        }
        if let Ok(file) = &ended.outcome {
            (done, moved) = (done + 1, moved + file.bytes - file.resumed);
        }
        bars.aside(|| report(context, &ended))
    })?;
    if files > 1 {
        let total = counted(done, "file", "files");
        context.output.news(format!("{total}  {}", amount(moved, began.elapsed())))?;
    }
    Ok(code)
}

fn report(context: &mut Context, ended: &CopyResult) -> Run<()> {
    let CopyResult { job: Job { source, target, .. }, outcome, took } = ended;
    match outcome {
        // The output is what was asked for.
        Ok(_) if matches!(target, Location::Standard) => Ok(()),
        _ if context.output.is_json() => {
            let mut line = line(source, target, None);
            match outcome {
                Ok(moved) => {
                    (line.bytes, line.resumed_bytes) = (Some(moved.bytes), Some(moved.resumed));
                    (line.seconds, line.is_verified) = (Some(took.as_secs_f64()), Some(moved.is_verified));
                    line.checksum = moved.checksum.as_deref();
                }
                Err(failure) => line.failure = Some(failure),
            }
            context.output.json(&line)?;
            context.output.flush()
        }
        Ok(moved) => {
            let resumed = match moved.resumed {
                0 => String::new(),
                bytes => format!("  {} were there", human_bytes(bytes)),
            };
            let sum = moved
                .checksum
                .as_deref()
                .map(|sum| format!("  {}", sum.replace(':', " ")))
                .unwrap_or_default();
            let doubt = if moved.is_verified { "" } else { "  not verified" };
            let amount = amount(moved.bytes - moved.resumed, *took);
            context.output.news(format!("{target}  {amount}{resumed}{sum}{doubt}"))
        }
        Err(failure) => {
            context.output.failure(failure);
            Ok(())
        }
    }
}

/// Bytes, and their rate if that says something.
fn amount(bytes: u64, took: Duration) -> String {
    let size = human_bytes(bytes);
    if bytes < RATE_BYTES_MIN {
        return size;
    }
    format!("{size}  {}/s", human_bytes((bytes as f64 / took.as_secs_f64().max(1e-6)) as u64))
}
