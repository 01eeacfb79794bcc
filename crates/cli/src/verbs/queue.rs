//! `bp queue`: manages the queues of jobs; without a verb it shows the tape queue.

mod settings;

use crate::{
    context::{Context, Run},
    output::Tone,
    table::{Cell, Column, Table},
    words::{counted, request_state, span},
};
use base::{Timestamp, units::human_bytes};
use clap::Subcommand;
use settings::Settings;
use wire::control::{
    AddQueue, Call, Done, GetQueues, GetStatus, QueueInfo, QueueKind, QueueResources, QueueSettings,
    RemoveQueue, RequestInfo, RequestState, SetQueue, SetRunLimit, SwitchQueue,
};

/// Show the tape queue; manage the queues of jobs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the queues of jobs, their limits and how many jobs they have
    List,
    /// Add a queue: enabled and started
    Add {
        /// Its name
        queue: String,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Change a queue; without a queue, the number of jobs that run in the facility at a time
    Set {
        /// Its name
        #[arg(required_unless_present = "run_limit_of_all")]
        queue: Option<String>,
        /// Jobs that run in the whole facility at a time; `none`: no limit
        #[arg(long = "facility-run-limit", id = "run_limit_of_all", value_name = "N", value_parser = settings::limit)]
        run_limit_of_all: Option<settings::Limit>,
        /// Jobs that name no queue come here
        #[arg(long, requires = "queue")]
        default: bool,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Remove a queue that has no jobs
    Remove {
        /// The queue
        queue: String,
    },
    /// Accept jobs
    Enable {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Refuse new jobs; those that were accepted run
    Disable {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Start jobs
    Start {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
    /// Start no more jobs; those that run go on
    Stop {
        /// The queues
        #[arg(required = true, value_name = "QUEUE")]
        queues: Vec<String>,
    },
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let Some(verb) = args.verb else { return tape(context) };
    let switch = |enabled, started| {
        move |queue: &str| SwitchQueue { queue: queue.to_owned(), enabled, started, default: false }
    };
    match verb {
        Verb::List => list(context),
        Verb::Add { queue, settings } => {
            let mut all = QueueSettings::default();
            settings.apply_to(&mut all);
            let news = format!("queue {queue} accepts and starts jobs");
            make(&AddQueue { queue, settings: all }, news, context)
        }
        Verb::Set { queue, run_limit_of_all, default, settings } => {
            set(queue, run_limit_of_all, default, &settings, context)
        }
        Verb::Remove { queue } => {
            let news = format!("queue {queue} is removed");
            make(&RemoveQueue { queue }, news, context)
        }
        Verb::Enable { queues } => switch_all(queues, switch(Some(true), None), "accepts jobs", context),
        Verb::Disable { queues } => {
            switch_all(queues, switch(Some(false), None), "refuses new jobs", context)
        }
        Verb::Start { queues } => switch_all(queues, switch(None, Some(true)), "starts jobs", context),
        Verb::Stop { queues } => {
            switch_all(queues, switch(None, Some(false)), "starts no more jobs", context)
        }
    }
}

fn make(call: &impl Call<Reply = Done>, news: String, context: &mut Context) -> Run {
    let done = context.call(call)?;
    if context.output.is_json() {
        context.output.json(&done)?;
    } else {
        context.output.news(news)?;
    }
    Ok(0)
}

fn switch_all(
    queues: Vec<String>,
    call: impl Fn(&str) -> SwitchQueue,
    what: &str,
    context: &mut Context,
) -> Run {
    context.each(queues, |context, queue| {
        make(&call(&queue), format!("queue {queue} {what}"), context).map(drop)
    })
}

fn set(
    queue: Option<String>,
    run_limit_of_all: Option<settings::Limit>,
    default: bool,
    settings: &Settings,
    context: &mut Context,
) -> Run {
    if let Some(limit) = run_limit_of_all {
        let news = limit.0.map_or_else(
            || "as many jobs run in the facility as there are slots for".to_owned(),
            |limit| format!("{} at a time in the facility", counted(limit.into(), "job", "jobs")),
        );
        make(&SetRunLimit { run_limit: limit.0 }, news, context)?;
    }
    let Some(queue) = queue else { return Ok(0) };
    let queues = context.call(&GetQueues {})?.queues;
    // One that does not exist is refused by the call that it is for.
    let known = queues.into_iter().find(|one| one.name == queue).map(|one| one.settings);
    let mut all = known.unwrap_or_default();
    settings.apply_to(&mut all);
    make(&SetQueue { queue: queue.clone(), settings: all }, format!("queue {queue} is set"), context)?;
    if default {
        let switch = SwitchQueue { queue: queue.clone(), default: true, ..SwitchQueue::default() };
        make(&switch, format!("queue {queue} is the default"), context)?;
    }
    Ok(0)
}

fn list(context: &mut Context) -> Run {
    let queues = context.call(&GetQueues {})?;
    if context.output.is_json() {
        context.output.json(&queues)?;
        return Ok(0);
    }
    context.output.table(&queues_table(&queues.queues))?;
    if let Some(limit) = queues.run_limit {
        let jobs = counted(limit.into(), "job", "jobs");
        context.output.line(format!("at most {jobs} at a time in the facility"))?;
    }
    Ok(0)
}

fn queues_table(queues: &[QueueInfo]) -> Table {
    let mut table = Table::new([
        Column::Left("queue"),
        Column::Left("kind"),
        Column::Left("accepts"),
        Column::Left("starts"),
        Column::Right("priority"),
        Column::Right("held"),
        Column::Right("queued"),
        Column::Right("running"),
        Column::Left("limit"),
        Column::Left("per user"),
        Column::Text("gives at most"),
        Column::Text("goes to"),
    ]);
    for queue in queues {
        let settings = &queue.settings;
        let name = if queue.is_default { format!("{} (default)", queue.name) } else { queue.name.clone() };
        let limit = |limit: Option<u32>| limit.map_or_else(String::new, |limit| limit.to_string());
        table.row([
            Cell::from(name),
            settings.kind.as_str().into(),
            switch_cell(queue.is_enabled),
            switch_cell(queue.is_started),
            settings.priority.to_string().into(),
            queue.held.to_string().into(),
            queue.queued.to_string().into(),
            queue.running.to_string().into(),
            limit(settings.run_limit).into(),
            limit(settings.user_run_limit).into(),
            resources(&settings.ceilings).into(),
            goes_to(settings).into(),
        ]);
    }
    table
}

fn switch_cell(is_on: bool) -> Cell {
    if is_on { Cell::from("yes") } else { Cell::toned("no", Tone::Wait) }
}

fn goes_to(settings: &QueueSettings) -> String {
    let to = if settings.kind == QueueKind::Pipe { &settings.destinations } else { &settings.workers };
    to.join(" ")
}

fn resources(most: &QueueResources) -> String {
    let cpus = most.cpus.map(|cpus| counted(cpus.into(), "slot", "slots"));
    let memory = most.memory_bytes.map(human_bytes);
    [cpus, memory, most.wall.map(span)].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Shows the tape queue.
fn tape(context: &mut Context) -> Run {
    let status = context.call(&GetStatus {})?;
    if context.output.is_json() {
        context.output.json(&status.requests)?;
        return Ok(0);
    }
    if status.requests.is_empty() {
        context.output.news("the tape queue is empty")?;
        return Ok(0);
    }
    context.output.table(&table(&status.requests, status.now))?;
    let left = status.requests_len.saturating_sub(status.requests.len() as u64);
    if left > 0 {
        context.output.toned(Tone::Faint, &format!("and {left} more"))?;
    }
    Ok(0)
}

/// Tape requests as a table.
pub(crate) fn table(requests: &[RequestInfo], now: Timestamp) -> Table {
    let mut table = Table::new([
        Column::Right("id"),
        Column::Left("kind"),
        Column::Left("state"),
        Column::Path("file"),
        Column::Right("size"),
        Column::Left("volume"),
        Column::Left("owner"),
        Column::Right("waits"),
        Column::Right("tries"),
        Column::Text("why"),
    ]);
    for request in requests {
        table.next_step(match request.state {
            RequestState::Failed => "`bp admin request retry ID` tries a failed request again",
            RequestState::Queued | RequestState::Active => "`bp why ID` says more of a request",
        });
        table.row([
            Cell::from(format!("r{}", request.id)),
            request.kind.as_str().into(),
            request_state(request),
            request.path.as_str().into(),
            human_bytes(request.size).into(),
            request.vid.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            request.owner.as_str().into(),
            span(now - request.created).into(),
            request.attempts.to_string().into(),
            request.reason.as_str().into(),
        ]);
    }
    table
}
