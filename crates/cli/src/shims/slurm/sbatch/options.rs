//! The options of `sbatch`: what they are called, and what of them counts here.

use super::dependency;
use crate::shims::{
    getopt::Given,
    slurm::{
        memory,
        moment::Calendar,
        signal,
        span::{self, Limit},
    },
};
use base::Timestamp;
use wire::control::{ArrayRange, JobDependency};

/// Every option of `sbatch` 20.11 to 25.05: those that nothing is made of are known, too, so that scripts need no change.
pub(crate) const OPTIONS: &str = "\
    A/account= a/array= acctg-freq= B/extra-node-info= b/begin= batch= bb= bbf= C/constraint= c/cpus-per-task= \
    cluster-constraint= comment= consolidate-segments container= container-id= contiguous core-spec= \
    cores-per-socket= cpu-freq= cpus-per-gpu= D/chdir= d/dependency= deadline= delay-boot= e/error= exclude= \
    x/exclude= exclusive? export= export-file= extra= F/nodefile= G/gpus= get-user-env? gid= gpu-bind= gpu-freq= \
    gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= H/hold h/help hint= ignore-pbs i/input= \
    J/job-name= k/no-kill? kill-on-invalid-dep= L/licenses= M/clusters= cluster= m/distribution= mail-type= \
    mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= N/nodes= n/ntasks= network= nice? \
    no-requeue ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= O/overcommit o/output= \
    open-mode= oom-kill-step? s/oversubscribe share parsable p/partition= power= prefer= priority= profile= \
    propagate? Q/quiet q/qos= reboot requeue reservation= resv-ports? S/core-spec= segment= signal= \
    sockets-per-node= spread-job stepmgr switches= test-only thread-spec= threads-per-core= time-min= t/time= \
    tmp= tres-bind= tres-per-task= uid= usage use-min-nodes V/version v/verbose W/wait w/nodelist= \
    wait-all-nodes= wckey= workdir= wrap=";

/// Variables of the environment that stand for options. They win over directives, and the command line wins over them.
pub(crate) const VARIABLES: &[(&str, &str)] = &[
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_CLUSTERS", "clusters"),
    ("SBATCH_CONSTRAINT", "constraint"),
    ("SBATCH_ERROR", "error"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_GPUS", "gpus"),
    ("SBATCH_GRES", "gres"),
    ("SBATCH_INPUT", "input"),
    ("SBATCH_JOB_NAME", "job-name"),
    ("SBATCH_MEM_PER_CPU", "mem-per-cpu"),
    ("SBATCH_MEM_PER_NODE", "mem"),
    ("SBATCH_NO_REQUEUE", "no-requeue"),
    ("SBATCH_OPEN_MODE", "open-mode"),
    ("SBATCH_OUTPUT", "output"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_REQUEUE", "requeue"),
    ("SBATCH_SIGNAL", "signal"),
    ("SBATCH_TIMELIMIT", "time"),
    ("SBATCH_WAIT", "wait"),
];

/// Which variables of its environment `sbatch` gives the job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Export {
    /// All.
    #[default]
    All,
    /// Those that are named, with a value or as they are; all others, too, if so said.
    Named { names: Vec<(String, Option<String>)>, all: bool },
}

/// What the options say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) name: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) constraints: Vec<String>,
    pub(crate) time: Option<Limit>,
    pub(crate) tasks: Option<u32>,
    pub(crate) tasks_per_node: Option<u32>,
    pub(crate) cpus_per_task: Option<u32>,
    pub(crate) cpus_min: Option<u32>,
    pub(crate) nodes: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_per_cpu_bytes: Option<u64>,
    pub(crate) array: Option<ArrayRange>,
    pub(crate) dependencies: Vec<JobDependency>,
    pub(crate) cancel_if_never: bool,
    pub(crate) begin: Option<Timestamp>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) held: bool,
    pub(crate) nice: i32,
    pub(crate) no_requeue: bool,
    pub(crate) appends: bool,
    pub(crate) export: Export,
    pub(crate) wrap: Option<String>,
    pub(crate) cluster: Option<String>,
    pub(crate) is_parsable: bool,
    pub(crate) is_test: bool,
    pub(crate) is_quiet: bool,
    pub(crate) waits: bool,
    /// What was asked for and is not done, to be said on standard error.
    pub(crate) ignored: Vec<String>,
}

/// Why a command line was refused: the message, without the program's name.
pub(crate) type Refusal = String;

/// The same words as the original.
fn invalid(key: &str) -> Refusal {
    format!("Invalid --{key} specification")
}

/// What is refused when the job is submitted.
fn failed(why: &str) -> Refusal {
    format!("Batch job submission failed: {why}")
}

impl Batch {
    /// Takes options in; a later one replaces an earlier one.
    pub(crate) fn apply(
        &mut self,
        options: &[Given],
        calendar: &Calendar,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        for given in options {
            let known = self.set_text(given)
                || self.set_switch(given)?
                || self.set_size(given)?
                || self.set_when(given, calendar, now)?;
            if !known {
                self.weigh(given)?;
            }
        }
        Ok(())
    }

    /// Options that are kept as they are written.
    fn set_text(&mut self, given: &Given) -> bool {
        let place = match given.key {
            "job-name" => &mut self.name,
            "output" => &mut self.output,
            "error" => &mut self.error,
            "chdir" | "workdir" => &mut self.directory,
            "partition" => &mut self.partition,
            "account" => &mut self.account,
            "comment" => &mut self.comment,
            "clusters" | "cluster" => &mut self.cluster,
            "wrap" => &mut self.wrap,
            _ => return false,
        };
        place.clone_from(&given.value);
        true
    }

    fn set_switch(&mut self, given: &Given) -> Result<bool, Refusal> {
        match given.key {
            "hold" => self.held = true,
            "requeue" => self.no_requeue = false,
            "no-requeue" => self.no_requeue = true,
            "parsable" => self.is_parsable = true,
            "test-only" => self.is_test = true,
            "quiet" => self.is_quiet = true,
            "wait" => self.waits = true,
            "open-mode" => {
                self.appends = match given.text().chars().next() {
                    Some('a' | 'A') => true,
                    Some('t' | 'T') => false,
                    _ => return Err(invalid("open-mode")),
                }
            }
            "kill-on-invalid-dep" => {
                self.cancel_if_never = match given.text() {
                    "yes" | "y" | "YES" => true,
                    "no" | "n" | "NO" => false,
                    _ => return Err(invalid("kill-on-invalid-dep")),
                }
            }
            "export" => self.export = export(given.text()),
            "constraint" => self.constraints = constraints(given.text())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_size(&mut self, given: &Given) -> Result<bool, Refusal> {
        let text = given.text();
        match given.key {
            "ntasks" => self.tasks = Some(count(given)?),
            "ntasks-per-node" => self.tasks_per_node = Some(count(given)?),
            "cpus-per-task" => self.cpus_per_task = Some(count(given)?),
            "mincpus" => self.cpus_min = Some(count(given)?),
            "nodes" => self.nodes = Some(nodes(text)?),
            "mem" => self.memory_bytes = Some(memory::bytes(text).ok_or_else(|| invalid("mem"))?),
            "mem-per-cpu" => {
                self.memory_per_cpu_bytes = Some(memory::bytes(text).ok_or_else(|| invalid("mem-per-cpu"))?);
            }
            "array" => {
                let range = text.trim().parse();
                self.array = Some(range.map_err(|_| failed("Invalid job array specification"))?);
            }
            "nice" => {
                let text = if text.is_empty() { "100" } else { text };
                self.nice = text.parse().map_err(|_| invalid("nice"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_when(&mut self, given: &Given, calendar: &Calendar, now: Timestamp) -> Result<bool, Refusal> {
        let text = given.text();
        match given.key {
            "time" => self.time = Some(span::limit(text).ok_or_else(|| invalid("time"))?),
            "begin" => self.begin = Some(calendar.read(text, now).ok_or_else(|| invalid("begin"))?),
            "deadline" => self.deadline = Some(calendar.read(text, now).ok_or_else(|| invalid("deadline"))?),
            "dependency" => self.dependencies = dependency::read(text)?,
            "signal" => {
                let (what, before) = text.rsplit_once('@').unwrap_or((text, "60"));
                let name = what.rsplit_once(':').map_or(what, |(_, name)| name);
                if signal::number(name).is_none() || before.parse::<u16>().is_err() {
                    return Err(invalid("signal"));
                }
                self.ignored.push(format!("--signal={text}: no signal is sent before the time limit"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What cannot be done here is refused if the job could not do without it, and said if it could.
    fn weigh(&mut self, given: &Given) -> Result<(), Refusal> {
        let text = given.text();
        let asks = !matches!(text, "" | "0" | "none" | "NONE");
        match given.key {
            "gres" | "gpus" | "gpus-per-node" | "gpus-per-task" | "gpus-per-socket" | "tres-per-task"
                if asks =>
            {
                Err("Invalid generic resource (gres) specification".to_owned())
            }
            "licenses" if asks => Err(failed("Invalid license specification")),
            "reservation" if asks => Err(failed("Requested reservation is invalid")),
            "qos" if asks && text != "normal" => Err(failed("Invalid qos specification")),
            "container" | "container-id" | "bb" | "bbf" | "export-file" | "uid" | "gid" if asks => {
                Err(failed(&format!("--{} is not supported here", given.key)))
            }
            "mail-type" | "mail-user" | "exclude" | "nodelist" | "nodefile" | "exclusive" | "tmp"
            | "mem-per-gpu" | "cpus-per-gpu" | "priority"
                if asks || given.value.is_none() =>
            {
                self.ignored.push(format!("--{} is not supported here", given.key));
                Ok(())
            }
            // The null device is what a job reads anyway.
            "input" if asks && text != "/dev/null" => {
                self.ignored.push(format!("--input={text}: jobs read no file as standard input here"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// CPU slots of the job; none: as many as its queue gives.
    pub(crate) fn cpus(&self) -> Option<u32> {
        let tasks = self.tasks.or(self.tasks_per_node);
        if tasks.is_none() && self.cpus_per_task.is_none() {
            return self.cpus_min;
        }
        let cpus = tasks.unwrap_or(1).saturating_mul(self.cpus_per_task.unwrap_or(1));
        Some(cpus.max(self.cpus_min.unwrap_or(1)))
    }

    /// Bytes of memory; 0: as much as its queue gives.
    pub(crate) fn memory(&self) -> u64 {
        match (self.memory_bytes, self.memory_per_cpu_bytes) {
            (Some(bytes), _) => bytes,
            (None, Some(bytes)) => bytes.saturating_mul(u64::from(self.cpus().unwrap_or(1))),
            (None, None) => 0,
        }
    }
}

/// A number of something, at least one.
fn count(given: &Given) -> Result<u32, Refusal> {
    let text = given.text();
    let bad = || format!("Invalid numeric value \"{text}\" for --{}.", given.key);
    text.trim().parse().ok().filter(|count| *count > 0).ok_or_else(bad)
}

/// `2`, `1-4`: the least number of hosts. A job runs on one.
fn nodes(text: &str) -> Result<u32, Refusal> {
    let least = text.split(['-', ',']).next().unwrap_or_default();
    let nodes = least.trim().parse().ok().filter(|nodes| *nodes > 0).ok_or_else(|| invalid("nodes"))?;
    if nodes > 1 {
        return Err(failed("Requested node configuration is not available: a job runs on one host here"));
    }
    Ok(nodes)
}

/// Labels joined by `&`. Alternatives and counts need a scheduler of several hosts.
fn constraints(text: &str) -> Result<Vec<String>, Refusal> {
    let labels: Vec<String> =
        text.split('&').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect();
    if labels.iter().any(|label| label.contains(['|', '*', '[', ']', '(', ')'])) {
        return Err(failed("Invalid feature specification: labels are joined by & only here"));
    }
    Ok(labels)
}

/// `ALL`, `NONE`, `NIL`, `A,B=2`, `ALL,B=2`.
fn export(text: &str) -> Export {
    if text.eq_ignore_ascii_case("all") || text.is_empty() {
        return Export::All;
    }
    let mut names = Vec::new();
    let mut all = false;
    for one in text.split(',').filter(|one| !one.is_empty()) {
        match one.split_once('=') {
            Some((name, value)) => names.push((name.to_owned(), Some(value.to_owned()))),
            None if one.eq_ignore_ascii_case("all") => all = true,
            None if one.eq_ignore_ascii_case("none") || one.eq_ignore_ascii_case("nil") => {}
            None => names.push((one.to_owned(), None)),
        }
    }
    Export::Named { names, all }
}
