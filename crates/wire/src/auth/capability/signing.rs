//! The keys that sign capabilities: all of them at the head, one host's at its disk server.

use super::{Access, Cap, NEVER_JOINED};
use crate::{
    auth::keys::{self, Keyring},
    control::{HostCapKey, HostCapKeys},
};
use base::{Failure, Timestamp, hex};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Separates the key of seals from those of disk servers, whose labels have a slash.
const SEAL_LABEL: &[u8] = b"seal";

/// Separates this use of the facility's key from all others.
const KEY_LABEL: &[u8] = b"backplane capability 4";

/// Signs the capabilities of all disk servers: the head has it. Clones share what is known of the disk servers. `Debug` shows no
/// secret.
#[derive(Clone)]
pub struct CapKeys {
    pub(super) keys: Keyring,
    /// The newest generation that each disk server is known to have, and when its host joined.
    pub(super) held: Arc<RwLock<BTreeMap<String, (Timestamp, u32)>>>,
}

/// Signs and checks the capabilities of one disk server, with one generation. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct CapKey([u8; 32]);

/// Checks the capabilities of one disk server, with all generations that it was given. Clones share them.
#[derive(Clone)]
pub struct ServerKeys {
    /// Which state of the keys it is, and the keys.
    state: Arc<RwLock<(u64, Arc<[ServerKey]>)>>,
    /// In the head's own process: the keys that they follow, and the name of the disk server.
    followed: Option<(CapKeys, Arc<str>)>,
}

/// One generation of the key of a disk server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerKey {
    /// The generation of the facility's key from which it follows.
    pub generation: u32,
    /// Until when it verifies; `None`: it was the newest one when it was given.
    pub until: Option<Timestamp>,
    /// The key.
    pub key: CapKey,
}

impl fmt::Debug for CapKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapKeys(..)")
    }
}

impl fmt::Debug for CapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapKey(..)")
    }
}

impl CapKeys {
    /// Capabilities of a facility with a single key.
    #[must_use]
    pub fn derive(facility_key: &[u8; 32]) -> Self {
        Self::new(Keyring::of_one(*facility_key))
    }

    /// Capabilities by these keys.
    #[must_use]
    pub fn new(keys: Keyring) -> Self {
        Self { keys, held: Arc::default() }
    }

    /// Which state of the keys is in use.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.keys.serial()
    }

    /// The key of a disk server on a host that joined then: whoever joins under that name later has another.
    #[must_use]
    pub fn of(&self, server: &str, joined: Timestamp) -> CapKey {
        server_key(&self.keys.current().key, server, joined)
    }

    /// Its keys of all generations that verify, the newest first.
    #[must_use]
    pub fn all_of(&self, server: &str, joined: Timestamp, now: Timestamp) -> Vec<ServerKey> {
        let live = self.keys.live(now).into_iter();
        live.map(|secret| ServerKey {
            generation: secret.number,
            until: secret.until,
            key: server_key(&secret.key, server, joined),
        })
        .collect()
    }

    /// Notes that a disk server has its keys up to this generation.
    pub fn note_held(&self, server: &str, joined: Timestamp, generation: u32) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(server.to_owned(), (joined, generation));
    }

    /// Signs a right for the disk server on a host that joined then, with the newest generation that it is known to have.
    #[must_use]
    pub fn sign(&self, (server, joined): (&str, Timestamp), cap: &Cap) -> String {
        let text = cap.text();
        let text = if cap.access == Access::Gather { self.seal().signed(&text) } else { text };
        self.key_for(server, joined, cap.expires).signed(&text)
    }

    /// The newest generation that a disk server is known to have. Of one that has not spoken since the head started it is known that
    /// it has what was given to it when it joined: the oldest one, unless that ends before the right does.
    fn key_for(&self, server: &str, joined: Timestamp, expires: Timestamp) -> CapKey {
        let current = self.keys.current();
        if joined == NEVER_JOINED {
            return server_key(&current.key, server, joined);
        }
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner).get(server).copied();
        let held = held.filter(|(then, _)| *then == joined).map(|(_, generation)| generation);
        let live = self.keys.live(expires);
        let known = match held {
            Some(held) => live.iter().find(|secret| secret.number <= held),
            None => live.last(),
        };
        server_key(&known.unwrap_or(&current).key, server, joined)
    }

    /// Checks a right to gather that a disk server shows: by the seal, because its own key it has itself.
    pub fn verify_shown(&self, signed: &str, now: Timestamp) -> Result<Cap, Failure> {
        let (sealed, _) = signed.rsplit_once('.').ok_or_else(malformed)?;
        let seals = self.keys.live(now).into_iter().map(|secret| seal_key(&secret.key));
        let cap = parsed(first_opened(seals, |seal| seal.opened(sealed))?, now)?;
        if cap.access != Access::Gather {
            return Err(Failure::permission("capability is not one to gather a file"));
        }
        Ok(cap)
    }

    fn seal(&self) -> CapKey {
        seal_key(&self.keys.current().key)
    }
}

fn server_key(facility_key: &[u8; 32], server: &str, joined: Timestamp) -> CapKey {
    CapKey(derived(&derived(facility_key, KEY_LABEL), format!("{server}/{}", joined.0).as_bytes()))
}

fn seal_key(facility_key: &[u8; 32]) -> CapKey {
    CapKey(derived(&derived(facility_key, KEY_LABEL), SEAL_LABEL))
}

/// What the first of several keys opens that fits; else the last refusal.
fn first_opened<K, T>(
    keys: impl IntoIterator<Item = K>,
    open: impl Fn(&K) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut refusal = Failure::permission("capability was not signed for this disk server");
    for key in keys {
        match open(&key) {
            Ok(opened) => return Ok(opened),
            Err(failure) => refusal = failure,
        }
    }
    Err(refusal)
}

impl ServerKeys {
    /// What a host was given.
    pub fn given(told: &HostCapKeys) -> Result<Self, Failure> {
        let keys = Self { state: Arc::new(RwLock::new((0, Arc::default()))), followed: None };
        keys.set(told)?;
        Ok(keys)
    }

    /// Those of the disk server in the head's process: they change with the head's.
    #[must_use]
    pub fn of_head(keys: &CapKeys, server: &str) -> Self {
        // No state has this number, so the keys are made when they are first needed.
        let state = Arc::new(RwLock::new((u64::MAX, Arc::default())));
        Self { state, followed: Some((keys.clone(), server.into())) }
    }

    /// Uses what the head has given now.
    pub fn set(&self, told: &HostCapKeys) -> Result<(), Failure> {
        let keys: Result<Vec<_>, _> = told.keys.iter().map(ServerKey::heard).collect();
        self.replace(told.serial, keys?.into());
        Ok(())
    }

    fn replace(&self, serial: u64, keys: Arc<[ServerKey]>) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = (serial, keys);
    }

    /// Which state of the keys it has, and the newest generation.
    #[must_use]
    pub fn held(&self) -> (u64, u32) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (state.0, state.1.iter().map(|key| key.generation).max().unwrap_or(0))
    }

    pub(super) fn keys(&self, now: Timestamp) -> Arc<[ServerKey]> {
        let (serial, keys) = self.state.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((followed, server)) = &self.followed else { return keys };
        // Read before the keys: at worst they are made once more.
        let current = followed.serial();
        if current == serial {
            return keys;
        }
        let keys: Arc<[ServerKey]> = followed.all_of(server, NEVER_JOINED, now).into();
        self.replace(current, Arc::clone(&keys));
        keys
    }

    /// Checks a right and when it ends. `now` says which generations verify, `ends` whether the right has ended.
    fn verify_at(&self, signed: &str, now: Timestamp, ends: Timestamp) -> Result<Cap, Failure> {
        let keys = self.keys(now);
        let live = keys.iter().filter(|one| one.until.is_none_or(|until| now < until));
        let text = first_opened(live, |one| one.key.opened_right(signed))?;
        parsed(text, ends)
    }

    /// Checks a right and when it ends.
    pub fn verify(&self, signed: &str, now: Timestamp) -> Result<Cap, Failure> {
        self.verify_at(signed, now, now)
    }

    /// Checks a right that may have ended.
    pub fn verify_ended(&self, signed: &str, now: Timestamp) -> Result<Cap, Failure> {
        self.verify_at(signed, now, Timestamp(i64::MIN))
    }
}

fn derived(key: &[u8; 32], label: &[u8]) -> [u8; 32] {
    let mut mac = hmac(key);
    mac.update(label);
    mac.finalize().into_bytes().into()
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl CapKey {
    /// Takes the key's bytes, as the head gave them to the disk server.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key's bytes, for the disk server whose key it is.
    #[must_use]
    pub fn reveal(&self) -> [u8; 32] {
        self.0
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = hmac(&self.0);
        mac.update(text.as_bytes());
        mac
    }

    /// A text with its MAC.
    pub(super) fn signed(&self, text: &str) -> String {
        let mac = self.mac(text).finalize().into_bytes();
        format!("{text}.{}", hex(&mac[..16]))
    }

    /// The text before a MAC that is right.
    fn opened<'a>(&self, signed: &'a str) -> Result<&'a str, Failure> {
        let (text, mac) = signed.rsplit_once('.').ok_or_else(malformed)?;
        let mac = unhex(mac).ok_or_else(malformed)?;
        self.mac(text)
            .verify_truncated_left(&mac)
            .map_err(|_| Failure::permission("capability was not signed for this disk server"))?;
        Ok(text)
    }

    /// The right before a MAC that is right.
    fn opened_right<'a>(&self, signed: &'a str) -> Result<&'a str, Failure> {
        let text = self.opened(signed)?;
        if !text.starts_with(&format!("{}.", Access::Gather.word())) {
            return Ok(text);
        }
        let (text, seal) = text.rsplit_once('.').ok_or_else(malformed)?;
        unhex(seal).ok_or_else(malformed)?;
        Ok(text)
    }

    /// Checks a right and when it ends.
    pub fn verify(&self, signed: &str, now: Timestamp) -> Result<Cap, Failure> {
        parsed(self.opened_right(signed)?, now)
    }
}

impl ServerKey {
    /// As it is told to a host.
    #[must_use]
    pub fn told(&self) -> HostCapKey {
        HostCapKey { generation: self.generation, until: self.until, key: hex(&self.key.0) }
    }

    /// As it was told.
    pub fn heard(told: &HostCapKey) -> Result<Self, Failure> {
        let key = keys::unhex(&told.key).ok_or_else(|| {
            Failure::corrupt("the key of capabilities is not 32 bytes in hex")
                .hint("remove the host with `bp host remove`, and let it join again")
        })?;
        Ok(Self { generation: told.generation, until: told.until, key: CapKey(key) })
    }
}

fn parsed(text: &str, now: Timestamp) -> Result<Cap, Failure> {
    let cap = Cap::parse(text).ok_or_else(malformed)?;
    if cap.expires < now {
        return Err(Failure::permission(format!("capability for object {} has expired", cap.object))
            .hint("open the file again"));
    }
    Ok(cap)
}

pub(super) fn malformed() -> Failure {
    Failure::invalid("capability is malformed")
}

/// Exactly 16 bytes in lower-case hex: a shorter MAC would be a weaker one.
fn unhex(text: &str) -> Option<[u8; 16]> {
    let is_lower = text.bytes().all(|digit| !digit.is_ascii_uppercase());
    base::unhex(text).filter(|_| is_lower)?.try_into().ok()
}
