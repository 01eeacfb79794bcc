//! Names of users and groups, and the numbers that this host has for them.

use nix::unistd::{Gid, Group, Uid, User};
use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Whom files belong to that belong to nobody here.
pub(crate) const NOBODY: u32 = 65_534;
/// How long a number is believed. A directory service may be behind it.
const FRESH: Duration = Duration::from_secs(60);
/// Names that are remembered; then all are looked up anew.
const NAMES_MAX: usize = 10_000;

/// Numbers by name, and names by number, for a while.
///
/// A number without a name on this host is its own name: as a decimal number. So it comes back where it is known as little.
#[derive(Debug, Default)]
pub(crate) struct Names {
    uids: Known<String, u32>,
    gids: Known<String, u32>,
    users: Known<u32, String>,
    groups: Known<u32, String>,
}

impl Names {
    /// The number of a user; [`NOBODY`] if this host does not know the name.
    pub(crate) fn uid(&self, name: &str) -> u32 {
        self.uids.get(name, |name| {
            let found = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
            found.or_else(|| name.parse().ok()).unwrap_or(NOBODY)
        })
    }

    /// The number of a group.
    pub(crate) fn gid(&self, name: &str) -> u32 {
        self.gids.get(name, |name| {
            let found = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
            found.or_else(|| name.parse().ok()).unwrap_or(NOBODY)
        })
    }

    /// The name of a user.
    pub(crate) fn user(&self, uid: u32) -> String {
        self.users.get(&uid, |uid| {
            let found = User::from_uid(Uid::from_raw(*uid)).ok().flatten().map(|user| user.name);
            found.unwrap_or_else(|| uid.to_string())
        })
    }

    /// The name of a group.
    pub(crate) fn group(&self, gid: u32) -> String {
        self.groups.get(&gid, |gid| {
            let found = Group::from_gid(Gid::from_raw(*gid)).ok().flatten().map(|group| group.name);
            found.unwrap_or_else(|| gid.to_string())
        })
    }
}

/// What was looked up, for a while.
#[derive(Debug)]
struct Known<K, V> {
    known: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> Known<K, V> {
    fn get<Q>(&self, key: &Q, find: impl Fn(&Q) -> V) -> V
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, value)) = lock().get(key)
            && since.elapsed() < FRESH
        {
            return value.clone();
        }
        let value = find(key);
        let mut known = lock();
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(key.to_owned(), (Instant::now(), value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_this_host() {
        let names = Names::default();
        assert_eq!((names.uid("root"), names.gid("root")), (0, 0));
        assert_eq!(names.uid("there is no such user"), NOBODY);
        assert_eq!((names.user(0), names.group(0)), ("root".to_owned(), "root".to_owned()));
        assert_eq!(
            (names.user(3_999_999_999), names.uid("3999999999")),
            ("3999999999".to_owned(), 3_999_999_999)
        );
    }
}
