//! Stores the outputs of a job that has ended well: all of them, or none.

use crate::{
    durable,
    outputs::{self, OutputFile},
    room::Shared,
    run::{Run, can_pass, can_pass_for_output, transfer_context, with_retries},
    run_dir::RunDir,
    stage::{self, Output, StoreOptions},
};
use base::{ErrorKind, Failure, FilePath, Result};
use client::xrd::FileSystem;
use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Write},
    time::{Duration, Instant},
};
use tracing::warn;

/// How long outputs are tried: the CPU time is spent, so that patience is cheap. Time that the room was down counts not.
const STORE_PATIENCE: Duration = Duration::from_secs(6 * 3600);
/// How long the removal of outputs of a failed job is tried: they are listed then, and an operator may remove them.
const REMOVE_PATIENCE: Duration = Duration::from_secs(60);
/// Which outputs were begun, one path a line: a file of the run directory.
const BEGUN: &str = "outputs";

/// Stores every output, and tells where; `None` if the room stops or the job is cancelled.
///
/// Nothing is stored unless every file is there, and what was stored goes again if another one cannot be.
pub(crate) fn store_all(shared: &Shared, run: &Run, uid: u32) -> Option<Result<Vec<FilePath>>> {
    let files = match outputs::find(&run.dir.scratch(), &run.order.spec.outputs, uid) {
        Ok(files) => files,
        Err(failure) => return Some(Err(failure)),
    };
    let mut begun = match PendingOutputs::open(&run.dir) {
        Ok(begun) => begun,
        Err(cause) => return Some(Err(run.dir.failed("note what is stored", &cause))),
    };
    let since = Instant::now();
    for file in &files {
        let failure = match store_one(shared, run, (file, uid), since, &mut begun) {
            Some(Ok(())) => continue,
            Some(Err(failure)) => failure.during(format_args!("store output {}", file.path)),
            // A room that stops goes on at its next start.
            None if shared.is_stopping() => return None,
            None => {
                begun.remove_all(shared, run);
                return None;
            }
        };
        let left = begun.remove_all(shared, run);
        return Some(Err(if left == 0 { failure } else { with_rest(failure, left) }));
    }
    Some(Ok(files.into_iter().map(|file| file.path).collect()))
}

fn with_rest(failure: Failure, left: usize) -> Failure {
    Failure { what: format!("{}; {left} other outputs could not be removed again", failure.what), ..failure }
}

fn store_one(
    shared: &Shared,
    run: &Run,
    (file, uid): (&OutputFile, u32),
    since: Instant,
    begun: &mut PendingOutputs,
) -> Option<Result<()>> {
    let interrupted = || shared.is_stopping() || run.is_cancelled();
    let (order, scratch) = (&run.order, run.dir.scratch());
    with_retries(shared, run, since, (STORE_PATIENCE, can_pass_for_output), &mut || {
        let token = shared.token(order.run)?.token;
        // What an earlier try has stored is ours to replace.
        let may_replace = order.spec.replace || begun.has(&file.path);
        begun.note(&file.path).map_err(|cause| run.dir.failed("note what is stored", &cause))?;
        let store_options = StoreOptions { may_replace, interrupted: &interrupted };
        let output = Output { scratch: &scratch, name: &file.name, uid };
        let stored = stage::store(
            output,
            (&*shared.door(order), &file.path),
            &transfer_context(shared, run, &token),
            store_options,
        );
        stored.map_err(|failure| match failure.kind {
            ErrorKind::Exists if !may_replace => {
                begun.forget(&file.path);
                failure.hint(
                    "it did not exist when the job was submitted; use `bp submit --replace` to replace it",
                )
            }
            _ => failure,
        })
    })
}

/// The outputs that were begun, by this room or one before it.
struct PendingOutputs {
    paths: BTreeSet<FilePath>,
    file: File,
}

impl PendingOutputs {
    fn open(dir: &RunDir) -> io::Result<Self> {
        let path = dir.file(BEGUN);
        let mut file = File::options().read(true).append(true).create(true).open(&path)?;
        path.parent().map_or(Ok(()), durable::sync_directory)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // A line that a power cut has shortened was not begun, and what is left of it may be the name of another file.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let lines = text[..whole].split(|byte| *byte == b'\n');
        let paths = lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok());
        Ok(Self { paths: paths.collect(), file })
    }

    fn has(&self, path: &FilePath) -> bool {
        self.paths.contains(path)
    }

    /// On return it is durable: the room would refuse to replace what it has stored itself.
    fn note(&mut self, path: &FilePath) -> io::Result<()> {
        if self.paths.insert(path.clone()) {
            self.file.write_all(format!("{path}\n").as_bytes())?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// It belongs to somebody else.
    fn forget(&mut self, path: &FilePath) {
        self.paths.remove(path);
    }

    /// Removes what was stored; returns how many could not be.
    fn remove_all(&self, shared: &Shared, run: &Run) -> usize {
        let since = Instant::now();
        let mut left = 0;
        for path in &self.paths {
            let mut removed = remove(shared, run, path);
            while removed.as_ref().is_err_and(can_pass)
                && since.elapsed() < REMOVE_PATIENCE
                && !shared.is_stopping()
            {
                shared.pause(Duration::from_secs(1), &|| false);
                removed = remove(shared, run, path);
            }
            if let Err(failure) = removed {
                warn!(job = %run.id().job, %path, %failure, "cannot remove the output of a failed job");
                left += 1;
            }
        }
        left
    }
}

fn remove(shared: &Shared, run: &Run, path: &FilePath) -> Result<()> {
    let token = shared.token(run.order.run)?.token;
    let transfer = transfer_context(shared, run, &token);
    let (url, options) = transfer.location(&shared.door(&run.order), path)?;
    match FileSystem::new(&url, &options).remove(path) {
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::JobId;
    use wire::control::JobRun;

    #[test]
    fn what_was_begun_is_known_to_the_next_room() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::trial(root.path(), JobRun { job: JobId(7), attempt: 1 });
        std::fs::create_dir(dir.file("")).unwrap();
        let [a, b]: [FilePath; 2] = ["/o/a", "/o/b c"].map(|path| path.parse().unwrap());
        let mut begun = PendingOutputs::open(&dir).unwrap();
        assert!(!begun.has(&a));
        begun.note(&a).unwrap();
        begun.note(&b).unwrap();
        begun.note(&b).unwrap();
        begun.forget(&a);
        assert!(!begun.has(&a));
        let again = PendingOutputs::open(&dir).unwrap();
        assert!(again.has(&a) && again.has(&b) && again.paths.len() == 2);
    }

    #[test]
    fn a_line_that_a_power_cut_has_shortened_names_no_file() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::trial(root.path(), JobRun { job: JobId(7), attempt: 1 });
        std::fs::create_dir(dir.file("")).unwrap();
        let [a, b]: [FilePath; 2] = ["/o/a", "/o/b"].map(|path| path.parse().unwrap());
        std::fs::write(dir.file(BEGUN), b"/o/a\n\0\0\n/o/b").unwrap();
        let mut begun = PendingOutputs::open(&dir).unwrap();
        assert!(begun.has(&a) && !begun.has(&b) && begun.paths.len() == 1);
        begun.note(&b).unwrap();
        assert!(PendingOutputs::open(&dir).unwrap().has(&b));
    }
}
