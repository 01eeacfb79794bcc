//! Generations of the facility's key, and the file that holds them (spec/key.md).
//!
//! The facility signs with the newest generation. An older generation verifies until its end date, and a revoked one
//! not at all. The file has the numbers of all generations, but the bytes only of those that may still be needed.

mod ring;

pub use ring::Keyring;

use base::{Failure, Millis, Result, Timestamp, hex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Generations that verify at a time: a capability is tried with each.
pub const LIVE_GENERATIONS_MAX: usize = 8;
/// Generations that are over and still listed.
const ENDED_GENERATIONS_MAX: usize = 64;
/// Longest time for which a generation may verify after another has taken its place.
pub const GRACE_MAX: Millis = Millis::from_seconds(366 * 86_400);
/// Version of the file.
const VERSION: u32 = 1;

/// One generation of the facility's key. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Generation {
    /// Counted from 1.
    pub number: u32,
    /// When it was made; 0 if the file is of an older version.
    pub made: Timestamp,
    /// Until when it verifies; `None`: it is the newest.
    pub until: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
    /// Its bytes, as long as it may verify.
    key: Option<[u8; 32]>,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({})", self.number)
    }
}

impl Generation {
    /// Whether it verifies what it has signed.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.key.is_some() && self.revoked.is_none() && self.until.is_none_or(|until| now < until)
    }
}

/// What the file of the key holds, the oldest generation first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// How often it was changed.
    pub serial: u64,
    generations: Vec<Generation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    serial: u64,
    generations: Vec<WrittenGeneration>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGeneration {
    number: u32,
    made: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyFile {
    /// The file of a new facility.
    #[must_use]
    pub fn first(key: [u8; 32], made: Timestamp) -> Self {
        let first = Generation { number: 1, made, until: None, revoked: None, key: Some(key) };
        Self { serial: 1, generations: vec![first] }
    }

    /// Reads the file: generations, or the 32 bytes that were all of it in older versions.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if let Ok(key) = bytes.try_into() {
            return Ok(Self::first(key, Timestamp(0)));
        }
        let damaged = |why: &str| Failure::corrupt(format!("it does not hold the facility's key: {why}"));
        let written: Written = serde_json::from_slice(bytes)
            .map_err(|_| damaged("neither 32 bytes nor a list of generations"))?;
        if written.version != VERSION {
            return Err(damaged(&format!("version {} is not known here", written.version)));
        }
        let generations: Option<Vec<_>> = written.generations.into_iter().map(Generation::read).collect();
        let generations = generations.ok_or_else(|| damaged("a generation is no key of 32 bytes"))?;
        let is_ordered = generations.windows(2).all(|pair| pair[0].number < pair[1].number);
        let (older, newest) = match &generations[..] {
            [older @ .., newest] if is_ordered => (older, newest),
            _ => return Err(damaged("its generations are not in order")),
        };
        let is_current = |one: &Generation| one.until.is_none() && one.revoked.is_none();
        if !is_current(newest) || newest.key.is_none() || older.iter().any(is_current) {
            return Err(damaged("not just its newest generation is the current one"));
        }
        if generations.iter().filter(|one| one.key.is_some()).count() > LIVE_GENERATIONS_MAX {
            return Err(damaged("it has too many generations that verify"));
        }
        Ok(Self { serial: written.serial, generations })
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let generations = self.generations.iter().map(Generation::written).collect();
        let written = Written { version: VERSION, serial: self.serial, generations };
        let mut text = serde_json::to_vec_pretty(&written).expect("plain values always serialise");
        text.push(b'\n');
        text
    }

    /// All of them, the oldest first.
    #[must_use]
    pub fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// The one that signs.
    #[must_use]
    pub fn current(&self) -> &Generation {
        self.generations.last().expect("a file has at least one generation")
    }

    /// Makes `key` the newest generation; the one before verifies for `grace` from `now` on.
    pub fn rotate(&self, key: [u8; 32], grace: Millis, now: Timestamp) -> Result<Self> {
        if grace < Millis(0) || grace > GRACE_MAX {
            return Err(Failure::invalid("a generation verifies for at most 366 days after it was replaced")
                .hint("7d is usual; tokens valid for longer end then"));
        }
        let mut changed = self.without_ended(now);
        if changed.generations.iter().filter(|one| one.is_live(now)).count() >= LIVE_GENERATIONS_MAX {
            let what = format!("{LIVE_GENERATIONS_MAX} generations of the key verify, and no more may");
            return Err(Failure::busy(what).hint("`bp key revoke` ends an old one"));
        }
        let number = changed.current().number.checked_add(1);
        let number = number.ok_or_else(|| Failure::internal("the numbers of generations are used up"))?;
        let before = changed.generations.last_mut().expect("a file has at least one generation");
        before.until = Some(now + grace);
        changed.generations.push(Generation {
            number,
            made: now,
            until: None,
            revoked: None,
            key: Some(key),
        });
        Ok(changed)
    }

    /// Ends a generation at once; `key` becomes the newest one if it was that.
    pub fn revoke(&self, number: u32, key: [u8; 32], now: Timestamp) -> Result<Self> {
        let known = self.generations.iter().find(|one| one.number == number);
        if !known.is_some_and(|one| one.is_live(now)) {
            let why = if known.is_some() { "has already expired" } else { "is not known" };
            return Err(Failure::not_found(format!("generation {number} of the facility's key {why}"))
                .hint("`bp key list` shows them"));
        }
        let is_current = self.current().number == number;
        let mut changed =
            if is_current { self.rotate(key, Millis(0), now)? } else { self.without_ended(now) };
        for revoked in changed.generations.iter_mut().filter(|one| one.number == number) {
            (revoked.revoked, revoked.key) = (Some(now), None);
        }
        Ok(changed)
    }

    /// The next state of the file, without the bytes of generations that are over.
    fn without_ended(&self, now: Timestamp) -> Self {
        let mut generations = self.generations.clone();
        generations.iter_mut().filter(|one| !one.is_live(now)).for_each(|ended| ended.key = None);
        let ended = generations.iter().filter(|one| one.key.is_none()).count();
        let mut surplus = ended.saturating_sub(ENDED_GENERATIONS_MAX);
        generations.retain(|one| {
            let goes = one.key.is_none() && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
        Self { serial: self.serial + 1, generations }
    }
}

impl Generation {
    fn read(written: WrittenGeneration) -> Option<Self> {
        let WrittenGeneration { number, made, until, revoked, key } = written;
        let key = match key {
            None => None,
            Some(text) => Some(unhex(&text)?),
        };
        Some(Self { number, made, until, revoked, key })
    }

    fn written(&self) -> WrittenGeneration {
        let Self { number, made, until, revoked, key } = self.clone();
        WrittenGeneration { number, made, until, revoked, key: key.map(|key| hex(&key)) }
    }
}

/// Exactly 32 bytes in hex.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    base::unhex(text)?.try_into().ok()
}

/// Fuzz body: a file that is read says the same when it is written again.
pub fn fuzz_key_file(data: &[u8]) {
    if let Ok(file) = KeyFile::parse(data) {
        assert_eq!(KeyFile::parse(&file.text()).expect("what was written can be read"), file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const DAY: Millis = Millis::from_seconds(86_400);

    fn live(file: &KeyFile, now: Timestamp) -> Vec<u32> {
        file.generations().iter().filter(|one| one.is_live(now)).map(|one| one.number).collect()
    }

    #[test]
    fn the_32_bytes_of_older_versions_are_the_first_generation() {
        let file = KeyFile::parse(&[7; 32]).unwrap();
        assert_eq!((file.current().number, file.current().key), (1, Some([7; 32])));
        let rotated = file.rotate([8; 32], DAY, NOW).unwrap();
        assert_eq!(KeyFile::parse(&rotated.text()).unwrap(), rotated);
        assert_eq!((live(&rotated, NOW), live(&rotated, NOW + DAY)), (vec![1, 2], vec![2]));
        assert!(rotated.serial > file.serial);
    }

    #[test]
    fn revoked_generations_lose_their_bytes_at_once() {
        let file = KeyFile::first([1; 32], NOW).rotate([2; 32], DAY, NOW).unwrap();
        let revoked = file.revoke(1, [9; 32], NOW).unwrap();
        assert_eq!((live(&revoked, NOW), revoked.current().number), (vec![2], 2));
        assert!(!String::from_utf8(revoked.text()).unwrap().contains("0101"));
        assert!(revoked.revoke(1, [9; 32], NOW).unwrap_err().what.contains("has already expired"));
        assert!(revoked.revoke(5, [9; 32], NOW).unwrap_err().hint.is_some());
        // The newest one is replaced.
        let replaced = revoked.revoke(2, [3; 32], NOW).unwrap();
        assert_eq!((live(&replaced, NOW), replaced.current().number), (vec![3], 3));
        assert!(!String::from_utf8(replaced.text()).unwrap().contains("0202"));
        assert_eq!(KeyFile::parse(&replaced.text()).unwrap(), replaced);
    }

    #[test]
    fn generations_are_bounded_and_those_that_ended_are_forgotten() {
        let mut file = KeyFile::first([1; 32], NOW);
        for _ in 1..LIVE_GENERATIONS_MAX {
            file = file.rotate([2; 32], DAY, NOW).unwrap();
        }
        assert!(file.rotate([2; 32], DAY, NOW).unwrap_err().hint.is_some());
        for day in 1..200 {
            file = file.rotate([3; 32], Millis(0), NOW + Millis(DAY.0 * day)).unwrap();
        }
        assert!(file.generations().len() <= ENDED_GENERATIONS_MAX + LIVE_GENERATIONS_MAX);
        assert!(KeyFile::parse(&file.text()).is_ok());
        for grace in [Millis(-1), Millis(GRACE_MAX.0 + 1), Millis(i64::MAX)] {
            assert!(file.rotate([3; 32], grace, NOW).unwrap_err().hint.is_some());
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let key = hex(&[7; 32]);
        let file = |generations: &str| format!(r#"{{"version":1,"serial":1,"generations":[{generations}]}}"#);
        let first = format!(r#"{{"number":1,"made":0,"key":"{key}"}}"#);
        assert!(KeyFile::parse(file(&first).as_bytes()).is_ok());
        for bad in [
            String::new(),
            "x".repeat(33),
            file(""),
            file(r#"{"number":1,"made":0}"#),
            file(r#"{"number":1,"made":0,"key":"07"}"#),
            file(&format!("{first},{first}")),
            file(&first.replace('}', r#","until":5}"#)),
            file(&format!("{first},{}", first.replace('1', "2"))),
            file(&first).replace("\"version\":1", "\"version\":2"),
        ] {
            assert!(KeyFile::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_shows_a_key() {
        let file = KeyFile::first([7; 32], NOW);
        assert!(!format!("{file:?}").contains('7'), "{file:?}");
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(at in 0usize..400, byte: u8) {
            let mut text = KeyFile::first([1; 32], NOW).rotate([2; 32], DAY, NOW).unwrap().text();
            fuzz_key_file(&text);
            let length = text.len();
            text[at % length] = byte;
            fuzz_key_file(&text);
            fuzz_key_file(&text[..at % length]);
        }
    }
}
