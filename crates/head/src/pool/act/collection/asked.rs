//! Collection on request: reports the files that it evicts, or would evict.

use super::{Key, Plan, Purpose, end_if_over, gather, snapshot, turn};
use crate::{
    Apply, Context, Core, Topic,
    pool::decide::{
        collection::{Shortage, shortage_for, shortages_now},
        view::{PartitionState, Snapshot},
    },
};
use base::{Failure, Millis, Result, Timestamp, units::human_bytes};
use wire::control::{CollectPool, Collected, Collection, GetCollectable};

/// Pause between two pages of candidates, for a person who waits.
const GATHER_AGAIN: Millis = Millis(10);

impl Apply for CollectPool {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Collected> {
        let Self { pool, free_bytes, age_min, from } = self;
        asked(core, context, CollectionRequest { pool, free_bytes, age_min, from, purpose: Purpose::Person })
    }
}

impl Apply for GetCollectable {
    const TOPIC: Topic = Topic::Removals;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Collected> {
        let Self { pool, free_bytes, age_min, from } = self;
        asked(core, context, CollectionRequest { pool, free_bytes, age_min, from, purpose: Purpose::Look })
    }
}

/// The request of an operator.
struct CollectionRequest {
    pool: String,
    free_bytes: Option<u64>,
    age_min: Option<Millis>,
    from: Option<String>,
    purpose: Purpose,
}

fn asked(core: &mut Core, context: &Context, asked: CollectionRequest) -> Result<Collected> {
    context.who.require_operator("collect pools")?;
    if core.unsettled()?.is_some() {
        return Err(Failure::busy("nothing is deleted until the restored catalogue is accepted")
            .hint("`bp admin settle` shows what to check"));
    }
    let now = context.now;
    match &asked.from {
        None => begin_for(core, &asked, now)?,
        Some(from) if !core.live.maintenance.plans.contains_key(&(from.clone(), asked.purpose)) => {
            return Err(Failure::busy(format!("the collection of pool {} was interrupted", asked.pool))
                .hint("begin again"));
        }
        Some(_) => {}
    }
    let Some(key) = next_of(core, &asked) else { return Ok(Collected::default()) };
    gather(core, &key, now)?;
    let partition = Some(key.0.clone());
    let Some(plan) = core.live.maintenance.plans.get_mut(&key) else { return Ok(Collected::default()) };
    plan.touched = now;
    let wanted_bytes = plan.wanted;
    if plan.gather.next().is_some() {
        let (missing_bytes, next) = (plan.missing, partition.clone());
        let files = Vec::new();
        // The call itself goes on with the search; in between others have their turn.
        core.look_again_in(GATHER_AGAIN);
        return Ok(Collected { partition, wanted_bytes, missing_bytes, files, is_looking: true, next });
    }
    let files = turn(core, &key, now)?;
    let missing_bytes = core.live.maintenance.plans.get(&key).map_or(0, Plan::missing);
    let next = if end_if_over(core, &key, now)? {
        next_of(core, &asked).map(|key| key.0)
    } else {
        partition.clone()
    };
    Ok(Collected { partition, wanted_bytes, missing_bytes, files, is_looking: false, next })
}

/// The plan with which to go on.
fn next_of(core: &Core, asked: &CollectionRequest) -> Option<Key> {
    let plans = core.live.maintenance.plans.iter();
    let mut mine = plans.filter(|((partition, purpose), plan)| {
        *purpose == asked.purpose
            && plan.pool == asked.pool
            && asked.from.as_ref().is_none_or(|from| partition >= from)
    });
    mine.next().map(|(key, _)| key.clone())
}

/// Plans for what a person wants.
fn begin_for(core: &mut Core, asked: &CollectionRequest, now: Timestamp) -> Result<()> {
    let CollectionRequest { pool, free_bytes, age_min, purpose, .. } = asked;
    let snapshot = snapshot(core, pool, now)?;
    if snapshot.partitions().is_empty() {
        return Err(
            Failure::not_found(format!("pool {pool} has no partition")).hint("`bp pool list` shows pools")
        );
    }
    let wanted = match (free_bytes, snapshot.pool.collection) {
        (Some(bytes), _) => wanted_for(&snapshot, *bytes)?,
        (None, Some(_)) => shortages_now(&snapshot),
        (None, None) => {
            return Err(Failure::invalid(format!("pool {pool} has no high water"))
                .hint(format!("give --free 10GB, or set it with `bp pool set {pool} --high-water 10%`")));
        }
    };
    let policy = snapshot.pool.collection.unwrap_or_default();
    let policy = Collection { age_min: age_min.unwrap_or(policy.age_min), ..policy };
    let plans = &mut core.live.maintenance.plans;
    plans.retain(|key, plan| key.1 != *purpose || plan.pool != *pool);
    for Shortage { partition, bytes } in wanted {
        plans.insert((partition.to_string(), *purpose), Plan::new(&snapshot, policy, bytes));
    }
    Ok(())
}

fn wanted_for(snapshot: &Snapshot, bytes: u64) -> Result<Vec<Shortage>> {
    let fits = snapshot.partitions().iter().any(|at| {
        at.state == PartitionState::InUse
            && snapshot.answers(at)
            && at.capacity_bytes > bytes.saturating_add(snapshot.pool.reserved_bytes).saturating_add(1)
    });
    if !fits {
        let (pool, bytes) = (&snapshot.pool.name, human_bytes(bytes));
        return Err(Failure::no_space(format!(
            "no partition of pool {pool} that answers can ever hold {bytes}"
        ))
        .hint("`bp pool list` shows their sizes"));
    }
    Ok(shortage_for(snapshot, bytes).into_iter().collect())
}
