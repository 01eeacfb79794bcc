//! Cutting a written object into pieces, which are sent to their disk servers while they are made.

use super::threads;
use crate::{ObjectReader, object::erasure::Encoder, remote::objects::PeerClient};
use base::{Checksums, Failure, Result};
use client::xrd::{CreateOptions, File, Writer};
use wire::{
    control::{FilledPiece, Mirror},
    media::coded::Shape,
};

/// Bytes that are read from the disk at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// A piece that is to be made, and what became of it.
type Wanted = (Mirror, Result<FilledPiece>);

/// A piece on its way.
struct Stream<'a> {
    writer: Option<Writer<'a>>,
    checksums: Checksums,
    failure: Option<Failure>,
}

impl Stream<'_> {
    fn push(&mut self, cell: &[u8]) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.failure.is_none()) else { return };
        self.checksums = self.checksums.extend(cell);
        self.failure = writer.push(cell).err();
    }

    fn finish(mut self) -> Result<Checksums> {
        let written = self.writer.take().map_or(Ok(0), Writer::finish);
        match (self.failure, written) {
            (Some(failure), _) | (None, Err(failure)) => Err(failure),
            (None, Ok(_)) => Ok(self.checksums),
        }
    }
}

impl PeerClient {
    /// Makes the pieces `wanted` of an object and fills them, all at once. Those that are durable say so; the others why not.
    /// Blocks.
    pub(crate) fn cut(
        &self,
        reader: &ObjectReader,
        shape: Shape,
        wanted: Vec<Mirror>,
    ) -> Result<Vec<Wanted>> {
        let peers = self.for_filling();
        let files =
            each(wanted.iter().collect(), |piece: &Mirror| peers.create_piece(piece, shape.piece_bytes()));
        let streams = files.iter().map(|file| Stream {
            writer: file.as_ref().ok().map(File::writer),
            checksums: Checksums::EMPTY,
            failure: file.as_ref().err().cloned(),
        });
        let mut streams: Vec<_> = streams.collect();
        encode(reader, shape, |index, cell| {
            let meant = wanted.iter().zip(&mut streams).filter(|(piece, _)| piece.index == index);
            meant.for_each(|(_, stream)| stream.push(cell));
        })?;
        let sent: Vec<_> = streams.into_iter().map(Stream::finish).collect();
        let filled: Vec<_> = files.into_iter().zip(sent).collect();
        let closes = each(filled.into_iter().zip(&wanted).collect(), |((file, sent), piece)| {
            let checksums = sent?;
            file?.close()?;
            Ok(FilledPiece { object: piece.object, checksums })
        });
        Ok(wanted.into_iter().zip(closes).collect())
    }

    fn create_piece(&self, piece: &Mirror, bytes: u64) -> Result<File> {
        let create = CreateOptions { replace: true, size: Some(bytes), ..CreateOptions::default() };
        File::create(&piece.url.parse()?, self.options(), create)
    }
}

/// Does something for each piece, all at once.
fn each<I: Send, T: Send>(items: Vec<I>, work: impl Fn(I) -> Result<T> + Sync) -> Vec<Result<T>> {
    let ended_badly = || Err(Failure::internal("a thread that writes pieces panicked"));
    threads::each(items, work).into_iter().map(|one| one.unwrap_or_else(ended_badly)).collect()
}

/// Gives each cell of an object to `sink`, with the index of its piece.
fn encode(reader: &ObjectReader, shape: Shape, mut sink: impl FnMut(u8, &[u8])) -> Result<()> {
    let mut sink = |index: u8, cell: &[u8]| {
        sink(index, cell);
        Ok(())
    };
    let (mut encoder, mut block, mut at) = (Encoder::new(shape), vec![0; BLOCK_BYTES], 0);
    loop {
        let count = reader.read_at(&mut block, at)?;
        if count == 0 {
            return encoder.finish(&mut sink);
        }
        encoder.push(&block[..count], &mut sink)?;
        at += count as u64;
    }
}
