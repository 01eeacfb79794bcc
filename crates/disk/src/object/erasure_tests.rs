//! Coded files: any `data` pieces give the file, and nothing that is damaged is believed.

use super::*;
use base::{Crc32c, FileId, rng::Rng};
use proptest::prelude::*;
use wire::media::coded::{describe, fuzz_cell};

fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

fn shape(data: u8, parity: u8, cell_bytes: u32, bytes: usize) -> Shape {
    let coded = Coded { file: FileId(77), content: 5, bytes: bytes as u64 };
    Shape::new(data, parity, cell_bytes, coded).expect("the shape is legal")
}

/// All pieces of a file that comes in parts of `part` bytes.
fn encode(shape: Shape, content: &[u8], part: usize) -> Vec<Vec<u8>> {
    let mut pieces = vec![Vec::new(); usize::from(shape.pieces())];
    let mut sink = |index: u8, cell: &[u8]| {
        pieces[usize::from(index)].extend_from_slice(cell);
        Ok(())
    };
    let mut encoder = Encoder::new(shape);
    for part in content.chunks(part.max(1)) {
        encoder.push(part, &mut sink).expect("the content is taken");
    }
    encoder.finish(&mut sink).expect("the size is right");
    for piece in &pieces {
        assert_eq!(piece.len() as u64, shape.piece_bytes());
    }
    pieces
}

fn cells<'a>(shape: &Shape, pieces: &'a [Option<Vec<u8>>], stripe: u64) -> Vec<Option<&'a [u8]>> {
    let at = shape.cell_offset(stripe) as usize;
    let cell = |piece: &'a Vec<u8>| piece.get(at..at + shape.cell_bytes(stripe));
    pieces.iter().map(|piece| piece.as_ref().and_then(cell)).collect()
}

/// The file from what is left of its pieces, with the pieces that were found to be damaged.
fn decode(shape: Shape, pieces: &[Option<Vec<u8>>]) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut decoder = Decoder::new(shape);
    let (mut all, mut content, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for stripe in 0..shape.stripes() {
        damaged.extend(decoder.read(stripe, &cells(&shape, pieces, stripe), &mut content)?);
        all.extend_from_slice(&content);
    }
    damaged.sort_unstable();
    damaged.dedup();
    Ok((all, damaged))
}

#[test]
fn a_sample_of_version_1_is_still_made_the_same() {
    let shape = shape(4, 2, 4096, 20_000);
    let pieces = encode(shape, &content(20_000, 1), 777);
    let sums: Vec<_> = pieces.iter().map(|piece| Crc32c::of(piece).to_string()).collect();
    assert_eq!(sums, SAMPLE_SUMS);
    let (again, index, stripe) = describe(&pieces[5][4096..]).unwrap();
    assert_eq!((again, index, stripe), (shape, 5, 1));
}

/// CRC-32C of each piece of the sample.
const SAMPLE_SUMS: [&str; 6] = ["0b7a11cf", "65b19659", "219db0aa", "072f4026", "17ec8c50", "104e734d"];

#[test]
fn what_cannot_be_coded_is_refused() {
    let coded = Coded { file: FileId(1), content: 1, bytes: 10 };
    for (data, parity, cell) in [(0, 1, 4096), (1, 0, 4096), (31, 2, 4096), (4, 2, 4000), (4, 2, 32 << 20)] {
        assert!(Shape::new(data, parity, cell, coded).is_err(), "{data}+{parity}, {cell}");
    }
    assert!(Shape::new(4, 2, 4096, Coded { bytes: u64::MAX, ..coded }).is_err());
    let mut sink = |_: u8, _: &[u8]| Ok(());
    let mut encoder = Encoder::new(Shape::new(4, 2, 4096, coded).unwrap());
    encoder.push(&[0; 9], &mut sink).unwrap();
    assert!(encoder.push(&[0; 2], &mut sink).is_err(), "more than was told");
    let mut encoder = Encoder::new(Shape::new(4, 2, 4096, coded).unwrap());
    encoder.push(&[0; 9], &mut sink).unwrap();
    assert!(encoder.finish(&mut sink).is_err(), "less than was told");
}

#[test]
fn an_empty_file_has_pieces_too() {
    let shape = shape(2, 1, 8192, 0);
    let pieces: Vec<_> = encode(shape, &[], 1).into_iter().map(Some).collect();
    assert_eq!(shape.piece_bytes(), 4096);
    assert_eq!(decode(shape, &pieces).unwrap(), (Vec::new(), Vec::new()));
}

#[test]
fn one_piece_too_few_is_an_error_that_names_the_file() {
    let shape = shape(3, 2, 4096, 30_000);
    let pieces = encode(shape, &content(30_000, 3), 5000);
    let mut left: Vec<_> = pieces.into_iter().map(Some).collect();
    left[0] = None;
    left[4] = None;
    assert!(decode(shape, &left).is_ok());
    left[2] = None;
    let failure = decode(shape, &left).unwrap_err();
    assert!(failure.what.starts_with("file 77: stripe 0 has 2 good cells, 3 are needed"), "{}", failure.what);
}

#[test]
fn pieces_of_another_content_or_place_are_not_believed() {
    let one = shape(2, 2, 4096, 20_000);
    let pieces = encode(one, &content(20_000, 1), 5000);
    let other = Shape::new(2, 2, 4096, Coded { content: 6, ..one.coded() }).unwrap();
    let foreign = encode(other, &content(20_000, 2), 5000);
    let mixed =
        [Some(pieces[0].clone()), Some(foreign[1].clone()), Some(pieces[3].clone()), Some(pieces[2].clone())];
    let mut decoder = Decoder::new(one);
    let failure = decoder.read(0, &cells(&one, &mixed, 0), &mut Vec::new()).unwrap_err();
    assert!(failure.what.contains("damaged: [1, 2, 3]"), "{}", failure.what);
    // A cell of another stripe in its place.
    let mut moved = pieces.clone();
    moved[0].copy_within(4096..8192, 0);
    let moved: Vec<_> = moved.into_iter().map(Some).collect();
    assert_eq!(decode(one, &moved).unwrap(), (content(20_000, 1), vec![0]));
}

#[test]
fn fuzz_bodies_run_on_their_seeds() {
    let pieces = encode(shape(2, 1, 4096, 9000), &content(9000, 1), 1000);
    fuzz_cell(&pieces[2][..4096]);
    fuzz_cell(&[]);
    fuzz_cell(&[0; 64]);
    let mut rng = Rng::new(5);
    for _ in 0..2000 {
        let mut cell = pieces[0][..4096].to_vec();
        for _ in 0..=rng.below(3) {
            cell[4032 + rng.below(64) as usize] = rng.next_u64() as u8;
        }
        fuzz_cell(&cell);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_that_are_enough_give_the_file(
        data in 1u8..7,
        parity in 0u8..5,
        cells in 1u32..4,
        bytes in 0usize..120_000,
        part in 1usize..50_000,
        seed: u64,
    ) {
        prop_assume!(data + parity > 1);
        let shape = shape(data, parity, cells * 4096, bytes);
        let content = content(bytes, seed);
        let pieces = encode(shape, &content, part);
        let mut left: Vec<_> = pieces.iter().cloned().map(Some).collect();
        let mut rng = Rng::new(seed);
        for _ in 0..parity {
            // The same one twice is one fewer that is lost.
            left[rng.below(u64::from(data + parity)) as usize] = None;
        }
        prop_assert_eq!(&decode(shape, &left).unwrap(), &(content, vec![]));
        let mut decoder = Decoder::new(shape);
        let mut cell = Vec::new();
        for stripe in 0..shape.stripes() {
            let there = super::tests::cells(&shape, &left, stripe);
            for index in 0..shape.pieces() {
                decoder.rebuild(stripe, &there, index, &mut cell).unwrap();
                let at = shape.cell_offset(stripe) as usize;
                prop_assert_eq!(&cell, &pieces[usize::from(index)][at..at + shape.cell_bytes(stripe)]);
            }
        }
    }

    #[test]
    fn every_silent_corruption_is_found(
        data in 1u8..5,
        parity in 1u8..3,
        bytes in 1usize..60_000,
        seed: u64,
    ) {
        let shape = shape(data, parity, 4096, bytes);
        let content = content(bytes, seed);
        let pieces = encode(shape, &content, 10_000);
        let mut rng = Rng::new(seed);
        let mut hurt: Vec<_> = pieces.iter().cloned().map(Some).collect();
        let mut expected = Vec::new();
        for _ in 0..parity {
            let at = rng.below(u64::from(data + parity));
            let piece = hurt[at as usize].as_mut().unwrap();
            if expected.contains(&(at as u8)) {
                continue;
            }
            let byte = rng.below(piece.len() as u64) as usize;
            match rng.below(3) {
                0 => piece[byte] ^= 1 << rng.below(8),
                1 => piece.truncate(byte),
                // A block that reads as zeros: found unless it was zeros.
                _ => piece[byte..].iter_mut().take(512).for_each(|byte| *byte = 0),
            }
            if pieces[at as usize] != *piece {
                expected.push(at as u8);
            }
        }
        expected.sort_unstable();
        let (found, damaged) = decode(shape, &hurt).unwrap();
        prop_assert_eq!(found, content);
        // What is cut off is missing, not damaged.
        expected.retain(|index| hurt[usize::from(*index)].as_ref().unwrap().len() as u64 == shape.piece_bytes());
        prop_assert_eq!(damaged, expected);
    }
}
