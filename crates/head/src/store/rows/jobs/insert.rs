//! New jobs: one row each, an array in few statements.

use super::{JobOwner, holds_text};
use crate::store::{Store, StoreResult, json, rows::facility::ids::Sequence};
use base::{JobId, Timestamp};
use wire::control::{ArrayRange, HoldKind, JobSpec, JobState};

/// A job, or an array of them.
pub(crate) struct NewJobs<'a> {
    pub(crate) owner: &'a JobOwner<'a>,
    pub(crate) spec: &'a JobSpec,
    pub(crate) queue: &'a str,
    pub(crate) state: JobState,
    pub(crate) holds: &'a [HoldKind],
    pub(crate) array: Option<&'a ArrayRange>,
    pub(crate) key: Option<&'a str>,
    pub(crate) now: Timestamp,
}

impl NewJobs<'_> {
    /// How many they are.
    pub(crate) fn count(&self) -> u64 {
        self.array.map_or(1, ArrayRange::count)
    }
}

impl Store {
    /// Adds a job, or all elements of an array; yields the first. They have numbers that follow each other.
    pub(crate) fn insert_jobs(&self, new: &NewJobs<'_>) -> StoreResult<JobId> {
        let first = self.next_ids(Sequence::Job, new.count())?;
        self.insert_first(first, new)?;
        if let Some(array) = new.array {
            self.insert_array(first, array)?;
            self.insert_elements(first, array)?;
        }
        self.added(JobId(first), new.count(), new.array.and_then(|array| array.running_max))?;
        Ok(JobId(first))
    }

    fn insert_first(&self, id: u64, new: &NewJobs<'_>) -> StoreResult<()> {
        let NewJobs { owner, spec, .. } = new;
        let index = new.array.and_then(|array| array.indices().next());
        self.run(
            "INSERT INTO job (id, owner, spec, state, cpus, memory, submitted, owner_groups, by_facility_owner, queue,
                 priority, grp, name, wall, labels, holds, array_of, idx, begins, deadline, submit_key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
            (
                id,
                owner.name,
                json(spec),
                new.state.as_str(),
                spec.resources.cpus,
                spec.resources.memory_bytes,
                new.now.0,
                json(&owner.groups),
                owner.is_facility_owner,
                new.queue,
                spec.priority,
                owner.groups.first().map_or(owner.name, String::as_str),
                &spec.name,
                spec.resources.wall.0,
                spec.constraints.join(","),
                holds_text(new.holds),
                new.array.map(|_| id),
                index,
                spec.begin.map(|at| at.0),
                spec.deadline.map(|at| at.0),
                new.key,
            ),
        )
    }

    /// All elements but the first, which is there. They share its specification: a million of them hold it once.
    fn insert_elements(&self, first: u64, array: &ArrayRange) -> StoreResult<()> {
        let mut next = first + 1;
        for (at, range) in array.indices.iter().enumerate() {
            let (skipped, count) = if at == 0 { (1, range.count() - 1) } else { (0, range.count()) };
            if count == 0 {
                continue;
            }
            let start = u64::from(range.start) + skipped * u64::from(range.step);
            self.run(
                "INSERT INTO job (id, owner, spec, state, cpus, memory, submitted, owner_groups, by_facility_owner, queue,
                     priority, grp, name, wall, labels, holds, array_of, idx, begins, deadline)
                 WITH RECURSIVE n (i) AS
                     (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < CAST(?5 AS BIGINT))
                 SELECT CAST(?2 AS BIGINT) + n.i, j.owner, '', j.state, j.cpus, j.memory, j.submitted, j.owner_groups,
                     j.by_facility_owner, j.queue, j.priority, j.grp, j.name, j.wall, j.labels, j.holds, j.array_of,
                     CAST(?3 AS BIGINT) + n.i * CAST(?4 AS BIGINT), j.begins, j.deadline
                 FROM n, job j WHERE j.id = ?1",
                (first, next, start, range.step, count),
            )?;
            next += count;
        }
        Ok(())
    }

    /// The job that a user submitted under a key, with how many they are.
    pub(crate) fn job_of_key(&self, owner: &str, key: &str) -> StoreResult<Option<(JobId, u64)>> {
        let sql = "SELECT j.id, coalesce(a.count, 1) FROM job j LEFT JOIN job_array a ON a.id = j.id
             WHERE j.owner = ?1 AND j.submit_key = ?2";
        self.maybe(sql, (owner, key), |row| Ok((JobId(row.get(0)?), row.get(1)?)))
    }
}
