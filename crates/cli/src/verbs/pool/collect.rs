//! `bp pool collect`: drops files that are safe on tape from the disks of a pool, or shows which would go.

use crate::{
    context::{Context, Run},
    table::{Cell, Column, Table},
    words,
};
use base::{
    Failure, Millis,
    units::{Size, Span, human_bytes},
};
use wire::control::{Call, CollectPool, Collected, GetCollectable};

/// Rows that are shown; more are only counted.
const ROWS_MAX: u64 = 1000;
/// How long the head may look for files before it says that it still does.
const WAIT: Millis = Millis::from_seconds(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: String,
    /// Free this much on one of the pool's partitions [default: each up to the pool's high water]
    #[arg(long, value_name = "SIZE")]
    free: Option<Size>,
    /// Skip files made or used within this time [default: as the pool's policy says, or 1h]
    #[arg(long, value_name = "TIME")]
    age: Option<Span>,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
}

/// What went on all partitions.
#[derive(Default)]
struct CollectedTotal {
    files: u64,
    bytes: u64,
    /// Partitions with bytes that could not be freed.
    missing: Vec<(String, u64)>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Run {
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Right("bytes"),
        Column::Left("last used"),
        Column::Path("file"),
    ]);
    let (mut sum, mut from) = (CollectedTotal::default(), None);
    loop {
        let page = page(args, from, context)?;
        if context.output.is_json() && !page.is_looking {
            context.output.json(&page)?;
        }
        add(&page, &mut table, &mut sum);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    if !context.output.is_json() {
        show(args, &table, &sum, context)?;
    }
    Ok(report_missing(&sum, context))
}

/// The next files that go. Only the first call begins: it does not wait.
fn page(args: &Args, from: Option<String>, context: &mut Context) -> Run<Collected> {
    let (pool, free_bytes) = (args.pool.clone(), args.free.map(|size| size.0));
    let age_min = args.age.map(|span| span.0);
    if args.dry_run {
        call(&GetCollectable { pool, free_bytes, age_min, from: from.clone() }, from.is_some(), context)
    } else {
        call(&CollectPool { pool, free_bytes, age_min, from: from.clone() }, from.is_some(), context)
    }
}

fn call<C: Call<Reply = Collected>>(call: &C, waits: bool, context: &mut Context) -> Run<Collected> {
    Ok(if waits { context.control()?.call_waiting(call, WAIT)? } else { context.call(call)? })
}

fn add(page: &Collected, table: &mut Table, sum: &mut CollectedTotal) {
    let partition = page.partition.as_deref().unwrap_or_default();
    for file in &page.files {
        if sum.files < ROWS_MAX {
            table.row([
                Cell::from(partition),
                human_bytes(file.bytes).into(),
                words::time(file.used).into(),
                file.path.to_string().into(),
            ]);
        }
        sum.files += 1;
        sum.bytes += file.bytes;
    }
    let is_over = page.partition.is_some() && page.next != page.partition;
    if is_over && page.missing_bytes > 0 {
        sum.missing.push((partition.to_owned(), page.missing_bytes));
    }
}

fn show(args: &Args, table: &Table, sum: &CollectedTotal, context: &mut Context) -> Run<()> {
    if !table.is_empty() {
        context.output.table(table)?;
    }
    if sum.files > ROWS_MAX {
        context.output.line(format!("and {} more", sum.files - ROWS_MAX))?;
    }
    let what = match (sum.files, sum.missing.is_empty()) {
        (0, true) => "nothing to evict: there is enough free space".to_owned(),
        (0, false) => "nothing may go".to_owned(),
        (files, _) => {
            let verb = if args.dry_run { "would leave" } else { "left" };
            let (files, bytes) = (words::counted(files, "file", "files"), human_bytes(sum.bytes));
            format!("{files} of {bytes} {verb} the disks of pool {}", args.pool)
        }
    };
    context.output.news(what)
}

/// The exit code; what could not be freed is a failure.
fn report_missing(sum: &CollectedTotal, context: &mut Context) -> u8 {
    let mut code = 0;
    for (partition, bytes) in &sum.missing {
        let failure =
            Failure::no_space(format!("partition {partition}: {} more are needed", human_bytes(*bytes)))
                .hint("no other file is on tape, unpinned and old enough; archive files or add a partition");
        context.output.failure(&failure);
        code = failure.kind.exit_code();
    }
    code
}
