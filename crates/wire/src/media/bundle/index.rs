//! The index of a bundle: a text that people can read, too.

use super::{BundleError, MEMBERS_MAX, Member};
use base::{Checksums, FileId};
use serde::{Deserialize, Serialize};

const FORMAT: &str = "backplane-bundle";
const VERSION: u32 = 1;

/// Its first line.
#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    files: usize,
}

/// The line of a file.
#[derive(Serialize, Deserialize)]
struct Line {
    file: u64,
    offset: u64,
    size: u64,
    #[serde(flatten)]
    checksums: Checksums,
    path: String,
}

/// The text of the index.
#[must_use]
pub fn encode_index(members: &[Member]) -> Vec<u8> {
    let head = Head { format: FORMAT.to_owned(), version: VERSION, files: members.len() };
    let mut text = serde_json::to_string(&head).expect("a struct of text and numbers");
    for Member { file, offset, size, checksums, path } in members {
        let (file, offset, size, checksums) = (file.0, *offset, *size, *checksums);
        let line = Line { file, offset, size, checksums, path: path.clone() };
        text.push('\n');
        text.push_str(&serde_json::to_string(&line).expect("a struct of text and numbers"));
    }
    text.push('\n');
    text.into_bytes()
}

/// Reads what [`encode_index`] wrote.
pub(super) fn decode_index(text: &[u8]) -> Result<Vec<Member>, BundleError> {
    let bad = |why: &dyn std::fmt::Display| BundleError::Index(why.to_string());
    let text = std::str::from_utf8(text).map_err(|cause| bad(&cause))?;
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().unwrap_or_default()).map_err(|cause| bad(&cause))?;
    if (head.format.as_str(), head.version) != (FORMAT, VERSION) {
        return Err(bad(&format_args!("format {:?} version {}", head.format, head.version)));
    }
    let mut members = Vec::new();
    for line in lines {
        if members.len() == MEMBERS_MAX {
            return Err(BundleError::TooLong);
        }
        let Line { file, offset, size, checksums, path } =
            serde_json::from_str(line).map_err(|cause| bad(&cause))?;
        members.push(Member { file: FileId(file), offset, size, checksums, path });
    }
    if members.len() != head.files {
        return Err(bad(&format_args!("it has {} lines, and its first says {}", members.len(), head.files)));
    }
    Ok(members)
}
