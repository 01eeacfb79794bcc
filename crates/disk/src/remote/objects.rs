//! Objects of other disk servers, read and written through this process: for clients that cannot be sent there, and for
//! copies that this process makes itself.

use crate::remote::redirect::RedirectTarget;
use base::{Checksums, Failure, FilePath, Result, Timestamp, checksum::StreamSums};
use client::xrd::{CreateOptions, File, Options, TlsOptions, Token, XrdUrl};
use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use wire::{auth::capability, control::WriteGrant, media::object::ObjectInfo};

/// A disk server that sends nothing for this long has failed the transfer.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// The same for a piece of a coded file: others can be read in its place.
const PIECE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a disk server with a piece may take to let us in.
const PIECE_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of a piece that are asked for, or sent, ahead: every open file has as many windows as pieces.
const PIECE_WINDOW_BYTES: usize = 2 << 20;

/// The settings for connections to other disk servers.
#[derive(Clone)]
pub struct PeerClient(Options);

impl PeerClient {
    /// Believes servers for which `authorities` vouch; without it those that the system knows.
    #[must_use]
    pub fn new(authorities: Option<PathBuf>) -> Self {
        Self(Options {
            progress_timeout: PROGRESS_TIMEOUT,
            username: "backplane".to_owned(),
            tls: TlsOptions { ca_file: authorities, ..TlsOptions::default() },
            // The capability says everything.
            token: Some(Token::nothing()),
            ..Options::default()
        })
    }

    /// The same with less memory, for many that are written at once. Somebody waits for the close: who cannot be written to within
    /// a minute has failed, also if it asks for patience.
    pub(crate) fn for_filling(&self) -> Self {
        Self(Options { wait_max: PROGRESS_TIMEOUT, window_bytes: PIECE_WINDOW_BYTES, ..self.0.clone() })
    }

    /// The same with less patience, and with less memory.
    pub(crate) fn for_pieces(&self) -> Self {
        Self(Options {
            connect_timeout: PIECE_CONNECT_TIMEOUT,
            progress_timeout: PIECE_TIMEOUT,
            wait_max: PIECE_TIMEOUT,
            retry_max: 1,
            // Who does not have it sends clients to the head, which would send them back.
            redirects_max: 0,
            window_bytes: PIECE_WINDOW_BYTES,
            ..self.0.clone()
        })
    }

    /// Opens what a URL of the head is for. Blocks.
    pub(crate) fn open(&self, url: &str) -> Result<File> {
        File::open_read(&url.parse()?, &self.0)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0
    }

    /// Opens an object for reading. Blocks.
    pub fn read(&self, target: &RedirectTarget, path: &FilePath) -> Result<File> {
        File::open_read(&url(target, path)?, &self.0)
    }

    /// Begins to write an object. Blocks.
    pub fn write(&self, target: &RedirectTarget, grant: &WriteGrant) -> Result<RemoteSink> {
        let url = url(target, &grant.path)?;
        let file = if grant.base.is_some() {
            File::open_update(&url, &self.0)?
        } else {
            let size = Some(grant.expected_bytes).filter(|bytes| *bytes > 0);
            File::create(&url, &self.0, CreateOptions { replace: true, size, ..CreateOptions::default() })?
        };
        let content = (file.size(), Checksums::EMPTY);
        let info = ObjectInfo::new("", grant.object, &grant.label(), content, Timestamp(0));
        Ok(RemoteSink { state: Mutex::new(State { file: Some(file), sums: StreamSums::default(), info }) })
    }
}

fn url(target: &RedirectTarget, path: &FilePath) -> Result<XrdUrl> {
    let redirect = target.redirect()?;
    let server: XrdUrl = format!("root://{}:{}//", redirect.host, redirect.port).parse()?;
    let mut url = server.with_path(path.clone());
    url.opaque = wire::xrd::Opaque::parse(&redirect.opaque).with(capability::DIRECT, "1");
    Ok(url)
}

/// An object that is being written on another disk server.
pub struct RemoteSink {
    /// Guards the file and its sums; held while a piece is sent.
    state: Mutex<State>,
}

struct State {
    /// `None` when it is closed.
    file: Option<File>,
    sums: StreamSums,
    info: ObjectInfo,
}

impl RemoteSink {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes it has now.
    pub(crate) fn size(&self) -> Result<u64> {
        self.with(|state| Ok(state.info.size))
    }

    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.with(|state| state.file()?.read_at(offset, buffer))
    }

    pub(crate) fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.with(|state| {
            state.file()?.write_at(offset, data)?;
            state.sums.update(offset, data);
            state.info.size = state.info.size.max(offset + data.len() as u64);
            Ok(())
        })
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        self.with(|state| {
            state.file()?.truncate(size)?;
            state.info.size = size;
            Ok(())
        })
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.with(|state| state.file()?.sync())
    }

    /// What was written; its sums are known if every byte was written once.
    pub(crate) fn info(&self) -> Result<ObjectInfo> {
        self.with(|state| {
            let checksums = state.sums.finish(state.info.size).unwrap_or(Checksums::EMPTY);
            Ok(ObjectInfo { checksums, ..state.info.clone() })
        })
    }

    /// Makes it durable, and known to the head.
    pub(crate) fn close(&self) -> Result<()> {
        self.with(|state| state.file.take().ok_or_else(closed)?.close())
    }
}

impl State {
    fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(closed)
    }
}

fn closed() -> Failure {
    Failure::invalid("the file is closed already")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_filled_is_not_waited_for_longer_than_a_minute() {
        let options = PeerClient::new(None).for_filling().0;
        assert!(options.wait_max.max(options.progress_timeout) <= Duration::from_secs(60), "{options:?}");
    }
}
