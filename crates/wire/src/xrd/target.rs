//! A path with its opaque part: `/data/run1.root?authz=…&oss.asize=7` (spec/xrootd.md §2).

use super::frame::{Malformed, text};
use std::fmt;

/// Pairs of one opaque part: bounds the work of a lookup.
pub const OPAQUE_PAIRS_MAX: usize = 256;

/// The text after `?`: pairs `key=value` in the order sent.
///
/// Values may be secrets (tokens, capabilities), so `Debug` shows only keys, and there is no `Display`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Opaque(Vec<(String, String)>);

impl Opaque {
    /// Splits `a=b&c=d`; empty parts are skipped, a key without `=` has an empty value.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let parts = text.split('&').filter(|part| !part.is_empty()).take(OPAQUE_PAIRS_MAX);
        Self(parts.map(|part| part.split_once('=').unwrap_or((part, ""))).map(owned).collect())
    }

    /// The first value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == key).map(|pair| pair.1.as_str())
    }

    /// Adds a pair.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|pair| (pair.0.as_str(), pair.1.as_str()))
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text `a=b&c=d`. It may hold secrets: send it, never log it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let parts: Vec<_> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        parts.join("&")
    }
}

fn owned(pair: (&str, &str)) -> (String, String) {
    (pair.0.to_owned(), pair.1.to_owned())
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|pair| &pair.0)).finish()
    }
}

/// A path as sent and its opaque part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The path as sent; not yet checked or made normal.
    pub path: String,
    /// What followed `?`.
    pub opaque: Opaque,
}

impl Target {
    /// A path without opaque part.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), opaque: Opaque::default() }
    }

    /// Parses a path argument: at most one trailing NUL, no other, UTF-8.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let target = Self::from_text(text(bytes, "path")?);
        if target.path.is_empty() { Err(Malformed::Missing("path")) } else { Ok(target) }
    }

    /// Splits the text at the first `?`.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let (path, opaque) = text.split_once('?').unwrap_or((text, ""));
        Self { path: path.to_owned(), opaque: Opaque::parse(opaque) }
    }

    /// Whether the path is that of a directory by its form: with a slash or a dot at its end.
    #[must_use]
    pub fn names_directory(&self) -> bool {
        crate::names_directory(&self.path)
    }

    /// The text `path?opaque`. It may hold secrets: send it, never log it.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.opaque.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.opaque.to_text())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_is_split_and_secrets_stay_hidden() {
        let target = Target::parse(b"/a b?&authz=s3cret&x&y=1=2\0").unwrap();
        assert_eq!(target.path, "/a b");
        assert_eq!(target.opaque.get("authz"), Some("s3cret"));
        assert_eq!(target.opaque.get("x"), Some(""));
        assert_eq!(target.opaque.get("y"), Some("1=2"));
        assert!(!format!("{target:?}").contains("s3cret"));
        assert_eq!(Target::from_text(&target.to_text()), target);
    }

    #[test]
    fn one_trailing_nul_is_allowed_and_no_other() {
        assert!(Target::parse(b"/a\0").is_ok());
        assert!(Target::parse(b"/a\0\0").is_err());
        assert!(Target::parse(b"/a\0b").is_err());
        assert!(Target::parse(b"").is_err());
        assert!(Target::parse(b"/\xff").is_err());
    }
}
