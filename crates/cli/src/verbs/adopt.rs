//! `bp adopt`: takes a directory on the file system of a partition into the namespace, without copying it.

use crate::{
    context::{Context, Run},
    names::Partition,
    output::Tone,
    progress,
    table::{Cell, Column, Table},
    words::{counted, percent},
};
use base::{
    Failure, FilePath, Result,
    units::{Size, human_bytes},
};
use clap::{Subcommand, ValueHint};
use indicatif::ProgressBar;
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use wire::control::{
    AdoptionInfo, AdoptionStarted, AdoptionState, GetAdoptions, GetLeftAlone, LeftAlone, StartAdoption,
    StopAdoption,
};

/// How often is looked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After this long without a sign of the disk server people are told.
const SILENCE: Duration = Duration::from_secs(10);

/// Add an existing directory of a disk server without copying it
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// The directory, on the file system of a partition; disk.adopt in the facility.toml of that host must allow it
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Its path in the facility
    #[arg(required = true, value_name = "PATH")]
    path: Option<FilePath>,
    /// The partition on whose file system it lies [default: the only one]
    #[arg(long)]
    partition: Option<Partition>,
    /// Remove each original file name once the file is stored in the facility
    #[arg(long = "move")]
    is_moving: bool,
    /// Most bytes to read per second
    #[arg(long, value_name = "SIZE", default_value = "200MB")]
    bytes: Size,
    /// Return at once; `bp adopt status` shows the progress
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the progress of adoptions
    Status,
    /// Show the entries that the last adoption of a partition skipped, and why
    Report {
        /// The partition
        partition: Partition,
    },
    /// Stop running adoptions; files adopted so far stay
    Stop {
        /// The partition [default: all]
        partition: Option<Partition>,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match (args.what, args.directory, args.path) {
        (Some(What::Status), ..) => status(context),
        (Some(What::Report { partition }), ..) => {
            let partition = partition.find(context)?;
            let left = left_alone(context, &partition)?;
            if left.is_empty() && !context.output.is_json() {
                context.output.news(format!("no file was skipped on {partition}"))?;
            }
            tell_left(context, &left).map(|_| 0)
        }
        (Some(What::Stop { partition }), ..) => {
            let partition = Partition::find_any(partition, context)?;
            let done = context.call(&StopAdoption { partition })?;
            if context.output.is_json() {
                context.output.json(&done)?;
            }
            Ok(0)
        }
        (None, Some(directory), Some(path)) => {
            let start = StartAdoption {
                partition: Partition::find_any(args.partition, context)?,
                directory: absolute(directory)?,
                path,
                is_moving: args.is_moving,
                bytes_per_s: args.bytes.0,
            };
            let started = context.call(&start)?;
            if !args.detach {
                return follow(context, &started);
            }
            if context.output.is_json() {
                context.output.json(&started)?;
            } else {
                let partition = &started.partition;
                context.output.news(format!(
                    "partition {partition} is adopting it; `bp adopt status` shows the progress"
                ))?;
            }
            Ok(0)
        }
        _ => Err(Failure::invalid("adopt needs a directory and a path in the facility").into()),
    }
}

/// The directory as that host knows it, if this is it.
fn absolute(directory: PathBuf) -> Result<String> {
    let shown = directory.display().to_string();
    let absolute = std::path::absolute(&directory).map_err(|cause| Failure::io(&shown, &cause))?;
    absolute.into_os_string().into_string().map_err(|_| Failure::invalid(format!("{shown} is not UTF-8")))
}

fn find(context: &mut Context, started: &AdoptionStarted) -> Result<AdoptionInfo> {
    let all = context.call(&GetAdoptions {})?.adoptions;
    let is_it =
        |info: &AdoptionInfo| (&info.partition, info.adoption) == (&started.partition, started.adoption);
    all.into_iter().find(is_it).ok_or_else(|| {
        Failure::not_found(format!("partition {} is adopting another directory now", started.partition))
            .hint("`bp adopt status` shows which")
    })
}

/// Waits for the end, and says what was left alone.
fn follow(context: &mut Context, started: &AdoptionStarted) -> Run {
    let mut bar: Option<ProgressBar> = None;
    let (began, mut is_told) = (Instant::now(), false);
    let info = loop {
        let info = find(context, started)?;
        if info.state != AdoptionState::Running {
            break info;
        }
        if let Some(total) = info.total {
            let bar = bar.get_or_insert_with(|| {
                progress::transfer(&context.output, info.path.name(), Some(total.bytes))
            });
            bar.set_length(total.bytes);
            bar.set_position(info.seen.bytes);
        } else if !is_told && info.updated == info.started && began.elapsed() > SILENCE {
            let text = "its disk server has not started yet; `bp pool list` shows whether it answers";
            context.output.news(format!("partition {}: {text}", info.partition))?;
            is_told = true;
        }
        thread::sleep(LOOK_EVERY);
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    ended(context, &info)
}

fn ended(context: &mut Context, info: &AdoptionInfo) -> Run {
    let left = left_alone(context, &info.partition)?;
    if context.output.is_json() {
        context.output.json(info)?;
    }
    let code = tell_left(context, &left)?;
    if let (AdoptionState::Refused, Some(trouble)) = (info.state, &info.trouble) {
        return Err(trouble.clone().into());
    }
    let files = counted(info.adopted.files, "file", "files");
    let mut told = format!("{}: {files} adopted, {}", info.path, human_bytes(info.adopted.bytes));
    if info.left_alone > 0 {
        told.push_str(&format!(", {} skipped", info.left_alone));
    }
    if info.unowned > 0 {
        let whose = "now belong to the owner of the facility, because that host does not know their users";
        told.push_str(&format!("; {} {whose}", info.unowned));
    }
    context.output.news(told)?;
    if info.state == AdoptionState::Stopped {
        return Err(Failure::busy("it was stopped before the end")
            .hint("run the same command to continue")
            .into());
    }
    Ok(code)
}

fn left_alone(context: &mut Context, partition: &str) -> Run<Vec<LeftAlone>> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let page = context.call(&GetLeftAlone { partition: partition.to_owned(), after })?;
        all.extend(page.left);
        match page.next {
            Some(next) => after = next,
            None => return Ok(all),
        }
    }
}

/// Says what was left alone; the exit code of the first.
fn tell_left(context: &mut Context, left: &[LeftAlone]) -> Run {
    for LeftAlone { name, failure } in left {
        if context.output.is_json() {
            context.output.json(&LeftAlone { name: name.clone(), failure: failure.clone() })?;
        } else {
            context.output.failure(&failure.clone().during(name));
        }
    }
    Ok(left.first().map_or(0, |left| left.failure.kind.exit_code()))
}

fn status(context: &mut Context) -> Run {
    let reply = context.call(&GetAdoptions {})?;
    if context.output.is_json() {
        context.output.json(&reply)?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Left("state"),
        Column::Right("done"),
        Column::Right("files"),
        Column::Right("bytes"),
        Column::Right("skipped"),
        Column::Path("directory"),
        Column::Path("path"),
        Column::Text("problem"),
    ]);
    for info in &reply.adoptions {
        if let Some(hint) = info.trouble.as_ref().and_then(|trouble| trouble.hint.as_deref()) {
            table.next_step(format!("{}: {hint}", info.partition));
        }
        if info.left_alone > 0 {
            table.next_step("`bp adopt report PARTITION` says why entries were skipped");
        }
        table.row(row(info));
    }
    if table.is_empty() {
        context.output.news("no directory was adopted yet")?;
    } else {
        context.output.table(&table)?;
    }
    Ok(0)
}

fn row(info: &AdoptionInfo) -> [Cell; 9] {
    let tone = match info.state {
        AdoptionState::Running => Tone::Good,
        AdoptionState::Done => Tone::Plain,
        AdoptionState::Stopped => Tone::Wait,
        AdoptionState::Refused => Tone::Bad,
    };
    let state = Cell::toned(info.state.as_str(), tone);
    let total = info.total.unwrap_or_default();
    let done = match info.state {
        AdoptionState::Done => percent(1, 1),
        _ => percent(info.seen.bytes.min(total.bytes), total.bytes),
    };
    let tone = if info.left_alone > 0 { Tone::Bad } else { Tone::Plain };
    [
        info.partition.as_str().into(),
        state,
        done.into(),
        info.adopted.files.to_string().into(),
        human_bytes(info.adopted.bytes).into(),
        Cell::toned(info.left_alone.to_string(), tone),
        info.directory.as_str().into(),
        info.path.as_str().into(),
        info.trouble.as_ref().map(|failure| failure.what.clone()).unwrap_or_default().into(),
    ]
}
