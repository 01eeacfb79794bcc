//! `bp alter`: changes jobs that wait, and gives them another queue.

use super::{
    job_args::{self, JobArgs},
    submit::{
        self,
        when::{Dependency, Moment, Priority},
    },
};
use crate::context::{Context, Run};
use base::{
    Failure, Timestamp,
    units::{Size, Span},
};
use std::time::SystemTime;
use wire::control::{AlterJobs, JobChange, MoveJobs};

/// Change jobs that wait; of running ones --wall and --deadline
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    jobs: JobArgs,
    /// Name
    #[arg(long)]
    name: Option<String>,
    /// Move them to this queue
    #[arg(long)]
    queue: Option<String>,
    /// Priority in the queue, -1024 to 1023; only operators raise it
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<Priority>,
    /// CPU slots
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Memory, with a unit; 0: no limit
    #[arg(long, value_name = "SIZE", value_parser = submit::memory)]
    memory: Option<Size>,
    /// Longest run time
    #[arg(long, value_name = "TIME", value_parser = submit::wall)]
    wall: Option<Span>,
    /// Do not start before this time: 2h from now, or 2026-11-26T18:00 (UTC); `now`
    #[arg(long, value_name = "WHEN")]
    begin: Option<Moment>,
    /// Fail if not over by this time
    #[arg(long, value_name = "WHEN")]
    deadline: Option<Moment>,
    /// Wait for these jobs instead: ok:12, any:12_3, …; `none`
    #[arg(long, value_name = "KIND:JOB")]
    depend: Vec<Dependency>,
    /// Elements of the array that run at a time; 0: no limit
    #[arg(long, value_name = "N")]
    running_max: Option<u32>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let now = Timestamp::from_system(SystemTime::now());
    let change = JobChange {
        name: args.name,
        priority: args.priority.map(|priority| priority.0),
        cpus: args.cpus,
        memory_bytes: args.memory.map(|size| size.0),
        wall: args.wall.map(|span| span.0),
        begin: args.begin.map(|moment| moment.after(now)),
        deadline: args.deadline.map(|moment| moment.after(now)),
        dependencies: (!args.depend.is_empty())
            .then(|| args.depend.into_iter().filter_map(|one| one.0).collect()),
        running_max: args.running_max,
    };
    let jobs = args.jobs.jobs;
    if change == JobChange::default() && args.queue.is_none() {
        return Err(Failure::invalid("nothing to change is named")
            .hint("`bp alter --help` lists what can change")
            .into());
    }
    let mut code = 0;
    if change != JobChange::default() {
        code = job_args::make(context, &AlterJobs { jobs: jobs.clone(), change }, "are altered")?;
    }
    if let Some(queue) = args.queue.filter(|_| code == 0) {
        code = job_args::make(context, &MoveJobs { jobs, queue }, "are moved")?;
    }
    Ok(code)
}
