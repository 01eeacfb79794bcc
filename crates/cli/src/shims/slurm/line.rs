//! A line of `squeue` or `sacct`: a job, or the waiting elements of an array together.

use super::{
    site::Site,
    span::{self, UNLIMITED},
    state::{self, State},
};
use base::{JobId, Millis, Timestamp};
use std::collections::BTreeMap;
use wire::control::{ArrayElement, IndexRange, JobInfo};

/// A job, or several elements of an array that wait for the same.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) job: JobInfo,
    /// The indices it stands for, as Slurm writes them: `4,9%2`.
    pub(crate) indices: Option<String>,
}

impl Line {
    pub(crate) fn state(&self) -> State {
        state::of(&self.job)
    }

    /// The job's number, which every element of an array has, too.
    pub(crate) fn raw_id(&self) -> JobId {
        self.job.id
    }

    /// The number that names the job, or its array.
    pub(crate) fn array_id(&self) -> JobId {
        self.job.array.map_or(self.job.id, |element| element.array)
    }

    /// `7`, `7_3`, `7_[4,9%2]`
    pub(crate) fn id(&self) -> String {
        match (&self.indices, self.job.array) {
            (Some(indices), _) => format!("{}_[{indices}]", self.array_id()),
            (None, Some(ArrayElement { array, index })) => format!("{array}_{index}"),
            (None, None) => self.job.id.to_string(),
        }
    }

    /// The index, or the indices it stands for.
    pub(crate) fn task(&self) -> Option<String> {
        self.indices.clone().or_else(|| self.job.array.map(|element| element.index.to_string()))
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Millis {
        let started = self.job.started.filter(|_| self.state() != State::Pending);
        started.map_or(Millis(0), |started| {
            let end = if self.state().is_over() { self.job.ended.unwrap_or(started) } else { now };
            Millis((end - started).0.max(0))
        })
    }

    /// Its wall limit; none if it has none worth the name.
    pub(crate) fn limit(&self) -> Option<Millis> {
        Some(self.job.spec.resources.wall).filter(|wall| wall.0 > 0 && *wall < UNLIMITED)
    }

    /// When it began, or is to begin.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        if self.state() == State::Pending { self.job.spec.begin } else { self.job.started }
    }

    /// When it ended, or has to.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        match self.state() {
            State::Pending => None,
            state if state.is_over() => self.job.ended,
            _ => Some(self.job.started? + self.limit()?),
        }
    }

    /// The worker that runs or ran it.
    pub(crate) fn node(&self) -> &str {
        match self.state() {
            State::Pending => "",
            _ => self.job.worker.as_deref().unwrap_or_default(),
        }
    }

    /// The worker, or in parentheses why it does not run.
    pub(crate) fn node_or_reason(&self) -> String {
        match self.state() {
            State::Pending | State::Failed | State::Timeout | State::Deadline | State::OutOfMemory => {
                format!("({})", state::reason(&self.job))
            }
            _ => self.node().to_owned(),
        }
    }

    /// Where its output goes, with the patterns replaced that are known.
    pub(crate) fn file(&self, pattern: Option<&str>) -> String {
        let Some(pattern) = pattern else { return "/dev/null".to_owned() };
        let mut text = String::new();
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match (letter, letter == '%') {
                (_, true) => text.push_str(&self.replaced(letters.next())),
                _ => text.push(letter),
            }
        }
        text
    }

    fn replaced(&self, letter: Option<char>) -> String {
        match letter {
            Some('j') => self.job.id.to_string(),
            Some('A') => self.array_id().to_string(),
            Some('a') => self.task().unwrap_or_else(|| "4294967294".to_owned()),
            Some('x') => self.job.spec.name.clone(),
            Some('u') => self.job.owner.clone(),
            Some('N') => self.job.worker.clone().unwrap_or_default(),
            Some('%') => "%".to_owned(),
            other => other.into_iter().fold("%".to_owned(), |text, letter| text + &letter.to_string()),
        }
    }

    /// Its wall limit as `squeue` shows it.
    pub(crate) fn limit_text(&self) -> String {
        self.limit().map_or_else(|| "UNLIMITED".to_owned(), span::short)
    }

    /// How long it may still run.
    pub(crate) fn left_text(&self, site: &Site) -> String {
        self.limit().map_or_else(
            || "UNLIMITED".to_owned(),
            |limit| span::short(Millis(limit.0 - self.elapsed(site.now).0)),
        )
    }
}

/// Each job by itself, but waiting elements of one array that wait for the same together.
pub(crate) fn grouped(jobs: Vec<JobInfo>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut places: BTreeMap<(JobId, &'static str), (usize, Vec<u32>)> = BTreeMap::new();
    for job in jobs {
        let Some(element) = job.array.filter(|_| state::of(&job) == State::Pending) else {
            lines.push(Line { job, indices: None });
            continue;
        };
        match places.get_mut(&(element.array, state::reason(&job))) {
            Some((_, indices)) => indices.push(element.index),
            None => {
                let key = (element.array, state::reason(&job));
                places.insert(key, (lines.len(), vec![element.index]));
                lines.push(Line { job, indices: None });
            }
        }
    }
    for (at, indices) in places.into_values() {
        let most = lines[at].job.elements.as_ref().and_then(|elements| elements.running_max);
        lines[at].indices = Some(with_most(&ranges(indices), most));
    }
    lines
}

/// Each job by itself.
pub(crate) fn single(jobs: Vec<JobInfo>) -> Vec<Line> {
    jobs.into_iter().map(|job| Line { job, indices: None }).collect()
}

fn with_most(indices: &str, most: Option<u32>) -> String {
    most.map_or_else(|| indices.to_owned(), |most| format!("{indices}%{most}"))
}

/// `0-3,5`: tools read no steps.
pub(crate) fn ranges(mut indices: Vec<u32>) -> String {
    indices.sort_unstable();
    indices.dedup();
    let mut found: Vec<IndexRange> = Vec::new();
    for index in indices {
        match found.last_mut() {
            Some(last) if last.end + 1 == index => last.end = index,
            _ => found.push(IndexRange { start: index, end: index, step: 1 }),
        }
    }
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::slurm::sample;
    use proptest::prelude::*;
    use wire::control::{JobState, WaitCause};

    fn waiting(array: u64, index: u32, cause: WaitCause) -> JobInfo {
        let job = JobInfo {
            waits_for: Some(cause),
            state: JobState::Held,
            ..sample::job(array + u64::from(index))
        };
        sample::element(job, array, index)
    }

    #[test]
    fn waiting_elements_of_an_array_are_one_line_for_each_reason() {
        let lines = grouped(vec![
            waiting(2, 4, WaitCause::ArrayLimit),
            sample::running(9),
            waiting(2, 0, WaitCause::ArrayLimit),
            waiting(2, 5, WaitCause::ArrayLimit),
            waiting(2, 7, WaitCause::HeldByUser),
            sample::element(sample::running(12), 2, 10),
        ]);
        let shown: Vec<String> =
            lines.iter().map(|line| format!("{} {}", line.id(), line.node_or_reason())).collect();
        assert_eq!(shown, ["2_[0,4-5] (JobArrayTaskLimit)", "9 n1", "2_[7] (JobHeldUser)", "2_10 n1"]);
        assert_eq!(lines[0].task().unwrap(), "0,4-5");
    }

    #[test]
    fn names_of_files_are_made_as_the_worker_makes_them() {
        let line = Line { job: sample::element(sample::running(12), 2, 10), indices: None };
        assert_eq!(line.file(Some("/d/%x-%A_%a.%j.%u@%N%%%q%")), "/d/long-2_10.12.root@n1%%q%");
        assert_eq!(line.file(None), "/dev/null");
    }

    #[test]
    fn times_of_a_job() {
        let site = sample::site();
        let line = Line { job: sample::running(1), indices: None };
        assert_eq!(line.elapsed(site.now), Millis(9000));
        assert_eq!((line.limit_text(), line.left_text(&site)), ("10:00".to_owned(), "9:51".to_owned()));
        let waits = Line { job: sample::job(1), indices: None };
        assert_eq!((waits.elapsed(site.now), waits.start(), waits.end()), (Millis(0), None, None));
    }

    proptest! {
        #[test]
        fn ranges_name_every_index_once(indices in prop::collection::vec(0u32..40, 0..30)) {
            let text = ranges(indices.clone());
            let mut read: Vec<u32> = Vec::new();
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let range: IndexRange = part.parse().unwrap();
                read.extend(range.start..=range.end);
            }
            let mut expected = indices;
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(read, expected);
        }
    }
}
