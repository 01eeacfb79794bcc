//! The tape server and the worker of a host, on threads of their own: beside the head, or on a host that joined.

use crate::{
    boot::libraries::Libraries,
    facility::{config::Config, layout::Layout},
    hosts::authority::Authority,
};
use base::{Failure, Result};
use batch::{WorkerConfig, identity::UserPolicy, run_worker, sandbox::Limits};
use client::{Control, Stop};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    thread::JoinHandle,
    time::Duration,
};
use tracing::{error, info};
use wire::control::Role;

/// Pause before a room that ended badly is started again.
const PAUSE: Duration = Duration::from_secs(2);

/// The dependencies of the services of a host.
pub(crate) struct RoomConfiguration<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) config: &'a Config,
    /// The connection to the head.
    pub(crate) control: Control,
    /// Authorities that vouch for the doors of the facility.
    pub(crate) authorities: Option<PathBuf>,
    /// The facility's name, for labels.
    pub(crate) site: String,
    /// Where jobs find the facility: at a door that takes their token, and those of the daemon's own user at one that knows it.
    pub(crate) facility: (String, Option<String>),
    /// Begins the names of its worker, its library and its drives, which are unique in the facility.
    pub(crate) prefix: String,
}

/// The rooms, each if the host has that role.
#[derive(Default)]
pub(crate) struct Rooms {
    tape: Libraries,
    stop_worker: Stop,
    worker: Option<JoinHandle<()>>,
}

impl RoomConfiguration<'_> {
    /// Starts the rooms.
    pub(crate) fn start(self) -> Result<Rooms> {
        let has = |role| self.config.host.roles.contains(&role);
        let tape = if has(Role::Tape) { Libraries::start(&self)? } else { Libraries::default() };
        let mut rooms = Rooms { tape, ..Rooms::default() };
        if has(Role::Cpu) && self.may_run_jobs() {
            rooms.worker = Some(start_worker(self.worker()?, &self.control, &rooms.stop_worker)?);
        }
        Ok(rooms)
    }

    /// A head that demands tokens has users whom its host does not know: their jobs go to other hosts, unless an operator wants it.
    fn may_run_jobs(&self) -> bool {
        let may = !self.config.host.head.is_empty()
            || !self.config.doors.require_token
            || self.config.batch.beside_head;
        if !may {
            info!(
                "no worker started: the head requires tokens, and its users have no accounts here; beside_head \
                    = true in [batch] starts one"
            );
        }
        may
    }

    /// Whom jobs run as.
    fn users(&self) -> Result<UserPolicy> {
        let wish = &self.config.batch;
        if wish.run_others_as_me && rustix::process::geteuid().is_root() {
            let what =
                "batch.run_others_as_me = true, and bpd runs as root: all users' jobs would run as root";
            return Err(Failure::invalid(what).hint(
                "remove it: as root, bpd runs each job as its user, and jobs of unknown users as \
                    batch.slot_uids",
            ));
        }
        Ok(UserPolicy {
            is_beside_head: self.config.host.head.is_empty(),
            uid_min: wish.uid_min,
            slot_uids: wish.slots()?,
            others_as_me: wish.run_others_as_me,
        })
    }

    /// What jobs do not see: the facility, and what its configuration names elsewhere.
    fn hidden(&self) -> Vec<PathBuf> {
        let config = self.config;
        let passwords = config.tape.library.iter().map(|library| &library.password_file);
        let elsewhere = [&config.tls.key, &config.catalogue_password].into_iter().chain(passwords);
        let elsewhere = elsewhere.map(|path| self.layout.root().join(path));
        let all = std::iter::once(self.layout.root().to_owned()).chain(elsewhere);
        all.filter_map(|path| path.canonicalize().ok()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn worker(&self) -> Result<WorkerConfig> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let wish = &self.config.batch;
        Ok(WorkerConfig {
            directory: self.layout.batch(),
            name: format!("{}worker1", self.prefix),
            cpus: if wish.cpus > 0 { wish.cpus } else { cpus },
            memory_bytes: if wish.memory.0 > 0 { wish.memory.0 } else { memory_of_host() },
            labels: wish.labels.clone(),
            shepherd: std::env::current_exe().map_err(|cause| Failure::io("find this program", &cause))?,
            ca_file: self.authorities.clone(),
            facility: self.facility.0.clone(),
            facility_of_owner: self.facility.1.clone(),
            environment: BTreeMap::new(),
            cgroup: batch::cgroup::find(),
            cgroup_v1: batch::cgroup::find_v1(),
            users: self.users()?,
            limits: Limits {
                scratch_bytes: wish.scratch.0,
                output_bytes: wish.output.0,
                processes: wish.processes,
            },
            slurm: wish.slurm(),
            log_bytes: wish.log.0,
            mount: (!wish.mount.is_empty()).then(|| PathBuf::from(&wish.mount)),
            hidden: self.hidden(),
            authorities: self.trust(),
        })
    }

    /// What lets clients in jobs believe the doors, if the facility has an authority of its own.
    fn trust(&self) -> Option<PathBuf> {
        let own = Authority::new(&self.layout.tls(), "");
        let is_own = self.authorities.as_ref() == Some(&own.certificate());
        is_own.then(|| own.trust())
    }
}

fn start_worker(config: WorkerConfig, control: &Control, stop: &Stop) -> Result<JoinHandle<()>> {
    let (control, stop) = (control.clone(), stop.clone());
    let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        while let Err(failure) = run_worker(config.clone(), control.clone(), stop.clone()) {
            if stop.is_set() {
                break;
            }
            error!(%failure, "the worker stopped with an error; restarting it");
            if stop.wait(PAUSE) {
                break;
            }
        }
    });
    worker.map_err(|cause| Failure::io("start the worker", &cause))
}

impl Rooms {
    /// Tells the rooms to stop, without waiting.
    pub(crate) fn tell(&self) {
        self.tape.tell();
        self.stop_worker.set();
    }

    /// Waits until they have. Blocks.
    pub(crate) fn join(self, deadline: Duration) -> Result<()> {
        let tape = self.tape.stop(deadline);
        if self.worker.is_some_and(|worker| worker.join().is_err()) {
            error!("the worker's thread panicked");
        }
        tape
    }
}

/// Bytes of memory of this host; 0 if it does not say.
pub(crate) fn memory_of_host() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib =
        total.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
