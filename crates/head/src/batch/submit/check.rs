//! What a specification may say: pure checks, before anything is looked up.

use base::{
    Failure, Result,
    limits::{
        CPU_SLOTS_MAX, JOB_FILES_MAX, JOB_NAME_BYTES_MAX, JOB_WORD_BYTES_MAX, JOB_WORDS_BYTES_MAX,
        PATH_BYTES_MAX,
    },
};
use std::collections::{BTreeSet, HashSet};
use wire::control::{JobOutput, JobSpec, OutputKind, is_plain_name};

/// Text of a script: it travels in one call, and nobody writes longer ones by hand.
const SCRIPT_BYTES_MAX: usize = 4 << 20;
/// Labels that a job asks for.
const LABELS_MAX: usize = 100;
/// Comment and account.
const TEXT_BYTES_MAX: usize = 4096;
/// Runs after a failed one.
const RETRIES_MAX: u32 = 1000;

pub(super) fn check(spec: &JobSpec, is_array: bool) -> Result<()> {
    check_places(spec)?;
    if is_array && let Some(shared) = shared_output(spec) {
        return Err(Failure::invalid(format!(
            "all elements of the array would write output {}",
            shared.path
        ))
        .hint("put the index into its path: %a, as in /out/h_%a.root"));
    }
    if spec.script.is_none() && spec.command.first().is_none_or(String::is_empty) {
        return Err(Failure::invalid("job has no command").hint("`bp submit … -- PROGRAM ARGUMENT…`"));
    }
    check_words(spec)?;
    if spec.command.iter().chain(spec.environment.values()).any(|text| text.contains('\0')) {
        return Err(Failure::invalid("command and environment may not contain NUL"));
    }
    if let Some(name) = spec.environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(Failure::invalid(format!("{name:?} is not a name for an environment variable")));
    }
    if spec.resources.cpus == 0 || spec.resources.wall.0 <= 0 {
        return Err(Failure::invalid("a job needs at least one CPU slot and a wall limit above zero"));
    }
    if spec.resources.cpus > CPU_SLOTS_MAX {
        return Err(Failure::invalid(format!("a job cannot have more than {CPU_SLOTS_MAX} CPU slots")));
    }
    if spec.inputs.len() + spec.outputs.len() > JOB_FILES_MAX {
        return Err(Failure::invalid(format!("job names more than {JOB_FILES_MAX} files")));
    }
    check_names(spec)?;
    check_targets(spec)
}

/// An output that is one file for all elements of an array.
fn shared_output(spec: &JobSpec) -> Option<&JobOutput> {
    spec.outputs
        .iter()
        .find(|output| output.kind() == OutputKind::File && !output.path.as_str().contains("%a"))
}

/// Refuses scripts, labels and names of files that a worker cannot use.
fn check_places(spec: &JobSpec) -> Result<()> {
    if let Some(script) = spec.script.as_ref().filter(|script| script.len() > SCRIPT_BYTES_MAX) {
        let what = format!("the script has {} bytes; it may have {SCRIPT_BYTES_MAX}", script.len());
        return Err(Failure::invalid(what).hint("store it as a file, and name that as an input"));
    }
    for path in [&spec.directory, &spec.stdout, &spec.stderr].into_iter().flatten() {
        if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return Err(Failure::invalid(format!("{path:?} is no path of a worker's host")));
        }
    }
    let is_label =
        |label: &String| !label.is_empty() && label.len() <= 255 && !label.contains([',', '\0', '\n']);
    if spec.constraints.len() > LABELS_MAX || !spec.constraints.iter().all(is_label) {
        return Err(Failure::invalid(format!("a job may ask for {LABELS_MAX} labels, each a word")));
    }
    let texts = [&spec.comment, &spec.account];
    if texts.into_iter().flatten().any(|text| text.len() > TEXT_BYTES_MAX || text.contains(char::is_control))
    {
        return Err(Failure::invalid(format!(
            "comment and account have {TEXT_BYTES_MAX} bytes at most, of one line"
        )));
    }
    if spec.retries > RETRIES_MAX {
        return Err(Failure::invalid(format!("{} retries; a job may have {RETRIES_MAX}", spec.retries)));
    }
    Ok(())
}

/// Refuses what no kernel takes, and names that make lists unreadable.
fn check_words(spec: &JobSpec) -> Result<()> {
    if spec.name.len() > JOB_NAME_BYTES_MAX || spec.name.contains(char::is_control) {
        return Err(Failure::invalid(format!(
            "the job's name has {} bytes or control characters; it may have {JOB_NAME_BYTES_MAX} bytes",
            spec.name.len()
        ))
        .hint("give it a short one: `bp submit --name NAME`"));
    }
    let variables = spec.environment.iter().map(|(name, value)| name.len() + 1 + value.len());
    let lengths = || spec.command.iter().map(String::len).chain(variables.clone());
    if let Some(long) = lengths().find(|length| *length > JOB_WORD_BYTES_MAX) {
        return Err(Failure::invalid(format!(
            "a word of the command or a variable of the environment has {long} bytes; the kernel takes \
                {JOB_WORD_BYTES_MAX}"
        ))
        .hint("put it in a file, and name that as an input"));
    }
    let all: usize = lengths().sum();
    if all > JOB_WORDS_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "command and environment have {all} bytes; a job may have {JOB_WORDS_BYTES_MAX}"
        ))
        .hint("put them in a file, and name that as an input"));
    }
    Ok(())
}

fn check_names(spec: &JobSpec) -> Result<()> {
    let mut names = HashSet::new();
    for input in &spec.inputs {
        if !is_plain_name(&input.name) {
            return Err(Failure::invalid(format!("{:?} is not a plain file name", input.name)));
        }
    }
    for output in &spec.outputs {
        if !output.has_good_name() {
            return Err(Failure::invalid(format!(
                "output {:?} is not a path below the scratch directory",
                output.name
            ))
            .hint("plain names with single slashes between them; a directory ends with one"));
        }
    }
    let inputs = spec.inputs.iter().map(|input| &input.name);
    for name in inputs.chain(spec.outputs.iter().map(|output| &output.name)) {
        if !names.insert(name) {
            return Err(Failure::invalid(format!("two files of the job have the name {name:?}"))
                .hint("rename one of them: PATH:NAME"));
        }
    }
    Ok(())
}

/// Refuses outputs of which one would take the place of another.
fn check_targets(spec: &JobSpec) -> Result<()> {
    let mut files = BTreeSet::new();
    for output in spec.outputs.iter().filter(|output| output.kind() == OutputKind::File) {
        if !files.insert(&output.path) {
            return Err(Failure::invalid(format!(
                "two outputs are stored at {}: one would be lost",
                output.path
            ))
            .hint("give each output a path of its own"));
        }
    }
    for output in &spec.outputs {
        let mut above = output.path.parent();
        while let Some(path) = above {
            if files.contains(&path) {
                return Err(Failure::invalid(format!(
                    "output {} is a file, and output {} lies below it",
                    path, output.path
                )));
            }
            above = path.parent();
        }
        if output.kind() != OutputKind::File && files.contains(&output.path) {
            return Err(Failure::invalid(format!("output {} is a file and a directory", output.path)));
        }
    }
    Ok(())
}
