//! Names of output files with the patterns of Slurm: `%j` and others.

use base::{Failure, Result};
use std::path::{Component, Path, PathBuf};
use wire::control::JobOrder;

/// Widest padding of a number, as in Slurm.
const WIDTH_MAX: usize = 10;
/// What stands for the index of a job that is no element of an array, as in Slurm.
const NO_INDEX: &str = "4294967294";

/// The file that a name with patterns means: below `directory` unless it is absolute.
///
/// `%j` and `%J` are the job, `%A` its array, `%a` its index, `%x` its name, `%u` its user, `%N` the worker, `%n` and `%t` 0, `%%` a
/// percent sign. A number behind `%` pads with zeros.
pub(super) fn output_path(pattern: &str, order: &JobOrder, node: &str) -> Result<PathBuf> {
    let name = expand(pattern, order, node)?;
    let path = match &order.spec.directory {
        _ if name.starts_with('/') => PathBuf::from(name),
        Some(directory) => Path::new(directory).join(name),
        None => {
            return Err(Failure::invalid(format!("output file {pattern:?} has no directory"))
                .hint("give an absolute path, or a working directory: `bp submit --directory DIRECTORY`"));
        }
    };
    check_path(&path)?;
    Ok(path)
}

/// Refuses a path that is not absolute or leads upwards: whatever it names, its parent must be what it says.
pub(super) fn check_path(path: &Path) -> Result<()> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute()
        && path.components().all(is_plain)
        && !path.as_os_str().as_encoded_bytes().contains(&0)
    {
        return Ok(());
    }
    Err(Failure::invalid(format!("{} is not an absolute path without `..`", path.display())))
}

fn expand(pattern: &str, order: &JobOrder, node: &str) -> Result<String> {
    let element = order.array.map(|array| array.element);
    let job = order.run.job.to_string();
    let mut found = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            found.push(letter);
            continue;
        }
        let mut width = 0;
        while let Some(digit) = rest.peek().and_then(|letter| letter.to_digit(10)) {
            width = (width * 10 + digit as usize).min(WIDTH_MAX);
            rest.next();
        }
        let number = match rest.next() {
            Some('j' | 'J') => job.clone(),
            Some('A') => element.map_or_else(|| job.clone(), |element| element.array.to_string()),
            Some('a') => element.map_or_else(|| NO_INDEX.to_owned(), |element| element.index.to_string()),
            Some('n' | 't') => "0".to_owned(),
            other => {
                found.push_str(match other {
                    Some('x') => &order.spec.name,
                    Some('u') => &order.owner,
                    Some('N') => node,
                    Some('%') => "%",
                    // Slurm leaves what it does not know.
                    Some(other) => {
                        found.push('%');
                        found.push(other);
                        continue;
                    }
                    None => "%",
                });
                continue;
            }
        };
        found.extend(std::iter::repeat_n('0', width.saturating_sub(number.len())));
        found.push_str(&number);
    }
    Ok(found)
}
