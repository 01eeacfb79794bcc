//! `--dependency=afterok:1:2,singleton`.

use wire::control::{DependencyKind, JobDependency};

/// Other jobs that one job may wait for.
const DEPENDENCIES_MAX: usize = 1000;

/// Reads dependencies, all of which must be fulfilled.
pub(crate) fn read(text: &str) -> Result<Vec<JobDependency>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.contains('?') {
        return Err(problem("alternatives (?) are not supported here"));
    }
    let mut found = Vec::new();
    for one in text.split(',') {
        condition(one.trim(), &mut found)?;
        if found.len() > DEPENDENCIES_MAX {
            return Err(problem(&format!("a job may wait for {DEPENDENCIES_MAX} others")));
        }
    }
    Ok(found)
}

fn problem(why: &str) -> String {
    format!("Batch job submission failed: Job dependency problem: {why}")
}

/// `afterok:1:2`, or a bare number, which means `afterany`.
fn condition(text: &str, found: &mut Vec<JobDependency>) -> Result<(), String> {
    let (word, jobs) = text.split_once(':').unwrap_or((text, ""));
    let kind = match word.to_ascii_lowercase().as_str() {
        "singleton" if jobs.is_empty() => {
            found.push(JobDependency { kind: DependencyKind::Singleton, job: None });
            return Ok(());
        }
        "after" => DependencyKind::After,
        "afterany" => DependencyKind::AfterAny,
        "afterok" => DependencyKind::AfterOk,
        "afternotok" => DependencyKind::AfterNotOk,
        "aftercorr" => DependencyKind::AfterCorr,
        number if jobs.is_empty() && number.parse::<u64>().is_ok() => {
            return one(DependencyKind::AfterAny, number, found);
        }
        _ => return Err(problem(&format!("{text:?} is not a dependency"))),
    };
    jobs.split(':').try_for_each(|job| one(kind, job, found))
}

fn one(kind: DependencyKind, text: &str, found: &mut Vec<JobDependency>) -> Result<(), String> {
    if text.contains('+') {
        return Err(problem("a delay (+minutes) is not supported here"));
    }
    // `12_*` is the whole array.
    let job = text.trim().trim_end_matches("_*").parse();
    let job = job.map_err(|_| problem(&format!("{text:?} does not name a job")))?;
    found.push(JobDependency { kind, job: Some(job) });
    Ok(())
}

/// `afterok:1(unfulfilled),singleton(unfulfilled)`, as Slurm shows what a job waits for.
pub(crate) fn shown(dependencies: &[JobDependency]) -> String {
    let one = |dependency: &JobDependency| match &dependency.job {
        Some(job) => format!("{}:{job}(unfulfilled)", dependency.kind.as_str()),
        None => format!("{}(unfulfilled)", dependency.kind.as_str()),
    };
    dependencies.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dependencies_are_read_as_slurm_reads_them() {
        let read = |text| read(text).map(|found| shown(&found));
        assert_eq!(
            read("afterok:1:2,afterany:3_4,singleton").unwrap(),
            "afterok:1(unfulfilled),afterok:2(unfulfilled),afterany:3_4(unfulfilled),singleton(unfulfilled)"
        );
        assert_eq!(read("17").unwrap(), "afterany:17(unfulfilled)");
        assert_eq!(read("AfterCorr:9_*").unwrap(), "aftercorr:9(unfulfilled)");
        assert_eq!(read("").unwrap(), "");
        for bad in [
            "bogus:1",
            "afterok",
            "afterok:",
            "afterok:x",
            "afterok:1?afterok:2",
            "after:1+5",
            "singleton:1",
            ",",
        ] {
            let refused = read(bad).unwrap_err();
            assert!(
                refused.starts_with("Batch job submission failed: Job dependency problem"),
                "{bad}: {refused}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[a-z:,?+0-9_*]{0,30}") {
            let _ = read(&text);
        }
    }
}
