//! Rows of stage requests and their files.

use crate::{
    store::{Store, StoreResult, engine::Row, rows::facility::ids::Sequence, word},
    waiters::Awaited,
};
use base::{FileId, Millis, Timestamp};
use wire::control::{StageRequestId, StageState, StagedFile};

/// A stage request without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StageRequestRow {
    pub(crate) id: StageRequestId,
    pub(crate) owner: String,
    pub(crate) created: Timestamp,
    /// When the last of its files was over.
    pub(crate) completed: Option<Timestamp>,
}

/// A file of a stage request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StageFileRow {
    pub(crate) request: StageRequestId,
    /// Its place in the request.
    pub(crate) number: usize,
    /// None: it was refused.
    pub(crate) file: Option<FileId>,
    pub(crate) staged: StagedFile,
}

const FILE: &str = "request, number, file, path, state, error, metadata, lifetime, started, finished";

fn request(row: &Row<'_>) -> StoreResult<StageRequestRow> {
    Ok(StageRequestRow {
        id: StageRequestId(row.get(0)?),
        owner: row.get(1)?,
        created: Timestamp(row.get(2)?),
        completed: row.get::<Option<i64>>(3)?.map(Timestamp),
    })
}

fn file(row: &Row<'_>) -> StoreResult<StageFileRow> {
    let id: u64 = row.get(2)?;
    Ok(StageFileRow {
        request: StageRequestId(row.get(0)?),
        number: row.get::<u64>(1)? as usize,
        file: (id != 0).then_some(FileId(id)),
        staged: StagedFile {
            path: row.get(3)?,
            state: word(row, 4)?,
            error: row.get(5)?,
            metadata: row.get(6)?,
            lifetime: Millis(row.get(7)?),
            started: row.get::<Option<i64>>(8)?.map(Timestamp),
            finished: row.get::<Option<i64>>(9)?.map(Timestamp),
        },
    })
}

impl Store {
    /// Adds a request; its files follow.
    pub(crate) fn insert_stage_request(
        &self,
        owner: &str,
        files: usize,
        now: Timestamp,
    ) -> StoreResult<StageRequestId> {
        let id = self.next_id(Sequence::StageRequest)?;
        let sql = "INSERT INTO stage_request (id, owner, created, files) VALUES (?1, ?2, ?3, ?4)";
        self.run(sql, (id, owner, now.0, files))?;
        Ok(StageRequestId(id))
    }

    pub(crate) fn insert_stage_file(&self, row: &StageFileRow) -> StoreResult<()> {
        let StagedFile { path, state, error, metadata, lifetime, started, finished } = &row.staged;
        self.run(
            "INSERT INTO stage_file (request, number, file, path, state, error, metadata, lifetime, started, finished)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            (
                row.request.0,
                row.number as u64,
                row.file.map_or(0, |file| file.0),
                path,
                state.as_str(),
                error,
                metadata,
                lifetime.0,
                started.map(|at| at.0),
                finished.map(|at| at.0),
            ),
        )
    }

    pub(crate) fn stage_request(&self, id: StageRequestId) -> StoreResult<Option<StageRequestRow>> {
        let sql = "SELECT id, owner, created, completed FROM stage_request WHERE id = ?1";
        self.maybe(sql, (id.0,), request)
    }

    /// The files of a request, in its order.
    pub(crate) fn stage_files(&self, id: StageRequestId) -> StoreResult<Vec<StageFileRow>> {
        let sql = format!("SELECT {FILE} FROM stage_file WHERE request = ?1 ORDER BY number");
        self.all(&sql, (id.0,), file)
    }

    /// What waits for a file.
    pub(crate) fn open_stages_of(&self, id: FileId) -> StoreResult<Vec<StageFileRow>> {
        let sql = format!(
            "SELECT {FILE} FROM stage_file WHERE file = ?1 AND state IN ('submitted', 'started') ORDER BY request"
        );
        self.all(&sql, (id.0,), file)
    }

    /// A drive begins with a session that has the file.
    pub(crate) fn stage_started(&self, file: FileId, now: Timestamp) -> StoreResult<()> {
        for row in self.open_stages_of(file)?.iter().filter(|row| row.staged.state == StageState::Submitted) {
            self.note_changed(Awaited::Stage(row.request));
            self.run(
                "UPDATE stage_file SET state = 'started', started = ?3 WHERE request = ?1 AND number = ?2",
                (row.request.0, row.number as u64, now.0),
            )?;
        }
        Ok(())
    }

    /// A file of a request is over.
    pub(crate) fn end_stage_file(
        &self,
        row: &StageFileRow,
        state: StageState,
        error: Option<&str>,
        now: Timestamp,
    ) -> StoreResult<()> {
        self.note_changed(Awaited::Stage(row.request));
        self.run(
            "UPDATE stage_file SET state = ?3, error = ?4, finished = ?5, started = coalesce(started, ?5)
             WHERE request = ?1 AND number = ?2",
            (row.request.0, row.number as u64, state.as_str(), error, now.0),
        )
    }

    /// Notes that a request is over if none of its files is open. Yields whether it is now.
    pub(crate) fn complete_stage_request(&self, id: StageRequestId, now: Timestamp) -> StoreResult<bool> {
        let changed = self.run_counted(
            "UPDATE stage_request SET completed = ?2 WHERE id = ?1 AND completed IS NULL AND NOT EXISTS (
                 SELECT 1 FROM stage_file WHERE request = ?1 AND state IN ('submitted', 'started'))",
            (id.0, now.0),
        )?;
        Ok(changed > 0)
    }

    pub(crate) fn delete_stage_request(&self, id: StageRequestId) -> StoreResult<()> {
        self.note_changed(Awaited::Stage(id));
        self.run("DELETE FROM stage_file WHERE request = ?1", (id.0,))?;
        self.run("DELETE FROM stage_request WHERE id = ?1", (id.0,))
    }

    /// Requests that were over before a moment, oldest first.
    pub(crate) fn stage_requests_over(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<StageRequestId>> {
        let sql = "SELECT id FROM stage_request WHERE completed < ?1 ORDER BY completed, id LIMIT ?2";
        self.all(sql, (before.0, limit), |row| Ok(StageRequestId(row.get(0)?)))
    }

    /// How many requests are kept, and how many files they have.
    pub(crate) fn stage_counts(&self) -> StoreResult<(u64, u64)> {
        let sql = "SELECT count(*), CAST(coalesce(sum(files), 0) AS BIGINT) FROM stage_request";
        self.one(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))
    }
}
