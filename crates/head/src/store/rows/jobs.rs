//! Rows of workers and jobs.

mod active;
mod arrays;
mod costs;
mod deliveries;
mod dependencies;
mod insert;
mod list;
mod queues;
mod running;
mod whole;

use crate::{
    store::{Store, StoreResult, document, engine::Row, json, maybe_document, word},
    waiters::Awaited,
};
pub(in crate::store) use active::ActiveCell;
pub(crate) use active::{ActiveJob, ActiveJobs, Line, QueueCounts, Wish};
pub(crate) use arrays::ArrayRow;
use base::{FileId, JobId, Millis, Timestamp};
pub(crate) use costs::{CostRow, TapeCost};
pub(crate) use dependencies::{DependencyRow, DependencyState};
pub(crate) use insert::NewJobs;
pub(crate) use queues::{QueueRow, QueueTable};
pub(crate) use running::Running;
use wire::control::{
    ArrayElement, HoldKind, JobExit, JobInfo, JobRun, JobSpec, JobState, JobText, JobUsers, Usage,
};

/// Whether a job reads or writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobFileRole {
    Input,
    Output,
}

impl JobFileRole {
    fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// Who submits a job, as the head has proven.
pub(crate) struct JobOwner<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) is_facility_owner: bool,
}

/// A worker in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerRow {
    pub(crate) name: String,
    /// Empty: it is in the head's own process.
    pub(crate) host: String,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) not_enforced: Vec<String>,
    pub(crate) users: JobUsers,
    pub(crate) labels: Vec<String>,
    pub(crate) architecture: String,
    /// It takes no more jobs. Written by its own call, never by a registration.
    pub(crate) is_draining: bool,
}

/// A job in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) owner: String,
    /// Of the owner, as they were proven at the submission.
    pub(crate) groups: Vec<String>,
    /// Whether the facility's owner submitted it, as was proven then; `false` for jobs older than this column.
    pub(crate) is_of_facility_owner: bool,
    /// Whose share it is counted to, with the owner.
    pub(crate) group: String,
    /// What to run, with what was altered since.
    pub(crate) spec: JobSpec,
    pub(crate) queue: String,
    pub(crate) holds: Vec<HoldKind>,
    pub(crate) array: Option<ArrayElement>,
    /// Runs that failed and were tried again.
    pub(crate) failures: u32,
    pub(crate) state: JobState,
    pub(crate) reason: Option<String>,
    pub(crate) worker: Option<String>,
    /// The current run has a shepherd.
    pub(crate) has_begun: bool,
    pub(crate) is_cancelled: bool,
    pub(crate) attempt: u32,
    pub(crate) exit: Option<JobExit>,
    pub(crate) usage: Option<Usage>,
    /// User of the worker's host whom it runs as.
    pub(crate) run_as: Option<String>,
    pub(crate) not_enforced: Vec<String>,
    pub(crate) submitted: Timestamp,
    pub(crate) started: Option<Timestamp>,
    pub(crate) ended: Option<Timestamp>,
}

impl JobRow {
    pub(crate) fn run(&self) -> JobRun {
        JobRun { job: self.id, attempt: self.attempt }
    }

    /// The job that files of a role are noted for: elements of an array share their inputs.
    pub(crate) fn holder_of(&self, role: JobFileRole) -> JobId {
        if role == JobFileRole::Input { self.shared() } else { self.id }
    }

    /// The job whose inputs and dependencies are its own: itself, or the first element of its array.
    pub(crate) fn shared(&self) -> JobId {
        self.array.map_or(self.id, |element| element.array)
    }

    pub(crate) fn info(&self, reason: Option<String>) -> JobInfo {
        JobInfo {
            queue: self.queue.clone(),
            priority: self.spec.priority,
            holds: self.holds.clone(),
            array: self.array,
            elements: None,
            waits_for: None,
            id: self.id,
            owner: self.owner.clone(),
            spec: self.spec.clone(),
            state: self.state,
            reason,
            worker: self.worker.clone(),
            exit: self.exit.clone(),
            usage: self.usage,
            run_as: self.run_as.clone(),
            not_enforced: self.not_enforced.clone(),
            attempt: self.attempt,
            submitted: self.submitted,
            started: self.started,
            ended: self.ended,
            costs: None,
        }
    }
}

pub(in crate::store) const JOB: &str =
    "id, owner, CASE WHEN spec = '' THEN (SELECT f.spec FROM job f WHERE f.id = job.array_of) ELSE spec END, state, reason,
    worker, has_begun, is_cancelled, attempt, exit, usage, submitted, started, ended, owner_groups, by_facility_owner, run_as,
    not_enforced, grp, queue, priority, name, cpus, memory, wall, holds, array_of, idx, begins, deadline, failures FROM job";

pub(in crate::store) fn job(row: &Row<'_>) -> StoreResult<JobRow> {
    Ok(JobRow {
        id: JobId(row.get(0)?),
        owner: row.get(1)?,
        spec: spec(row)?,
        state: word(row, 3)?,
        reason: row.get(4)?,
        worker: row.get(5)?,
        has_begun: row.get(6)?,
        is_cancelled: row.get(7)?,
        attempt: row.get(8)?,
        exit: maybe_document(row, 9)?,
        usage: maybe_document(row, 10)?,
        submitted: Timestamp(row.get(11)?),
        started: row.get::<Option<i64>>(12)?.map(Timestamp),
        ended: row.get::<Option<i64>>(13)?.map(Timestamp),
        groups: document(row, 14)?,
        is_of_facility_owner: row.get(15)?,
        run_as: row.get(16)?,
        not_enforced: document(row, 17)?,
        group: row.get(18)?,
        queue: row.get(19)?,
        holds: read_holds(row.get(25)?),
        array: row
            .get::<Option<u64>>(26)?
            .map(|array| {
                Ok::<_, crate::store::StoreError>(ArrayElement { array: JobId(array), index: row.get(27)? })
            })
            .transpose()?,
        failures: row.get(30)?,
    })
}

/// The specification, with what was altered since the submission: that stands in columns of its own.
fn spec(row: &Row<'_>) -> StoreResult<JobSpec> {
    let mut spec: JobSpec = document(row, 2)?;
    spec.queue = Some(row.get(19)?);
    spec.priority = row.get(20)?;
    spec.name = row.get(21)?;
    spec.resources.cpus = row.get(22)?;
    spec.resources.memory_bytes = row.get(23)?;
    spec.resources.wall = Millis(row.get(24)?);
    spec.begin = row.get::<Option<i64>>(28)?.map(Timestamp);
    spec.deadline = row.get::<Option<i64>>(29)?.map(Timestamp);
    if let Some(index) = row.get::<Option<u32>>(27)? {
        arrays::name_outputs(&mut spec, row.get(26)?, index);
    }
    Ok(spec)
}

const HOLDS: [(HoldKind, char); 3] =
    [(HoldKind::User, 'u'), (HoldKind::Operator, 'o'), (HoldKind::System, 's')];

fn read_holds(text: &str) -> Vec<HoldKind> {
    HOLDS.iter().filter(|(_, letter)| text.contains(*letter)).map(|(kind, _)| *kind).collect()
}

/// Holds as a column has them: a letter for each, in a fixed order.
fn holds_text(holds: &[HoldKind]) -> String {
    HOLDS.iter().filter(|(kind, _)| holds.contains(kind)).map(|(_, letter)| *letter).collect()
}

impl Store {
    pub(crate) fn put_worker(&self, worker: &WorkerRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO worker (name, cpus, memory, not_enforced, host, users, labels, architecture)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (name) DO UPDATE SET cpus = ?2, memory = ?3, not_enforced = ?4, host = ?5, users = ?6,
                 labels = ?7, architecture = ?8",
            (
                &worker.name,
                worker.cpus,
                worker.memory,
                json(&worker.not_enforced),
                &worker.host,
                json(&worker.users),
                json(&worker.labels),
                &worker.architecture,
            ),
        )
    }

    /// Notes whether a worker takes no more jobs.
    pub(crate) fn set_worker_draining(&self, name: &str, is_draining: bool) -> StoreResult<()> {
        self.run("UPDATE worker SET is_draining = ?2 WHERE name = ?1", (name, is_draining))
    }

    pub(crate) fn delete_worker(&self, name: &str) -> StoreResult<()> {
        self.run("DELETE FROM job_delivery WHERE worker = ?1", (name,))?;
        self.run("DELETE FROM worker WHERE name = ?1", (name,))
    }

    pub(crate) fn workers(&self) -> StoreResult<Vec<WorkerRow>> {
        self.all(
            "SELECT name, cpus, memory, not_enforced, host, users, labels, architecture, is_draining FROM worker
             ORDER BY name",
            (),
            |row| {
                Ok(WorkerRow {
                    name: row.get(0)?,
                    cpus: row.get(1)?,
                    memory: row.get(2)?,
                    not_enforced: document(row, 3)?,
                    host: row.get(4)?,
                    users: document(row, 5)?,
                    labels: document(row, 6)?,
                    architecture: row.get(7)?,
                    is_draining: row.get(8)?,
                })
            },
        )
    }

    pub(crate) fn job(&self, id: JobId) -> StoreResult<Option<JobRow>> {
        self.maybe(&format!("SELECT {JOB} WHERE id = ?1"), (id.0,), job)
    }

    /// How many jobs are not over.
    pub(crate) fn active_jobs_len(&self) -> StoreResult<u64> {
        Ok(self.active()?.len())
    }

    /// Writes every column of a job that changes during its life.
    pub(crate) fn save_job(&self, job: &JobRow) -> StoreResult<()> {
        self.note_changed(Awaited::Job(job.id));
        self.follow(job)?;
        self.run(
            "UPDATE job SET state = ?2, reason = ?3, worker = ?4, has_begun = ?5, is_cancelled = ?6, attempt = ?7,
             exit = ?8, usage = ?9, started = ?10, ended = ?11, run_as = ?12, not_enforced = ?13, queue = ?14,
             priority = ?15, name = ?16, cpus = ?17, memory = ?18, wall = ?19, holds = ?20, begins = ?21, deadline = ?22,
             failures = ?23 WHERE id = ?1",
            (
                job.id.0,
                job.state.as_str(),
                &job.reason,
                &job.worker,
                job.has_begun,
                job.is_cancelled,
                job.attempt,
                job.exit.as_ref().map(json),
                job.usage.as_ref().map(json),
                job.started.map(|at| at.0),
                job.ended.map(|at| at.0),
                &job.run_as,
                json(&job.not_enforced),
                &job.queue,
                job.spec.priority,
                &job.spec.name,
                job.spec.resources.cpus,
                job.spec.resources.memory_bytes,
                job.spec.resources.wall.0,
                holds_text(&job.holds),
                job.spec.begin.map(|at| at.0),
                job.spec.deadline.map(|at| at.0),
                job.failures,
            ),
        )
    }

    pub(crate) fn set_job_text(&self, id: JobId, text: &JobText) -> StoreResult<()> {
        self.run("UPDATE job SET stdout = ?2, stderr = ?3 WHERE id = ?1", (id.0, &text.stdout, &text.stderr))
    }

    pub(crate) fn job_text(&self, id: JobId) -> StoreResult<Option<JobText>> {
        self.maybe("SELECT stdout, stderr FROM job WHERE id = ?1", (id.0,), |row| {
            Ok(JobText { stdout: row.get(0)?, stderr: row.get(1)? })
        })
    }

    pub(crate) fn put_job_file(
        &self,
        job: JobId,
        role: JobFileRole,
        index: usize,
        file: FileId,
    ) -> StoreResult<()> {
        self.run(
            "INSERT INTO job_file (job, role, idx, file) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (job, role, idx) DO UPDATE SET file = ?4",
            (job.0, role.as_str(), index, file.0),
        )
    }

    /// Files of a job in the order of its specification.
    pub(crate) fn job_files(&self, job: JobId, role: JobFileRole) -> StoreResult<Vec<FileId>> {
        self.all(
            "SELECT file FROM job_file WHERE job = ?1 AND role = ?2 ORDER BY idx",
            (job.0, role.as_str()),
            |row| row.get(0).map(FileId),
        )
    }

    /// Jobs in `state` that read or write a file.
    pub(crate) fn jobs_with_file(
        &self,
        file: FileId,
        role: JobFileRole,
        state: JobState,
    ) -> StoreResult<Vec<JobId>> {
        self.all(
            "SELECT j.id FROM job_file f JOIN job j ON j.id = f.job
             WHERE f.file = ?1 AND f.role = ?2 AND j.state = ?3
             UNION SELECT j.id FROM job_file f JOIN job j ON j.array_of = f.job
             WHERE f.file = ?1 AND f.role = ?2 AND f.role = 'input' AND j.state = ?3 ORDER BY 1",
            (file.0, role.as_str(), state.as_str()),
            |row| row.get(0).map(JobId),
        )
    }

    /// How many files of a job, in that role, have no replica (inputs) or no copy (outputs).
    pub(crate) fn job_files_missing(&self, job: JobId, role: JobFileRole) -> StoreResult<u64> {
        let sql = match role {
            // A replica, or enough different pieces, can be read; pieces are counted only where there is no replica. A LIMIT
            // keeps PostgreSQL from reading the whole table once.
            JobFileRole::Input => {
                "SELECT count(*) FROM job_file f WHERE f.job = ?1 AND f.role = 'input' AND NOT
                 ((SELECT 1 FROM replica r WHERE r.file = f.file AND r.state = 'online' AND r.needed = 1 LIMIT 1) IS NOT NULL
                 OR coalesce((SELECT count(DISTINCT r.piece) >= min(r.needed) FROM replica r
                 WHERE r.file = f.file AND r.state = 'online'), FALSE))"
            }
            JobFileRole::Output => {
                "SELECT count(*) FROM job_file f WHERE f.job = ?1 AND f.role = 'output' AND
                 (NOT EXISTS (SELECT 1 FROM copy c WHERE c.file = f.file)
                  OR EXISTS (SELECT 1 FROM missing_copy m WHERE m.file = f.file))"
            }
        };
        self.one(sql, (job.0,), |row| row.get(0))
    }
}
