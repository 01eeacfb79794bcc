//! The door and our own client against each other.

use crate::door::{Door, sample};
use base::{ByteRange, ErrorKind, FilePath};
use client::xrd::{CreateOptions, File, FileSystem, Options, XrdUrl};
use std::{fs, io::Write as _};

const MIB: usize = 1 << 20;

fn url(door: &Door, name: &str) -> XrdUrl {
    format!("root://{}//{name}", door.address).parse().unwrap()
}

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

const REPLACE: CreateOptions = CreateOptions { replace: true, make_path: true, mode: 0o640, size: None };

#[test]
fn what_is_written_is_read_back() {
    let (door, options) = (Door::open(), Options::default());
    for size in [0, 1, 4097, MIB, 9 * MIB + 3, 30 * MIB] {
        let (bytes, url) = (sample(size), url(&door, &format!("d/f{size}")));
        let file = File::create(&url, &options, REPLACE).unwrap();
        let mut writer = file.writer();
        for piece in bytes.chunks(777_777) {
            writer.write_all(piece).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), size as u64);
        file.sync().unwrap();
        file.close().unwrap();
        let file = File::open_read(&url, &options).unwrap();
        assert_eq!(file.size(), size as u64);
        let mut back = Vec::new();
        file.copy_to(&mut |piece| {
            back.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
        file.close().unwrap();
        assert!(back == bytes, "{size} bytes differ");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(door.path(&format!("d/f{size}"))).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o640);
    }
}

#[test]
fn reads_end_where_the_file_ends() {
    let (door, options) = (Door::open(), Options::default());
    let bytes = sample(3 * MIB + 17);
    fs::write(door.path("f"), &bytes).unwrap();
    let file = File::open_read(&url(&door, "f"), &options).unwrap();
    let mut buffer = vec![0; 2 * MIB];
    let offset = 2 * MIB + 5;
    let count = file.read_at(offset as u64, &mut buffer).unwrap();
    assert!(buffer[..count] == bytes[offset..]);
    assert_eq!(file.read_at(bytes.len() as u64 + 1000, &mut buffer).unwrap(), 0);
    let range = ByteRange { offset: 10, end: bytes.len() as u64 + 1 };
    assert_eq!(file.copy_range(range, &mut |_| Ok(())).unwrap_err().kind, ErrorKind::Corrupt);
    // The handle is still good.
    assert_eq!(file.read_at(0, &mut buffer[..4]).unwrap(), 4);
}

#[test]
fn vector_reads_return_every_range_and_refuse_what_is_past_the_end() {
    let (door, options) = (Door::open(), Options::default());
    let bytes = sample(5 * MIB);
    fs::write(door.path("f"), &bytes).unwrap();
    let file = File::open_read(&url(&door, "f"), &options).unwrap();
    let range =
        |offset: usize, length: usize| ByteRange { offset: offset as u64, end: (offset + length) as u64 };
    let mut ranges =
        vec![range(0, 1), range(5 * MIB - 1, 1), range(100, 2 * MIB - 16), range(50, 100), range(7, 0)];
    ranges.extend((0..1000).map(|index| range(index * 4999, 4096)));
    let pieces = file.read_vector(&ranges).unwrap();
    for (range, piece) in ranges.iter().zip(&pieces) {
        assert!(piece == &bytes[range.offset as usize..range.end as usize], "{range:?} differs");
    }
    assert_eq!(file.read_vector(&[range(5 * MIB - 1, 2)]).unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(file.read_vector(&[range(3, 2)]).unwrap(), [bytes[3..5].to_vec()]);
}

#[test]
fn names_and_their_failures() {
    names_of(&Door::open());
}

#[test]
fn names_when_every_answer_comes_later() {
    names_of(&Door::announcing());
}

fn names_of(door: &Door) {
    let names = FileSystem::new(&url(door, ""), &Options::default());
    let kind = |outcome: base::Result<()>| outcome.unwrap_err().kind;
    names.mkdir(&path("/a/b"), 0o755, true).unwrap();
    fs::write(door.path("a/f"), b"Wikipedia").unwrap();
    let listing = names.list(&path("/a")).unwrap();
    let found: Vec<_> =
        listing.iter().map(|entry| (entry.name.as_str(), entry.stat.as_ref().unwrap().size)).collect();
    assert!(found.contains(&("f", 9)), "{found:?}");
    assert_eq!(names.checksum(&path("/a/f"), None).unwrap(), ("adler32".into(), "11e60398".into()));
    assert_eq!(names.checksum(&path("/a/f"), Some("md5")).unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(kind(names.mkdir(&path("/a/b"), 0o755, false)), ErrorKind::Exists);
    assert_eq!(kind(names.rmdir(&path("/a"))), ErrorKind::NotEmpty);
    assert_eq!(kind(names.remove(&path("/none"))), ErrorKind::NotFound);
    names.rename(&path("/a/f"), &path("/a/g")).unwrap();
    names.truncate(&path("/a/g"), 4).unwrap();
    names.chmod(&path("/a/g"), 0o600).unwrap();
    assert_eq!(names.stat(&path("/a/g")).unwrap().size, 4);
    assert!(names.locate(&path("/a/g")).unwrap()[0].is_server);
    assert_eq!(names.config("no_such_key").unwrap(), "no_such_key");
    assert_eq!(names.stage(&[path("/a/g")], 2).unwrap(), "test-1");
    names.remove(&path("/a/g")).unwrap();
    names.rmdir(&path("/a/b")).unwrap();
    assert_eq!(names.stat(&path("/a/b")).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_recalled_file_is_waited_for() {
    let (door, options) = (Door::announcing(), Options::default());
    fs::write(door.path("tape"), b"from tape").unwrap();
    fs::write(door.path("disk"), b"from disk").unwrap();
    let read = |name: &str| {
        let file = File::open_read(&url(&door, name), &options).unwrap();
        let mut buffer = [0; 9];
        assert_eq!(file.read_at(0, &mut buffer).unwrap(), 9);
        file.close().unwrap();
        buffer
    };
    std::thread::scope(|scope| {
        let late = scope.spawn(|| read("tape"));
        assert_eq!(&read("disk"), b"from disk");
        door.service.recall();
        assert_eq!(&late.join().unwrap(), b"from tape");
    });
}

#[test]
fn a_write_that_is_not_closed_leaves_nothing() {
    let (door, options) = (Door::open(), Options::default());
    let file = File::create(&url(&door, "f"), &options, CreateOptions::default()).unwrap();
    file.write_at(0, &sample(MIB)).unwrap();
    assert_eq!(door.pending(), 1);
    drop(file);
    door.stop();
    assert_eq!(door.pending(), 0);
    assert!(!door.path("f").exists());
}

#[test]
fn a_writer_that_was_not_finished_keeps_the_file_from_closing() {
    let (door, options) = (Door::open(), Options::default());
    let file = File::create(&url(&door, "f"), &options, CreateOptions::default()).unwrap();
    file.writer().push(b"never sent").unwrap();
    assert_eq!(file.close().unwrap_err().kind, ErrorKind::Unavailable);
    door.stop();
    assert!(!door.path("f").exists());
}

#[test]
fn an_open_goes_where_it_is_sent() {
    let (head, disk) = (Door::open(), Door::open());
    head.service.redirect(disk.address.port(), "c0ffee");
    let file = File::create(&url(&head, "f"), &Options::default(), REPLACE).unwrap();
    assert_eq!(file.server(), disk.address.to_string());
    file.write_at(0, b"bytes").unwrap();
    file.close().unwrap();
    assert_eq!(fs::read(disk.path("f")).unwrap(), b"bytes");
    assert_eq!(disk.service.capability().as_deref(), Some("c0ffee"));
}

#[test]
fn opens_refuse_what_they_must() {
    let (door, options) = (Door::open(), Options::default());
    fs::write(door.path("f"), b"old").unwrap();
    fs::create_dir(door.path("d")).unwrap();
    let kind = |outcome: base::Result<File>| outcome.unwrap_err().kind;
    assert_eq!(kind(File::open_read(&url(&door, "none"), &options)), ErrorKind::NotFound);
    assert_eq!(kind(File::open_read(&url(&door, "d"), &options)), ErrorKind::IsDirectory);
    assert_eq!(kind(File::create(&url(&door, "f"), &options, CreateOptions::default())), ErrorKind::Exists);
    let file = File::open_read(&url(&door, "f"), &options).unwrap();
    assert_eq!(file.write_at(0, b"new").unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(fs::read(door.path("f")).unwrap(), b"old");
}

#[test]
fn a_file_whose_write_failed_cannot_be_closed() {
    let door = Door::open();
    // One write at a time, so that the connection is still good after the failed one.
    let options = Options { window_bytes: 1, ..Options::default() };
    let file = File::create(&url(&door, "full"), &options, CreateOptions::default()).unwrap();
    file.write_at(0, &sample(MIB)).unwrap();
    let failure = file.write_at(MIB as u64, b"x").unwrap_err();
    assert_eq!((failure.kind, failure.hint.as_deref()), (ErrorKind::NoSpace, Some("delete something")));
    assert!(file.close().is_err());
    door.stop();
    assert!(door.pending() == 0 && !door.path("full").exists());
}
