//! What `squeue` can show of a job: letters of `--format`, names of `--Format`.
//!
//! The order is that of `--format=%all`.

use crate::shims::slurm::{
    CLUSTER, columns::Field, line::Line, memory, sbatch::dependencies_shown, site::Site, span, state,
    state::State,
};

type F = Field<Line, Site>;

const NULL: &str = "(null)";

fn or_null(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(NULL).to_owned()
}

fn memory_asked(line: &Line) -> String {
    memory::short(line.job.spec.resources.memory_bytes)
}

fn requeues(line: &Line) -> String {
    u8::from(line.job.spec.rerunnable).to_string()
}

fn cpus(line: &Line) -> String {
    line.job.spec.resources.cpus.to_string()
}

fn resources(line: &Line) -> String {
    let memory = line.job.spec.resources.memory_bytes;
    let memory = if memory == 0 { String::new() } else { format!(",mem={}", memory::short(memory)) };
    format!("cpu={}{memory},node=1,billing={0}", line.job.spec.resources.cpus)
}

fn host(line: &Line) -> String {
    if line.state() == State::Pending { "n/a".to_owned() } else { line.node().to_owned() }
}

fn dependencies(line: &Line) -> String {
    let waits = line.state() == State::Pending;
    or_null(Some(&dependencies_shown(&line.job.spec.dependencies)).filter(|_| waits).map(String::as_str))
}

/// Priority as a fraction of the largest.
fn fraction(line: &Line) -> String {
    format!("{:.14}", priority(line) as f64 / f64::from(u32::MAX))
}

/// Slurm's priorities are above zero, those of held jobs zero.
pub(super) fn priority(line: &Line) -> i64 {
    if line.job.holds.is_empty() { i64::from(line.job.priority) + PRIORITY_BASE } else { 0 }
}

/// What is added to a priority of ours, which is between -1024 and 1023.
const PRIORITY_BASE: i64 = 10_000;

fn constant(text: &'static str) -> String {
    text.to_owned()
}

const fn field(
    code: char,
    name: &'static str,
    heading: &'static str,
    value: fn(&Line, &Site) -> String,
) -> F {
    Field { code, name, heading, value }
}

/// Every field.
pub(super) const FIELDS: &[F] = &[
    field('a', "account", "ACCOUNT", |line, _| or_null(line.job.spec.account.as_deref())),
    field('b', "tres-per-node", "TRES_PER_NODE", |_, _| constant("N/A")),
    field('c', "mincpus", "MIN_CPUS", |line, _| cpus(line)),
    field('d', "mintmpdisk", "MIN_TMP_DISK", |_, _| constant("0")),
    field('e', "endtime", "END_TIME", |line, site| site.time_or(line.end(), "N/A")),
    field('f', "feature", "FEATURES", |line, _| or_null(Some(&line.job.spec.constraints.join("&")))),
    field('g', "groupname", "GROUP", |line, site| site.user(&line.job.owner).1),
    field('h', "oversubscribe", "OVER_SUBSCRIBE", |_, _| constant("OK")),
    field('i', "jobarrayid", "JOBID", |line, _| line.id()),
    field('j', "name", "NAME", |line, _| line.job.spec.name.clone()),
    field('k', "comment", "COMMENT", |line, _| or_null(line.job.spec.comment.as_deref())),
    field('l', "timelimit", "TIME_LIMIT", |line, _| line.limit_text()),
    field('m', "minmemory", "MIN_MEMORY", |line, _| memory_asked(line)),
    field('n', "reqnodes", "REQ_NODES", |_, _| String::new()),
    field('o', "command", "COMMAND", |line, _| or_null(line.job.spec.command.first().map(String::as_str))),
    field('p', "priority", "PRIORITY", |line, _| fraction(line)),
    field('q', "qos", "QOS", |_, _| constant("normal")),
    field('r', "reason", "REASON", |line, _| constant(state::reason(&line.job))),
    field('s', "selectjobinfo", "", |_, _| String::new()),
    field('t', "statecompact", "ST", |line, _| constant(line.state().code())),
    field('u', "username", "USER", |line, _| line.job.owner.clone()),
    field('v', "reservation", "RESERVATION", |_, _| constant(NULL)),
    field('w', "wckey", "WCKEY", |_, _| constant(NULL)),
    field('x', "excnodes", "EXC_NODES", |_, _| String::new()),
    field('y', "nice", "NICE", |line, _| (-line.job.priority).to_string()),
    field('z', "sct", "S:C:T", |_, _| constant("*:*:*")),
    field('A', "jobid", "JOBID", |line, _| line.raw_id().to_string()),
    field('B', "batchhost", "EXEC_HOST", |line, _| host(line)),
    field('C', "numcpus", "CPUS", |line, _| cpus(line)),
    field('D', "numnodes", "NODES", |_, _| constant("1")),
    field('E', "dependency", "DEPENDENCY", |line, _| dependencies(line)),
    field('F', "arrayjobid", "ARRAY_JOB_ID", |line, _| line.array_id().to_string()),
    field('G', "groupid", "GROUP", |line, site| site.user(&line.job.owner).2.to_string()),
    field('H', "sockets", "SOCKETS_PER_NODE", |_, _| constant("*")),
    field('I', "cores", "CORES_PER_SOCKET", |_, _| constant("*")),
    field('J', "threads", "THREADS_PER_CORE", |_, _| constant("*")),
    field('K', "arraytaskid", "ARRAY_TASK_ID", |line, _| line.task().unwrap_or_else(|| constant("N/A"))),
    field('L', "timeleft", "TIME_LEFT", Line::left_text),
    field('M', "timeused", "TIME", |line, site| span::short(line.elapsed(site.now))),
    field('N', "nodelist", "NODELIST", |line, _| line.node().to_owned()),
    field('O', "contiguous", "CONTIGUOUS", |_, _| constant("0")),
    field('P', "partition", "PARTITION", |line, _| line.job.queue.clone()),
    field('Q', "prioritylong", "PRIORITY", |line, _| priority(line).to_string()),
    field('R', "reasonlist", "NODELIST(REASON)", |line, _| line.node_or_reason()),
    field('S', "starttime", "START_TIME", |line, site| site.time_or(line.start(), "N/A")),
    field('T', "state", "STATE", |line, _| constant(line.state().word())),
    field('U', "userid", "UID", |line, site| site.user(&line.job.owner).0.to_string()),
    field('V', "submittime", "SUBMIT_TIME", |line, site| site.time(line.job.submitted)),
    field('W', "licenses", "LICENSES", |_, _| constant(NULL)),
    field('X', "corespec", "CORE_SPEC", |_, _| constant("N/A")),
    field('Y', "schednodes", "SCHEDNODES", |_, _| constant(NULL)),
    field('Z', "workdir", "WORK_DIR", |line, _| or_null(line.job.spec.directory.as_deref())),
    field(' ', "cluster", "CLUSTER", |_, _| constant(CLUSTER)),
    field(' ', "cpus-per-task", "CPUS_PER_TASK", |line, _| cpus(line)),
    field(' ', "numtasks", "TASKS", |_, _| constant("1")),
    field(' ', "nodes", "NODELIST", |line, _| line.node().to_owned()),
    field(' ', "deadline", "DEADLINE", |line, site| site.time_or(line.job.spec.deadline, "N/A")),
    field(' ', "eligibletime", "ELIGIBLE_TIME", |line, site| site.time(line.job.submitted)),
    field(' ', "accruetime", "ACCRUE_TIME", |line, site| site.time(line.job.submitted)),
    field(' ', "exit_code", "EXIT_CODE", |line, _| state::exit(&line.job).0.to_string()),
    field(' ', "derivedec", "DERIVED_EC", |line, _| state::exit(&line.job).0.to_string()),
    field(' ', "requeue", "REQUEUE", |line, _| requeues(line)),
    field(' ', "restartcnt", "RESTART_COUNT", |line, _| line.job.attempt.saturating_sub(1).to_string()),
    field(' ', "stdout", "STDOUT", |line, _| line.file(line.job.spec.stdout.as_deref())),
    field(' ', "stderr", "STDERR", |line, _| {
        line.file(line.job.spec.stderr.as_deref().or(line.job.spec.stdout.as_deref()))
    }),
    field(' ', "stdin", "STDIN", |_, _| constant("/dev/null")),
    field(' ', "tres", "TRES", |line, _| resources(line)),
    field(' ', "tres-alloc", "TRES_ALLOC", |line, _| resources(line)),
    field(' ', "gres", "TRES_PER_NODE", |_, _| constant("N/A")),
];
