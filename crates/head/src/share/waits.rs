//! Who waits for what of files, for those who ask why: in memory, for whoever waits asks again and again.

use super::{ShareLive, locks, shared_file};
use crate::{Context, Core, store::Node};
use ::share::{ClientId, LockWaits, Mode};
use base::{FileId, Millis, Result, Timestamp, units::human_span};
use std::collections::BTreeMap;
use wire::control::ShareWait;

/// Waits that are noted at most; one more waits all the same, and is not shown.
const WAITS_MAX: usize = 10_000;
/// Who waits asks again every few seconds. What was not heard for so long is over.
const SILENCE: Millis = Millis::from_seconds(30);
/// How often a door that waits is looked at.
pub(super) const LOOK: Millis = Millis::from_seconds(10);

/// What is waited for, but for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Want {
    Grant(Mode),
    /// What others have written is to be committed, so that size and time can be told.
    Attributes,
    /// The file is to be sealed, so that a door can read or replace it.
    Door,
}

impl Want {
    fn words(self) -> &'static str {
        match self {
            Self::Grant(Mode::Read) => "a grant to read",
            Self::Grant(Mode::Write) => "a grant to write",
            Self::Attributes => "size and time",
            Self::Door => "the file to be sealed",
        }
    }
}

/// A wait.
#[derive(Debug)]
struct Wait {
    since: Timestamp,
    heard: Timestamp,
    why: String,
}

/// All waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) locks: LockWaits,
    others: BTreeMap<(FileId, ClientId, Want), Wait>,
}

impl Waiting {
    /// A client is gone.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.locks.forget_client(client);
        self.others.retain(|key, _| key.1 != client);
    }

    fn forget_silent(&mut self, now: Timestamp) {
        self.locks.forget_silent(now);
        self.others.retain(|_, wait| now - wait.heard <= SILENCE);
    }
}

impl ShareLive {
    /// Notes that somebody waits, or still does.
    pub(super) fn waits(
        &mut self,
        (file, client, want): (FileId, ClientId, Want),
        why: impl Into<String>,
        now: Timestamp,
    ) {
        let key = (file, client, want);
        if !self.waiting.others.contains_key(&key) && self.waiting.others.len() >= WAITS_MAX {
            self.waiting.forget_silent(now);
            if self.waiting.others.len() >= WAITS_MAX {
                return;
            }
        }
        let why = why.into();
        let wait = self.waiting.others.entry(key).or_insert_with(|| Wait {
            since: now,
            heard: now,
            why: String::new(),
        });
        (wait.heard, wait.why) = (now, why);
    }

    /// Somebody waits no more.
    pub(super) fn waits_no_more(&mut self, file: FileId, client: ClientId, want: Want) {
        self.waiting.others.remove(&(file, client, want));
    }
}

/// All waits for a file, the oldest first.
pub(super) fn of_file(core: &Core, file: FileId, now: Timestamp) -> Result<Vec<ShareWait>> {
    let waiting = &core.live.share.waiting;
    let range = (file, ClientId(0), Want::Grant(Mode::Read))..=(file, ClientId(u64::MAX), Want::Door);
    let mut waits: Vec<_> = waiting
        .others
        .range(range)
        .filter(|(_, wait)| now - wait.heard <= SILENCE)
        .map(|((_, client, want), wait)| ShareWait {
            client: *client,
            what: want.words().to_owned(),
            since: wait.since,
            why: wait.why.clone(),
        })
        .collect();
    let shared = shared_file(core, file)?;
    for wait in waiting.locks.iter().filter(|wait| wait.file == file) {
        waits.push(ShareWait {
            client: wait.lock.client,
            what: locks::words(&wait.lock),
            since: wait.since,
            why: locks::blocker(core, &shared, wait)?,
        });
    }
    waits.sort_by_key(|wait| wait.since);
    Ok(waits)
}

/// Files that somebody waits for.
pub(super) fn files(core: &mut Core, now: Timestamp) -> Vec<FileId> {
    let waiting = &mut core.live.share.waiting;
    waiting.forget_silent(now);
    let others = waiting.others.keys().map(|key| key.0);
    others.chain(waiting.locks.iter().map(|wait| wait.file)).collect()
}

/// A mount as people know it.
pub(super) fn mount_words(core: &Core, client: ClientId) -> Result<String> {
    if client == ClientId(0) {
        return Ok("a door".to_owned());
    }
    Ok(match core.store.mounts()?.get(&client) {
        Some(row) => format!("mount {client} of {} on {}", row.user, row.host),
        None => format!("mount {client}, which was evicted"),
    })
}

/// What is waited for of a file, in one line; `None`: nobody waits.
pub(crate) fn waits(core: &Core, context: &Context, node: &Node) -> Result<Option<String>> {
    let waits = of_file(core, node.id, context.now)?;
    let Some(first) = waits.first() else {
        return if node.is_live() { super::live_waits(core, node) } else { Ok(None) };
    };
    let (who, since) = (mount_words(core, first.client)?, human_span(context.now - first.since));
    let others = match waits.len() - 1 {
        0 => String::new(),
        1 => "; one more waits".to_owned(),
        others => format!("; {others} more wait"),
    };
    Ok(Some(format!("{who} has waited {since} for {}: {}{others}", first.what, first.why)))
}
