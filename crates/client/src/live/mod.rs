//! The bytes of a file under a grant, straight at its disk servers.
//!
//! **Problem.** A file that changes in place may lie in several objects: copies on different disk servers, and columns over which
//! its bytes are striped ([`Layout`]). A write counts only when every copy has it.
//!
//! **Idea.** [`LiveFile`] reads a column from the first copy that answers and writes to all copies at once. A copy that fails while
//! the others do not is kept in mind: nothing more is written until the caller has told the head, which takes it out of the layout,
//! and has [dropped](LiveFile::keep) it here.

mod column;
mod ranges;
mod stripes;

use crate::xrd::{self, Options};
use base::{ErrorKind, Failure, ObjectId, Result};
use column::Column;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use stripes::Stripes;
use wire::control::{FencedObject, Layout, LayoutObject, LiveStart};

/// How long a disk server is waited for that does not take a connection, and that does not answer, if another one has the same.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);

/// The bytes of a file under a grant. Threads may use it at the same time.
#[derive(Debug)]
pub struct LiveFile {
    stripes: Stripes,
    columns: Vec<Column>,
    /// Some copies have what others do not have, and none of them is known to be wrong.
    is_torn: AtomicBool,
}

/// A copy that failed.
#[derive(Debug, Clone)]
pub struct FailedCopy {
    /// Which.
    pub object: ObjectId,
    /// How.
    pub failure: Failure,
}

impl LiveFile {
    /// For reading under a grant.
    ///
    /// # Errors
    /// If of a column no copy can be opened.
    pub fn open_read(layout: &Layout, options: &Options) -> Result<Self> {
        let file = Self::new(layout, |objects| Ok(Column::to_read(objects, &patience(options, objects))))?;
        file.columns.iter().try_for_each(|column| column.reachable().map(drop))?;
        Ok(file)
    }

    /// For reading and writing under a grant to write. What lies behind `size` was never committed and is cut off: it must not be
    /// seen when the file grows.
    ///
    /// # Errors
    /// If of a column no copy can be opened. If one can, the others are told by [`Self::failed`].
    pub fn open_update(layout: &Layout, size: u64, options: &Options) -> Result<Self> {
        let file = Self::new(layout, |objects| Column::to_update(objects, &patience(options, objects)))?;
        let cuts = file.columns.iter().enumerate().filter_map(|(index, column)| {
            let bytes = file.stripes.column_bytes(size, index);
            (column.end() > bytes).then_some((index, bytes))
        });
        let cuts: Vec<_> = cuts.collect();
        if let Err(failure) = file.resize(&cuts)
            && !file.can_go_on()
        {
            return Err(failure);
        }
        Ok(file)
    }

    fn new(layout: &Layout, open: impl Fn(&[LayoutObject]) -> Result<Column>) -> Result<Self> {
        let columns = &layout.columns;
        if columns.is_empty() || columns.iter().any(Vec::is_empty) || (columns.len() > 1 && layout.unit == 0)
        {
            return Err(Failure::invalid("the head named a layout without an object or without a unit"));
        }
        Ok(Self {
            stripes: Stripes { unit: layout.unit, width: columns.len() as u64 },
            columns: columns.iter().map(|objects| open(objects)).collect::<Result<_>>()?,
            is_torn: AtomicBool::new(false),
        })
    }

    /// Refuses a file of which a column has fewer bytes than one of `size` bytes has there.
    ///
    /// # Errors
    /// [`base::ErrorKind::Corrupt`], or the column cannot be read.
    pub fn require_size(&self, size: u64) -> Result<()> {
        for (index, column) in self.columns.iter().enumerate() {
            let (copy, wanted) = (column.reachable()?, self.stripes.column_bytes(size, index));
            let has = copy.file.size();
            if has < wanted {
                let what = format!(
                    "column {index} (object {}) has {has} bytes, {wanted} were committed",
                    copy.object
                );
                return Err(Failure::corrupt(what).hint("look at the disk, or replace the file"));
            }
        }
        Ok(())
    }

    /// Reads from `offset`. Of a file that is striped, bytes that no column has are zero: the caller knows where the file ends. Else
    /// fewer bytes are read at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if let [column] = &*self.columns {
            return column.read_at(offset, buffer);
        }
        let length = buffer.len();
        let mut wanted: Vec<Vec<(u64, &mut [u8])>> = self.columns.iter().map(|_| Vec::new()).collect();
        let mut rest = buffer;
        for part in self.stripes.parts(offset, length) {
            let (piece, behind) = rest.split_at_mut(part.length);
            wanted[part.column].push((part.offset, piece));
            rest = behind;
        }
        let work = self.columns.iter().zip(wanted).filter(|(_, pieces)| !pieces.is_empty());
        at_once(work.collect(), |(column, pieces)| column.read_all(pieces))
            .into_iter()
            .collect::<Result<()>>()?;
        Ok(length)
    }

    /// Writes all of `data` at `offset` to every copy, and waits for the answers.
    ///
    /// # Errors
    /// If one copy has refused it; which, is told by [`Self::failed`] if that is the fault of its disk server.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.require_all()?;
        let mut parts: Vec<(u64, Vec<&[u8]>)> = self.columns.iter().map(|_| (0, Vec::new())).collect();
        let mut rest = data;
        for part in self.stripes.parts(offset, data.len()) {
            let (piece, behind) = rest.split_at(part.length);
            let (start, pieces) = &mut parts[part.column];
            // Units of a column that follow each other in the file do so in the column.
            if pieces.is_empty() {
                *start = part.offset;
            }
            pieces.push(piece);
            rest = behind;
        }
        let open: Vec<_> = self.columns.iter().map(Column::open_copies).collect();
        let mut targets = Vec::new();
        for (index, ((start, pieces), copies)) in parts.iter().zip(&open).enumerate() {
            let copies = copies.iter().filter(|_| !pieces.is_empty());
            targets.extend(copies.map(|copy| (index, copy, *start, pieces)));
        }
        let writes: Vec<_> = targets
            .iter()
            .map(|(_, copy, offset, pieces)| xrd::WritePieces { file: &copy.file, offset: *offset, pieces })
            .collect();
        let done = xrd::write_at_once(&writes);
        for (column, (start, pieces)) in self.columns.iter().zip(&parts) {
            column.grown(start + pieces.iter().map(|piece| piece.len() as u64).sum::<u64>());
        }
        self.note(targets.iter().map(|(index, copy, ..)| (*index, copy.object)).zip(done))
    }

    /// Makes durable at every copy what was written, as a file of `size` bytes.
    pub fn sync(&self, size: u64) -> Result<()> {
        self.require_all()?;
        if self.columns.len() > 1 {
            // Where nothing was written, columns are shorter than a file of that size has them.
            let short = self.columns.iter().enumerate().filter_map(|(index, column)| {
                let bytes = self.stripes.column_bytes(size, index);
                (column.end() < bytes).then_some((index, bytes))
            });
            self.resize(&short.collect::<Vec<_>>())?;
        }
        let copies: Vec<_> = self.all_copies().collect();
        let done = at_once(copies.iter().collect(), |(_, copy)| copy.file.sync());
        self.note(copies.iter().map(|(index, copy)| (*index, copy.object)).zip(done))
    }

    /// Has the disk servers refuse the grant from now on, all at once. Those that do not answer are left out.
    #[must_use]
    pub fn fence(&self) -> Vec<FencedObject> {
        let copies: Vec<_> = self.columns.iter().flat_map(Column::open_copies).collect();
        let done = at_once(copies.iter().collect(), |copy| copy.file.fence());
        let fenced = copies.iter().zip(done).filter_map(|(copy, start)| Some((copy.object, start.ok()?)));
        fenced.map(|(object, start)| FencedObject { object, start: LiveStart(start) }).collect()
    }

    /// Sets the size.
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.require_all()?;
        let all = 0..self.columns.len();
        self.resize(&all.map(|index| (index, self.stripes.column_bytes(size, index))).collect::<Vec<_>>())
    }

    fn resize(&self, columns: &[(usize, u64)]) -> Result<()> {
        let mut copies = Vec::new();
        for (index, bytes) in columns {
            self.columns[*index].set_end(*bytes);
            let open = self.columns[*index].open_copies().into_iter();
            copies.extend(open.map(|copy| (*index, copy, *bytes)));
        }
        let done = at_once(copies.iter().collect(), |(_, copy, bytes)| copy.file.truncate(*bytes));
        self.note(copies.iter().map(|(index, copy, _)| (*index, copy.object)).zip(done))
    }

    /// The objects that hold what is written.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectId> {
        self.columns.iter().flat_map(Column::objects).collect()
    }

    /// Copies that failed while others of their column did not. Nothing is written until they are [dropped](Self::keep).
    #[must_use]
    pub fn failed(&self) -> Vec<FailedCopy> {
        self.columns.iter().flat_map(|column| column.failed().clone()).collect()
    }

    /// Whether each column has a copy that has not failed.
    #[must_use]
    pub fn can_go_on(&self) -> bool {
        self.columns.iter().all(Column::can_go_on)
    }

    /// Whether all copies have the same, as far as is known here.
    #[must_use]
    pub fn is_even(&self) -> bool {
        !self.is_torn.load(Ordering::SeqCst) && self.columns.iter().all(|column| column.failed().is_empty())
    }

    /// Goes on with the copies of `layout`: the head has taken the others out of it.
    pub fn keep(&self, layout: &Layout) {
        let is_kept = |object: ObjectId| layout.objects().any(|kept| kept.object == object);
        self.columns.iter().for_each(|column| column.retain(is_kept));
    }

    /// Closes all connections. What counts was synced before.
    pub fn close(self) -> Result<()> {
        self.columns.into_iter().map(Column::close).fold(Ok(()), Result::and)
    }

    /// All copies that are open, with their columns.
    fn all_copies(&self) -> impl Iterator<Item = (usize, Arc<column::Copy>)> {
        let columns = self.columns.iter().enumerate();
        columns.flat_map(|(index, column)| column.open_copies().into_iter().map(move |copy| (index, copy)))
    }

    /// Refuses to write while a copy of the layout would not have it.
    fn require_all(&self) -> Result<()> {
        let first = self.columns.iter().find_map(|column| column.failed().first().cloned());
        first.map_or(Ok(()), |copy| Err(copy.failure))
    }

    /// Keeps in mind which copies have failed, each with its column; yields the first failure.
    fn note(&self, done: impl Iterator<Item = ((usize, ObjectId), Result<()>)>) -> Result<()> {
        let mut first = Ok(());
        for ((index, object), outcome) in done {
            let Err(failure) = outcome else { continue };
            let column = &self.columns[index];
            if is_of_server(&failure) {
                column.fail(object, &failure);
            } else if column.open_copies().len() > 1 {
                // Others may have done it.
                self.is_torn.store(true, Ordering::SeqCst);
            }
            first = first.and(Err(failure));
        }
        first
    }
}

/// How long a disk server is waited for: not long, if another one has the same.
fn patience(options: &Options, objects: &[LayoutObject]) -> Options {
    if objects.len() < 2 {
        return options.clone();
    }
    Options {
        connect_timeout: options.connect_timeout.min(CONNECT_PATIENCE),
        progress_timeout: options.progress_timeout.min(PATIENCE),
        retry_max: options.retry_max.min(1),
        ..options.clone()
    }
}

/// Whether it is the fault of one disk server, and others would do it. A grant that has ended has ended everywhere.
fn is_of_server(failure: &Failure) -> bool {
    !matches!(
        failure.kind,
        ErrorKind::Locked
            | ErrorKind::NoSpace
            | ErrorKind::OverQuota
            | ErrorKind::Invalid
            | ErrorKind::Permission
            | ErrorKind::Unsupported
    )
}

/// Does all `work` at once, each piece in a thread of its own; the calling thread does the first.
fn at_once<W: Send, R: Send>(work: Vec<W>, does: impl Fn(W) -> R + Sync) -> Vec<R> {
    let mut work = work.into_iter();
    let Some(first) = work.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let does = &does;
        let others: Vec<_> = work.map(|piece| scope.spawn(move || does(piece))).collect();
        let mut done = vec![does(first)];
        for other in others {
            done.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    })
}
