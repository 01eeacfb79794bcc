//! Which queue a job comes into, and what it gets there: defaults, ceilings, and the destinations of pipe queues.

use super::queues::known_queue;
use crate::{
    Core, Topic,
    store::{QueueRow, WorkerRow},
};
use base::{
    Failure, Millis, Result, Timestamp,
    units::{counted, human_bytes, human_span},
};
use wire::control::{JobFilter, JobSpec, JobState, QueueKind, QueueSettings, Resources};

/// Longest run of a job for which nobody says another.
const WALL: Millis = Millis::from_seconds(24 * 3600);
/// Jobs that are routed at once when a queue was switched or a job was moved; the others follow with the next such call.
const ROUTED_MAX: usize = 10_000;

/// Chooses the queue of a new job, and gives the job what it does not say. A pipe queue that no destination takes the job from now
/// keeps it.
pub(super) fn route(core: &Core, spec: &mut JobSpec) -> Result<String> {
    let queue = match &spec.queue {
        Some(name) => known_queue(core, name)?,
        None => default_queue(core)?,
    };
    require_enabled(&queue)?;
    let workers = core.store.workers()?;
    if queue.settings.kind == QueueKind::Batch {
        give_defaults(&mut spec.resources, &queue.settings);
        check_ceilings(&spec.resources, &queue)?;
        check_workers(core, &spec.resources, &queue, &workers)?;
        return Ok(queue.name);
    }
    let fitting = fitting(core, &spec.resources, &queue, &workers)?;
    let target = if queue.is_started { least_loaded(core, &fitting)? } else { None };
    let target = target.unwrap_or(&queue);
    give_defaults(&mut spec.resources, &target.settings);
    Ok(target.name.clone())
}

/// The queue of a move: as at the submission.
pub(super) fn accepts(core: &Core, queue: &QueueRow, wish: &Resources) -> Result<()> {
    require_enabled(queue)?;
    let workers = core.store.workers()?;
    if queue.settings.kind == QueueKind::Pipe {
        return fitting(core, wish, queue, &workers).map(drop);
    }
    check_ceilings(wish, queue)?;
    check_workers(core, wish, queue, &workers)
}

fn require_enabled(queue: &QueueRow) -> Result<()> {
    if queue.is_enabled {
        return Ok(());
    }
    Err(Failure::unavailable(format!("queue {} is disabled and accepts no jobs", queue.name)).hint(format!(
        "name another one (`bp queue list`), or ask an operator for `bp queue enable {}`",
        queue.name
    )))
}

fn default_queue(core: &Core) -> Result<QueueRow> {
    let table = core.store.queues()?;
    table.queues.values().find(|row| row.is_default).cloned().ok_or_else(|| {
        Failure::not_found("the facility has no default queue").hint("name one: `bp submit --queue QUEUE`")
    })
}

/// Destinations that could take the job if they were enabled; the refusal of the first if there is none.
fn fitting(core: &Core, wish: &Resources, pipe: &QueueRow, workers: &[WorkerRow]) -> Result<Vec<QueueRow>> {
    let (mut fitting, mut refused) = (Vec::new(), None);
    for name in &pipe.settings.destinations {
        let queue = known_queue(core, name)?;
        let mut wish = *wish;
        give_defaults(&mut wish, &queue.settings);
        match check_ceilings(&wish, &queue).and_then(|()| check_workers(core, &wish, &queue, workers)) {
            Ok(()) => fitting.push(queue),
            Err(failure) => _ = refused.get_or_insert(failure),
        }
    }
    match refused {
        Some(failure) if fitting.is_empty() => Err(failure.during(format!("pipe queue {}", pipe.name))),
        _ => Ok(fitting),
    }
}

/// The enabled queue with the fewest jobs that wait or run; among equals the one that is named first.
fn least_loaded<'a>(core: &Core, queues: &'a [QueueRow]) -> Result<Option<&'a QueueRow>> {
    let active = core.store.active()?;
    let load = |queue: &&QueueRow| {
        active.counts().get(&queue.name).map_or(0, |counts| counts.queued + counts.running)
    };
    Ok(queues.iter().filter(|queue| queue.is_enabled).min_by_key(load))
}

/// Gives a job what it does not say: of the queue, else one slot for a day.
fn give_defaults(wish: &mut Resources, queue: &QueueSettings) {
    let given = queue.defaults;
    if wish.cpus == 0 {
        wish.cpus = given.cpus.unwrap_or(1);
    }
    if wish.memory_bytes == 0 {
        wish.memory_bytes = given.memory_bytes.unwrap_or(0);
    }
    if wish.wall.0 == 0 {
        wish.wall = given.wall.unwrap_or_else(|| queue.ceilings.wall.unwrap_or(WALL).min(WALL));
    }
}

/// Refuses what a queue does not give.
fn check_ceilings(wish: &Resources, queue: &QueueRow) -> Result<()> {
    let most = queue.settings.ceilings;
    let over = |what: String, most: String| {
        Err(Failure::invalid(format!("queue {} gives {most} at most; the job asks for {what}", queue.name))
            .hint("`bp queue list` shows what others give"))
    };
    if let Some(cpus) = most.cpus.filter(|cpus| wish.cpus > *cpus) {
        return over(slots(wish.cpus), slots(cpus));
    }
    // Without a limit it may use more than the queue gives.
    if let Some(bytes) =
        most.memory_bytes.filter(|bytes| wish.memory_bytes > *bytes || wish.memory_bytes == 0)
    {
        let asked = if wish.memory_bytes == 0 {
            "memory without a limit".into()
        } else {
            human_bytes(wish.memory_bytes)
        };
        return over(asked, format!("{} of memory", human_bytes(bytes)));
    }
    if let Some(wall) = most.wall.filter(|wall| wish.wall > *wall) {
        return over(human_span(wish.wall), human_span(wall));
    }
    Ok(())
}

fn slots(cpus: u32) -> String {
    counted(cpus.into(), "CPU slot", "CPU slots")
}

/// Refuses what no worker has, and names the one that comes nearest. As long as no worker has registered nobody knows.
fn check_workers(core: &Core, wish: &Resources, queue: &QueueRow, workers: &[WorkerRow]) -> Result<()> {
    let mut serving = Vec::new();
    for worker in workers {
        if serves(queue, &worker.name, &labels_of(core, worker)?) {
            serving.push(worker);
        }
    }
    let workers = serving;
    let fits = |worker: &&WorkerRow| wish.cpus <= worker.cpus && wish.memory_bytes <= worker.memory;
    if workers.is_empty() || workers.iter().any(fits) {
        return Ok(());
    }
    // The part of what is asked that it has.
    let part = |have: u64, asked: u64| if asked == 0 { 1.0 } else { (have as f64 / asked as f64).min(1.0) };
    let nearness = |worker: &&&WorkerRow| {
        part(worker.cpus.into(), wish.cpus.into()) * part(worker.memory, wish.memory_bytes)
    };
    let nearest = workers.iter().max_by(|one, other| nearness(one).total_cmp(&nearness(other)));
    let refused = Failure::invalid(format!(
        "no worker has {} and {} of memory",
        slots(wish.cpus),
        human_bytes(wish.memory_bytes)
    ));
    Err(match nearest {
        Some(worker) => refused.hint(format!(
            "the nearest is {}: it has {} and {}",
            worker.name,
            slots(worker.cpus),
            human_bytes(worker.memory)
        )),
        None => refused,
    })
}

/// Labels of a worker: its own, its architecture, and those of its host, each as `name` and as `name=value`.
pub(super) fn labels_of(core: &Core, worker: &WorkerRow) -> Result<Vec<String>> {
    let labels = core.store.host_labels()?;
    let of_host = labels.get(&worker.host).into_iter().flatten();
    let of_host = of_host.flat_map(|(name, value)| [name.clone(), format!("{name}={value}")]);
    Ok(of_host.chain(worker.labels.iter().cloned()).chain([worker.architecture.clone()]).collect())
}

/// Whether a worker runs jobs of a queue.
pub(super) fn serves(queue: &QueueRow, worker: &str, labels: &[String]) -> bool {
    let names = &queue.settings.workers;
    names.is_empty() || names.iter().any(|name| name == worker || labels.contains(name))
}

/// A queue was switched or changed: jobs that pipe queues kept may go on.
pub(super) fn route_kept(core: &mut Core, now: Timestamp) -> Result<()> {
    let table = core.store.queues()?;
    for pipe in table.queues.values().filter(|row| row.settings.kind == QueueKind::Pipe && row.is_started) {
        if !core.store.active()?.counts().contains_key(&pipe.name) {
            continue;
        }
        let filter = JobFilter {
            queues: vec![pipe.name.clone()],
            states: vec![JobState::Held, JobState::Queued],
            ..JobFilter::default()
        };
        let workers = core.store.workers()?;
        for mut job in core.store.list_jobs(&filter, true, ROUTED_MAX)?.into_iter().rev() {
            let Ok(fitting) = fitting(core, &job.spec.resources, pipe, &workers) else { continue };
            if let Some(queue) = least_loaded(core, &fitting)? {
                job.queue = queue.name.clone();
                super::save(core, &job, now)?;
                core.touch(Topic::Jobs);
            }
        }
    }
    Ok(())
}
