//! Waiting for files and jobs: shows what waits for what, and why.

use crate::{
    context::{Context, Run},
    progress,
    words::counted,
};
use base::{Failure, FilePath, Millis};
use client::control::WAIT_MAX;
use indicatif::ProgressBar;
use std::{
    collections::{BTreeMap, HashMap},
    thread,
    time::{Duration, Instant},
};
use wire::control::{
    Await, AwaitAny, AwaitJobs, AwaitedJobs, Call, JobInfo, PathOutcome, PathOutcomes, Want,
};

/// How long to wait if nobody says: a week covers any queue that still moves.
pub(crate) const PATIENCE_DEFAULT: Millis = Millis::from_seconds(7 * 86_400);
/// How long one call waits while a person watches, and otherwise. What happens to a file or job is told at once; what the others
/// before it in a queue do, and guesses of when its turn comes, are this old at most.
const LIVELY: Millis = Millis::from_seconds(5);
const CALM: Millis = WAIT_MAX;
/// Shortest time between two calls: the facility holds a call back, but something in between may not.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Reasons shown at once.
const REASONS_MAX: usize = 8;

/// Waits until all files are as wanted, or one cannot become so; returns how they are.
pub(crate) fn files(
    context: &mut Context,
    paths: &[FilePath],
    want: Want,
    patience: Millis,
) -> Run<PathOutcomes> {
    let goal = match want {
        Want::Online => "online",
        Want::Archived => "on tape",
    };
    let call = Await { paths: paths.to_vec(), want };
    let outcomes = wait(context, &call, patience, |outcomes| Progress {
        head: format!(
            "{} of {} {goal}",
            reached(&outcomes.files),
            counted(outcomes.files.len() as u64, "file", "files")
        ),
        items: outcomes.files.iter().map(file_item).collect(),
    })?;
    match outcomes.files.iter().find_map(|file| file.failure.clone()) {
        Some(failure) => Err(failure.into()),
        None => Ok(outcomes),
    }
}

/// Paths that are waited for at once: those behind them come later.
const NEXT_MAX: usize = 1000;

/// Waits until any of the files is on disk or cannot come there; yields these.
pub(crate) fn next_online(context: &mut Context, paths: &[FilePath]) -> Run<Vec<FilePath>> {
    let len = paths.len().min(NEXT_MAX);
    let call = AwaitAny { paths: paths[..len].to_vec(), want: Want::Online };
    let outcomes = silently(context, |context| {
        wait(context, &call, PATIENCE_DEFAULT, |outcomes| Progress {
            head: format!("waits for {} on tape", counted(paths.len() as u64, "file", "files")),
            items: outcomes.files.iter().map(file_item).collect(),
        })
    })?;
    Ok(outcomes.files.into_iter().filter(|file| file.waits.is_none()).map(|file| file.path).collect())
}

fn reached(files: &[PathOutcome]) -> usize {
    files.iter().filter(|file| file.waits.is_none() && file.failure.is_none()).count()
}

fn file_item(file: &PathOutcome) -> Item {
    let state = file.state.map_or("", |state| state.as_str());
    Item { name: file.path.to_string(), state: state.to_owned(), waits: file.waits.clone() }
}

/// Waits until all jobs are over; returns how they are.
pub(crate) fn jobs(context: &mut Context, call: &AwaitJobs, patience: Millis) -> Run<AwaitedJobs> {
    wait(context, call, patience, |jobs| Progress {
        head: {
            let over = jobs.jobs.iter().filter(|job| job.state.is_over()).count();
            format!("{over} of {} over", counted(jobs.jobs.len() as u64, "job", "jobs"))
        },
        items: jobs.jobs.iter().map(job_item).collect(),
    })
}

fn job_item(job: &JobInfo) -> Item {
    let state = job.state.as_str().to_owned();
    let reason = job.reason.clone().or_else(|| job.worker.as_ref().map(|worker| format!("runs on {worker}")));
    Item {
        name: format!("job {}", job.id),
        waits: (!job.state.is_over()).then(|| reason.unwrap_or_default()),
        state,
    }
}

/// Runs `what` without its news; a spinner is still shown.
pub(crate) fn silently<T>(context: &mut Context, what: impl FnOnce(&mut Context) -> Run<T>) -> Run<T> {
    context.output.hush(true);
    let outcome = what(context);
    context.output.hush(false);
    outcome
}

/// How far the waiting is.
struct Progress {
    head: String,
    items: Vec<Item>,
}

/// One thing that is waited for.
struct Item {
    name: String,
    state: String,
    waits: Option<String>,
}

fn wait<C: Call>(
    context: &mut Context,
    call: &C,
    patience: Millis,
    describe: impl Fn(&C::Reply) -> Progress,
) -> Run<C::Reply> {
    let control = context.control()?;
    let deadline = Instant::now() + Duration::from_millis(patience.0.max(0).unsigned_abs());
    let is_lively = context.output.is_lively();
    let mut view = View { spinner: progress::spinner(&context.output), seen: HashMap::new() };
    let step = if is_lively { LIVELY } else { CALM };
    // The first answer comes at once, so that there is something to see.
    let (mut pause, mut seen) = (Millis(0), None);
    loop {
        let called = Instant::now();
        let reply;
        (reply, seen) = control.call_until_news(call, pause, seen.as_deref())?;
        let progress = describe(&reply);
        view.show(context, &progress)?;
        if !C::is_pending(&reply) {
            view.spinner.finish_and_clear();
            if is_lively {
                context.output.news(&progress.head)?;
            }
            return Ok(reply);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            view.spinner.finish_and_clear();
            return Err(Failure::timeout(format!("gave up waiting: {}", progress.head))
                .hint("the request continues; wait again with a longer --timeout")
                .into());
        }
        if pause.0 > 0 {
            thread::sleep(INTERVAL_MIN.saturating_sub(called.elapsed()));
        }
        pause = step.min(Millis(i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1)));
    }
}

/// What was shown so far.
struct View {
    spinner: ProgressBar,
    /// Name → what was last said of it.
    seen: HashMap<String, String>,
}

impl View {
    fn show(&mut self, context: &mut Context, progress: &Progress) -> Run<()> {
        if context.output.is_lively() {
            self.spinner.set_message(summary(progress));
            return Ok(());
        }
        for item in &progress.items {
            let text = match item.waits.as_deref() {
                None => item.state.clone(),
                Some("") => item.state.clone(),
                Some(waits) => format!("{}: {waits}", item.state),
            };
            if self.seen.get(&item.name) != Some(&text) {
                context.output.news(format!("{}  {text}", item.name))?;
                self.seen.insert(item.name.clone(), text);
            }
        }
        Ok(())
    }
}

/// The head, then each reason with what waits for it; the most frequent first.
fn summary(progress: &Progress) -> String {
    let mut reasons: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in &progress.items {
        if let Some(waits) = item.waits.as_deref() {
            reasons.entry(waits).or_default().push(item);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let left = reasons.len().saturating_sub(REASONS_MAX);
    let mut text = progress.head.clone();
    for (reason, items) in reasons.into_iter().take(REASONS_MAX) {
        let who = match items[..] {
            [one] => format!("{} ({})", one.name, one.state),
            _ => format!("{} and {} more", items[0].name, items.len() - 1),
        };
        text.push_str(&format!("\n  {who}: {reason}"));
    }
    if left > 0 {
        text.push_str(&format!("\n  and {}", counted(left as u64, "more reason", "more reasons")));
    }
    base::shown_lines(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_groups_by_reason() {
        let item = |name: &str, waits: Option<&str>| Item {
            name: name.into(),
            state: "nearline".into(),
            waits: waits.map(str::to_owned),
        };
        let items = vec![
            item("/a", Some("volume BP0001")),
            item("/b", Some("a drive")),
            item("/c", Some("a drive")),
            item("/d", None),
        ];
        let text = summary(&Progress { head: "1 of 4 files online".into(), items });
        assert_eq!(text, "1 of 4 files online\n  /b and 1 more: a drive\n  /a (nearline): volume BP0001");
    }
}
