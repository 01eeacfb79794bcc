//! Names of the users of this host, as its user database has them: files, LDAP, whatever the host is set up for.

use base::{Failure, Result};
use net::blocking;
use nix::unistd::{Uid, User};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a name holds before the database is asked again: it may be a server that is far away.
const NAME_LIFETIME: Duration = Duration::from_secs(60);
/// Names that are remembered: hosts for logins have some thousand users.
const NAMES_MAX: usize = 4096;

/// Finds names; clones share what they have found.
#[derive(Clone)]
pub struct LocalUsers {
    /// Who runs this process.
    daemon: u32,
    names: Arc<Mutex<HashMap<u32, (String, Instant)>>>,
    ask: fn(u32) -> Result<Option<String>>,
}

impl Default for LocalUsers {
    fn default() -> Self {
        let daemon = rustix::process::geteuid().as_raw();
        Self { daemon, names: Arc::default(), ask: name_in_database }
    }
}

impl LocalUsers {
    /// Whether a user is taken for the owner of the facility: the one who runs it, and root, from whom nothing can be kept.
    #[must_use]
    pub fn is_owner(&self, uid: u32) -> bool {
        uid == self.daemon || uid == 0
    }

    /// The name of a user, `uidNUMBER` if there is none.
    pub async fn name(&self, uid: u32) -> Result<String> {
        if let Some(name) = self.known(uid) {
            return Ok(name);
        }
        let ask = self.ask;
        let name = blocking(move || ask(uid)).await?.unwrap_or_else(|| format!("uid{uid}"));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(uid, (name.clone(), Instant::now()));
        Ok(name)
    }

    fn known(&self, uid: u32) -> Option<String> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&uid).filter(|(_, since)| since.elapsed() < NAME_LIFETIME).map(|(name, _)| name.clone())
    }

    /// Users for tests, where `daemon` runs the facility; others have no names.
    #[cfg(test)]
    pub(crate) fn fixed(daemon: u32, names: &[(u32, &str)]) -> Self {
        let names = names.iter().map(|(uid, name)| (*uid, ((*name).to_owned(), Instant::now()))).collect();
        Self { daemon, names: Arc::new(Mutex::new(names)), ask: |_| Ok(None) }
    }
}

fn name_in_database(uid: u32) -> Result<Option<String>> {
    let found = User::from_uid(Uid::from_raw(uid));
    found.map(|user| user.map(|user| user.name)).map_err(|cause| {
        Failure::unavailable(format!("the user database of this host does not say who uid {uid} is: {cause}"))
            .hint("check `getent passwd` on that host")
    })
}

/// The name of the user who runs this process.
#[must_use]
pub fn user_of_process() -> String {
    let uid = rustix::process::getuid().as_raw();
    name_in_database(uid).ok().flatten().unwrap_or_else(|| format!("uid{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_come_from_the_hosts_database() {
        let users = LocalUsers::default();
        assert_eq!(users.name(0).await.unwrap(), "root");
        assert_eq!(users.name(4_000_000_001).await.unwrap(), "uid4000000001");
        assert_eq!(users.known(0).unwrap(), "root");
        assert!(users.is_owner(0) && users.is_owner(rustix::process::geteuid().as_raw()));
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let users = LocalUsers::fixed(1, &[]);
        for uid in 0..=NAMES_MAX as u32 {
            users.name(uid).await.unwrap();
        }
        assert!(users.names.lock().unwrap().len() <= NAMES_MAX);
    }
}
