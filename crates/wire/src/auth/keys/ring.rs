//! The generations that verify, as the doors and the head use them.

use super::KeyFile;
use base::{Failure, Result, Timestamp};
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// The keys of the facility while it runs. Clones share them: another state of the file is in force for all of them at once.
#[derive(Clone)]
pub struct Keyring(Arc<RwLock<Arc<State>>>);

struct State {
    serial: u64,
    /// The newest first, never none.
    generations: Vec<Secret>,
}

/// A generation that has not been revoked.
#[derive(Clone, Copy)]
pub(crate) struct Secret {
    pub(crate) number: u32,
    pub(crate) until: Option<Timestamp>,
    pub(crate) key: [u8; 32],
}

impl Secret {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({})", self.serial())
    }
}

impl State {
    fn of(file: &KeyFile) -> Arc<Self> {
        let usable = file.generations.iter().rev().filter(|one| one.revoked.is_none());
        let generations = usable
            .filter_map(|one| Some(Secret { number: one.number, until: one.until, key: one.key? }))
            .collect();
        Arc::new(Self { serial: file.serial, generations })
    }
}

impl Keyring {
    /// The keys in a file.
    #[must_use]
    pub fn new(file: &KeyFile) -> Self {
        Self(Arc::new(RwLock::new(State::of(file))))
    }

    /// A single key.
    #[must_use]
    pub fn of_one(key: [u8; 32]) -> Self {
        Self::new(&KeyFile::first(key, Timestamp(0)))
    }

    /// Uses another state of the file from now on.
    pub fn set(&self, file: &KeyFile) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = State::of(file);
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which state of the file is in use.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.state().serial
    }

    /// Whether a generation verifies what it has signed.
    #[must_use]
    pub fn is_live(&self, generation: u32, now: Timestamp) -> bool {
        self.find(generation, now).is_ok()
    }

    /// The generation that signs.
    pub(crate) fn current(&self) -> Secret {
        self.state().generations[0]
    }

    /// Those that verify, the newest first.
    pub(crate) fn live(&self, now: Timestamp) -> Vec<Secret> {
        let state = self.state();
        state.generations.iter().filter(|one| one.is_live(now)).copied().collect()
    }

    /// A generation that verifies.
    pub(crate) fn find(&self, generation: u32, now: Timestamp) -> Result<Secret> {
        let state = self.state();
        let found = state.generations.iter().find(|one| one.number == generation && one.is_live(now));
        found.copied().ok_or_else(|| {
            Failure::permission(format!("generation {generation} of the facility's key has expired"))
                .hint("get a new token: `bp token create` makes those of this facility")
        })
    }
}
