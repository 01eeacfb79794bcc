//! Opens, fills and moves the head's catalogue, as the configuration says.

use crate::{
    boot::{facility::FacilityHandle, rooms::memory_of_host},
    facility::{
        config::{self, Config},
        layout::{Layout, failed, replace},
    },
};
use base::{Failure, Result, Timestamp};
use head::{
    Core,
    store::{Catalogue, FacilityRow, Restored, relocate},
};
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What is kept of a catalogue if nobody says otherwise: this part of the host's memory, but not less than that. It is only taken
/// as far as the catalogue is used.
const CACHE_SHARE: u64 = 8;
const CACHE_BYTES_USUAL: u64 = 512 << 20;
/// Longest password.
const PASSWORD_BYTES_MAX: usize = 1024;

/// How many bytes are kept of the catalogue.
pub(crate) fn cache_bytes(config: &Config) -> usize {
    let usual = || (memory_of_host() / CACHE_SHARE).max(CACHE_BYTES_USUAL);
    let bytes = if config.cache.0 == 0 { usual() } else { config.cache.0 };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The catalogue of a facility.
pub fn of(layout: &Layout, config: &Config) -> Result<Catalogue> {
    if config.catalogue.is_empty() {
        return Ok(Catalogue::File(layout.catalogue()));
    }
    at(layout, &config.catalogue, &config.catalogue_password)
}

/// The catalogue in the database at `url`; the password is in a file, if one is named.
pub(crate) fn at(layout: &Layout, url: &str, password: &Path) -> Result<Catalogue> {
    if password.as_os_str().is_empty() {
        return Catalogue::database(url, None);
    }
    let password = read_password(&layout.root().join(password))?;
    Catalogue::database(url, Some(&password))
}

pub(crate) fn read_password(file: &Path) -> Result<String> {
    let failed = |cause: std::io::Error| {
        Failure::io(format!("read the password in {}", file.display()), &cause)
            .hint("see catalogue_password and password_file in facility.toml")
    };
    let about = fs::metadata(file).map_err(failed)?;
    if about.mode() & 0o077 != 0 {
        return Err(Failure::permission(format!("other users can read the password in {}", file.display()))
            .hint(format!("`chmod 600 {}`, and change the password if they might have", file.display())));
    }
    let text = fs::read_to_string(file).map_err(failed)?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains(['\n', '\0']) {
        return Err(Failure::invalid(format!("{} does not hold a password", file.display()))
            .hint("the file must hold one line and nothing else"));
    }
    Ok(password.to_owned())
}

/// Makes the catalogue of the facility in `directory`, which does not run and has none, from a backup.
pub fn restore(directory: &Path, backup: &Path, now: Timestamp) -> Result<Restored> {
    let handle = FacilityHandle::take(directory)?;
    let id = handle.layout.facility_id()?;
    let catalogue = of(&handle.layout, &handle.config)?;
    let mut file = File::open(backup).map_err(|cause| failed("open", backup, &cause))?;
    head::store::restore(&catalogue, id.as_deref(), &mut file, now)
}

/// Makes an empty catalogue for the facility in `directory`, which does not run and has lost its own.
pub fn rebuild(directory: &Path, owner: &str, now: Timestamp) -> Result<()> {
    base::check_name("user", owner)?;
    let handle = FacilityHandle::take(directory)?;
    let Some(id) = handle.layout.facility_id()? else {
        let what = format!("{} does not say which facility it is", directory.display());
        return Err(Failure::not_found(what).hint(
            "restore the files `id`, `key` and `tls/` of the facility: without them it does not recognise its disks",
        ));
    };
    let catalogue = of(&handle.layout, &handle.config)?;
    catalogue.require_vacant()?;
    let (name, owner) = (handle.config.name.clone(), owner.to_owned());
    // Starts go on behind all that can have been.
    let incarnation = now.0.unsigned_abs() / 1000;
    Core::rebuild(catalogue, &FacilityRow { id, name, owner, created: now, incarnation }, now)
}

/// Where a catalogue is to go.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Into the facility's directory.
    File,
    /// Into the database at this URL; its password is in a file, if one is named.
    Database(String, PathBuf),
}

/// Moves the catalogue of the facility in `directory`, which does not run; yields how many rows it has. The configuration
/// names the new place once everything is durable there.
pub fn migrate(directory: &Path, to: &Destination) -> Result<u64> {
    let handle = FacilityHandle::take(directory)?;
    let layout = &handle.layout;
    let old = of(layout, &handle.config)?;
    let mut config = handle.config.clone();
    (config.catalogue, config.catalogue_password) = match to {
        Destination::File => Default::default(),
        Destination::Database(url, password) => (url.clone(), password.clone()),
    };
    config.check()?;
    let new = of(layout, &config)?;
    if old == new {
        return Err(
            Failure::invalid(format!("the {new} is the current catalogue")).hint("name another place")
        );
    }
    let rows = relocate(&old, &new)?;
    let file = layout.root().join(config::FILE);
    let text = fs::read_to_string(&file).map_err(|cause| failed("read", &file, &cause))?;
    let text = with_key(&text, "catalogue", &config.catalogue);
    let text = with_key(&text, "catalogue_password", &config.catalogue_password.to_string_lossy());
    // A place that is not what was meant must not be started from.
    if Config::parse(&text).ok().as_ref() != Some(&config) {
        let what = format!("cannot edit {}; it still names the old catalogue", file.display());
        return Err(Failure::invalid(what).hint(format!("set catalogue = {:?} there", config.catalogue)));
    }
    replace(&file, text.as_bytes(), 0o644)?;
    if let Catalogue::File(old) = &old {
        // Kept, but under a name from which nobody starts.
        let kept = old.with_extension("sqlite.moved");
        fs::rename(old, &kept).map_err(|cause| failed("rename", old, &cause))?;
    }
    Ok(rows)
}

/// The text of a configuration with another value of a key that stands before all sections; the rest is as it was.
fn with_key(text: &str, key: &str, value: &str) -> String {
    let new = format!("{key} = {}", toml::Value::from(value));
    let is_key = |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    let mut lines: Vec<&str> = text.lines().collect();
    let sections = lines.iter().position(|line| line.trim_start().starts_with('[')).unwrap_or(lines.len());
    match lines[..sections].iter().position(|line| is_key(line)) {
        Some(at) => lines[at] = &new,
        None => lines.insert(0, &new),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_key_is_changed_and_the_rest_stays() {
        let text = "# ours\nname = \"a\"\n  catalogue =\"x\" \n[tape]\n# few\ndrives = 1\n";
        let expected = "# ours\nname = \"a\"\ncatalogue = \"b\"\n[tape]\n# few\ndrives = 1\n";
        assert_eq!(with_key(text, "catalogue", "b"), expected);
        let added = with_key(text, "cache", "1GiB");
        assert!(added.starts_with("cache = \"1GiB\"\n# ours\n"), "{added}");
        assert_eq!(
            with_key("[tape]\ncatalogue = 1\n", "catalogue", "b"),
            "catalogue = \"b\"\n[tape]\ncatalogue = 1\n"
        );
    }

    #[test]
    fn a_catalogue_that_does_not_move_stays_where_it_is() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("f");
        crate::facility::private_files::make_files_private();
        crate::boot::facility::create(&directory, &Config::default(), "ada", Timestamp(1)).unwrap();
        let failure = migrate(&directory, &Destination::File).unwrap_err();
        assert_eq!(failure.kind, base::ErrorKind::Invalid, "{failure}");
        let away = Destination::Database("postgresql://ada@127.0.0.1:1/none".into(), PathBuf::new());
        assert!(migrate(&directory, &away).is_err(), "nobody listens there");
        assert_eq!(Config::read(&directory).unwrap(), Config::default());
        assert!(directory.join("catalogue.sqlite").exists());
    }

    #[test]
    fn a_password_that_others_can_read_is_refused_and_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("password");
        fs::write(&file, "s3cret\n").unwrap();
        let layout = Layout::new(home.path()).unwrap();
        let config = Config {
            catalogue: "postgresql://ada@db/cat".into(),
            catalogue_password: "password".into(),
            ..Config::default()
        };
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let failure = of(&layout, &config).unwrap_err();
        assert_eq!(failure.kind, base::ErrorKind::Permission, "{failure}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let catalogue = of(&layout, &config).unwrap();
        assert_eq!(format!("{catalogue} {catalogue:?}").matches("s3cret").count(), 0);
        for text in ["", "\n", "two\nlines"] {
            fs::write(&file, text).unwrap();
            assert_eq!(of(&layout, &config).unwrap_err().kind, base::ErrorKind::Invalid);
        }
        fs::remove_file(&file).unwrap();
        assert!(of(&layout, &config).unwrap_err().what.contains("password"));
    }
}
