//! Rows of what operators are asked to do.

use crate::store::{
    Store, StoreResult,
    engine::Row,
    rows::{facility::ids::Sequence, requests::vid},
    word,
};
use base::{Timestamp, Vid};
use wire::control::{OperatorAnswer, OperatorRequest, OperatorRequestId};

const ROW: &str =
    "id, vid, place, reason, created, answer, answered, operator, message FROM operator_request";

fn request(row: &Row<'_>) -> StoreResult<OperatorRequest> {
    Ok(OperatorRequest {
        id: OperatorRequestId(row.get(0)?),
        vid: vid(row, 1)?,
        place: row.get(2)?,
        reason: row.get(3)?,
        created: Timestamp(row.get(4)?),
        answer: word(row, 5)?,
        answered: row.get::<Option<i64>>(6)?.map(Timestamp),
        operator: row.get(7)?,
        message: row.get(8)?,
    })
}

impl Store {
    /// Asks an operator to load a volume.
    pub(crate) fn insert_operator_request(
        &self,
        vid: &Vid,
        place: &str,
        reason: &str,
        now: Timestamp,
    ) -> StoreResult<OperatorRequestId> {
        let id = self.next_id(Sequence::OperatorRequest)?;
        self.run(
            "INSERT INTO operator_request (id, vid, place, reason, created, answer, operator, message)
             VALUES (?1, ?2, ?3, ?4, ?5, 'open', '', '')",
            (id, vid.as_str(), place, reason, now.0),
        )?;
        Ok(OperatorRequestId(id))
    }

    pub(crate) fn operator_request(&self, id: OperatorRequestId) -> StoreResult<Option<OperatorRequest>> {
        self.maybe(&format!("SELECT {ROW} WHERE id = ?1"), (id.0,), request)
    }

    /// What is open, then the newest answers.
    pub(crate) fn operator_requests(&self, limit: usize) -> StoreResult<Vec<OperatorRequest>> {
        let sql = format!(
            "SELECT {ROW} ORDER BY CASE answer WHEN 'open' THEN 0 ELSE 1 END, coalesce(answered, 0) DESC, id LIMIT ?1"
        );
        self.all(&sql, (limit,), request)
    }

    pub(crate) fn answer_operator_request(
        &self,
        id: OperatorRequestId,
        answer: OperatorAnswer,
        (operator, message): (&str, &str),
        now: Timestamp,
    ) -> StoreResult<()> {
        self.run(
            "UPDATE operator_request SET answer = ?2, answered = ?3, operator = ?4, message = ?5 WHERE id = ?1",
            (id.0, answer.as_str(), now.0, operator, message),
        )
    }

    /// Forgets answers that are older than the newest `keep`.
    pub(crate) fn trim_operator_requests(&self, keep: usize) -> StoreResult<()> {
        self.run(
            "DELETE FROM operator_request WHERE answer <> 'open' AND id NOT IN (
                 SELECT id FROM operator_request WHERE answer <> 'open' ORDER BY answered DESC, id DESC LIMIT ?1)",
            (keep,),
        )
    }
}
