//! Data with page checksums: what is damaged on its way is noticed and moved again, once.

use super::server::{Fault, Host, opened, options, sample, serve};
use crate::xrd::{CreateOptions, File, Options};
use base::{ByteRange, ErrorKind};
use wire::xrd::{Answer, Request};

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

/// A server that answers page reads with `answer`, which no page read is answered with.
fn plain(size: u64, answer: Vec<u8>) -> File {
    let url = serve(move |_, stream, request| match request {
        Request::Open(_) => opened(size).encode(stream),
        Request::Pgread(_) => Answer::Ok(answer.clone()).encode(stream),
        _ => Answer::Ok(Vec::new()).encode(stream),
    });
    File::open_read(&url, &Options { retry_max: 0, ..with_pages() }).unwrap()
}

#[test]
fn data_without_checksums_are_no_answer_to_a_page_read() {
    for length in [1004, 1000, 10] {
        let file = plain(1000, vec![1; length]);
        let read = file.read_at(0, &mut [0; 1000]).unwrap_err();
        let copied = file.copy_to(&mut |_| Ok(())).unwrap_err();
        for failure in [read, copied] {
            assert_eq!(failure.kind, ErrorKind::Unavailable, "{length}: {failure}");
            assert!(failure.what.contains("checksum"), "{length}: {failure}");
        }
    }
}
