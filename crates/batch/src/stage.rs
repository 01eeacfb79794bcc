//! Brings inputs to the scratch directory and outputs to the facility.

use base::{Adler32, Checksums, ErrorKind, Failure, FilePath, Result};
use client::xrd::{CreateOptions, File as Remote, FileSystem, Options, TlsOptions, Token, XrdUrl};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
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
pub(crate) type Interrupted<'a> = &'a dyn Fn() -> bool;

/// The failure of a copy that was given up; the caller asks `Interrupted` again for the reason.
fn given_up() -> Failure {
    Failure::unavailable("the copy was given up")
}

/// Makes a token for a user.
type MakeToken = dyn Fn(&str) -> Result<Token> + Send + Sync;

/// What a worker shows at the data doors.
#[derive(Clone)]
pub struct Credentials {
    /// Makes a token for a user.
    pub token: Arc<MakeToken>,
    /// Certificates of the authorities that vouch for the doors; without it those that a client trusts anyway.
    pub ca_file: Option<PathBuf>,
}

impl Credentials {
    /// For doors that believe who one says to be.
    #[must_use]
    pub fn none() -> Self {
        Self { token: Arc::new(|_| Ok(Token::nothing())), ca_file: None }
    }

    fn options(&self, user: &str) -> Result<Options> {
        let tls = TlsOptions { ca_file: self.ca_file.clone(), ..TlsOptions::default() };
        let token = Some((self.token)(user)?);
        Ok(Options { username: user.to_owned(), wait_max: WAIT_MAX, tls, token, ..Options::default() })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("ca_file", &self.ca_file).finish_non_exhaustive()
    }
}

/// Copies an input through the door at `root` to `target` and compares size and sums with what the head says.
///
/// The order names a door too, but that of the time when it was given.
pub(crate) fn fetch(
    (source, root): (&InputSource, &str),
    target: &Path,
    (user, credentials): (&str, &Credentials),
    interrupted: Interrupted<'_>,
) -> Result<()> {
    let (door, url) = (root.parse::<XrdUrl>()?, source.url.parse::<XrdUrl>()?);
    let url = XrdUrl { host: door.host, port: door.port, ..url };
    let write_failed = |cause: &std::io::Error| Failure::io(format!("write {}", target.display()), cause);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(INPUT_MODE)
        .open(target)
        .map_err(|cause| write_failed(&cause))?;
    let remote = Remote::open_read(&url, &credentials.options(user)?)?;
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
            "input {url}: expected {} bytes, adler32 {}; got {size} bytes, adler32 {}",
            source.size, source.checksums.adler32, found.adler32
        )));
    }
    // The content is verified: whether the server liked our goodbye does not matter.
    let _ = remote.close();
    Ok(())
}

/// Copies the file `name` of `scratch` to `path` behind the door `root`, as `user`, and compares the sums.
///
/// What is at `path` is replaced: after a crash the same output is stored again.
pub(crate) fn store(
    (scratch, name): (&Path, &str),
    (root, path): (&str, &FilePath),
    (user, credentials): (&str, &Credentials),
    interrupted: Interrupted<'_>,
) -> Result<()> {
    let mut file = open_output(scratch, name)?;
    let read_failed = |cause: &std::io::Error| Failure::io(format!("read output {name:?}"), cause);
    let size = file.metadata().map_err(|cause| read_failed(&cause))?.len();
    let url = root.parse::<XrdUrl>()?.with_path(path.clone());
    let options = credentials.options(user)?;
    let create = CreateOptions { replace: true, make_path: true, mode: OUTPUT_MODE, size: Some(size) };
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
            debug!(%path, "the door has no checksums");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Opens an output: a plain file in the scratch directory, or a link to one there.
fn open_output(scratch: &Path, name: &str) -> Result<File> {
    let failed = |cause: std::io::Error| Failure::io(format!("open output {name:?}"), &cause);
    let scratch = scratch.canonicalize().map_err(failed)?;
    let target = scratch.join(name).canonicalize().map_err(|cause| {
        failed(cause).hint("the job must leave the file in its working directory, BP_SCRATCH")
    })?;
    if !target.starts_with(&scratch) {
        return Err(Failure::permission(format!(
            "output {name:?} is a link that leaves the scratch directory"
        )));
    }
    // A pipe would keep us waiting for ever.
    if !target.metadata().map_err(failed)?.is_file() {
        return Err(Failure::invalid(format!("output {name:?} is not a plain file")));
    }
    File::open(target).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_plain_files_of_the_scratch_directory() {
        let root = tempfile::tempdir().unwrap();
        let scratch = root.path().join("scratch");
        std::fs::create_dir_all(scratch.join("sub")).unwrap();
        std::fs::write(root.path().join("secret"), "x").unwrap();
        std::fs::write(scratch.join("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", scratch.join("link")).unwrap();
        std::os::unix::fs::symlink("../secret", scratch.join("escape")).unwrap();
        let kind = |name| open_output(&scratch, name).map(|_| ()).map_err(|failure| failure.kind);
        assert_eq!(kind("real"), Ok(()));
        assert_eq!(kind("link"), Ok(()));
        assert_eq!(kind("escape"), Err(ErrorKind::Permission));
        assert_eq!(kind("sub"), Err(ErrorKind::Invalid));
        assert_eq!(kind("missing"), Err(ErrorKind::NotFound));
    }
}
