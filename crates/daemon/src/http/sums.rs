//! MD5 and SHA-256: computed while uploads pass, or on demand by reading the object, and remembered because objects never
//! change.

use super::HttpDoor;
use crate::files::{ReadFile, blocking};
use base::{Failure, ObjectId, Result};
use md5::{Digest as _, Md5};
use sha2::Sha256;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OnceCell, Semaphore};
use wire::http::{DigestAlgorithm, Digests};

/// Hashes that are remembered: 100 bytes each.
const REMEMBERED_MAX: usize = 16_384;
/// Objects read at a time only to be hashed: it must not take the disks away from those who read.
const READERS_MAX: usize = 2;
/// Bytes read in one visit to a blocking thread.
const VISIT_BYTES: u64 = 8 << 20;
/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Hashes under way.
#[derive(Default)]
pub(super) struct Hashing {
    md5: Option<Md5>,
    sha256: Option<Sha256>,
}

impl Hashing {
    /// Computes what is claimed.
    pub(super) fn for_claims(claimed: &Digests) -> Self {
        Self { md5: claimed.md5.map(|_| Md5::new()), sha256: claimed.sha256.map(|_| Sha256::new()) }
    }

    fn of(algorithm: DigestAlgorithm) -> Self {
        Self {
            md5: (algorithm == DigestAlgorithm::Md5).then(Md5::new),
            sha256: (algorithm == DigestAlgorithm::Sha256).then(Sha256::new),
        }
    }

    /// Takes the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    /// What came out, beside the sums that are known anyway.
    pub(super) fn finish(self, sums: base::Checksums) -> Digests {
        Digests {
            md5: self.md5.map(|md5| md5.finalize().into()),
            sha256: self.sha256.map(|sha256| sha256.finalize().into()),
            ..Digests::from(sums)
        }
    }
}

type Slot = Arc<OnceCell<Digests>>;
type Key = (ObjectId, DigestAlgorithm);

/// Hashes of objects by object.
pub(super) struct Hashes {
    known: Mutex<Known>,
    readers: Semaphore,
}

#[derive(Default)]
struct Known {
    slots: HashMap<Key, Slot>,
    /// Oldest first.
    order: VecDeque<Key>,
}

impl Default for Hashes {
    fn default() -> Self {
        Self { known: Mutex::default(), readers: Semaphore::new(READERS_MAX) }
    }
}

impl Hashes {
    /// The place of one hash; those who ask at the same time share it, so that the object is read once.
    fn slot(&self, key: Key) -> Slot {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known.slots.get(&key) {
            return Arc::clone(slot);
        }
        if known.order.len() >= REMEMBERED_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.slots.remove(&oldest);
        }
        let slot = Slot::default();
        known.slots.insert(key, Arc::clone(&slot));
        known.order.push_back(key);
        slot
    }

    /// Remembers what was computed while `object` was written.
    pub(super) fn remember(&self, object: ObjectId, digests: Digests) {
        for (algorithm, is_known) in [
            (DigestAlgorithm::Md5, digests.md5.is_some()),
            (DigestAlgorithm::Sha256, digests.sha256.is_some()),
        ] {
            if is_known {
                // Somebody who computed it at the same time found the same.
                let _ = self.slot((object, algorithm)).set(digests);
            }
        }
    }

    async fn compute(&self, file: &Arc<ReadFile>, algorithm: DigestAlgorithm) -> Result<Digests> {
        let slot = self.slot((file.grant.object, algorithm));
        slot.get_or_try_init(|| async {
            let _place =
                self.readers.acquire().await.map_err(|_| Failure::internal("nobody closes the readers"))?;
            hash(file, algorithm).await
        })
        .await
        .copied()
    }
}

/// Reads a whole object, visit by visit, so that it ends when nobody waits any more.
async fn hash(file: &Arc<ReadFile>, algorithm: DigestAlgorithm) -> Result<Digests> {
    let (size, mut offset, mut hashing) = (file.grant.size, 0, Hashing::of(algorithm));
    while offset < size {
        let (file, end) = (Arc::clone(file), size.min(offset + VISIT_BYTES));
        hashing = blocking(move || {
            let mut buffer = vec![0; BUFFER_BYTES];
            while offset < end {
                let wanted = buffer.len().min((end - offset) as usize);
                let count = file.read_at(offset, &mut buffer[..wanted])?;
                if count == 0 {
                    let object = file.grant.object;
                    return Err(Failure::corrupt(format!("object {object} is shorter than promised")));
                }
                hashing.update(&buffer[..count]);
                offset += count as u64;
            }
            Ok(hashing)
        })
        .await?;
        offset = end;
    }
    Ok(hashing.finish(file.grant.checksums))
}

/// What is known of the content of `file` without delay, and the hash among `wanted` that is worth reading it for: the
/// most wanted one, if the catalogue does not have that.
pub(super) async fn digests(
    door: &HttpDoor,
    file: &Arc<ReadFile>,
    wanted: &[DigestAlgorithm],
) -> Result<Digests> {
    match wanted.first() {
        Some(first) if !first.is_catalogued() => door.hashes.compute(file, *first).await,
        _ => Ok(file.grant.checksums.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Checksums;

    #[test]
    fn known_answers() {
        let claims = Digests::parse(
            "md5=25f9e794323b453885f5181f1b624d0b,sha-256=15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        );
        let claims = claims.unwrap();
        let mut hashing = Hashing::for_claims(&claims);
        hashing.update(b"1234");
        hashing.update(b"56789");
        let found = hashing.finish(Checksums::of(b"123456789"));
        assert!(claims.check(&found).is_ok(), "{found:?}");
        assert_eq!(found.adler32.unwrap().to_string(), "091e01de");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let hashes = Hashes::default();
        let digests = Digests { md5: Some([7; 16]), ..Digests::default() };
        for object in 0..REMEMBERED_MAX as u64 + 10 {
            hashes.remember(ObjectId(object), digests);
        }
        assert_eq!(hashes.known.lock().unwrap().slots.len(), REMEMBERED_MAX);
        let last = (ObjectId(REMEMBERED_MAX as u64), DigestAlgorithm::Md5);
        assert_eq!(hashes.slot(last).get(), Some(&digests));
        assert!(hashes.slot((ObjectId(0), DigestAlgorithm::Md5)).get().is_none(), "the oldest is forgotten");
    }
}
