//! Scopes of a token: the storage scopes of the WLCG token profile, `storage.read:/data storage.create:/home/ann`.

use crate::http::{decode_path, encode_path};
use base::{Failure, FilePath, Result};
use std::fmt;

/// Scopes of one token: real ones have a handful.
pub const SCOPES_MAX: usize = 64;

/// What somebody wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// See that it is there: attributes, checksums, where it is. Every storage scope allows it on its path, and on the
    /// directories that lead there.
    Look,
    /// See what is in it.
    List,
    /// Read it.
    Read,
    /// Make a directory. Those that lead to the path of a scope may be made, too.
    MakeDirectory,
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
            Self::List => "list",
            Self::Read => "read",
            Self::MakeDirectory => "make directory",
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

    /// Whether it includes a right: modify includes create; nothing but read includes read.
    fn includes(self, right: Right) -> bool {
        match right {
            Right::Look => true,
            Right::List | Right::Read => self == Self::Read,
            Right::MakeDirectory | Right::Create => matches!(self, Self::Create | Self::Modify),
            Right::Modify => self == Self::Modify,
            Right::Stage => self == Self::Stage,
        }
    }
}

/// One scope: a grant on a path and everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The rights.
    pub grant: Grant,
    /// Where.
    pub path: FilePath,
    /// Whether it was written with a slash at its end: then the path is that of a directory, never of a file.
    pub is_directory: bool,
}

/// The storage scopes of a token. Without any, nothing is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Reads words between spaces. Words that are not about storage mean nothing here; a storage scope without a good
    /// path makes the token invalid, as the profile demands.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_words(text, |name| Grant::ALL.into_iter().find(|grant| grant.as_str() == name))
    }

    /// The same for SciTokens: `read:/p` and `write:/p`.
    pub fn parse_scitokens(text: &str) -> Result<Self> {
        Self::parse_words(text, |name| match name {
            "read" => Some(Grant::Read),
            "write" => Some(Grant::Modify),
            _ => None,
        })
    }

    fn parse_words(text: &str, grant: impl Fn(&str) -> Option<Grant>) -> Result<Self> {
        let mut scopes = Vec::new();
        for word in text.split_ascii_whitespace() {
            let (name, path) = word.split_once(':').unwrap_or((word, ""));
            let Some(grant) = grant(name) else { continue };
            if scopes.len() == SCOPES_MAX {
                return Err(Failure::invalid(format!("more than {SCOPES_MAX} scopes in a token")));
            }
            scopes.push(Scope::parse(grant, name, path)?);
        }
        Ok(Self(scopes))
    }

    /// Everything at `path` and below it.
    #[must_use]
    pub fn everything_below(path: &FilePath) -> Self {
        let scope = |grant| Scope { grant, path: path.clone(), is_directory: false };
        Self([Grant::Read, Grant::Modify, Grant::Stage].map(scope).into())
    }

    /// The same scopes on paths below `base`.
    pub fn below(self, base: &FilePath) -> Result<Self> {
        let moved = |scope: Scope| Ok(Scope { path: base.join(scope.path.as_str())?, ..scope });
        self.0.into_iter().map(moved).collect::<Result<_>>().map(Self)
    }

    /// Whether `right` is allowed on `path`.
    #[must_use]
    pub fn allow(&self, right: Right, path: &FilePath) -> bool {
        self.0.iter().any(|scope| scope.allows(right, path))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Scope {
    fn parse(grant: Grant, name: &str, path: &str) -> Result<Self> {
        let parsed = decode_path(path).map_err(|cause| cause.during(format!("scope {name}")))?;
        Ok(Self { grant, is_directory: path.ends_with('/') && !parsed.is_root(), path: parsed })
    }

    fn allows(&self, right: Right, path: &FilePath) -> bool {
        if !self.grant.includes(right) {
            return false;
        }
        let is_of_directories = matches!(right, Right::Look | Right::List | Right::MakeDirectory);
        let is_on_the_way = self.path.is_within(path) && matches!(right, Right::Look | Right::MakeDirectory);
        let is_below = path.is_within(&self.path);
        is_on_the_way || is_below && (is_of_directories || !self.is_directory || *path != self.path)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Scope { grant, path, is_directory }) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let slash = if *is_directory { "/" } else { "" };
            write!(f, "{space}{}:{}{slash}", grant.as_str(), encode_path(path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RIGHTS: [Right; 7] = [
        Right::Look,
        Right::List,
        Right::Read,
        Right::MakeDirectory,
        Right::Create,
        Right::Modify,
        Right::Stage,
    ];

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    #[test]
    fn each_right_is_granted_by_its_scopes_only() {
        let (yes, no) = (true, false);
        let table = [
            ("storage.read", [yes, yes, yes, no, no, no, no]),
            ("storage.create", [yes, no, no, yes, yes, no, no]),
            ("storage.modify", [yes, no, no, yes, yes, yes, no]),
            ("storage.stage", [yes, no, no, no, no, no, yes]),
            ("storage.poll", [yes, no, no, no, no, no, no]),
        ];
        for (name, expected) in table {
            let scopes = Scopes::parse(&format!("{name}:/data/x")).unwrap();
            let allowed = |at: &str| RIGHTS.map(|right| scopes.allow(right, &path(at)));
            assert_eq!(allowed("/data/x/run1"), expected, "{name}");
            assert_eq!(allowed("/data/x"), expected, "{name}");
            assert_eq!(allowed("/data/xy"), [no; 7], "{name}");
            let on_the_way = [yes, no, no, expected[3], no, no, no];
            assert_eq!((allowed("/data"), allowed("/")), (on_the_way, on_the_way), "{name}");
        }
    }

    #[test]
    fn a_slash_at_the_end_means_a_directory() {
        let scopes = Scopes::parse("storage.read:/data/ storage.modify:/data/").unwrap();
        let allowed = |at: &str| RIGHTS.map(|right| scopes.allow(right, &path(at)));
        assert_eq!(allowed("/data"), [true, true, false, true, false, false, false]);
        assert_eq!(allowed("/data/x"), [true, true, true, true, true, true, false]);
        assert_eq!(scopes.to_string(), "storage.read:/data/ storage.modify:/data/");
        assert!(Scopes::parse("storage.read:/").unwrap().allow(Right::Read, &path("/x")));
    }

    #[test]
    fn scopes_lie_below_the_base_of_their_issuer() {
        let scopes = Scopes::parse("storage.read:/ storage.create:/a/").unwrap().below(&path("/vo")).unwrap();
        assert_eq!(scopes.to_string(), "storage.read:/vo storage.create:/vo/a/");
        let all = Scopes::everything_below(&path("/vo"));
        assert!(RIGHTS.into_iter().all(|right| all.allow(right, &path("/vo/x"))));
        assert!(!all.allow(Right::Read, &path("/vox")) && !all.allow(Right::List, &path("/")));
        let long = format!("storage.read:/{}", "a/".repeat(base::limits::PATH_DEPTH_MAX - 1));
        assert!(Scopes::parse(&long).unwrap().below(&path("/b/c")).is_err());
    }

    #[test]
    fn the_words_of_scitokens() {
        let scopes = Scopes::parse_scitokens("read:/a write:/b/c storage.read:/d queue").unwrap();
        assert_eq!(scopes.to_string(), "storage.read:/a storage.modify:/b/c");
        for bad in ["read", "write:", "read:/a/../b", "read:b"] {
            assert!(Scopes::parse_scitokens(bad).is_err(), "{bad}");
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
                let scopes = Scopes(vec![Scope { grant: Grant::Modify, path, is_directory: false }]);
                prop_assert_eq!(Scopes::parse(&scopes.to_string()).unwrap(), scopes);
            }
        }
    }
}
