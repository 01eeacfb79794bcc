//! Handlers of requests on names at the XRootD door.

use super::{RootDoor, opens::refused};
use base::{ErrorKind, Failure, FilePath, Result};
use head::{Apply, Head, Principal};
use net::xrd::{Attributes, ListEntry, ListPage, Location, SpaceInfo, StatFlags, StatInfo, StatOwner};
use std::sync::Arc;
use wire::{
    control::{self, Entry, FileState, NodeKind},
    digest::{DigestAlgorithm, Digests},
};

impl RootDoor {
    /// Makes a call whose reply says nothing.
    pub(super) async fn call<C: Apply>(&self, who: &Principal, call: C) -> Result<()> {
        self.files.head()?.call(who, call).await.map(drop)
    }

    pub(super) async fn info(&self, who: &Principal, path: &FilePath) -> Result<control::FileInfo> {
        self.files.head()?.call(who, control::Stat { path: path.clone() }).await
    }

    async fn entry(&self, who: &Principal, path: &FilePath) -> Result<Entry> {
        self.files.head()?.call(who, control::GetEntry { path: path.clone() }).await
    }

    pub(super) async fn stat_path(&self, who: &Principal, path: &FilePath) -> Result<StatInfo> {
        let version = self.files.head()?.namespace_version();
        let stat = stat_of(who, &self.entry(who, path).await?);
        self.stats.keep(version, who, path, &stat);
        Ok(stat)
    }

    /// A file is here, if it exists.
    pub(super) async fn locations(
        &self,
        who: &Principal,
        path: &FilePath,
        local: &str,
    ) -> Result<Vec<Location>> {
        let is_online = self.stat_path(who, path).await?.is_online();
        Ok(vec![Location { is_server: true, is_online, is_writable: true, address: local.to_owned() }])
    }

    pub(super) async fn rename_path(
        &self,
        who: &Principal,
        from: &FilePath,
        to: &FilePath,
        is_new: bool,
    ) -> Result<()> {
        let call = control::Rename { from: from.clone(), to: to.clone(), is_new, parents: true };
        self.call(who, call).await.map_err(|failure| refused(failure, is_new))
    }

    /// The same, if the head can say it on this thread. A refusal is left to the other way, which notes it.
    pub(super) fn stat_here(&self, head: &Head, who: &Principal, path: &FilePath) -> Option<StatInfo> {
        let version = head.namespace_version();
        let entry = head.call_inline(who, control::GetEntry { path: path.clone() })?.ok()?;
        let stat = stat_of(who, &entry);
        self.stats.keep(version, who, path, &stat);
        Some(stat)
    }

    pub(super) async fn list_page(
        &self,
        who: &Principal,
        path: &FilePath,
        from: Option<String>,
        with_stat: bool,
    ) -> Result<ListPage> {
        let list = control::List { path: path.clone(), after: from.unwrap_or_default() };
        let listing = self.files.head()?.call(who, list).await?;
        let next = listing.entries.last().filter(|_| listing.is_partial).map(|entry| entry.name.clone());
        let entry =
            |entry: Entry| ListEntry { stat: with_stat.then(|| stat_of(who, &entry)), name: entry.name };
        Ok(ListPage { entries: listing.entries.into_iter().map(entry).collect(), next })
    }

    pub(super) async fn truncate_path(&self, who: &Principal, path: &FilePath, size: u64) -> Result<()> {
        let open = control::OpenWrite {
            path: path.clone(),
            mode: 0o644,
            disposition: control::Disposition::Update,
            parents: false,
            expected_bytes: 0,
            source_modified: None,
        };
        let file =
            Arc::new(self.files.write_through(who, open, Arc::clone(&self.counters.root.traffic)).await?);
        let truncated = Arc::clone(&file);
        net::blocking(move || truncated.truncate(size)).await?;
        file.commit(|_| Ok(())).await.map(drop)
    }

    pub(super) async fn checksum_of(&self, who: &Principal, path: &FilePath, kind: &str) -> Result<String> {
        let traffic = Arc::clone(&self.counters.root.traffic);
        let entry = self.files.sealed_entry(who, path, traffic).await?;
        let sums = entry.checksums.ok_or_else(|| match entry.kind {
            NodeKind::Directory => {
                Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory: it has no checksum"))
            }
            NodeKind::File => Failure::locked(format!("{path} is being written: it has no checksum yet")),
            other => Failure::unsupported(format!("{path} is a {}: it has no checksum", other.as_str())),
        })?;
        let algorithm = DigestAlgorithm::by_xrootd_name(kind).ok_or_else(|| {
            Failure::unsupported(format!("checksum {kind} is not offered here"))
                .hint(format!("{} are", DigestAlgorithm::xrootd_names().join(", ")))
        })?;
        if let Some(sum) = Digests::from(sums).hex(algorithm) {
            return Ok(sum);
        }
        // Computed from the disk replica: a question must not begin a recall.
        if !entry.state.is_some_and(FileState::is_online) {
            return Err(Failure::busy(format!("{path} is not on disk, where its {kind} is computed"))
                .hint(format!("`bp stage --wait {path}`, or ask for adler32 or crc32c")));
        }
        let file = self.files.read_through(who, path, Arc::clone(&self.counters.root.traffic)).await?;
        self.files.objects().sums().hex(&Arc::new(file), algorithm).await
    }

    pub(super) async fn attributes_of(&self, who: &Principal, path: &FilePath) -> Result<Attributes> {
        let attributes = self.files.head()?.call(who, control::GetAttributes { path: path.clone() }).await?;
        let pair = |attribute: control::Attribute| (attribute.name.into(), attribute.value.into());
        Ok(attributes.attributes.into_iter().map(pair).collect())
    }

    pub(super) async fn change_attribute(
        &self,
        who: &Principal,
        path: &FilePath,
        (name, value): (&str, Option<&[u8]>),
        is_new: bool,
    ) -> Result<()> {
        let value = value.map(|bytes| bytes.to_vec().try_into()).transpose()?;
        let change = control::AttributeChange { name: name.to_owned().try_into()?, value };
        self.call(who, control::SetAttributes { path: path.clone(), changes: vec![change], is_new }).await
    }

    pub(super) async fn space_of_pools(&self, who: &Principal) -> Result<SpaceInfo> {
        let control::Space { total_bytes, free_bytes, largest_free_bytes } =
            self.files.head()?.call(who, control::GetSpace {}).await?;
        // What others have on the same disk is taken too: clients expect that used and free make up the total.
        let used = total_bytes.saturating_sub(free_bytes);
        let largest_free = largest_free_bytes;
        Ok(SpaceInfo { total: total_bytes, free: free_bytes, largest_free, used, quota: None })
    }
}

/// Attributes as clients of the field read them: what the mode lets `who` do, nearline files offline with a backup.
pub(super) fn stat_of(who: &Principal, entry: &Entry) -> StatInfo {
    let rights = head::rights(who, &entry.owner, &entry.group, entry.mode);
    let mut flags = StatFlags::default();
    if rights & 4 != 0 {
        flags = flags | StatFlags::READABLE;
    }
    if rights & 2 != 0 {
        flags = flags | StatFlags::WRITABLE;
    }
    if entry.kind == NodeKind::Directory {
        flags = flags | StatFlags::DIRECTORY;
    } else if entry.kind != NodeKind::File {
        flags = flags | StatFlags::OTHER;
    }
    // Whoever permissions do not bind still cannot run what nobody can.
    if rights & 1 != 0 && (entry.kind == NodeKind::Directory || entry.mode & 0o111 != 0) {
        flags = flags | StatFlags::EXECUTABLE;
    }
    if let Some(state) = entry.state {
        if matches!(state, FileState::Nearline | FileState::OutOfReach) {
            flags = flags | StatFlags::OFFLINE;
        }
        if state.is_archived() {
            flags = flags | StatFlags::BACKUP_EXISTS;
        }
    }
    let modified_s = entry.modified.seconds();
    let owner = StatOwner {
        changed_s: modified_s,
        accessed_s: modified_s,
        mode: entry.mode,
        user: entry.owner.clone(),
        group: entry.group.clone(),
    };
    StatInfo { id: entry.id.0, size: entry.size, flags, modified_s, owner: Some(owner) }
}
