//! `bp scan`: compares partitions with the catalogue and repairs differences.

use crate::{
    context::{Context, Run},
    names::Partition,
    output::Tone,
    table::{Cell, Column, Table},
};
use base::{
    Millis, ObjectId,
    units::{Size, Span, human_bytes, human_span},
};
use clap::Subcommand;
use wire::control::{
    Call, Done, FindingInfo, FindingKind, GetFindings, GetScans, RepairScan, ResumeScan, ScanInfo, ScanPace,
    ScanState, StartScan, StopScan,
};

/// An object that was changed later than this is left alone by repairs.
const OLDER_THAN: Span = Span(Millis::from_seconds(86_400));

/// Compare partitions with the catalogue and repair the differences
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Start a scan for missing, unknown, short and damaged objects
    Start {
        /// The partition [default: all]
        partition: Option<Partition>,
        /// Read every byte and compare it with its checksum
        #[arg(long)]
        checksum: bool,
        /// Most objects to check per second
        #[arg(long, value_name = "N", default_value_t = 4000)]
        objects: u64,
        /// Most bytes to read per second
        #[arg(long, value_name = "SIZE", default_value = "200MB")]
        bytes: Size,
    },
    /// Show the progress of scans and repairs
    Status,
    /// Show the findings of the last scan of a partition
    Report {
        /// The partition
        partition: Partition,
    },
    /// Repair the findings: replace bad replicas, quarantine unknown objects
    Repair {
        /// The partition
        partition: Partition,
        /// Skip unknown objects younger than this [default: 1d]
        #[arg(long, value_name = "TIME")]
        older_than: Option<Span>,
    },
    /// Stop scans and repairs
    Stop {
        /// The partition [default: all]
        partition: Option<Partition>,
    },
    /// Resume stopped scans and repairs where they ended
    Resume {
        /// The partition [default: all]
        partition: Option<Partition>,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.what {
        What::Start { partition, checksum, objects, bytes } => {
            let pace = ScanPace { is_checksummed: checksum, objects_per_s: objects, bytes_per_s: bytes.0 };
            let partition = Partition::find_any(partition, context)?;
            call(context, &StartScan { partition, pace })
        }
        What::Status => status(context),
        What::Report { partition } => {
            let partition = partition.find(context)?;
            report(context, &partition)
        }
        What::Repair { partition, older_than } => {
            let Span(older_than) = older_than.unwrap_or(OLDER_THAN);
            let partition = partition.find(context)?;
            call(context, &RepairScan { partition, older_than })
        }
        What::Stop { partition } => {
            let partition = Partition::find_any(partition, context)?;
            call(context, &StopScan { partition })
        }
        What::Resume { partition } => {
            let partition = Partition::find_any(partition, context)?;
            call(context, &ResumeScan { partition })
        }
    }
}

fn call<C: Call<Reply = Done>>(context: &mut Context, call: &C) -> Run {
    let reply = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&reply)?;
    }
    Ok(0)
}

fn status(context: &mut Context) -> Run {
    let reply = context.call(&GetScans {})?;
    if context.output.is_json() {
        context.output.json(&reply)?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Left("state"),
        Column::Right("done"),
        Column::Right("objects/s"),
        Column::Right("read"),
        Column::Right("left"),
        Column::Right("findings"),
        Column::Right("repaired"),
        Column::Text("problem"),
    ]);
    for scan in &reply.scans {
        table.row(row(scan));
    }
    // What the pools' intervals want, as far as it has begun.
    for scan in reply.scrubs.iter().filter_map(|scrub| scrub.scan.as_ref()) {
        table.row(row(scan));
    }
    if reply.scans.iter().any(|scan| scan.found.iter().sum::<u64>() > scan.mended) {
        table.next_step("`bp scan report PARTITION` shows findings, `bp scan repair PARTITION` repairs them");
    }
    if table.is_empty() {
        context.output.news("no partition was scanned yet")?;
    } else {
        context.output.table(&table)?;
    }
    Ok(0)
}

fn row(scan: &ScanInfo) -> [Cell; 9] {
    // All is done only when it is said to be.
    let percent =
        if scan.state == ScanState::Done { 100 } else { (scan.progress * 100.0).clamp(0.0, 99.0) as u64 };
    let found: u64 = scan.found.iter().sum();
    [
        Cell::from(scan.partition.as_str()),
        scan.state_word().into(),
        format!("{percent} %").into(),
        format!("{:.0}", scan.looks_per_s).into(),
        human_bytes(scan.bytes).into(),
        scan.left.map_or_else(|| "-".to_owned(), human_span).into(),
        Cell::toned(found.to_string(), if found > scan.mended { Tone::Bad } else { Tone::Plain }),
        scan.mended.to_string().into(),
        scan.trouble.clone().unwrap_or_default().into(),
    ]
}

fn report(context: &mut Context, partition: &str) -> Run {
    let mut all: Vec<FindingInfo> = Vec::new();
    let mut after = ObjectId(0);
    loop {
        let page = context.call(&GetFindings { partition: partition.to_owned(), after })?;
        if context.output.is_json() {
            context.output.json(&page)?;
        }
        let last = page.findings.last().map(|info| info.finding.object);
        all.extend(page.findings);
        match last {
            Some(last) if page.is_partial => after = last,
            _ => break,
        }
    }
    if context.output.is_json() {
        return Ok(0);
    }
    if all.is_empty() {
        context.output.news(format!("the last scan of {partition} found no problem"))?;
        return Ok(0);
    }
    let mut table = Table::new([
        Column::Left("finding"),
        Column::Right("object"),
        Column::Path("file"),
        Column::Text("detail"),
        Column::Text("outcome"),
    ]);
    for info in &all {
        let tone = if info.finding.kind == FindingKind::Orphan { Tone::Plain } else { Tone::Bad };
        let path = info.path.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        table.row([
            Cell::toned(info.finding.kind.as_str(), tone),
            info.finding.object.to_string().into(),
            path.into(),
            info.finding.detail.as_str().into(),
            info.outcome.as_str().into(),
        ]);
    }
    context.output.table(&table)?;
    Ok(0)
}
