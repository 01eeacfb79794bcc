//! The house rules of `ARCHITECTURE.md` and `CONVENTIONS.md` that a machine can check, one test for each.
//!
//! A failed rule prints its sentence and every place that breaks it. Exceptions stand in a table beside the rule, with
//! a reason; one that is not needed any more fails too.

mod arrows;
mod calls;
mod flows;
mod hygiene;
mod layers;
mod manifest;
mod mask;
mod pages;
mod paths;
mod shape;
mod source;
mod tree;
mod verbs;
mod words;

/// Passes if nothing breaks the rule, else fails with the sentence and all places.
#[track_caller]
fn hold(rule: &str, mut broken: Vec<String>) {
    broken.sort();
    broken.dedup();
    assert!(broken.is_empty(), "\n{rule}\n  {}\n", broken.join("\n  "));
}

/// A file that may do what others may not, and why.
struct Exception {
    path: &'static str,
    why: &'static str,
}

/// Drops places in excepted files; an exception that excuses nothing is itself reported.
fn except(broken: Vec<String>, exceptions: &[Exception]) -> Vec<String> {
    let excuses = |exception: &Exception, place: &String| {
        place.strip_prefix(exception.path).is_some_and(|rest| rest.starts_with(':'))
    };
    let idle = exceptions.iter().filter(|exception| !broken.iter().any(|place| excuses(exception, place)));
    let idle = idle.map(|exception| {
        format!("{}: the exception is not needed any more ({})", exception.path, exception.why)
    });
    let idle: Vec<_> = idle.collect();
    let left = broken.into_iter();
    let left = left.filter(|place| !exceptions.iter().any(|exception| excuses(exception, place)));
    left.chain(idle).collect()
}
