//! `bp pool`: what pools promise, and what may be done with their partitions.

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
};
use base::{
    Failure,
    units::{Span, human_bytes},
};
use clap::Subcommand;
use wire::control::{Done, GetPools, PartitionInfo, PartitionState, Pool, PoolInfo, SetPartition, SetPool};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show pools, their partitions and what is missing
    List,
    /// Change what a pool promises
    Set {
        /// The pool
        pool: String,
        /// Replicas of each file, on different disk servers
        #[arg(long, value_name = "N")]
        copies: Option<u8>,
        /// Replicas that are durable before a write is acknowledged
        #[arg(long, value_name = "N")]
        acknowledged: Option<u8>,
        /// Silence after which a disk server's files are read elsewhere
        #[arg(long, value_name = "TIME")]
        heard_bound: Option<Span>,
        /// Silence after which a disk server's files are copied again from elsewhere
        #[arg(long, value_name = "TIME")]
        silence_bound: Option<Span>,
        /// Copies between disk servers that come from or go to one of them at a time
        #[arg(long, value_name = "N")]
        server_copies: Option<u16>,
    },
    /// Let nothing new come to a partition, and move what it has elsewhere
    Drain {
        /// The partition
        partition: String,
    },
    /// Let nothing new come to a partition; what it has stays
    Freeze {
        /// The partition
        partition: String,
    },
    /// Use a partition again
    Use {
        /// The partition
        partition: String,
    },
    /// Give a partition up that is empty
    Retire {
        /// The partition
        partition: String,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    match args.verb {
        Verb::List => list(context),
        Verb::Set { pool, copies, acknowledged, heard_bound, silence_bound, server_copies } => {
            let mut policy = policy(&pool, context)?;
            // Whoever asks for more copies wants them before the acknowledgement, unless he says otherwise.
            let was_all = policy.acknowledged_copies == policy.copies;
            policy.copies = copies.unwrap_or(policy.copies);
            let unsaid = if was_all { policy.copies } else { policy.acknowledged_copies.min(policy.copies) };
            policy.acknowledged_copies = acknowledged.unwrap_or(unsaid);
            policy.heard_bound = heard_bound.map_or(policy.heard_bound, |span| span.0);
            policy.silence_bound = silence_bound.map_or(policy.silence_bound, |span| span.0);
            policy.repair.server_copies = server_copies.unwrap_or(policy.repair.server_copies);
            let done = context.call(&SetPool { pool: policy })?;
            say(&done, format!("pool {pool} has a new policy: `bp pool list` shows what follows"), context)
        }
        Verb::Drain { partition } => set(partition, PartitionState::Draining, context),
        Verb::Freeze { partition } => set(partition, PartitionState::ReadOnly, context),
        Verb::Use { partition } => set(partition, PartitionState::InUse, context),
        Verb::Retire { partition } => set(partition, PartitionState::Retired, context),
    }
}

/// The policy that a pool has now.
fn policy(pool: &str, context: &mut Context) -> Result<Pool, Failure> {
    let pools = context.call(&GetPools {})?.pools;
    let known = pools.into_iter().find(|known| known.name == pool).map(|known| known.policy);
    Ok(known.unwrap_or_else(|| Pool { name: pool.to_owned(), ..Pool::default() }))
}

fn set(partition: String, state: PartitionState, context: &mut Context) -> Run {
    let done = context.call(&SetPartition { partition: partition.clone(), state })?;
    say(&done, format!("partition {partition} is {}", words(state)), context)
}

fn say(done: &Done, news: String, context: &mut Context) -> Run {
    if context.output.is_json() {
        context.output.json(done)?;
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
        Column::Right("files short"),
        Column::Right("copying"),
    ]);
    for pool in pools {
        let short = pool.files_short.to_string();
        table.row([
            Cell::from(pool.name.as_str()),
            pool.policy.copies.to_string().into(),
            pool.policy.acknowledged_copies.to_string().into(),
            if pool.files_short > 0 { Cell::toned(short, Tone::Bad) } else { short.into() },
            pool.copies_under_way.to_string().into(),
        ]);
    }
    table
}

fn partitions_table(pools: &[PoolInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("partition"),
        Column::Left("on"),
        Column::Left("state"),
        Column::Right("replicas"),
        Column::Right("bytes"),
        Column::Right("free"),
        Column::Right("size"),
    ]);
    for pool in pools {
        for partition in &pool.partitions {
            table.row([
                Cell::from(format!("{}/{}", pool.name, partition.name)),
                partition.server.as_str().into(),
                state(partition),
                partition.replicas.to_string().into(),
                human_bytes(partition.replica_bytes).into(),
                human_bytes(partition.free_bytes).into(),
                human_bytes(partition.total_bytes).into(),
            ]);
        }
    }
    table
}

fn state(partition: &PartitionInfo) -> Cell {
    match (partition.is_given_up, partition.is_available) {
        (true, _) => Cell::toned("given up", Tone::Bad),
        (false, false) => Cell::toned(format!("{}, silent", words(partition.state)), Tone::Bad),
        (false, true) => Cell::from(words(partition.state)),
    }
}
