//! The catalogue in the configuration: what cannot be meant is refused.

use super::Config;
use base::{Failure, Millis, Result};
use head::store::Catalogue;

/// Smallest cache: what a group of calls looks up must fit.
pub(crate) const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Shortest silence after which a head counts as gone.
const TAKE_OVER_AFTER_MIN: Millis = Millis::from_seconds(3);

/// Refuses what the configuration cannot mean.
pub(crate) fn check(config: &Config) -> Result<()> {
    if (1..CACHE_BYTES_MIN).contains(&config.cache.0) {
        return Err(Failure::invalid(format!("cache = {} is below 1MiB", config.cache))
            .hint("0 stands for an eighth of the host's memory"));
    }
    if config.take_over_after.0 < TAKE_OVER_AFTER_MIN {
        return Err(Failure::invalid(format!("take_over_after = {} is below 3s", config.take_over_after))
            .hint("a head sends a heartbeat every second; 15s is usual"));
    }
    if !config.catalogue.is_empty() {
        return Catalogue::database(&config.catalogue, None).map(drop);
    }
    if !config.catalogue_password.as_os_str().is_empty() {
        return Err(Failure::invalid("catalogue_password is of no use without a catalogue in a database")
            .hint("set catalogue = \"postgresql://USER@HOST/DATABASE\" too"));
    }
    Ok(())
}
