//! `bp pool set`: changes the policy of a pool.

use super::say;
use crate::context::{Context, Run};
use base::{
    Failure, Result,
    units::{Size, Span},
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::{collections::BTreeSet, str::FromStr};
use wire::control::{
    Coding, Collection, CollectionOrder, FailureDomain, GetPools, PartitionState, Pool, SetPool,
};

/// How far the high water is above the low one if nobody says it.
const WATERS_APART: u16 = 50;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    pool: String,
    /// Replicas of each file, on different disk servers
    #[arg(long, value_name = "N")]
    copies: Option<u8>,
    /// Replicas that are durable before a write is acknowledged
    #[arg(long, value_name = "N")]
    acknowledged: Option<u8>,
    /// Two copies of a file never share this: `server`, or a label such as `rack` (`bp host label`)
    #[arg(long, value_name = "LABEL")]
    failure_domain: Option<FailureDomain>,
    /// Store each new file as D data and P parity pieces on different disk servers instead of as replicas; P of them may
    /// be lost; `none`: replicas
    #[arg(long, value_name = "D+P")]
    coding: Option<CodingArg>,
    /// Stripe each new file over N disk servers, without redundancy; 1: no striping
    #[arg(long, value_name = "N")]
    stripe: Option<u8>,
    /// Bytes written to one disk server before the next
    #[arg(long, value_name = "SIZE")]
    stripe_unit: Option<Size>,
    /// Read and write objects without the page cache of the disk servers
    #[arg(long, value_name = "BOOL")]
    direct: Option<bool>,
    /// Free bytes on each partition that users' writes may not use; repairs may
    #[arg(long, value_name = "SIZE")]
    reserve: Option<Size>,
    /// Silence of a disk server after which its files are read from other servers
    #[arg(long, value_name = "TIME")]
    heard_bound: Option<Span>,
    /// Silence of a disk server after which its files are copied again from other replicas
    #[arg(long, value_name = "TIME")]
    silence_bound: Option<Span>,
    /// Most repair copies from or to one disk server at a time
    #[arg(long, value_name = "N")]
    server_copies: Option<u16>,
    /// Most copies for draining and balancing from or to one disk server at a time; 0: none
    #[arg(long, value_name = "N")]
    server_moves: Option<u16>,
    /// Free share of a partition below which files that are on tape are evicted; 0: never
    #[arg(long, value_name = "PERCENT")]
    low_water: Option<Permille>,
    /// Free share of a partition at which that eviction stops
    #[arg(long, value_name = "PERCENT")]
    high_water: Option<Permille>,
    /// Files made or used more recently than this are not evicted
    #[arg(long, value_name = "TIME")]
    collect_age: Option<Span>,
    /// Which files leave first
    #[arg(long, value_name = "ORDER", value_parser = orders())]
    collect_order: Option<CollectionOrder>,
    /// Every byte is compared with its checksum once in this time
    #[arg(long, value_name = "TIME")]
    verify_interval: Option<Span>,
    /// Balance partitions whose used share differs from the pool's by more than this
    #[arg(long, value_name = "PERCENT")]
    spread: Option<Permille>,
    /// Share of the free space that one user may reserve before writing
    #[arg(long, value_name = "PERCENT")]
    user_reserve: Option<Permille>,
}

/// A coding, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodingArg(Option<Coding>);

impl FromStr for CodingArg {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|coding| Self(Some(coding))) }
    }
}

/// The orders in which files leave, by their words.
fn orders() -> impl TypedValueParser<Value = CollectionOrder> {
    let words = CollectionOrder::WORDS;
    let named = move |word: &str| words.iter().find(|(_, known, _)| *known == word).map(|(order, ..)| *order);
    PossibleValuesParser::new(words.map(|(_, word, about)| PossibleValue::new(word).help(about)))
        .try_map(move |word| named(&word).ok_or("no such order"))
}

/// Thousandths, written as percent: `5`, `5%`, `2.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Permille(u16);

impl FromStr for Permille {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.trim().trim_end_matches('%').trim_end();
        match number.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self((percent * 10.0).round() as u16)),
            _ => Err(Failure::invalid(format!("{text:?} is not a percentage such as 5%"))),
        }
    }
}

pub(super) fn set(args: &Args, context: &mut Context) -> Run {
    let mut policy = known(&args.pool, context)?;
    change(args, &mut policy);
    let pieces = policy.pieces().filter(|_| args.coding.is_some() || args.stripe.is_some());
    let done = context.call(&SetPool { pool: policy })?;
    if let Some(pieces) = pieces {
        warn_of_few(&args.pool, pieces, context)?;
    }
    say(done, format!("changed the policy of pool {}; `bp pool list` shows the effect", args.pool), context)
}

/// The policy that a pool has now.
fn known(pool: &str, context: &mut Context) -> Result<Pool> {
    let pools = context.call(&GetPools {})?.pools;
    let known = pools.into_iter().find(|known| known.name == pool).map(|known| known.policy);
    Ok(known.unwrap_or_else(|| Pool { name: pool.to_owned(), ..Pool::default() }))
}

/// Says so if every write would be refused.
fn warn_of_few(pool: &str, coding: Coding, context: &mut Context) -> Run<()> {
    let pools = context.call(&GetPools {})?.pools;
    let partitions = pools.iter().filter(|known| known.name == pool).flat_map(|known| &known.partitions);
    let open = partitions.filter(|partition| partition.state == PartitionState::InUse);
    let servers: BTreeSet<_> = open.map(|partition| &partition.server).collect();
    let (there, needed) = (servers.len(), usize::from(coding.pieces()));
    if there < needed {
        context.output.aside(&format!(
            "pool {pool} has {there} disk servers but needs {needed} for {coding}; writes are refused until more join"
        ))?;
    }
    Ok(())
}

fn change(args: &Args, policy: &mut Pool) {
    // Whoever asks for more copies wants them before the acknowledgement, unless he says otherwise.
    let was_all = policy.acknowledged_copies == policy.copies;
    policy.copies = args.copies.unwrap_or(policy.copies);
    let unsaid = if was_all { policy.copies } else { policy.acknowledged_copies.min(policy.copies) };
    policy.acknowledged_copies = args.acknowledged.unwrap_or(unsaid);
    policy.failure_domain = args.failure_domain.clone().unwrap_or_else(|| policy.failure_domain.clone());
    policy.coding = args.coding.map_or(policy.coding, |wish| wish.0);
    policy.stripe.width = args.stripe.unwrap_or(policy.stripe.width);
    policy.stripe.unit_bytes =
        args.stripe_unit.map_or(policy.stripe.unit_bytes, |unit| u32::try_from(unit.0).unwrap_or(u32::MAX));
    policy.direct = args.direct.unwrap_or(policy.direct);
    policy.reserved_bytes = args.reserve.map_or(policy.reserved_bytes, |size| size.0);
    policy.heard_bound = args.heard_bound.map_or(policy.heard_bound, |span| span.0);
    policy.silence_bound = args.silence_bound.map_or(policy.silence_bound, |span| span.0);
    policy.repair.server_copies = args.server_copies.unwrap_or(policy.repair.server_copies);
    policy.moves.server_copies = args.server_moves.unwrap_or(policy.moves.server_copies);
    policy.verify_interval = args.verify_interval.map_or(policy.verify_interval, |span| span.0);
    policy.spread_permille = args.spread.map_or(policy.spread_permille, |spread| spread.0);
    policy.user_reserved_permille = args.user_reserve.map_or(policy.user_reserved_permille, |part| part.0);
    policy.collection = collection(args, policy.collection);
}

fn collection(args: &Args, known: Option<Collection>) -> Option<Collection> {
    let is_asked = args.low_water.is_some() || args.high_water.is_some();
    if args.low_water == Some(Permille(0)) || (known.is_none() && !is_asked) {
        return None;
    }
    let mut collection = known.unwrap_or_default();
    if let Some(Permille(low)) = args.low_water {
        collection.begin_free_permille = low;
        if collection.end_free_permille <= low {
            collection.end_free_permille = low + WATERS_APART;
        }
    }
    collection.end_free_permille = args.high_water.map_or(collection.end_free_permille, |high| high.0);
    collection.age_min = args.collect_age.map_or(collection.age_min, |span| span.0);
    collection.order = args.collect_order.unwrap_or(collection.order);
    Some(collection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn collected(words: &[&str], known: Option<Collection>) -> Option<(u16, u16)> {
        let line = ["set", "main"].iter().chain(words);
        let Line { args } = Line::try_parse_from(line).unwrap();
        collection(&args, known).map(|waters| (waters.begin_free_permille, waters.end_free_permille))
    }

    #[test]
    fn waters_are_written_as_percent() {
        assert_eq!("2.5%".parse::<Permille>().unwrap(), Permille(25));
        assert_eq!(" 5 %".parse::<Permille>().unwrap(), Permille(50));
        for bad in ["", "%", "-1", "101%", "NaN", "five"] {
            assert!(bad.parse::<Permille>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_is_collected_unless_somebody_says_so() {
        let some =
            Some(Collection { begin_free_permille: 100, end_free_permille: 200, ..Collection::default() });
        assert_eq!(collected(&[], None), None);
        assert_eq!(collected(&["--collect-age=1h"], None), None);
        assert_eq!(collected(&["--low-water=5%", "--high-water=20%"], None), Some((50, 200)));
        assert_eq!(collected(&["--low-water=30%"], some), Some((300, 350)));
        assert_eq!(collected(&["--collect-order=size"], some), Some((100, 200)));
        assert_eq!(collected(&["--low-water=0"], some), None);
    }
}
