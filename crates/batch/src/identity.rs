//! The user that a job runs as.
//!
//! Where the worker runs as root, a job runs as the user of that name on its host. Users whom the host does not know, and those whose
//! names belong to the system there, run as a *slot user*: a uid of a range that nobody else has, one job at a time. Where the worker
//! is not root it cannot become anybody else, and runs the jobs of its own user only, unless the configuration says otherwise.
//!
//! Nobody runs as root, or as the daemon's user, because of a name alone: the head must have proven that the owner of the facility
//! submitted the job.

use base::{Failure, Result};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use rustix::process::{getegid, geteuid};
use serde::{Deserialize, Serialize};
use std::{
    ffi::CString,
    fs::File,
    io,
    ops::RangeInclusive,
    os::unix::fs::{fchown, lchown},
    path::Path,
};
use wire::control::JobOrder;

/// The uid that the kernel and NFS show for those that they cannot name: what belongs to it belongs to anybody.
const OVERFLOW_UID: u32 = 65_534;

/// Which users' jobs a worker runs, and as which user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserPolicy {
    /// Whether the head runs on this host as the same user: then that user is the facility's owner, whatever its name.
    pub is_beside_head: bool,
    /// Users with a smaller uid are the system's: no job runs as one of them because of its name.
    pub uid_min: u32,
    /// Uids for jobs of users that this host does not know; nobody else may have them.
    pub slot_uids: Option<RangeInclusive<u32>>,
    /// Run the jobs of others as the daemon's own user, where it is not root.
    pub others_as_me: bool,
}

/// What sort of user a job runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The daemon's own.
    Own,
    /// A user of the host.
    User,
    /// One of the configured range, for this job alone.
    Slot,
}

/// The user that a job runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// What sort of user.
    pub kind: Kind,
    /// Its number.
    pub uid: u32,
    /// Its first group.
    pub gid: u32,
    /// Its other groups; of the daemon's own user those that the daemon has.
    pub groups: Vec<u32>,
    /// Its name, or its number if it has none.
    pub name: String,
}

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) name: String,
}

/// What is decided of a job before anything is allocated for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Own,
    User(Account),
    Slot,
}

impl Identity {
    /// The user that this process runs as.
    #[must_use]
    pub fn own() -> Self {
        let uid = geteuid().as_raw();
        Self { kind: Kind::Own, uid, gid: getegid().as_raw(), groups: Vec::new(), name: name_of(uid) }
    }

    pub(crate) fn slot(uid: u32) -> Self {
        Self { kind: Kind::Slot, uid, gid: uid, groups: Vec::new(), name: uid.to_string() }
    }

    pub(crate) fn user(account: &Account) -> Result<Self> {
        let failed = |cause: nix::Error| {
            Failure::io(format!("look up the groups of user {}", account.name), &cause.into())
        };
        let name = CString::new(account.name.as_str())
            .map_err(|_| Failure::invalid(format!("{:?} is not a user name", account.name)))?;
        let groups = getgrouplist(&name, Gid::from_raw(account.gid)).map_err(failed)?;
        Ok(Self {
            kind: Kind::User,
            uid: account.uid,
            gid: account.gid,
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            name: account.name.clone(),
        })
    }

    /// Makes the job's user the owner of a file that this process has made.
    pub(crate) fn give(&self, file: &File) -> io::Result<()> {
        if self.kind == Kind::Own { Ok(()) } else { fchown(file, Some(self.uid), Some(self.gid)) }
    }

    /// The same for a symbolic link.
    pub(crate) fn give_link(&self, path: &Path) -> io::Result<()> {
        if self.kind == Kind::Own { Ok(()) } else { lchown(path, Some(self.uid), Some(self.gid)) }
    }

    /// The same for a directory, which no link may stand for.
    pub(crate) fn give_directory(&self, path: &Path) -> io::Result<()> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.give(&File::from(open(path, flags, Mode::empty())?))
    }
}

fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The home directory of a user of this host.
pub(crate) fn home(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
    user.dir.into_os_string().into_string().ok()
}

/// Looks a user up in every list that this host is configured for.
pub(crate) fn account(name: &str) -> Result<Option<Account>> {
    let user = User::from_name(name).map_err(|cause| {
        Failure::unavailable(format!("user {name} cannot be looked up on this host: {cause}"))
            .hint("check the host's directory service: `getent passwd NAME` asks it, too")
    })?;
    // A directory may know other spellings of a name; only its own one is that user.
    let user = user.filter(|user| user.name == name);
    Ok(user.map(|user| Account { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name }))
}

/// Whether a job may run as a user because of the user's name.
pub(crate) fn is_for_jobs(uid: u32, uid_min: u32) -> bool {
    uid >= uid_min.max(1) && uid != OVERFLOW_UID
}

/// The identity of the worker process, for [`decide`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerIdentity<'a> {
    pub(crate) uid: u32,
    pub(crate) name: &'a str,
    /// Why it cannot become another user, though it is root.
    pub(crate) stays: Option<&'a str>,
}

/// Decides whom a job runs as, or why this worker does not run it.
pub(crate) fn decide(
    policy: &UserPolicy,
    me: WorkerIdentity<'_>,
    order: &JobOrder,
    account: Option<Account>,
) -> Result<Choice> {
    let owner = &order.owner;
    let is_mine = if policy.is_beside_head {
        order.is_of_facility_owner
    } else {
        // The owner's rights end at the host that only joined: there the daemon's user must have the same name.
        owner == me.name && (me.uid != 0 || order.is_of_facility_owner)
    };
    if me.uid != 0 {
        return if is_mine || policy.others_as_me { Ok(Choice::Own) } else { Err(not_root(me.name, owner)) };
    }
    let fits = |account: &Account| is_for_jobs(account.uid, policy.uid_min);
    let is_slot =
        |account: &Account| policy.slot_uids.as_ref().is_some_and(|uids| uids.contains(&account.uid));
    let user = account.clone().filter(|account| fits(account) && !is_slot(account));
    let choice = match user {
        Some(user) => Choice::User(user),
        None if is_mine => return Ok(Choice::Own),
        None if policy.slot_uids.is_some() => Choice::Slot,
        None => return Err(unknown(policy, owner, account.as_ref())),
    };
    match me.stays {
        Some(why) => Err(stays(owner, why)),
        None => Ok(choice),
    }
}

fn not_root(me: &str, owner: &str) -> Failure {
    Failure::permission(format!(
        "user {owner}: bpd runs as {me} on this worker and can run no job as another user"
    ))
    .hint(NOT_ROOT_HINT)
}

/// The next step where the daemon is not root.
pub(crate) const NOT_ROOT_HINT: &str = "run bpd as root to run each job as its user; or set run_others_as_me = true in \
    [batch] of facility.toml, if all who may submit may read and change what the daemon's user can";
/// The next step where nobody of that name is known.
pub(crate) const UNKNOWN_HINT: &str = "make the user known to the worker's host; or set slot_uids in [batch] of its \
    facility.toml to uids that nobody has, for jobs of users that the host does not know";

fn unknown(policy: &UserPolicy, owner: &str, account: Option<&Account>) -> Failure {
    let why = match account {
        Some(account) if account.uid == OVERFLOW_UID => {
            format!("user {owner} stands for users without a name on this worker, and cannot run jobs")
        }
        None => format!("user {owner} is not known on this worker"),
        Some(account) => format!(
            "user {owner} has uid {} on this worker; jobs run only as uids from uid_min = {} on",
            account.uid, policy.uid_min
        ),
    };
    Failure::permission(why).hint(UNKNOWN_HINT)
}

fn stays(owner: &str, why: &str) -> Failure {
    Failure::permission(format!("user {owner}: this worker cannot run jobs as other users: {why}"))
        .hint(STAYS_HINT)
}

/// The next step where root may not make namespaces.
pub(crate) const STAYS_HINT: &str = "jobs of other users need mount namespaces: give the container of bpd \
    CAP_SYS_ADMIN, or run bpd outside of it";

/// Refuses a range that is not for slot users: each of its uids and gids must be unknown to the host.
pub fn check_slots(uids: &RangeInclusive<u32>) -> Result<()> {
    for uid in uids.clone() {
        let name = match (User::from_uid(Uid::from_raw(uid)), Group::from_gid(Gid::from_raw(uid))) {
            (Ok(Some(user)), _) => format!("user {}", user.name),
            (_, Ok(Some(group))) => format!("group {}", group.name),
            _ => continue,
        };
        return Err(Failure::invalid(format!("batch.slot_uids contains {uid}, the id of {name}"))
            .hint("choose uids that no user or group of the host uses"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ErrorKind, JobId};
    use proptest::prelude::*;
    use wire::control::{JobRun, JobSpec, Resources};

    fn order(owner: &str, is_of_facility_owner: bool) -> JobOrder {
        JobOrder {
            run: JobRun { job: JobId(1), attempt: 1 },
            owner: owner.to_owned(),
            is_of_facility_owner,
            spec: JobSpec {
                name: String::new(),
                command: vec!["true".to_owned()],
                resources: Resources::default(),
                ..JobSpec::default()
            },
            queue: String::new(),
            array: None,
            inputs: Vec::new(),
            outputs: String::new(),
        }
    }

    fn policy(is_beside_head: bool) -> UserPolicy {
        UserPolicy { is_beside_head, uid_min: 1000, slot_uids: None, others_as_me: false }
    }

    fn known(name: &str, uid: u32) -> Option<Account> {
        Some(Account { uid, gid: uid, name: name.to_owned() })
    }

    const ROOT: WorkerIdentity<'_> = WorkerIdentity { uid: 0, name: "root", stays: None };
    const BP: WorkerIdentity<'_> = WorkerIdentity { uid: 990, name: "bp", stays: None };

    #[test]
    fn root_runs_a_job_as_the_user_who_submitted_it() {
        let choice = decide(&policy(true), ROOT, &order("ada", false), known("ada", 1001)).unwrap();
        assert_eq!(choice, Choice::User(known("ada", 1001).unwrap()));
        let refused = decide(&policy(true), ROOT, &order("ann", false), None).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Permission);
        assert!(refused.what.contains("ann") && refused.hint.unwrap().contains("slot_uids"));
        let slots = UserPolicy { slot_uids: Some(60_000..=60_009), ..policy(true) };
        assert_eq!(decide(&slots, ROOT, &order("ann", false), None).unwrap(), Choice::Slot);
        let clash = decide(&slots, ROOT, &order("eve", false), known("eve", 60_001)).unwrap();
        assert_eq!(clash, Choice::Slot, "a slot is no user's");
    }

    #[test]
    fn the_names_of_the_system_lead_nowhere() {
        for (name, uid) in [("root", 0), ("daemon", 1), ("www-data", 33), ("nobody", OVERFLOW_UID)] {
            for is_beside_head in [true, false] {
                let refused = decide(&policy(is_beside_head), ROOT, &order(name, false), known(name, uid));
                assert_eq!(refused.unwrap_err().kind, ErrorKind::Permission, "{name}");
                let slots = UserPolicy { slot_uids: Some(60_000..=60_009), ..policy(is_beside_head) };
                let choice = decide(&slots, ROOT, &order(name, false), known(name, uid)).unwrap();
                assert_eq!(choice, Choice::Slot, "{name}");
            }
        }
        let none = UserPolicy { uid_min: 0, ..policy(true) };
        assert!(
            decide(&none, ROOT, &order("root", false), known("root", 0)).is_err(),
            "whatever is configured"
        );
    }

    #[test]
    fn root_runs_as_root_only_what_its_owner_has_proven() {
        let proven = order("root", true);
        assert_eq!(decide(&policy(true), ROOT, &proven, known("root", 0)).unwrap(), Choice::Own);
        assert_eq!(decide(&policy(false), ROOT, &proven, known("root", 0)).unwrap(), Choice::Own);
        // The facility of a daemon that root runs may have an owner of another name: beside the head that is root.
        assert_eq!(decide(&policy(true), ROOT, &order("lab", true), None).unwrap(), Choice::Own);
        assert!(decide(&policy(false), ROOT, &order("lab", true), None).is_err(), "not on another host");
        let with_account = decide(&policy(true), ROOT, &order("lab", true), known("lab", 1005)).unwrap();
        assert_eq!(with_account, Choice::User(known("lab", 1005).unwrap()), "less is enough");
    }

    #[test]
    fn who_is_not_root_runs_his_own_jobs_only() {
        assert_eq!(decide(&policy(true), BP, &order("bp", true), None).unwrap(), Choice::Own);
        assert!(decide(&policy(true), BP, &order("bp", false), None).is_err(), "a name proves nothing");
        assert_eq!(decide(&policy(false), BP, &order("bp", false), None).unwrap(), Choice::Own);
        let refused = decide(&policy(false), BP, &order("ada", false), known("ada", 1001)).unwrap_err();
        assert!(refused.hint.unwrap().contains("run_others_as_me"));
        let open = UserPolicy { others_as_me: true, ..policy(true) };
        assert_eq!(decide(&open, BP, &order("ada", false), known("ada", 1001)).unwrap(), Choice::Own);
    }

    #[test]
    fn without_mount_namespaces_root_becomes_nobody_else() {
        let held = WorkerIdentity { stays: Some("not permitted"), ..ROOT };
        let refused = decide(&policy(true), held, &order("ada", false), known("ada", 1001)).unwrap_err();
        assert!(refused.what.contains("not permitted"), "{refused}");
        assert_eq!(decide(&policy(true), held, &order("root", true), known("root", 0)).unwrap(), Choice::Own);
    }

    proptest! {
        #[test]
        fn nothing_unproven_is_root_or_the_daemons_user(
            uid in 0u32..70_000, is_known: bool, is_beside_head: bool, has_slots: bool, uid_min in 0u32..2000,
        ) {
            let slot_uids = has_slots.then_some(60_000..=60_009);
            let policy = UserPolicy { uid_min, slot_uids, ..policy(is_beside_head) };
            let account = if is_known { known("somebody", uid) } else { None };
            match decide(&policy, ROOT, &order("somebody", false), account) {
                Ok(Choice::Own) => prop_assert!(false, "runs as root"),
                Ok(Choice::User(user)) => prop_assert!(user.uid >= uid_min.max(1) && user.uid == uid),
                Ok(Choice::Slot) => prop_assert!(has_slots),
                Err(refused) => prop_assert!(refused.hint.is_some()),
            }
        }
    }
}
