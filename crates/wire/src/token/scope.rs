//! What a token allows: the storage scopes of the WLCG token profile, `storage.read:/data storage.create:/home/ann`.

use crate::http::{decode_path, encode_path};
use base::{Failure, FilePath, Result};
use std::fmt;

/// Scopes of one token: real ones have a handful.
pub const SCOPES_MAX: usize = 64;

/// What somebody wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// See that it is there: attributes, checksums, where it is. Every storage scope allows it on its path.
    Look,
    /// Read it, list it.
    Read,
    /// Make it, where nothing is.
    Create,
    /// Change, replace, rename or remove it.
    Modify,
    /// Ask for or give up its disk replica.
    Stage,
}

impl Right {
    /// What it is called in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look at",
            Self::Read => "read",
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Stage => "stage",
        }
    }
}

/// What a scope grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// `storage.read`
    Read,
    /// `storage.create`
    Create,
    /// `storage.modify`
    Modify,
    /// `storage.stage`
    Stage,
    /// `storage.poll`
    Poll,
}

impl Grant {
    const ALL: [Self; 5] = [Self::Read, Self::Create, Self::Modify, Self::Stage, Self::Poll];

    /// The word in a scope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "storage.read",
            Self::Create => "storage.create",
            Self::Modify => "storage.modify",
            Self::Stage => "storage.stage",
            Self::Poll => "storage.poll",
        }
    }

    /// Whether it includes a right: modify includes create, stage includes read.
    fn includes(self, right: Right) -> bool {
        match right {
            Right::Look => true,
            Right::Read => matches!(self, Self::Read | Self::Stage),
            Right::Create => matches!(self, Self::Create | Self::Modify),
            Right::Modify => self == Self::Modify,
            Right::Stage => self == Self::Stage,
        }
    }
}

/// One scope: a grant on a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// What.
    pub grant: Grant,
    /// Where.
    pub path: FilePath,
}

/// The storage scopes of a token. Without any, nothing is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Reads words between spaces. Words that are not about storage mean nothing here; a storage scope without a good
    /// path makes the token invalid, as the profile demands.
    pub fn parse(text: &str) -> Result<Self> {
        let words: Vec<_> =
            text.split_ascii_whitespace().filter(|word| word.starts_with("storage.")).collect();
        if words.len() > SCOPES_MAX {
            return Err(Failure::invalid(format!("{} scopes are more than {SCOPES_MAX}", words.len())));
        }
        words.into_iter().filter_map(Scope::parse).collect::<Result<_>>().map(Self)
    }

    /// Whether `right` is allowed on `path`.
    #[must_use]
    pub fn allow(&self, right: Right, path: &FilePath) -> bool {
        self.0.iter().any(|scope| scope.grant.includes(right) && path.is_within(&scope.path))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Scope {
    /// `None`: a grant that means nothing here.
    fn parse(word: &str) -> Option<Result<Self>> {
        let (name, path) = word.split_once(':').unwrap_or((word, ""));
        let grant = Grant::ALL.into_iter().find(|grant| grant.as_str() == name)?;
        let parsed = decode_path(path).map_err(|cause| cause.during(format!("scope {name}")));
        Some(parsed.map(|path| Self { grant, path }))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Scope { grant, path }) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}:{}", grant.as_str(), encode_path(path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    #[test]
    fn each_right_is_granted_by_its_scopes_only() {
        let table = [
            ("storage.read", [true, true, false, false, false]),
            ("storage.create", [true, false, true, false, false]),
            ("storage.modify", [true, false, true, true, false]),
            ("storage.stage", [true, true, false, false, true]),
            ("storage.poll", [true, false, false, false, false]),
        ];
        let rights = [Right::Look, Right::Read, Right::Create, Right::Modify, Right::Stage];
        for (name, expected) in table {
            let scopes = Scopes::parse(&format!("{name}:/data")).unwrap();
            assert_eq!(rights.map(|right| scopes.allow(right, &path("/data/run1"))), expected, "{name}");
            assert_eq!(rights.map(|right| scopes.allow(right, &path("/database"))), [false; 5], "{name}");
            assert_eq!(rights.map(|right| scopes.allow(right, &path("/"))), [false; 5], "{name}");
        }
    }

    #[test]
    fn other_words_mean_nothing_and_scopes_without_path_are_refused() {
        let scopes = Scopes::parse("openid storage.fly:/x compute.read  storage.read:/a%20b").unwrap();
        assert!(scopes.allow(Right::Read, &path("/a b/c")));
        assert_eq!(scopes.to_string(), "storage.read:/a%20b");
        assert!(Scopes::parse("").unwrap().is_empty());
        for bad in [
            "storage.read",
            "storage.read:",
            "storage.read:a",
            "storage.read:/a/../b",
            "storage.read:/%2e%2e",
        ] {
            assert!(Scopes::parse(bad).is_err(), "{bad}");
        }
        assert!(Scopes::parse("storage.read:/%ff").is_err());
        assert!(Scopes::parse(&"storage.read:/ ".repeat(SCOPES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn scopes_come_back(name in "/[a-zA-Z0-9ü %.:]{1,10}x") {
            if let Ok(path) = name.parse::<FilePath>() {
                let scopes = Scopes(vec![Scope { grant: Grant::Modify, path }]);
                prop_assert_eq!(Scopes::parse(&scopes.to_string()).unwrap(), scopes);
            }
        }
    }
}
