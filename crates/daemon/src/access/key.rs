//! The facility's key: its file, and what signs and verifies with it while the daemon runs.

use crate::facility::layout::replace;
use base::{Failure, Millis, Result, Timestamp};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use wire::{
    auth::{
        capability::CapKeys,
        keys::{Generation, KeyFile, Keyring},
        token::{self, TokenKey},
    },
    control::{KeyGeneration, KeyGenerations, KeyState},
};

/// Mode of the file: it is for the daemon's user alone.
const MODE: u32 = 0o600;

/// The facility's key with all its generations. It leaves neither its file nor this process. Clones share it. `Debug` shows no
/// secret.
#[derive(Clone)]
pub struct Key {
    /// Where it is stored; `None`: nowhere, nobody has it.
    path: Option<PathBuf>,
    /// What the file holds. Guards the file, too: it is held while that is written, so that changes come one after the other.
    file: Arc<Mutex<KeyFile>>,
    keys: Keyring,
    caps: CapKeys,
    tokens: TokenKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key that nobody has: a door with it believes no token.
    pub(crate) fn nobody() -> Self {
        let bytes = crate::facility::layout::random().expect("the system gives random bytes once it is up");
        Self::new(None, KeyFile::first(bytes, Timestamp(0)), token::LIFETIME_MAX)
    }

    fn new(path: Option<PathBuf>, file: KeyFile, lifetime_max: Millis) -> Self {
        let keys = Keyring::new(&file);
        let (caps, tokens) = (CapKeys::new(keys.clone()), TokenKey::new(keys.clone(), lifetime_max));
        Self { path, file: Arc::new(Mutex::new(file)), keys, caps, tokens }
    }

    /// Makes the file of a new facility.
    pub(crate) fn create(path: &Path, now: Timestamp) -> Result<()> {
        let first = KeyFile::first(crate::facility::layout::random()?, now);
        crate::facility::layout::write_new(path, &first.text(), MODE)
    }

    /// Reads the file; tokens live for `lifetime_max` at most.
    pub(crate) fn read(path: &Path, lifetime_max: Millis) -> Result<Self> {
        Ok(Self::new(Some(path.to_owned()), read(path)?, lifetime_max))
    }

    /// Reads the file again: it may have been brought up to date while a standby waited for its turn.
    pub(crate) fn reload(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        *file = read(path)?;
        self.keys.set(&file);
        Ok(())
    }

    /// Sign capabilities for all disk servers.
    #[must_use]
    pub fn caps(&self) -> CapKeys {
        self.caps.clone()
    }

    /// Signs and checks the tokens of users.
    #[must_use]
    pub fn tokens(&self) -> TokenKey {
        self.tokens.clone()
    }

    /// The generations, for people.
    pub(crate) fn generations(&self, now: Timestamp) -> KeyGenerations {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        told(&file, now)
    }

    /// Makes a new generation; the one before verifies for `grace`. Blocks.
    pub(crate) fn rotate(&self, grace: Millis, now: Timestamp) -> Result<KeyGenerations> {
        let fresh = crate::facility::layout::random()?;
        self.change(now, |file| file.rotate(fresh, grace, now))
    }

    /// Ends a generation. Blocks.
    pub(crate) fn revoke(&self, generation: u32, now: Timestamp) -> Result<KeyGenerations> {
        let fresh = crate::facility::layout::random()?;
        self.change(now, |file| file.revoke(generation, fresh, now))
    }

    /// Writes another state of the file, then uses it: what is signed with a generation never outlives the only copy of that.
    fn change(
        &self,
        now: Timestamp,
        change: impl FnOnce(&KeyFile) -> Result<KeyFile>,
    ) -> Result<KeyGenerations> {
        let path = self.path.as_ref().ok_or_else(|| {
            Failure::unsupported("the key is kept on the head's host")
                .hint("call the head: `bp --facility` with its directory or address")
        })?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&file)?;
        replace(path, &changed.text(), MODE)?;
        self.keys.set(&changed);
        *file = changed;
        Ok(told(&file, now))
    }
}

fn read(path: &Path) -> Result<KeyFile> {
    let bytes = fs::read(path).map_err(|cause| Failure::io(format!("read {}", path.display()), &cause))?;
    KeyFile::parse(&bytes).map_err(|failure| {
        failure
            .during(path.display())
            .hint("restore it from a backup; tokens signed with another key are refused")
    })
}

fn told(file: &KeyFile, now: Timestamp) -> KeyGenerations {
    let generations = file.generations().iter().map(|one| KeyGeneration {
        number: one.number,
        made: one.made,
        state: state(one, now),
        until: one.revoked.or(one.until),
    });
    KeyGenerations { generations: generations.collect() }
}

fn state(generation: &Generation, now: Timestamp) -> KeyState {
    match generation.until {
        _ if generation.revoked.is_some() => KeyState::Revoked,
        None => KeyState::Current,
        Some(_) if generation.is_live(now) => KeyState::Verifies,
        Some(_) => KeyState::Expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const DAY: Millis = Millis::from_seconds(86_400);

    fn states(told: &KeyGenerations) -> Vec<KeyState> {
        told.generations.iter().map(|one| one.state).collect()
    }

    #[test]
    fn the_key_changes_without_a_restart_and_is_private_on_disk() {
        use KeyState::{Current, Expired, Revoked, Verifies};
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("key");
        Key::create(&path, NOW).unwrap();
        let key = Key::read(&path, DAY).unwrap();
        assert_eq!(states(&key.rotate(DAY, NOW).unwrap()), [Verifies, Current]);
        assert_eq!(states(&key.generations(NOW + DAY)), [Expired, Current]);
        assert_eq!(states(&key.revoke(2, NOW).unwrap()), [Verifies, Revoked, Current]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing else is left behind");
        let again = Key::read(&path, DAY).unwrap();
        assert_eq!(again.generations(NOW), key.generations(NOW));
        assert!(key.revoke(9, NOW).is_err() && Key::nobody().rotate(DAY, NOW).is_err());
    }

    #[test]
    fn a_file_of_an_older_version_is_the_first_generation() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("key");
        fs::write(&path, [7; 32]).unwrap();
        let key = Key::read(&path, DAY).unwrap();
        assert_eq!(states(&key.generations(NOW)), [KeyState::Current]);
        key.rotate(DAY, NOW).unwrap();
        assert_eq!(Key::read(&path, DAY).unwrap().generations(NOW).generations.len(), 2);
        for damaged in [&b""[..], b"seven", &[7; 31], &[7; 33]] {
            fs::write(&path, damaged).unwrap();
            assert!(Key::read(&path, DAY).unwrap_err().hint.is_some());
        }
    }
}
