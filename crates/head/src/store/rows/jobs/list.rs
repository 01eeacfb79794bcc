//! Lists of jobs: filtered in the database, so that long ones cost what is shown.

use super::{JOB, JobRow, job};
use crate::store::{
    Store, StoreResult,
    engine::{Cell, Params},
};
use base::JobId;
use wire::control::JobFilter;

/// Texts as parameters, however many they are.
struct Texts(Vec<String>);

impl Params for Texts {
    fn with<Out>(&self, give: impl FnOnce(&[Cell<'_>]) -> Out) -> Out {
        let cells: Vec<_> = self.0.iter().map(|text| Cell::Text(text)).collect();
        give(&cells)
    }
}

/// The condition of a filter, and its parameters.
fn condition(filter: &JobFilter, active_only: bool) -> (String, Texts) {
    let (mut parts, mut texts) = (Vec::new(), Vec::new());
    if active_only {
        parts.push("state IN ('held','queued','running','archiving')".to_owned());
    }
    if !filter.states.is_empty() {
        let words: Vec<_> = filter.states.iter().map(|state| format!("'{}'", state.as_str())).collect();
        parts.push(format!("state IN ({})", words.join(",")));
    }
    for (column, values) in [("queue", &filter.queues), ("owner", &filter.owners), ("name", &filter.names)] {
        if !values.is_empty() {
            let places = values.iter().enumerate().map(|(at, _)| format!("?{}", texts.len() + at + 1));
            parts.push(format!("{column} IN ({})", places.collect::<Vec<_>>().join(",")));
            texts.extend(values.iter().cloned());
        }
    }
    if let Some(since) = filter.since {
        parts.push(format!("(submitted >= {0} OR ended >= {0})", since.0));
    }
    let all = if parts.is_empty() { "1 = 1".to_owned() } else { parts.join(" AND ") };
    (all, Texts(texts))
}

impl Store {
    /// Jobs to which a filter applies, the newest first: each element of an array by itself.
    pub(crate) fn list_jobs(
        &self,
        filter: &JobFilter,
        active_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<JobRow>> {
        let (condition, texts) = condition(filter, active_only);
        self.all(&format!("SELECT {JOB} WHERE {condition} ORDER BY id DESC LIMIT {limit}"), texts, job)
    }

    /// The same, but of each array only the first element.
    pub(crate) fn list_arrays_and_jobs(
        &self,
        filter: &JobFilter,
        active_only: bool,
        limit: usize,
    ) -> StoreResult<Vec<JobRow>> {
        let (condition, texts) = condition(filter, active_only);
        let single =
            format!("SELECT {JOB} WHERE {condition} AND array_of IS NULL ORDER BY id DESC LIMIT {limit}");
        let mut rows = self.all(&single, &texts, job)?;
        let arrays = format!(
            "SELECT DISTINCT array_of FROM job WHERE {condition} AND array_of IS NOT NULL
             ORDER BY array_of DESC LIMIT {limit}"
        );
        for array in self.all(&arrays, &texts, |row| row.get(0).map(JobId))? {
            rows.extend(self.job(array)?);
        }
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.id));
        rows.truncate(limit);
        Ok(rows)
    }
}
