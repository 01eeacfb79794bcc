//! The users whose jobs a worker runs, and its pool of slot users.

use crate::{
    cgroup::{self, Enforced},
    identity::{
        self, Choice, Identity, Kind, NOT_ROOT_HINT, STAYS_HINT, UNKNOWN_HINT, UserPolicy, WorkerIdentity,
        account, decide,
    },
    sandbox::Finding,
    shepherd::job_mount,
    tree,
};
use base::{ErrorKind, Failure, Result, limits::WORKER_USERS_MAX};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};
use tracing::{error, warn};
use wire::control::{JobOrder, JobUsers};

/// The list of users that every host has.
const PASSWD: &str = "/etc/passwd";
/// Where a host says which other lists it has.
const SWITCH: &str = "/etc/nsswitch.conf";
/// There while users of systemd-homed are known, which no list names.
const HOMED: &str = "/run/systemd/userdb/io.systemd.Home";
/// How long the processes of a slot user may resist the final signal.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// The users of this worker.
pub(crate) struct Users {
    policy: UserPolicy,
    own: Identity,
    finding: Finding,
    /// Slot users that belong to a run, or cannot be used again; a short lock.
    taken: Mutex<BTreeSet<u32>>,
}

impl Users {
    /// `left` are the users of runs that an earlier room left.
    pub(crate) fn new(policy: UserPolicy, finding: Finding, left: &[Identity]) -> Self {
        let taken = left.iter().filter(|left| left.kind == Kind::Slot).map(|left| left.uid).collect();
        let own = Identity::own();
        if let Some(why) = &finding.why {
            warn!(why, "jobs are less isolated than this worker could make them");
        }
        if policy.others_as_me && own.uid != 0 {
            warn!(user = own.name, "jobs of all users run as the daemon's user, with all its rights");
        }
        Self { policy, own, finding, taken: Mutex::new(taken) }
    }

    pub(crate) fn finding(&self) -> &Finding {
        &self.finding
    }

    fn stays(&self) -> Option<&str> {
        if self.finding.namespaces.mounts {
            None
        } else {
            Some(self.finding.why.as_deref().unwrap_or_default())
        }
    }

    /// Whether the facility can be mounted for jobs: by root only, and seen by nobody else.
    pub(crate) fn can_mount(&self) -> Result<()> {
        if self.own.uid != 0 {
            return Err(Failure::permission("only a worker that is root can mount"));
        }
        if !self.finding.namespaces.mounts {
            return Err(Failure::permission("jobs have no mount namespace of their own here"));
        }
        job_mount::can_mount()
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        // A set of numbers is sound after any panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides whom a job runs as. A slot user is taken for it until it is given back.
    ///
    /// `Permission` means that this worker does not run it, anything else that it may be tried again.
    pub(crate) fn identify(&self, order: &JobOrder) -> Result<Identity> {
        let me = WorkerIdentity { uid: self.own.uid, name: &self.own.name, stays: self.stays() };
        let account = if self.own.uid == 0 { account(&order.owner)? } else { None };
        match decide(&self.policy, me, order, account)? {
            Choice::Own => Ok(self.own.clone()),
            Choice::User(account) => Identity::user(&account),
            Choice::Slot => self.take_slot().map(Identity::slot),
        }
    }

    fn take_slot(&self) -> Result<u32> {
        let uids = self.policy.slot_uids.clone().into_iter().flatten();
        for uid in uids {
            if !self.taken().insert(uid) {
                continue;
            }
            // Whatever runs as it now was not started by this worker: nothing of ours is left when a uid is given back.
            if tree::of_user(uid).is_empty() {
                return Ok(uid);
            }
            error!(
                uid,
                "a slot user has processes that bpd did not start; the user is not used until bpd restarts"
            );
        }
        Err(Failure::busy("all slot users are in use").hint("widen slot_uids in [batch] of facility.toml"))
    }

    /// Gives a user back whose run is forgotten. A slot user is free when it has neither files nor processes.
    pub(crate) fn release(&self, identity: &Identity) {
        if identity.kind != Kind::Slot {
            return;
        }
        let since = Instant::now();
        loop {
            let rest = tree::of_user(identity.uid);
            if rest.is_empty() {
                self.taken().remove(&identity.uid);
                return;
            }
            if since.elapsed() > KILL_PATIENCE {
                error!(
                    uid = identity.uid,
                    "cannot kill the processes of a slot user; the user is not used again"
                );
                return;
            }
            for process in rest {
                let _ = tree::send(process, Signal::KILL);
            }
            thread::sleep(KILL_PAUSE);
        }
    }

    /// Limits that cannot be enforced for jobs of `kind`, in words; for those of any kind without it.
    pub(crate) fn not_enforced(&self, enforced: Enforced, kind: Option<Kind>) -> Vec<String> {
        let mut found = cgroup::not_enforced(enforced);
        let is_own = kind.is_none_or(|kind| kind == Kind::Own);
        if !enforced.processes {
            if is_own && self.own.uid == 0 {
                found.push("processes: root may start as many as it wants".to_owned());
            }
            if kind.is_none_or(|kind| kind == Kind::User) && self.own.uid == 0 {
                found.push(
                    "processes of one job: the limit counts all processes of its user on this host"
                        .to_owned(),
                );
            }
        }
        let namespaces = self.finding.namespaces;
        if !namespaces.mounts {
            found.push("files: a job sees the host's /tmp and the facility's directory".to_owned());
        }
        if !namespaces.proc {
            found.push("processes: a job sees processes of other jobs".to_owned());
        }
        if !namespaces.processes {
            found.push("processes: a job that kills its own shepherd can leave processes behind".to_owned());
        }
        found
    }

    /// Returns the users whose jobs this worker runs, for the head.
    pub(crate) fn job_users(&self) -> JobUsers {
        let nobody = JobUsers { everybody: false, ..JobUsers::default() };
        if self.own.uid != 0 {
            if self.policy.others_as_me {
                return JobUsers::default();
            }
            let is_beside_head = self.policy.is_beside_head;
            let users = if is_beside_head { Vec::new() } else { vec![self.own.name.clone()] };
            let why = format!("runs as {} and can run no job as another user", self.own.name);
            return JobUsers { owner: is_beside_head, users, why, hint: NOT_ROOT_HINT.to_owned(), ..nobody };
        }
        if let Some(why) = self.stays() {
            let why = format!("cannot run jobs as other users: {why}");
            return JobUsers { owner: true, why, hint: STAYS_HINT.to_owned(), ..nobody };
        }
        if self.policy.slot_uids.is_some() {
            return JobUsers::default();
        }
        let (users, is_complete) = users_of_host(self.policy.uid_min);
        let why = "runs jobs of the users of its host".to_owned();
        let hint = UNKNOWN_HINT.to_owned();
        JobUsers { owner: true, users, maybe_others: !is_complete, why, hint, ..nobody }
    }
}

/// Refuses slot users that somebody else has.
pub(crate) fn check(policy: &UserPolicy) -> Result<()> {
    policy.slot_uids.as_ref().map_or(Ok(()), identity::check_slots)
}

/// When the list of users has changed last.
pub(crate) fn list_changed_at() -> Option<SystemTime> {
    fs::metadata(PASSWD).and_then(|about| about.modified()).ok()
}

/// Names of users that may have jobs, and whether there are no others.
fn users_of_host(uid_min: u32) -> (Vec<String>, bool) {
    let mut users = parse_passwd(&fs::read_to_string(PASSWD).unwrap_or_default(), uid_min);
    let switch = match fs::read_to_string(SWITCH) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => "passwd: files".to_owned(),
        text => text.unwrap_or_default(),
    };
    let is_complete =
        names_only_files(&switch) && !Path::new(HOMED).exists() && users.len() <= WORKER_USERS_MAX;
    users.truncate(WORKER_USERS_MAX);
    (users, is_complete)
}

/// Names in the lines `name:password:uid:…` of passwd(5).
fn parse_passwd(text: &str, uid_min: u32) -> Vec<String> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        (identity::is_for_jobs(uid, uid_min) && !name.is_empty()).then(|| name.to_owned())
    };
    text.lines().filter_map(user).collect()
}

/// Whether the line `passwd:` of nsswitch.conf(5) names the list in /etc and nothing else that has names of people.
fn names_only_files(text: &str) -> bool {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("passwd:"));
    let mut sources = line.unwrap_or_default().split('#').next().unwrap_or_default().split_ascii_whitespace();
    line.is_some() && sources.all(|source| matches!(source, "files" | "systemd") || source.starts_with('['))
}

/// Whether a failure of [`Users::identify`] is final here.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    failure.kind == ErrorKind::Permission
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Namespaces;

    #[test]
    fn lists_of_users_are_read_as_far_as_they_are_for_people() {
        let passwd = "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:\nada:x:1001:1001::/home/ada:/bin/sh\n\
            nobody:x:65534:1::/:\nodd\n:x:2000:\n";
        assert_eq!(parse_passwd(passwd, 1000), ["ada"]);
        assert_eq!(parse_passwd(passwd, 0), ["daemon", "ada"]);
    }

    #[test]
    fn other_lists_of_users_are_noticed() {
        assert!(names_only_files("# x\npasswd:         files systemd\ngroup: files ldap\n"));
        assert!(names_only_files("passwd: files [!UNAVAIL=return] # ldap"));
        for others in ["passwd: files sss", "passwd: compat", "passwd: ldap", "group: files", ""] {
            assert!(!names_only_files(others), "{others}");
        }
    }

    #[test]
    fn a_slot_user_has_one_job_at_a_time() {
        let policy = UserPolicy {
            is_beside_head: true,
            uid_min: 1000,
            slot_uids: Some(2_000_000_001..=2_000_000_003),
            others_as_me: false,
        };
        let finding = Finding { namespaces: Namespaces::all(true), why: None };
        let users = Users::new(policy, finding, &[Identity::slot(2_000_000_002)]);
        assert_eq!(users.take_slot().unwrap(), 2_000_000_001);
        assert_eq!(users.take_slot().unwrap(), 2_000_000_003, "that of an earlier run is kept");
        assert_eq!(users.take_slot().unwrap_err().kind, ErrorKind::Busy);
        users.release(&Identity::slot(2_000_000_002));
        assert_eq!(users.take_slot().unwrap(), 2_000_000_002);
    }
}
