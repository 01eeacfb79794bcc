//! The facility at a glance.

use crate::{
    Apply, Context, Core, batch,
    hosts::presence,
    namespace::path_of,
    pool,
    store::{DriveRow, JobRow, ScrubRow, SessionRow, VolumeRow, volume_counts},
    tape,
};
use base::{FilePath, Result, Timestamp};
use std::collections::BTreeMap;
use wire::control::{
    Counts, DriveInfo, FindingKind, GetStatus, HostStatus, JobUsers, PartitionInfo, PartitionState, PoolInfo,
    Presence, RequestInfo, RequestKind, Status, TapePhase, VolumeInfo, WorkerInfo,
};

/// Rows of the tape queue that are shown.
const REQUESTS_MAX: usize = 1000;
/// Volumes that are shown.
const VOLUMES_MAX: usize = 1000;
/// Jobs that are shown.
const JOBS_MAX: usize = 200;
/// Users of one worker that are shown.
const USERS_SHOWN_MAX: usize = 4;

impl Apply for GetStatus {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Status> {
        let jobs = jobs(core)?;
        let volumes = core.store.volumes()?;
        let counts = Counts {
            jobs: core.store.job_counts()?,
            volumes: volume_counts(&volumes),
            requests: core.store.request_counts()?,
        };
        let active = core.store.active()?;
        let scene = batch::Scene::of(core, &active, context.now)?;
        let sessions = core.store.sessions()?;
        Ok(Status {
            name: core.facility.name.clone(),
            facility: core.facility.id.clone(),
            root: core.config.server.root_url(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            incarnation: core.facility.incarnation,
            now: context.now,
            started: core.started,
            files: core.live.reach.correct(core.store.file_counts()?),
            pools: pools(core, context.now)?,
            drives: core
                .store
                .drives()?
                .into_iter()
                .map(|row| drive(core, row, &sessions, context.now))
                .collect::<Result<_>>()?,
            volumes: volumes.into_iter().take(VOLUMES_MAX).map(|row| volume(core, row, &sessions)).collect(),
            requests: requests(core, context)?,
            requests_len: counts.requests.iter().map(|count| count.requests).sum(),
            workers: workers(core, context.now)?,
            hosts: hosts(core, context.now)?,
            jobs: jobs
                .iter()
                .map(|job| {
                    let (cause, why) = batch::why(core, job, &scene, context.now)?;
                    let mut info = job.info(why);
                    info.waits_for = cause;
                    Ok(batch::without_environment(info))
                })
                .collect::<Result<_>>()?,
            counts,
            operator_requests: core.store.operator_requests(tape::OPERATOR_REQUESTS_MAX)?,
            restored: core.restored()?,
        })
    }
}

/// Those that run, then those that wait, then those that ended last.
fn jobs(core: &Core) -> Result<Vec<JobRow>> {
    let mut jobs = core.store.active_jobs_shown(JOBS_MAX)?;
    let mut over = core.store.ended_jobs_shown(JOBS_MAX - jobs.len())?;
    over.sort_by_key(|job| std::cmp::Reverse((job.ended, job.id)));
    jobs.extend(over);
    Ok(jobs)
}

pub(crate) fn pools(core: &Core, now: Timestamp) -> Result<Vec<PoolInfo>> {
    let mut pools: BTreeMap<String, Vec<PartitionInfo>> = BTreeMap::new();
    for pool in core.store.policies()?.keys() {
        pools.insert(pool.clone(), Vec::new());
    }
    let scrubs: BTreeMap<String, ScrubRow> = core.store.scrubs()?.into_iter().collect();
    let labels = core.store.host_labels()?;
    for row in core.store.partitions(now)? {
        let policy = core.store.policy(&row.space.pool)?;
        let scrub = scrubs.get(&row.name);
        let (collecting_bytes, stuck_bytes) = pool::collecting_bytes(core, &row.name);
        let is_available = core.is_available(&row.name, &row.space, now)?;
        let incoming = pool::incoming_bytes(core, &row.name, &row.space);
        let is_draining = row.space.state == PartitionState::Draining && row.space.replicas > 0;
        let info = PartitionInfo {
            stuck: if is_draining { core.store.shortage_reason_on(&row.name)? } else { None },
            collecting_bytes,
            stuck_bytes,
            verified_percent: scrub.filter(|row| pool::is_running(row)).map(percent),
            verified: scrub.and_then(|row| row.finished),
            damaged: scrub.map_or(0, damaged),
            is_available,
            domain: pool::domain(&policy, &labels, &row.space.server.name),
            server: row.space.server.name.clone(),
            state: row.space.state,
            is_given_up: row.space.given_up.is_some(),
            trouble: core.trouble(&row.name),
            transfers: if is_available { core.transfers(&row.name) } else { 0 },
            name: row.name,
            total_bytes: row.space.capacity_bytes(),
            free_bytes: row.space.free_bytes().saturating_sub(incoming),
            size_max_bytes: row.space.size_max,
            replicas: row.space.replicas,
            replica_bytes: row.space.replica_bytes,
            pinned: row.pinned,
        };
        pools.entry(row.space.pool).or_default().push(info);
    }
    let short = core.store.shortage_counts()?;
    let copying = core.store.copying_counts()?;
    let infos = pools.into_iter().map(|(name, partitions)| {
        let policy = (*core.store.policy(&name)?).clone();
        let files_short = short.get(&name).copied().unwrap_or(0);
        let copies_under_way =
            partitions.iter().map(|partition| copying.get(&partition.name).copied().unwrap_or(0)).sum();
        let pool::Imbalance { bytes: uneven_bytes, moves: moves_under_way } = pool::uneven(core, &name, now)?;
        let moves_under_way = moves_under_way.min(copies_under_way);
        Ok(PoolInfo {
            name,
            policy,
            partitions,
            files_short,
            copies_under_way,
            moves_under_way,
            uneven_bytes,
        })
    });
    infos.collect()
}

/// What a verification has found and could not mend. Objects that nobody knows are none of it.
fn damaged(row: &ScrubRow) -> u64 {
    let Some(scan) = &row.scan else { return 0 };
    let found = FindingKind::ALL.iter().zip(scan.found).filter(|(kind, _)| **kind != FindingKind::Orphan);
    found.map(|(_, count)| count).sum::<u64>().saturating_sub(scan.mended)
}

/// How much of a verification is done.
fn percent(row: &ScrubRow) -> u8 {
    row.scan.as_ref().map_or(0, |scan| (scan.progress * 100.0).clamp(0.0, 99.0) as u8)
}

fn drive(core: &Core, row: DriveRow, sessions: &[SessionRow], now: Timestamp) -> Result<DriveInfo> {
    let trouble = tape::trouble(core, &row, now);
    let live = core.live.drives.get(&row.name).cloned().unwrap_or_default();
    let session = sessions.iter().find(|session| session.drive == row.name);
    let requests = session.map_or(Ok(Vec::new()), |session| core.store.requests_of_session(session.id))?;
    let current = live.request.and_then(|id| requests.iter().find(|request| request.id == id));
    let path: Option<FilePath> = current.map(|request| path_of(core, request.file)).transpose()?;
    let idle = if session.is_some() { TapePhase::Loading } else { TapePhase::Idle };
    Ok(DriveInfo {
        name: row.name,
        library: row.library,
        host: host_name(core, row.host),
        vid: session.map(|session| session.vid.clone()).or(live.loaded),
        phase: if session.is_some() { live.phase.unwrap_or(idle) } else { idle },
        path,
        bytes_done: if current.is_some() { live.bytes_done } else { 0 },
        bytes_total: current.map_or(0, |request| request.size),
        files_left: requests.len() as u64,
        trouble,
        device: live.device,
    })
}

fn volume(core: &Core, row: VolumeRow, sessions: &[SessionRow]) -> VolumeInfo {
    let session = sessions.iter().find(|session| session.vid == row.vid);
    let busy = session.map(|session| session.drive.clone());
    let survey = session.and_then(|session| match &*session.kind {
        "survey" => Some(format!("is being surveyed in drive {}, file {}", session.drive, row.append.fseq)),
        "verify" => Some(format!("is being verified in drive {}, file {}", session.drive, row.verify_next)),
        _ => None,
    });
    let loaded = core.live.drives.iter().find(|(_, live)| live.loaded.as_ref() == Some(&row.vid));
    VolumeInfo {
        drive: busy.or_else(|| loaded.map(|(name, _)| name.clone())),
        vid: row.vid,
        library: row.library,
        pool: row.pool,
        state: row.state,
        reason: survey.or(row.reason),
        files: row.files,
        live_bytes: row.live_bytes,
        used_bytes: row.used,
        capacity_bytes: row.capacity,
        loads: row.loads,
    }
}

/// The name of a host; empty is the head's own.
fn host_name(core: &Core, host: String) -> String {
    if host.is_empty() { core.config.server.name.clone() } else { host }
}

fn requests(core: &Core, context: &Context) -> Result<Vec<RequestInfo>> {
    let mut infos = Vec::new();
    for row in core.store.requests_shown(REQUESTS_MAX)? {
        let session = row.session.map(|id| core.store.session(id)).transpose()?.flatten();
        let target = match (session, row.kind) {
            (Some(session), _) => Some(session.vid),
            (None, RequestKind::Recall) => {
                core.store.copies(row.file)?.into_iter().next().map(|copy| copy.vid)
            }
            (None, RequestKind::Archive) => None,
        };
        infos.push(RequestInfo {
            id: row.id,
            kind: row.kind,
            path: path_of(core, row.file)?,
            size: row.size,
            vid: target,
            state: row.state,
            reason: tape::reason(core, &row, context.now)?,
            owner: row.owner,
            attempts: row.attempts,
            created: row.created,
        });
    }
    Ok(infos)
}

/// Not all users of a worker's host: that is nobody's business on another host.
fn few(mut users: JobUsers) -> JobUsers {
    users.users.truncate(USERS_SHOWN_MAX);
    users
}

fn hosts(core: &Core, now: Timestamp) -> Result<Vec<HostStatus>> {
    let rows = core.store.hosts()?;
    let members = rows.values().filter(|row| row.removed.is_none());
    Ok(members
        .map(|row| HostStatus {
            name: row.name.clone(),
            roles: row.roles.clone(),
            presence: presence::presence(core, &row.name, now).unwrap_or(Presence::Silent),
            heard: core.live.hosts.get(&row.name).map(|live| live.heard),
        })
        .collect())
}

fn workers(core: &Core, now: Timestamp) -> Result<Vec<WorkerInfo>> {
    let taken = core.store.slots_taken()?;
    let rows = core.store.workers()?.into_iter();
    Ok(rows
        .map(|row| (row.name.clone(), row))
        .map(|(name, row)| WorkerInfo {
            cpus_used: taken.get(&row.name).copied().unwrap_or(0),
            is_available: batch::is_available(core, &row.name, now),
            host: host_name(core, row.host),
            name: row.name,
            cpus: row.cpus,
            memory_bytes: row.memory,
            not_enforced: row.not_enforced,
            users: few(row.users),
            labels: row.labels,
            architecture: row.architecture,
            is_draining: row.is_draining,
            load: core.live.workers.get(&name).and_then(|live| live.load),
        })
        .collect())
}
