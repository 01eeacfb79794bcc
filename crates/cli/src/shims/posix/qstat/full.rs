//! `qstat -f`: every attribute of jobs, queues and the server.

use super::{letter, server_name};
use crate::shims::{
    jobs as codes,
    posix::{id, resources},
    site::Site,
};
use wire::control::{JobInfo, QueueInfo, QueueKind};

/// Longest line; what is longer goes on in the next, behind a tab.
const LINE_MAX: usize = 78;

/// All attributes of jobs; each in one line if so asked.
pub(super) fn jobs(jobs: &[JobInfo], site: &Site, is_one_line: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for job in jobs {
        lines.push(format!("Job Id: {}", id::shown(job)));
        for (key, value) in attributes(job, site) {
            lines.extend(attribute(key, &value, is_one_line));
        }
        lines.push(String::new());
    }
    lines
}

fn attribute(key: &str, value: &str, is_one_line: bool) -> Vec<String> {
    let whole = format!("    {key} = {value}");
    if is_one_line || whole.chars().count() <= LINE_MAX {
        return vec![whole];
    }
    let letters: Vec<char> = whole.chars().collect();
    let (first, rest) = letters.split_at(LINE_MAX);
    let mut lines = vec![first.iter().collect::<String>()];
    lines.extend(rest.chunks(LINE_MAX - 8).map(|part| format!("\t{}", part.iter().collect::<String>())));
    lines
}

fn attributes(job: &JobInfo, site: &Site) -> Vec<(&'static str, String)> {
    let spec = &job.spec;
    let time = |time| site.calendar.heading(time);
    let mut found = vec![
        ("Job_Name", spec.name.clone()),
        (
            "Job_Owner",
            format!(
                "{}@{}",
                job.owner,
                spec.environment.get("PBS_O_HOST").map_or("localhost", String::as_str)
            ),
        ),
    ];
    if let Some(usage) = &job.usage {
        found.push(("resources_used.cput", resources::clock(usage.cpu)));
        found.push(("resources_used.mem", format!("{}kb", usage.memory_bytes_max / 1024)));
        found.push(("resources_used.ncpus", spec.resources.cpus.to_string()));
        found.push(("resources_used.walltime", resources::clock(usage.wall)));
    }
    found.extend([
        ("job_state", letter(job).to_string()),
        ("queue", job.queue.clone()),
        ("server", server_name().to_owned()),
        ("ctime", time(job.submitted)),
    ]);
    let optional = [
        ("Account_Name", spec.account.clone()),
        ("Error_Path", spec.stderr.clone().map(|path| format!(":{path}"))),
        ("exec_host", job.worker.as_ref().map(|worker| format!("{worker}/0"))),
        ("Execution_Time", spec.begin.map(time)),
        ("depend", (!spec.dependencies.is_empty()).then(|| depend(job))),
        ("Output_Path", spec.stdout.clone().map(|path| format!(":{path}"))),
        ("stime", job.started.map(time)),
        ("comment", job.reason.clone()),
        ("array_index", job.array.map(|element| element.index.to_string())),
    ];
    found.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
    found.extend(of_request(job, site));
    found
}

fn of_request(job: &JobInfo, site: &Site) -> Vec<(&'static str, String)> {
    let spec = &job.spec;
    let holds: String = job.holds.iter().map(|hold| &hold.as_str()[..1]).collect();
    let mut found = vec![
        ("Hold_Types", if holds.is_empty() { "n".to_owned() } else { holds }),
        ("Join_Path", if spec.stderr.is_none() { "oe" } else { "n" }.to_owned()),
        ("Keep_Files", "n".to_owned()),
        ("Mail_Points", "n".to_owned()),
        ("Priority", job.priority.to_string()),
        ("qtime", site.calendar.heading(job.submitted)),
        ("Rerunable", if spec.rerunnable { "True" } else { "False" }.to_owned()),
        ("Resource_List.ncpus", spec.resources.cpus.to_string()),
        ("Resource_List.walltime", resources::clock(spec.resources.wall)),
        ("run_count", job.attempt.to_string()),
    ];
    if spec.resources.memory_bytes > 0 {
        found.push(("Resource_List.mem", resources::size(spec.resources.memory_bytes)));
    }
    let variables = spec.environment.iter().filter(|(name, _)| name.starts_with("PBS_O_"));
    let variables: Vec<String> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    if !variables.is_empty() {
        found.push(("Variable_List", variables.join(",")));
    }
    if let Some(ended) = job.ended {
        found.push(("mtime", site.calendar.heading(ended)));
        found.push(("Exit_status", codes::code(job).to_string()));
    }
    found
}

fn depend(job: &JobInfo) -> String {
    let one = |dependency: &wire::control::JobDependency| match &dependency.job {
        Some(other) => format!("{}:{other}.{}", dependency.kind.as_str(), server_name()),
        None => dependency.kind.as_str().to_owned(),
    };
    job.spec.dependencies.iter().map(one).collect::<Vec<_>>().join(",")
}

/// All attributes of queues.
pub(super) fn queues(queues: &[QueueInfo]) -> Vec<String> {
    let mut lines = Vec::new();
    let word = |is: bool| if is { "True" } else { "False" };
    for queue in queues {
        let settings = &queue.settings;
        let kind = match settings.kind {
            QueueKind::Batch => "Execution",
            QueueKind::Pipe => "Route",
        };
        lines.extend([
            format!("Queue: {}", queue.name),
            format!("    queue_type = {kind}"),
            format!("    Priority = {}", settings.priority),
            format!("    total_jobs = {}", queue.held + queue.queued + queue.running),
            format!(
                "    state_count = Transit:0 Queued:{} Held:{} Waiting:0 Running:{} Exiting:0 ",
                queue.queued, queue.held, queue.running
            ),
        ]);
        let optional = [
            ("max_running", settings.run_limit.map(|limit| limit.to_string())),
            ("max_user_run", settings.user_run_limit.map(|limit| limit.to_string())),
            ("resources_max.ncpus", settings.ceilings.cpus.map(|cpus| cpus.to_string())),
            ("resources_max.mem", settings.ceilings.memory_bytes.map(resources::size)),
            ("resources_max.walltime", settings.ceilings.wall.map(resources::clock)),
            ("resources_default.walltime", settings.defaults.wall.map(resources::clock)),
        ];
        lines.extend(optional.into_iter().filter_map(|(key, value)| Some(format!("    {key} = {}", value?))));
        if !settings.destinations.is_empty() {
            lines.push(format!("    route_destinations = {}", settings.destinations.join(",")));
        }
        lines.push(format!("    enabled = {}", word(queue.is_enabled)));
        lines.push(format!("    started = {}", word(queue.is_started)));
        lines.push(String::new());
    }
    lines
}

/// All attributes of the server.
pub(super) fn server(queues: &[QueueInfo]) -> Vec<String> {
    let sum = |of: fn(&QueueInfo) -> u64| queues.iter().map(of).sum::<u64>();
    let default = queues.iter().find(|queue| queue.is_default).map_or("", |queue| queue.name.as_str());
    vec![
        format!("Server: {}", server_name()),
        "    server_state = Active".to_owned(),
        format!("    server_host = {}", crate::shims::host_name()),
        format!("    total_jobs = {}", sum(|queue| queue.held + queue.queued + queue.running)),
        format!("    default_queue = {default}"),
        format!("    pbs_version = backplane {}", env!("CARGO_PKG_VERSION")),
        String::new(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;

    #[test]
    fn attributes_are_those_that_tools_read() {
        let site = sample::site();
        let text = jobs(&[sample::running(12)], &site, false).join("\n");
        for line in [
            "Job Id: 12.backplane",
            "    Job_Name = long",
            "    job_state = R",
            "    queue = batch",
            "    exec_host = n1/0",
            "    ctime = Thu Nov 26 05:17:52 2026",
            "    Resource_List.walltime = 00:10:00",
            "    Rerunable = False",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }

    #[test]
    fn long_values_go_on_in_the_next_line() {
        let lines = attribute("key", &"x".repeat(100), false);
        assert_eq!((lines.len(), lines[0].len(), lines[1].starts_with("\tx")), (2, LINE_MAX, true));
        assert_eq!(attribute("key", &"x".repeat(100), true).len(), 1);
    }
}
