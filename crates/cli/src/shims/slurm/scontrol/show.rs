//! `scontrol show job|node|partition|config|hostnames|hostlist`.

use super::{config, is_oneliner, selected};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::Parsed,
        slurm::{
            MIN_JOB_AGE_S, VERSION, hostlist, jobs,
            line::{self, Line},
            memory,
            nodes::{Nodes, partition_state, state as node_state},
            sbatch::dependencies_shown,
            site::Site,
            span, state,
            state::State,
        },
    },
};
use base::Millis;
use wire::control::{Jobs, QueueInfo, WorkerInfo};

const NULL: &str = "(null)";

/// Shows what the words name.
pub(super) fn run(shim: &mut Shim, words: &[&str], parsed: &Parsed) -> Run {
    let (what, name) = match words.first().and_then(|word| word.split_once('=')) {
        Some((what, name)) => (what, Some(name)),
        None => (words.first().copied().unwrap_or_default(), words.get(1).copied()),
    };
    let is_line = is_oneliner(parsed) || words.iter().any(|word| matches!(*word, "-o" | "--oneliner"));
    match what.to_ascii_lowercase().as_str() {
        "job" | "jobs" | "jobid" => show_jobs(shim, name, is_line),
        "node" | "nodes" | "nodename" => show_nodes(shim, name, is_line),
        "part" | "partition" | "partitions" | "partitionname" => show_partitions(shim, name, is_line),
        "config" => config::show(shim),
        "hostnames" | "hostname" => show_hosts(shim, name),
        "hostlist" | "hostlistsorted" => show_list(shim, name),
        other => {
            shim.plain_error(&format!("invalid entity:{other} for keyword:show "));
            Ok(1)
        }
    }
}

fn show_jobs(shim: &mut Shim, name: Option<&str>, is_line: bool) -> Run {
    let site = Site::here();
    let found = match name {
        Some(name) => {
            let Some(select) = selected(shim, &[name]) else { return Ok(1) };
            jobs::of(shim, &select)?
        }
        None => {
            let mut all = jobs::list(
                shim,
                Jobs { elements: true, brief: true, limit: Some(jobs::LIMIT), ..Jobs::default() },
            )?;
            let oldest = site.now + Millis::from_seconds(-MIN_JOB_AGE_S);
            all.retain(|job| job.ended.is_none_or(|ended| ended >= oldest));
            all
        }
    };
    if found.is_empty() {
        if name.is_none() {
            return shim.line("No jobs in the system").map(|()| 0);
        }
        shim.plain_error("slurm_load_jobs error: Invalid job id specified");
        return Ok(1);
    }
    for line in line::grouped(found) {
        print(shim, &job(&line, &site), is_line)?;
    }
    Ok(0)
}

/// Lines of one thing: each by itself and an empty one behind, or all in one.
fn print(shim: &mut Shim, lines: &[String], is_line: bool) -> Run<()> {
    if is_line {
        return shim.line(lines.join(" "));
    }
    for (at, line) in lines.iter().enumerate() {
        let indent = if at == 0 { "" } else { "   " };
        shim.line(format!("{indent}{line}"))?;
    }
    shim.line("")
}

fn or_null(text: &str) -> &str {
    if text.is_empty() { NULL } else { text }
}

/// The lines of a job.
pub(super) fn job(line: &Line, site: &Site) -> Vec<String> {
    let spec = &line.job.spec;
    let (uid, group, gid) = site.user(&line.job.owner);
    let (code, signal) = state::exit(&line.job);
    let array = match (line.job.array, line.task()) {
        (Some(element), Some(task)) => format!("ArrayJobId={} ArrayTaskId={task} ", element.array),
        _ => String::new(),
    };
    let waits = dependencies_shown(&spec.dependencies);
    let waits = if line.state() == State::Pending { waits } else { String::new() };
    let mut lines = vec![
        format!("JobId={} {array}JobName={}", line.raw_id(), spec.name),
        format!("UserId={}({uid}) GroupId={group}({gid}) MCS_label=N/A", line.job.owner),
        format!(
            "Priority={} Nice={} Account={} QOS=normal",
            line.job.priority,
            -line.job.priority,
            or_null(spec.account.as_deref().unwrap_or_default())
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            line.state().word(),
            state::reason(&line.job),
            or_null(&waits)
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={code}:{signal}",
            u8::from(spec.rerunnable),
            line.job.attempt.saturating_sub(1),
            u8::from(spec.script.is_some()),
        ),
        format!(
            "RunTime={} TimeLimit={} TimeMin=N/A",
            span::full(line.elapsed(site.now)),
            line.limit().map_or_else(|| "UNLIMITED".to_owned(), span::full)
        ),
    ];
    lines.extend(times(line, site));
    lines.extend(place(line));
    lines.extend(files(line));
    lines
}

fn times(line: &Line, site: &Site) -> [String; 4] {
    let submitted = site.time(line.job.submitted);
    [
        format!(
            "SubmitTime={submitted} EligibleTime={}",
            line.start().map_or(submitted.clone(), |_| {
                line.job.spec.begin.map_or(submitted.clone(), |begin| site.time(begin))
            })
        ),
        format!("AccrueTime={submitted}"),
        format!(
            "StartTime={} EndTime={} Deadline={}",
            site.time_or(line.start(), "Unknown"),
            site.time_or(line.end(), "Unknown"),
            site.time_or(line.job.spec.deadline, "N/A")
        ),
        "SuspendTime=None SecsPreSuspend=0".to_owned(),
    ]
}

fn place(line: &Line) -> Vec<String> {
    let resources = &line.job.spec.resources;
    let cpus = resources.cpus;
    let memory = memory::short(resources.memory_bytes);
    let with_memory = if resources.memory_bytes == 0 { String::new() } else { format!(",mem={memory}") };
    let node = line.node();
    let mut lines = vec![
        format!("Partition={} AllocNode:Sid=localhost:0", line.job.queue),
        "ReqNodeList=(null) ExcNodeList=(null)".to_owned(),
        format!("NodeList={node}"),
    ];
    if !node.is_empty() {
        lines.push(format!("BatchHost={node}"));
    }
    lines.extend([
        format!("NumNodes=1 NumCPUs={cpus} NumTasks=1 CPUs/Task={cpus} ReqB:S:C:T=0:0:*:*"),
        format!("TRES=cpu={cpus}{with_memory},node=1,billing={cpus}"),
        "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*".to_owned(),
        format!("MinCPUsNode={cpus} MinMemoryNode={memory} MinTmpDiskNode=0"),
        format!("Features={} DelayBoot=00:00:00", or_null(&line.job.spec.constraints.join("&"))),
        "OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)".to_owned(),
    ]);
    lines
}

fn files(line: &Line) -> Vec<String> {
    let spec = &line.job.spec;
    let mut lines = vec![
        format!("Command={}", or_null(&spec.command.join(" "))),
        format!("WorkDir={}", or_null(spec.directory.as_deref().unwrap_or_default())),
    ];
    if let Some(comment) = &spec.comment {
        lines.push(format!("Comment={comment} "));
    }
    let error = spec.stderr.as_deref().or(spec.stdout.as_deref());
    lines.extend([
        format!("StdErr={}", line.file(error)),
        "StdIn=/dev/null".to_owned(),
        format!("StdOut={}", line.file(spec.stdout.as_deref())),
        // The sentence of the facility: Slurm has only a word for it.
        format!("SystemComment={}", or_null(line.job.reason.as_deref().unwrap_or_default())),
    ]);
    lines
}

fn show_nodes(shim: &mut Shim, name: Option<&str>, is_line: bool) -> Run {
    let nodes = Nodes::ask(shim)?;
    let Some(names) = hostlist::expanded(name.unwrap_or_default()) else {
        shim.plain_error(&format!("Node {} not found", name.unwrap_or_default()));
        return Ok(1);
    };
    if let Some(unknown) = names.iter().find(|name| nodes.workers.iter().all(|worker| worker.name != **name))
    {
        shim.plain_error(&format!("Node {unknown} not found"));
        return Ok(1);
    }
    for worker in nodes.workers.iter().filter(|worker| names.is_empty() || names.contains(&worker.name)) {
        print(shim, &node(worker, &nodes), is_line)?;
    }
    Ok(0)
}

/// The lines of a node.
pub(super) fn node(worker: &WorkerInfo, nodes: &Nodes) -> Vec<String> {
    let (cpus, used) = (worker.cpus, worker.cpus_used);
    let memory = memory::mebibytes(worker.memory_bytes);
    let version = VERSION.rsplit(' ').next().unwrap_or_default();
    vec![
        format!("NodeName={} Arch={} CoresPerSocket=1 ", worker.name, std::env::consts::ARCH),
        format!("CPUAlloc={used} CPUEfctv={cpus} CPUTot={cpus} CPULoad=N/A"),
        "AvailableFeatures=(null)".to_owned(),
        "ActiveFeatures=(null)".to_owned(),
        "Gres=(null)".to_owned(),
        format!("NodeAddr={0} NodeHostName={0} Version={version}", worker.host),
        format!("RealMemory={memory} AllocMem=0 FreeMem=N/A Sockets={cpus} Boards=1"),
        format!(
            "State={} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
            node_state(worker).0.to_ascii_uppercase()
        ),
        format!("Partitions={} ", nodes.serving(worker).join(",")),
        format!("CfgTRES=cpu={cpus},mem={memory}M,billing={cpus}"),
        format!("AllocTRES=cpu={used}"),
    ]
}

fn show_partitions(shim: &mut Shim, name: Option<&str>, is_line: bool) -> Run {
    let nodes = Nodes::ask(shim)?;
    if let Some(name) = name.filter(|name| nodes.queues.iter().all(|queue| queue.name != **name)) {
        shim.plain_error(&format!("Partition {name} not found"));
        return Ok(1);
    }
    for queue in nodes.queues.iter().filter(|queue| name.is_none_or(|name| queue.name == name)) {
        print(shim, &partition(queue, &nodes), is_line)?;
    }
    Ok(0)
}

/// The lines of a partition.
pub(super) fn partition(queue: &QueueInfo, nodes: &Nodes) -> Vec<String> {
    let workers = nodes.of(queue);
    let names: Vec<String> = workers.iter().map(|worker| worker.name.clone()).collect();
    let cpus: u64 = workers.iter().map(|worker| u64::from(worker.cpus)).sum();
    let memory: u64 = workers.iter().map(|worker| memory::mebibytes(worker.memory_bytes)).sum();
    let ceiling = &queue.settings.ceilings;
    let limit = ceiling.wall.map_or_else(|| "UNLIMITED".to_owned(), span::full);
    let default = queue.settings.defaults.wall.map_or_else(|| "NONE".to_owned(), span::full);
    let largest = ceiling
        .memory_bytes
        .map_or_else(|| "UNLIMITED".to_owned(), |bytes| memory::mebibytes(bytes).to_string());
    let most = ceiling.cpus.map_or_else(|| "UNLIMITED".to_owned(), |cpus| cpus.to_string());
    vec![
        format!("PartitionName={}", queue.name),
        "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL".to_owned(),
        format!("AllocNodes=ALL Default={} QoS=N/A", if queue.is_default { "YES" } else { "NO" }),
        format!("DefaultTime={default} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO"),
        format!("MaxNodes=1 MaxTime={limit} MinNodes=0 LLN=YES MaxCPUsPerNode={most}"),
        format!("Nodes={}", or_null(&hostlist::compressed(&names))),
        format!(
            "PriorityJobFactor=1 PriorityTier={} RootOnly=NO ReqResv=NO OverSubscribe=NO",
            queue.settings.priority
        ),
        "OverTimeLimit=NONE PreemptMode=OFF".to_owned(),
        format!(
            "State={} TotalCPUs={cpus} TotalNodes={} SelectTypeParameters=NONE",
            partition_state(queue),
            workers.len()
        ),
        "JobDefaults=(null)".to_owned(),
        format!("DefMemPerNode=UNLIMITED MaxMemPerNode={largest}"),
        format!("TRES=cpu={cpus},mem={memory}M,node={},billing={cpus}", workers.len()),
    ]
}

fn show_hosts(shim: &mut Shim, name: Option<&str>) -> Run {
    let inherited = std::env::var("SLURM_JOB_NODELIST").unwrap_or_default();
    match hostlist::expanded(name.unwrap_or(&inherited)) {
        Some(hosts) => {
            hosts.into_iter().try_for_each(|host| shim.line(host))?;
            Ok(0)
        }
        None => shim.refuse(&format!("Invalid hostlist: {}", name.unwrap_or_default()), 1),
    }
}

fn show_list(shim: &mut Shim, name: Option<&str>) -> Run {
    let hosts: Vec<String> = name.unwrap_or_default().split(',').map(str::to_owned).collect();
    shim.line(hostlist::compressed(&hosts)).map(|()| 0)
}
