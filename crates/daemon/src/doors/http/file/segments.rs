//! Bytes of files on their way through the door: read ahead of what is sent, written behind what is received.
//!
//! All bodies of the door share one amount of memory: the more there are, the smaller the segments of each.

use axum::body::Bytes;
use base::{ByteRange, Failure, Result, limits::XRD_READ_SEGMENT_BYTES};
use disk::{
    remote::threads::{with_peers, with_peers_for_writing},
    serve::open_file::{ReadFile, WriteFile},
};
use futures_util::{Stream, stream};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::task::JoinHandle;
use wire::digest::Hashing;

/// Memory that all bodies together aim to stay below.
const BODIES_BYTES: usize = 64 << 20;
/// Smallest segment: below this the visits to blocking threads cost more than the copies.
const SEGMENT_BYTES_MIN: usize = 16 << 10;
/// Segments of one body: one that leaves or arrives, one on the disk's side.
const SEGMENTS_PER_BODY: usize = 2;
/// Received pieces below this are copied together; larger ones are written as they came.
const SMALL_PIECE_BYTES: usize = 16 << 10;

/// The memory that bodies share.
#[derive(Debug, Default)]
pub(in crate::doors::http) struct Budget {
    bodies: AtomicUsize,
}

/// One body's part of the budget, given back when dropped.
#[derive(Debug)]
pub(in crate::doors::http) struct Share(Arc<Budget>);

impl Budget {
    pub(in crate::doors::http) fn join(self: &Arc<Self>) -> Share {
        self.bodies.fetch_add(1, Ordering::Relaxed);
        Share(Arc::clone(self))
    }
}

impl Share {
    /// Bytes of one segment, as things are now: a multiple of 4 KiB.
    fn segment_bytes(&self) -> usize {
        segment_bytes(self.0.bodies.load(Ordering::Relaxed))
    }
}

fn segment_bytes(bodies: usize) -> usize {
    let part = BODIES_BYTES / SEGMENTS_PER_BODY / bodies.max(1);
    part.clamp(SEGMENT_BYTES_MIN, XRD_READ_SEGMENT_BYTES) & !4095
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.bodies.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One piece of a body that is sent.
pub(in crate::doors::http) enum Piece {
    /// These bytes.
    Text(String),
    /// This part of the file.
    Range(ByteRange),
}

/// The bytes of `pieces`; while one segment is being sent the next one is read. A failure ends the stream, so that the
/// receiver sees that bytes are missing.
pub(in crate::doors::http) fn segments(
    file: Arc<ReadFile>,
    pieces: Vec<Piece>,
    share: Share,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let outflow = ResponseBody { file, pieces: pieces.into(), ahead: None, free: Arc::default(), share };
    stream::unfold(Some(outflow), |outflow| async move {
        let mut outflow = outflow?;
        let now = match outflow.ahead.take() {
            Some(segment) => segment,
            None => outflow.start()?,
        };
        match now.finish().await {
            Ok(bytes) => {
                outflow.ahead = outflow.start();
                Some((Ok(bytes), Some(outflow)))
            }
            Err(failure) => Some((Err(std::io::Error::other(failure)), None)),
        }
    })
}

struct ResponseBody {
    file: Arc<ReadFile>,
    pieces: VecDeque<Piece>,
    ahead: Option<Segment>,
    free: Arc<FreeBuffers>,
    share: Share,
}

/// A segment that is there or on its way from the disk.
enum Segment {
    Ready(Bytes),
    Reading(Work<Bytes>),
}

impl Segment {
    async fn finish(self) -> Result<Bytes> {
        match self {
            Self::Ready(bytes) => Ok(bytes),
            Self::Reading(read) => read.finish().await,
        }
    }
}

/// Work of a body on another thread. Nobody waits for what is dropped: what waits for its turn then does not begin.
struct Work<T>(JoinHandle<Result<T>>);

impl<T: Send + 'static> Work<T> {
    fn here(work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self(tokio::task::spawn_blocking(work))
    }

    /// What waits for other servers does so on threads of its own.
    fn reading_from_peers(work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self(tokio::spawn(with_peers(work)))
    }

    fn writing_to_peers(work: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self(tokio::spawn(with_peers_for_writing(work)))
    }

    async fn finish(mut self) -> Result<T> {
        let ended_badly = |cause| Failure::internal(format!("a file thread panicked: {cause}"));
        (&mut self.0).await.map_err(ended_badly)?
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ResponseBody {
    /// Begins with the next segment.
    fn start(&mut self) -> Option<Segment> {
        loop {
            match self.pieces.pop_front()? {
                Piece::Text(text) => return Some(Segment::Ready(Bytes::from(text))),
                Piece::Range(range) if range.is_empty() => {}
                Piece::Range(range) => {
                    let end = range.end.min(range.offset + self.share.segment_bytes() as u64);
                    self.pieces.push_front(Piece::Range(ByteRange { offset: end, end: range.end }));
                    let (file, free) = (Arc::clone(&self.file), Arc::clone(&self.free));
                    let range = ByteRange { offset: range.offset, end };
                    let waits_for_peers = file.waits_for_peers();
                    let read = move || read(&file, range, &free);
                    let work =
                        if waits_for_peers { Work::reading_from_peers(read) } else { Work::here(read) };
                    return Some(Segment::Reading(work));
                }
            }
        }
    }
}

fn read(file: &ReadFile, range: ByteRange, free: &Arc<FreeBuffers>) -> Result<Bytes> {
    let mut buffer = free.take();
    buffer.resize(range.length() as usize, 0);
    let count = file.read_at(range.offset, &mut buffer)?;
    if count < buffer.len() {
        return Err(Failure::corrupt(format!("object {} is shorter than promised", file.grant.object)));
    }
    Ok(Bytes::from_owner(PooledBuffer { buffer, free: Arc::clone(free) }))
}

/// Buffers that were sent and can be filled again: fresh ones would have to be cleared by the kernel first.
#[derive(Default)]
struct FreeBuffers(Mutex<Vec<Vec<u8>>>);

impl FreeBuffers {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

/// A filled buffer that goes back when its last reader is done with it.
struct PooledBuffer {
    buffer: Vec<u8>,
    free: Arc<FreeBuffers>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut free = self.free.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < SEGMENTS_PER_BODY {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

/// Writes what arrives, a segment at a time, while the next segment arrives.
pub(in crate::doors::http) struct Inflow {
    file: Arc<WriteFile>,
    /// Pieces that are not being written yet, in order.
    pieces: Vec<Bytes>,
    /// Small pieces after those, copied together.
    small: Vec<u8>,
    pending_bytes: usize,
    /// Bytes handed to the disk.
    offset: u64,
    writing: Option<Work<Hashing>>,
    /// With the writer while that is at work.
    hashing: Hashing,
    share: Share,
}

impl Inflow {
    /// Writes `file` from its beginning and hashes what passes.
    pub(in crate::doors::http) fn new(file: Arc<WriteFile>, hashing: Hashing, share: Share) -> Self {
        Self {
            file,
            pieces: Vec::new(),
            small: Vec::new(),
            pending_bytes: 0,
            offset: 0,
            writing: None,
            hashing,
            share,
        }
    }

    /// Takes the next bytes; waits while two segments are under way.
    pub(in crate::doors::http) async fn push(&mut self, chunk: Bytes) -> Result<()> {
        self.pending_bytes += chunk.len();
        if chunk.len() < SMALL_PIECE_BYTES {
            self.small.extend_from_slice(&chunk);
        } else {
            self.close_small();
            self.pieces.push(chunk);
        }
        if self.pending_bytes >= self.share.segment_bytes() {
            self.flush().await?;
        }
        Ok(())
    }

    /// Bytes taken so far.
    pub(in crate::doors::http) fn taken_bytes(&self) -> u64 {
        self.offset + self.pending_bytes as u64
    }

    /// Waits until all is written; tells how many bytes, and their hashes.
    pub(in crate::doors::http) async fn finish(mut self) -> Result<(u64, Hashing)> {
        self.flush().await?;
        self.settle().await?;
        Ok((self.offset, self.hashing))
    }

    fn close_small(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(std::mem::take(&mut self.small).into());
        }
    }

    /// Waits for the write that is under way.
    async fn settle(&mut self) -> Result<()> {
        if let Some(writing) = self.writing.take() {
            self.hashing = writing.finish().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.close_small();
        self.settle().await?;
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.is_empty() {
            return Ok(());
        }
        let (file, mut offset) = (Arc::clone(&self.file), self.offset);
        let end = offset + self.pending_bytes as u64;
        if file.lacks_space(end) {
            file.wait_for_space(end).await?;
        }
        let mut hashing = std::mem::take(&mut self.hashing);
        self.offset += self.pending_bytes as u64;
        self.pending_bytes = 0;
        let write = move || {
            for piece in pieces {
                file.write_at(offset, &piece)?;
                hashing.update(&piece);
                offset += piece.len() as u64;
            }
            Ok(hashing)
        };
        let waits_for_peers = self.file.waits_for_peers();
        self.writing = Some(if waits_for_peers { Work::writing_to_peers(write) } else { Work::here(write) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::remote::threads::PEER_THREADS_MAX;
    use std::time::Duration;

    #[tokio::test]
    async fn what_nobody_waits_for_does_not_begin() {
        let (mut waiting, (answer, answered)) = (Vec::new(), std::sync::mpsc::channel::<()>());
        let (answered, begun) = (Arc::new(Mutex::new(answered)), Arc::new(AtomicUsize::new(0)));
        let begin = Work::reading_from_peers;
        for _ in 0..PEER_THREADS_MAX {
            let (answered, begun) = (Arc::clone(&answered), Arc::clone(&begun));
            waiting.push(begin(Box::new(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                // Until the other side is gone.
                let _ = answered.lock().unwrap().recv();
                Ok(())
            }) as Box<dyn FnOnce() -> Result<()> + Send>));
        }
        let is_wanted = Arc::new(());
        let unwanted = Arc::clone(&is_wanted);
        drop(begin(Box::new(move || {
            drop(unwanted);
            panic!("nobody waits for it")
        })));
        let forgotten = async {
            while Arc::strong_count(&is_wanted) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), forgotten).await.expect("it waits for its turn");
        drop(answer);
        for one in waiting {
            one.finish().await.unwrap();
        }
        assert_eq!(begun.load(Ordering::Relaxed), PEER_THREADS_MAX);
    }

    #[test]
    fn segments_shrink_as_bodies_come() {
        assert_eq!(segment_bytes(0), XRD_READ_SEGMENT_BYTES);
        assert_eq!(segment_bytes(32), XRD_READ_SEGMENT_BYTES);
        assert!(segment_bytes(1000) * 1000 * SEGMENTS_PER_BODY <= BODIES_BYTES);
        assert_eq!(segment_bytes(usize::MAX), SEGMENT_BYTES_MIN);
        assert!((0..5000).all(|bodies| segment_bytes(bodies).is_multiple_of(4096)));
        let budget = Arc::new(Budget::default());
        let shares: Vec<_> = (0..64).map(|_| budget.join()).collect();
        assert_eq!(shares[0].segment_bytes(), 512 << 10);
        drop(shares);
        assert_eq!(budget.join().segment_bytes(), XRD_READ_SEGMENT_BYTES);
    }
}
