//! Space, holes and copies of files, under grants, after what is in the buffer.

use crate::{
    caller::Caller,
    content::{SIZE_MAX, Target, now},
    errno::Refusal,
    files::OpenFile,
    grants::{Need, Turn},
    mount::Mount,
};
use base::{ByteRange, ErrorKind, Result};
use rustix::io::Errno;
use share::Mode;
use wire::xrd::{RangeChange, RangeKind};

/// Bytes that one request copies at most: whoever waits for it can be interrupted in between.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are read and written at once where the mount copies them itself.
const COPY_PIECE_BYTES: u32 = 1 << 20;

impl Mount {
    /// Takes space for a range, or makes zeros of it. `is_end_kept`: the file does not become longer.
    pub(crate) fn change_range(
        &self,
        caller: &Caller,
        file: &OpenFile,
        range: ByteRange,
        (change, is_end_kept): (RangeChange, bool),
    ) -> Result<(), Refusal> {
        if range.end > SIZE_MAX {
            return Err(Errno::FBIG.into());
        }
        self.with_turn(caller, file, Need::WriteAlone, |turn| {
            let held = turn.grant()?;
            self.drain(file, held)?;
            self.on_copies(caller, file.id, held, |bytes| bytes.change_range(range, change))?;
            if change == RangeChange::Zero && !is_end_kept {
                let change = RangeChange::Allocate;
                self.on_copies(caller, file.id, held, |bytes| bytes.change_range(range, change))?;
            }
            let mut state = file.lock();
            turn.require(&state)?;
            if !is_end_kept {
                (state.size, state.solid) = (state.size.max(range.end), state.solid.max(range.end));
            }
            if change == RangeChange::Reserve {
                // The content is the same, but the head must know that the object counts.
                state.changes += 1;
            } else {
                state.note_change(now());
            }
            Ok(())
        })
    }

    /// Finds the next data or hole from `offset` on.
    ///
    /// # Errors
    /// ENXIO if there is none, or the file ends before.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        file: &OpenFile,
        (kind, offset): (RangeKind, u64),
    ) -> Result<u64, Refusal> {
        // Pages that a program has mapped and changed may lie in what is a hole at the disk server: the kernel writes them back.
        if file.lock().opens.keys().any(|(_, is_write)| *is_write) {
            self.device.drop_pages(self.node(file.id));
        }
        let need = if file.lock().buffer.is_empty() { Need::Read } else { Need::Write };
        let (found, size) = self.with_turn(caller, file, need, |turn| {
            let held = turn.grant()?;
            if held.mode == Mode::Write {
                self.drain(file, held)?;
            }
            let size = size_under(turn)?;
            let bytes = held.bytes.as_deref().filter(|_| offset < size);
            Ok((bytes.map_or(Ok(None), |bytes| bytes.find(kind, offset))?, size))
        })?;
        match (found, kind) {
            _ if offset >= size => Err(Errno::NXIO.into()),
            (Some(found), _) if found < size => Ok(found),
            (_, RangeKind::Hole) => Ok(size),
            (_, RangeKind::Data) => Err(Errno::NXIO.into()),
        }
    }

    /// Copies bytes of one file to another one, or to another place of it. Yields how many: fewer at the end, or to be asked again.
    pub(crate) fn copy(
        &self,
        caller: &Caller,
        (source, from): (&OpenFile, ByteRange),
        (sink, to): (&OpenFile, u64),
    ) -> Result<u64, Refusal> {
        let length = from.length().min(COPY_BYTES_MAX);
        if to.checked_add(length).is_none_or(|end| end > SIZE_MAX) {
            return Err(Errno::FBIG.into());
        }
        let from = ByteRange { offset: from.offset, end: from.offset + length };
        if source.id == sink.id {
            match self.copy_within(caller, sink, from, to) {
                Err(Refusal::Failure(failure)) if failure.kind == ErrorKind::Unsupported => {}
                outcome => return outcome,
            }
        }
        self.copy_through(caller, (source, from), (sink, to))
    }

    /// Has the disk server do it.
    fn copy_within(
        &self,
        caller: &Caller,
        file: &OpenFile,
        from: ByteRange,
        to: u64,
    ) -> Result<u64, Refusal> {
        self.with_turn(caller, file, Need::WriteAlone, |turn| {
            let held = turn.grant()?;
            self.drain(file, held)?;
            let from = from.clip(size_under(turn)?);
            if from.is_empty() {
                return Ok(0);
            }
            self.on_copies(caller, file.id, held, |bytes| bytes.copy_within(from, to))?;
            let (length, mut state) = (from.length(), file.lock());
            turn.require(&state)?;
            (state.size, state.solid) = (state.size.max(to + length), state.solid.max(to + length));
            state.note_change(now());
            Ok(length)
        })
    }

    /// Reads and writes. No grant is held while another one is waited for: two mounts that copy crosswise would wait for each other.
    fn copy_through(
        &self,
        caller: &Caller,
        (source, from): (&OpenFile, ByteRange),
        (sink, to): (&OpenFile, u64),
    ) -> Result<u64, Refusal> {
        let mut done = 0;
        while done < from.length() {
            let most = u64::from(COPY_PIECE_BYTES).min(from.length() - done) as u32;
            let data = match self.read(caller, source, (from.offset + done, most)) {
                Ok(data) => data,
                Err(_) if done > 0 => return Ok(done),
                Err(refusal) => return Err(refusal),
            };
            let target = Target { offset: to + done, is_append: false, is_direct: false };
            match self.write(caller, sink, target, &data) {
                Err(refusal) if done == 0 => return Err(refusal),
                Err(_) => break,
                Ok(()) => done += data.len() as u64,
            }
            if data.len() < most as usize {
                break;
            }
        }
        Ok(done)
    }
}

fn size_under(turn: &Turn<'_>) -> Result<u64> {
    let state = turn.file.lock();
    turn.require(&state)?;
    Ok(state.size)
}
