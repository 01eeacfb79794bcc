//! Data with page checksums: what is damaged on its way is noticed and moved again, once.

use super::server::{Fault, Host, options, sample};
use crate::xrd::{CreateOptions, File, Options};
use base::{ByteRange, ErrorKind};

fn with_pages() -> Options {
    Options { chunk_bytes: 20_000, window_bytes: 60_000, page_checksums: true, ..options() }
}

#[test]
fn damaged_pages_are_read_again() {
    let bytes = sample(150_001);
    let host = Host::new(bytes.clone(), |number| if number % 3 == 1 { Fault::Flip } else { Fault::None });
    let file = File::open_read(&host.url, &with_pages()).unwrap();
    let mut all = Vec::new();
    file.copy_to(&mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    assert!(all == bytes);
    for (offset, length) in [(0, 1), (4095, 2), (5000, 9000), (149_990, 100), (3, 60_000)] {
        let mut buffer = vec![0; length];
        let count = file.read_at(offset as u64, &mut buffer).unwrap();
        assert!(buffer[..count] == bytes[offset..bytes.len().min(offset + length)], "{length} at {offset}");
    }
}

#[test]
fn a_page_that_is_damaged_twice_is_a_failure() {
    let host = Host::new(sample(10_000), |_| Fault::Flip);
    let file = File::open_read(&host.url, &with_pages()).unwrap();
    let failure = file.copy_range(ByteRange { offset: 0, end: 5000 }, &mut |_| Ok(())).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.contains("checksum") && failure.hint.is_some(), "{failure}");
}

#[test]
fn damaged_pages_are_sent_again() {
    let bytes = sample(123_457);
    let host = Host::new(Vec::new(), |number| if number % 4 == 2 { Fault::Flip } else { Fault::None });
    let file = File::create(&host.url, &with_pages(), CreateOptions::default()).unwrap();
    let mut writer = file.writer();
    bytes.chunks(7777).for_each(|piece| writer.push(piece).unwrap());
    assert_eq!(writer.finish().unwrap(), bytes.len() as u64);
    file.close().unwrap();
    assert!(host.file.lock().unwrap().bytes == bytes);
    let host = Host::new(Vec::new(), |_| Fault::Flip);
    let file = File::create(&host.url, &with_pages(), CreateOptions::default()).unwrap();
    assert_eq!(file.write_at(0, &bytes).unwrap_err().kind, ErrorKind::Corrupt);
    assert!(file.close().is_err());
}

#[test]
fn several_connections_carry_one_file() {
    let bytes = sample(1 << 20);
    let host = Host::new(bytes.clone(), |number| if number == 50 { Fault::Cut(9) } else { Fault::None });
    let options = Options { streams: 4, chunk_bytes: 10_000, window_bytes: 50_000, ..options() };
    let file = File::open_read(&host.url, &options).unwrap();
    let mut at = 0;
    file.copy_to(&mut |piece| {
        assert!(bytes[at..at + piece.len()] == *piece, "the bytes at {at} differ");
        at += piece.len();
        Ok(())
    })
    .unwrap();
    assert_eq!(at, bytes.len());
    assert!(host.connections.load(std::sync::atomic::Ordering::SeqCst) >= 4);
}
