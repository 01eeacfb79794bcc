//! What jobs wait for: rows of dependencies, and what is asked of other jobs to decide them.

use crate::store::{Store, StoreResult, document, engine::Row, json, word};
use base::{JobId, Timestamp};
use serde::Deserialize;
use wire::control::{DependencyKind, JobDependency, JobSpec, JobState};

/// Whether a dependency is fulfilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DependencyState {
    /// Not yet.
    Waiting,
    Met,
    /// It can never be.
    Never,
}

impl DependencyState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Met => "met",
            Self::Never => "never",
        }
    }
}

/// A dependency of a job, or of all elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DependencyRow {
    /// The job; of an array its first element.
    pub(crate) job: JobId,
    pub(crate) index: u32,
    pub(crate) kind: DependencyKind,
    /// Nothing: any job of the same name and owner.
    pub(crate) on_job: Option<JobId>,
    /// All elements of the array of that number.
    pub(crate) is_whole: bool,
    pub(crate) state: DependencyState,
}

pub(super) const DEPENDENCY: &str = "job, idx, kind, on_job, whole, state FROM job_dependency";

pub(super) fn dependency(row: &Row<'_>) -> StoreResult<DependencyRow> {
    Ok(DependencyRow {
        job: JobId(row.get(0)?),
        index: row.get(1)?,
        kind: word(row, 2)?,
        on_job: row.get::<Option<u64>>(3)?.map(JobId),
        is_whole: row.get(4)?,
        state: word(row, 5)?,
    })
}

/// The stored word of a kind, as serde has it.
fn kind_word(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::After => "after",
        DependencyKind::AfterAny => "after_any",
        DependencyKind::AfterOk => "after_ok",
        DependencyKind::AfterNotOk => "after_not_ok",
        DependencyKind::AfterCorr => "after_corr",
        DependencyKind::Singleton => "singleton",
    }
}

impl Store {
    pub(crate) fn put_dependency(&self, row: &DependencyRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO job_dependency (job, idx, kind, on_job, whole, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (job, idx) DO UPDATE SET kind = ?3, on_job = ?4, whole = ?5, state = ?6",
            (
                row.job.0,
                row.index,
                kind_word(row.kind),
                row.on_job.map(|job| job.0),
                row.is_whole,
                row.state.as_str(),
            ),
        )
    }

    /// Writes what a job, or an array, shows as what it waits for.
    pub(crate) fn set_spec_dependencies(&self, job: JobId, all: &[JobDependency]) -> StoreResult<()> {
        let mut spec: JobSpec =
            self.one("SELECT spec FROM job WHERE id = ?1", (job.0,), |row| document(row, 0))?;
        // Every element of an array asks for the same.
        if spec.dependencies == all {
            return Ok(());
        }
        spec.dependencies = all.to_vec();
        self.run("UPDATE job SET spec = ?2 WHERE id = ?1", (job.0, json(&spec)))
    }

    pub(crate) fn delete_dependencies(&self, job: JobId) -> StoreResult<()> {
        self.run("DELETE FROM job_dependency WHERE job = ?1", (job.0,))
    }

    /// What a job, or an array, waits for or has waited for.
    pub(crate) fn dependencies(&self, job: JobId) -> StoreResult<Vec<DependencyRow>> {
        self.all(&format!("SELECT {DEPENDENCY} WHERE job = ?1 ORDER BY idx"), (job.0,), dependency)
    }

    /// Dependencies that are not decided yet, on a job or on the array that it belongs to.
    pub(crate) fn dependents(&self, job: JobId, array: Option<JobId>) -> StoreResult<Vec<DependencyRow>> {
        let sql = format!(
            "SELECT {DEPENDENCY} WHERE state = 'waiting' AND ((on_job = ?1 AND whole = 0) OR (on_job = ?2 AND whole = 1))"
        );
        self.all(&sql, (job.0, array.unwrap_or(job).0), dependency)
    }

    /// Whether an array has an element in one of these states.
    pub(crate) fn array_has(&self, array: JobId, states: &[JobState]) -> StoreResult<bool> {
        let words: Vec<_> = states.iter().map(|state| format!("'{}'", state.as_str())).collect();
        let sql = format!("SELECT 1 FROM job WHERE array_of = ?1 AND state IN ({}) LIMIT 1", words.join(","));
        Ok(self.maybe(&sql, (array.0,), |_| Ok(()))?.is_some())
    }

    /// The element of an array with an index.
    pub(crate) fn array_element(&self, array: JobId, index: u32) -> StoreResult<Option<JobId>> {
        // By the number that it would have if the array had one range, else by looking through it.
        let sql = "SELECT id FROM job WHERE array_of = ?1 AND idx = ?2";
        self.maybe(sql, (array.0, index), |row| row.get(0).map(JobId))
    }

    /// Whether a job of this owner and name was submitted before another one and is not over.
    pub(crate) fn has_earlier(&self, owner: &str, name: &str, before: JobId) -> StoreResult<bool> {
        let sql = "SELECT 1 FROM job WHERE owner = ?1 AND name = ?2 AND id < ?3
             AND state IN ('held','queued','running','archiving') LIMIT 1";
        Ok(self.maybe(sql, (owner, name, before.0), |_| Ok(()))?.is_some())
    }

    /// The first job of this owner and name that waits until it is the only one.
    pub(crate) fn first_singleton(&self, owner: &str, name: &str) -> StoreResult<Option<JobId>> {
        let sql = "SELECT id FROM job WHERE owner = ?1 AND name = ?2 AND state = 'held' AND EXISTS
             (SELECT 1 FROM job_dependency d WHERE d.job = coalesce(job.array_of, job.id) AND d.kind = 'singleton')
             AND state IN ('held','queued','running','archiving') ORDER BY id LIMIT 1";
        self.maybe(sql, (owner, name), |row| row.get(0).map(JobId))
    }

    /// Held jobs whose time has come.
    pub(crate) fn jobs_begun(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<JobId>> {
        let sql = "SELECT id FROM job WHERE begins IS NOT NULL AND state = 'held' AND begins <= ?1
             ORDER BY begins LIMIT ?2";
        self.all(sql, (now.0, limit), |row| row.get(0).map(JobId))
    }

    /// Jobs whose deadline has passed and that nobody ends yet.
    pub(crate) fn jobs_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<JobId>> {
        let sql = "SELECT id FROM job WHERE deadline IS NOT NULL AND state IN ('held','queued','running')
             AND deadline <= ?1 AND is_cancelled = 0 ORDER BY deadline LIMIT ?2";
        self.all(sql, (now.0, limit), |row| row.get(0).map(JobId))
    }

    /// When the next job may begin, or has to be over.
    pub(crate) fn jobs_next_time(&self) -> StoreResult<Option<Timestamp>> {
        const BEGINS: &str = "SELECT min(begins) FROM job WHERE begins IS NOT NULL AND state = 'held'";
        const DEADLINE: &str = "SELECT min(deadline) FROM job WHERE deadline IS NOT NULL
             AND state IN ('held','queued','running') AND is_cancelled = 0";
        let time = |sql| self.one(sql, (), |row| row.get::<Option<i64>>(0));
        Ok(time(BEGINS)?.into_iter().chain(time(DEADLINE)?).min().map(Timestamp))
    }
}
