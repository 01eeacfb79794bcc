//! Rows of the tape queue and of sessions under way.

use crate::{
    store::{
        Store, StoreResult, document,
        engine::Row,
        json,
        rows::{facility::ids::Sequence, volumes::READ_LAST},
        word,
    },
    waiters::Awaited,
};
use base::{FileId, ObjectId, RequestId, SessionId, Timestamp, Vid};
use wire::control::{RequestKind, RequestState};

/// One row of the tape queue, with what the planner needs of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestRow {
    pub(crate) id: RequestId,
    pub(crate) kind: RequestKind,
    pub(crate) file: FileId,
    pub(crate) state: RequestState,
    pub(crate) owner: String,
    pub(crate) attempts: u32,
    pub(crate) not_before: Timestamp,
    pub(crate) reason: Option<String>,
    pub(crate) session: Option<SessionId>,
    pub(crate) object: Option<ObjectId>,
    pub(crate) created: Timestamp,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// The directory of the file.
    pub(crate) directory: FileId,
    /// The group of the file.
    pub(crate) group: String,
    pub(crate) purpose: Purpose,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Purpose {
    /// Somebody waits for it.
    User,
    /// The volume of a copy is to become empty.
    Repack,
    /// The same, of a file that was recalled for it: it leaves the disk afterwards.
    Staged,
}

impl Purpose {
    fn as_word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Repack => "repack",
            Self::Staged => "staged",
        }
    }
}

/// The copy that a queued recall reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetRow {
    pub(crate) request: RequestId,
    pub(crate) vid: Vid,
    pub(crate) fseq: u32,
    pub(crate) block: u64,
    /// Where it begins in its bundle; 0: it lies alone.
    pub(crate) offset: u64,
    pub(crate) library: String,
    /// Lower is read first: see [`READ_LAST`].
    pub(crate) rank: u8,
}

/// A session under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: SessionId,
    pub(crate) drive: String,
    pub(crate) vid: Vid,
    pub(crate) kind: String,
    pub(crate) owners: Vec<String>,
    pub(crate) started: Timestamp,
    /// Groups whose files it writes or reads for somebody who waits.
    pub(crate) groups: Vec<String>,
}

pub(in crate::store) const REQUEST: &str =
    "q.id, q.kind, q.file, q.state, q.owner, q.attempts, q.not_before, q.reason, q.session, q.object,
    q.created, n.size, n.parent, q.purpose, n.grp FROM request q JOIN node n ON n.id = q.file";

pub(in crate::store) fn request(row: &Row<'_>) -> StoreResult<RequestRow> {
    Ok(RequestRow {
        id: RequestId(row.get(0)?),
        kind: word(row, 1)?,
        file: FileId(row.get(2)?),
        state: word(row, 3)?,
        owner: row.get(4)?,
        attempts: row.get(5)?,
        not_before: Timestamp(row.get(6)?),
        reason: row.get(7)?,
        session: row.get::<Option<u64>>(8)?.map(SessionId),
        object: row.get::<Option<u64>>(9)?.map(ObjectId),
        created: Timestamp(row.get(10)?),
        size: row.get(11)?,
        directory: FileId(row.get(12)?),
        purpose: word(row, 13)?,
        group: row.get(14)?,
    })
}

fn session(row: &Row<'_>) -> StoreResult<SessionRow> {
    Ok(SessionRow {
        id: SessionId(row.get(0)?),
        drive: row.get(1)?,
        vid: vid(row, 2)?,
        kind: row.get(3)?,
        owners: document(row, 4)?,
        started: Timestamp(row.get(5)?),
        groups: document(row, 6)?,
    })
}

/// Reads a volume id.
pub(in crate::store) fn vid(row: &Row<'_>, column: usize) -> StoreResult<Vid> {
    row.parse(column, str::parse::<Vid>)
}

impl Store {
    /// Adds a row, or finds the one that is there already.
    pub(crate) fn put_request(
        &self,
        kind: RequestKind,
        file: FileId,
        owner: &str,
        now: Timestamp,
    ) -> StoreResult<RequestId> {
        let sql = "SELECT id FROM request WHERE kind = ?1 AND file = ?2";
        let known = self.maybe_now(sql, (kind.as_str(), file.0), |row| row.get(0))?;
        if let Some(id) = known {
            return Ok(RequestId(id));
        }
        let id = self.next_id(Sequence::Request)?;
        self.run(
            "INSERT INTO request (id, kind, file, state, owner, not_before, created)
             VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?5)",
            (id, kind.as_str(), file.0, owner, now.0),
        )?;
        Ok(RequestId(id))
    }

    pub(crate) fn request(&self, id: RequestId) -> StoreResult<Option<RequestRow>> {
        self.maybe(&format!("SELECT {REQUEST} WHERE q.id = ?1"), (id.0,), request)
    }

    pub(crate) fn request_of(&self, kind: RequestKind, file: FileId) -> StoreResult<Option<RequestRow>> {
        let sql = format!("SELECT {REQUEST} WHERE q.kind = ?1 AND q.file = ?2");
        self.maybe(&sql, (kind.as_str(), file.0), request)
    }

    pub(crate) fn requests_of_file(&self, file: FileId) -> StoreResult<Vec<RequestRow>> {
        self.all(&format!("SELECT {REQUEST} WHERE q.file = ?1"), (file.0,), request)
    }

    pub(crate) fn requests_of_session(&self, session: SessionId) -> StoreResult<Vec<RequestRow>> {
        self.all(&format!("SELECT {REQUEST} WHERE q.session = ?1 ORDER BY q.id"), (session.0,), request)
    }

    /// The whole queue, oldest first.
    pub(crate) fn requests(&self, limit: usize) -> StoreResult<Vec<RequestRow>> {
        self.all(&format!("SELECT {REQUEST} ORDER BY q.created, q.id LIMIT ?1"), (limit,), request)
    }

    /// The copies of every queued recall. Those on volumes that may be read come first.
    pub(crate) fn recall_targets(&self) -> StoreResult<Vec<TargetRow>> {
        let sql = format!(
            "SELECT q.id, c.vid, c.fseq, c.block, c.member_offset, v.library, {READ_LAST}
             FROM request q JOIN copy c ON c.file = q.file JOIN volume v ON v.vid = c.vid
             WHERE q.kind = 'recall' AND q.state = 'queued' ORDER BY q.id, {READ_LAST}, c.id"
        );
        self.all(&sql, (), |row| {
            Ok(TargetRow {
                request: RequestId(row.get(0)?),
                vid: vid(row, 1)?,
                fseq: row.get(2)?,
                block: row.get(3)?,
                offset: row.get(4)?,
                library: row.get(5)?,
                rank: row.get(6)?,
            })
        })
    }

    /// Recalls that no drive works at, of files that have something to be read on a partition.
    pub(crate) fn recalls_beside(&self, partition: &str, limit: usize) -> StoreResult<Vec<RequestRow>> {
        let sql = format!(
            "SELECT {REQUEST} WHERE q.kind = 'recall' AND q.state <> 'active' AND EXISTS (
                 SELECT 1 FROM replica r WHERE r.file = q.file AND r.partition = ?1 AND r.state = 'online')
             ORDER BY q.id LIMIT ?2"
        );
        self.all(&sql, (partition, limit), request)
    }

    pub(crate) fn set_request_active(
        &self,
        id: RequestId,
        session: SessionId,
        object: Option<ObjectId>,
    ) -> StoreResult<()> {
        self.run(
            "UPDATE request SET state = 'active', session = ?2, object = ?3 WHERE id = ?1",
            (id.0, session.0, object.map(|object| object.0)),
        )
    }

    /// Puts a row back in the queue, or among the failed.
    pub(crate) fn set_request_waiting(&self, row: &RequestRow) -> StoreResult<()> {
        self.note_changed(Awaited::File(row.file));
        let state = if row.state == RequestState::Failed { "failed" } else { "queued" };
        self.run(
            "UPDATE request SET state = ?2, attempts = ?3, not_before = ?4, reason = ?5, session = NULL, object = NULL
             WHERE id = ?1",
            (row.id.0, state, row.attempts, row.not_before.0, &row.reason),
        )
    }

    /// Says what a request is for.
    pub(crate) fn set_request_purpose(&self, id: RequestId, purpose: Purpose) -> StoreResult<()> {
        self.run("UPDATE request SET purpose = ?2 WHERE id = ?1", (id.0, purpose.as_word()))
    }

    /// Somebody else goes on with a request.
    pub(crate) fn set_request_owner(&self, id: RequestId, owner: &str) -> StoreResult<()> {
        self.run("UPDATE request SET owner = ?2 WHERE id = ?1", (id.0, owner))
    }

    /// The newest number that was given to a request, or set aside for one.
    pub(crate) fn last_request(&self) -> StoreResult<RequestId> {
        Ok(RequestId(self.sequence_end(Sequence::Request)?.saturating_sub(1)))
    }

    /// Takes back requests that were made in the call under way.
    pub(crate) fn delete_requests_after(&self, last: RequestId) -> StoreResult<()> {
        self.run("DELETE FROM request WHERE id > ?1", (last.0,))
    }

    pub(crate) fn delete_request(&self, id: RequestId) -> StoreResult<()> {
        if let Some(row) = self.request(id)? {
            self.note_changed(Awaited::File(row.file));
        }
        self.run("DELETE FROM request WHERE id = ?1", (id.0,))
    }

    pub(crate) fn insert_session(&self, new: &SessionRow) -> StoreResult<SessionId> {
        let id = self.next_id(Sequence::Session)?;
        self.run(
            "INSERT INTO tape_session (id, drive, vid, kind, owners, started, file_groups)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                id,
                &new.drive,
                new.vid.as_str(),
                &new.kind,
                json(&new.owners),
                new.started.0,
                json(&new.groups),
            ),
        )?;
        Ok(SessionId(id))
    }

    pub(crate) fn session(&self, id: SessionId) -> StoreResult<Option<SessionRow>> {
        const SQL: &str =
            "SELECT id, drive, vid, kind, owners, started, file_groups FROM tape_session WHERE id = ?1";
        self.maybe(SQL, (id.0,), session)
    }

    pub(crate) fn sessions(&self) -> StoreResult<Vec<SessionRow>> {
        self.all(
            "SELECT id, drive, vid, kind, owners, started, file_groups FROM tape_session ORDER BY id",
            (),
            session,
        )
    }

    pub(crate) fn delete_session(&self, id: SessionId) -> StoreResult<()> {
        self.run("DELETE FROM tape_session WHERE id = ?1", (id.0,))
    }
}
