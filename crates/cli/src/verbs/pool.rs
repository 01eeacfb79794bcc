//! `bp pool`: manages pools and their partitions.

mod collect;
pub(super) mod drain;
mod policy;

use crate::{
    context::{Context, Run},
    names::Partition,
    output::Tone,
    table::{Cell, Column, Table},
    words::time,
};
use base::{
    Failure, Result,
    units::{Size, human_bytes},
};
use clap::Subcommand;
use std::str::FromStr;
use wire::control::{
    Coding, Done, GetPools, MovePartition, PartitionInfo, PartitionState, PoolInfo, ResizePartition,
    SetPartition,
};

/// Configure pools; drain, freeze and retire their partitions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List pools, their partitions and missing copies
    List,
    /// Set the policy of a pool: copies, coding, limits
    Set(policy::Args),
    /// Delete disk replicas of files that are safe on tape, to free space
    Collect(collect::Args),
    /// Refuse new files on a partition, and move its files to others
    Drain {
        /// The partitions
        #[arg(required = true, value_name = "PARTITION")]
        partitions: Vec<Partition>,
        #[command(flatten)]
        options: drain::Options,
    },
    /// Refuse new files on a partition; its files stay
    Freeze {
        /// The partition
        partition: Partition,
    },
    /// Accept new files on a partition again
    Use {
        /// The partition
        partition: Partition,
    },
    /// Limit the bytes on a partition
    Resize {
        /// The partition
        partition: Partition,
        /// Most bytes of files, e.g. 20TiB; `host`: the limit of its host's configuration
        size: SizeMax,
    },
    /// Move an empty partition to another pool
    Move {
        /// The partition
        partition: Partition,
        /// The pool
        pool: String,
    },
    /// Remove an empty partition from its pool
    Retire {
        /// The partition
        partition: Partition,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        Verb::List => list(context),
        Verb::Set(args) => policy::set(&args, context),
        Verb::Collect(args) => collect::run(&args, context),
        Verb::Drain { partitions, options } => {
            let names: Result<Vec<_>> = partitions.into_iter().map(|one| one.find(context)).collect();
            drain::partitions(names?, options, context)
        }
        Verb::Freeze { partition } => set(partition, PartitionState::ReadOnly, context),
        Verb::Use { partition } => set(partition, PartitionState::InUse, context),
        Verb::Resize { partition, size } => resize(partition, size, context),
        Verb::Move { partition, pool } => move_to(partition, pool, context),
        Verb::Retire { partition } => set(partition, PartitionState::Retired, context),
    }
}

fn set(partition: Partition, state: PartitionState, context: &mut Context) -> Run {
    let partition = partition.find(context)?;
    let done = context.call(&SetPartition { partition: partition.clone(), state })?;
    say(done, format!("partition {partition} is {}", words(state)), context)
}

/// What may lie on a partition; `None`: as much as its host allows.
#[derive(Debug, Clone, Copy)]
struct SizeMax(Option<u64>);

impl FromStr for SizeMax {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "host" { Ok(Self(None)) } else { text.parse().map(|size: Size| Self(Some(size.0))) }
    }
}

fn resize(partition: Partition, SizeMax(size_max_bytes): SizeMax, context: &mut Context) -> Run {
    let partition = partition.find(context)?;
    let done = context.call(&ResizePartition { partition: partition.clone(), size_max_bytes })?;
    let most = size_max_bytes.map_or_else(|| "what its host allows".to_owned(), human_bytes);
    say(done, format!("partition {partition} holds {most} at most"), context)
}

fn move_to(partition: Partition, pool: String, context: &mut Context) -> Run {
    let partition = partition.find(context)?;
    let done = context.call(&MovePartition { partition: partition.clone(), pool: pool.clone() })?;
    say(done, format!("partition {partition} is in pool {pool}"), context)
}

fn say(done: Done, news: String, context: &mut Context) -> Run {
    if context.output.is_json() {
        context.output.json(&done)?;
    } else {
        context.output.news(news)?;
    }
    Ok(0)
}

fn words(state: PartitionState) -> String {
    state.as_str().replace('_', " ")
}

fn list(context: &mut Context) -> Run {
    let pools = context.call(&GetPools {})?;
    if context.output.is_json() {
        context.output.json(&pools)?;
        return Ok(0);
    }
    context.output.table(&pools_table(&pools.pools))?;
    context.output.line("")?;
    context.output.table(&partitions_table(&pools.pools))?;
    Ok(0)
}

fn pools_table(pools: &[PoolInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("pool"),
        Column::Right("copies"),
        Column::Right("acknowledged"),
        Column::Left("failure domain"),
        Column::Right("too few copies"),
        Column::Right("copying"),
        Column::Right("moving"),
        Column::Right("to move"),
    ]);
    for pool in pools {
        let short = pool.files_short.to_string();
        table.row([
            Cell::from(pool.name.as_str()),
            promise(pool).into(),
            pool.policy.pieces().map_or(pool.policy.acknowledged_copies, Coding::pieces).to_string().into(),
            pool.policy.failure_domain.as_str().into(),
            if pool.files_short > 0 { Cell::toned(short, Tone::Bad) } else { short.into() },
            (pool.copies_under_way.saturating_sub(pool.moves_under_way)).to_string().into(),
            pool.moves_under_way.to_string().into(),
            human_bytes(pool.uneven_bytes).into(),
        ]);
    }
    table
}

/// Replicas of each file, or the pieces of which it consists.
fn promise(pool: &PoolInfo) -> String {
    pool.policy.pieces().map_or_else(|| pool.policy.copies.to_string(), |coding| coding.to_string())
}

fn partitions_table(pools: &[PoolInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Left("host"),
        Column::Left("state"),
        Column::Right("replicas"),
        Column::Right("bytes"),
        Column::Right("free"),
        Column::Right("size"),
        Column::Right("open"),
        Column::Left("verified"),
        Column::Text("why"),
    ]);
    for pool in pools {
        for partition in &pool.partitions {
            if partition.trouble.is_some() || !partition.is_available || partition.damaged > 0 {
                table.next_step("`bp doctor` says what to do about a partition");
            }
            table.row([
                Cell::from(format!("{}/{}", pool.name, partition.name)),
                place(partition).into(),
                state(partition),
                partition.replicas.to_string().into(),
                human_bytes(partition.replica_bytes).into(),
                human_bytes(partition.free_bytes).into(),
                human_bytes(partition.total_bytes).into(),
                partition.transfers.to_string().into(),
                verified(partition),
                partition.stuck.clone().unwrap_or_default().into(),
            ]);
        }
    }
    table
}

/// The disk server, and what it shares with others.
fn place(partition: &PartitionInfo) -> String {
    let PartitionInfo { server, domain, .. } = partition;
    if domain.is_empty() || domain == server { server.clone() } else { format!("{server} {domain}") }
}

fn state(partition: &PartitionInfo) -> Cell {
    let word = words(partition.state);
    if let Some(trouble) = partition.trouble {
        return Cell::toned(format!("{word}, {}", trouble.words()), Tone::Bad);
    }
    match (partition.is_given_up, partition.is_available) {
        (true, _) => Cell::toned("given up", Tone::Bad),
        (false, false) => Cell::toned(format!("{word}, silent"), Tone::Bad),
        (false, true) if partition.stuck.is_some() => Cell::toned(format!("{word}, stuck"), Tone::Bad),
        (false, true) if partition.stuck_bytes > 0 => {
            Cell::toned(format!("{word}, {} too full", human_bytes(partition.stuck_bytes)), Tone::Bad)
        }
        (false, true) if partition.collecting_bytes > 0 => {
            Cell::from(format!("{word}, freeing {}", human_bytes(partition.collecting_bytes)))
        }
        (false, true) => Cell::from(word),
    }
}

/// When its bytes were compared with their checksums, or how far that is.
fn verified(partition: &PartitionInfo) -> Cell {
    let when = match (partition.verified_percent, partition.verified) {
        (Some(percent), _) => format!("{percent} %"),
        (None, Some(verified)) => time(verified),
        (None, None) => "-".to_owned(),
    };
    match partition.damaged {
        0 => Cell::from(when),
        damaged => Cell::toned(format!("{when}, {damaged} damaged"), Tone::Bad),
    }
}
