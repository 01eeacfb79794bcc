//! With any losses that the code tolerates, every range reads as it was written.

use super::CodedFile;
use crate::{Partition, object::erasure::Encoder, remote::objects::PeerClient};
use base::{Checksums, FileId, ObjectId, Timestamp, rng::Rng};
use proptest::prelude::*;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use tempfile::TempDir;
use wire::{
    control::{Coding, PiecePlace, Pieces},
    media::object::{Holder, Label},
};

/// A coded file on partitions of its own, one for each piece.
struct World {
    directory: TempDir,
    partitions: BTreeMap<String, Arc<Partition>>,
    pieces: Pieces,
    content: Vec<u8>,
}

fn name(index: u8) -> String {
    format!("p{index}")
}

fn object(index: u8) -> ObjectId {
    ObjectId(100 + u64::from(index))
}

impl World {
    fn new(coding: Coding, cell_bytes: u32, content: Vec<u8>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (file, generation, size) = (FileId(7), 3, content.len() as u64);
        let place = |index| {
            let (object, partition) = (object(index), name(index));
            PiecePlace { index, object, partition, url: String::new() }
        };
        let places = (0..coding.pieces()).map(place).collect();
        let (checksums, modified) = (Checksums::of(&content), Timestamp(1));
        let pieces = Pieces { file, generation, size, checksums, modified, coding, cell_bytes, places };
        let create =
            |index| Partition::create(&directory.path().join(name(index)), "f", &name(index)).unwrap();
        let partitions = (0..coding.pieces()).map(|index| (name(index), Arc::new(create(index)))).collect();
        let world = Self { directory, partitions, pieces, content };
        world.write();
        world
    }

    /// Makes the pieces.
    fn write(&self) {
        let shape = self.pieces.piece(0).shape(self.pieces.file, self.pieces.generation).unwrap();
        let mut made = vec![Vec::new(); usize::from(shape.pieces())];
        let mut sink = |index: u8, cell: &[u8]| {
            made[usize::from(index)].extend_from_slice(cell);
            Ok(())
        };
        let mut encoder = Encoder::new(shape);
        encoder.push(&self.content, &mut sink).unwrap();
        encoder.finish(&mut sink).unwrap();
        for (bytes, index) in made.iter().zip(0u8..) {
            let writer = self.partitions[&name(index)].create_object(object(index)).unwrap();
            writer.write_at(bytes, 0).unwrap();
            writer.commit(&self.label(index), None, Timestamp(1)).unwrap();
        }
    }

    fn label(&self, index: u8) -> Label {
        let Pieces { file, generation, .. } = self.pieces;
        let (path, holder) = ("/f".parse().unwrap(), Holder::default());
        Label { file, path, generation, holder, piece: Some(self.pieces.piece(index)) }
    }

    fn path(&self, index: u8) -> PathBuf {
        let object = object(index);
        self.directory.path().join(format!("{}/objects/{:02x}/{object}", name(index), object.0 & 0xff))
    }

    fn open(&self) -> CodedFile {
        CodedFile::new(&self.pieces, &self.partitions, &PeerClient::new(None), None).unwrap()
    }

    /// Breaks a piece, each time in another way. Yields whether a reader that looks at all of it can tell that it is damaged.
    fn hurt(&mut self, index: u8, how: u64) -> bool {
        let path = self.path(index);
        match how % 4 {
            0 => self.pieces.places.retain(|place| place.index != index),
            1 => std::fs::remove_file(path).unwrap(),
            2 => {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
            }
            _ => {
                let mut bytes = std::fs::read(&path).unwrap();
                let at = (how >> 2) as usize % bytes.len();
                bytes[at] ^= 1 << (how % 7);
                std::fs::write(path, bytes).unwrap();
            }
        }
        how % 4 > 1
    }
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

fn check_ranges(file: &CodedFile, content: &[u8], rng: &mut Rng) {
    let size = content.len() as u64;
    for _ in 0..12 {
        let offset = rng.below(size + 3);
        let part = 1 + rng.below(8);
        let mut buffer = vec![0xee; rng.below(1 + size / part) as usize];
        let end = (offset + buffer.len() as u64).min(size);
        let count = file.read_at(offset, &mut buffer).unwrap();
        assert_eq!(count as u64, end.saturating_sub(offset));
        assert_eq!(&buffer[..count], content.get(offset as usize..end as usize).unwrap_or_default());
    }
    let stretch = |rng: &mut Rng| {
        let offset = rng.below(size.max(1));
        (offset, vec![0; rng.below(1 + (size - offset).min(5000)) as usize])
    };
    let mut stretches: Vec<_> = if size == 0 { Vec::new() } else { (0..20).map(|_| stretch(rng)).collect() };
    let mut wanted: Vec<_> =
        stretches.iter_mut().map(|(offset, buffer)| (*offset, &mut buffer[..])).collect();
    file.read_many(&mut wanted).unwrap();
    for (offset, buffer) in stretches {
        assert_eq!(buffer, content[offset as usize..offset as usize + buffer.len()]);
    }
}

#[test]
fn one_piece_too_few_is_a_failure_that_says_so() {
    let mut world = World::new(Coding { data: 3, parity: 2 }, 4096, random(50_000, 1));
    for index in [0, 2, 4] {
        world.hurt(index, 1);
    }
    let failure = world.open().read_at(0, &mut [0; 10]).unwrap_err();
    assert!(failure.what.contains("2 of its pieces can be read at stripe 0, 3 are needed"), "{failure}");
}

#[test]
fn what_is_asked_for_behind_the_end_is_nothing() {
    let world = World::new(Coding { data: 2, parity: 1 }, 4096, Vec::new());
    assert_eq!(world.open().read_at(0, &mut [0; 10]).unwrap(), 0);
    let world = World::new(Coding { data: 2, parity: 1 }, 4096, vec![7; 10]);
    assert_eq!(world.open().read_at(u64::MAX - 1, &mut [0; 10]).unwrap(), 0);
    assert!(world.open().read_many(&mut [(8, &mut [0; 3])]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_range_is_what_was_written_and_every_piece_is_made_anew(
        data in 1u8..5,
        parity in 1u8..4,
        cells in 1u32..3,
        bytes in 0usize..70_000,
        seed: u64,
    ) {
        let mut world = World::new(Coding { data, parity }, cells * 4096, random(bytes, seed));
        let mut rng = Rng::new(seed);
        let whole: Vec<_> = (0..data + parity).map(|index| std::fs::read(world.path(index)).unwrap()).collect();
        let (mut hurt, mut damaged) = (Vec::new(), Vec::new());
        for _ in 0..rng.below(u64::from(parity) + 1) {
            let index = rng.below(u64::from(data + parity)) as u8;
            if !hurt.contains(&index) {
                hurt.push(index);
                if world.hurt(index, rng.next_u64()) {
                    damaged.push(object(index));
                }
            }
        }
        let file = world.open();
        check_ranges(&file, &world.content, &mut rng);
        for index in 0..data + parity {
            let partition = &world.partitions[&name(index)];
            let new = ObjectId(900 + u64::from(index));
            let writer = partition.create_object(new).unwrap();
            file.rebuild(index, &writer).unwrap();
            let info = writer.commit(&world.label(index), None, Timestamp(2)).unwrap();
            let expected = &whole[usize::from(index)];
            prop_assert_eq!((info.size, info.checksums), (expected.len() as u64, Checksums::of(expected)));
        }
        prop_assert!(file.damaged().iter().all(|object| damaged.contains(object)), "{:?}", file.damaged());
    }
}
