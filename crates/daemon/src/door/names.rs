//! Requests of the XRootD door on names.

use super::RootDoor;
use base::{Failure, FilePath, Millis, Result};
use head::{Apply, Principal};
use net::xrd::{
    ListEntry, ListPage, PrepareAction, PrepareRequest, SpaceInfo, StatFlags, StatInfo, StatOwner,
};
use std::sync::Arc;
use wire::control::{self, Entry, FileState, NodeKind};

/// How long a stage by `prepare` keeps its files on disk.
const PREPARE_PIN: Millis = Millis::from_seconds(24 * 3600);

impl RootDoor {
    /// Makes a call whose reply says nothing.
    pub(super) async fn call<C: Apply>(&self, who: &Principal, call: C) -> Result<()> {
        self.files.head().call(who, call).await.map(drop)
    }

    async fn info(&self, who: &Principal, path: &FilePath) -> Result<control::FileInfo> {
        self.files.head().call(who, control::Stat { path: path.clone() }).await
    }

    async fn entry(&self, who: &Principal, path: &FilePath) -> Result<Entry> {
        self.files.head().call(who, control::GetEntry { path: path.clone() }).await
    }

    pub(super) async fn stat_path(&self, who: &Principal, path: &FilePath) -> Result<StatInfo> {
        self.entry(who, path).await.map(|entry| stat_of(&entry))
    }

    pub(super) async fn list_page(
        &self,
        who: &Principal,
        path: &FilePath,
        from: Option<String>,
        with_stat: bool,
    ) -> Result<ListPage> {
        let list = control::List { path: path.clone(), after: from.unwrap_or_default() };
        let listing = self.files.head().call(who, list).await?;
        let next = listing.entries.last().filter(|_| listing.is_partial).map(|entry| entry.name.clone());
        let entry = |entry: Entry| ListEntry { stat: with_stat.then(|| stat_of(&entry)), name: entry.name };
        Ok(ListPage { entries: listing.entries.into_iter().map(entry).collect(), next })
    }

    pub(super) async fn truncate_path(&self, who: &Principal, path: &FilePath, size: u64) -> Result<()> {
        let open = control::OpenWrite {
            path: path.clone(),
            mode: 0o644,
            disposition: control::Disposition::Update,
            parents: false,
            expected_bytes: 0,
        };
        let file = Arc::new(self.files.open_write(who, open, Arc::clone(&self.counters.root)).await?);
        let truncated = Arc::clone(&file);
        crate::files::blocking(move || truncated.truncate(size)).await?;
        file.commit(|_| Ok(())).await.map(drop)
    }

    pub(super) async fn checksum_of(&self, who: &Principal, path: &FilePath, kind: &str) -> Result<String> {
        let entry = self.entry(who, path).await?;
        let sums = entry.checksums.ok_or_else(|| match entry.kind {
            NodeKind::Directory => Failure::new(
                base::ErrorKind::IsDirectory,
                format!("{path} is a directory: it has no checksum"),
            ),
            NodeKind::File => Failure::busy(format!("{path} is being written: it has no checksum yet")),
        })?;
        match kind {
            "adler32" => Ok(sums.adler32.to_string()),
            "crc32c" => Ok(sums.crc32c.to_string()),
            other => {
                Err(Failure::unsupported(format!("checksum {other} is not kept"))
                    .hint("adler32 and crc32c are"))
            }
        }
    }

    pub(super) async fn attributes_of(
        &self,
        who: &Principal,
        path: &FilePath,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let attributes = self.files.head().call(who, control::GetAttributes { path: path.clone() }).await?;
        let pair = |attribute: control::Attribute| (attribute.name.into(), attribute.value.into());
        Ok(attributes.attributes.into_iter().map(pair).collect())
    }

    pub(super) async fn change_attribute(
        &self,
        who: &Principal,
        path: &FilePath,
        name: &str,
        value: Option<&[u8]>,
        is_new: bool,
    ) -> Result<()> {
        let value = value.map(|bytes| bytes.to_vec().try_into()).transpose()?;
        let change = control::AttributeChange { name: name.to_owned().try_into()?, value };
        self.call(who, control::SetAttributes { path: path.clone(), changes: vec![change], is_new }).await
    }

    pub(super) async fn prepare_files(&self, who: &Principal, request: PrepareRequest) -> Result<String> {
        let paths = request.paths;
        let outcomes = match request.action {
            PrepareAction::Stage { .. } => {
                let stage = control::Stage { paths, pin: Some(PREPARE_PIN) };
                self.files.head().call(who, stage).await?
            }
            PrepareAction::Evict => self.files.head().call(who, control::Evict { paths }).await?,
            // A recall serves everybody who waits for the file, so one client's change of mind does not stop it.
            PrepareAction::Cancel(_) | PrepareAction::Touch => return Ok(String::new()),
        };
        match outcomes.files.into_iter().find_map(|file| file.failure) {
            Some(failure) => Err(failure),
            None => Ok("backplane".to_owned()),
        }
    }

    /// State of staged files, in the JSON that clients of tape systems read.
    pub(super) async fn staged(&self, who: &Principal, id: &str, paths: &[FilePath]) -> Result<String> {
        let mut responses = Vec::new();
        for path in paths {
            let info = self.info(who, path).await;
            let state = info.as_ref().ok().and_then(|info| info.entry.state);
            responses.push(serde_json::json!({
                "path": path.as_str(),
                "path_exists": info.is_ok(),
                "on_tape": state.is_some_and(FileState::is_archived),
                "online": state.is_some_and(FileState::is_online),
                "requested": info.as_ref().is_ok_and(|info| info.waits.is_some()),
                "error_text": info.as_ref().err().map(|failure| failure.what.clone()).unwrap_or_default(),
            }));
        }
        Ok(serde_json::json!({ "request_id": id, "responses": responses }).to_string())
    }

    pub(super) async fn space_of_pools(&self, who: &Principal) -> Result<SpaceInfo> {
        let status = self.files.head().call(who, control::GetStatus {}).await?;
        let partitions: Vec<_> = status.pools.iter().flat_map(|pool| &pool.partitions).collect();
        let total = partitions.iter().map(|partition| partition.total_bytes).sum();
        let free = partitions.iter().map(|partition| partition.free_bytes).sum();
        let largest_free = partitions.iter().map(|partition| partition.free_bytes).max().unwrap_or(0);
        let used = partitions.iter().map(|partition| partition.replica_bytes).sum();
        Ok(SpaceInfo { total, free, largest_free, used, quota: None })
    }
}

/// Attributes as clients of the field read them: nearline files are offline with a backup.
fn stat_of(entry: &Entry) -> StatInfo {
    let mut flags = StatFlags::READABLE | StatFlags::WRITABLE;
    if entry.kind == NodeKind::Directory {
        flags = flags | StatFlags::DIRECTORY | StatFlags::EXECUTABLE;
    }
    if let Some(state) = entry.state {
        if state == FileState::Nearline {
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
