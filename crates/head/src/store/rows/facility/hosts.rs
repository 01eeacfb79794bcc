//! Hosts and invitations.

use crate::store::{Store, StoreResult, document, engine::Row, json};
use base::Timestamp;
use std::{collections::BTreeMap, sync::Arc};
use wire::control::{HostNames, Role};

/// Hosts by name, also those that were turned away.
pub(crate) type HostRows = BTreeMap<String, HostRow>;

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
    /// What its certificates may say.
    pub(crate) reached: HostNames,
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
        reached: document(row, 7)?,
    })
}

impl Store {
    /// All hosts by name. They are few and asked for with every open, so all of them are kept in memory.
    pub(crate) fn hosts(&self) -> StoreResult<Arc<HostRows>> {
        if let Some(known) = &*self.hosts.borrow() {
            return Ok(Arc::clone(known));
        }
        const SQL: &str = "SELECT name, roles, key, current, next, joined, removed, reached FROM host";
        let rows = self.all_now(SQL, (), host)?.into_iter().map(|host| (host.name.clone(), host));
        let rows = Arc::new(rows.collect::<HostRows>());
        *self.hosts.borrow_mut() = Some(Arc::clone(&rows));
        Ok(rows)
    }

    pub(crate) fn host(&self, name: &str) -> StoreResult<Option<HostRow>> {
        Ok(self.hosts()?.get(name).cloned())
    }

    /// Adds a host, or changes it.
    pub(crate) fn put_host(&self, host: &HostRow) -> StoreResult<()> {
        self.hosts.take();
        self.run(
            "INSERT INTO host (name, roles, key, current, next, joined, removed, reached) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (name) DO UPDATE SET roles = ?2, key = ?3, current = ?4, next = ?5, joined = ?6, removed = ?7, reached = ?8",
            (
                &host.name,
                json(&host.roles),
                &host.key,
                &host.current,
                host.next.as_deref(),
                host.joined.0,
                host.removed.map(|at| at.0),
                json(&host.reached),
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

    /// Ends invitations that nobody has used.
    pub(crate) fn end_invitations(&self, now: Timestamp) -> StoreResult<()> {
        self.run("UPDATE invitation SET expires = ?1 WHERE host IS NULL AND expires > ?1", (now.0,))
    }

    /// Forgets invitations that ended before `before`, used or not.
    pub(crate) fn forget_invitations(&self, before: Timestamp) -> StoreResult<()> {
        self.run("DELETE FROM invitation WHERE expires < ?1", (before.0,))
    }
}
