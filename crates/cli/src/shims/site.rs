//! What the commands know of where they run: time, zone, users.

use super::moment::{Calendar, Zone};
use base::Timestamp;
use std::{cell::RefCell, collections::HashMap, time::SystemTime};

/// The user id of somebody whom this host does not know: the one that Slurm shows.
const UNKNOWN_ID: u32 = 4_294_967_294;

/// Where a command runs.
pub(crate) struct Site {
    pub(crate) now: Timestamp,
    pub(crate) calendar: Calendar,
    users: RefCell<HashMap<String, (u32, String, u32)>>,
}

impl Site {
    /// This host now.
    pub(crate) fn here() -> Self {
        let format = std::env::var("SLURM_TIME_FORMAT").ok();
        Self {
            now: Timestamp::from_system(SystemTime::now()),
            calendar: Calendar::new(Zone::Here, format.as_deref()),
            users: RefCell::default(),
        }
    }

    /// A site for tests.
    #[cfg(test)]
    pub(crate) fn fixed(now: Timestamp) -> Self {
        let utc = Zone::Fixed(chrono::FixedOffset::east_opt(0).expect("0 is an offset"));
        Self { now, calendar: Calendar::new(utc, None), users: RefCell::default() }
    }

    /// A point in time.
    pub(crate) fn time(&self, time: Timestamp) -> String {
        self.calendar.show(time)
    }

    /// A point in time, or a word if there is none.
    pub(crate) fn time_or(&self, time: Option<Timestamp>, word: &str) -> String {
        time.map_or_else(|| word.to_owned(), |time| self.time(time))
    }

    /// User id, group and group id of a user of this host.
    pub(crate) fn user(&self, name: &str) -> (u32, String, u32) {
        let mut users = self.users.borrow_mut();
        users.entry(name.to_owned()).or_insert_with(|| looked_up(name)).clone()
    }
}

fn looked_up(name: &str) -> (u32, String, u32) {
    let Some(user) = nix::unistd::User::from_name(name).ok().flatten() else {
        return (UNKNOWN_ID, name.to_owned(), UNKNOWN_ID);
    };
    let group = nix::unistd::Group::from_gid(user.gid).ok().flatten().map(|group| group.name);
    (user.uid.as_raw(), group.unwrap_or_else(|| user.gid.to_string()), user.gid.as_raw())
}
