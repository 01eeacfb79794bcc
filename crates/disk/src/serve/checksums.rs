//! Sums of objects that the catalogue does not keep, on demand: read from disk, and remembered because objects never change.

use crate::serve::open_file::ReadFile;
use base::{Failure, ObjectId, Result, TwoGenerationCache};
use net::blocking;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Mutex as Turns, MutexGuard as Turn, Semaphore},
    time::timeout,
};
use wire::digest::{DigestAlgorithm, Digests, Hashing, Sum};

/// Half of the sums that are remembered: about 100 bytes each.
const REMEMBERED_HALF: usize = 8192;
/// Sums under way: beyond this the asker is told `Busy`.
const UNDER_WAY_MAX: usize = 256;
/// Objects read at a time only to be summed: it must not take the disks away from those who read.
const READERS_MAX: usize = 2;
/// Bytes read in one visit to a blocking thread: bounds what a stop and the next in turn wait for.
const VISIT_BYTES: u64 = 8 << 20;
/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Longest time without progress: a disk that reads nothing for so long does not answer.
const STALL_MAX: Duration = Duration::from_secs(30);

type Key = (ObjectId, DigestAlgorithm);

/// Sums of objects that the catalogue does not keep.
///
/// Callers that ask for the same sum at the same time share the work: each reads a part in turn, from where the one
/// before has stopped. The work ends when no caller is left. It fails only if it makes no progress, however long it
/// takes.
pub struct ObjectSums {
    known: TwoGenerationCache<Key, Sum>,
    /// Sums that are being computed. `known` may be asked while this is locked, not the other way round.
    under_way: Mutex<HashMap<Key, Weak<Work>>>,
    readers: Arc<Semaphore>,
    stall_max: Duration,
}

/// A checksum in progress.
#[derive(Default)]
struct Work {
    state: Turns<State>,
    /// Visits that came to their end; what waits for its turn looks at it.
    visits: AtomicU64,
}

#[derive(Default)]
enum State {
    /// Not begun, or its visitor gave up in the middle.
    #[default]
    Lost,
    /// Summed so far.
    Part(Box<Running>),
    Done(Sum),
}

enum SumWaiter {
    CachedSums(Sum),
    Work(Arc<Work>),
}

impl Default for ObjectSums {
    fn default() -> Self {
        Self {
            known: TwoGenerationCache::new(REMEMBERED_HALF),
            under_way: Mutex::default(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            stall_max: STALL_MAX,
        }
    }
}

impl ObjectSums {
    /// Remembers what was computed while an object was written.
    pub fn remember(&self, object: ObjectId, digests: Digests) {
        for algorithm in digests.algorithms().filter(|algorithm| !algorithm.is_catalogued()) {
            if let Some(sum) = digests.get(algorithm) {
                self.known.insert((object, algorithm), sum);
            }
        }
    }

    /// The sum of an open file by `algorithm`, in hexadecimal.
    pub async fn hex(&self, file: &Arc<ReadFile>, algorithm: DigestAlgorithm) -> Result<String> {
        let sums = self.compute(file, algorithm).await?;
        let name = algorithm.as_str();
        sums.hex(algorithm).ok_or_else(|| Failure::internal(format!("{name} was computed and is not there")))
    }

    /// The sum of an open file by `algorithm`, beside those of the catalogue.
    ///
    /// `Timeout` when nothing moved for half a minute, `Busy` when too much is asked for.
    pub async fn compute(&self, file: &Arc<ReadFile>, algorithm: DigestAlgorithm) -> Result<Digests> {
        if algorithm.is_catalogued() {
            return Ok(file.grant.checksums.into());
        }
        let source = Arc::clone(file);
        // Past the meter: nobody's traffic.
        let source: Source = Arc::new(move |offset, buffer| source.peek_at(offset, buffer));
        let object = file.grant.object;
        let sum = self.sum((object, algorithm), file.grant.size, &source).await?;
        Ok(self.known_of(object).with(algorithm, sum).with_checksums(file.grant.checksums))
    }

    /// What is remembered of an object.
    fn known_of(&self, object: ObjectId) -> Digests {
        DigestAlgorithm::ALL.into_iter().fold(Digests::default(), |digests, algorithm| {
            match self.known.get(&(object, algorithm)) {
                Some(sum) => digests.with(algorithm, sum),
                None => digests,
            }
        })
    }

    /// The sum of the `size` bytes of an object.
    async fn sum(&self, key: Key, size: u64, source: &Source) -> Result<Sum> {
        let work = match self.join(key)? {
            SumWaiter::CachedSums(sum) => return Ok(sum),
            SumWaiter::Work(work) => work,
        };
        loop {
            let mut state = self.turn(&work, key).await?;
            let running = match std::mem::take(&mut *state) {
                State::Lost => Running::new(key),
                State::Part(running) => *running,
                State::Done(sum) => {
                    *state = State::Done(sum);
                    return Ok(sum);
                }
            };
            let running = self.visit(running, size, source).await?;
            work.visits.fetch_add(1, Ordering::AcqRel);
            *state = if running.offset < size {
                State::Part(Box::new(running))
            } else {
                let digests = running.hashing.finish(Digests::default());
                self.remember(key.0, digests);
                let lost = || Failure::internal(format!("{} was computed and is not there", key.1.as_str()));
                State::Done(digests.get(key.1).ok_or_else(lost)?)
            };
        }
    }

    /// Returns the cached sum, or joins the computation that all callers share.
    fn join(&self, key: Key) -> Result<SumWaiter> {
        if let Some(sum) = self.known.get(&key) {
            return Ok(SumWaiter::CachedSums(sum));
        }
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = under_way.get(&key).and_then(Weak::upgrade) {
            return Ok(SumWaiter::Work(work));
        }
        // Work that has ended since was remembered before it ended.
        if let Some(sum) = self.known.get(&key) {
            return Ok(SumWaiter::CachedSums(sum));
        }
        if under_way.len() >= UNDER_WAY_MAX {
            under_way.retain(|_, work| work.strong_count() > 0);
        }
        if under_way.len() >= UNDER_WAY_MAX {
            return Err(Failure::busy(format!("{UNDER_WAY_MAX} checksums are being computed"))
                .hint("ask again later"));
        }
        let work = Arc::new(Work::default());
        under_way.insert(key, Arc::downgrade(&work));
        Ok(SumWaiter::Work(work))
    }

    /// Waits for its turn, as long as those before it get on.
    async fn turn<'a>(&self, work: &'a Work, key: Key) -> Result<Turn<'a, State>> {
        let mut waiting = std::pin::pin!(work.state.lock());
        loop {
            let before = work.visits.load(Ordering::Acquire);
            if let Ok(state) = timeout(self.stall_max, &mut waiting).await {
                return Ok(state);
            }
            if work.visits.load(Ordering::Acquire) == before {
                return Err(stalled(key));
            }
        }
    }

    /// Reads and sums the next part.
    async fn visit(&self, mut running: Running, size: u64, source: &Source) -> Result<Running> {
        let key = running.key;
        let place = timeout(self.stall_max, Arc::clone(&self.readers).acquire_owned()).await;
        let place = place.map_err(|_| stalled(key))?;
        let place = place.map_err(|_| Failure::internal("nobody closes the readers"))?;
        let source = Arc::clone(source);
        let work = blocking(move || {
            running.read_on(size, &source)?;
            // Kept until the disk has answered, even if nobody waits for it any more.
            drop(place);
            Ok(running)
        });
        timeout(self.stall_max, work).await.map_err(|_| stalled(key))?
    }
}

/// Reads at an offset; fewer bytes than asked for only at the end.
type Source = Arc<dyn Fn(u64, &mut [u8]) -> Result<usize> + Send + Sync>;

fn stalled((object, algorithm): Key) -> Failure {
    Failure::timeout(format!("{} of object {object} makes no progress", algorithm.as_str()))
        .hint("check its disk, or try again when the server is less busy")
}

/// A sum up to an offset.
struct Running {
    key: Key,
    offset: u64,
    hashing: Hashing,
}

impl Running {
    fn new(key: Key) -> Self {
        Self { key, offset: 0, hashing: Hashing::of(key.1) }
    }

    /// Reads the part of one visit. Blocks.
    fn read_on(&mut self, size: u64, source: &Source) -> Result<()> {
        let end = size.min(self.offset + VISIT_BYTES);
        let mut buffer = vec![0; BUFFER_BYTES.min((end - self.offset) as usize)];
        while self.offset < end {
            let wanted = buffer.len().min((end - self.offset) as usize);
            let count = source(self.offset, &mut buffer[..wanted])?;
            if count == 0 {
                let object = self.key.0;
                return Err(Failure::corrupt(format!("object {object} is shorter than promised")));
            }
            self.hashing.update(&buffer[..count]);
            self.offset += count as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    const SIZE: u64 = 20 << 20;
    /// Of [`SIZE`] bytes 7.
    const MD5_OF_SEVENS: &str = "e4e70e33a2f8bf1ea969db2c53dffd4a";

    fn key(object: u64) -> Key {
        (ObjectId(object), DigestAlgorithm::Md5)
    }

    /// An object of sevens, and how many of its bytes were read.
    fn sevens(size: u64) -> (Source, Arc<AtomicU64>) {
        let read = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&read);
        let source = move |offset: u64, buffer: &mut [u8]| {
            let count = (buffer.len() as u64).min(size - offset);
            buffer[..count as usize].fill(7);
            counted.fetch_add(count, Ordering::AcqRel);
            Ok(count as usize)
        };
        (Arc::new(source), read)
    }

    fn hex(sum: Sum) -> String {
        base::hex(sum.as_bytes())
    }

    #[tokio::test]
    async fn an_object_is_read_once_for_all_who_ask() {
        let sums = ObjectSums::default();
        let (source, read) = sevens(SIZE);
        let asks = (0..20).map(|_| sums.sum(key(1), SIZE, &source));
        for answer in futures_util::future::join_all(asks).await {
            assert_eq!(hex(answer.unwrap()), MD5_OF_SEVENS);
        }
        assert_eq!(hex(sums.sum(key(1), SIZE, &source).await.unwrap()), MD5_OF_SEVENS);
        assert_eq!(read.load(Ordering::Acquire), SIZE);
        let (nothing, read) = sevens(0);
        let empty = hex(sums.sum(key(2), 0, &nothing).await.unwrap());
        assert_eq!((empty.as_str(), read.load(Ordering::Acquire)), ("d41d8cd98f00b204e9800998ecf8427e", 0));
    }

    #[tokio::test]
    async fn who_goes_away_does_not_take_the_answer_with_him() {
        let sums = ObjectSums::default();
        let (source, read) = sevens(SIZE);
        let (reached, go) =
            (Arc::new(Notify::new()), Arc::new((Mutex::new(false), std::sync::Condvar::new())));
        let (inner, told, gate) = (Arc::clone(&source), Arc::clone(&reached), Arc::clone(&go));
        let held: Source = Arc::new(move |offset, buffer| {
            told.notify_one();
            let mut is_open = gate.0.lock().unwrap();
            while !*is_open {
                is_open = gate.1.wait(is_open).unwrap();
            }
            inner(offset, buffer)
        });
        tokio::select! {
            _ = sums.sum(key(1), SIZE, &held) => panic!("it is held"),
            () = reached.notified() => {}
        }
        let second = sums.sum(key(1), SIZE, &source);
        *go.0.lock().unwrap() = true;
        go.1.notify_all();
        assert_eq!(hex(second.await.unwrap()), MD5_OF_SEVENS);
        assert!(read.load(Ordering::Acquire) >= SIZE);
    }

    #[tokio::test]
    async fn a_disk_that_does_not_answer_is_a_timeout_for_all_who_ask() {
        let sums = ObjectSums { stall_max: Duration::from_millis(1), ..ObjectSums::default() };
        let go = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
        let gate = Arc::clone(&go);
        let stuck: Source = Arc::new(move |_, _| {
            let mut is_open = gate.0.lock().unwrap();
            while !*is_open {
                is_open = gate.1.wait(is_open).unwrap();
            }
            Err(Failure::new(ErrorKind::Io, "the disk is gone"))
        });
        let asks = (0..9).map(|_| sums.sum(key(1), SIZE, &stuck));
        for answer in futures_util::future::join_all(asks).await {
            assert_eq!(answer.unwrap_err().kind, ErrorKind::Timeout);
        }
        *go.0.lock().unwrap() = true;
        go.1.notify_all();
        // The places of its readers come back when the disk has answered.
        drop(sums.readers.acquire_many(READERS_MAX as u32).await.unwrap());
    }

    #[tokio::test]
    async fn a_failed_read_fails_its_asker_and_nothing_is_remembered_of_it() {
        let sums = ObjectSums::default();
        let reads = Arc::new(AtomicUsize::new(0));
        let (inner, counter) = (sevens(SIZE).0, Arc::clone(&reads));
        let source: Source = Arc::new(move |offset, buffer| match counter.fetch_add(1, Ordering::AcqRel) {
            3 => Err(Failure::new(ErrorKind::Io, "read error that goes away")),
            _ => inner(offset, buffer),
        });
        assert_eq!(sums.sum(key(1), SIZE, &source).await.unwrap_err().kind, ErrorKind::Io);
        assert_eq!(hex(sums.sum(key(1), SIZE, &source).await.unwrap()), MD5_OF_SEVENS);
        let short: Source = Arc::new(|_, _| Ok(0));
        assert_eq!(sums.sum(key(2), SIZE, &short).await.unwrap_err().kind, ErrorKind::Corrupt);
    }

    #[tokio::test]
    async fn what_is_under_way_and_what_is_remembered_is_bounded() {
        let sums = ObjectSums::default();
        let works: Vec<_> = (0..UNDER_WAY_MAX as u64).map(|object| sums.join(key(object))).collect();
        assert!(works.iter().all(Result::is_ok));
        assert_eq!(sums.join(key(999)).err().unwrap().kind, ErrorKind::Busy);
        drop(works);
        assert!(sums.join(key(999)).is_ok());
        let digests = Digests::parse(&format!("md5={MD5_OF_SEVENS}")).unwrap();
        for object in 0..50_000 {
            sums.remember(ObjectId(object), digests);
        }
        assert!(sums.known.len() <= 2 * REMEMBERED_HALF);
        let (source, read) = sevens(1);
        assert_eq!(hex(sums.sum(key(49_999), 1, &source).await.unwrap()), MD5_OF_SEVENS);
        assert_eq!(read.load(Ordering::Acquire), 0);
    }
}
