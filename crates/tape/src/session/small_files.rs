//! Fetches the small files of a bundle from disk, each as a whole, with a thread that is a file ahead of the drive.

use super::SYSTEM_FAULTS_MAX;
use crate::{
    copier::{Disk, stopping},
    fault::Fault,
    label_io::SmallFile,
};
use base::{Checksums, Failure, Result, limits::TAPE_BUNDLED_FILE_BYTES_MAX};
use client::Stop;
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};
use wire::control::{ArchiveFile, Blame};

/// Files that wait for the drive, beside the one that is being fetched.
const FILES_AHEAD: usize = 1;
/// How often a wait looks whether it is time to stop.
const TICK: Duration = Duration::from_millis(250);
/// Longest that the disk may be silent; its client gives up earlier, so this is for our own bugs.
const SILENCE_DEADLINE: Duration = Duration::from_secs(900);

/// The bytes of the next file, in the order of the list; `None` at its end.
pub(super) type Next<'a> = dyn FnMut() -> Option<Result<Vec<u8>, Fault>> + 'a;

/// Runs `tape` with a source that gives one file of the list after the other.
pub(super) fn fetch<T>(
    disk: &dyn Disk,
    files: &[ArchiveFile],
    stop: &Stop,
    tape: impl FnOnce(&mut Next<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    thread::scope(|scope| {
        // It ends with this closure, and with it the reader: its next send fails.
        let (sender, receiver) = sync_channel(FILES_AHEAD);
        let reader = move || {
            // If nobody takes it, the tape side has ended.
            files.iter().all(|file| sender.send(whole(disk, file)).is_ok())
        };
        let thread = thread::Builder::new().name("tape-disk-read".to_owned()).spawn_scoped(scope, reader);
        thread.map_err(|cause| Fault::system(Failure::io("start a reader thread", &cause)))?;
        let mut left = files.len();
        tape(&mut || {
            left = left.checked_sub(1)?;
            Some(receive(&receiver, stop))
        })
    })
}

fn receive(receiver: &Receiver<Result<Vec<u8>, Fault>>, stop: &Stop) -> Result<Vec<u8>, Fault> {
    let begun = Instant::now();
    loop {
        if stop.is_set() {
            return Err(Fault::system(stopping()));
        }
        match receiver.recv_timeout(TICK) {
            Ok(file) => return file,
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < SILENCE_DEADLINE => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(Fault::system(Failure::timeout("the disk server is silent")));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::system(Failure::internal("the thread that reads from disk panicked")));
            }
        }
    }
}

/// Reads a whole file, which must be what the catalogue says.
fn whole(disk: &dyn Disk, file: &ArchiveFile) -> Result<Vec<u8>, Fault> {
    let ArchiveFile { path, size, checksums, .. } = file;
    if *size > TAPE_BUNDLED_FILE_BYTES_MAX {
        return Err(Fault::system(Failure::internal(format!("{path} is too large for a bundle"))));
    }
    let mut data = Vec::with_capacity(*size as usize);
    let mut sink = |piece: &[u8]| {
        if data.len() as u64 + piece.len() as u64 > *size {
            return Err(Failure::corrupt(format!("source of {path} has more than {size} bytes")));
        }
        data.extend_from_slice(piece);
        Ok(())
    };
    disk.read(&file.source, &mut sink).map_err(Fault::of_disk)?;
    if data.len() as u64 == *size && Checksums::of(&data) == *checksums {
        return Ok(data);
    }
    let failure = Failure::corrupt(format!("source of {path} has other bytes than the catalogue says"));
    Err(Fault::of_disk(failure.hint("the replica on disk is not the file")))
}

/// What became of the files of a bundle, by their place in its list.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// In the bundle, in its order.
    pub(super) taken: Vec<usize>,
    pub(super) failed: Vec<(usize, Fault)>,
    fetched: usize,
}

impl Gathered {
    /// The next file that can be read. `None` at the end of the list, or if disk servers are gone.
    pub(super) fn next(&mut self, files: &[ArchiveFile], next: &mut Next<'_>) -> Option<SmallFile> {
        let mut system_faults = 0;
        loop {
            let data = next()?;
            let index = self.fetched;
            self.fetched += 1;
            match data {
                Ok(data) => {
                    self.taken.push(index);
                    return Some(small_file(&files[index], data));
                }
                Err(fault) => {
                    system_faults = if fault.blame == Blame::System { system_faults + 1 } else { 0 };
                    self.failed.push((index, fault));
                    if system_faults == SYSTEM_FAULTS_MAX {
                        return None;
                    }
                }
            }
        }
    }
}

fn small_file(file: &ArchiveFile, data: Vec<u8>) -> SmallFile {
    let path = file.path.as_str().trim_start_matches('/').to_owned();
    let modified = u64::try_from(file.modified.0 / 1000).unwrap_or(0);
    SmallFile { file: file.file, path, modified, data, checksums: file.checksums }
}
