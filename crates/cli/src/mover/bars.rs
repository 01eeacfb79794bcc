//! Progress bars: one for each file in transfer, and one for all.

use crate::{output::Output, progress};
use indicatif::{MultiProgress, ProgressBar};

/// The bars of a copy of many files.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    all: MultiProgress,
    total: Option<ProgressBar>,
    is_lively: bool,
}

/// Where the progress of one file is shown.
#[derive(Debug, Clone)]
pub(crate) struct FileProgress {
    bar: ProgressBar,
    total: Option<ProgressBar>,
}

impl Bars {
    /// Bars for `files` files with so many `bytes`.
    pub(crate) fn new(output: &Output, files: usize, bytes: u64) -> Self {
        let all = MultiProgress::new();
        let is_lively = output.is_lively();
        let total = (is_lively && files > 1)
            .then(|| all.add(progress::transfer(output, &format!("{files} files"), Some(bytes))));
        Self { all, total, is_lively }
    }

    /// A bar for one file, above that for all.
    pub(crate) fn file(&self, name: &str, bytes: u64) -> FileProgress {
        let bar = progress::bar(self.is_lively, name, Some(bytes));
        let bar = match &self.total {
            Some(total) => self.all.insert_before(total, bar),
            None => self.all.add(bar),
        };
        FileProgress { bar, total: self.total.clone() }
    }

    /// Does something to the terminal while no bar is in the way.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        if self.is_lively { self.all.suspend(act) } else { act() }
    }

    pub(crate) fn finish(&self) {
        if let Some(total) = &self.total {
            total.finish_and_clear();
        }
    }
}

impl FileProgress {
    /// One bar on its own.
    pub(crate) fn alone(bar: ProgressBar) -> Self {
        Self { bar, total: None }
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        if let Some(total) = &self.total {
            total.inc(bytes);
        }
    }

    /// The copy begins anew.
    pub(crate) fn rewind(&self) {
        if let Some(total) = &self.total {
            total.set_position(total.position().saturating_sub(self.bar.position()));
        }
        self.bar.set_position(0);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
