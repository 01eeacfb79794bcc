//! Sessions of mounts: how they begin, renew their leases, and end.

use super::{leases, live, load, put, session, shared_file, standing, unsynced};
use crate::{Apply, Context, Core, namespace::resolve, share::opens, store::MountRow, waiters::Awaited};
use ::share::{ClientId, Incarnation, Mode, Session, Stage};
use base::{ErrorKind, Failure, FileId, Millis, Result, Timestamp};
use tracing::{info, warn};
use wire::control::{CloseMount, Done, EvictMount, MountSession, NextRecalls, OpenMount, Recall, Recalls};

/// Sessions at most: each is a process on a host that asks every few seconds.
const MOUNTS_MAX: usize = 10_000;
/// Longest words for where a mount is.
const HOST_LEN_MAX: usize = 512;

impl Apply for OpenMount {
    fn apply(self, core: &mut Core, context: &Context) -> Result<MountSession> {
        load(core, context.now)?;
        let node = resolve(core, &context.who, &self.path)?;
        if !node.is_directory() {
            return Err(Failure::new(ErrorKind::NotDirectory, format!("{} is not a directory", self.path)));
        }
        if self.host.len() > HOST_LEN_MAX {
            return Err(Failure::invalid(format!("the mount point is longer than {HOST_LEN_MAX} bytes")));
        }
        if core.store.mounts()?.len() >= MOUNTS_MAX {
            return Err(Failure::busy(format!("there are {MOUNTS_MAX} mounts, and no more are taken"))
                .hint("`bp lease` shows them; `bp lease evict N` ends one that is gone"));
        }
        let row = MountRow {
            user: context.who.session_user().to_owned(),
            host: self.host,
            path: self.path,
            since: context.now,
        };
        let client = core.store.add_mount(&row)?;
        core.live.share.renewed.insert(client, (0, context.now));
        core.store.leases().begin(client, context.now, true);
        info!(mount = %client, user = row.user, host = row.host, path = %row.path, "the directory was mounted");
        let start = Incarnation(core.facility.incarnation);
        let acts_for_others = context.who.is_operator;
        Ok(MountSession { client, root: node.entry(), lease: Session::LEASE, start, acts_for_others })
    }
}

impl Apply for CloseMount {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        end(core, self.client, How::Closed, context)?;
        Ok(Done {})
    }
}

impl Apply for EvictMount {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        load(core, context.now)?;
        context.who.require_operator("evict a mount")?;
        if !core.store.mounts()?.contains_key(&self.client) {
            return Err(Failure::not_found(format!("there is no mount {}", self.client))
                .hint("`bp lease` lists them"));
        }
        let is_over = standing(core, self.client).is_lease_over(context.now);
        let how = if is_over { How::Silent } else { How::Evicted };
        end(core, self.client, how, context)?;
        Ok(Done {})
    }
}

impl Apply for NextRecalls {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Recalls> {
        session(core, context, self.client)?;
        renew(core, &self, context.now);
        core.awaits(Awaited::Mount(self.client));
        let asked = core.live.share.recalls.remove(&self.client).unwrap_or_default();
        let mut recalls = Vec::new();
        for (file, generation) in asked {
            if self.working.contains(&Recall { file, generation }) {
                core.live.share.recalls.entry(self.client).or_default().insert((file, generation));
                continue;
            }
            let shared = shared_file(core, file)?;
            let mut grants = shared.grants.grants().iter();
            if grants.any(|grant| grant.generation == generation && grant.stage == Stage::Recalled) {
                core.live.share.recalls.entry(self.client).or_default().insert((file, generation));
                recalls.push(Recall { file, generation });
            }
        }
        let (number, invalidations) = core.store.leases().asked(self.client);
        let start = Incarnation(core.facility.incarnation);
        Ok(Recalls { recalls, invalidations, number, start, must_forget: self.start != start })
    }
}

/// Renews the lease of a session. A call that is held back is looked at again and again: it was received once.
fn renew(core: &mut Core, call: &NextRecalls, now: Timestamp) {
    let client = call.client;
    let before = core.live.share.renewed.get(&client).map(|(round, _)| *round);
    if before.is_none_or(|round| call.round == 0 || round != call.round) {
        core.live.share.renewed.insert(client, (call.round, now));
        let dropped = core.store.leases().renew(client, now);
        leases::ended(core, dropped);
    }
    if call.start == Incarnation(core.facility.incarnation) {
        leases::confirm(core, client, now);
        let forgotten = core.store.leases().acknowledge(client, call.acknowledged);
        leases::ended(core, forgotten);
    }
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Its process has said so itself, and has written everything back.
    Closed,
    /// It is evicted, and its lease is over.
    Silent,
    /// It is evicted, and what it has cached counts until its lease is over.
    Evicted,
}

/// Ends a session with all that it has.
fn end(core: &mut Core, client: ClientId, how: How, context: &Context) -> Result<()> {
    let is_cache_gone = how != How::Evicted;
    let mut after = FileId(0);
    loop {
        let page = core.store.shared_files(after, super::PAGE_LEN)?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (file, mut shared) in page {
            let before = shared.clone();
            if how != How::Closed {
                unsynced::note(core, (file, &shared), client, context.now)?;
            }
            live::writer_ended(core, &mut shared, client)?;
            shared.grants.evict(client);
            if is_cache_gone {
                shared.grants.lease_over(client);
            }
            shared.posix.forget_client(client);
            shared.flock.forget_client(client);
            shared.opens.retain(|open| open.client != client);
            if shared != before {
                put(core, file, &shared, context.now)?;
                opens::end_if_unused(core, file, context)?;
            }
        }
    }
    core.store.delete_mount(client)?;
    core.store.note_changed(Awaited::Mount(client));
    core.live.share.recalls.remove(&client);
    if is_cache_gone {
        leases::forget(core, client);
    } else {
        core.store.leases().end(client);
    }
    core.live.share.waiting.forget_client(client);
    info!(mount = %client, "the session of the mount has ended");
    Ok(())
}

/// Evicts the sessions that keep somebody waiting for `file` and have not renewed their lease. Yields when to look again, if one of
/// them may be evicted later.
pub(super) fn evict_silent(
    core: &mut Core,
    (file, waiting): (FileId, ClientId),
    context: &Context,
) -> Result<Option<Millis>> {
    let shared = shared_file(core, file)?;
    let locks = shared.posix.locks().iter().chain(shared.flock.locks()).map(|lock| lock.client);
    let holders = shared.grants.grants().iter().map(|grant| grant.client).chain(locks);
    let mut next = None;
    let clients: std::collections::BTreeSet<_> = holders.filter(|client| *client != waiting).collect();
    for client in clients {
        let session = standing(core, client);
        if !session.is_lease_over(context.now) {
            let span = until_over(&session, context.now);
            next = Some(next.map_or(span, |other: Millis| other.min(span)));
        } else if core.store.mounts()?.contains_key(&client) {
            warn!(mount = %client, "the mount does not answer and is in the way of others: it is evicted");
            end(core, client, How::Silent, context)?;
        } else {
            // Evicted before, by an operator: only its cache counted.
            let mut shared = shared_file(core, file)?;
            shared.grants.lease_over(client);
            put(core, file, &shared, context.now)?;
        }
    }
    Ok(next)
}

/// How long it takes at most until the lease of a session is over.
fn until_over(session: &Session, now: Timestamp) -> Millis {
    let end = session.renewed + Session::LEASE + Session::MARGIN;
    Millis((end - now).0.max(0) + 1)
}

/// Says of a grant that is in the way whose it is.
pub(super) fn who_has(core: &Core, shared: &crate::store::SharedFile, waiting: ClientId) -> Result<String> {
    let mounts = core.store.mounts()?;
    let mut grants = shared.grants.grants().iter();
    let other = grants.find(|grant| grant.client != waiting || grant.mode == Mode::Write);
    Ok(match other.map(|grant| (grant, mounts.get(&grant.client))) {
        Some((grant, Some(row))) => {
            format!("mount {} of {} on {} has to return its grant", grant.client, row.user, row.host)
        }
        Some((grant, None)) => {
            format!("mount {} was evicted; its disk servers have to be fenced", grant.client)
        }
        None => "its disk server is fenced".to_owned(),
    })
}
