//! Copies between the facility and this host, verified.

use crate::{
    context::{Context, Run, Stop},
    progress, waiting,
};
use base::{Adler32, ErrorKind, Failure, FilePath, Result, units::human_bytes};
use client::xrd::{CreateOptions, File};
use indicatif::ProgressBar;
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Instant,
};
use wire::control::{FileInfo, NodeKind, Stage, Stat, Want};

/// Bytes read from a local file at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Smallest file whose rate is shown.
const RATE_BYTES_MIN: u64 = 1 << 20;

/// Whether an existing file may be replaced, and what else a copy needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Replace what is there.
    pub(crate) replace: bool,
    /// Make missing directories.
    pub(crate) parents: bool,
}

/// Copies `source` (`-` is standard input) to `path`, and compares the checksum that the facility keeps.
pub(crate) fn upload(context: &mut Context, source: &Path, path: &FilePath, manner: Manner) -> Run<()> {
    let (mut reader, size): (Box<dyn Read>, Option<u64>) = if source.as_os_str() == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let file = open_source(source)?;
        let size = file.metadata().map_err(|cause| Failure::io(source.display(), &cause))?.len();
        (Box::new(file), Some(size))
    };
    let began = Instant::now();
    let bar = progress::transfer(&context.output, path.name(), size);
    let create = CreateOptions { replace: manner.replace, make_path: manner.parents, mode: 0o644, size };
    let file = File::create(&context.url(path)?, &context.xrd_options(), create).map_err(replace_hint)?;
    let (sum, bytes) = send(&mut *reader, source, &mut file, &bar)?;
    file.close()?;
    bar.finish_and_clear();
    let info = context.call(&Stat { path: path.clone() })?;
    let kept = info.entry.checksums.map(|sums| sums.adler32);
    if info.entry.size != bytes || kept.is_some_and(|kept| kept != sum) {
        return Err(mismatch(path, bytes, sum, info.entry.size, kept).into());
    }
    report(context, &info, path.as_str(), began)
}

fn open_source(source: &Path) -> Result<fs::File> {
    let file = fs::File::open(source).map_err(|cause| Failure::io(source.display(), &cause))?;
    let kind = file.metadata().map_err(|cause| Failure::io(source.display(), &cause))?.file_type();
    if kind.is_dir() {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{} is a directory", source.display()))
            .hint("name the files; your shell expands wildcards of local names"));
    }
    Ok(file)
}

/// Sends everything; returns its sum and length.
fn send(reader: &mut dyn Read, source: &Path, file: &mut File, bar: &ProgressBar) -> Result<(Adler32, u64)> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut sum = Adler32::EMPTY;
    let mut writer = file.writer();
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(Failure::io(format!("read {}", source.display()), &cause)),
        };
        sum = sum.extend(&buffer[..count]);
        writer.push(&buffer[..count])?;
        bar.inc(count as u64);
    }
    Ok((sum, writer.finish()?))
}

fn replace_hint(failure: Failure) -> Failure {
    let is_hintless = failure.kind == ErrorKind::Exists && failure.hint.is_none();
    if is_hintless { failure.hint("add --replace to replace it") } else { failure }
}

/// Copies `path` to the local file `target`. It appears under its name only when it is whole and verified.
pub(crate) fn download(context: &mut Context, path: &FilePath, target: &Path, manner: Manner) -> Run<()> {
    if !manner.replace && target.symlink_metadata().is_ok() {
        return Err(replace_hint(Failure::exists(format!("{} exists", target.display()))).into());
    }
    let (partial, mut sink) = partial_file(target)?;
    let began = Instant::now();
    let outcome = receive(context, path, &mut |piece| {
        sink.write_all(piece).map_err(|cause| Failure::io(format!("write {}", partial.display()), &cause))
    })
    .and_then(|info| Ok(publish(&partial, target, manner.replace).map(|()| info)?));
    match outcome {
        Ok(info) => report(context, &info, &target.display().to_string(), began),
        Err(stop) => {
            // It is ours, unfinished, and the failure above says more than a failure to remove it.
            let _ = fs::remove_file(&partial);
            Err(stop)
        }
    }
}

/// A new file beside `target`.
fn partial_file(target: &Path) -> Result<(PathBuf, fs::File)> {
    let name = target
        .file_name()
        .ok_or_else(|| Failure::invalid(format!("{} is no file name", target.display())))?;
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}.part", std::process::id()));
    let partial = target.with_file_name(partial);
    let file = fs::File::create_new(&partial)
        .map_err(|cause| Failure::io(format!("make {}", partial.display()), &cause))?;
    Ok((partial, file))
}

/// Gives the finished file its name.
fn publish(partial: &Path, target: &Path, replace: bool) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let outcome = if replace {
        fs::rename(partial, target)
    } else {
        match renameat_with(CWD, partial, CWD, target, RenameFlags::NOREPLACE) {
            // A file system without this: somebody who makes the same file in this very moment loses.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => fs::rename(partial, target),
            outcome => outcome.map_err(io::Error::from),
        }
    };
    outcome.map_err(|cause| replace_hint(Failure::io(format!("name it {}", target.display()), &cause)))
}

/// Prints `path` on standard output.
pub(crate) fn print(context: &mut Context, path: &FilePath) -> Run<()> {
    let stdout = io::stdout();
    let mut is_closed = false;
    context.output.flush()?;
    let outcome = receive(context, path, &mut |piece| {
        stdout.lock().write_all(piece).map_err(|cause| {
            is_closed = cause.kind() == io::ErrorKind::BrokenPipe;
            Failure::io("write the output", &cause)
        })
    });
    if is_closed { Err(Stop::PipeClosed) } else { outcome.map(|_| ()) }
}

/// Hands the file to `sink`, waiting for its recall first, and compares its checksum.
fn receive(
    context: &mut Context,
    path: &FilePath,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Run<FileInfo> {
    let info = online(context, path)?;
    let bar = progress::transfer(&context.output, path.name(), Some(info.entry.size));
    let file = File::open_read(&context.url(path)?, &context.xrd_options())?;
    let (mut sum, mut bytes) = (Adler32::EMPTY, 0);
    file.copy_to(&mut |piece| {
        sum = sum.extend(piece);
        bytes += piece.len() as u64;
        sink(piece)?;
        bar.inc(piece.len() as u64);
        Ok(())
    })?;
    file.close()?;
    bar.finish_and_clear();
    let kept = info.entry.checksums.map(|sums| sums.adler32);
    if bytes == info.entry.size && kept.is_none_or(|kept| kept == sum) {
        return Ok(info);
    }
    let now = context.call(&Stat { path: path.clone() })?;
    if now.entry.checksums != info.entry.checksums || now.entry.modified != info.entry.modified {
        return Err(Failure::busy(format!("{path} was changed while it was read"))
            .hint("read it again")
            .into());
    }
    Err(mismatch(path, bytes, sum, info.entry.size, kept).into())
}

/// The file's metadata once it is on disk.
fn online(context: &mut Context, path: &FilePath) -> Run<FileInfo> {
    let info = context.call(&Stat { path: path.clone() })?;
    if info.entry.kind == NodeKind::Directory {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory")).into());
    }
    if info.entry.state.is_none_or(wire::control::FileState::is_online) {
        return Ok(info);
    }
    let paths = vec![path.clone()];
    let outcomes = context.call(&Stage { paths: paths.clone(), pin: None })?;
    if let Some(failure) = outcomes.files.into_iter().find_map(|file| file.failure) {
        return Err(failure.into());
    }
    waiting::silently(context, |context| {
        waiting::files(context, &paths, Want::Online, waiting::PATIENCE_DEFAULT)
    })?;
    Ok(context.call(&Stat { path: path.clone() })?)
}

fn mismatch(path: &FilePath, bytes: u64, sum: Adler32, size: u64, kept: Option<Adler32>) -> Failure {
    let kept = kept.map_or_else(|| "unknown".to_owned(), |kept| kept.to_string());
    Failure::corrupt(format!(
        "{path}: {bytes} bytes with adler32 {sum} were moved, but the facility has {size} with {kept}"
    ))
    .hint("copy it again; if that fails too, tell the operator")
}

fn report(context: &mut Context, info: &FileInfo, name: &str, began: Instant) -> Run<()> {
    if context.output.is_json() {
        return context.output.json(info);
    }
    let seconds = began.elapsed().as_secs_f64().max(1e-6);
    let sum = info.entry.checksums.map(|sums| format!("  adler32 {}", sums.adler32)).unwrap_or_default();
    // Of a small file the rate says nothing.
    let rate = if info.entry.size >= RATE_BYTES_MIN {
        format!("  {}/s", human_bytes((info.entry.size as f64 / seconds) as u64))
    } else {
        String::new()
    };
    let size = human_bytes(info.entry.size);
    context.output.news(format!("{name}  {size}{sum}{rate}"))
}
