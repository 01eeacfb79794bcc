//! What is asked of the server: one item after another, without end.

use base::{Crc32c, Result, rng::Rng, units::Size};
use clap::Subcommand;
use std::borrow::Cow;
use wire::xrd::{
    Dirlist, DirlistOptions, FileHandle, OpenFlags, Pgread, Pgwrite, Read, Readv, Request, Stat, Subject,
    Target, VECTOR_ELEMENT_BYTES, VectorElement, Write, encode_pages, encoded_bytes,
};

use crate::{pattern, room::Room};

/// Random reads start at a page, as those of programs that map files do.
const RANDOM_STEP_BYTES: u64 = 4096;

/// What every session does.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Mode {
    /// Reads one chunk after the other
    Seq {
        /// Bytes of a read
        chunk: Size,
        /// Reads in flight
        depth: u16,
    },
    /// As seq, with page checksums; they are not checked
    Pgseq {
        /// Bytes of a read
        chunk: Size,
        /// Reads in flight
        depth: u16,
    },
    /// Reads at random places
    Rand {
        /// Bytes of a read
        size: Size,
        /// Reads in flight
        depth: u16,
    },
    /// Reads vectors of random places
    Readv {
        /// Elements of a vector
        elements: u16,
        /// Bytes of an element
        size: Size,
        /// Vectors in flight
        #[arg(default_value_t = 1)]
        depth: u16,
    },
    /// Opens the file and closes it; a redirect is an answer too, and is not followed
    Open {
        /// Files in flight
        #[arg(default_value_t = 1)]
        depth: u16,
    },
    /// Asks for attributes of the path
    Stat {
        /// Requests in flight
        #[arg(default_value_t = 1)]
        depth: u16,
    },
    /// Lists the path, a directory, with the attributes of all that is in it
    List {
        /// Requests in flight
        #[arg(default_value_t = 1)]
        depth: u16,
    },
    /// Creates the file and writes it
    Write {
        /// Bytes of a write
        chunk: Size,
        /// Writes in flight
        depth: u16,
        /// Bytes of the file
        size: Size,
    },
    /// As write, with page checksums
    Pgwrite {
        /// Bytes of a write
        chunk: Size,
        /// Writes in flight
        depth: u16,
        /// Bytes of the file
        size: Size,
    },
}

impl Mode {
    /// The word on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seq { .. } => "seq",
            Self::Pgseq { .. } => "pgseq",
            Self::Rand { .. } => "rand",
            Self::Readv { .. } => "readv",
            Self::Open { .. } => "open",
            Self::Stat { .. } => "stat",
            Self::List { .. } => "list",
            Self::Write { .. } => "write",
            Self::Pgwrite { .. } => "pgwrite",
        }
    }

    /// Requests in flight of one session.
    pub(crate) fn depth(self) -> u16 {
        match self {
            Self::Seq { depth, .. }
            | Self::Pgseq { depth, .. }
            | Self::Rand { depth, .. }
            | Self::Readv { depth, .. }
            | Self::Open { depth }
            | Self::Stat { depth }
            | Self::List { depth }
            | Self::Write { depth, .. }
            | Self::Pgwrite { depth, .. } => depth,
        }
    }

    /// Bytes that one request moves, of what it is about.
    fn unit(self) -> u64 {
        match self {
            Self::Seq { chunk, .. }
            | Self::Pgseq { chunk, .. }
            | Self::Write { chunk, .. }
            | Self::Pgwrite { chunk, .. } => chunk.0,
            Self::Rand { size, .. } | Self::Readv { size, .. } => size.0,
            Self::Open { .. } | Self::Stat { .. } | Self::List { .. } => 0,
        }
    }

    /// How the file is opened before the measurement; `None` if it is not.
    pub(crate) fn open_flags(self) -> Option<OpenFlags> {
        match self {
            Self::Open { .. } | Self::Stat { .. } | Self::List { .. } => None,
            Self::Write { .. } | Self::Pgwrite { .. } => {
                Some(OpenFlags::UPDATE | OpenFlags::DELETE | OpenFlags::MAKE_PATH | OpenFlags::RETURN_STAT)
            }
            _ => Some(OpenFlags::READ | OpenFlags::RETURN_STAT),
        }
    }

    /// Whether data are sent rather than received.
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Write { .. } | Self::Pgwrite { .. })
    }
}

/// One request and what must come of it.
#[derive(Debug)]
pub(crate) struct Item {
    /// What is asked.
    pub(crate) request: Request,
    /// Bytes of the file that it moves.
    pub(crate) file_bytes: u64,
    /// Bytes of data in the answer, as sent; `None` if any number will do.
    pub(crate) answer_bytes: Option<u64>,
    /// Where in the file it starts.
    pub(crate) offset: u64,
}

/// The items of one session.
#[derive(Debug)]
pub(crate) struct Work {
    mode: Mode,
    path: String,
    /// Random numbers in the path are below this.
    files: u64,
    handle: FileHandle,
    /// Bytes of the file.
    size: u64,
    /// Where the next sequential item starts.
    next: u64,
    rng: Rng,
    /// What writes send, from its start on.
    payload: Room,
}

impl Work {
    /// The work of a session on an open file; `start` is where a sequential reader begins.
    pub(crate) fn new(
        mode: Mode,
        (path, files): (String, u64),
        handle: FileHandle,
        size: u64,
        start: u64,
        seed: u64,
    ) -> Self {
        let payload = match mode {
            Mode::Write { chunk, .. } => pattern::block(0, chunk.0),
            Mode::Pgwrite { chunk, .. } => encode_pages(0, &pattern::block(0, chunk.0)),
            _ => Vec::new(),
        };
        let payload = Room::to_send(&payload);
        let next = start / mode.unit().max(1) * mode.unit();
        Self { mode, path, files, handle, size, next, rng: Rng::new(seed), payload }
    }

    /// Requests that move the whole file once; for the others, as many as there may be.
    pub(crate) fn items_of_one_pass(&self) -> u64 {
        match self.mode {
            Mode::Seq { .. } | Mode::Pgseq { .. } | Mode::Write { .. } | Mode::Pgwrite { .. } => {
                self.size.div_ceil(self.mode.unit().max(1))
            }
            _ => u64::MAX,
        }
    }

    /// What follows the request of a write, as sent.
    pub(crate) fn payload(&self, item: &Item) -> &[u8] {
        match &item.request {
            Request::Write(write) => &self.payload.bytes()[..write.length as usize],
            Request::Pgwrite(write) => &self.payload.bytes()[..write.length as usize],
            _ => &[],
        }
    }

    /// The next item.
    pub(crate) fn next_item(&mut self) -> Item {
        let handle = self.handle;
        match self.mode {
            Mode::Open { .. } => item(open_for_reading(&self.next_path()), 0, None, 0),
            Mode::Stat { .. } => {
                let subject = Subject::Path(Target::new(&*self.next_path()));
                item(Request::Stat(Stat { subject, is_filesystem: false }), 0, None, 0)
            }
            Mode::List { .. } => {
                let dirlist = Dirlist { target: Target::new(&self.path), options: DirlistOptions::STAT };
                item(Request::Dirlist(dirlist), 0, None, 0)
            }
            Mode::Readv { elements, size, .. } => self.vector(elements, size.0),
            Mode::Rand { size, .. } => {
                let (offset, length) = (self.random_offset(size.0), size.0.min(self.size));
                let read = Read { handle, offset, length: length as u32, path_id: 0 };
                item(Request::Read(read), length, Some(length), offset)
            }
            _ => self.sequential(),
        }
    }

    /// The path of the next request.
    fn next_path(&mut self) -> Cow<'_, str> {
        if !self.path.contains("{r}") {
            return Cow::Borrowed(&self.path);
        }
        let number = self.rng.below(self.files);
        let path = self.path.replace("{r}", &number.to_string());
        Cow::Owned(path.replace("{d}", &(number / 1000).to_string()))
    }

    fn sequential(&mut self) -> Item {
        let handle = self.handle;
        if self.next >= self.size {
            self.next = 0;
        }
        let offset = self.next;
        let length = self.mode.unit().min(self.size - offset);
        self.next += length;
        let encoded = encoded_bytes(offset, length as usize);
        match self.mode {
            Mode::Pgseq { .. } => {
                let read = Pgread { handle, offset, length: length as u32, path_id: 0, is_retry: false };
                item(Request::Pgread(read), length, Some(encoded as u64), offset)
            }
            Mode::Write { .. } => {
                let write = Write { handle, offset, path_id: 0, length: length as u32 };
                item(Request::Write(write), length, Some(0), offset)
            }
            Mode::Pgwrite { .. } => {
                let write = Pgwrite { handle, offset, path_id: 0, is_retry: false, length: encoded as u32 };
                self.seal_last_page(length as usize, encoded);
                item(Request::Pgwrite(write), length, Some(0), offset)
            }
            _ => {
                let read = Read { handle, offset, length: length as u32, path_id: 0 };
                item(Request::Read(read), length, Some(length), offset)
            }
        }
    }

    /// The last page of a file may be shorter than that of the payload, and then has another checksum.
    fn seal_last_page(&mut self, length: usize, encoded: usize) {
        let short = length % wire::xrd::PAGE_BYTES;
        if short != 0 {
            let data = encoded - short;
            let crc = Crc32c::of(&self.payload.bytes()[data..encoded]);
            self.payload.bytes_mut()[data - 4..data].copy_from_slice(&crc.0.to_be_bytes());
        }
    }

    fn vector(&mut self, count: u16, size: u64) -> Item {
        let (handle, length) = (self.handle, size.min(self.size));
        let element = |offset| VectorElement { handle, length: length as u32, offset };
        let elements: Vec<_> = (0..count).map(|_| element(self.random_offset(size))).collect();
        let bytes = u64::from(count) * length;
        let headers = u64::from(count) * VECTOR_ELEMENT_BYTES as u64;
        let offset = elements.first().map_or(0, |first| first.offset);
        item(Request::Readv(Readv { elements, path_id: 0 }), bytes, Some(bytes + headers), offset)
    }

    /// A place where `size` bytes fit.
    fn random_offset(&mut self, size: u64) -> u64 {
        let places = self.size.saturating_sub(size) / RANDOM_STEP_BYTES + 1;
        self.rng.below(places) * RANDOM_STEP_BYTES
    }
}

/// Opens a file that is there, asking for its attributes as clients do.
pub(crate) fn open_for_reading(path: &str) -> Request {
    open(path, OpenFlags::READ | OpenFlags::RETURN_STAT)
}

/// Opens a file.
pub(crate) fn open(path: &str, flags: OpenFlags) -> Request {
    let target = Target::from_text(path);
    Request::Open(wire::xrd::Open { mode: 0o644, flags, flags2: 0, template: FileHandle::default(), target })
}

fn item(request: Request, file_bytes: u64, answer_bytes: Option<u64>, offset: u64) -> Item {
    Item { request, file_bytes, answer_bytes, offset }
}

/// Refuses sizes and depths that make no sense, before a server is asked.
pub(crate) fn check(mode: Mode) -> Result<()> {
    let unit = mode.unit();
    let is_sized = !matches!(mode, Mode::Open { .. } | Mode::Stat { .. } | Mode::List { .. });
    if mode.depth() == 0 || is_sized && !(1..=base::limits::XRD_READ_BYTES_MAX as u64).contains(&unit) {
        return Err(base::Failure::invalid(format!(
            "{} of {unit} bytes, depth {}",
            mode.name(),
            mode.depth()
        ))
        .hint("sizes go from 1B to 1GiB, depths from 1"));
    }
    if mode.is_write() && !unit.is_multiple_of(wire::xrd::PAGE_BYTES as u64) {
        return Err(base::Failure::invalid(format!("chunks of {unit} bytes"))
            .hint("write whole pages: multiples of 4KiB"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(mode: Mode, size: u64) -> Work {
        Work::new(mode, ("/f".into(), 1), FileHandle::of(1), size, 0, 7)
    }

    #[test]
    fn a_sequential_reader_covers_the_file_and_starts_again() {
        let mut work = work(Mode::Seq { chunk: Size(4096), depth: 1 }, 10_000);
        assert_eq!(work.items_of_one_pass(), 3);
        let ranges: Vec<_> = (0..4).map(|_| work.next_item()).map(|i| (i.offset, i.file_bytes)).collect();
        assert_eq!(ranges, [(0, 4096), (4096, 4096), (8192, 1808), (0, 4096)]);
    }

    #[test]
    fn random_reads_stay_inside() {
        for size in [5000, 4096, 100_000, 3] {
            let mut work = work(Mode::Rand { size: Size(4096), depth: 1 }, size);
            for _ in 0..100 {
                let item = work.next_item();
                assert!(item.offset + item.file_bytes <= size.max(item.file_bytes));
            }
        }
    }

    #[test]
    fn a_short_last_page_keeps_its_checksum() {
        let mut work = work(Mode::Pgwrite { chunk: Size(8192), depth: 1, size: Size(9001) }, 9001);
        work.next_item();
        let last = work.next_item();
        assert_eq!(last.file_bytes, 809);
        let mut sent = work.payload(&last).to_vec();
        let (length, bad) = wire::xrd::decode_in_place(last.offset, &mut sent).unwrap();
        assert_eq!((length, bad.len()), (809, 0));
    }

    #[test]
    fn senseless_sizes_are_refused() {
        assert!(check(Mode::Seq { chunk: Size(0), depth: 1 }).is_err());
        assert!(check(Mode::Stat { depth: 0 }).is_err());
        assert!(check(Mode::Write { chunk: Size(5000), depth: 1, size: Size(1) }).is_err());
        assert!(check(Mode::Open { depth: 1 }).is_ok());
    }
}
