//! Names of users and groups, and the numbers that this host has for them.

use nix::unistd::{Gid, Group, Uid, User};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Whom files belong to that belong to nobody here.
pub(crate) const NOBODY: u32 = 65_534;
/// How long a number is believed. A directory service may be behind it.
const FRESH: Duration = Duration::from_secs(60);
/// Names that are remembered; then all are looked up anew.
const NAMES_MAX: usize = 10_000;

/// Numbers by name, for a while.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: Numbers,
    groups: Numbers,
}

impl Names {
    /// The number of a user; [`NOBODY`] if this host does not know the name.
    pub(crate) fn uid(&self, name: &str) -> u32 {
        let found = |name: &str| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.users.number(name, found)
    }

    /// The number of a group.
    pub(crate) fn gid(&self, name: &str) -> u32 {
        let found = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        self.groups.number(name, found)
    }
}

/// The name of a user, if this host knows one.
pub(crate) fn user(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

/// The name of a group, if this host knows one.
pub(crate) fn group(gid: u32) -> Option<String> {
    Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name)
}

#[derive(Debug, Default)]
struct Numbers {
    known: Mutex<HashMap<String, (Instant, u32)>>,
}

impl Numbers {
    fn number(&self, name: &str, find: impl Fn(&str) -> Option<u32>) -> u32 {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, number)) = lock().get(name).copied()
            && since.elapsed() < FRESH
        {
            return number;
        }
        let number = find(name).unwrap_or(NOBODY);
        let mut known = lock();
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now(), number));
        number
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
        assert_eq!((user(0), group(0)), (Some("root".to_owned()), Some("root".to_owned())));
    }
}
