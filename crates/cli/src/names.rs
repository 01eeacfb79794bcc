//! Names as the tables print them, taken as arguments.

use crate::context::Context;
use base::{Failure, RequestId, Result};
use std::{convert::Infallible, str::FromStr};
use wire::control::GetPools;

/// A partition as `bp pool list` shows it, `POOL/PARTITION`, or its name alone: names of partitions are unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pool: Option<String>,
    name: String,
}

impl FromStr for Partition {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (pool, name) = text.rsplit_once('/').map_or((None, text), |(pool, name)| (Some(pool), name));
        Ok(Self { pool: pool.map(str::to_owned), name: name.to_owned() })
    }
}

impl Partition {
    /// Its name. A pool that it is not in is refused: the operator has another partition in mind, or it was moved.
    pub(crate) fn find(self, context: &mut Context) -> Result<String> {
        let Some(pool) = &self.pool else { return Ok(self.name) };
        let pools = context.call(&GetPools {})?.pools;
        let has_it = |one: &&wire::control::PoolInfo| one.partitions.iter().any(|one| one.name == self.name);
        // One that does not exist is refused by the call that it is for.
        match pools.iter().find(has_it) {
            Some(real) if real.name != *pool => Err(self.elsewhere(pool, &real.name)),
            _ => Ok(self.name),
        }
    }

    fn elsewhere(&self, pool: &str, real: &str) -> Failure {
        let name = &self.name;
        Failure::not_found(format!("partition {name} is in pool {real}, not in {pool}"))
            .hint(format!("name it {real}/{name}, or only {name}"))
    }

    /// As [`Partition::find`], of a partition that may be left out.
    pub(crate) fn find_any(partition: Option<Self>, context: &mut Context) -> Result<Option<String>> {
        partition.map(|partition| partition.find(context)).transpose()
    }
}

/// A request as `bp queue` shows it, `r7`, or only its number.
pub(crate) fn request(text: &str) -> Result<RequestId> {
    text.strip_prefix('r').unwrap_or(text).parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_printed() {
        let parts = |text: &str| text.parse().map(|Partition { pool, name }| (pool, name)).unwrap();
        assert_eq!(parts("main/d1-disk1"), (Some("main".to_owned()), "d1-disk1".to_owned()));
        assert_eq!(parts("d1-disk1"), (None, "d1-disk1".to_owned()));
        for text in ["r7", "7"] {
            assert_eq!(request(text).unwrap(), RequestId(7));
        }
        assert!(request("rr7").is_err() && request("r").is_err());
    }

    #[test]
    fn a_wrong_pool_is_told_with_the_right_one() {
        let partition: Partition = "other/p1".parse().unwrap();
        let failure = partition.elsewhere("other", "main");
        assert_eq!(failure.what, "partition p1 is in pool main, not in other");
        assert_eq!(failure.hint.as_deref(), Some("name it main/p1, or only p1"));
    }
}
