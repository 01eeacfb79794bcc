//! Hosts and invitations.

use super::{Store, StoreResult, document, engine::Row, json};
use base::Timestamp;
use wire::control::Role;

/// A host that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostRow {
    pub(crate) name: String,
    pub(crate) roles: Vec<Role>,
    /// SHA-256 of the key with which it joined, hex.
    pub(crate) key: String,
    /// SHA-256 of the certificate that it shows, hex.
    pub(crate) current: String,
    /// The same of one that it was given since.
    pub(crate) next: Option<String>,
    pub(crate) joined: Timestamp,
    pub(crate) removed: Option<Timestamp>,
}

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvitationRow {
    pub(crate) roles: Vec<Role>,
    pub(crate) expires: Timestamp,
    /// Who has used it.
    pub(crate) host: Option<String>,
}

fn host(row: &Row<'_>) -> StoreResult<HostRow> {
    Ok(HostRow {
        name: row.get(0)?,
        roles: document(row, 1)?,
        key: row.get(2)?,
        current: row.get(3)?,
        next: row.get(4)?,
        joined: Timestamp(row.get(5)?),
        removed: row.get::<Option<i64>>(6)?.map(Timestamp),
    })
}

impl Store {
    /// All hosts by name.
    pub(crate) fn hosts(&self) -> StoreResult<Vec<HostRow>> {
        const SQL: &str = "SELECT name, roles, key, current, next, joined, removed FROM host ORDER BY name";
        self.all(SQL, (), host)
    }

    pub(crate) fn host(&self, name: &str) -> StoreResult<Option<HostRow>> {
        const SQL: &str = "SELECT name, roles, key, current, next, joined, removed FROM host WHERE name = ?1";
        self.maybe(SQL, (name,), host)
    }

    /// Adds a host, or changes it.
    pub(crate) fn put_host(&self, host: &HostRow) -> StoreResult<()> {
        self.run(
            "INSERT INTO host (name, roles, key, current, next, joined, removed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (name) DO UPDATE SET roles = ?2, key = ?3, current = ?4, next = ?5, joined = ?6, removed = ?7",
            (
                &host.name,
                json(&host.roles),
                &host.key,
                &host.current,
                host.next.as_deref(),
                host.joined.0,
                host.removed.map(|at| at.0),
            ),
        )
    }

    pub(crate) fn put_invitation(&self, hash: &str, roles: &[Role], expires: Timestamp) -> StoreResult<()> {
        let sql = "INSERT INTO invitation (hash, roles, expires) VALUES (?1, ?2, ?3)";
        self.run(sql, (hash, json(&roles), expires.0))
    }

    pub(crate) fn invitation(&self, hash: &str) -> StoreResult<Option<InvitationRow>> {
        self.maybe("SELECT roles, expires, host FROM invitation WHERE hash = ?1", (hash,), |row| {
            Ok(InvitationRow { roles: document(row, 0)?, expires: Timestamp(row.get(1)?), host: row.get(2)? })
        })
    }

    pub(crate) fn use_invitation(&self, hash: &str, host: &str) -> StoreResult<()> {
        self.run("UPDATE invitation SET host = ?2 WHERE hash = ?1", (hash, host))
    }

    /// Forgets invitations that ended before `before`, used or not.
    pub(crate) fn forget_invitations(&self, before: Timestamp) -> StoreResult<()> {
        self.run("DELETE FROM invitation WHERE expires < ?1", (before.0,))
    }
}
