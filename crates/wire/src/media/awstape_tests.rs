use super::*;
use proptest::prelude::*;

/// An image of blocks of these lengths (0 means a mark), each filled with its own number.
fn image(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut image = Vec::new();
    let mut previous = 0;
    let blocks: Vec<_> = lengths.iter().enumerate().map(|(i, length)| vec![i as u8; *length]).collect();
    for block in &blocks {
        previous = if block.is_empty() {
            encode_mark(previous, &mut image)
        } else {
            encode_block(block, previous, &mut image)
        };
    }
    (image, blocks)
}

#[test]
fn chunks_look_as_drawn() {
    let (image, _) = image(&[3, 0, 2]);
    let drawn = [&[3, 0, 0, 0, 0xa0, 0, 0, 0, 0][..], &[0, 0, 3, 0, 0x40, 0], &[2, 0, 0, 0, 0xa0, 0, 2, 2]];
    assert_eq!(image, drawn.concat());
}

#[test]
fn a_long_block_is_a_chain_of_chunks() {
    let (image, _) = image(&[65_536, 1]);
    assert_eq!(image.len() as u64, image_bytes(65_536) + image_bytes(1));
    assert_eq!(image[..6], [0xff, 0xff, 0, 0, 0x80, 0]);
    assert_eq!(image[65_541..65_547], [1, 0, 0xff, 0xff, 0x20, 0]);
    assert_eq!(image[65_548..65_554], [1, 0, 1, 0, 0xa0, 0]);
    let (objects, damage) = scan(&image);
    assert_eq!(damage, None);
    assert_eq!(objects[0], Object { offset: 0, length: 65_536, last_chunk: 1 });
    assert_eq!(objects[1], Object { offset: 65_548, length: 1, last_chunk: 1 });
}

#[test]
fn damage_names_the_byte() {
    let (whole, _) = image(&[10, 0, 20]);
    let damaged = |at: usize, value: u8| {
        let mut image = whole.clone();
        image[at] = value;
        scan(&image)
    };
    assert_eq!(damaged(20, 0x41).1, Some(AwstapeError::Flags { offset: 16, flags1: 0x41, flags2: 0 }));
    assert_eq!(damaged(26, 0xa1).1, Some(AwstapeError::Compressed { offset: 22 }));
    assert_eq!(damaged(18, 9).1, Some(AwstapeError::Previous { offset: 16, expected: 10, found: 9 }));
    assert_eq!(damaged(26, 0x20).1, Some(AwstapeError::Sequence { offset: 22, kind: ChunkKind::Last }));
    let (objects, error) = damaged(16, 7);
    assert_eq!(objects.len(), 1);
    assert_eq!(error, Some(AwstapeError::Length { offset: 16, kind: ChunkKind::Mark, length: 7 }));
    let failure = Failure::from(error.unwrap());
    assert_eq!((failure.kind, failure.what.contains("byte 16")), (ErrorKind::Corrupt, true));
}

#[test]
fn a_block_over_the_limit_is_refused() {
    let mut chunks = Vec::new();
    let mut previous = 0;
    for index in 0..258 {
        let kind = if index == 0 { ChunkKind::First } else { ChunkKind::Middle };
        chunks.extend_from_slice(&ChunkHeader { length: u16::MAX, previous, kind }.encode());
        chunks.extend_from_slice(&[0; CHUNK_DATA_BYTES_MAX]);
        previous = u16::MAX;
    }
    assert_eq!(scan(&chunks).1, Some(AwstapeError::TooLong { offset: 0 }));
}

/// Lengths around the edges of a chunk, and marks.
fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![Just(0), 1usize..200, 65_530usize..65_540, 131_068usize..131_074];
    prop::collection::vec(length, 0..8)
}

proptest! {
    #[test]
    fn what_is_written_is_read(lengths in lengths()) {
        let (image, blocks) = image(&lengths);
        let (objects, damage) = scan(&image);
        prop_assert_eq!(damage, None);
        prop_assert_eq!(objects.len(), blocks.len());
        for (index, (object, expected)) in objects.iter().zip(&blocks).enumerate() {
            prop_assert_eq!(object.is_mark(), expected.is_empty());
            if object.is_mark() { continue }
            let end = objects.get(index + 1).map_or(image.len(), |next| next.offset as usize);
            let mut block = Vec::new();
            join(&image[object.offset as usize..end], object.offset, &mut block).unwrap();
            prop_assert_eq!(&block, expected);
        }
        fuzz_awstape(&image);
    }

    #[test]
    fn a_cut_anywhere_keeps_the_objects_before_it(lengths in lengths(), cut in any::<prop::sample::Index>()) {
        let (mut image, _) = image(&lengths);
        let whole = scan(&image).0;
        image.truncate(cut.index(image.len() + 1));
        let (objects, damage) = scan(&image);
        prop_assert_eq!(&objects[..], &whole[..objects.len()]);
        let ends_whole = whole.get(objects.len()).map_or(image.len() as u64, |next| next.offset) == image.len() as u64;
        prop_assert_eq!(damage.is_none(), ends_whole);
        if let Some(damage) = damage {
            let offset = whole[objects.len()].offset;
            prop_assert_eq!(damage, AwstapeError::Torn { offset, image_bytes: image.len() as u64 });
        }
    }

    #[test]
    fn changed_bytes_never_panic(
        lengths in lengths(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (mut image, _) = image(&lengths);
        if image.is_empty() { return Ok(()) }
        for (at, value) in changes {
            let at = at.index(image.len());
            image[at] = value;
        }
        fuzz_awstape(&image);
    }

    #[test]
    fn random_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_awstape(&data);
    }
}
