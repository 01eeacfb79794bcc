//! Broken connections: reads go on where they stopped, writes say that they cannot.

use super::server::{Fault, Host, options, sample};
use crate::xrd::{CreateOptions, File, Options};
use base::{Checksums, ErrorKind, Result};
use std::sync::atomic::Ordering;

fn download(file: &File) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    file.copy_to(&mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(all)
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let bytes = sample(200_000);
    // Every fifth request breaks the connection in the middle of its answer.
    let host = Host::new(bytes.clone(), |number| if number % 5 == 4 { Fault::Cut(777) } else { Fault::None });
    let options = Options { chunk_bytes: 10_000, window_bytes: 30_000, retry_max: 1, ..options() };
    let file = File::open_read(&host.url, &options).unwrap();
    assert!(download(&file).unwrap() == bytes);
    assert!(host.connections.load(Ordering::SeqCst) > 3);
    file.close().unwrap();
}

#[test]
fn a_server_that_always_breaks_is_given_up() {
    let host = Host::new(sample(1000), |_| Fault::Cut(0));
    let options = Options { retry_max: 2, ..options() };
    let file = File::open_read(&host.url, &options).unwrap();
    let failure = download(&file).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unavailable);
    assert!(failure.what.contains("tried 3 times") && failure.what.contains("//f"), "{failure}");
}

#[test]
fn a_file_that_changed_meanwhile_is_not_mixed() {
    let host = Host::new(sample(50_000), |number| if number == 2 { Fault::Cut(0) } else { Fault::None });
    let options = Options { chunk_bytes: 10_000, window_bytes: 10_000, ..options() };
    let file = File::open_read(&host.url, &options).unwrap();
    host.file.lock().unwrap().modified_s = 5;
    let failure = download(&file).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.contains("changed while it was open"), "{failure}");
}

#[test]
fn an_upload_that_is_cut_says_that_it_must_begin_anew() {
    let host = Host::new(Vec::new(), |number| if number == 3 { Fault::Cut(0) } else { Fault::None });
    let options = Options { chunk_bytes: 10_000, window_bytes: 10_000, ..options() };
    let file = File::create(&host.url, &options, CreateOptions::default()).unwrap();
    let mut writer = file.writer();
    let failure = (0..50).find_map(|_| writer.push(&[1; 10_000]).err()).unwrap();
    assert!(failure.hint.as_deref().is_some_and(|hint| hint.contains("write the file again")), "{failure:?}");
    drop(writer);
    assert!(file.close().is_err());
    assert!(!host.file.lock().unwrap().is_closed);
}

#[test]
fn an_upload_tells_the_server_what_to_expect() {
    let host = Host::new(Vec::new(), |_| Fault::None);
    let options = Options { chunk_bytes: 1000, ..options() };
    let bytes = sample(12_345);
    let file = File::create(&host.url, &options, CreateOptions::default()).unwrap();
    let mut writer = file.writer();
    bytes.chunks(777).for_each(|piece| writer.push(piece).unwrap());
    assert_eq!(writer.finish().unwrap(), 12_345);
    file.close().unwrap();
    let stored = host.file.lock().unwrap();
    assert!(stored.bytes == bytes && stored.is_closed);
    assert_eq!(stored.told, [format!("bp.expect size=12345 crc32c={}", Checksums::of(&bytes).crc32c)]);
    drop(stored);
    // What was written here and there has no sum.
    let file = File::create(&host.url, &options, CreateOptions::default()).unwrap();
    file.write_at(5, b"b").unwrap();
    file.write_at(0, b"a").unwrap();
    file.close().unwrap();
    assert_eq!(host.file.lock().unwrap().told.len(), 1);
}

#[test]
fn idle_connections_that_the_server_closed_are_replaced() {
    let host = Host::new(sample(100), |number| if number == 0 { Fault::Cut(108) } else { Fault::None });
    for _ in 0..3 {
        let file = File::open_read(&host.url, &options()).unwrap();
        assert!(download(&file).unwrap() == sample(100));
    }
    assert_eq!(host.connections.load(Ordering::SeqCst), 2);
}
