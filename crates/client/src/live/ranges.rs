//! Space, holes and copies of a file over its columns.

use super::{LiveFile, at_once, column::Column};
use base::{ByteRange, Failure, Result};
use wire::xrd::{RANGE_COPY_BYTES_MAX, RangeChange, RangeKind};

impl LiveFile {
    /// Takes space for a range, or makes zeros of it, in every copy.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn change_range(&self, range: ByteRange, change: RangeChange) -> Result<()> {
        self.require_all()?;
        let mut copies = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let part = self.stripes.column_range(range, index);
            if part.is_empty() {
                continue;
            }
            if change == RangeChange::Allocate {
                column.grown(part.end);
            }
            copies.extend(column.open_copies().into_iter().map(|copy| (index, copy, part)));
        }
        let done = at_once(copies.iter().collect(), |(_, copy, part)| copy.file.change_range(*part, change));
        self.note(copies.iter().map(|(index, copy, _)| (*index, copy.object)).zip(done))
    }

    /// Finds the next data or hole from `offset` on. Where a column ends it has a hole; the caller knows where the file ends.
    pub fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        let mut first: Option<u64> = None;
        for (index, column) in self.columns.iter().enumerate() {
            let from = self.stripes.column_bytes(offset, index);
            // Behind the end there is nothing but what may be a hole.
            let found = match (column.find(kind, from)?, kind) {
                (None, RangeKind::Hole) => Some(from),
                (found, _) => found,
            };
            let place = found.map(|at| self.stripes.file_offset(at, index));
            first = first.into_iter().chain(place).min();
        }
        Ok(first)
    }

    /// Has each disk server copy a range of the file to `to`, where its column goes on in one object.
    ///
    /// # Errors
    /// [`base::ErrorKind::Unsupported`] if the bytes would have to move between disk servers: the caller copies them.
    pub fn copy_within(&self, from: ByteRange, to: u64) -> Result<()> {
        self.require_all()?;
        let [column] = &*self.columns else {
            return Err(Failure::unsupported("the bytes are not in one object on one disk server"));
        };
        let mut done = 0;
        while done < from.length() {
            let offset = from.offset + done;
            let part = ByteRange { offset, end: from.end.min(offset + RANGE_COPY_BYTES_MAX) };
            let copies = column.open_copies();
            let outcomes =
                at_once(copies.iter().collect(), |copy| copy.file.copy_from(&copy.file, part, to + done));
            self.note(copies.iter().map(|copy| (0, copy.object)).zip(outcomes))?;
            done += part.length();
            column.grown(to + done);
        }
        Ok(())
    }
}

impl Column {
    /// As [`LiveFile::find`], in this column.
    fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        self.ask(|file| file.find(kind, offset))
    }
}
