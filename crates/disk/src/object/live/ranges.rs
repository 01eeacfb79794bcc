//! Space and holes of live objects, and copies between objects of one partition.

use super::LiveObject;
use crate::object::{copy, partition::check_end};
use base::{ByteRange, Failure, Result};
use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};
use share::Generation;
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt},
};
use wire::xrd::{RangeChange, RangeKind};

/// Zeros of one write, where the file system makes none itself.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl LiveObject {
    /// Takes space for a range, makes it a hole, or zeros it, under a grant.
    ///
    /// Space that is taken counts as used at once: behind the end of a partition with a share it does as long as somebody has the
    /// object open. What is written into it later finds room.
    ///
    /// # Errors
    /// As [`Self::write_at`]; [`base::ErrorKind::Unsupported`] if the file system cannot take space.
    pub fn change_range(&self, generation: Generation, range: ByteRange, change: RangeChange) -> Result<()> {
        check_end(self.object, range.offset, range.length())?;
        let state = self.ready()?;
        self.admit(&state, generation, range)?;
        let file = self.begun()?;
        match change {
            RangeChange::Allocate => self.allocate(file, range, FallocateFlags::empty()),
            RangeChange::Reserve => self.allocate(file, range, FallocateFlags::KEEP_SIZE),
            RangeChange::Punch => self.clear(file, range, FallocateFlags::PUNCH_HOLE),
            RangeChange::Zero => self.clear(file, range, FallocateFlags::ZERO_RANGE),
        }
    }

    fn allocate(&self, file: &File, range: ByteRange, flags: FallocateFlags) -> Result<()> {
        let mut room = self.room();
        let missing = range.length().saturating_sub(missing_credit(file, range));
        self.shared.account.check_free(missing)?;
        let more = range.end.saturating_sub(room.claimed);
        self.shared.account.take_share(more)?;
        if let Err(cause) = retried(|| fallocate(file, flags, range.offset, range.length())) {
            self.shared.account.release(more);
            if cause == Errno::OPNOTSUPP {
                return Err(self.cannot("take space"));
            }
            return Err(self.failed("take space for", &cause.into()));
        }
        room.claimed = room.claimed.max(range.end);
        room.promise(range);
        Ok(())
    }

    fn clear(&self, file: &File, range: ByteRange, flags: FallocateFlags) -> Result<()> {
        if flags.contains(FallocateFlags::PUNCH_HOLE) {
            self.room().promised = None;
        }
        let flags = flags | FallocateFlags::KEEP_SIZE;
        match retried(|| fallocate(file, flags, range.offset, range.length())) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => {
                let inside = range.clip(self.size_of(file)?);
                write_zeros(file, inside).map_err(|cause| self.failed("zero", &cause))
            }
            Err(cause) => Err(self.failed("zero a range of", &cause.into())),
        }
    }

    fn cannot(&self, what: &str) -> Failure {
        Failure::unsupported(format!(
            "the file system of {} cannot {what} for object {}",
            self.shared.name(),
            self.object
        ))
    }

    /// Where data or a hole begins, from `offset` on; none behind the end. Where it ends there is a hole.
    pub fn find(&self, kind: RangeKind, offset: u64) -> Result<Option<u64>> {
        let Some(file) = self.to_read()? else { return Ok(None) };
        find(file, kind, offset).map_err(|cause| self.failed("look for a hole in", &cause))
    }

    /// The file, if somebody has begun it.
    pub fn to_read(&self) -> Result<Option<&File>> {
        if matches!(*self.ready()?, super::State::Removed) {
            return Err(self.gone());
        }
        Ok(self.file.get())
    }

    /// Copies the range `from` of another file, or of this one, to `to`, under a grant.
    ///
    /// # Errors
    /// As [`Self::write_at`]; [`base::ErrorKind::Invalid`] if `source` ends before `from` does.
    pub fn copy_in(&self, generation: Generation, source: &File, from: ByteRange, to: u64) -> Result<()> {
        let length = from.length();
        let range = ByteRange { offset: to, end: check_end(self.object, to, length)? };
        let state = self.ready()?;
        self.admit(&state, generation, range)?;
        let file = self.begun()?;
        // Before anything is written.
        if self.size_of(source)? < from.end {
            return Err(Failure::invalid(format!("what is to be copied ends before {}", from.end)));
        }
        self.take_room(file, length, range)?;
        copy::copy_range(source, from, file, to).map_err(|cause| self.failed("copy into", &cause))
    }
}

/// Bytes of a range that lie before the end and surely have space already: what is taken twice needs it once.
fn missing_credit(file: &File, range: ByteRange) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(at) = file.metadata() else { return 0 };
    if at.blocks().saturating_mul(512) >= at.len() { range.clip(at.len()).length() } else { 0 }
}

/// Where data or a hole begins in a file of which nobody uses the position.
pub(crate) fn find(file: impl AsFd, kind: RangeKind, offset: u64) -> io::Result<Option<u64>> {
    let from = match kind {
        RangeKind::Data => SeekFrom::Data(offset),
        RangeKind::Hole => SeekFrom::Hole(offset),
    };
    match seek(file, from) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

/// Does it until no signal interrupts it.
fn retried(mut work: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    loop {
        match work() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

fn write_zeros(file: &File, range: ByteRange) -> io::Result<()> {
    let mut at = range.offset;
    while at < range.end {
        let count = ZEROS.len().min((range.end - at) as usize);
        file.write_all_at(&ZEROS[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Partition};
    use base::{ErrorKind, ObjectId};
    use proptest::prelude::*;
    use share::{Fence, Incarnation};
    use std::sync::Arc;
    use wire::auth::capability::WHOLE;

    const GRANT: Generation = Generation(1);

    fn partition(directory: &tempfile::TempDir, limits: Limits) -> Partition {
        let path = directory.path().join("p");
        drop(Partition::create(&path, "f", "p1").unwrap());
        Partition::open_limited(&path, "f", limits).unwrap()
    }

    fn begun(partition: &Partition) -> Arc<LiveObject> {
        let live = partition.live(ObjectId(7)).unwrap();
        live.begin(None, None).unwrap();
        live
    }

    fn content(live: &LiveObject) -> Vec<u8> {
        let mut bytes = vec![9; live.size().unwrap() as usize];
        assert_eq!(live.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    fn range(offset: u64, length: u64) -> ByteRange {
        ByteRange { offset, end: offset + length }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, usize, u8),
        Change(RangeChange, ByteRange),
        Copy(ByteRange, u64),
        Truncate(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (at, length) = (|| 0_u64..40_000, || 1_u64..20_000);
        let change = prop::sample::select(vec![
            RangeChange::Allocate,
            RangeChange::Reserve,
            RangeChange::Punch,
            RangeChange::Zero,
        ]);
        prop_oneof![
            (at(), length(), 1_u8..).prop_map(|(offset, length, byte)| Step::Write(
                offset,
                length as usize,
                byte
            )),
            (change, at(), length())
                .prop_map(|(change, offset, length)| Step::Change(change, range(offset, length))),
            (at(), length(), at()).prop_map(|(offset, length, to)| Step::Copy(range(offset, length), to)),
            at().prop_map(Step::Truncate),
        ]
    }

    /// The same with a plain vector.
    fn model(bytes: &mut Vec<u8>, step: &Step) {
        let grow = |bytes: &mut Vec<u8>, end: u64| bytes.resize(bytes.len().max(end as usize), 0);
        match *step {
            Step::Write(offset, length, byte) => {
                grow(bytes, offset + length as u64);
                bytes[offset as usize..][..length].fill(byte);
            }
            Step::Change(RangeChange::Allocate, range) => grow(bytes, range.end),
            Step::Change(RangeChange::Reserve, _) => {}
            Step::Change(RangeChange::Punch | RangeChange::Zero, range) => {
                let inside = range.clip(bytes.len() as u64);
                bytes[inside.offset as usize..inside.end as usize].fill(0);
            }
            Step::Copy(from, to) => {
                let copied = bytes[from.offset as usize..from.end as usize].to_vec();
                grow(bytes, to + from.length());
                bytes[to as usize..][..copied.len()].copy_from_slice(&copied);
            }
            Step::Truncate(size) => bytes.resize(size as usize, 0),
        }
    }

    fn carry_out(live: &LiveObject, step: &Step) -> Result<()> {
        match *step {
            Step::Write(offset, length, byte) => live.write_at(GRANT, offset, &vec![byte; length]),
            Step::Change(change, range) => live.change_range(GRANT, range, change),
            Step::Copy(from, to) => live.copy_in(GRANT, live.to_read()?.unwrap(), from, to),
            Step::Truncate(size) => live.truncate(GRANT, size),
        }
    }

    fn check_holes(live: &LiveObject, bytes: &[u8]) {
        let (mut at, size) = (0, bytes.len() as u64);
        while at < size {
            let data = live.find(RangeKind::Data, at).unwrap().unwrap_or(size);
            assert!(bytes[at as usize..data as usize].iter().all(|byte| *byte == 0), "data in a hole");
            at = if data < size { live.find(RangeKind::Hole, data).unwrap().unwrap() } else { size };
        }
        assert_eq!(live.find(RangeKind::Data, size).unwrap(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        /// Whatever is done with ranges, an object has the bytes of a vector, has zeros only in its holes, and takes what it says.
        #[test]
        fn an_object_with_holes_is_a_vector(steps in prop::collection::vec(step(), 1..30)) {
            let directory = tempfile::tempdir().unwrap();
            let partition = partition(&directory, Limits { share_bytes: Some(1 << 20), reserved_bytes: 0 });
            let (live, mut bytes) = (begun(&partition), Vec::new());
            for step in steps {
                if let Step::Copy(from, to) = step
                    && (from.end > bytes.len() as u64 || from.offset.abs_diff(to) < from.length())
                {
                    continue;
                }
                carry_out(&live, &step).unwrap();
                model(&mut bytes, &step);
                prop_assert!(content(&live) == bytes, "{step:?}");
                check_holes(&live, &bytes);
                prop_assert!(partition.space().unwrap().free_bytes <= (1 << 20) - bytes.len() as u64);
            }
            drop(live);
            prop_assert_eq!(partition.space().unwrap().free_bytes, (1 << 20) - bytes.len() as u64);
        }
    }

    #[test]
    fn space_is_promised_once_and_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let partition = partition(&directory, Limits { share_bytes: Some(100), reserved_bytes: 0 });
        let free = || partition.space().unwrap().free_bytes;
        let live = begun(&partition);
        live.change_range(GRANT, range(0, 80), RangeChange::Reserve).unwrap();
        live.change_range(GRANT, range(0, 60), RangeChange::Reserve).unwrap();
        assert_eq!((free(), live.size().unwrap()), (20, 0));
        live.write_at(GRANT, 0, &[1; 80]).unwrap();
        assert_eq!(free(), 20);
        for change in [RangeChange::Reserve, RangeChange::Allocate] {
            let refused = live.change_range(GRANT, range(0, 101), change).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NoSpace);
        }
        assert_eq!((free(), live.size().unwrap()), (20, 80));
        live.change_range(GRANT, range(0, 100), RangeChange::Reserve).unwrap();
        live.truncate(GRANT, 10).unwrap();
        assert_eq!(free(), 90);
    }

    #[test]
    fn ranges_of_an_ended_grant_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let partition = partition(&directory, Limits::default());
        let live = begun(&partition);
        live.write_at(GRANT, 0, b"0123456789").unwrap();
        let fence =
            Fence { incarnation: Incarnation(1), generation: GRANT, range: WHOLE, oldest: Generation(0) };
        live.fence(&fence).unwrap();
        for change in [RangeChange::Allocate, RangeChange::Reserve, RangeChange::Punch, RangeChange::Zero] {
            let refused = live.change_range(GRANT, range(2, 3), change).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Locked);
        }
        let file = live.to_read().unwrap().unwrap();
        assert_eq!(live.copy_in(GRANT, file, range(0, 2), 5).unwrap_err().kind, ErrorKind::Locked);
        assert_eq!(content(&live), b"0123456789");
        let next = Generation(2);
        assert_eq!(live.copy_in(next, file, range(5, 6), 0).unwrap_err().kind, ErrorKind::Invalid);
        live.copy_in(next, file, range(0, 2), 8).unwrap();
        assert_eq!(content(&live), b"0123456701");
        let far = range(i64::MAX as u64 - 5, 5);
        assert_eq!(live.change_range(next, far, RangeChange::Allocate).unwrap_err().kind, ErrorKind::Invalid);
    }
}
