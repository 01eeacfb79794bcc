//! Queues: what operators set, and which queue a job comes into.

use super::routes::route_kept;
use crate::{Apply, Context, Core, Topic, store::QueueRow};
use base::{Failure, Result, check_name};
use std::collections::BTreeSet;
use wire::control::{
    AddQueue, DESTINATIONS_MAX, Done, GetQueues, PRIORITY, QUEUES_MAX, QueueInfo, QueueKind, QueueSettings,
    Queues, RemoveQueue, SetQueue, SetRunLimit, SwitchQueue, TimeWindow, WINDOWS_MAX,
};

const DAY_MINUTES: u16 = 24 * 60;

impl Apply for GetQueues {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, _: &Context) -> Result<Queues> {
        let table = core.store.queues()?;
        let active = core.store.active()?;
        let info = |row: &QueueRow| {
            let counts = active.counts().get(&row.name).copied().unwrap_or_default();
            QueueInfo {
                name: row.name.clone(),
                settings: row.settings.clone(),
                is_enabled: row.is_enabled,
                is_started: row.is_started,
                is_default: row.is_default,
                held: counts.held,
                queued: counts.queued,
                running: counts.running + counts.archiving,
            }
        };
        Ok(Queues { queues: table.queues.values().map(info).collect(), run_limit: table.run_limit })
    }
}

/// A queue by its name; the refusal names those that there are.
pub(super) fn known_queue(core: &Core, name: &str) -> Result<QueueRow> {
    let table = core.store.queues()?;
    table.queues.get(name).cloned().ok_or_else(|| {
        let names: Vec<_> = table.queues.keys().map(String::as_str).take(20).collect();
        Failure::not_found(format!("there is no queue {name:?}"))
            .hint(format!("the queues are {}: `bp queue list`", names.join(", ")))
    })
}

impl Apply for AddQueue {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("add queues")?;
        check_name("queue", &self.queue)?;
        let table = core.store.queues()?;
        if table.queues.contains_key(&self.queue) {
            return Err(Failure::exists(format!("queue {} exists", self.queue))
                .hint(format!("`bp queue set {}` changes it", self.queue)));
        }
        if table.queues.len() >= QUEUES_MAX {
            return Err(Failure::busy(format!(
                "the facility has {QUEUES_MAX} queues, and no more are taken"
            )));
        }
        check(core, &self.queue, &self.settings)?;
        core.store.put_queue(&QueueRow {
            name: self.queue,
            settings: self.settings,
            is_enabled: true,
            is_started: true,
            is_default: false,
        })?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

impl Apply for SetQueue {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set queues")?;
        let mut row = known_queue(core, &self.queue)?;
        check(core, &self.queue, &self.settings)?;
        if row.settings.kind != self.settings.kind && has_jobs(core, &row.name)? {
            return Err(Failure::invalid(format!(
                "queue {} has jobs and stays a {} queue",
                row.name,
                row.settings.kind.as_str()
            ))
            .hint("move its jobs to another queue first: `bp move JOB QUEUE`"));
        }
        row.settings = self.settings;
        core.store.put_queue(&row)?;
        route_kept(core, context.now)?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

fn has_jobs(core: &Core, queue: &str) -> Result<bool> {
    Ok(core.store.active()?.counts().contains_key(queue))
}

impl Apply for RemoveQueue {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("remove queues")?;
        let row = known_queue(core, &self.queue)?;
        let refused =
            |why: &str, hint: &str| Err(Failure::invalid(format!("queue {} {why}", row.name)).hint(hint));
        if row.is_default {
            return refused(
                "is the default queue",
                "make another one the default first: `bp queue set QUEUE --default`",
            );
        }
        if has_jobs(core, &row.name)? {
            return refused(
                "has jobs",
                "disable it and wait until they are over, or move them: `bp move JOB QUEUE`",
            );
        }
        let table = core.store.queues()?;
        if let Some(pipe) =
            table.queues.values().find(|other| other.settings.destinations.contains(&row.name))
        {
            let why = format!("is a destination of pipe queue {}", pipe.name);
            return refused(&why, "take it from that queue first");
        }
        core.store.delete_queue(&row.name)?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

impl Apply for SwitchQueue {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("switch queues")?;
        let mut row = known_queue(core, &self.queue)?;
        row.is_enabled = self.enabled.unwrap_or(row.is_enabled);
        row.is_started = self.started.unwrap_or(row.is_started);
        if self.default && !row.is_default {
            let table = core.store.queues()?;
            for other in table.queues.values().filter(|other| other.is_default) {
                core.store.put_queue(&QueueRow { is_default: false, ..other.clone() })?;
            }
            row.is_default = true;
        }
        core.store.put_queue(&row)?;
        route_kept(core, context.now)?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

impl Apply for SetRunLimit {
    const TOPIC: Topic = Topic::Jobs;

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        context.who.require_operator("set the run limit")?;
        core.store.set_run_limit(self.run_limit)?;
        core.touch(Topic::Jobs);
        Ok(Done {})
    }
}

/// Refuses settings that contradict themselves, or that name queues that cannot take the jobs.
fn check(core: &Core, name: &str, settings: &QueueSettings) -> Result<()> {
    check_numbers(name, settings)?;
    settings.windows.iter().try_for_each(|window| check_window(name, window))?;
    let is_pipe = settings.kind == QueueKind::Pipe;
    if is_pipe == settings.destinations.is_empty() {
        let what =
            if is_pipe { "is a pipe queue and has no destination" } else { "runs jobs and has destinations" };
        return Err(
            Failure::invalid(format!("queue {name} {what}")).hint("only pipe queues have destinations")
        );
    }
    let mut seen = BTreeSet::new();
    for destination in &settings.destinations {
        let other = known_queue(core, destination)?;
        // One step: a job cannot go round in circles.
        if other.settings.kind == QueueKind::Pipe || destination == name {
            return Err(Failure::invalid(format!(
                "destination {destination} of queue {name} is a pipe queue"
            ))
            .hint("a pipe queue routes to queues that run jobs"));
        }
        if !seen.insert(destination) {
            return Err(Failure::invalid(format!(
                "destination {destination} of queue {name} is named twice"
            )));
        }
    }
    Ok(())
}

fn check_numbers(name: &str, settings: &QueueSettings) -> Result<()> {
    if !PRIORITY.contains(&settings.priority) {
        let what = format!("priority {} of queue {name} is not between -1024 and 1023", settings.priority);
        return Err(Failure::invalid(what));
    }
    let lists = [
        (settings.destinations.len(), DESTINATIONS_MAX, "destinations"),
        (settings.windows.len(), WINDOWS_MAX, "time windows"),
        (settings.workers.len(), DESTINATIONS_MAX, "workers"),
    ];
    if let Some((len, most, what)) = lists.into_iter().find(|(len, most, _)| len > most) {
        return Err(Failure::invalid(format!("queue {name} has {len} {what}; it may have {most}")));
    }
    let (given, most) = (settings.defaults, settings.ceilings);
    let too_much = given.cpus.zip(most.cpus).is_some_and(|(given, most)| given > most)
        || given.memory_bytes.zip(most.memory_bytes).is_some_and(|(given, most)| given > most)
        || given.wall.zip(most.wall).is_some_and(|(given, most)| given > most);
    if too_much {
        return Err(Failure::invalid(format!("a default of queue {name} is above its ceiling")));
    }
    let is_zero = |resources: wire::control::QueueResources| {
        resources.cpus == Some(0) || resources.wall.is_some_and(|wall| wall.0 <= 0)
    };
    if is_zero(given) || is_zero(most) {
        return Err(Failure::invalid(format!("queue {name} gives jobs no CPU slot or no time")));
    }
    Ok(())
}

fn check_window(name: &str, window: &TimeWindow) -> Result<()> {
    let are_days = window.days.iter().all(|day| (1..=7).contains(day)) && window.days.len() <= 7;
    if are_days && window.opens < DAY_MINUTES && window.closes <= DAY_MINUTES && window.opens != window.closes
    {
        return Ok(());
    }
    Err(Failure::invalid(format!("a time window of queue {name} has no such days or times"))
        .hint("days are 1 (Monday) to 7, times are minutes after midnight"))
}
