//! From what `sbatch` was told to the job that is submitted.

use super::options::{Batch, Export};
use crate::shims::{
    origin::{Origin, absolute},
    slurm::{CLUSTER, span::Limit},
};
use base::Millis;
use std::collections::BTreeMap;
use wire::control::{JobDialect, JobSpec, PRIORITY, Resources, Submit};

/// The script of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// Stands for the job's name if it has none.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) arguments: Vec<String>,
}

/// The submission. `key` makes it the same when it is repeated.
pub(crate) fn submission(batch: &Batch, script: Script, origin: &Origin, key: String) -> Submit {
    let directory = absolute(batch.directory.as_deref().unwrap_or("."), &origin.directory);
    let file = |pattern: &str| absolute(&worker_pattern(pattern), &directory);
    let default = if batch.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
    let name = batch.name.clone().filter(|name| !name.is_empty()).unwrap_or(script.name);
    let spec = JobSpec {
        environment: environment(batch, origin, &name),
        name,
        command: script.arguments,
        script: Some(script.text),
        resources: resources(batch),
        queue: batch.partition.clone(),
        priority: batch.nice.saturating_neg().clamp(*PRIORITY.start(), *PRIORITY.end()),
        dependencies: batch.dependencies.clone(),
        cancel_if_never: batch.cancel_if_never,
        begin: batch.begin,
        deadline: batch.deadline,
        rerunnable: !batch.no_requeue,
        held: batch.held,
        stdout: Some(file(batch.output.as_deref().unwrap_or(default))),
        stderr: batch.error.as_deref().map(file),
        truncate: !batch.appends,
        constraints: batch.constraints.clone(),
        comment: batch.comment.clone(),
        account: batch.account.clone(),
        directory: Some(directory),
        dialect: JobDialect::Slurm,
        ..JobSpec::default()
    };
    Submit { spec, array: batch.array.clone(), key: Some(key) }
}

/// Zeros stand for the defaults of the queue.
fn resources(batch: &Batch) -> Resources {
    let wall = batch.time.map_or(Millis(0), Limit::wall);
    Resources { cpus: batch.cpus().unwrap_or(0), memory_bytes: batch.memory(), wall }
}

/// Patterns that the worker does not know, in those it knows: of a job that is one task on one host, they say nothing else.
fn worker_pattern(pattern: &str) -> String {
    let mut text = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('J') => text.push_str("%j"),
            Some('n' | 't') => text.push('0'),
            Some('s') => text.push_str("batch"),
            Some('b') => text.push_str("%a"),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}

/// The environment that the job is given; the worker adds what it knows.
fn environment(batch: &Batch, origin: &Origin, name: &str) -> BTreeMap<String, String> {
    let mut found = match &batch.export {
        Export::All | Export::Named { all: true, .. } => origin.passed(),
        Export::Named { .. } => origin.login(),
    };
    if let Export::Named { names, .. } = &batch.export {
        for (name, value) in names {
            if let Some(value) = value.clone().or_else(|| origin.environment.get(name).cloned()) {
                found.insert(name.clone(), value);
            }
        }
    }
    found.extend(told(batch, origin, name));
    found
}

/// What only `sbatch` knows of the job.
fn told(batch: &Batch, origin: &Origin, name: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::from([
        ("SLURM_SUBMIT_DIR".to_owned(), origin.directory.clone()),
        ("SLURM_SUBMIT_HOST".to_owned(), origin.host.clone()),
        ("SLURM_CLUSTER_NAME".to_owned(), CLUSTER.to_owned()),
        ("SLURM_JOB_NAME".to_owned(), name.to_owned()),
        ("SLURM_TASKS_PER_NODE".to_owned(), "1".to_owned()),
    ]);
    let tasks = batch.tasks.or(batch.tasks_per_node);
    if let Some(tasks) = tasks {
        for name in ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"] {
            found.insert(name.to_owned(), tasks.to_string());
        }
    }
    if let Some(cpus) = batch.cpus_per_task {
        found.insert("SLURM_CPUS_PER_TASK".to_owned(), cpus.to_string());
    }
    if let Some(account) = &batch.account {
        found.insert("SLURM_JOB_ACCOUNT".to_owned(), account.clone());
    }
    if matches!(&batch.export, Export::Named { all: false, .. }) {
        // What a job submits or runs in turn gets all of the job's environment.
        found.insert("SLURM_GET_USER_ENV".to_owned(), "1".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::{
        getopt::{Order, parse},
        slurm::{sample, sbatch::options::OPTIONS, span::UNLIMITED},
    };

    fn batch(line: &str) -> Result<Batch, String> {
        let parsed = parse(OPTIONS, Order::OptionsFirst, line.split(' ').map(str::to_owned))?;
        let mut batch = Batch::default();
        let site = sample::site();
        batch.apply(&parsed.options, &site.calendar, site.now)?;
        Ok(batch)
    }

    fn submitted(line: &str) -> Submit {
        let script = Script {
            name: "job.sh".to_owned(),
            text: "#!/bin/sh\n".to_owned(),
            arguments: vec!["a b".to_owned()],
        };
        let environment = [
            ("PATH", "/bin"),
            ("HOME", "/home/ada"),
            ("X", "1"),
            ("Y", "2"),
            ("SLURM_JOB_ID", "7"),
            ("BEARER_TOKEN", "secret"),
        ];
        let origin = Origin {
            directory: "/home/ada".to_owned(),
            host: "login1".to_owned(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        };
        submission(&batch(line).unwrap(), script, &origin, "k".to_owned())
    }

    fn passed(line: &str) -> String {
        let environment = submitted(line).spec.environment;
        let theirs = environment.iter().filter(|(name, _)| !name.starts_with("SLURM_"));
        theirs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_plain_submission_leaves_sizes_to_the_queue() {
        let Submit { spec, array, key } = submitted("job.sh");
        assert_eq!((array, key.as_deref(), spec.name.as_str()), (None, Some("k"), "job.sh"));
        assert_eq!(spec.resources, Resources { cpus: 0, memory_bytes: 0, wall: Millis(0) });
        assert_eq!(spec.directory.as_deref(), Some("/home/ada"));
        assert_eq!(spec.stdout.as_deref(), Some("/home/ada/slurm-%j.out"));
        assert_eq!((spec.stderr, spec.truncate, spec.rerunnable, spec.held), (None, true, true, false));
        assert_eq!(spec.command, ["a b"]);
        assert_eq!(spec.dialect, JobDialect::Slurm);
    }

    #[test]
    fn options_become_the_job() {
        let line = "-J name -o out/%x-%J.%t -e /e/%A -D ../eve -t 1:30 -c 2 -n 3 --mem-per-cpu 1G -p long -A higgs -H \
                    --comment c -a 0-3%2 -d singleton --nice=5 --no-requeue --open-mode=append -C big&fast --begin now+1hour x";
        let Submit { spec, array, .. } = submitted(line);
        assert_eq!(
            (spec.name.as_str(), spec.queue.as_deref(), spec.account.as_deref()),
            ("name", Some("long"), Some("higgs"))
        );
        assert_eq!(spec.directory.as_deref(), Some("/home/ada/../eve"));
        assert_eq!(spec.stdout.as_deref(), Some("/home/ada/../eve/out/%x-%j.0"));
        assert_eq!(spec.stderr.as_deref(), Some("/e/%A"));
        assert_eq!(
            spec.resources,
            Resources { cpus: 6, memory_bytes: 6 << 30, wall: Millis::from_seconds(90) }
        );
        assert_eq!((spec.held, spec.truncate, spec.rerunnable, spec.priority), (true, false, false, -5));
        assert_eq!(spec.constraints, ["big", "fast"]);
        assert_eq!(spec.begin, Some(sample::NOW + Millis::from_seconds(3600)));
        assert_eq!(array.unwrap().to_string(), "0-3%2");
        assert_eq!(spec.environment["SLURM_NTASKS"], "3");
        assert_eq!(spec.environment["SLURM_CPUS_PER_TASK"], "2");
        assert_eq!(submitted("-a 1-2 x").spec.stdout.as_deref(), Some("/home/ada/slurm-%A_%a.out"));
        assert_eq!(submitted("-t 0 x").spec.resources.wall, UNLIMITED);
    }

    #[test]
    fn the_environment_is_passed_as_it_was_asked_for() {
        assert_eq!(passed("x"), "HOME=/home/ada PATH=/bin X=1 Y=2");
        assert_eq!(passed("--export=ALL,Z=3 x"), "HOME=/home/ada PATH=/bin X=1 Y=2 Z=3");
        assert_eq!(passed("--export=Y,Z=3,NOT x"), "HOME=/home/ada PATH=/bin Y=2 Z=3");
        assert_eq!(passed("--export=NONE x"), "HOME=/home/ada PATH=/bin");
    }

    #[test]
    fn refusals_are_those_of_sbatch() {
        for (line, refusal) in [
            ("-t abc", "Invalid --time specification"),
            ("--mem 10Q", "Invalid --mem specification"),
            ("-a 5-1", "Batch job submission failed: Invalid job array specification"),
            ("-n 0", "Invalid numeric value \"0\" for --ntasks."),
            ("-n x", "Invalid numeric value \"x\" for --ntasks."),
            ("--begin bogus", "Invalid --begin specification"),
            ("--signal FOO", "Invalid --signal specification"),
            ("--open-mode x", "Invalid --open-mode specification"),
            ("--gres gpu:1", "Invalid generic resource (gres) specification"),
            ("--qos fast", "Batch job submission failed: Invalid qos specification"),
            ("--nope", "unrecognized option '--nope'"),
        ] {
            assert_eq!(batch(line), Err(refusal.to_owned()), "{line}");
        }
        for line in ["-N 2", "-N 2-4", "-L matlab", "--uid 5"] {
            let refused = batch(line).unwrap_err();
            assert!(refused.starts_with("Batch job submission failed: "), "{line}: {refused}");
        }
        for line in [
            "-N 1-4 -n 1",
            "--gres none",
            "--gpus 0",
            "--qos normal",
            "--mem-bind local --hint nomultithread",
        ] {
            assert!(batch(line).unwrap().ignored.is_empty(), "{line}");
        }
        assert_eq!(batch("--mail-type END --exclude n1").unwrap().ignored.len(), 2);
    }
}
