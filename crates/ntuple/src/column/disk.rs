//! The tier of the column cache on a local disk: decoded columns that memory does not hold, also for the next process.
//!
//! Each column of a row group is a file, named by a hash of its key. Integers are little-endian:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | `bpcolumn` |
//! | 8 | 4 | version, 1 |
//! | 12 | 1 | kind: 0 `f4`, 1 `f8`, 2 `i4`, 3 `i8`, 4 `?` |
//! | 13 | 1 | 1 if values can be missing, plus 2 if there are lists |
//! | 14 | 2 | 0 |
//! | 16 | 8 | number of values |
//! | 24 | 8 | number of offsets |
//! | 32 | 4 | row group |
//! | 36 | 4 | column |
//! | 40 | 4 | length of the identity |
//! | 44 | | identity of the file that was read, values, a byte for each value that is present, offsets of 32 bits |
//! | end − 4 | 4 | CRC-32C of all before |
//!
//! A file is written beside its name and renamed, without a sync: what a power cut leaves fails its checksum and is decoded
//! again. The identity has the id and the version of the source, so that a column is never that of an older content.

use super::{
    Array, Kind, Values,
    cursor::{Cursor, Parsed},
    with_values,
};
use base::{Crc32c, Failure, Result};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

const MAGIC: &[u8; 8] = b"bpcolumn";
/// Also raised when columns or row groups of any kind of file are numbered otherwise than before: keys have these numbers.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 44;
const SUFFIX: &str = "column";
/// Of files that are being written.
const PART_SUFFIX: &str = "part";
/// Nobody writes a column for so long: the process was killed.
const PART_AGE_MAX: Duration = Duration::from_secs(3600);
/// What a process may write before it looks again what all of them have written: this part of the capacity.
const SHARE_UNSEEN: u64 = 16;

/// Which column: identity of its file, row group, number.
pub(super) type Key = (Arc<str>, u32, u32);

/// What the tier on disk holds and how often it helped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Most bytes it may hold.
    pub capacity_bytes: u64,
    /// Bytes it held when this process looked last, and what it has written since.
    pub held_bytes: u64,
    /// Columns found on disk by this process.
    pub hits: u64,
    /// Columns that were not there.
    pub misses: u64,
}

/// Columns in a directory.
pub(super) struct DiskTier {
    directory: PathBuf,
    capacity_bytes: u64,
    /// Held while a directory is listed, never while a column is read or written.
    held: Mutex<Held>,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Makes names of files that are being written differ.
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    /// When it was looked, and what was written since.
    bytes: u64,
    /// Of these, what was written since.
    unseen: u64,
}

impl DiskTier {
    /// Opens a directory, or makes it; only its owner may write there, or else somebody could slip columns in.
    pub(super) fn open(directory: &Path, capacity_bytes: u64) -> Result<Self> {
        let failed = |cause: &io::Error| Failure::io(format!("open cache {}", directory.display()), cause);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|cause| failed(&cause))?;
        let directory = fs::canonicalize(directory).map_err(|cause| failed(&cause))?;
        let tier = Self {
            directory,
            capacity_bytes,
            held: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        tier.check_owner().map_err(|cause| failed(&cause))?;
        tier.shrink(&mut tier.lock(), 0).map_err(|cause| failed(&cause))?;
        Ok(tier)
    }

    fn check_owner(&self) -> io::Result<()> {
        let about = fs::metadata(&self.directory)?;
        let (probe, file) = self.begin()?;
        let own = file.metadata().map(|own| own.uid());
        fs::remove_file(probe)?;
        if about.mode() & 0o022 == 0 && own? == about.uid() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write in the directory"))
    }

    /// What it holds.
    pub(super) fn use_now(&self) -> DiskUse {
        DiskUse {
            capacity_bytes: self.capacity_bytes,
            held_bytes: self.lock().bytes,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// A column, if it is here and whole.
    pub(super) fn get(&self, key: &Key) -> Option<Values> {
        let found = self.read(key);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn read(&self, key: &Key) -> Option<Values> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let Some(values) = decode(key, &bytes) else {
            // Damaged, of another version, or of another key with the same hash.
            let _ = fs::remove_file(&path);
            return None;
        };
        // The oldest are removed first; a failure changes only that order.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(values)
    }

    /// Keeps a column if there is room. A full or broken disk costs the next pass time, and this one nothing.
    pub(super) fn put(&self, key: &Key, values: &Values) {
        let bytes = encode(key, values);
        let length = bytes.len() as u64;
        if length > self.capacity_bytes / SHARE_UNSEEN {
            return;
        }
        {
            let mut held = self.lock();
            let is_full = held.bytes + length > self.capacity_bytes;
            let is_old = held.unseen + length > self.capacity_bytes / SHARE_UNSEEN;
            if (is_full || is_old) && self.shrink(&mut held, length).is_err() {
                return;
            }
            (held.bytes, held.unseen) = (held.bytes + length, held.unseen + length);
        }
        let Ok((beside, mut file)) = self.begin() else { return };
        let done = file.write_all(&bytes).and_then(|()| fs::rename(&beside, self.path(key)));
        if done.is_err() {
            let _ = fs::remove_file(beside);
        }
    }

    /// A new file under a name that nobody looks for.
    fn begin(&self) -> io::Result<(PathBuf, File)> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{}.{number}.{PART_SUFFIX}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok((path, file))
    }

    /// Looks what is there, and removes the longest unused columns until there is room for `more` and for what other
    /// processes write before they look again.
    fn shrink(&self, held: &mut Held, more: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let path = entry.path();
            // Another process may remove it meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() && path.extension().is_some_and(|suffix| suffix == SUFFIX) {
                files.push((about.modified()?, about.len(), path));
            } else if about.is_file() && is_part(&path) && is_old(about.modified()?) {
                // It is in nobody's count; if that fails, the next look tries again.
                let _ = fs::remove_file(path);
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
        let room = self.capacity_bytes - self.capacity_bytes / SHARE_UNSEEN;
        for (_, length, path) in files {
            if bytes + more <= room {
                break;
            }
            match fs::remove_file(path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => bytes -= length,
            }
        }
        *held = Held { bytes, unseen: 0 };
        Ok(())
    }

    fn path(&self, key: &Key) -> PathBuf {
        let (identity, row_group, column) = key;
        let text = format!("{row_group}:{column}:{identity}");
        let hash = twox_hash::XxHash3_64::oneshot(text.as_bytes());
        self.directory.join(format!("{hash:016x}.{SUFFIX}"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        // Numbers only: they are right enough after a panic, and corrected at the next look.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file has a name that [`DiskTier::begin`] gives: process and number.
fn is_part(path: &Path) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stem = path.file_stem().and_then(|stem| stem.to_str()?.split_once('.'));
    path.extension().is_some_and(|suffix| suffix == PART_SUFFIX)
        && stem.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn is_old(modified: SystemTime) -> bool {
    SystemTime::now().duration_since(modified).is_ok_and(|age| age > PART_AGE_MAX)
}

/// The kinds in the order of their numbers.
const KINDS: [Kind; 5] = [Kind::F32, Kind::F64, Kind::I32, Kind::I64, Kind::Bool];

fn encode((identity, row_group, column): &Key, values: &Values) -> Vec<u8> {
    let kind = KINDS.iter().position(|kind| *kind == values.array.kind()).unwrap_or_default();
    let offsets = values.offsets.as_ref().map_or(&[][..], |offsets| offsets);
    let flags = u8::from(values.present.is_some()) | u8::from(values.offsets.is_some()) << 1;
    let mut out = Vec::with_capacity(HEADER_BYTES + identity.len() + values.bytes() + 4);
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([kind as u8, flags, 0, 0]);
    out.extend((values.array.len() as u64).to_le_bytes());
    out.extend((offsets.len() as u64).to_le_bytes());
    for number in [*row_group, *column, identity.len() as u32] {
        out.extend(number.to_le_bytes());
    }
    out.extend(identity.as_bytes());
    with_values!(&values.array, values => {
        for value in values {
            out.extend(value.to_le_bytes());
        }
    });
    out.extend(values.present.iter().flatten());
    for offset in offsets {
        out.extend(offset.to_le_bytes());
    }
    out.extend(Crc32c::of(&out).0.to_le_bytes());
    out
}

/// `None` unless the bytes are whole and those of the key.
fn decode(key: &Key, bytes: &[u8]) -> Option<Values> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if Crc32c::of(body).0.to_le_bytes() != *sum {
        return None;
    }
    read_body(key, Cursor(body)).ok().flatten()
}

fn read_body((identity, row_group, column): &Key, mut rest: Cursor<'_>) -> Parsed<Option<Values>> {
    if rest.take(8)? != MAGIC || rest.u32()? != VERSION {
        return Ok(None);
    }
    let [kind, flags, ..] = *rest.take(4)? else { return Ok(None) };
    let (values, offsets) = (rest.u64()?, rest.u64()?);
    let own = (rest.u32()?, rest.u32()?);
    let length = rest.u32()?;
    if own != (*row_group, *column) || rest.take(length as usize)? != identity.as_bytes() {
        return Ok(None);
    }
    let [values, offsets] = [values, offsets].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let array = match KINDS.get(usize::from(kind)) {
        Some(Kind::F32) => Array::F32(rest.words(values, f32::from_le_bytes)?),
        Some(Kind::F64) => Array::F64(rest.words(values, f64::from_le_bytes)?),
        Some(Kind::I32) => Array::I32(rest.words(values, i32::from_le_bytes)?),
        Some(Kind::I64) => Array::I64(rest.words(values, i64::from_le_bytes)?),
        Some(Kind::Bool) => Array::Bool(rest.take(values)?.to_vec()),
        None => return Ok(None),
    };
    let present = if flags & 1 != 0 { Some(rest.take(values)?.to_vec()) } else { None };
    let offsets = rest.words(offsets, u32::from_le_bytes)?;
    let offsets = (flags & 2 != 0).then(|| Arc::new(offsets));
    Ok(rest.0.is_empty().then_some(Values { array, present, offsets }))
}

/// Reads any bytes as a column of the tier on disk; a fuzz body. The checksum is made right, or hardly anything would be
/// read behind it.
pub fn fuzz_disk_column(data: &[u8]) {
    let mut bytes = data.to_vec();
    bytes.extend(Crc32c::of(data).0.to_le_bytes());
    let _ = decode(&("f".into(), 0, 0), &bytes);
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
