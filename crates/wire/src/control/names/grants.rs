//! Grants on files and directories: rights of users and groups beyond the permission bits.

use base::{Failure, FilePath, Timestamp, check_name};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// To whom something is granted: `user:NAME` or `group:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Subject {
    /// A user.
    User(String),
    /// Everybody in a group.
    Group(String),
}

impl FromStr for Subject {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let refuse = || {
            Failure::invalid(format!("{text:?} is neither a user nor a group"))
                .hint("write user:NAME or group:NAME")
        };
        let (kind, name) = text.split_once(':').ok_or_else(refuse)?;
        let subject = match kind {
            "user" => Self::User(name.to_owned()),
            "group" => Self::Group(name.to_owned()),
            _ => return Err(refuse()),
        };
        check_name(kind, name).map(|()| subject)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

/// What is granted: `r` to read files and list directories, `w` to make, change, rename and remove, `rw` for both. Each
/// allows to walk through directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rights {
    /// `r`
    Read,
    /// `w`
    Write,
    /// `rw`
    ReadWrite,
}

impl Rights {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
        }
    }

    /// The same as permission bits of a directory: 4 to read, 2 to change, 1 to walk through.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Read => 5,
            Self::Write => 3,
            Self::ReadWrite => 7,
        }
    }
}

impl FromStr for Rights {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let all = [Self::Read, Self::Write, Self::ReadWrite];
        all.into_iter()
            .find(|rights| rights.as_str() == text)
            .ok_or_else(|| Failure::invalid(format!("{text:?} is not a right")).hint("write r, w or rw"))
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for Rights {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<Rights> for String {
    fn from(rights: Rights) -> Self {
        rights.as_str().to_owned()
    }
}

/// Grants something on a file, or on a directory and all that is below it, now and later; what the subject was granted there before is
/// replaced.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetGrant {
    /// The file or directory.
    pub path: FilePath,
    /// The user or group.
    pub subject: Subject,
    /// The rights; none revokes the grant.
    #[serde(default)]
    pub rights: Option<Rights>,
}

/// Shows grants.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetGrants {
    /// Those that count for this file or directory; none: all, for operators.
    #[serde(default)]
    pub path: Option<FilePath>,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantInfo {
    /// The file or directory on which it was made.
    pub path: FilePath,
    /// The user or group.
    pub subject: Subject,
    /// The rights.
    pub rights: Rights,
    /// The user who granted it.
    pub giver: String,
    /// When.
    pub made: Timestamp,
}

/// Grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantList {
    /// By path, then by subject.
    pub grants: Vec<GrantInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_rights_are_words() {
        for text in ["user:ann", "group:prod", "user:a.b@c-d_e"] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        for bad in ["ann", "user:", ":ann", "other:ann", "user:a b", "group:a,b", "user:a:b", "user:a\n"] {
            assert!(bad.parse::<Subject>().unwrap_err().hint.is_some(), "{bad}");
        }
        assert!(format!("user:{}", "x".repeat(base::limits::NAME_BYTES_MAX + 1)).parse::<Subject>().is_err());
        for (text, bits) in [("r", 5), ("w", 3), ("rw", 7)] {
            let rights: Rights = text.parse().unwrap();
            assert_eq!((rights.bits(), &*rights.to_string()), (bits, text));
        }
        for bad in ["", "wr", "x", "rwx", "R"] {
            assert!(bad.parse::<Rights>().is_err(), "{bad}");
        }
    }

    #[test]
    fn calls_are_checked_where_they_are_read() {
        let call: SetGrant =
            serde_json::from_str(r#"{"path":"/d","subject":"group:prod","rights":"rw"}"#).unwrap();
        assert_eq!((call.subject, call.rights), (Subject::Group("prod".into()), Some(Rights::ReadWrite)));
        for bad in [r#"{"path":"/d","subject":"prod"}"#, r#"{"path":"/d","subject":"user:a","rights":"x"}"#] {
            assert!(serde_json::from_str::<SetGrant>(bad).is_err(), "{bad}");
        }
    }
}
