//! An open file of the XRootD door.

use super::tpc::Destination;
use base::{ByteRange, Failure, PageSums, Result};
use disk::{
    ObjectReader,
    serve::{
        live_file::LiveFile,
        open_file::{ReadFile, WriteFile},
    },
};
use net::xrd::{Expectation, OpenFile, RangeChange, RangeKind, StatFlags, StatInfo};
use std::{
    io::IoSliceMut,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

/// What clients of the field send to an open file to give up its third-party copy.
const CANCEL: &[u8] = b"ofs.tpc cancel";

/// An open file.
pub enum DoorFile {
    /// For reading.
    Read(ReadFile),
    /// For writing.
    Write(WriteFile),
    /// Changes in place: what is read is of this moment.
    Live(LiveFile),
    /// Filled by a third-party copy.
    ThirdParty(Destination),
}

impl OpenFile for DoorFile {
    fn size(&self) -> u64 {
        match self {
            Self::Read(file) => file.grant.size,
            Self::Write(file) => file.size().unwrap_or(0),
            Self::Live(file) => file.size().unwrap_or(0),
            Self::ThirdParty(destination) => destination.file().size().unwrap_or(0),
        }
    }

    fn stat(&self) -> Result<StatInfo> {
        let (id, size, modified_s, is_writable) = match self {
            Self::Read(file) => (file.grant.file, file.grant.size, file.grant.modified.seconds(), false),
            Self::Write(file) => (file.file(), file.size()?, 0, true),
            Self::Live(file) => (file.file(), file.size()?, file.modified().seconds(), file.is_writable()),
            Self::ThirdParty(destination) => (destination.file().file(), destination.file().size()?, 0, true),
        };
        let mut flags = StatFlags::READABLE;
        if is_writable {
            flags = flags | StatFlags::WRITABLE;
        }
        Ok(StatInfo { id: id.0, size, flags, modified_s, owner: None })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Read(file) => file.read_at(offset, buffer),
            Self::Write(file) => file.read_at(offset, buffer),
            Self::Live(file) => file.read_at(offset, buffer),
            Self::ThirdParty(destination) => destination.file().read_at(offset, buffer),
        }
    }

    fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        match self {
            Self::Read(file) => file.read_vectored_at(offset, buffers),
            Self::Write(file) => file.read_vectored_at(offset, buffers),
            Self::Live(file) => file.read_vectored_at(offset, buffers),
            Self::ThirdParty(destination) => destination.file().read_vectored_at(offset, buffers),
        }
    }

    fn read_many_at(&self, wanted: &mut [(u64, &mut [u8])]) -> Result<()> {
        match self.reader() {
            Some(reader) => {
                let bytes = wanted.iter().map(|(_, buffer)| buffer.len() as u64).sum();
                reader.read_many(wanted)?;
                self.count_sent(bytes);
                Ok(())
            }
            None => match self {
                Self::Read(file) => file.read_many_at(wanted),
                _ => wanted.iter_mut().try_for_each(|(offset, buffer)| {
                    self.read_vectored_at(*offset, &mut [IoSliceMut::new(buffer)])
                }),
            },
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.reader().filter(|reader| reader.is_cached()).map(AsFd::as_fd)
    }

    fn waits_for_peers(&self) -> bool {
        matches!(self, Self::Read(file) if file.waits_for_peers())
    }

    fn mapped(&self) -> Option<&[u8]> {
        self.reader()?.mapped()
    }

    fn found_unreadable(&self) {
        if let Self::Read(file) = self {
            file.found_unreadable();
        }
    }

    fn page_sums(&self) -> Option<&PageSums> {
        self.reader().map(ObjectReader::page_sums)
    }

    fn will_read(&self, ranges: &[ByteRange]) {
        if let Some(reader) = self.reader() {
            reader.will_read(ranges);
        }
    }

    fn count_sent(&self, bytes: u64) {
        match self {
            Self::Read(file) => file.count_sent(bytes),
            Self::Write(_) | Self::Live(_) | Self::ThirdParty(_) => {}
        }
    }

    fn lacks_space(&self, end: u64) -> bool {
        matches!(self, Self::Write(file) if file.lacks_space(end))
    }

    async fn wait_for_space(self: Arc<Self>, end: u64) -> Result<()> {
        match &*self {
            Self::Write(file) => file.wait_for_space(end).await,
            Self::Read(_) | Self::Live(_) | Self::ThirdParty(_) => Ok(()),
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        match self {
            Self::Live(file) => file.write_at(offset, data),
            _ => self.writable()?.write_at(offset, data),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        match self {
            Self::Live(file) => file.truncate(size),
            _ => self.writable()?.truncate(size),
        }
    }

    fn sync(&self) -> Result<()> {
        match self {
            Self::Write(file) => file.sync(),
            Self::Live(file) => file.sync(),
            Self::Read(_) | Self::ThirdParty(_) => Ok(()),
        }
    }

    fn syncs_slowly(&self) -> bool {
        matches!(self, Self::ThirdParty(_))
    }

    async fn sync_slowly(self: Arc<Self>) -> Result<()> {
        match &*self {
            Self::ThirdParty(destination) => destination.sync().await,
            _ => self.sync(),
        }
    }

    fn control(&self, args: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::ThirdParty(destination) if args.strip_suffix(b"\0").unwrap_or(args) == CANCEL => {
                destination.cancel();
                Ok(Vec::new())
            }
            _ => Err(Failure::unsupported("opaque query on an open file is not offered here")),
        }
    }

    fn change_range(&self, range: ByteRange, change: RangeChange) -> Result<()> {
        self.live()?.change_range(range, change)
    }

    fn fence(&self) -> Result<u64> {
        self.live()?.fence()
    }

    fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        match self {
            Self::Live(file) => file.find(kind, offset),
            Self::Read(file) => file.find(kind, offset),
            Self::Write(_) | Self::ThirdParty(_) => {
                Err(Failure::unsupported("holes are not looked for in a file that is being written"))
            }
        }
    }

    fn copy_range(&self, source: &Self, from: ByteRange, to: u64) -> Result<()> {
        match (self.live()?, source) {
            (sink, Self::Live(source)) => sink.copy_from(source, from, to),
            (sink, Self::Read(source)) => sink.copy_from_sealed(source, from, to),
            _ => Err(Failure::unsupported("a file that is being written is not copied from")),
        }
    }

    fn expect(&self, expected: Expectation) -> Result<()> {
        self.writable()?.expect(expected);
        Ok(())
    }

    async fn close(self: Arc<Self>) -> Result<()> {
        match &*self {
            Self::ThirdParty(destination) => destination.close().await,
            Self::Write(file) => file.commit(|_| Ok(())).await.map(drop),
            Self::Read(_) | Self::Live(_) => Ok(()),
        }
    }
}

impl DoorFile {
    /// The object, if it is complete, never changes, and all of it may be read.
    fn reader(&self) -> Option<&ObjectReader> {
        match self {
            Self::Read(file) => file.reader(),
            Self::Write(_) | Self::Live(_) | Self::ThirdParty(_) => None,
        }
    }

    fn live(&self) -> Result<&LiveFile> {
        match self {
            Self::Live(file) => Ok(file),
            _ => Err(Failure::unsupported("only files that change in place have ranges to change")),
        }
    }

    fn writable(&self) -> Result<&WriteFile> {
        match self {
            Self::Write(file) => Ok(file),
            Self::ThirdParty(_) => Err(Failure::invalid("the file is being filled by a third-party copy")),
            Self::Read(_) => Err(Failure::invalid("the file is open for reading only")),
            Self::Live(_) => Err(Failure::invalid("the file changes in place: it has no sums to compare")),
        }
    }
}
