//! `srun`: in a job, runs a command as tasks of it; elsewhere, submits the command as a job and shows what it prints.

use super::{
    CLUSTER, help, jobs, memory,
    span::{self, Limit},
};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed},
        origin::{Origin, absolute},
    },
    verbs,
};
use base::{Failure, Millis, Result};
use std::{
    fs::{File, OpenOptions},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, Stdio},
};
use wire::control::{JobDialect, JobSpec, Resources, Submit};

const OPTIONS: &str = "\
    A/account= a/array= accel-bind= acctg-freq= B/extra-node-info= b/begin= bb= bbf= bcast? C/constraint= \
    c/cpus-per-task= comment= compress? container= contiguous core-spec= cores-per-socket= cpu-bind= cpu-freq= \
    cpus-per-gpu= D/chdir= d/dependency= deadline= delay-boot= E/preserve-env e/error= epilog= exact \
    X/disable-status exclude= x/exclude= exclusive? export= external-launcher? G/gpus= gid= gpu-bind= gpu-freq= \
    gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= H/hold h/help hint= I/immediate? i/input= \
    interactive J/job-name= jobid= K/kill-on-bad-exit? k/no-kill? L/licenses= l/label M/clusters= \
    m/distribution= mail-type= mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= mpi= \
    msg-timeout= multi-prog N/nodes= n/ntasks= network= nice? ntasks-per-core= ntasks-per-gpu= ntasks-per-node= \
    ntasks-per-socket= O/overcommit o/output= open-mode= overlap p/partition= power= prefer= priority= profile= \
    prolog= propagate? pty? Q/quiet q/qos= quit-on-interrupt r/relative= reboot reservation= resv-ports? \
    S/core-spec= s/oversubscribe send-libs? signal= slurmd-debug= sockets-per-node= spread-job switches= \
    T/threads= t/time= task-epilog= task-prolog= test-only thread-spec= threads-per-core= time-min= tmp= \
    tres-bind= tres-per-task= u/unbuffered uid= usage use-min-nodes V/version v/verbose W/wait= w/nodelist= \
    wckey= whole";

/// The number of a step: they are not counted, each is the first.
const STEP: &str = "0";
/// Tasks of one step: they all run on one host.
const TASKS_MAX: u32 = 4096;

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[options] executable [arguments]";
    let parsed = match help::read(shim, usage, OPTIONS, Order::OptionsFirst, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    if parsed.operands.is_empty() {
        return shim.refuse("No command given to execute.", 1);
    }
    for key in ["gpus", "gres", "gpus-per-node", "gpus-per-task"] {
        if parsed.last(key).is_some_and(|value| !matches!(value, "" | "0" | "none")) {
            return shim.refuse("Invalid generic resource (gres) specification", 1);
        }
    }
    if parsed.has("multi-prog") || parsed.has("bcast") {
        return shim.refuse("--multi-prog and --bcast are not supported here", 1);
    }
    let Some(tasks) = tasks(&parsed, |name| std::env::var(name).ok()) else {
        let given = parsed.last("ntasks").unwrap_or_default();
        return shim.refuse(&format!("Invalid numeric value \"{given}\" for --ntasks."), 1);
    };
    match Step::here(&parsed) {
        Some(step) if tasks == 1 => step.become_task(shim),
        Some(step) => step.run_tasks(shim, tasks),
        None => submit(shim, &parsed, tasks),
    }
}

/// How often the command is run.
fn tasks(parsed: &Parsed, variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|count| (1..=TASKS_MAX).contains(count));
    match parsed.last("ntasks").or(parsed.last("ntasks-per-node")) {
        Some(text) => count(text),
        None => Some(variable("SLURM_NTASKS").and_then(|text| count(&text)).unwrap_or(1)),
    }
}

/// A step of the job that this runs in.
struct Step<'a> {
    parsed: &'a Parsed,
    job: String,
    array: String,
    index: String,
}

impl<'a> Step<'a> {
    /// None outside of a job.
    fn here(parsed: &'a Parsed) -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let job = variable("SLURM_JOB_ID").or_else(|| variable("BP_JOB_ID"))?;
        Some(Self {
            parsed,
            array: variable("SLURM_ARRAY_JOB_ID").unwrap_or_else(|| job.clone()),
            index: variable("SLURM_ARRAY_TASK_ID").unwrap_or_else(|| "4294967294".to_owned()),
            job,
        })
    }

    /// The command of one task, with its variables and files.
    fn command(&self, task: u32, tasks: u32) -> Result<Command> {
        let mut words = self.parsed.operands.iter();
        let program = words.next().map_or("", String::as_str);
        let mut command = Command::new(program);
        command.args(words);
        for (name, value) in [
            ("SLURM_PROCID", task),
            ("SLURM_LOCALID", task),
            ("SLURM_NODEID", 0),
            ("SLURM_NTASKS", tasks),
            ("SLURM_STEP_NUM_TASKS", tasks),
            ("SLURM_STEP_NUM_NODES", 1),
        ] {
            command.env(name, value.to_string());
        }
        command.env("SLURM_STEP_ID", STEP).env("SLURM_STEPID", STEP);
        if let Some(cpus) = self.parsed.last("cpus-per-task") {
            command.env("SLURM_CPUS_PER_TASK", cpus);
        }
        if let Some(directory) = self.parsed.last("chdir") {
            command.current_dir(directory);
        }
        self.redirect(&mut command, task)?;
        Ok(command)
    }

    fn redirect(&self, command: &mut Command, task: u32) -> Result<()> {
        let output = self.parsed.last("output").filter(|name| !matches!(*name, "" | "all" | "none"));
        let error = self.parsed.last("error").filter(|name| !matches!(*name, "" | "all" | "none"));
        if let Some(pattern) = output {
            let file = self.open(pattern, task)?;
            if error.is_none() {
                command.stderr(duplicate(&file, pattern)?);
            }
            command.stdout(file);
        }
        if let Some(pattern) = error {
            command.stderr(self.open(pattern, task)?);
        }
        match self.parsed.last("input") {
            Some("none") => {
                command.stdin(Stdio::null());
            }
            Some(name) if !matches!(name, "" | "all") && name.parse::<u32>().is_err() => {
                let name = self.named(name, task);
                let file = File::open(&name).map_err(|cause| Failure::io(format!("open {name}"), &cause))?;
                command.stdin(file);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&self, pattern: &str, task: u32) -> Result<File> {
        let name = self.named(pattern, task);
        let mode = self.parsed.last("open-mode").map(str::to_owned);
        let appends =
            mode.or_else(|| std::env::var("SLURM_OPEN_MODE").ok()).is_some_and(|mode| mode.starts_with('a'));
        let file = OpenOptions::new().create(true).append(appends).truncate(!appends).write(true).open(&name);
        file.map_err(|cause| Failure::io(format!("open {name}"), &cause))
    }

    /// The name of a file of one task.
    fn named(&self, pattern: &str, task: u32) -> String {
        let mut name = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                name.push(letter);
                continue;
            }
            match letters.next() {
                Some('j') => name.push_str(&self.job),
                Some('J') => name.push_str(&format!("{}.{}", self.job, STEP)),
                Some('A') => name.push_str(&self.array),
                Some('a') => name.push_str(&self.index),
                Some('s') => name.push_str(STEP),
                Some('t') => name.push_str(&task.to_string()),
                Some('n') => name.push('0'),
                Some('N') => name.push_str(&std::env::var("SLURMD_NODENAME").unwrap_or_default()),
                Some('u') => name.push_str(&std::env::var("USER").unwrap_or_default()),
                Some('x') => name.push_str(&std::env::var("SLURM_JOB_NAME").unwrap_or_default()),
                Some('%') => name.push('%'),
                other => name.extend(std::iter::once('%').chain(other)),
            }
        }
        name
    }

    /// The only task takes the place of this process, so that signals reach it.
    fn become_task(&self, shim: &mut Shim) -> Run {
        let cause = self.command(0, 1)?.exec();
        self.not_started(shim, &cause)
    }

    fn not_started(&self, shim: &mut Shim, cause: &std::io::Error) -> Run {
        let program = self.parsed.operands.first().map_or("", String::as_str);
        shim.error(&format!("execve(): {program}: {cause}"));
        Ok(if cause.kind() == std::io::ErrorKind::NotFound { 2 } else { 13 })
    }

    /// Starts all tasks, waits for them, and yields the highest of their codes.
    fn run_tasks(&self, shim: &mut Shim, tasks: u32) -> Run {
        let mut children: Vec<Child> = Vec::new();
        let mut code = 0;
        for task in 0..tasks {
            match self.command(task, tasks)?.spawn() {
                Ok(child) => children.push(child),
                Err(cause) => {
                    code = self.not_started(shim, &cause)?;
                    break;
                }
            }
        }
        for mut child in children {
            let status = child.wait().map_err(|cause| Failure::io("wait for a task".to_owned(), &cause))?;
            let ended = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
            code = code.max(u8::try_from(ended).unwrap_or(1));
        }
        Ok(code)
    }
}

fn duplicate(file: &File, name: &str) -> Result<File> {
    file.try_clone().map_err(|cause| Failure::io(format!("open {name}"), &cause))
}

/// Outside of a job: submits the command, shows what it prints, and ends as it ends.
fn submit(shim: &mut Shim, parsed: &Parsed, tasks: u32) -> Run {
    let spec = match spec(parsed, tasks, &Origin::here()?) {
        Ok(spec) => spec,
        Err(key) => return shim.refuse(&format!("Invalid --{key} specification"), 1),
    };
    let submit = Submit { key: Some(crate::shims::unique_key()), ..Submit::new(spec) };
    let job = match shim.call(&submit) {
        Ok(reply) => reply.job,
        Err(failure) => return shim.failure("Unable to allocate resources: ", &failure),
    };
    if !parsed.has("quiet") {
        shim.say(&format!("job {job} queued and waiting for resources"));
    }
    verbs::log::follow(&mut shim.context, job)?;
    jobs::wait(shim, job)
}

/// The job; the option that makes no sense is refused.
fn spec(parsed: &Parsed, tasks: u32, origin: &Origin) -> std::result::Result<JobSpec, &'static str> {
    let cpus = match parsed.last("cpus-per-task") {
        Some(text) => text.parse::<u32>().map_err(|_| "cpus-per-task")?,
        None => 1,
    };
    let limit = parsed.last("time").map(|text| span::limit(text).ok_or("time")).transpose()?;
    let wall = limit.map_or(Millis(0), Limit::wall);
    let memory_bytes = match parsed.last("mem") {
        Some(text) => memory::bytes(text).ok_or("mem")?,
        None => 0,
    };
    let program = parsed.operands.first().map_or("", String::as_str);
    let name = parsed.last("job-name").unwrap_or_else(|| program.rsplit('/').next().unwrap_or_default());
    let mut environment = origin.passed();
    environment.insert("SLURM_CLUSTER_NAME".to_owned(), CLUSTER.to_owned());
    environment.insert("SLURM_SUBMIT_DIR".to_owned(), origin.directory.clone());
    Ok(JobSpec {
        name: name.to_owned(),
        command: parsed.operands.clone(),
        resources: Resources { cpus: tasks.saturating_mul(cpus), memory_bytes, wall },
        queue: parsed.last("partition").map(str::to_owned),
        directory: Some(absolute(parsed.last("chdir").unwrap_or("."), &origin.directory)),
        account: parsed.last("account").map(str::to_owned),
        environment,
        dialect: JobDialect::Slurm,
        ..JobSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::getopt::parse;

    fn read(line: &str) -> Parsed {
        parse(OPTIONS, Order::OptionsFirst, line.split(' ').map(str::to_owned)).unwrap()
    }

    #[test]
    fn files_of_tasks_have_names() {
        let parsed = read("-o x prog");
        let step = Step { parsed: &parsed, job: "12".into(), array: "10".into(), index: "2".into() };
        assert_eq!(step.named("/d/%j_%A_%a_%t.%s.%J.%%%q", 3), "/d/12_10_2_3.0.12.0.%%q");
    }

    #[test]
    fn options_stand_before_the_command() {
        let parsed = read("-n1 --cpu-bind=q --cpus-per-task=2 --nodes=1 prog -n 5 --x");
        assert_eq!(parsed.operands, ["prog", "-n", "5", "--x"]);
        assert_eq!(tasks(&parsed, |_| Some("7".to_owned())), Some(1));
        assert_eq!(tasks(&read("prog"), |_| Some("7".to_owned())), Some(7));
        assert_eq!(tasks(&read("-n 0 prog"), |_| None), None);
        let spec = spec(&parsed, 1, &Origin::default()).unwrap();
        assert_eq!((spec.resources.cpus, spec.name.as_str()), (2, "prog"));
        assert_eq!(super::spec(&read("-t x prog"), 1, &Origin::default()).unwrap_err(), "time");
    }
}
