//! The keys of a ROOT file: what objects it holds, and where. Everything here is big-endian.
//!
//! Source: ROOT's documentation of its file format (io/doc/TFile: header, tdirectory, tkey).

use super::super::{
    Source,
    cursor::{Cursor, Parsed, corrupt},
};
use base::Failure;
use parquet::errors::ParquetError;
use std::collections::BTreeMap;

/// Most bytes of all lists of keys of a file together, and of all paths of its objects.
const KEYS_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of the path of an object: a directory can be in itself.
const PATH_BYTES_MAX: usize = 4096;
/// Directories that are looked through.
const DIRECTORIES_MAX: usize = 10_000;
/// Version from which offsets of a file are eight bytes long.
const LARGE_FILE: u32 = 1_000_000;
/// The same of keys and directories.
const LARGE_KEY: u16 = 1000;

/// An object of a file.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// Its class.
    pub(super) class: String,
    /// Where its content begins.
    start: u64,
    /// Bytes of its content, compressed and not.
    stored: u64,
    length: u64,
    cycle: u16,
}

impl Key {
    /// The content.
    pub(super) fn content(&self, source: &dyn Source) -> Parsed<Vec<u8>> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        super::block::decompress(&read(source, self.start, self.stored)?, length)
    }
}

/// Reads a range that must be in the file.
pub(super) fn read(source: &dyn Source, start: u64, length: u64) -> Parsed<Vec<u8>> {
    if start.checked_add(length).is_none_or(|end| end > source.len()) {
        return corrupt(format!("{length} bytes at {start} are not in the file"));
    }
    let mut bytes = vec![0; length as usize];
    source.read_at(start, &mut bytes).map_err(external)?;
    Ok(bytes)
}

/// A failure of the source, which passes through the parser as it is.
fn external(failure: Failure) -> ParquetError {
    ParquetError::External(Box::new(failure))
}

/// The objects of a file by their path, the newest of each name; directories are not among them.
pub(super) fn objects(source: &dyn Source) -> Parsed<BTreeMap<String, Key>> {
    let header = read(source, 0, source.len().min(100))?;
    let mut header = Cursor(&header);
    if header.take(4)? != b"root" {
        return corrupt("is not a ROOT file");
    }
    let version = header.big_u32()?;
    let is_large = version >= LARGE_FILE;
    let begin = u64::from(header.big_u32()?);
    // End of the file, and where the free segments are.
    let (_, _) = (header.big_word(is_large)?, header.big_word(is_large)?);
    let (_, _) = (header.big_u32()?, header.big_u32()?);
    let name_length = u64::from(header.big_u32()?);

    let mut found = BTreeMap::new();
    let mut directories = vec![(String::new(), begin.saturating_add(name_length))];
    let mut seen = 0;
    let mut left = Left { keys: source.len().min(KEYS_BYTES_MAX), paths: KEYS_BYTES_MAX };
    while let Some((path, at)) = directories.pop() {
        seen += 1;
        if seen > DIRECTORIES_MAX {
            return corrupt(format!("more than {DIRECTORIES_MAX} directories"));
        }
        for (name, key) in directory(source, at, &mut left)? {
            let path = left.path(&path, name)?;
            if matches!(key.class.as_str(), "TDirectory" | "TDirectoryFile") {
                directories.push((path, key.start));
            } else if found.get(&path).is_none_or(|other: &Key| other.cycle < key.cycle) {
                found.insert(path, key);
            }
        }
    }
    Ok(found)
}

/// Bytes that the rest of a file may take. In a sound file no two directories share a list of keys.
struct Left {
    keys: u64,
    paths: u64,
}

impl Left {
    fn take_keys(&mut self, length: u64) -> Parsed<()> {
        match self.keys.checked_sub(length) {
            Some(left) => self.keys = left,
            None => {
                return corrupt(format!("lists of keys are longer than the file, or {KEYS_BYTES_MAX} bytes"));
            }
        }
        Ok(())
    }

    /// The path of an object of a directory.
    fn path(&mut self, directory: &str, name: String) -> Parsed<String> {
        let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        if path.len() > PATH_BYTES_MAX {
            return corrupt("directories are nested too deeply");
        }
        match self.paths.checked_sub(path.len() as u64) {
            Some(left) => self.paths = left,
            None => return corrupt(format!("paths are longer than {KEYS_BYTES_MAX} bytes together")),
        }
        Ok(path)
    }
}

/// The keys of the directory whose record is at `at`.
fn directory(source: &dyn Source, at: u64, left: &mut Left) -> Parsed<Vec<(String, Key)>> {
    let record = read(source, at, source.len().saturating_sub(at).min(60))?;
    let mut record = Cursor(&record);
    let is_large = record.big_u16()? > LARGE_KEY;
    let (_, _) = (record.big_u32()?, record.big_u32()?);
    let (length, _) = (u64::from(record.big_u32()?), record.big_u32()?);
    let (_, _) = (record.big_word(is_large)?, record.big_word(is_large)?);
    let at = record.big_word(is_large)?;
    if length == 0 {
        return Ok(Vec::new());
    }
    left.take_keys(length)?;
    let list = read(source, at, length)?;
    let mut list = Cursor(&list);
    key(&mut list)?;
    let count = list.big_u32()?;
    (0..count).map(|_| key(&mut list)).collect()
}

fn key(rest: &mut Cursor<'_>) -> Parsed<(String, Key)> {
    let whole = u64::from(rest.big_u32()?);
    let is_large = rest.big_u16()? > LARGE_KEY;
    let length = u64::from(rest.big_u32()?);
    let _time = rest.big_u32()?;
    let header = u64::from(rest.big_u16()?);
    let cycle = rest.big_u16()?;
    let (at, _) = (rest.big_word(is_large)?, rest.big_word(is_large)?);
    let class = rest.key_text()?;
    let name = rest.key_text()?;
    let _title = rest.key_text()?;
    let (Some(start), Some(stored)) = (at.checked_add(header), whole.checked_sub(header)) else {
        return corrupt(format!("key {name:?} is shorter than its header"));
    };
    Ok((name, Key { class, start, stored, length, cycle }))
}
