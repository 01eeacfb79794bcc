//! The rules of the head once more, with the catalogue in a database: `support::world` looks at the name of this file.

#![allow(clippy::duplicate_mod, reason = "each of these files brings the helpers along")]

#[path = "accounts.rs"]
mod accounts;
#[path = "adopt.rs"]
mod adopt;
#[path = "allocation.rs"]
mod allocation;
#[path = "attributes.rs"]
mod attributes;
#[path = "away.rs"]
mod away;
#[path = "balance.rs"]
mod balance;
#[path = "callers.rs"]
mod callers;
#[path = "coded/main.rs"]
mod coded;
#[path = "collection.rs"]
mod collection;
#[path = "drain.rs"]
mod drain;
#[path = "grants.rs"]
mod grants;
#[path = "hard_links.rs"]
mod hard_links;
#[path = "hosts.rs"]
mod hosts;
#[path = "job_costs.rs"]
mod job_costs;
#[path = "job_users.rs"]
mod job_users;
#[path = "jobs.rs"]
mod jobs;
#[path = "leases.rs"]
mod leases;
#[path = "mount_calls.rs"]
mod mount_calls;
#[path = "mounts.rs"]
mod mounts;
#[path = "namespace.rs"]
mod namespace;
#[path = "pools/main.rs"]
mod pools;
#[path = "quotas.rs"]
mod quotas;
#[path = "referrals.rs"]
mod referrals;
#[path = "replicas.rs"]
mod replicas;
#[path = "roles.rs"]
mod roles;
#[path = "scan.rs"]
mod scan;
#[path = "scrub.rs"]
mod scrub;
#[path = "sole.rs"]
mod sole;
#[path = "space.rs"]
mod space;
#[path = "survey.rs"]
mod survey;
#[path = "tape_queue/main.rs"]
mod tape_queue;
#[path = "trash.rs"]
mod trash;
#[path = "version.rs"]
mod version;
#[path = "volumes.rs"]
mod volumes;
#[path = "whole_arrays.rs"]
mod whole_arrays;
