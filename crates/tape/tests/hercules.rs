//! Volumes read by somebody else: the tape tools of the Hercules emulator.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the whole file is a test")]

use base::{Checksums, FileId, Vid, rng::Rng};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use tape::{
    Changer, ElementAddress, TapeDrive, VirtualLibrary,
    label_io::{Relabel, Style, TapeFile, append_file, label_volume, writer},
};
use wire::media::label::LabelDate;

/// What Hercules' tools can read: blocks of at most 65,535 bytes.
const BLOCK_BYTES: u32 = 32 << 10;

fn have(tool: &str) -> bool {
    let found = Command::new(tool).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("skipped: {tool} is not installed (Debian package hercules)");
    }
    found
}

/// Writes a labelled volume with these files and returns the path of its image.
fn volume(dir: &Path, files: &[Vec<u8>]) -> std::path::PathBuf {
    let vid: Vid = "BP0001".parse().unwrap();
    let today = LabelDate::new(2026, 325).unwrap();
    let mut library = VirtualLibrary::create(dir.join("lib"), 1, 1, std::slice::from_ref(&vid)).unwrap();
    library.move_medium(ElementAddress(1001), ElementAddress(500)).unwrap();
    let mut drive = library.drive(0).unwrap();
    drive.load().unwrap();
    label_volume(&mut drive, &vid, Relabel::Refuse, today).unwrap();
    drive.locate(1).unwrap();
    let style = Style { block_bytes: BLOCK_BYTES, today, writer: writer(&drive, "lab", "tape01") };
    for (index, data) in files.iter().enumerate() {
        let fseq = index as u32 + 1;
        let file = TapeFile {
            vid: vid.clone(),
            fseq,
            file_id: FileId(0xabc + u64::from(fseq)),
            block: drive.position().unwrap().block,
            size: data.len() as u64,
            checksums: Checksums::of(data),
        };
        let mut rest = &data[..];
        let mut source = |buffer: &mut [u8]| {
            let piece = rest.len().min(buffer.len());
            buffer[..piece].copy_from_slice(&rest[..piece]);
            rest = &rest[piece..];
            Ok(piece)
        };
        append_file(&mut drive, &file, &style, &mut source).unwrap();
    }
    drive.unload().unwrap();
    dir.join("lib/drive/0/BP0001.aws")
}

/// A file of nothing, one of a block and a byte, one of 1 MB.
fn files() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    [0, BLOCK_BYTES as usize + 1, 1_000_000]
        .map(|size| (0..size).map(|_| rng.next_u64() as u8).collect())
        .to_vec()
}

#[test]
fn hetget_extracts_the_same_bytes() {
    if !have("hetget") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = files();
    let image = volume(dir.path(), &files);
    for (index, data) in files.iter().enumerate() {
        // Its files are what lies between marks: headers, data, trailers of each of ours.
        let number = 3 * index + 2;
        let extracted = dir.path().join(format!("extracted{number}"));
        // -n: labels are files like others, not IBM's; U: a record is whatever a block holds.
        let run = Command::new("hetget")
            .args(["-n".as_ref(), image.as_os_str(), extracted.as_os_str()])
            .args([&number.to_string(), "U", "0", &BLOCK_BYTES.to_string()])
            .output()
            .unwrap();
        let found = fs::read(&extracted).unwrap_or_else(|cause| panic!("file {number}: {cause}: {run:?}"));
        assert!(found == *data, "file {number}: {} of {} bytes: {run:?}", found.len(), data.len());
    }
}

#[test]
fn tapemap_sees_the_layout() {
    if !have("tapemap") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = volume(dir.path(), &files());
    let run = Command::new("tapemap").arg(&image).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    let seen: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("File ")).collect();
    let labels = |number: u32, count: u32| format!("{number}: Blocks={count}, block size min=80, max=80");
    let expected = [
        labels(1, 4),
        "2: Blocks=0, block size min=0, max=0".to_owned(),
        labels(3, 3),
        labels(4, 3),
        "5: Blocks=2, block size min=1, max=32768".to_owned(),
        labels(6, 3),
        labels(7, 3),
        "8: Blocks=31, block size min=16960, max=32768".to_owned(),
        labels(9, 3),
    ];
    assert_eq!(seen, expected, "{run:?}");
}
