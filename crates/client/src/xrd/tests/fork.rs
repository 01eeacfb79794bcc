//! What a child does with the files of its parent.

use super::server::{Fault, Host, options, sample};
use crate::xrd::{CreateOptions, File};
use base::ErrorKind;
use std::sync::atomic::Ordering;

#[test]
fn a_child_reads_on_a_connection_of_its_own() {
    let bytes = sample(5000);
    let host = Host::new(bytes.clone(), |_| Fault::None);
    let mut file = File::open_read(&host.url, &options()).unwrap();
    let mut buffer = [0; 100];
    file.read_at(0, &mut buffer).unwrap();
    assert_eq!(host.connections.load(Ordering::SeqCst), 1);
    file.disown();
    assert_eq!(file.read_at(300, &mut buffer).unwrap(), 100);
    assert!(buffer == bytes[300..400]);
    assert_eq!(host.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn a_child_does_not_go_on_writing() {
    let host = Host::new(Vec::new(), |_| Fault::None);
    let mut file = File::create(&host.url, &options(), CreateOptions::default()).unwrap();
    file.write_at(0, b"parent").unwrap();
    file.disown();
    let failure = file.write_at(6, b"child").unwrap_err();
    assert_eq!((failure.kind, failure.hint.is_some()), (ErrorKind::Invalid, true), "{failure}");
    assert_eq!(file.close().unwrap_err().kind, ErrorKind::Invalid);
    assert!(!host.file.lock().unwrap().is_closed);
}
