//! Listings: taken when a directory is opened, so that one that is read in pieces is whole.

use super::Outcome;
use crate::{
    caller::Caller,
    errno::Refusal,
    kernel::{answers::Answer, request::Request},
    mount::{Mount, ROOT},
};
use base::FileId;
use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};
use wire::control::{Entry, ListNode, NodeKind};

/// Listings by handle, and whether they were read from their start.
pub(crate) type Listings = HashMap<u64, (bool, Arc<Vec<Entry>>)>;

/// Longest listing that is asked for at once.
const BYTES_MAX: usize = 1 << 20;

pub(super) fn open(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let listing = list(mount, caller, mount.file_id(request.node))?;
    let handle = mount.handles.fetch_add(1, Ordering::Relaxed);
    lock(mount).insert(handle, (false, Arc::new(listing)));
    let mut answer = Answer::default();
    answer.opened(handle, 0);
    Ok(answer)
}

fn list(mount: &Mount, caller: &Caller, directory: FileId) -> Result<Vec<Entry>, Refusal> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or_else(String::new, |entry| entry.name.clone());
        let page = mount.head.call(caller, |client| ListNode { client, directory, after: after.clone() })?;
        let is_last = !page.is_partial || page.entries.is_empty();
        all.extend(page.entries);
        if is_last {
            return Ok(all);
        }
    }
}

pub(super) fn read(mount: &Mount, caller: &Caller, request: &Request) -> Outcome {
    let mut fields = request.fields();
    let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()? as usize);
    let (was_read, mut listing) = lock(mount).get(&handle).cloned().unwrap_or_default();
    if offset == 0 && was_read {
        // From the start again: with what is there now.
        listing = Arc::new(list(mount, caller, mount.file_id(request.node))?);
    }
    if offset == 0 {
        lock(mount).insert(handle, (true, Arc::clone(&listing)));
    }
    Ok(page(mount, request.node, &listing, (offset, size)))
}

/// As much of a listing as fits. Offset 1 is after `.`, 2 after `..`.
fn page(mount: &Mount, node: u64, listing: &[Entry], (offset, size): (u64, usize)) -> Answer {
    let (mut answer, most) = (Answer::default(), size.min(BYTES_MAX));
    let dots = [".", ".."]
        .into_iter()
        .map(|name| (if name == "." { node } else { ROOT }, NodeKind::Directory, name));
    let entries = listing.iter().map(|entry| (mount.node(entry.id), entry.kind, entry.name.as_str()));
    for (next, (node, kind, name)) in (1..).zip(dots.chain(entries)).skip(offset as usize) {
        if !answer.name(most, node, next, kind.type_bits(), name) {
            break;
        }
    }
    answer
}

pub(super) fn release(mount: &Mount, request: &Request) -> Outcome {
    let handle = request.fields().u64()?;
    lock(mount).remove(&handle);
    Mount::nothing()
}

fn lock(mount: &Mount) -> MutexGuard<'_, Listings> {
    mount.listings.lock().unwrap_or_else(PoisonError::into_inner)
}
