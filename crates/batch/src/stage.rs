//! Brings inputs to the scratch directory and outputs to the facility.

use crate::{identity::Identity, output::open_output};
use base::{Adler32, Checksums, ErrorKind, Failure, FilePath, Result};
use client::xrd::{CreateOptions, File as Remote, FileSystem, Options, TlsOptions, Token, XrdUrl};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tracing::debug;
use wire::control::InputSource;

/// Bytes read from an output at once.
const READ_BYTES: usize = 1 << 20;
/// Inputs are online and outputs go to disk: a server that makes us wait longer is in trouble.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Inputs may be programs; what is executable does no harm to data.
const INPUT_MODE: u32 = 0o755;
/// Permission bits of an output.
const OUTPUT_MODE: u16 = 0o644;

/// Says when to give up: the room stops, or the job is cancelled.
pub(crate) type CancelCheck<'a> = &'a dyn Fn() -> bool;

/// An output as it lies in a scratch directory.
#[derive(Clone, Copy)]
pub(crate) struct Output<'a> {
    /// The directory.
    pub(crate) scratch: &'a Path,
    /// Its path in there.
    pub(crate) name: &'a str,
    /// Whose it must be.
    pub(crate) uid: u32,
}

/// How an output is stored.
#[derive(Clone, Copy)]
pub(crate) struct StoreOptions<'a> {
    /// Whether what is there may be replaced.
    pub(crate) may_replace: bool,
    /// Says when to give up.
    pub(crate) interrupted: CancelCheck<'a>,
}

/// The failure of a copy that was given up; the caller asks `CancelCheck` again for the reason.
fn given_up() -> Failure {
    Failure::unavailable("the copy was given up")
}

/// The credentials and trust settings for copies of inputs and outputs.
#[derive(Clone, Copy)]
pub(crate) struct TransferContext<'a> {
    /// The owner of the job.
    pub(crate) user: &'a str,
    /// The token of the user.
    pub(crate) token: &'a str,
    /// Authorities that vouch for the doors; `None`: those that a client trusts anyway.
    pub(crate) ca_file: Option<&'a PathBuf>,
}

impl TransferContext<'_> {
    fn options(&self) -> Options {
        let tls = TlsOptions { ca_file: self.ca_file.cloned(), ..TlsOptions::default() };
        let token = Some(Token::new(self.token));
        Options { username: self.user.to_owned(), wait_max: WAIT_MAX, tls, token, ..Options::default() }
    }

    /// Where `path` is behind the door `root`, and how to get there.
    pub(crate) fn location(&self, root: &str, path: &FilePath) -> Result<(XrdUrl, Options)> {
        Ok((self.url(root, path)?, self.options()))
    }

    /// Where `path` is behind the door `root`. A door on this host may not ask who we are: it is told with the path.
    fn url(&self, root: &str, path: &FilePath) -> Result<XrdUrl> {
        let mut url = root.parse::<XrdUrl>()?.with_path(path.clone());
        if url.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
            url.opaque = url.opaque.with("authz", format!("Bearer%20{}", self.token));
        }
        Ok(url)
    }
}

/// Where an input is read: at the disk server that the order names, by its capability, or by name at the door of the head.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    /// The disk server. What the order calls the door of the head may have moved since: it is at `.1` now.
    Server(&'a str, &'a str),
    /// The head.
    Name(&'a str, &'a FilePath),
}

impl From<'_> {
    fn url(&self, source: &InputSource, transfer: &TransferContext<'_>) -> Result<XrdUrl> {
        match self {
            Self::Name(root, path) => transfer.url(root, path),
            Self::Server(then, now) => {
                let (url, then) = (source.url.parse::<XrdUrl>()?, then.parse::<XrdUrl>()?);
                if (&url.host, url.port) != (&then.host, then.port) {
                    return Ok(url);
                }
                let now = now.parse::<XrdUrl>()?;
                Ok(XrdUrl { host: now.host, port: now.port, ..url })
            }
        }
    }
}

/// A file that was not there: what an earlier try has left is no part of it, whatever it is.
fn new_file(target: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(target) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(INPUT_MODE).open(target)
}

/// Copies an input to `target` and compares size and sums with what the head says.
pub(crate) fn fetch(
    (source, from): (&InputSource, From<'_>),
    (target, identity): (&Path, &Identity),
    transfer: &TransferContext<'_>,
    interrupted: CancelCheck<'_>,
) -> Result<()> {
    let url = from.url(source, transfer)?;
    let write_failed = |cause: &std::io::Error| Failure::io(format!("write {}", base::tail(target)), cause);
    let mut file = new_file(target).map_err(|cause| write_failed(&cause))?;
    let remote = Remote::open_read(&url, &transfer.options())?;
    let (mut size, mut found) = (0u64, Checksums::EMPTY);
    remote.copy_to(&mut |piece| {
        if interrupted() {
            return Err(given_up());
        }
        size += piece.len() as u64;
        found = found.extend(piece);
        file.write_all(piece).map_err(|cause| write_failed(&cause))
    })?;
    if (size, found) != (source.size, source.checksums) {
        return Err(Failure::corrupt(format!(
            "read at {}: expected {} bytes, adler32 {}; got {size} bytes, adler32 {}",
            url.authority(),
            source.size,
            source.checksums.adler32,
            found.adler32
        )));
    }
    identity.give(&file).map_err(|cause| write_failed(&cause))?;
    // The content is verified: whether the server liked our goodbye does not matter.
    let _ = remote.close();
    Ok(())
}

/// Copies the file `name` of `scratch` to `path` behind the door `root`, and compares the sums.
///
/// Fails with [`ErrorKind::Exists`] if something is at `path`, unless it may be replaced.
pub(crate) fn store(
    Output { scratch, name, uid }: Output<'_>,
    (root, path): (&str, &FilePath),
    transfer: &TransferContext<'_>,
    StoreOptions { may_replace, interrupted }: StoreOptions<'_>,
) -> Result<()> {
    let mut file = open_output(scratch, name, uid)?;
    let read_failed = |cause: &std::io::Error| Failure::io(format!("read output {name:?}"), cause);
    let size = file.metadata().map_err(|cause| read_failed(&cause))?.len();
    let (url, options) = (transfer.url(root, path)?, transfer.options());
    let create = CreateOptions { replace: may_replace, make_path: true, mode: OUTPUT_MODE, size: Some(size) };
    let remote = Remote::create(&url, &options, create)?;
    let mut writer = remote.writer();
    let mut buffer = vec![0; READ_BYTES];
    let mut sum = Adler32::EMPTY;
    loop {
        let count = file.read(&mut buffer).map_err(|cause| read_failed(&cause))?;
        if count == 0 {
            break;
        }
        if interrupted() {
            return Err(given_up());
        }
        sum = sum.extend(&buffer[..count]);
        writer.push(&buffer[..count])?;
    }
    writer.finish()?;
    remote.close()?;
    compare(&url, path, sum, &options)
}

/// Asks the server for the sum of what it stored.
fn compare(url: &XrdUrl, path: &FilePath, sum: Adler32, options: &Options) -> Result<()> {
    match FileSystem::new(url, options).checksum(path, Some("adler32")) {
        Ok((_, found)) if found.parse::<Adler32>()? == sum => Ok(()),
        Ok((_, found)) => {
            Err(Failure::corrupt(format!("output {path}: sent adler32 {sum}, the facility stored {found}")))
        }
        Err(failure) if failure.kind == ErrorKind::Unsupported => {
            debug!(%path, "the server does not report checksums");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}
