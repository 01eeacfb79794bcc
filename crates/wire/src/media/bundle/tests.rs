use super::*;

/// A bundle of these files: names and contents.
fn bundle(files: &[(&str, &[u8])]) -> (Vec<u8>, Vec<Member>) {
    let (mut out, mut members) = (Vec::new(), Vec::new());
    for (number, (path, data)) in files.iter().enumerate() {
        let size = data.len() as u64;
        out.extend(header(path, size, 1_700_000_000));
        let (file, offset) = (FileId(number as u64 + 1), out.len() as u64);
        members.push(Member { file, offset, size, checksums: Checksums::of(data), path: (*path).to_owned() });
        out.extend_from_slice(data);
        out.resize(out.len() + padding(size), 0);
    }
    let index = encode_index(&members);
    out.extend(header(INDEX_NAME, index.len() as u64, 0));
    out.extend_from_slice(&index);
    out.resize(out.len() + padding(index.len() as u64), 0);
    out.extend(END);
    (out, members)
}

fn scan(bytes: &[u8], piece: usize) -> Result<Vec<Member>, BundleError> {
    let mut scanner = Scanner::default();
    bytes.chunks(piece).try_for_each(|piece| scanner.push(piece))?;
    scanner.finish()
}

const LONG: &str =
    "a/directory/with/a/very/long/name/that/does/not/fit/into/the/hundred/characters/of/the/header/of/tar/f";

#[test]
fn a_bundle_is_read_in_pieces_of_any_length() {
    let data = [7; 1500];
    let (bytes, members) =
        bundle(&[("a", b""), ("run1/b", &data[..512]), (LONG, &data), ("\u{e9}t\u{e9}", b"x")]);
    assert_eq!(bytes.len() % RECORD_BYTES, 0);
    for piece in [1, 7, 511, 512, 513, 100_000] {
        assert_eq!(scan(&bytes, piece).unwrap(), members, "pieces of {piece} bytes");
    }
    let at = members[2].offset as usize;
    assert_eq!(&bytes[at..at + 1500], &data);
}

#[test]
fn every_changed_byte_of_a_file_and_every_early_end_is_noticed() {
    let (bytes, members) = bundle(&[("a", b"muons"), ("b", b"electrons")]);
    for at in (0..5).map(|n| members[0].offset as usize + n) {
        let mut broken = bytes.clone();
        broken[at] ^= 1;
        let (file, offset) = (FileId(1), members[0].offset);
        assert_eq!(scan(&broken, 512), Err(BundleError::Differs { file, offset }));
        fuzz_bundle(&broken);
    }
    let end = bytes.len() - END.len();
    for length in 0..=end {
        assert!(scan(&bytes[..length], 512).is_err(), "{length} of {} bytes are a bundle", bytes.len());
    }
}

#[test]
fn a_file_may_have_the_name_of_the_index() {
    let (bytes, members) = bundle(&[(INDEX_NAME, b"mine"), ("a", b"muons"), (INDEX_NAME, b"again")]);
    assert_eq!(scan(&bytes, 512).unwrap(), members);
}

#[test]
fn numbers_of_bundles_are_those_of_no_file() {
    assert_eq!(number_of(label_of(17)), Some(17));
    assert_eq!(number_of(FileId((1 << 60) - 1)), None);
}
