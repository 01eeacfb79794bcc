//! Listings: taken when a directory is opened, so that one that is read in pieces is whole.

use super::{Outcome, attributes::shown};
use crate::{
    cache::Asked,
    caller::Caller,
    errno::Refusal,
    kernel::{answers::Answer, request::Request},
    mount::{Mount, ROOT},
};
use base::FileId;
use share::Leases;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};
use wire::control::{Entry, ListNode, MountedNames, NodeKind};

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
    if let Some(all) = mount.cached_listing(directory) {
        return Ok(all);
    }
    let (begun, mut all, mut lease) = (mount.asked(), Vec::<Entry>::new(), Leases::SPAN);
    loop {
        let after = all.last().map_or_else(String::new, |entry| entry.name.clone());
        let asked = mount.asked();
        let page = mount.head.call(caller, |client| ListNode { client, directory, after: after.clone() })?;
        let is_last = !page.is_partial || page.entries.is_empty();
        lease = lease.min(page.names_lease);
        keep(mount, asked, &page);
        all.extend(page.entries);
        if is_last {
            mount.cache.keep_names(begun, directory, &all, lease);
            return Ok(all);
        }
    }
}

/// Keeps the attributes of what was listed.
fn keep(mount: &Mount, asked: Asked, page: &MountedNames) {
    let not_leased: HashSet<_> = page.not_leased.iter().collect();
    for entry in page.entries.iter().filter(|entry| !not_leased.contains(&entry.id)) {
        mount.cache.keep_node(asked, entry, page.lease);
    }
}

/// A piece of a listing, with attributes if those are asked for.
pub(super) fn read(mount: &Mount, caller: &Caller, request: &Request, has_attributes: bool) -> Outcome {
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
    let range = (offset, size);
    if has_attributes {
        return Ok(page_with_attributes(mount, request.node, &listing, range));
    }
    Ok(page(mount, request.node, &listing, range))
}

/// As much of a listing as fits. Offset 1 is after `.`, 2 after `..`.
fn page(mount: &Mount, node: u64, listing: &[Entry], (offset, size): (u64, usize)) -> Answer {
    let (mut answer, most) = (Answer::default(), size.min(BYTES_MAX));
    for (next, node, kind, name) in names(mount, node, listing).skip(offset as usize) {
        if !answer.name(most, node, next, kind.type_bits(), name) {
            break;
        }
    }
    answer
}

/// Names of a listing, each with where a later one goes on after it.
fn names<'a>(
    mount: &'a Mount,
    node: u64,
    listing: &'a [Entry],
) -> impl Iterator<Item = (u64, u64, NodeKind, &'a str)> {
    let dots = [(node, "."), (ROOT, "..")].map(|(node, name)| (node, NodeKind::Directory, name));
    let entries = listing.iter().map(|entry| (mount.node(entry.id), entry.kind, entry.name.as_str()));
    let all = dots.into_iter().chain(entries);
    (1..).zip(all).map(|(next, (node, kind, name))| (next, node, kind, name))
}

/// The same with the attributes of what is cached; the kernel asks for those of others.
fn page_with_attributes(mount: &Mount, node: u64, listing: &[Entry], (offset, size): (u64, usize)) -> Answer {
    let (mut answer, most, asked) = (Answer::default(), size.min(BYTES_MAX), mount.asked());
    for (next, node, kind, name) in names(mount, node, listing).skip(offset as usize) {
        let is_plain = matches!(kind, NodeKind::File | NodeKind::Directory | NodeKind::Link);
        let is_dot = next <= 2;
        let held = (is_plain && !is_dot).then(|| mount.cached(mount.file_id(node))).flatten();
        let attributes = held.map(|(entry, until)| (shown(mount, &entry), until));
        if !answer.name_with(most, (asked, attributes), (node, next, kind.type_bits(), name)) {
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
