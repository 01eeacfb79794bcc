use super::*;
use crate::{
    changer::{Changer, ElementAddress},
    drive::{Read, SpaceKind},
    fault::Fault,
    virtual_drive::{DriveOptions, VirtualDrive},
    virtual_library::VirtualLibrary,
};
use base::{ErrorKind, Failure, FileId, Result, rng::Rng};
use proptest::prelude::*;
use std::{fs, path::PathBuf};
use wire::control::{AppendPoint, Blame};

/// A drive with the blank volume BP0001 in it.
pub(super) struct Bench {
    dir: tempfile::TempDir,
    pub(super) drive: VirtualDrive,
}

impl Bench {
    pub(super) fn new(options: DriveOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let library = VirtualLibrary::create(dir.path().join("lib"), 1, 1, &[vid()]).unwrap();
        let mut library = library.with_options(options);
        library.move_medium(ElementAddress(1001), ElementAddress(500)).unwrap();
        let mut drive = library.drive(0).unwrap();
        drive.load().unwrap();
        Self { dir, drive }
    }

    /// With a label on the volume.
    pub(super) fn labelled() -> Self {
        let mut bench = Self::new(DriveOptions::default());
        label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap();
        bench
    }

    pub(super) fn append(&mut self, file: &TapeFile, data: &[u8]) -> Result<Appended, Fault> {
        self.append_blocks(file, 1024, data)
    }

    fn append_blocks(&mut self, file: &TapeFile, block_bytes: u32, data: &[u8]) -> Result<Appended, Fault> {
        let style = self.style(block_bytes);
        append_file(&mut self.drive, file, &style, &mut pieces(data))
    }

    pub(super) fn style(&self, block_bytes: u32) -> Style {
        Style { block_bytes, today: today(), writer: writer(&self.drive, "lab", "tape01.example") }
    }

    /// Writes files of these sizes from the first place on; returns them and where the next goes.
    pub(super) fn fill(
        &mut self,
        block_bytes: u32,
        sizes: &[usize],
    ) -> (Vec<(TapeFile, Vec<u8>)>, AppendPoint) {
        let mut point = AppendPoint { fseq: 1, block: 1, may_have_leftover: false };
        seek_append(&mut self.drive, &vid(), point).unwrap();
        let mut files = Vec::new();
        for size in sizes {
            let data = data(*size, u64::from(point.fseq));
            let file = file(point, &data);
            let appended = self.append_blocks(&file, block_bytes, &data).unwrap();
            assert_eq!(appended.blocks, size.div_ceil(block_bytes as usize) as u64);
            point = AppendPoint { fseq: point.fseq + 1, block: appended.end_block, ..point };
            files.push((file, data));
        }
        self.drive.flush().unwrap();
        (files, point)
    }

    pub(super) fn read(&mut self, file: &TapeFile) -> Result<Vec<u8>, Fault> {
        let mut data = Vec::new();
        let mut sink = |block: &[u8]| {
            data.extend_from_slice(block);
            Ok(())
        };
        read_file(&mut self.drive, file, &mut sink).map(|()| data)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("lib/drive/0/BP0001.aws")
    }

    /// Changes the image behind the drive's back.
    pub(super) fn tamper(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.drive.unload().unwrap();
        let mut image = fs::read(self.image()).unwrap();
        change(&mut image);
        fs::write(self.image(), image).unwrap();
        self.drive.load().unwrap();
    }
}

pub(super) fn vid() -> Vid {
    "BP0001".parse().unwrap()
}

pub(super) fn today() -> LabelDate {
    LabelDate::new(2026, 325).unwrap()
}

pub(super) fn data(size: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..size).map(|_| rng.next_u64() as u8).collect()
}

pub(super) fn file(point: AppendPoint, data: &[u8]) -> TapeFile {
    let AppendPoint { fseq, block, .. } = point;
    let file_id = FileId(1000 + u64::from(fseq));
    TapeFile { vid: vid(), fseq, file_id, block, size: data.len() as u64, checksums: Checksums::of(data) }
}

/// A source that gives `data` in pieces of odd sizes.
pub(super) fn pieces(data: &[u8]) -> impl FnMut(&mut [u8]) -> Result<usize> {
    let (mut rest, mut rng) = (data, Rng::new(5));
    move |buffer| {
        let piece = rest.len().min(buffer.len()).min(1 + rng.below(5000) as usize);
        buffer[..piece].copy_from_slice(&rest[..piece]);
        rest = &rest[piece..];
        Ok(piece)
    }
}

#[test]
fn a_blank_volume_gets_a_label_once() {
    let mut bench = Bench::new(DriveOptions::default());
    let blank = check_label(&mut bench.drive, &vid()).unwrap_err();
    assert_eq!(blank.blame, Blame::Volume);
    assert_eq!(blank.failure.what, "volume BP0001 (drive lib.drive0): the data end, expected VOL1");
    label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap();
    assert_eq!(check_label(&mut bench.drive, &vid()).unwrap().vsn, vid());
    // Again, as after a label session whose report was lost.
    label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap();
    let other = "BP0002".parse().unwrap();
    let refused = label_volume(&mut bench.drive, &other, Relabel::Refuse, today()).unwrap_err();
    assert_eq!((refused.blame, refused.failure.kind), (Blame::Volume, ErrorKind::Exists));
    assert!(refused.failure.what.ends_with("begins with the label of volume BP0001"), "{refused}");
    label_volume(&mut bench.drive, &other, Relabel::LoseEverything, today()).unwrap();
    let wrong = check_label(&mut bench.drive, &vid()).unwrap_err();
    assert_eq!(wrong.failure.what, "volume BP0001 (drive lib.drive0): label says BP0002, expected BP0001");
    assert!(wrong.failure.hint.is_some());
}

#[test]
fn files_of_all_sizes_come_back() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[0, 1, 1023, 1024, 1025, 100_000]);
    assert_eq!(point.block, 1 + 6 * OBJECTS_AROUND_DATA + (1 + 1 + 1 + 2 + 98));
    for (file, data) in files.iter().rev() {
        assert!(bench.read(file).unwrap() == *data);
    }
    bench.drive.unload().unwrap();
    bench.drive.load().unwrap();
    for (file, data) in &files {
        assert!(bench.read(file).unwrap() == *data);
    }
    seek_append(&mut bench.drive, &vid(), point).unwrap();
    assert_eq!(bench.drive.position().unwrap().block, point.block);
}

#[test]
fn blocks_of_256_kib_go_over_several_chunks() {
    let mut bench = Bench::labelled();
    let (files, _) = bench.fill(base::limits::TAPE_BLOCK_BYTES, &[700_000, 262_144]);
    for (file, data) in &files {
        assert!(bench.read(file).unwrap() == *data);
    }
}

#[test]
fn everything_that_differs_is_told() {
    let mut bench = Bench::labelled();
    let (files, _) = bench.fill(1024, &[5000, 3000]);
    let good = &files[1].0;
    let told = |bench: &mut Bench, file: &TapeFile, words: &str| {
        let fault = bench.read(file).unwrap_err();
        assert_eq!((fault.blame, fault.failure.kind), (Blame::Volume, ErrorKind::Corrupt), "{fault}");
        let what = &fault.failure.what;
        assert!(
            what.contains("BP0001 file ") && what.contains("(drive lib.drive0)") && what.contains(words),
            "{what}"
        );
        assert!(fault.failure.hint.is_some());
    };
    let bench = &mut bench;
    told(bench, &TapeFile { fseq: 3, ..good.clone() }, "label HDR1 says file sequence 2, expected 3");
    told(
        bench,
        &TapeFile { fseq: 10_002, ..good.clone() },
        "label UHL1 says file sequence 2, expected 10002",
    );
    told(bench, &TapeFile { file_id: FileId(7), ..good.clone() }, "label HDR1 says file id 1002, expected 7");
    told(bench, &TapeFile { block: good.block - 1, ..good.clone() }, "found a tape mark, expected a label");
    told(bench, &TapeFile { block: good.block + 1, ..good.clone() }, "found a tape mark, expected a label");
    told(bench, &TapeFile { block: 999, ..good.clone() }, "block 999 is beyond the end of the data");
    told(bench, &TapeFile { size: 2999, ..good.clone() }, "data continue after byte 2999");
    told(bench, &TapeFile { size: 3001, ..good.clone() }, "tape has 3000 bytes, expected 3001");
    let checksums = Checksums::of(b"other");
    told(bench, &TapeFile { checksums, ..good.clone() }, "crc32c:");
}

#[test]
fn a_source_that_is_not_the_file_leaves_no_trailer() {
    let mut bench = Bench::labelled();
    let (_, point) = bench.fill(1024, &[100]);
    let promised = data(5000, 9);
    let file = file(point, &promised);
    let mut other = promised.clone();
    other[4000] ^= 1;
    for source in [&promised[..4999], &other[..], &[&promised[..], b"more"].concat()[..]] {
        seek_append(&mut bench.drive, &vid(), AppendPoint { may_have_leftover: true, ..point }).unwrap();
        let fault = bench.append(&file, source).unwrap_err();
        assert_eq!((fault.blame, fault.failure.kind), (Blame::File, ErrorKind::Corrupt));
        assert_eq!(bench.read(&file).unwrap_err().blame, Blame::Volume);
    }
    bench.drive.locate(point.block).unwrap();
    bench.append(&file, &promised).unwrap();
    assert!(bench.read(&file).unwrap() == promised);
}

#[test]
fn who_fails_on_disk_is_told_apart() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[5000]);
    let new = file(point, &[1; 10]);
    let style = bench.style(1024);
    let mut gone = |_: &mut [u8]| Err(Failure::unavailable("disk server d1 is gone"));
    let fault = append_file(&mut bench.drive, &new, &style, &mut gone).unwrap_err();
    assert_eq!((fault.blame, fault.failure), (Blame::System, Failure::unavailable("disk server d1 is gone")));
    let mut full = |_: &[u8]| Err(Failure::no_space("partition p1 is full"));
    let fault = read_file(&mut bench.drive, &files[0].0, &mut full).unwrap_err();
    assert_eq!((fault.blame, fault.failure), (Blame::File, Failure::no_space("partition p1 is full")));
}

#[test]
fn an_interrupted_append_is_written_over() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[5000]);
    let lost = data(9000, 1);
    bench.append(&file(point, &lost), &lost).unwrap();
    bench.drive.flush().unwrap();
    // The process dies before the head has heard of the file, and in the middle of the next one.
    bench.tamper(|image| image.truncate(image.len() - 700));
    let fault = seek_append(&mut bench.drive, &vid(), point).unwrap_err();
    assert_eq!(fault.blame, Blame::Volume);
    assert!(fault.failure.what.contains("found data at block 15, expected the end of the data"), "{fault}");
    seek_append(&mut bench.drive, &vid(), AppendPoint { may_have_leftover: true, ..point }).unwrap();
    let kept = data(100, 2);
    let next = file(point, &kept);
    let appended = bench.append(&next, &kept).unwrap();
    assert!(bench.read(&files[0].0).unwrap() == files[0].1);
    assert!(bench.read(&next).unwrap() == kept);
    bench.drive.locate(appended.end_block).unwrap();
    assert_eq!(bench.drive.read_block(&mut Vec::new()).unwrap(), Read::End);
}

#[test]
fn a_volume_with_files_is_not_labelled_again() {
    let mut bench = Bench::labelled();
    let (files, _) = bench.fill(1024, &[10]);
    let refused = label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap_err();
    assert_eq!((refused.blame, refused.failure.kind), (Blame::Volume, ErrorKind::Exists));
    assert!(bench.read(&files[0].0).unwrap() == files[0].1);
}

#[test]
fn a_label_that_was_torn_is_written_again() {
    for cut in [0, 3, 86, 100, 172, 177] {
        let mut bench = Bench::labelled();
        bench.tamper(|image| image.truncate(cut));
        label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap();
        assert_eq!(check_label(&mut bench.drive, &vid()).unwrap().vsn, vid());
        bench.fill(1024, &[10]);
    }
}

#[test]
fn a_failed_append_is_closed_with_a_mark() {
    for sizes in [&[][..], &[5000]] {
        let mut bench = Bench::labelled();
        let (files, point) = bench.fill(1024, sizes);
        let promised = data(5000, 9);
        let new = file(point, &promised);
        bench.append(&new, &promised[..3000]).unwrap_err();
        bench.drive.flush().unwrap();
        assert_eq!(seek_append(&mut bench.drive, &vid(), point).unwrap_err().blame, Blame::Volume);
        close_end(&mut bench.drive, &vid(), point.block).unwrap();
        seek_append(&mut bench.drive, &vid(), point).unwrap();
        bench.append(&new, &promised).unwrap();
        assert!(bench.read(&new).unwrap() == promised);
        for (file, data) in &files {
            assert!(bench.read(file).unwrap() == *data);
        }
    }
}

#[test]
fn appending_at_a_wrong_place_is_refused() {
    let mut bench = Bench::labelled();
    let (_, point) = bench.fill(1024, &[5000, 100]);
    let blame = |bench: &mut Bench, point| seek_append(&mut bench.drive, &vid(), point).unwrap_err().blame;
    for wrong in [
        AppendPoint { fseq: 0, ..point },
        AppendPoint { fseq: 1, ..point },
        AppendPoint { block: 9, ..point },
        AppendPoint { block: 0, ..point },
    ] {
        assert_eq!(blame(&mut bench, wrong), Blame::System);
    }
    for wrong in [
        AppendPoint { fseq: 4, ..point },
        AppendPoint { fseq: 2, ..point },
        AppendPoint { block: point.block - 1, ..point },
        AppendPoint { block: point.block + 1, ..point },
        AppendPoint { fseq: 1, block: 1, may_have_leftover: false },
    ] {
        assert_eq!(blame(&mut bench, wrong), Blame::Volume, "{wrong:?}");
    }
    let stray = TapeFile { block: point.block + 1, ..file(point, b"") };
    bench.drive.locate(point.block).unwrap();
    assert_eq!(bench.append(&stray, b"").unwrap_err().blame, Blame::System);
}

#[test]
fn the_end_of_the_medium_warns_and_then_is_hard() {
    let options = DriveOptions {
        capacity_bytes: 60_000,
        early_warning_bytes: 20_000,
        buffer_bytes: 1,
        ..DriveOptions::default()
    };
    let mut bench = Bench::new(options);
    label_volume(&mut bench.drive, &vid(), Relabel::Refuse, today()).unwrap();
    let (_, point) = bench.fill(1024, &[20_000]);
    let last = data(20_000, 3);
    let last_file = file(point, &last);
    let appended = bench.append(&last_file, &last).unwrap();
    assert!(appended.is_nearly_full);
    let point = AppendPoint { fseq: 3, block: appended.end_block, ..point };
    let fault = bench.append(&file(point, &last), &last).unwrap_err();
    assert_eq!((fault.blame, fault.failure.kind), (Blame::Volume, ErrorKind::NoSpace));
    bench.drive.flush().unwrap();
    assert!(bench.read(&last_file).unwrap() == last);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_changed_byte_gets_through(at in any::<prop::sample::Index>(), bit in 0u32..8, block_bytes in 1u32..400) {
        let mut bench = Bench::labelled();
        let (files, _) = bench.fill(block_bytes, &[700, 0, 300]);
        bench.tamper(|image| {
            let at = at.index(image.len());
            image[at] ^= 1 << bit;
        });
        for (file, data) in &files {
            if let Ok(read) = bench.read(file) {
                prop_assert!(read == *data);
            }
        }
    }

    #[test]
    fn a_cut_volume_keeps_the_files_before_it(cut in any::<prop::sample::Index>(), block_bytes in 100u32..400) {
        let mut bench = Bench::labelled();
        let (files, _) = bench.fill(block_bytes, &[700, 0, 300]);
        let mut kept = 0;
        bench.tamper(|image| {
            kept = cut.index(image.len() + 1);
            image.truncate(kept);
        });
        bench.drive.space(SpaceKind::EndOfData, 0).unwrap();
        let end = bench.drive.position().unwrap().block;
        for (index, (file, data)) in files.iter().enumerate() {
            let next = files.get(index + 1).map_or(u64::MAX, |(next, _)| next.block);
            let blocks = data.len().div_ceil(block_bytes as usize) as u64;
            let is_whole = end >= next.min(file.block + OBJECTS_AROUND_DATA + blocks);
            prop_assert_eq!(bench.read(file).is_ok(), is_whole);
        }
    }
}
