//! Pools and their partitions.

use super::words::{Tone, count, nothing, percent, room_bar, section, tag};
use base::units::human_bytes;
use maud::{Markup, html};
use wire::control::{PartitionInfo, Status};

/// Every partition with its use.
pub(super) fn pools(status: &Status) -> Markup {
    let partitions: usize = status.pools.iter().map(|pool| pool.partitions.len()).sum();
    if partitions == 0 {
        return section("Disk", "", nothing("no partition has registered"));
    }
    let body = html! {
        table {
            thead { tr { th { "partition" } th.stretch { "used" } th.n { "free" } th.n { "transfers" } th.n { "replicas" } th.n { "pinned" } } }
            @for pool in &status.pools {
                tbody {
                    @for partition in &pool.partitions { (row(&pool.name, partition)) }
                }
            }
        }
    };
    section("Disk", "", body)
}

fn row(pool: &str, partition: &PartitionInfo) -> Markup {
    let used = percent(partition.total_bytes.saturating_sub(partition.free_bytes), partition.total_bytes);
    html! {
        tr {
            td { span.faint { (pool) "/" } (partition.name) }
            td.stretch {
                @if partition.is_available {
                    span.meter { (room_bar(used)) span.n { (format!("{used:.0} %")) } }
                } @else {
                    (tag("unavailable", Tone::Bad))
                }
                @if let Some(trouble) = partition.trouble {
                    " " (tag(trouble.words(), Tone::Bad))
                }
                @if let Some(percent) = partition.verified_percent {
                    " " (tag(&format!("verifying {percent} %"), Tone::Busy))
                }
                @if partition.collecting_bytes > 0 {
                    " " (tag(&format!("freeing {}", human_bytes(partition.collecting_bytes)), Tone::Busy))
                }
            }
            td.n {
                (human_bytes(partition.free_bytes))
                span.faint { " of " (human_bytes(partition.total_bytes)) }
            }
            td.n { (count(partition.transfers.into())) }
            td.n title=(human_bytes(partition.replica_bytes)) { (count(partition.replicas)) }
            td.n { (count(partition.pinned)) }
        }
    }
}
