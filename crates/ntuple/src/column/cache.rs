//! Decoded columns, kept for the next pass: decoding costs many times the fill.

use super::{
    Values,
    disk::{DiskTier, DiskUse, Key},
};
use base::Result;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Most bytes that the shared cache holds unless told otherwise; less on a host with less than four times as much.
const CAPACITY_BYTES_MAX: u64 = 2 << 30;
/// How identities begin that may be those of other bytes in another process, or later: such columns stay in memory.
pub const VOLATILE: &str = "volatile:";

struct Entry {
    values: Arc<Values>,
    bytes: u64,
    /// Key in `Inner::by_use`.
    last_use: u64,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    /// Oldest use first.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    use_now: CacheUse,
}

/// What a cache holds and how often it helped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Most bytes it may hold.
    pub capacity_bytes: u64,
    /// Bytes it holds.
    pub held_bytes: u64,
    /// Columns found.
    pub hits: u64,
    /// Columns that had to be decoded.
    pub misses: u64,
}

/// Decoded columns of row groups, least recently used first out, shared by all threads.
pub struct ColumnCache {
    /// Held for a look-up only, never while decoding.
    inner: Mutex<Inner>,
    /// Where columns are kept that memory does not hold. Held for a look only.
    disk: Mutex<Option<Arc<DiskTier>>>,
}

impl ColumnCache {
    /// A cache of at most `capacity_bytes`; 0 keeps nothing.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let use_now = CacheUse { capacity_bytes, ..CacheUse::default() };
        Self { inner: Mutex::new(Inner { use_now, ..Inner::default() }), disk: Mutex::default() }
    }

    /// The cache of this process: 2 GiB, or a quarter of the memory if that is less.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ColumnCache> = OnceLock::new();
        SHARED.get_or_init(|| {
            Self::new(memory_bytes().map_or(CAPACITY_BYTES_MAX, |all| (all / 4).min(CAPACITY_BYTES_MAX)))
        })
    }

    /// Changes the capacity and drops what no longer fits.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        let mut inner = self.lock();
        inner.use_now.capacity_bytes = capacity_bytes;
        inner.shrink_to(capacity_bytes);
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.lock().shrink_to(0);
    }

    /// What it holds in memory.
    pub fn use_now(&self) -> CacheUse {
        self.lock().use_now
    }

    /// Keeps columns in a directory, too, as many as fit into `capacity_bytes`; `None` ends that, and leaves them there.
    pub fn set_directory(&self, directory: Option<(&Path, u64)>) -> Result<()> {
        let tier = directory.map(|(directory, capacity)| DiskTier::open(directory, capacity)).transpose()?;
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner) = tier.map(Arc::new);
        Ok(())
    }

    /// What it holds on disk, if it has a directory.
    pub fn disk_use(&self) -> Option<DiskUse> {
        self.disk().map(|disk| disk.use_now())
    }

    fn disk(&self) -> Option<Arc<DiskTier>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The column `column` of `row_group` of the file `identity`, decoded by `decode` if it is not here.
    pub(crate) fn get(
        &self,
        identity: &Arc<str>,
        row_group: usize,
        column: usize,
        decode: impl FnOnce() -> Result<Values>,
    ) -> Result<Arc<Values>> {
        let key = (Arc::clone(identity), row_group as u32, column as u32);
        if let Some(values) = self.lock().find(&key) {
            return Ok(values);
        }
        let disk = self.disk().filter(|_| !identity.contains(VOLATILE));
        let found = disk.as_ref().and_then(|disk| disk.get(&key));
        let is_new = found.is_none();
        // Two threads may decode the same column at once; waiting for each other would cost more than it saves.
        let values = Arc::new(found.map_or_else(decode, Ok)?);
        if let Some(disk) = disk.filter(|_| is_new) {
            disk.put(&key, &values);
        }
        self.lock().insert(key, &values);
        Ok(values)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before it can panic, so a poisoned lock still guards a whole cache.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&mut self, key: &Key) -> Option<Arc<Values>> {
        let Some(entry) = self.entries.get_mut(key) else {
            self.use_now.misses += 1;
            return None;
        };
        self.use_now.hits += 1;
        self.uses += 1;
        self.by_use.remove(&entry.last_use);
        self.by_use.insert(self.uses, key.clone());
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.values))
    }

    fn insert(&mut self, key: Key, values: &Arc<Values>) {
        let bytes = values.bytes() as u64;
        if bytes > self.use_now.capacity_bytes {
            return;
        }
        self.remove(&key);
        self.shrink_to(self.use_now.capacity_bytes - bytes);
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(key, Entry { values: Arc::clone(values), bytes, last_use: self.uses });
        self.use_now.held_bytes += bytes;
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.last_use);
            self.use_now.held_bytes -= entry.bytes;
        }
    }

    fn shrink_to(&mut self, bytes: u64) {
        while self.use_now.held_bytes > bytes {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

/// Memory of this host, from the kernel.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::{super::Array, *};

    fn floats(count: usize) -> Result<Values> {
        Ok(Array::F32(vec![0.0; count]).into())
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let cache = ColumnCache::new(1000);
        let file: Arc<str> = "f".into();
        for column in [0, 1, 0, 2] {
            cache.get(&file, 0, column, || floats(100)).unwrap();
        }
        // 0 and 1 filled 800 bytes; 0 was used again, so 2 pushed out 1.
        assert_eq!(cache.use_now(), CacheUse { capacity_bytes: 1000, held_bytes: 800, hits: 1, misses: 3 });
        cache.get(&file, 0, 0, || panic!("0 is here")).unwrap();
        assert!(cache.get(&file, 0, 1, || Err(base::Failure::internal("decoded again"))).is_err());
    }

    #[test]
    fn what_memory_does_not_hold_is_found_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ColumnCache::new(0);
        cache.set_directory(Some((folder.path(), 1 << 20))).unwrap();
        let (file, memory): (Arc<str>, Arc<str>) = ("file:1:2".into(), "volatile:f".into());
        cache.get(&file, 0, 1, || floats(100)).unwrap();
        cache.get(&memory, 0, 1, || floats(100)).unwrap();
        let other = ColumnCache::new(1000);
        other.set_directory(Some((folder.path(), 1 << 20))).unwrap();
        assert_eq!(other.get(&file, 0, 1, || panic!("it is on disk")).unwrap().array.len(), 100);
        other.get(&file, 0, 1, || panic!("it is in memory")).unwrap();
        assert!(other.get(&memory, 0, 1, || Err(base::Failure::internal("decoded again"))).is_err());
        assert!(other.get(&file, 0, 2, || Err(base::Failure::internal("decoded again"))).is_err());
        let DiskUse { hits, misses, .. } = other.disk_use().unwrap();
        assert_eq!((hits, misses, other.use_now().hits), (1, 1, 1));
        other.set_directory(None).unwrap();
        assert_eq!(other.disk_use(), None);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let cache = ColumnCache::new(100);
        let file: Arc<str> = "f".into();
        assert_eq!(cache.get(&file, 0, 0, || floats(1000)).unwrap().array.len(), 1000);
        assert_eq!(cache.use_now().held_bytes, 0);
        cache.get(&file, 0, 0, || floats(10)).unwrap();
        assert_eq!(cache.use_now().held_bytes, 40);
        cache.set_capacity(39);
        assert_eq!(cache.use_now().held_bytes, 0);
    }
}
