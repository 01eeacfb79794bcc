//! The location of a catalogue.

use crate::store::engine::{Address, Engine, Postgres, Sqlite};
use base::{Failure, Result};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The location of a catalogue.
#[derive(Clone, PartialEq, Eq)]
pub enum Catalogue {
    /// In a file of its own.
    File(PathBuf),
    /// In a PostgreSQL database, by URL: `postgresql://user@host/database`. It may hold a password.
    Database(String),
}

impl Catalogue {
    /// The database at a URL, `postgresql://user@host/database`, which may not hold a password: that is given apart.
    pub fn database(url: &str, password: Option<&str>) -> Result<Self> {
        let hint = "use postgresql://USER@HOST/DATABASE, and put the password into a separate file";
        let is_url = ["postgresql://", "postgres://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_url {
            return Err(Failure::invalid("catalogue is not a database URL").hint(hint));
        }
        if Address::parse(url)?.has_password() {
            return Err(Failure::invalid(
                "catalogue contains a password, but other users can read facility.toml",
            )
            .hint("name a file that holds it: `catalogue_password = \"/etc/…\"`"));
        }
        let Some(password) = password else { return Ok(Self::Database(url.to_owned())) };
        let join = if url.contains('?') { '&' } else { '?' };
        let encoded: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Ok(Self::Database(format!("{url}{join}password={encoded}")))
    }

    /// Refuses a place that holds a catalogue already, or cannot be reached.
    pub fn require_vacant(&self) -> Result<()> {
        match self {
            Self::File(file) => {
                // A log that is left would be taken for that of the new file.
                let mut log = file.clone().into_os_string();
                log.push("-wal");
                match [file, &PathBuf::from(log)].into_iter().find(|path| path.exists()) {
                    Some(path) => Err(Failure::exists(format!("catalogue {} exists", path.display()))
                        .hint("move it away, with its log if there is one; it is never overwritten")),
                    None => Ok(()),
                }
            }
            Self::Database(url) => match Postgres::is_vacant(url) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::exists(format!("{self} holds a facility already"))
                    .hint("name another database: `createdb NAME` makes one")),
                Err(error) => Err(Failure::from(error).during(format!("open {self}"))),
            },
        }
    }

    /// Opens its engine; a file is made only if that is wanted.
    pub(in crate::store) fn open(&self, create: bool) -> Result<Box<dyn Engine>> {
        match self {
            Self::File(file) if create && file.exists() => Err(Failure::exists(format!("{self} exists"))),
            Self::File(file) => match Sqlite::open(file, create) {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(Failure::from(error).during(format!("open {self}"))),
            },
            Self::Database(url) => match Postgres::open(url) {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(Failure::from(error).during(format!("open {self}"))),
            },
        }
    }
}

impl fmt::Display for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "catalogue {}", file.display()),
            // What stands before the host, and after `?`, may be a password; other forms may have one anywhere.
            Self::Database(url) => match url.split('?').next().and_then(|url| url.split_once("://")) {
                Some((_, place)) => {
                    write!(f, "catalogue in the database {}", place.rsplit('@').next().unwrap_or_default())
                }
                None => write!(f, "catalogue in a database"),
            },
        }
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<&Path> for Catalogue {
    fn from(file: &Path) -> Self {
        Self::File(file.to_owned())
    }
}

impl From<&PathBuf> for Catalogue {
    fn from(file: &PathBuf) -> Self {
        Self::File(file.clone())
    }
}

impl From<&Catalogue> for Catalogue {
    fn from(catalogue: &Catalogue) -> Self {
        catalogue.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| Catalogue::Database(url.into()).to_string();
        assert_eq!(shown("postgresql://u:s3cret@db.example/cat"), "catalogue in the database db.example/cat");
        assert_eq!(shown("postgres://u@db/cat?password=s3@cret"), "catalogue in the database db/cat");
        assert_eq!(shown("postgres://u:s3cret@db"), "catalogue in the database db");
        assert_eq!(shown("host=db password=s3cret"), "catalogue in a database");
    }

    #[test]
    fn a_password_comes_apart_from_the_url() {
        for (url, word) in [
            ("postgresql://u:s3cret@db/cat", "contains a password"),
            ("postgresql://u@db/cat?password=s3cret", "contains a password"),
            ("host=db password=s3cret", "not a database URL"),
            ("mysql://db/cat", "not a database URL"),
        ] {
            let failure = Catalogue::database(url, None).unwrap_err();
            assert!(failure.what.contains(word), "{failure}");
            assert!(!format!("{failure:?}").contains("s3cret"), "{failure}");
        }
        for url in ["postgresql://u@db/cat", "postgres://u@db/cat?connect_timeout=3"] {
            let given = "a&b?c%d=é@";
            let Ok(Catalogue::Database(url)) = Catalogue::database(url, Some(given)) else { panic!("{url}") };
            let config: tokio_postgres::Config = url.parse().unwrap();
            assert_eq!(config.get_password(), Some(given.as_bytes()));
            assert_eq!(config.get_dbname(), Some("cat"));
            assert_eq!(Catalogue::Database(url).to_string(), "catalogue in the database db/cat");
        }
    }
}
