//! Storage classes: how many tape copies files have, and in which tape pools and libraries. A directory has one for all below it.

use base::{Failure, FilePath, Result, Vid};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Copies of a file at most.
pub const TAPE_COPIES_MAX: usize = 4;
/// Bytes of the name of a tape pool at most.
pub const TAPE_POOL_NAME_BYTES_MAX: usize = 64;
/// Files that one list of missing copies names.
pub const MISSING_COPIES_MAX: usize = 1000;

/// Where one tape copy of a file goes: the archive route of one copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRoute {
    /// The library; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The tape pool; `None`: volumes that are in no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

impl CopyRoute {
    /// Whether a copy on a volume of this library and pool is the one. A volume that is in no library now was in the right one.
    #[must_use]
    pub fn accepts(&self, library: &str, pool: &str) -> bool {
        let is_library = library.is_empty() || self.library.as_ref().is_none_or(|wanted| wanted == library);
        is_library && self.pool.as_deref().unwrap_or_default() == pool
    }
}

impl fmt::Display for CopyRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.library, &self.pool) {
            (None, None) => f.write_str("any"),
            (Some(library), None) => write!(f, "library={library}"),
            (None, Some(pool)) => write!(f, "pool={pool}"),
            (Some(library), Some(pool)) => write!(f, "library={library},pool={pool}"),
        }
    }
}

impl FromStr for CopyRoute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut route = Self::default();
        if text == "any" {
            return Ok(route);
        }
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let field = match key {
                "library" => &mut route.library,
                "pool" => &mut route.pool,
                _ => return Err(format!("`{part}` is none of `any`, `library=NAME` and `pool=NAME`")),
            };
            if value.is_empty() || field.replace(value.to_owned()).is_some() {
                return Err(format!("`{text}` must name one {key}"));
            }
        }
        Ok(route)
    }
}

/// How many tape copies files have, and where they go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageClass {
    /// One for each copy; the copies lie on different volumes.
    pub copies: Vec<CopyRoute>,
}

impl StorageClass {
    /// Refuses what no file can have.
    pub fn check(&self) -> Result<()> {
        if self.copies.is_empty() || self.copies.len() > TAPE_COPIES_MAX {
            let what = format!("a file cannot have {} tape copies by its class", self.copies.len());
            return Err(Failure::invalid(what).hint(format!("name 1 to {TAPE_COPIES_MAX}")));
        }
        self.copies.iter().filter_map(|route| route.pool.as_ref()).try_for_each(|pool| check_pool(pool))
    }
}

impl fmt::Display for StorageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes: Vec<String> = self.copies.iter().map(CopyRoute::to_string).collect();
        let noun = if routes.len() == 1 { "tape copy" } else { "tape copies" };
        write!(f, "{} {noun}: {}", routes.len(), routes.join("; "))
    }
}

/// Refuses what is no name of a tape pool.
pub fn check_pool(name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= TAPE_POOL_NAME_BYTES_MAX && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(Failure::invalid(format!("`{name}` is no name of a tape pool")).hint(format!(
        "use 1 to {TAPE_POOL_NAME_BYTES_MAX} letters, digits, hyphens, underscores and full stops"
    )))
}

/// Sets the storage class of a directory, for all files below it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetStorageClass {
    /// The directory.
    pub path: FilePath,
    /// The class; `None`: that of the directory above counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<StorageClass>,
}

/// Asks for the storage class that counts for a file or directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetStorageClass {
    /// The file or directory.
    pub path: FilePath,
}

/// The storage class that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageClassInfo {
    /// The class; `None`: none was set, and files have one copy, on any volume that is in no tape pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<StorageClass>,
    /// Where it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FilePath>,
}

/// Puts a volume into a tape pool. What is on it stays there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetVolumePool {
    /// The volume.
    pub vid: Vid,
    /// The pool; empty: none.
    pub pool: String,
}

/// Asks which files have fewer tape copies than their class says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetMissingCopies {}

/// Files that lack tape copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCopies {
    /// How many they are.
    pub files_len: u64,
    /// The first [`MISSING_COPIES_MAX`] of them.
    pub files: Vec<MissingCopy>,
    /// Whether files are still compared with their classes.
    pub is_checking: bool,
}

/// One file that lacks tape copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCopy {
    /// The file.
    pub path: FilePath,
    /// Copies that it has.
    pub copies: u32,
    /// Where the others are to go.
    pub missing: Vec<CopyRoute>,
    /// What their request waits for; `None`: there is no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_they_are_written() {
        for text in ["any", "library=lib1", "pool=raw", "library=lib1,pool=raw"] {
            assert_eq!(text.parse::<CopyRoute>().unwrap().to_string(), text);
        }
        for bad in ["", "lib1", "library=", "pool=a,pool=b", "any,pool=a", "library=a;pool=b,"] {
            assert!(bad.parse::<CopyRoute>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_route_takes_volumes_of_its_pool_and_library() {
        let route: CopyRoute = "library=lib1,pool=raw".parse().unwrap();
        assert!(route.accepts("lib1", "raw") && route.accepts("", "raw"));
        assert!(!route.accepts("lib2", "raw") && !route.accepts("lib1", ""));
        let any = CopyRoute::default();
        assert!(any.accepts("lib2", "") && !any.accepts("lib2", "raw"));
    }

    #[test]
    fn classes_that_no_file_can_have_are_refused() {
        let class = |routes: &[&str]| StorageClass {
            copies: routes.iter().map(|route| route.parse().unwrap()).collect(),
        };
        assert_eq!(class(&["any", "pool=raw"]).to_string(), "2 tape copies: any; pool=raw");
        assert!(class(&["any"; 4]).check().is_ok());
        for bad in [class(&[]), class(&["any"; 5]), class(&["pool=a b"])] {
            assert!(bad.check().is_err(), "{bad}");
        }
    }
}
