//! The file that says which partition a directory is: written once, checked at each start.

use super::{INCOMING, OBJECTS, VERSION};
use crate::object::durable;
use base::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

const IDENTITY: &str = "partition.json";
const IDENTITY_NEW: &str = "partition.json.new";
/// An identity is far smaller; a longer file is not one.
const IDENTITY_BYTES_MAX: u64 = 64 << 10;
/// Longest name of a partition in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Who a directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Version of this document.
    pub version: u32,
    /// The facility.
    pub facility: String,
    /// The partition's name in the facility.
    pub partition: String,
    /// Made at creation, 32 hex digits: tells a partition from a new one of the same name.
    pub uuid: String,
}

pub(super) fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "partition name {name:?} is not 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 . _ -"
    )))
}

/// Accepts an empty file system and what an interrupted `create` left; refuses everything else.
pub(super) fn check_empty(directory: &Path) -> Result<()> {
    let entries = |of: &Path| -> Result<Vec<String>> {
        let failed = |cause: io::Error| Failure::io(format!("list {}", of.display()), &cause);
        fs::read_dir(of)
            .map_err(failed)?
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    for name in entries(directory)? {
        let is_fresh = match name.as_str() {
            "lost+found" | IDENTITY_NEW => true,
            OBJECTS | INCOMING => entries(&directory.join(&name))?.is_empty(),
            _ => false,
        };
        if !is_fresh {
            return Err(Failure::exists(format!("{} is not empty: it holds {name}", directory.display()))
                .hint("name an empty directory, or open the partition that is there"));
        }
    }
    Ok(())
}

/// Writes the identity last: a directory without it is not a partition yet.
pub(super) fn initialise(directory: &Path, identity: &Identity) -> io::Result<()> {
    durable::make_directory(&directory.join(OBJECTS))?;
    durable::make_directory(&directory.join(INCOMING))?;
    let mut text = serde_json::to_vec_pretty(identity)?;
    text.push(b'\n');
    let new = directory.join(IDENTITY_NEW);
    durable::write_synced(&new, &text)?;
    durable::rename(&new, &directory.join(IDENTITY))?;
    durable::sync_directory(directory)
}

/// Makes directories durable that an earlier process may have made and not synced: objects are put into them as they are.
pub(super) fn sync_names(directory: &Path) {
    for made in [directory, &directory.join(OBJECTS)] {
        if let Err(cause) = durable::sync_directory(made) {
            tracing::warn!(directory = %base::tail(made), %cause, "cannot sync a directory of a partition");
        }
    }
}

pub(super) fn new_uuid() -> Result<String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Failure::internal(format!("no random bytes for a partition id: {cause}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn read_identity(directory: &Path) -> Result<(Identity, File)> {
    let path = directory.join(IDENTITY);
    let failed = |cause: io::Error| {
        Failure::io(format!("open partition {}: read {IDENTITY}", base::tail(directory)), &cause).hint(
            "is the file system mounted? a new partition is made by its own command, never by opening it",
        )
    };
    let file = File::open(&path).map_err(failed)?;
    let mut text = Vec::new();
    (&file).take(IDENTITY_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    Ok((parse_identity(&text, &path)?, file))
}

fn parse_identity(text: &[u8], path: &Path) -> Result<Identity> {
    let identity: Identity = serde_json::from_slice(text)
        .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", base::tail(path))))?;
    if identity.version != VERSION {
        return Err(Failure::unsupported(format!(
            "{} has version {}, this release reads {VERSION}",
            base::tail(path),
            identity.version
        )));
    }
    Ok(identity)
}

/// Fuzz body: damaged identities are refused, never a panic.
pub fn fuzz_identity(data: &[u8]) {
    let _ = parse_identity(data, Path::new(IDENTITY));
}
