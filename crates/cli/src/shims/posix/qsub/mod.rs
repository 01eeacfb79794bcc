//! `qsub`: submits a script.

mod options;

use super::{SERVER, id, read};
use crate::{
    context::Run,
    shims::{
        self, Shim, directives,
        getopt::{Order, parse},
        jobs,
        origin::{self, Origin, absolute},
        site::Site,
    },
};
use base::Millis;
use options::{OPTIONS, Request, with_nqs_limits};
use std::collections::BTreeMap;
use wire::control::{DependencyKind, JobDependency, JobDialect, JobSpec, Resources, Submit};

/// Begin lines of a script that carry options.
const PREFIXES: [&str; 2] = ["#PBS", "#QSUB"];
/// Variables of the environment that the job finds with `PBS_O_` before their names, as POSIX says.
const TOLD: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "MAIL", "SHELL", "TZ"];

/// Runs the command.
pub(crate) fn run(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[-a date_time][-A account][-e path][-h][-j oe][-J range][-l resources][-N name][-o path][-p priority][-q \
                 destination][-r y|n][-S shell][-v variables][-V][-W depend=list][-z] [script [arguments]]";
    let parsed = match read(shim, usage, OPTIONS, with_nqs_limits(arguments))? {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let site = Site::here();
    let made = script(&parsed.operands).and_then(|(name, text, arguments)| {
        // What the command line says wins; the prefix has to be known before the script is read.
        let mut first = Request::default();
        first.apply(&parsed.options, &site)?;
        let mut request = Request::default();
        request.apply(&told(&text, first.prefixes.as_deref())?.options, &site)?;
        request.apply(&parsed.options, &site)?;
        Ok((request, name, text, arguments))
    });
    let (request, name, text, arguments) = match made {
        Ok(made) => made,
        Err(refusal) => {
            shim.say(&refusal);
            return Ok(2);
        }
    };
    for what in request.ignored.iter().chain(&request.wish.ignored) {
        shim.say(&format!("warning: {what}"));
    }
    let origin = Origin::here()?;
    submit(shim, &request, submission(&request, (&name, text, arguments), &origin))
}

/// The options that the script carries.
fn told(text: &str, prefix: Option<&str>) -> Result<shims::getopt::Parsed, String> {
    let words = match prefix {
        Some(prefix) => directives::directives(text, &[prefix]),
        None => directives::directives(text, &PREFIXES),
    };
    let words = with_nqs_limits(words.map_err(|what| format!("directive error: {what}"))?);
    let parsed = parse(OPTIONS, Order::Permuted, words).map_err(|what| format!("directive error: {what}"))?;
    match parsed.operands.first() {
        Some(word) => Err(format!("directive error: {word}")),
        None => Ok(parsed),
    }
}

/// Name, text and arguments of the script: a file, or standard input.
fn script(operands: &[String]) -> Result<(String, String, Vec<String>), String> {
    let Some((path, arguments)) = operands.split_first().filter(|(path, _)| *path != "-") else {
        return Ok((
            "STDIN".to_owned(),
            origin::read(std::io::stdin().lock(), "standard input")?,
            Vec::new(),
        ));
    };
    let file = std::fs::File::open(path).map_err(|cause| format!("script file: {path}: {cause}"))?;
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    Ok((name, origin::read(file, path)?, arguments.to_vec()))
}

/// The submission.
fn submission(request: &Request, script: (&str, String, Vec<String>), origin: &Origin) -> Submit {
    let (name, text, arguments) = script;
    let name = request.name.clone().unwrap_or_else(|| name.to_owned());
    let wish = &request.wish;
    let home = origin.environment.get("HOME").cloned();
    let stdout = file(request, request.output.as_deref(), 'o', origin);
    let stderr = file(request, request.error.as_deref(), 'e', origin);
    let spec = JobSpec {
        environment: environment(request, origin),
        name,
        command: if request.arguments.is_empty() { arguments } else { request.arguments.clone() },
        script: Some(with_shell(text, request.shell.as_deref())),
        resources: Resources {
            cpus: wish.cpus.unwrap_or(0),
            memory_bytes: wish.memory_bytes.unwrap_or(0),
            wall: wish.wall.unwrap_or(Millis(0)),
        },
        queue: request.queue.clone(),
        priority: request.priority,
        dependencies: request.dependencies.clone(),
        begin: request.begin,
        rerunnable: request.rerunnable,
        held: request.held,
        // A job begins at home, unless it was told otherwise.
        directory: Some(match &request.directory {
            Some(directory) => absolute(directory, &origin.directory),
            None => home.unwrap_or_else(|| origin.directory.clone()),
        }),
        stderr: (!request.merges).then_some(stderr),
        stdout: Some(stdout),
        truncate: true,
        account: request.account.clone(),
        dialect: JobDialect::Pbs,
        ..JobSpec::default()
    };
    Submit { spec, array: request.array.clone(), key: Some(shims::unique_key()) }
}

/// A script without an interpreter line is run by the shell that was named.
fn with_shell(text: String, shell: Option<&str>) -> String {
    shell.map_or(text.clone(), |shell| format!("#!{shell}\n{text}"))
}

/// Where output goes: the path that was named, in it as a directory, or a name made of those of the job.
fn file(request: &Request, path: Option<&str>, letter: char, origin: &Origin) -> String {
    let default = match request.array {
        Some(_) => format!("%x.{letter}%A.%a"),
        None => format!("%x.{letter}%j"),
    };
    // `host:path`: the worker writes on its own host.
    let path = path.map(|path| path.split_once(":/").map_or(path.to_owned(), |(_, rest)| format!("/{rest}")));
    match path {
        None => absolute(&default, &origin.directory),
        Some(path) => {
            let whole = absolute(&path, &origin.directory).replace('%', "%%").replace("^array_index^", "%a");
            let is_directory = path.ends_with('/') || std::path::Path::new(&whole).is_dir();
            if is_directory { absolute(&default, &whole) } else { whole }
        }
    }
}

/// What the job finds in its environment: what POSIX says, and what it was to be given.
fn environment(request: &Request, origin: &Origin) -> BTreeMap<String, String> {
    let mut found = if request.passes_all { origin.passed() } else { origin.login() };
    for (name, value) in &request.variables {
        if let Some(value) = value.clone().or_else(|| origin.environment.get(name).cloned()) {
            found.insert(name.clone(), value);
        }
    }
    for name in TOLD {
        if let Some(value) = origin.environment.get(name) {
            found.insert(format!("PBS_O_{name}"), value.clone());
        }
    }
    found.insert("PBS_O_HOST".to_owned(), origin.host.clone());
    found.insert("PBS_O_WORKDIR".to_owned(), origin.directory.clone());
    found.insert("PBS_O_QUEUE".to_owned(), request.queue.clone().unwrap_or_default());
    found.insert("PBS_ENVIRONMENT".to_owned(), "PBS_BATCH".to_owned());
    found
}

fn submit(shim: &mut Shim, request: &Request, call: Submit) -> Run {
    let reply = match shim.call(&call) {
        Ok(reply) => reply,
        Err(failure) => {
            shim.say(&failure.what);
            failure.hint.iter().for_each(|hint| shim.say(&format!("hint: {hint}")));
            return Ok(1);
        }
    };
    if !request.is_silent {
        let name = match request.array {
            Some(_) => format!("{}[].{SERVER}", reply.job),
            None => id::named(reply.job),
        };
        shim.line(name)?;
    }
    if request.waits { jobs::wait(shim, reply.job) } else { Ok(0) }
}

/// `depend=afterok:3:4,afterany:5`; none if it is another attribute.
pub(super) fn depend(text: &str) -> Result<Option<Vec<JobDependency>>, String> {
    let Some(list) = text.strip_prefix("depend=") else { return Ok(None) };
    let mut found = Vec::new();
    for one in list.split(',') {
        let (word, jobs) = one.split_once(':').unwrap_or((one, ""));
        let kind = match word {
            "after" => DependencyKind::After,
            "afterok" => DependencyKind::AfterOk,
            "afternotok" => DependencyKind::AfterNotOk,
            "afterany" => DependencyKind::AfterAny,
            _ => return Err(format!("illegal -W value: {one:?} is not a dependency here")),
        };
        for job in jobs.split(':') {
            let job = id::selection(job).ok_or_else(|| format!("illegally formed job identifier: {job}"))?;
            found.push(JobDependency { kind, job: Some(job) });
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;

    fn submitted(script: &str, line: &str) -> Result<JobSpec, String> {
        let words = with_nqs_limits(line.split_whitespace().map(str::to_owned).collect());
        let parsed = parse(OPTIONS, Order::OptionsFirst, words)?;
        let site = sample::site();
        let mut request = Request::default();
        request.apply(&told(script, parsed.last("C"))?.options, &site)?;
        request.apply(&parsed.options, &site)?;
        let environment = [("HOME", "/home/ada"), ("PATH", "/bin"), ("X", "1"), ("SLURM_JOB_ID", "3")];
        let origin = Origin {
            directory: "/work".to_owned(),
            host: "login1".to_owned(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        };
        Ok(submission(&request, ("job.sh", script.to_owned(), vec!["a".to_owned()]), &origin).spec)
    }

    #[test]
    fn a_plain_job_begins_at_home_and_leaves_its_output_where_it_was_submitted() {
        let spec = submitted("echo hi\n", "").unwrap();
        assert_eq!((spec.name.as_str(), spec.directory.as_deref()), ("job.sh", Some("/home/ada")));
        assert_eq!(spec.stdout.as_deref(), Some("/work/%x.o%j"));
        assert_eq!(spec.stderr.as_deref(), Some("/work/%x.e%j"));
        assert_eq!((spec.rerunnable, spec.held, spec.dialect), (true, false, JobDialect::Pbs));
        let names: Vec<&str> = spec.environment.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "HOME",
                "PATH",
                "PBS_ENVIRONMENT",
                "PBS_O_HOME",
                "PBS_O_HOST",
                "PBS_O_PATH",
                "PBS_O_QUEUE",
                "PBS_O_WORKDIR"
            ]
        );
    }

    #[test]
    fn directives_and_options_become_the_job() {
        let script = "#!/bin/sh\n#PBS -N name -l walltime=1:00:00,mem=1gb\n#QSUB -lT 100 -lM 2gb\n#PBS -j oe -q long@server\ntrue\n";
        let spec =
            submitted(script, "-r n -p -7 -h -v X,Y=2 -W depend=afterok:3.s:4 -o out -l ncpus=2").unwrap();
        assert_eq!((spec.name.as_str(), spec.queue.as_deref(), spec.priority), ("name", Some("long"), -7));
        assert_eq!(
            spec.resources,
            Resources { cpus: 2, memory_bytes: 2 << 30, wall: Millis::from_seconds(3600) }
        );
        assert_eq!((spec.stdout.as_deref(), spec.stderr), (Some("/work/out"), None));
        assert_eq!((spec.rerunnable, spec.held, spec.dependencies.len()), (false, true, 2));
        assert_eq!((spec.environment["X"].as_str(), spec.environment["Y"].as_str()), ("1", "2"));
        assert_eq!(submitted(script, "-N other").unwrap().name, "other", "the command line wins");
        assert!(submitted("true\n", "-V").unwrap().environment.contains_key("X"));
        assert!(!submitted("true\n", "-V").unwrap().environment.contains_key("SLURM_JOB_ID"));
        assert_eq!(submitted("true\n", "-S /bin/csh").unwrap().script.unwrap(), "#!/bin/csh\ntrue\n");
        assert_eq!(submitted("##X -N n\n", "-C ##X").unwrap().name, "n");
        assert_eq!(submitted("true\n", "-t 1-3").unwrap().stdout.as_deref(), Some("/work/%x.o%A.%a"));
    }

    #[test]
    fn refusals_name_the_option() {
        for bad in
            ["-p 5000", "-r x", "-a x", "-l mem=x", "-I", "-u eve", "-S sh", "-W depend=x:1", "-J x", "-Q"]
        {
            assert!(submitted("true\n", bad).is_err(), "{bad}");
        }
    }
}
