//! Absolute, normal paths of the namespace.

use crate::{
    Failure,
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX},
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An absolute path without `.`, `..`, empty components, NUL or trailing slash.
///
/// ```
/// use base::FilePath;
/// let path: FilePath = "//data/./run1.parquet".parse()?;
/// assert_eq!(path.as_str(), "/data/run1.parquet");
/// assert!("/data/../etc".parse::<FilePath>().is_err());
/// # Ok::<(), base::Failure>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FilePath(String);

impl FilePath {
    /// The root directory `/`.
    #[must_use]
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// The path as text; always begins with `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The components from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names().next_back().unwrap_or("")
    }

    /// The directory that holds this; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, name) = self.0.rsplit_once('/')?;
        match (parent, name) {
            (_, "") => None,
            ("", _) => Some(Self::root()),
            (parent, _) => Some(Self(parent.to_owned())),
        }
    }

    /// The entry `name` of this directory.
    pub fn join(&self, name: &str) -> Result<Self, Failure> {
        format!("{}/{name}", self.0).parse()
    }

    /// Whether `self` is `other` or lies below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root()
            || self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for FilePath {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let refuse = |why: &str| Err(Failure::invalid(format!("path {text:?} {why}")));
        if text.len() > PATH_BYTES_MAX {
            return Err(Failure::invalid(format!(
                "path of {} bytes is longer than {PATH_BYTES_MAX}",
                text.len()
            )));
        }
        if !text.starts_with('/') {
            return refuse("does not begin with /");
        }
        if text.contains(|c: char| c.is_control()) {
            return refuse("has a control character");
        }
        let mut normal = String::with_capacity(text.len());
        let mut depth = 0;
        for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
            if name == ".." {
                return refuse("has a `..` component");
            }
            if name.len() > NAME_BYTES_MAX {
                return refuse("has a name longer than 255 bytes");
            }
            depth += 1;
            normal.push('/');
            normal.push_str(name);
        }
        if depth > PATH_DEPTH_MAX {
            return refuse("is deeper than 128 directories");
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Ok(Self(normal))
    }
}

impl TryFrom<String> for FilePath {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<FilePath> for String {
    fn from(path: FilePath) -> Self {
        path.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parents_end_at_the_root() {
        let path: FilePath = "/a/b".parse().unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "/a");
        assert_eq!(path.parent().unwrap().parent().unwrap(), FilePath::root());
        assert_eq!(FilePath::root().parent(), None);
        assert!(path.is_within(&"/a".parse().unwrap()));
        assert!(!"/ab".parse::<FilePath>().unwrap().is_within(&"/a".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn parsing_is_idempotent_and_never_leaves_the_root(text in "/[a./\\x00ü]{0,40}") {
            if let Ok(path) = text.parse::<FilePath>() {
                prop_assert_eq!(path.as_str().parse::<FilePath>().unwrap(), path.clone());
                prop_assert!(path.names().all(|name| name != ".." && name != "."));
            }
        }
    }
}
