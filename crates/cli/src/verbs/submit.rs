//! `bp submit`: submits a job.

mod script;
pub(crate) mod when;

pub(crate) use script::Args;

use super::{jobs, wait::Timeout};
use crate::{
    context::{Context, Run},
    glob,
    program::Program,
};
use base::{
    Failure, FilePath, Millis, Timestamp,
    units::{Size, Span},
};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::SystemTime};
use when::{Dependency, Moment, Priority};
use wire::control::{ArrayRange, AwaitJobs, JobInput, JobOutput, JobSpec, Resources, Submit};

/// Submit a job
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command is a program and its arguments, not a shell line. The job starts when all its \
        inputs are on disk. It runs\nin a scratch directory that holds only the inputs. With --wait, bp exits \
        with the exit code of the job."
)]
pub(crate) struct Options {
    /// Name of the job, shown by `bp jobs` [default: the program's name]
    #[arg(long)]
    name: Option<String>,
    /// CPU slots [default: of the queue, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Memory that the job may use, with a unit, e.g. 500MiB or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Size>,
    /// Longest run time, e.g. 2h [default: of the queue, else 1d]
    #[arg(long, value_name = "TIME", value_parser = wall)]
    wall: Option<Span>,
    /// Store the local program LOCAL at PATH in the facility, and run it with the arguments behind `--`; PATH alone
    /// runs a stored program
    #[arg(long, value_name = "[LOCAL:]PATH")]
    program: Option<Program>,
    /// A file to copy into the scratch directory before the job starts, under its own name or NAME
    #[arg(long, value_name = "PATH[:NAME]")]
    input: Vec<Input>,
    /// A file of the scratch directory to store when the job succeeds; NAME/ stores a whole directory, 'NAME*' all
    /// matching files, into the directory PATH
    #[arg(long, value_name = "NAME:PATH")]
    output: Vec<Output>,
    /// Let outputs replace existing files
    #[arg(long)]
    replace: bool,
    /// The job is done only when its outputs are on tape
    #[arg(long)]
    archive: bool,
    /// Set an environment variable
    #[arg(long, value_name = "K=V")]
    env: Vec<Variable>,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    place: Place,
    /// Return when the job has ended
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: Timeout,
    /// The program to run and its arguments; with --program or --script only the arguments
    #[arg(required_unless_present_any = ["program", "script"], last = true)]
    command: Vec<String>,
}

/// When a job may run, and how often.
#[derive(Debug, Default, clap::Args)]
struct When {
    /// Queue [default: the default queue of `bp queue list`]
    #[arg(long)]
    queue: Option<String>,
    /// Priority in the queue, -1024 to 1023: the highest goes first; above 0 for operators
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<Priority>,
    /// Run once for each index: 1-10, 1-10:2, 1,5,9; %4 behind it: 4 at a time
    #[arg(long, value_name = "RANGE")]
    array: Option<ArrayRange>,
    /// Start when another job has ended well (ok:12, or 12), is over (any:12), failed (notok:12), has begun (begin:12);
    /// 12 is a whole array if it is one, 12_3 an element; corr:12: element by element; singleton: when no earlier job of
    /// the same name is left
    #[arg(long, value_name = "KIND:JOB")]
    after: Vec<Dependency>,
    /// Cancel the job when what it waits for can never happen; else it stays held
    #[arg(long)]
    cancel_if_never: bool,
    /// Do not start before this time: 2h from now, or 2026-11-26T18:00 (UTC)
    #[arg(long, value_name = "WHEN")]
    begin: Option<Moment>,
    /// Fail if not over by this time
    #[arg(long, value_name = "WHEN")]
    deadline: Option<Moment>,
    /// Run again after a failure, up to N times, each time after a longer pause
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// The job may run again from the beginning: `bp rerun`, or when its worker is lost
    #[arg(long)]
    rerunnable: bool,
    /// Hold the job until `bp release`
    #[arg(long)]
    hold: bool,
    /// Name this submission: with the same key again the same job is told, and nothing is submitted
    #[arg(long)]
    key: Option<String>,
}

/// Where a job runs, and where its output goes.
#[derive(Debug, Default, clap::Args)]
struct Place {
    /// Run this local script, by the interpreter of its first line or /bin/sh; - reads it from standard input. Lines
    /// before its first command that begin with #BP carry options; the command line wins
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    script: Option<PathBuf>,
    /// Working directory on the worker's host [default: the scratch directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<String>,
    /// File on the worker's host for standard output, and for standard error unless --stderr names another; %j is the
    /// job, %A the array, %a the index, %x the name, %u the user, %N the host
    #[arg(long, value_name = "FILE")]
    stdout: Option<String>,
    /// File on the worker's host for standard error
    #[arg(long, value_name = "FILE")]
    stderr: Option<String>,
    /// A label that the worker must have (`bp host label`), or its name
    #[arg(long, value_name = "LABEL")]
    constraint: Vec<String>,
    /// Mount the facility for the job, with your rights; the job finds it in the directory that BP_MOUNT names. Inputs
    /// are links that lead there, and are not copied
    #[arg(long)]
    mount: bool,
    /// A comment
    #[arg(long)]
    comment: Option<String>,
    /// For accounting
    #[arg(long)]
    account: Option<String>,
}

/// What a job is called that has no name: after its program, or its script.
fn default_name(args: &Options, command: &[String]) -> String {
    let script = args.place.script.as_ref().and_then(|file| file.file_name());
    let script = script.map(|name| name.to_string_lossy().into_owned());
    script.unwrap_or_else(|| {
        command.first().and_then(|program| program.rsplit('/').next()).unwrap_or_default().to_owned()
    })
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let (mut args, script) = args.with_script()?;
    let mut inputs: Vec<JobInput> = std::mem::take(&mut args.input)
        .into_iter()
        .map(|input| input.resolved(context))
        .collect::<Result<_, _>>()?;
    let mut command = std::mem::take(&mut args.command);
    if let Some(program) = &args.program {
        program.keep(context)?;
        let input = program.input();
        command.insert(0, format!("./{}", input.name));
        inputs.push(input);
    }
    let name = args.name.clone().unwrap_or_else(|| default_name(&args, &command));
    let now = Timestamp::from_system(SystemTime::now());
    let (when, place) = (args.when, args.place);
    let spec = JobSpec {
        name,
        command,
        resources: resources(args.cpus, args.memory, args.wall),
        inputs,
        outputs: args.output.into_iter().map(|output| output.0).collect(),
        archive: args.archive,
        replace: args.replace,
        environment: args.env.into_iter().map(|one| (one.name, one.value)).collect::<BTreeMap<_, _>>(),
        queue: when.queue,
        priority: when.priority.map_or(0, |priority| priority.0),
        dependencies: when.after.into_iter().filter_map(|one| one.0).collect(),
        cancel_if_never: when.cancel_if_never,
        begin: when.begin.map(|moment| moment.after(now)),
        deadline: when.deadline.map(|moment| moment.after(now)),
        retries: when.retries,
        rerunnable: when.rerunnable,
        held: when.hold,
        script,
        directory: place.directory,
        stdout: place.stdout,
        stderr: place.stderr,
        constraints: place.constraint,
        mount: place.mount,
        comment: place.comment,
        account: place.account,
        ..JobSpec::default()
    };
    let is_array = when.array.is_some();
    let reply = context.call(&Submit { spec, array: when.array, key: when.key })?;
    if args.wait {
        context.output.news(format!("job {}", reply.job))?;
        let (ids, select) =
            if is_array { (vec![], vec![reply.job.into()]) } else { (vec![reply.job], vec![]) };
        return jobs::wait(context, &AwaitJobs { ids, select }, &args.timeout);
    }
    if context.output.is_json() {
        context.output.json(&reply)?;
    } else {
        // The bare number, for scripts.
        context.output.line(reply.job.to_string())?;
    }
    Ok(0)
}

/// What a job asks for; what is not said is the queue's to say.
pub(super) fn resources(cpus: Option<u32>, memory: Option<Size>, wall: Option<Span>) -> Resources {
    Resources {
        cpus: cpus.unwrap_or(0),
        memory_bytes: memory.map_or(0, |size| size.0),
        wall: wall.map_or(Millis(0), |span| span.0),
    }
}

/// `PATH[:NAME]`; a name has no slash, so that paths may have colons in their directories.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Input {
    /// All of it as a path.
    whole: FilePath,
    /// As path and name, if there is a name.
    named: Option<JobInput>,
}

impl Input {
    /// What is meant: the path as it is written if it exists, for names may have colons.
    fn resolved(self, context: &mut Context) -> Result<JobInput, Failure> {
        let Self { whole, named } = self;
        match named {
            Some(named) if !glob::exists(&context.control()?, &whole)? => Ok(named),
            _ => Ok(JobInput { name: whole.name().to_owned(), path: whole }),
        }
    }
}

impl FromStr for Input {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let named = text.rsplit_once(':').filter(|(_, name)| !name.is_empty() && !name.contains('/'));
        let named = match named {
            Some((path, name)) => Some(JobInput { path: path.parse()?, name: name.to_owned() }),
            None => None,
        };
        Ok(Self { whole: text.parse()?, named })
    }
}

/// `NAME:PATH`
#[derive(Debug, Clone, PartialEq, Eq)]
struct Output(JobOutput);

impl FromStr for Output {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        // Names may have colons, but do not begin with a slash; paths do.
        let at = text.find(":/").filter(|at| *at > 0 && !text.starts_with('/')).ok_or_else(|| {
            Failure::invalid(format!("output {text:?} is not NAME:PATH"))
                .hint("NAME is relative to the scratch directory, PATH begins with /")
        })?;
        Ok(Self(JobOutput { name: text[..at].to_owned(), path: text[at + 1..].parse()? }))
    }
}

/// Least memory that a program starts with: less is a forgotten unit.
const MEMORY_MIN: Size = Size(1 << 20);

/// A size of memory. A bare number is too often meant in another unit than bytes to be guessed.
pub(super) fn memory(text: &str) -> Result<Size, Failure> {
    let text = text.trim();
    if text.chars().all(|c| c.is_ascii_digit() || c == '.') && text != "0" {
        return Err(Failure::invalid(format!("memory {text:?} has no unit"))
            .hint(format!("write {text}MiB or {text}GiB")));
    }
    let size: Size = text.parse()?;
    if size.0 > 0 && size < MEMORY_MIN {
        return Err(Failure::invalid(format!("memory {size} is less than any program needs"))
            .hint("write MiB or GiB behind the number"));
    }
    Ok(size)
}

/// A wall limit. None is not meant by a limit of nothing.
pub(super) fn wall(text: &str) -> Result<Span, Failure> {
    let span: Span = text.parse()?;
    if span.0 > Millis(0) { Ok(span) } else { Err(Failure::invalid("a job needs a wall limit above zero")) }
}

/// `K=V`
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: String,
    value: String,
}

impl FromStr for Variable {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::invalid(format!("variable {text:?} is not K=V")))?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_unit() {
        assert_eq!(memory("50MiB").unwrap().0, 50 << 20);
        assert_eq!(memory("50M").unwrap(), memory("50MiB").unwrap());
        assert_eq!(memory("2G").unwrap(), memory("2GiB").unwrap());
        assert_eq!(memory("0").unwrap().0, 0);
        for bad in ["64", "1.5", "100B", "50 parsecs", ""] {
            assert!(memory(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn inputs_and_outputs() {
        let input = |text: &str| {
            let Input { whole, named } = text.parse::<Input>().unwrap();
            (whole.to_string(), named.map(|named| (named.path.to_string(), named.name)))
        };
        let named = |path: &str, name: &str| Some((path.to_owned(), name.to_owned()));
        assert_eq!(input("/data/a.root"), ("/data/a.root".into(), None));
        assert_eq!(input("/data/a.root:in"), ("/data/a.root:in".into(), named("/data/a.root", "in")));
        assert_eq!(input("/run:12:in"), ("/run:12:in".into(), named("/run:12", "in")));
        assert_eq!(input("/da:ta/a"), ("/da:ta/a".into(), None));
        assert!("a.root".parse::<Input>().is_err() && "a.root:in".parse::<Input>().is_err());
        let output =
            |text: &str| text.parse::<Output>().map(|output| (output.0.name, output.0.path.to_string()));
        assert_eq!(output("h.parquet:/out/h").unwrap(), ("h.parquet".into(), "/out/h".into()));
        assert_eq!(output("run:12:/out/h").unwrap(), ("run:12".into(), "/out/h".into()));
        assert_eq!(output("plots/:/out").unwrap(), ("plots/".into(), "/out".into()));
        assert_eq!(output("a/*.root:/out").unwrap(), ("a/*.root".into(), "/out".into()));
        assert!(output("/h:/out").is_err() && output("h").is_err() && output(":/x").is_err());
        assert_eq!("A=b=c".parse::<Variable>().unwrap().value, "b=c");
        assert!("=b".parse::<Variable>().is_err());
    }
}
