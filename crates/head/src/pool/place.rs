//! Where a new object goes and which replicas make room, as pure functions.

use crate::store::Replica;
use base::{Failure, Result, units::human_bytes};

/// What placement knows of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionView {
    pub(crate) name: String,
    pub(crate) pool: String,
    /// Its disk server is here.
    pub(crate) is_available: bool,
    /// Free and not promised.
    pub(crate) free_bytes: u64,
}

/// The partition of `pool` with the most room, if `bytes` fit there.
pub(crate) fn choose<'a>(views: &'a [PartitionView], pool: &str, bytes: u64) -> Result<&'a PartitionView> {
    let best = views
        .iter()
        .filter(|view| view.pool == pool && view.is_available)
        .max_by_key(|view| view.free_bytes)
        .ok_or_else(|| {
            Failure::unavailable(format!("no disk server of pool {pool} is running"))
                .hint("look at its log; it registers when it starts")
        })?;
    if best.free_bytes > bytes {
        return Ok(best);
    }
    let (need, free) = (human_bytes(bytes), human_bytes(best.free_bytes));
    Err(Failure::no_space(format!("pool {pool} has {free} free on one partition; {need} are needed"))
        .hint("archive and evict files, or give the pool another partition"))
}

/// The first candidates whose sizes add up to more than `missing` bytes; `None` if all of them are not enough.
pub(crate) fn victims(candidates: &[Replica], missing: u64) -> Option<&[Replica]> {
    let mut freed = 0;
    for (index, candidate) in candidates.iter().enumerate() {
        freed += candidate.size;
        if freed > missing {
            return Some(&candidates[..=index]);
        }
    }
    None
}
