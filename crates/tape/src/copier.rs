//! Carries the bytes of a file between tape and disk, with a thread on the disk's side so that neither waits for the
//! other more than it must.

use crate::fault::Fault;
use base::{Failure, Result};
use client::{
    Stop,
    xrd::{CreateOptions, File, Options, TlsOptions, Token, XrdUrl},
};
use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Pieces between the two threads: with pieces of 1 MiB or less, enough to ride out a slow answer.
const PIECES_MAX: usize = 16;
/// Longest that the disk may be silent; its client gives up earlier, so this is for our own bugs.
const SILENCE_DEADLINE: Duration = Duration::from_secs(900);
/// Longest that a disk server may ask the tape server to come again later.
const DISK_WAIT_MAX: Duration = Duration::from_secs(600);
/// How often a wait looks whether it is time to stop.
const TICK: Duration = Duration::from_millis(250);

/// The disk side of a copy: replicas on disk servers.
pub trait Disk: Send + Sync + 'static {
    /// Hands the whole file at `url` to `sink`, in order.
    fn read(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Writes what `next` gives to the object at `url`. `Ok(None)` means commit: on return the object is durable. If
    /// `next` fails the object is abandoned.
    fn write(&self, url: &str, next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>) -> Result<()>;
}

/// Disk servers reached by the XRootD protocol, with the capability in the URL.
#[derive(Debug, Clone)]
pub struct XrdDisk {
    options: Options,
}

impl XrdDisk {
    /// Believes servers for which `authorities` vouch; without it those that the system knows.
    #[must_use]
    pub fn new(authorities: Option<PathBuf>) -> Self {
        let (username, wait_max) = ("bptape".to_owned(), DISK_WAIT_MAX);
        let tls = TlsOptions { ca_file: authorities, ..TlsOptions::default() };
        // The capability says everything.
        let token = Some(Token::nothing());
        Self { options: Options { wait_max, username, tls, token, ..Options::default() } }
    }
}

impl Disk for XrdDisk {
    fn read(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let url: XrdUrl = url.parse()?;
        let file = File::open_read(&url, &self.options)?;
        file.copy_to(sink)?;
        file.close()
    }

    fn write(&self, url: &str, next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>) -> Result<()> {
        let url: XrdUrl = url.parse()?;
        // The object is reserved: whatever an earlier try left under its name is to be replaced.
        let create = CreateOptions { replace: true, make_path: false, ..CreateOptions::default() };
        let file = File::create(&url, &self.options, create)?;
        let mut writer = file.writer();
        while let Some(piece) = next()? {
            writer.push(&piece)?;
        }
        writer.finish()?;
        // Closing commits: the disk server compares with the capability's size and checksums, and syncs.
        file.close()
    }
}

/// Runs `tape` with a source that gives the file at `url`. The file is opened before `tape` begins, so that a file
/// that cannot be read costs nothing on tape.
pub(crate) fn from_disk<T>(
    disk: &dyn Disk,
    url: &str,
    stop: &Stop,
    tape: impl FnOnce(&mut dyn FnMut(&mut [u8]) -> Result<usize>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let (sender, receiver) = sync_channel(PIECES_MAX);
    thread::scope(|scope| {
        let reader = move || {
            let mut sink = |piece: &[u8]| {
                let sent = sender.send(Ok(Some(piece.to_vec())));
                sent.map_err(|_| Failure::unavailable("the tape side has stopped"))
            };
            let end = disk.read(url, &mut sink).map(|()| None);
            // If nobody takes it, the tape side has failed and has its own reason.
            let _ = sender.send(end);
        };
        let thread = thread::Builder::new().name("tape-disk-read".to_owned()).spawn_scoped(scope, reader);
        let thread = thread.map_err(|cause| Fault::system(Failure::io("start a reader thread", &cause)))?;
        let mut stream = Stream { receiver, piece: Some(Vec::new()), at: 0, stop };
        let outcome = match stream.advance() {
            Ok(()) => tape(&mut |buffer| stream.fill(buffer)),
            Err(failure) => Err(Fault::of_disk(failure)),
        };
        // The reader's next send fails, and it ends. If it panicked, the stream has told.
        drop(stream);
        let _ = thread.join();
        outcome
    })
}

/// The pieces that a reader thread sends, as a stream of bytes.
struct Stream<'a> {
    receiver: Receiver<Result<Option<Vec<u8>>>>,
    /// `None` at the end of the file.
    piece: Option<Vec<u8>>,
    at: usize,
    stop: &'a Stop,
}

impl Stream<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let Some(piece) = &self.piece else { return Ok(0) };
            let rest = &piece[self.at..];
            if !rest.is_empty() {
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                return Ok(count);
            }
            self.advance()?;
        }
    }

    /// Takes the next piece.
    fn advance(&mut self) -> Result<()> {
        let begun = Instant::now();
        loop {
            if self.stop.is_set() {
                return Err(stopping());
            }
            match self.receiver.recv_timeout(TICK) {
                Ok(piece) => {
                    (self.piece, self.at) = (piece?, 0);
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < SILENCE_DEADLINE => {}
                Err(RecvTimeoutError::Timeout) => return Err(Failure::timeout("the disk server is silent")),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::internal("the thread that reads from disk panicked"));
                }
            }
        }
    }
}

/// Runs `tape` with a sink that writes to the object at `url`, and commits the object if `tape` succeeds: what it has
/// not verified never becomes a file. The object is opened before `tape` begins, so that a disk server that is gone
/// costs no winding.
pub(crate) fn to_disk(
    disk: &dyn Disk,
    url: &str,
    stop: &Stop,
    tape: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (sender, receiver) = sync_channel::<Option<Vec<u8>>>(PIECES_MAX);
    let (opening, opened) = sync_channel::<()>(1);
    thread::scope(|scope| {
        let writer = move || {
            disk.write(url, &mut || {
                // Told with each piece; only the first is looked at, and a full channel is as good.
                let _ = opening.try_send(());
                // Waits for the tape, which the watchdog bounds.
                receiver.recv().map_err(|_| Failure::unavailable("the tape side has stopped"))
            })
        };
        let thread = thread::Builder::new().name("tape-disk-write".to_owned()).spawn_scoped(scope, writer);
        let thread = thread.map_err(|cause| Fault::system(Failure::io("start a writer thread", &cause)))?;
        let mut is_disk_gone = false;
        let mut outcome = wait_open(&opened, stop).and_then(|is_open| {
            is_disk_gone = !is_open;
            let mut sink = |block: &[u8]| {
                if stop.is_set() {
                    return Err(stopping());
                }
                is_disk_gone = !send(&sender, Some(block.to_vec()));
                if is_disk_gone { Err(Failure::unavailable("the disk side has stopped")) } else { Ok(()) }
            };
            if is_open { tape(&mut sink) } else { Ok(()) }
        });
        if outcome.is_ok() && !is_disk_gone {
            is_disk_gone = !send(&sender, None);
        }
        drop(sender);
        let written = thread
            .join()
            .unwrap_or_else(|_| Err(Failure::internal("the thread that writes to disk panicked")));
        if let Err(failure) = written
            && (outcome.is_ok() || is_disk_gone)
        {
            outcome = Err(Fault::of_disk(failure));
        }
        outcome
    })
}

/// Waits until the writer has opened its object; `false` if it has ended instead.
fn wait_open(opened: &Receiver<()>, stop: &Stop) -> Result<bool, Fault> {
    let begun = Instant::now();
    while !stop.is_set() {
        match opened.recv_timeout(TICK) {
            Ok(()) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < SILENCE_DEADLINE => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(Fault::system(Failure::timeout("the disk server is silent")));
            }
        }
    }
    Err(Fault::system(stopping()))
}

/// Sends to the writer; `false` if it has ended. Waits for the disk, which the client's deadlines bound.
fn send(sender: &SyncSender<Option<Vec<u8>>>, message: Option<Vec<u8>>) -> bool {
    sender.send(message).is_ok()
}

pub(crate) fn stopping() -> Failure {
    Failure::unavailable("the tape server is stopping")
}
