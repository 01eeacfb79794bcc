//! Files over several objects: stripes, copies, and copies that fail.

use super::server::{Fault, Host, options, sample};
use crate::{FailedCopy, LiveFile};
use base::{ErrorKind, ObjectId};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use wire::control::{Layout, LayoutObject};

/// A server with an object, which is cut off when the flag is set.
fn host(bytes: Vec<u8>) -> (Host, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_down);
    let fault = move |_| if asked.load(Ordering::SeqCst) { Fault::Cut(0) } else { Fault::None };
    (Host::new(bytes, fault), is_down)
}

/// Objects are numbered as they come.
fn layout(unit: u64, columns: &[&[&Host]]) -> Layout {
    let mut objects = (1..).map(ObjectId);
    let mut column = |hosts: &&[&Host]| {
        let of = hosts.iter().zip(&mut objects);
        of.map(|(host, object)| LayoutObject { object, url: host.url.to_string() }).collect()
    };
    Layout { unit, columns: columns.iter().map(&mut column).collect() }
}

fn bytes(host: &Host) -> Vec<u8> {
    host.file.lock().unwrap().bytes.clone()
}

fn objects(failed: &[FailedCopy]) -> Vec<ObjectId> {
    failed.iter().map(|copy| copy.object).collect()
}

#[test]
fn a_striped_file_lies_on_all_its_columns_and_reads_back() {
    let hosts: Vec<_> = (0..3).map(|_| host(b"old and too long".to_vec()).0).collect();
    let layout = layout(1000, &[&[&hosts[0]], &[&hosts[1]], &[&hosts[2]]]);
    let data = sample(10_500);
    let file = LiveFile::open_update(&layout, 0, &options()).unwrap();
    assert!(hosts.iter().all(|host| bytes(host).is_empty()), "what was never committed is cut off");
    file.write_at(0, &data[..4321]).unwrap();
    file.write_at(4321, &data[4321..]).unwrap();
    let lengths: Vec<_> = hosts.iter().map(|host| bytes(host).len()).collect();
    assert_eq!(lengths, [4000, 3500, 3000]);
    let mut found = vec![0; 5000];
    assert_eq!(file.read_at(3456, &mut found).unwrap(), 5000);
    assert!(found == data[3456..8456]);
    file.truncate(1500).unwrap();
    file.write_at(7200, b"behind a hole").unwrap();
    file.sync(7213).unwrap();
    let lengths: Vec<_> = hosts.iter().map(|host| bytes(host).len()).collect();
    assert_eq!(lengths, [3000, 2213, 2000], "as a file of that size has them");
    file.close().unwrap();
    let file = LiveFile::open_read(&layout, &options()).unwrap();
    let mut found = vec![9; 7213];
    file.read_at(0, &mut found).unwrap();
    let wanted = [&data[..1500], &[0; 5700][..], b"behind a hole"].concat();
    assert!(found == wanted);
}

#[test]
fn every_copy_has_what_was_written_and_one_that_fails_is_told_and_dropped() {
    let ((first, _), (second, is_down)) = (host(Vec::new()), host(Vec::new()));
    let both = layout(0, &[&[&first, &second]]);
    let file = LiveFile::open_update(&both, 0, &options()).unwrap();
    file.write_at(0, b"in both").unwrap();
    file.sync(7).unwrap();
    assert_eq!((bytes(&first), bytes(&second)), (b"in both".to_vec(), b"in both".to_vec()));
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(file.write_at(0, b"IN").unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(objects(&file.failed()), [ObjectId(2)]);
    for refused in [file.write_at(0, b"IN"), file.truncate(3), file.sync(7)] {
        assert!(refused.is_err(), "nothing is written that only one copy has");
    }
    file.keep(&layout(0, &[&[&first]]));
    assert_eq!((file.failed().len(), file.objects()), (0, vec![ObjectId(1)]));
    file.write_at(0, b"ON").unwrap();
    file.sync(7).unwrap();
    assert_eq!(bytes(&first), b"ON both");
    assert_eq!(bytes(&second), b"IN both", "the write that was not answered was its last");
}

#[test]
fn a_copy_that_cannot_be_opened_is_told_and_reads_go_to_another_one() {
    let ((first, is_down), (second, _)) = (host(b"copy".to_vec()), host(b"copy".to_vec()));
    let mut layout = layout(0, &[&[&first, &second]]);
    let impatient = crate::xrd::Options { retry_max: 0, ..options() };
    let file = LiveFile::open_read(&layout, &impatient).unwrap();
    is_down.store(true, Ordering::SeqCst);
    let mut found = [0; 9];
    assert_eq!(file.read_at(1, &mut found).unwrap(), 3);
    assert_eq!(&found[..3], b"opy");
    layout.columns[0][0].url = "root://127.0.0.1:1//f".into();
    let file = LiveFile::open_update(&layout, 4, &impatient).unwrap();
    assert_eq!(objects(&file.failed()), [ObjectId(1)]);
    assert_eq!(file.objects(), [ObjectId(2)]);
    layout.columns[0].truncate(1);
    assert!(LiveFile::open_update(&layout, 4, &impatient).is_err());
    assert!(LiveFile::open_read(&layout, &impatient).is_err());
    assert!(LiveFile::open_read(&Layout::default(), &impatient).is_err());
}
