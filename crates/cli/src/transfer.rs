//! Copies between the facility and this host; waits for recalls and keeps file metadata.

use crate::words::counted;
use crate::{
    context::{Context, Run, Stop},
    mover::{CopyOptions, FileProgress, Mover},
    progress,
    verbs::wait::in_parts,
    waiting,
};
use base::{ErrorKind, Failure, FilePath, Result, units::human_bytes};
use std::{
    collections::HashSet,
    fs,
    io::{self, Read, Write},
    path::Path,
    time::Instant,
};
use wire::control::{FileInfo, FileState, NodeKind, Stage, Stat, Want};

/// Smallest file whose rate is shown.
const RATE_BYTES_MIN: u64 = 1 << 20;

/// Copies `source` (`-` is standard input) to `path`, and compares the checksum that the facility keeps.
pub(crate) fn upload(
    context: &mut Context,
    source: &Path,
    path: &FilePath,
    copy_options: CopyOptions,
) -> Run<()> {
    let (mut reader, size): (Box<dyn Read>, Option<u64>) = if source.as_os_str() == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let file = open_source(source)?;
        let size = file.metadata().map_err(|cause| Failure::io(source.display(), &cause))?.len();
        (Box::new(file), Some(size))
    };
    let began = Instant::now();
    let meter = FileProgress::alone(progress::transfer(&context.output, path.name(), size));
    let (mover, url) = (Mover::new(context.xrd_options()), context.url(path)?);
    let name = source.display().to_string();
    let moved = mover.upload(&mut *reader, &name, size, &url, copy_options, &meter)?;
    meter.finish();
    let info = context.call(&Stat { path: path.clone() })?;
    if info.entry.size != moved.bytes {
        let sent = counted(moved.bytes, "byte was", "bytes were");
        let what = format!("{path}: {sent} sent, but the facility stored {}", info.entry.size);
        return Err(Failure::corrupt(what)
            .hint("copy it again; if that also fails, tell the operator")
            .into());
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

/// Copies `path` to the local file `target`. It appears under its name only when it is whole and verified.
pub(crate) fn download(
    context: &mut Context,
    path: &FilePath,
    target: &Path,
    copy_options: CopyOptions,
) -> Run<()> {
    let info = online(context, path)?;
    let began = Instant::now();
    let meter = FileProgress::alone(progress::transfer(&context.output, path.name(), Some(info.entry.size)));
    let (mover, url) = (Mover::new(context.xrd_options()), context.url(path)?);
    let outcome = mover.download(&url, target, copy_options, &meter);
    meter.finish();
    checked(context, path, &info, outcome)?;
    report(context, &info, &target.display().to_string(), began)
}

/// Asks for all files on tape before the first is waited for: they are read in the order of the tape, with one load of each volume.
/// Yields those that are not on disk yet. What is refused is told when it is its turn.
pub(crate) fn stage(context: &mut Context, paths: &[FilePath]) -> Result<Vec<FilePath>> {
    let outcomes = in_parts(context, paths, |paths| Stage { paths, pin: None })?;
    Ok(outcomes.files.into_iter().filter(|file| file.waits.is_some()).map(|file| file.path).collect())
}

/// Does `one` for each file: first for those on disk, then for the others as they come from tape. Says meanwhile what is waited for.
pub(crate) fn as_they_come(
    context: &mut Context,
    paths: Vec<FilePath>,
    mut one: impl FnMut(&mut Context, FilePath) -> Run<()>,
) -> Run {
    let mut ahead = stage(context, &paths)?;
    let absent: HashSet<FilePath> = ahead.iter().cloned().collect();
    let there = paths.into_iter().filter(|path| !absent.contains(path));
    let mut code = context.each(there, &mut one)?;
    while !ahead.is_empty() {
        let next = waiting::next_online(context, &ahead)?;
        let is_next: HashSet<&FilePath> = next.iter().collect();
        ahead.retain(|path| !is_next.contains(path));
        let ended = context.each(next.clone(), &mut one)?;
        code = if code == 0 { ended } else { code };
    }
    Ok(code)
}

/// Prints `path` on standard output.
pub(crate) fn print(context: &mut Context, path: &FilePath) -> Run<()> {
    let info = online(context, path)?;
    let stdout = io::stdout();
    let mut is_closed = false;
    context.output.flush()?;
    let meter = FileProgress::alone(progress::transfer(&context.output, path.name(), Some(info.entry.size)));
    let (mover, url) = (Mover::new(context.xrd_options()), context.url(path)?);
    let outcome = mover.stream(&url, true, &meter, &mut |piece| {
        stdout.lock().write_all(piece).map_err(|cause| {
            is_closed = cause.kind() == io::ErrorKind::BrokenPipe;
            Failure::io("write the output", &cause)
        })
    });
    meter.finish();
    if is_closed {
        return Err(Stop::PipeClosed);
    }
    checked(context, path, &info, outcome).map(drop)
}

/// Tells a file that changed while it was read from one that is damaged.
fn checked<T>(context: &mut Context, path: &FilePath, info: &FileInfo, outcome: Result<T>) -> Run<T> {
    let failure = match outcome {
        Ok(moved) => return Ok(moved),
        Err(failure) if failure.kind != ErrorKind::Corrupt => return Err(failure.into()),
        Err(failure) => failure,
    };
    let now = context.call(&Stat { path: path.clone() })?;
    if now.entry.checksums != info.entry.checksums || now.entry.modified != info.entry.modified {
        return Err(Failure::busy(format!("{path} was changed while it was read"))
            .hint("read it again")
            .into());
    }
    Err(failure.into())
}

/// The file's metadata once it is on disk.
fn online(context: &mut Context, path: &FilePath) -> Run<FileInfo> {
    let info = context.call(&Stat { path: path.clone() })?;
    if info.entry.kind == NodeKind::Directory {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{path} is a directory")).into());
    }
    // Of what is out of reach the open says where it is, or waits until that is back.
    let is_opened = |state: FileState| state.is_online() || state == FileState::OutOfReach;
    if info.entry.state.is_none_or(is_opened) {
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
