//! Copies one file.

use super::{
    bars::FileProgress,
    partial::{Partial, Record},
    place::Location,
    sums::{Kind, Running, is_same},
};
use base::{ByteRange, ErrorKind, Failure, PageBuffer, Result};
use client::xrd::{CreateOptions, File, FileSystem, Options, XrdUrl};
use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Bytes read from a local file at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Times that a file is sent, if the connection breaks: what was sent and not closed is lost.
const UPLOADS_MAX: u32 = 3;
/// Pause before a file is sent again, longer each time.
const PAUSE: Duration = Duration::from_secs(1);

/// What a copy may replace, make, resume and verify.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyOptions {
    /// Replace what is there.
    pub(crate) replace: bool,
    /// Make missing directories.
    pub(crate) make_path: bool,
    /// Go on with what an earlier try left.
    pub(crate) resume: bool,
    /// Compare checksums at the end.
    pub(crate) verify: bool,
}

/// The outcome of a copy.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Size of the file.
    pub(crate) bytes: u64,
    /// How much of it was there before.
    pub(crate) resumed: u64,
    /// Kind and value of the checksum that both sides agree on.
    pub(crate) checksum: Option<String>,
    /// Whether both sides agree on the content.
    pub(crate) is_verified: bool,
}

/// Copies files; may be used by several threads.
#[derive(Debug)]
pub(crate) struct Mover {
    options: Options,
    /// The checksum to compare, for each server.
    kinds: Mutex<HashMap<String, Option<Kind>>>,
}

/// Tells how to replace what is in the way.
pub(crate) fn replace_hint(failure: Failure) -> Failure {
    let is_hintless = failure.kind == ErrorKind::Exists && failure.hint.is_none();
    if is_hintless { failure.hint("add --replace to replace it") } else { failure }
}

impl Mover {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, kinds: Mutex::default() }
    }

    /// Copies one file. A failure names what could not be read or written, with its host or directory.
    pub(crate) fn copy(
        &self,
        source: &Location,
        target: &Location,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        match (source, target) {
            (Location::Remote { url, .. }, Location::Local(path)) => {
                self.download(url, path, copy_options, meter)
            }
            (Location::Local(path), Location::Remote { url, .. }) => {
                again_if_cut(meter, PAUSE, || self.upload_file(path, url, copy_options, meter))
            }
            // Both could do it between themselves, once both are asked whether they can.
            (Location::Remote { url: from, .. }, Location::Remote { url: to, .. }) => {
                again_if_cut(meter, PAUSE, || self.relay(from, to, copy_options, meter))
            }
            (Location::Remote { url, .. }, Location::Standard) => {
                self.pour_out(url, &mut io::stdout().lock(), "standard output", copy_options, meter)
            }
            // What was read of it cannot be sent again.
            (Location::Standard, Location::Remote { url, .. }) => {
                self.upload(&mut io::stdin().lock(), "standard input", None, url, copy_options, meter)
            }
            (Location::Local(_) | Location::Standard, Location::Local(_) | Location::Standard) => {
                Err(Failure::unsupported(format!("{source} and {target} are both on this host"))
                    .hint("use cp"))
            }
        }
    }

    /// Fetches a file. It appears under its name only when it is whole and verified.
    pub(crate) fn download(
        &self,
        url: &XrdUrl,
        target: &Path,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        if is_special(target) {
            let fail = |cause: io::Error| Failure::io(target.display(), &cause);
            let mut device = OpenOptions::new().write(true).open(target).map_err(fail)?;
            return self.pour_out(url, &mut device, &target.display().to_string(), copy_options, meter);
        }
        if !copy_options.replace && target.symlink_metadata().is_ok() {
            return Err(replace_hint(Failure::exists(format!("{} exists", target.display()))));
        }
        let file = File::open_read(url, &self.options)?;
        let kind = if copy_options.verify { self.kind(url) } else { None };
        // Only who goes on later needs to know beforehand.
        let known = if copy_options.resume { self.checksum(url, kind) } else { None };
        let opened = file.opened();
        let (size, modified_s) = (opened.size, opened.modified_s);
        let record = Record { source: url.to_string(), size, modified_s, checksum: known };
        let mut partial = Partial::open(target, &record, copy_options.resume)?;
        let resumed = partial.bytes;
        let outcome = self.fetch(&file, url, &mut partial, Running::new(kind), meter);
        match outcome {
            Ok((checksum, is_verified)) => {
                partial.publish(copy_options.replace)?;
                Ok(Moved { bytes: size, resumed, checksum, is_verified })
            }
            // What is not what the server has is of no use later.
            Err(failure) if failure.kind == ErrorKind::Corrupt || !copy_options.resume => {
                partial.remove();
                Err(failure)
            }
            Err(failure) if failure.hint.is_none() => {
                Err(failure.hint("run it again with --resume to continue"))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes a file in order to what keeps nothing.
    fn pour_out(
        &self,
        url: &XrdUrl,
        out: &mut dyn Write,
        name: &str,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        self.stream(url, copy_options.verify, meter, &mut |piece| {
            out.write_all(piece).map_err(|cause| Failure::io(format!("write {name}"), &cause))
        })
    }

    /// Hands a file to `sink`, and compares the whole if it is to be verified.
    pub(crate) fn stream(
        &self,
        url: &XrdUrl,
        verify: bool,
        meter: &FileProgress,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Moved> {
        let file = File::open_read(url, &self.options)?;
        let mut sum = Running::new(if verify { self.kind(url) } else { None });
        file.copy_to(&mut |piece| {
            sum.update(piece);
            sink(piece)?;
            meter.add(piece.len() as u64);
            Ok(())
        })?;
        let (checksum, is_verified) = self.compare(url, sum)?;
        Ok(Moved { bytes: file.size(), resumed: 0, checksum, is_verified })
    }

    /// Brings what is missing, and compares the whole.
    fn fetch(
        &self,
        file: &File,
        url: &XrdUrl,
        partial: &mut Partial,
        mut sum: Running,
        meter: &FileProgress,
    ) -> Result<(Option<String>, bool)> {
        let shown = partial.path().display().to_string();
        let failed = |doing: &str, cause: &io::Error| Failure::io(format!("{doing} {shown}"), cause);
        if partial.bytes > 0 {
            partial.file.seek(SeekFrom::Start(0)).map_err(|cause| failed("read", &cause))?;
            let mut part = (&partial.file).take(partial.bytes);
            pour(&mut part, &mut |piece| {
                sum.update(piece);
                meter.add(piece.len() as u64);
                Ok(())
            })
            .map_err(|cause| failed("read", &cause))??;
        }
        let rest = ByteRange { offset: partial.bytes, end: file.size() };
        file.copy_range(rest, &mut |piece| {
            sum.update(piece);
            meter.add(piece.len() as u64);
            partial.file.write_all(piece).map_err(|cause| failed("write", &cause))
        })?;
        self.compare(url, sum)
    }

    fn upload_file(
        &self,
        source: &Path,
        url: &XrdUrl,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        let failed = |cause: &io::Error| Failure::io(source.display(), cause);
        let mut reader = fs::File::open(source).map_err(|cause| failed(&cause))?;
        let size = reader.metadata().map_err(|cause| failed(&cause))?.len();
        self.upload(&mut reader, &source.display().to_string(), Some(size), url, copy_options, meter)
    }

    /// Sends what `reader` gives, and compares what the server stored.
    pub(crate) fn upload(
        &self,
        reader: &mut dyn Read,
        name: &str,
        size: Option<u64>,
        url: &XrdUrl,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        let create = CreateOptions {
            replace: copy_options.replace,
            make_path: copy_options.make_path,
            mode: 0o644,
            size,
        };
        let file = File::create(url, &self.options, create).map_err(replace_hint)?;
        let is_checked = file.is_checked_on_close();
        let kind = if copy_options.verify && !is_checked { self.kind(url) } else { None };
        let mut sum = Running::new(kind);
        let mut writer = file.writer();
        pour(reader, &mut |piece| {
            sum.update(piece);
            writer.push(piece)?;
            meter.add(piece.len() as u64);
            Ok(())
        })
        .map_err(|cause| Failure::io(format!("read {name}"), &cause))??;
        let bytes = writer.finish()?;
        file.close()?;
        let (checksum, is_verified) = self.compare(url, sum)?;
        Ok(Moved { bytes, resumed: 0, checksum, is_verified: is_verified || is_checked })
    }

    /// From server to server, through this host.
    fn relay(
        &self,
        from: &XrdUrl,
        to: &XrdUrl,
        copy_options: CopyOptions,
        meter: &FileProgress,
    ) -> Result<Moved> {
        let source = File::open_read(from, &self.options)?;
        let size = Some(source.size());
        let create = CreateOptions {
            replace: copy_options.replace,
            make_path: copy_options.make_path,
            mode: 0o644,
            size,
        };
        let target = File::create(to, &self.options, create).map_err(replace_hint)?;
        let is_checked = target.is_checked_on_close();
        let kind = if copy_options.verify { self.kind(from) } else { None };
        let mut sum = Running::new(kind);
        let mut writer = target.writer();
        source.copy_to(&mut |piece| {
            sum.update(piece);
            writer.push(piece)?;
            meter.add(piece.len() as u64);
            Ok(())
        })?;
        let bytes = writer.finish()?;
        // What came must be what the source has, before it is committed at the target.
        let (checksum, is_verified) = self.compare(from, sum)?;
        target.close()?;
        let is_stored =
            is_checked || (copy_options.verify && kind == self.kind(to) && self.compare(to, sum)?.1);
        Ok(Moved { bytes, resumed: 0, checksum, is_verified: is_verified && is_stored })
    }

    /// Compares `sum` with what the server of `url` says. Without a sum that it knows nothing is compared.
    fn compare(&self, url: &XrdUrl, sum: Running) -> Result<(Option<String>, bool)> {
        let Some((kind, ours)) = sum.value() else { return Ok((None, false)) };
        let shown = format!("{}:{ours}", kind.name());
        match FileSystem::new(url, &self.options).checksum(&url.path, Some(kind.name())) {
            Ok((_, theirs)) if is_same(&ours, &theirs) => Ok((Some(shown), true)),
            Ok((_, theirs)) => {
                let what = format!("{url}: {shown} was moved, but the server has {}:{theirs}", kind.name());
                Err(Failure::corrupt(what).hint("copy it again; if that also fails, tell the operator"))
            }
            Err(failure) if failure.kind == ErrorKind::Unsupported => Ok((Some(shown), false)),
            Err(failure) => Err(failure),
        }
    }

    /// The checksum that the server of `url` has, with its kind.
    fn checksum(&self, url: &XrdUrl, kind: Option<Kind>) -> Option<String> {
        let (kind, value) =
            FileSystem::new(url, &self.options).checksum(&url.path, Some(kind?.name())).ok()?;
        Some(format!("{kind}:{value}"))
    }

    /// The kind of checksum to compare with the server of `url`; `None` if it has none that we know.
    fn kind(&self, url: &XrdUrl) -> Option<Kind> {
        let server = url.authority();
        let known = || self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = known().get(&server) {
            return *kind;
        }
        let kind = match FileSystem::new(url, &self.options).config("chksum") {
            Ok(offered) => Kind::choose(&offered),
            // Asking for the sum itself will tell.
            Err(_) => Some(Kind::Adler32),
        };
        known().insert(server, kind);
        kind
    }
}

/// Hands everything that `reader` gives to `sink`. The outer failure is the reader's.
pub(super) fn pour(
    reader: &mut dyn Read,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> io::Result<Result<()>> {
    let mut buffer = PageBuffer::new(BUFFER_BYTES);
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(Ok(())),
            Ok(count) => {
                if let Err(failure) = sink(&buffer[..count]) {
                    return Ok(Err(failure));
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

/// Whether a target is a device or a pipe, which is written to and not replaced.
fn is_special(target: &Path) -> bool {
    target.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Sends again what was cut: the server has given it up, unless the cut came after it had committed the file.
fn again_if_cut(
    meter: &FileProgress,
    pause: Duration,
    mut send: impl FnMut() -> Result<Moved>,
) -> Result<Moved> {
    let mut outcome = send();
    for number in 1..UPLOADS_MAX {
        let cut = match outcome {
            Err(failure) if matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Timeout) => failure,
            outcome => return outcome,
        };
        meter.rewind();
        thread::sleep(pause * number);
        outcome = match send() {
            // Most likely it is what we sent ourselves, and only the answer was cut off.
            Err(failure) if failure.kind == ErrorKind::Exists => {
                return Err(Failure { hint: None, ..cut }.hint(
                    "the target exists and may be complete: compare it, or add --replace to copy it again",
                ));
            }
            outcome => outcome,
        };
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::ProgressBar;

    /// What comes of sends that end like this, one after the other.
    fn sent(outcomes: Vec<Result<Moved>>) -> Result<Moved> {
        let mut outcomes = outcomes.into_iter();
        let meter = FileProgress::alone(ProgressBar::hidden());
        let outcome = again_if_cut(&meter, Duration::ZERO, || outcomes.next().unwrap());
        assert!(outcomes.next().is_none(), "{outcome:?}");
        outcome
    }

    #[test]
    fn an_upload_that_is_cut_never_blames_itself_for_the_target() {
        let (cut, exists) =
            (|| Failure::unavailable("close: no answer"), || replace_hint(Failure::exists("f exists")));
        let failure = sent(vec![Err(cut()), Err(exists())]).unwrap_err();
        assert_eq!((failure.kind, failure.what.as_str()), (ErrorKind::Unavailable, "close: no answer"));
        assert!(
            failure
                .hint
                .as_deref()
                .is_some_and(|hint| hint.contains("the target exists and may be complete")),
            "{failure:?}"
        );
        let first = sent(vec![Err(exists())]).unwrap_err();
        assert_eq!(
            (first.kind, first.hint.as_deref()),
            (ErrorKind::Exists, Some("add --replace to replace it"))
        );
        assert!(sent(vec![Err(cut()), Err(Failure::timeout("slow")), Ok(Moved::default())]).is_ok());
        assert_eq!(sent(vec![Err(cut()), Err(cut()), Err(cut())]).unwrap_err(), cut());
    }
}
