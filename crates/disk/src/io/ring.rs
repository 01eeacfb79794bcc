//! Many reads at once, by `io_uring`: a disk that has the whole list orders it, and many seeks overlap.

use crate::io::read_full;
use io_uring::{IoUring, opcode, types::Fd};
use std::{
    cell::{LazyCell, RefCell},
    fs::File,
    io,
    os::fd::AsRawFd,
    process,
};

/// Reads under way at a time: what a fast disk needs to be busy.
const DEPTH: usize = 64;

thread_local! {
    /// Made when this thread first needs it; `None` if this system has none to give.
    static RING: LazyCell<RefCell<Option<IoUring>>> =
        LazyCell::new(|| RefCell::new(IoUring::new(DEPTH as u32).ok()));
}

/// Bytes that are wanted: from this offset, all of this buffer.
pub type Wanted<'a> = (u64, &'a mut [u8]);

/// Fills all buffers; the end of the file before that is an error. Blocks.
pub(crate) fn read_many(file: &File, wanted: &mut [Wanted<'_>]) -> io::Result<()> {
    let lengths: Vec<_> = wanted.iter().map(|(_, buffer)| buffer.len()).collect();
    read_some(file, wanted, |index| lengths[index])
}

/// The same, where the first `needed` bytes of each buffer are enough.
pub(crate) fn read_some(
    file: &File,
    wanted: &mut [Wanted<'_>],
    needed: impl Fn(usize) -> usize,
) -> io::Result<()> {
    let mut done = vec![0; wanted.len()];
    RING.with(|ring| match &mut *ring.borrow_mut() {
        Some(ring) => {
            let batches = wanted.chunks_mut(DEPTH).zip(done.chunks_mut(DEPTH));
            batches.into_iter().try_for_each(|(batch, done)| read_batch(ring, file, batch, done))
        }
        None => Ok(()),
    })?;
    for (index, ((offset, buffer), done)) in wanted.iter_mut().zip(done).enumerate() {
        // A read may be cut short, by the end of the file among other things.
        if done < needed(index)
            && done + read_full(file, &mut buffer[done..], *offset + done as u64)? < needed(index)
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

fn read_batch(
    ring: &mut IoUring,
    file: &File,
    batch: &mut [Wanted<'_>],
    done: &mut [usize],
) -> io::Result<()> {
    for (index, (offset, buffer)) in batch.iter_mut().enumerate() {
        let length = u32::try_from(buffer.len()).map_err(io::Error::other)?;
        let read = opcode::Read::new(Fd(file.as_raw_fd()), buffer.as_mut_ptr(), length)
            .offset(*offset)
            .build()
            .user_data(index as u64);
        #[expect(
            unsafe_code,
            reason = "the kernel writes into buffers that it is only told the addresses of"
        )]
        // SAFETY: file and buffers are borrowed until this function returns, and it does not before every read of the
        // batch is complete. The queue has as many places as a batch has reads.
        unsafe { ring.submission().push(&read) }.map_err(io::Error::other)?;
    }
    let mut failure = None;
    let mut missing = batch.len();
    while missing > 0 {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(cause) if matches!(cause.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(cause) if cause.kind() == io::ErrorKind::ResourceBusy => {}
            Err(cause) => {
                // Reads may be under way into memory that would be used for something else: there is no way on.
                tracing::error!(%cause, "cannot wait for io_uring completions");
                process::abort();
            }
        }
        for completion in ring.completion() {
            missing -= 1;
            match usize::try_from(completion.result()) {
                Ok(count) => done[completion.user_data() as usize] = count,
                Err(_) => failure = Some(io::Error::from_raw_os_error(-completion.result())),
            }
        }
    }
    failure.map_or(Ok(()), Err)
}
#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;
    use std::io::Write;

    #[test]
    fn every_buffer_gets_its_bytes() {
        let mut rng = Rng::new(11);
        let bytes: Vec<u8> = (0..1_000_000).map(|_| rng.below(256) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let ranges: Vec<_> = (0..1000)
            .map(|_| {
                let offset = rng.below(990_000) as usize;
                (offset, rng.below(10_000) as usize)
            })
            .collect();
        let mut buffers: Vec<_> = ranges.iter().map(|(_, length)| vec![0; *length]).collect();
        let mut wanted: Vec<_> = ranges
            .iter()
            .zip(&mut buffers)
            .map(|((offset, _), buffer)| (*offset as u64, buffer.as_mut_slice()))
            .collect();
        read_many(&file, &mut wanted).unwrap();
        for ((offset, length), buffer) in ranges.iter().zip(&buffers) {
            assert!(buffer[..] == bytes[*offset..offset + length]);
        }
        let mut beyond = [0; 10];
        let end = read_many(&file, &mut [(999_995, &mut beyond)]).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        // The ring is as good as before.
        read_many(&file, &mut [(5, &mut beyond)]).unwrap();
        assert_eq!(beyond[..], bytes[5..15]);
    }
}
