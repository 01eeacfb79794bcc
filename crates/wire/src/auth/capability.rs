//! Capabilities: a signed, short-lived right to one object, checked by its disk server alone.
//!
//! Text form, in the opaque part of a URL (spec/capability.md):
//! `bp.cap=ACCESS.PARTITION.OBJECT.FILE.GENERATION.HOLDER.OFFSET-END.CONTENT.USER.EXPIRES[.PIECE][.TIMES][.SEAL].MAC`. ACCESS is `r`, `g`, `f` or `w`;
//! names are base64url, numbers decimal; HOLDER is `-` or `OWNER~GROUP~MODE`; CONTENT is `-` or `SIZE-ADLER32-CRC32C` with sums of
//! 8 hex digits; EXPIRES is in milliseconds since 1970; PIECE is `DATA-PARITY-CELL-INDEX-SIZE-ADLER32-CRC32C`, only for a piece that is to be filled; TIMES is `tMODIFIED~SHOWN` in milliseconds, only in rights to read. MAC is the first 16 bytes, in hex, of HMAC-SHA-256 over everything before the last dot, by the
//! key of the disk server. SEAL is the same over everything before it, by a key that only the head has: in rights to gather, which the
//! disk server shows to the head.

use crate::{
    auth::{
        keys::{self, Keyring},
        token::base64url,
    },
    control::{Coding, HostCapKey, HostCapKeys},
    media::object::{Holder, Piece},
};
use base::{ByteRange, Checksums, Failure, FileId, Millis, ObjectId, Timestamp, hex};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Name of the opaque parameter.
pub const PARAMETER: &str = "bp.cap";
/// Name of the opaque parameter by which rooms say that a refusal is to be told to them: the head would only send them back.
pub const DIRECT: &str = "bp.direct";
/// How long a client may take from the head's answer to the open at the disk server.
pub const OPEN_LIFETIME: Millis = Millis::from_seconds(300);
/// Separates the key of seals from those of disk servers, whose labels have a slash.
const SEAL_LABEL: &[u8] = b"seal";
/// Separates this use of the facility's key from all others.
const KEY_LABEL: &[u8] = b"backplane capability 4";

/// Joining time of the head's own host, which never joined.
pub const NEVER_JOINED: Timestamp = Timestamp(0);

/// Signs the capabilities of all disk servers: the head has it. Clones share what is known of the disk servers. `Debug` shows no
/// secret.
#[derive(Clone)]
pub struct CapKeys {
    keys: Keyring,
    /// The newest generation that each disk server is known to have, and when its host joined.
    held: Arc<RwLock<BTreeMap<String, (Timestamp, u32)>>>,
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

/// What may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read the object.
    Read,
    /// Read the whole file of which the object is a piece: its disk server gathers the others.
    Gather,
    /// Write the whole object once; whoever asked for it reports it to the head.
    Fill,
    /// Write the object; its disk server reports it to the head.
    Write,
}

impl Access {
    /// Whether nothing is changed by it.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Gather)
    }
}

/// What an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Bytes.
    pub size: u64,
    /// Of all of them.
    pub checksums: Checksums,
}

/// When a content changed: the head knows, of the object its disk server knows only when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it came here: what conditions of requests and tags of entities go by.
    pub modified: Timestamp,
    /// What is shown: when it changed where it came from, if whoever stored it said so.
    pub shown: Timestamp,
}

/// A right to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cap {
    /// What may be done.
    pub access: Access,
    /// Where the object lies, or shall lie.
    pub partition: String,
    /// With which object.
    pub object: ObjectId,
    /// Of which file.
    pub file: FileId,
    /// Which content of the file is written: see [`crate::media::object::ObjectInfo::generation`]. In rights to read: when they were
    /// given, as the head counts the losses of rights; [`UNFENCED`] in those of rooms.
    pub generation: u64,
    /// Whose the file is, for the description of an object that is filled.
    pub holder: Option<Holder>,
    /// Bytes that may be touched.
    pub range: ByteRange,
    /// What the object has, or must have after the write; `None`: not known yet.
    pub content: Option<Content>,
    /// On whose behalf, for bills and logs.
    pub user: String,
    /// When the right ends.
    pub expires: Timestamp,
    /// Which piece of the file is filled. Its sums are known only when it is made: its bytes follow from this.
    pub piece: Option<Piece>,
    /// When what is read has changed.
    pub times: Option<Times>,
}

/// Generation of rights to read that hold whoever loses what: those of rooms.
pub const UNFENCED: u64 = u64::MAX;

/// The range of a whole object, however long it is or becomes.
pub const WHOLE: ByteRange = ByteRange { offset: 0, end: u64::MAX };

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

    fn keys(&self, now: Timestamp) -> Arc<[ServerKey]> {
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
    fn signed(&self, text: &str) -> String {
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

fn malformed() -> Failure {
    Failure::invalid("capability is malformed")
}

/// Exactly 16 bytes in lower-case hex: a shorter MAC would be a weaker one.
fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

impl Access {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Gather => "g",
            Self::Fill => "f",
            Self::Write => "w",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Read, Self::Gather, Self::Fill, Self::Write].into_iter().find(|access| access.word() == word)
    }
}

impl Content {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let size = fields.next()?.parse().ok()?;
        let checksums =
            Checksums { adler32: fields.next()?.parse().ok()?, crc32c: fields.next()?.parse().ok()? };
        fields.next().is_none().then_some(Self { size, checksums })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.size, self.checksums.adler32, self.checksums.crc32c)
    }
}

fn encode_name(name: &str) -> String {
    base64url::encode(name.as_bytes())
}

fn decode_name(text: &str) -> Option<String> {
    String::from_utf8(base64url::decode(text)?).ok()
}

fn holder_text(holder: &Holder) -> String {
    format!("{}~{}~{}", encode_name(&holder.owner), encode_name(&holder.group), holder.mode)
}

fn parse_holder(text: &str) -> Option<Holder> {
    let mut fields = text.split('~');
    let (owner, group) = (decode_name(fields.next()?)?, decode_name(fields.next()?)?);
    let mode = fields.next()?.parse().ok()?;
    fields.next().is_none().then_some(Holder { owner, group, mode })
}

fn piece_text(piece: &Piece) -> String {
    let Piece { coding: Coding { data, parity }, cell_bytes, index, file_bytes: size, file_checksums } =
        *piece;
    format!("{data}-{parity}-{cell_bytes}-{index}-{}", Content { size, checksums: file_checksums })
}

fn parse_piece(text: &str) -> Option<Piece> {
    let mut fields = text.splitn(5, '-');
    let coding = Coding { data: fields.next()?.parse().ok()?, parity: fields.next()?.parse().ok()? };
    let (cell_bytes, index) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let Content { size, checksums } = Content::parse(fields.next()?)?;
    Some(Piece { coding, cell_bytes, index, file_bytes: size, file_checksums: checksums })
}

impl Times {
    /// The same for a file whose content `came` here and has changed `there` before, if somebody said when.
    #[must_use]
    pub fn of(came: Timestamp, there: Option<Timestamp>) -> Self {
        Self { modified: came, shown: there.unwrap_or(came) }
    }

    /// When the content changed where it came from, if that is another time.
    #[must_use]
    pub fn source_modified(self) -> Option<Timestamp> {
        (self.shown != self.modified).then_some(self.shown)
    }
}

fn times_text(Times { modified, shown }: Times) -> String {
    format!(".t{}~{}", modified.0, shown.0)
}

fn parse_times(text: &str) -> Option<Times> {
    let (modified, shown) = text.strip_prefix('t')?.split_once('~')?;
    Some(Times { modified: Timestamp(modified.parse().ok()?), shown: Timestamp(shown.parse().ok()?) })
}

impl Cap {
    fn text(&self) -> String {
        let Self { object, file, generation, range, .. } = self;
        let name = encode_name;
        let holder = self.holder.as_ref().map_or_else(|| "-".to_owned(), holder_text);
        let content = self.content.map_or_else(|| "-".to_owned(), |content| content.to_string());
        let (access, partition, user) = (self.access.word(), name(&self.partition), name(&self.user));
        let (offset, end, expires) = (range.offset, range.end, self.expires.0);
        // Left out where there is none: as before there were pieces.
        let piece = self.piece.map_or_else(String::new, |piece| format!(".{}", piece_text(&piece)));
        let times = self.times.map_or_else(String::new, times_text);
        format!(
            "{access}.{partition}.{object}.{file}.{generation}.{holder}.{offset}-{end}.{content}.{user}.{expires}{piece}{times}"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('.').peekable();
        let cap = Self {
            access: Access::parse(fields.next()?)?,
            partition: decode_name(fields.next()?)?,
            object: fields.next()?.parse().ok()?,
            file: fields.next()?.parse().ok()?,
            generation: fields.next()?.parse().ok()?,
            holder: match fields.next()? {
                "-" => None,
                text => Some(parse_holder(text)?),
            },
            range: {
                let (offset, end) = fields.next()?.split_once('-')?;
                ByteRange { offset: offset.parse().ok()?, end: end.parse().ok()? }
            },
            content: match fields.next()? {
                "-" => None,
                text => Some(Content::parse(text)?),
            },
            user: decode_name(fields.next()?)?,
            expires: Timestamp(fields.next()?.parse().ok()?),
            piece: match fields.next_if(|text| !text.starts_with('t')) {
                None => None,
                Some(text) => Some(parse_piece(text)?),
            },
            times: match fields.next() {
                None => None,
                Some(text) => Some(parse_times(text)?),
            },
        };
        // Numbers, hex digits and base64 have several spellings; only one is the text that is signed, compared and kept.
        (fields.next().is_none() && cap.range.offset <= cap.range.end && cap.text() == text).then_some(cap)
    }
}

/// Fuzz body: nothing that was not signed is accepted, nothing panics.
pub fn fuzz_cap(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let key = CapKeys::derive(&[7; 32]).of("disk1", NEVER_JOINED);
    assert!(key.verify(&text, Timestamp(0)).is_err());
    let _ = Cap::parse(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Cap {
        Cap {
            access: Access::Fill,
            partition: "disk-1.example".into(),
            object: ObjectId(7),
            file: FileId(3),
            generation: 2,
            holder: Some(Holder { owner: "ada".into(), group: "atlas".into(), mode: 0o640 }),
            range: ByteRange { offset: 0, end: 9 },
            content: Some(Content { size: 9, checksums: Checksums::of(b"123456789") }),
            user: "alice.b".into(),
            expires: Timestamp(1000),
            piece: None,
            times: None,
        }
    }

    fn of_piece() -> Cap {
        let (coding, file_checksums) = (Coding { data: 4, parity: 2 }, Checksums::of(b"123456789"));
        let piece = Piece { coding, cell_bytes: 4096, index: 5, file_bytes: 9, file_checksums };
        Cap { content: None, piece: Some(piece), ..example() }
    }

    const JOINED: Timestamp = Timestamp(5);

    fn keys() -> CapKeys {
        CapKeys::derive(&[1; 32])
    }

    fn key() -> CapKey {
        keys().of("server1", JOINED)
    }

    fn sign(cap: &Cap) -> String {
        keys().sign(("server1", JOINED), cap)
    }

    #[test]
    fn a_disk_server_cannot_make_rights_that_it_shows_to_the_head() {
        let right = Cap { access: Access::Gather, ..example() };
        let given = sign(&right);
        assert_eq!(key().verify(&given, Timestamp(0)).unwrap(), right);
        assert_eq!(keys().verify_shown(&given, Timestamp(0)).unwrap(), right);
        assert!(keys().verify_shown(&given, Timestamp(1001)).unwrap_err().what.contains("expired"));
        // With its own key it signs what it likes, with the seal of another right, or one of its own making.
        let (sealed, _) = given.rsplit_once('.').unwrap();
        let (_, seal) = sealed.rsplit_once('.').unwrap();
        let wanted = Cap { file: FileId(4), ..right.clone() }.text();
        for forged in [format!("{wanted}.{seal}"), key().signed(&wanted), wanted] {
            assert!(keys().verify_shown(&key().signed(&forged), Timestamp(0)).is_err(), "{forged}");
        }
        // Other rights have no seal, and one without it is none to gather.
        assert!(keys().verify_shown(&sign(&example()), Timestamp(0)).is_err());
        assert!(key().verify(&key().signed(&right.text()), Timestamp(0)).is_err());
    }

    #[test]
    fn signed_rights_hold_until_they_expire() {
        let signed = sign(&example());
        assert_eq!(key().verify(&signed, Timestamp(1000)).unwrap(), example());
        assert!(key().verify(&signed, Timestamp(1001)).unwrap_err().what.contains("expired"));
        assert_eq!(format!("{:?}", key()), "CapKey(..)");
        let user = String::new();
        let open =
            Cap { access: Access::Write, holder: None, content: None, range: WHOLE, user, ..example() };
        let times = Some(Times::of(Timestamp(1_700_000_000_123), Some(Timestamp(-5))));
        let read = Cap { access: Access::Read, times, ..example() };
        let gather = Cap { access: Access::Gather, ..read.clone() };
        for cap in [open, of_piece(), read, gather, Cap { times, ..of_piece() }] {
            assert_eq!(key().verify(&sign(&cap), Timestamp(0)).unwrap(), cap);
        }
    }

    #[test]
    fn rights_are_for_one_disk_server_of_one_facility() {
        let signed = sign(&example());
        let (ours, others) = (CapKeys::derive(&[1; 32]), CapKeys::derive(&[2; 32]));
        let (then, later) = (Timestamp(5), Timestamp(6));
        for other in [ours.of("server2", then), ours.of("server1", later), others.of("server1", then)] {
            let failure = other.verify(&signed, Timestamp(0)).unwrap_err();
            assert!(failure.what.contains("not signed for this disk server"), "{failure}");
        }
        assert!(CapKey::new(key().reveal()).verify(&signed, Timestamp(0)).is_ok());
    }

    #[test]
    fn rights_hold_as_long_as_the_generation_that_signed_them() {
        use crate::auth::keys::KeyFile;
        let (day, host) = (Millis::from_seconds(86_400), ("server1", JOINED));
        let soon = |cap: &Cap| Cap { expires: Timestamp(500), ..cap.clone() };
        let first = KeyFile::first([1; 32], Timestamp(0));
        let ring = Keyring::new(&first);
        let keys = CapKeys::new(ring.clone());
        let told = |name: &str, joined, now| {
            let told = keys.all_of(name, joined, now).iter().map(ServerKey::told).collect();
            ServerKeys::given(&HostCapKeys { serial: keys.serial(), keys: told }).unwrap()
        };
        let given = |now| told(host.0, host.1, now);
        let own_keys = ServerKeys::of_head(&keys, "own");
        let before = given(Timestamp(0));
        let (old, gather) = (keys.sign(host, &soon(&example())), Cap { access: Access::Gather, ..example() });
        let sealed = keys.sign(host, &gather);
        let second = first.rotate([2; 32], day, Timestamp(0)).unwrap();
        ring.set(&second);
        // The host has not fetched the new key yet, as far as it is known.
        assert!(before.verify(&keys.sign(host, &soon(&example())), Timestamp(0)).is_ok());
        keys.note_held("server1", JOINED, 1);
        assert!(before.verify(&keys.sign(host, &soon(&example())), Timestamp(0)).is_ok());
        let after = given(Timestamp(0));
        keys.note_held("server1", JOINED, 2);
        let new = keys.sign(host, &example());
        assert!(before.verify(&new, Timestamp(0)).is_err());
        for signed in [&old, &new, &sealed] {
            assert!(after.verify(signed, Timestamp(0)).is_ok());
        }
        // What was noted of a host that joined anew means nothing.
        let anew = ("server1", Timestamp(9));
        let given_anew = told(anew.0, anew.1, Timestamp(0));
        assert!(given_anew.verify(&keys.sign(anew, &example()), Timestamp(0)).is_ok());
        // The head's own disk server has what the head has.
        let own = ("own", NEVER_JOINED);
        let of_own = keys.sign(own, &example());
        assert!(own_keys.verify(&of_own, Timestamp(0)).is_ok());
        assert_eq!((own_keys.held(), after.held()), ((2, 2), (2, 2)));
        assert!(keys.verify_shown(&sealed, Timestamp(0)).is_ok());
        assert!(after.verify(&old, Timestamp(day.0)).unwrap_err().what.contains("not signed for"));
        ring.set(&second.revoke(1, [3; 32], Timestamp(0)).unwrap());
        let revoked = given(Timestamp(0));
        assert!(revoked.verify(&old, Timestamp(0)).is_err() && revoked.verify(&new, Timestamp(0)).is_ok());
        assert!(keys.verify_shown(&sealed, Timestamp(0)).is_err());
        ring.set(&second.revoke(2, [3; 32], Timestamp(0)).unwrap());
        assert!(own_keys.verify(&of_own, Timestamp(0)).is_err(), "the head's own disk server follows");
        // A right that lasts longer than the grace is signed with what will still verify.
        ring.set(&second);
        let silent = Cap { expires: Timestamp(day.0 + 1), ..example() };
        let other = ("server2", JOINED);
        let keys_of_other = told(other.0, other.1, Timestamp(0));
        assert!(keys_of_other.verify(&keys.sign(other, &silent), Timestamp(day.0 + 1)).is_ok());
    }

    #[test]
    fn keys_survive_being_told() {
        let key = ServerKey { generation: 3, until: Some(Timestamp(9)), key: key() };
        assert_eq!(ServerKey::heard(&key.told()).unwrap(), key);
        for bad in ["", "00", &"0".repeat(63), &"g".repeat(64)] {
            let told = HostCapKey { key: bad.to_owned(), ..key.told() };
            assert!(ServerKey::heard(&told).unwrap_err().hint.is_some(), "{bad}");
        }
    }

    #[test]
    fn a_known_right_is_written_byte_by_byte() {
        let signed = sign(&example());
        let (text, _) = signed.rsplit_once('.').unwrap();
        assert_eq!(
            text,
            "f.ZGlzay0xLmV4YW1wbGU.7.3.2.YWRh~YXRsYXM~416.0-9.9-091e01de-e3069283.YWxpY2UuYg.1000"
        );
        let signed = sign(&of_piece());
        let (text, _) = signed.rsplit_once('.').unwrap();
        assert_eq!(
            text,
            "f.ZGlzay0xLmV4YW1wbGU.7.3.2.YWRh~YXRsYXM~416.0-9.-.YWxpY2UuYg.1000.4-2-4096-5-9-091e01de-e3069283"
        );
    }

    /// What reads as the same value in many languages, and is another text.
    const SPELLINGS: [(&str, &str); 9] = [
        (".", ".0"),
        (".", ".+"),
        ("-", "-0"),
        ("-", "-+"),
        ("~", "~0"),
        ("a", "A"),
        ("e", "E"),
        (".", "=."),
        ("~", "=~"),
    ];

    fn any_cap() -> impl Strategy<Value = Cap> {
        let ids = (any::<u64>(), any::<u64>(), any::<u64>());
        let piece = (1u8..9, 0u8..5, any::<u32>(), any::<u8>());
        let names = (
            "[a-z.]{0,9}",
            "[a-zA-Z0-9@._-]{0,9}",
            prop::option::of(("[a-z]{0,9}", "[a-z]{0,9}", 0u32..0o10000)),
        );
        (
            ids,
            names,
            (any::<u64>(), any::<u64>()),
            prop::option::of(any::<Vec<u8>>()),
            any::<i64>(),
            prop::option::of(piece),
        )
            .prop_map(
                |((object, file, generation), (partition, user, holder), (a, b), content, expires, piece)| {
                    let content = content
                        .map(|bytes| Content { size: bytes.len() as u64, checksums: Checksums::of(&bytes) });
                    let example = of_piece().piece.unwrap();
                    Cap {
                        access: Access::Fill,
                        partition,
                        object: ObjectId(object >> 1),
                        file: FileId(file >> 1),
                        generation,
                        holder: holder.map(|(owner, group, mode)| Holder { owner, group, mode }),
                        range: ByteRange { offset: a.min(b), end: a.max(b) },
                        content,
                        user,
                        expires: Timestamp(expires),
                        piece: piece
                            .map(|(data, parity, _, _)| Piece { coding: Coding { data, parity }, ..example }),
                        times: content
                            .is_none()
                            .then(|| Times::of(Timestamp(expires), Some(Timestamp(expires >> 1)))),
                    }
                },
            )
    }

    #[test]
    fn another_spelling_of_a_right_is_none() {
        let good = example().text();
        assert!(Cap::parse(&good).is_some());
        for (from, to) in [
            (".7.", ".07."),
            (".7.", ".+7."),
            (".3.", ".03."),
            (".0-9.", ".00-9."),
            (".0-9.", ".0-+9."),
            ("~416", "~0416"),
            ("091e01de", "091E01DE"),
            ("091e01de", "91e01de"),
            ("ZGlzay0xLmV4YW1wbGU", "ZGlzay0xLmV4YW1wbGU="),
            // The last character has bits that no byte takes.
            ("ZGlzay0xLmV4YW1wbGU", "ZGlzay0xLmV4YW1wbGV"),
            (".1000", ".+1000"),
            (".1000", ".01000"),
        ] {
            let other = good.replacen(from, to, 1);
            assert_ne!(other, good, "{from}");
            assert!(Cap::parse(&other).is_none(), "{other}");
            // Signed or not: the text is what counts.
            let failure = key().verify(&key().signed(&other), Timestamp(0)).unwrap_err();
            assert!(failure.what.contains("malformed"), "{failure}");
        }
        let signed = sign(&example());
        let (text, mac) = signed.rsplit_once('.').unwrap();
        let loud = format!("{text}.{}", mac.to_ascii_uppercase());
        assert_ne!(loud, signed);
        assert!(key().verify(&loud, Timestamp(0)).is_err());
    }

    proptest! {
        #[test]
        fn a_changed_right_is_refused(at in 0usize..200, byte in 32u8..127) {
            let key = key();
            let signed = sign(&example());
            let mut bytes = signed.clone().into_bytes();
            let at = at % bytes.len();
            prop_assume!(bytes[at] != byte);
            bytes[at] = byte;
            prop_assert!(key.verify(std::str::from_utf8(&bytes).unwrap(), Timestamp(0)).is_err());
        }

        #[test]
        fn only_the_canonical_spelling_is_read(cap in any_cap(), at in 0usize..300, what in 0usize..SPELLINGS.len()) {
            let text = cap.text();
            prop_assert_eq!(Cap::parse(&text).map(|cap| cap.text()), Some(text.clone()));
            let (from, to) = SPELLINGS[what];
            // Another spelling at the first place from `at` on.
            let at = at.min(text.len());
            let changed = format!("{}{}", &text[..at], text[at..].replacen(from, to, 1));
            if let Some(read) = Cap::parse(&changed) {
                prop_assert_eq!(read.text(), changed);
            }
        }

        #[test]
        fn what_is_read_is_written_the_same(text in "[rgfw]\\.[A-Za-z=+/_-]{0,4}\\.[+0-9]{1,3}\\.[0-9]{1,3}\\.0?[0-9]\\.-\\.0?[0-9]-[0-9]{2}\\.(-|[0-9]-0{0,8}[0-9a-fA-F]{1,8}-[0-9a-fA-F]{8})\\.[A-Za-z]{0,4}\\.[-+]?[0-9]{1,4}") {
            if let Some(cap) = Cap::parse(&text) {
                prop_assert_eq!(cap.text(), text);
            }
        }

        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_cap(&data);
        }
    }
}
