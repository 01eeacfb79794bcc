use super::{
    super::tests::{Bench, data, file, today, vid},
    *,
};
use crate::{
    label_io::{TapeFile, append_file, close_end, seek_append},
    virtual_drive::DriveOptions,
};
use base::ErrorKind;
use proptest::prelude::*;
use wire::{control::Blame, media::label::LabelDate};

const START: AppendPoint = AppendPoint { fseq: 1, block: 1, may_have_leftover: false };

impl Bench {
    /// Reads everything from the first file on; also where it ended, and how.
    fn survey(&mut self) -> (Vec<FoundFile>, AppendPoint, Result<bool, Fault>) {
        let (mut files, mut point) = (Vec::new(), START);
        assert!(begin_survey(&mut self.drive, &vid(), point).unwrap());
        loop {
            match next_file(&mut self.drive, &vid(), point, &mut |_| Ok(())) {
                Ok(Found::Files(found)) => {
                    let last = found.last().unwrap();
                    point = AppendPoint { fseq: last.fseq + 1, block: last.end_block, ..point };
                    files.extend(found);
                }
                Ok(Found::End { has_leftover }) => return (files, point, Ok(has_leftover)),
                Err(fault) => return (files, point, Err(fault)),
            }
        }
    }

    /// What makes a survey end with a fault of the volume.
    #[track_caller]
    fn told(&mut self, words: &str) {
        let (_, _, end) = self.survey();
        let fault = end.unwrap_err();
        assert_eq!((fault.blame, fault.failure.kind), (Blame::Volume, ErrorKind::Corrupt), "{fault}");
        assert!(fault.failure.what.contains(words), "{fault}");
    }
}

fn is_same(found: &FoundFile, file: &TapeFile) -> bool {
    (found.file, found.fseq, found.block) == (file.file_id, file.fseq, file.block)
        && (found.size, found.checksums, found.created) == (file.size, file.checksums, today().begins())
}

#[test]
fn what_was_written_is_found() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[0, 1, 1023, 1024, 1025, 100_000, 0]);
    let (found, end, leftover) = bench.survey();
    assert_eq!((end, leftover), (point, Ok(false)));
    assert_eq!(found.len(), files.len());
    assert!(found.iter().zip(&files).all(|(found, (file, _))| is_same(found, file)), "{found:?}");
    // It goes on where it was, and so does writing.
    let middle = AppendPoint { fseq: 4, block: found[3].block, ..START };
    assert!(begin_survey(&mut bench.drive, &vid(), middle).unwrap());
    let next = next_file(&mut bench.drive, &vid(), middle, &mut |_| Ok(())).unwrap();
    assert_eq!(next, Found::Files(vec![found[3].clone()]));
    seek_append(&mut bench.drive, &vid(), end).unwrap();
}

#[test]
fn volumes_without_files_are_told_apart() {
    let mut bench = Bench::new(DriveOptions::default());
    assert!(!begin_survey(&mut bench.drive, &vid(), START).unwrap(), "it is blank");
    let behind = AppendPoint { fseq: 2, block: 11, ..START };
    assert_eq!(begin_survey(&mut bench.drive, &vid(), behind).unwrap_err().blame, Blame::Volume);
    // The label, and all that an interruption leaves of it.
    for cut in [86, 100, 172, 177, 178] {
        let mut bench = Bench::labelled();
        bench.tamper(|image| image.truncate(cut));
        assert_eq!(bench.survey(), (Vec::new(), START, Ok(false)), "{cut}");
    }
    let mut bench = Bench::labelled();
    close_end(&mut bench.drive, &vid(), 1).unwrap();
    assert_eq!(bench.survey(), (Vec::new(), START, Ok(false)), "an append failed at once");
    let fault = begin_survey(&mut bench.drive, &"BP0002".parse().unwrap(), START).unwrap_err();
    assert!(fault.failure.what.contains("label says BP0001, expected BP0002"), "{fault}");
}

#[test]
fn what_an_interrupted_append_left_is_behind_the_end() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[5000]);
    let promised = data(5000, 9);
    let new = file(point, &promised);
    bench.append(&new, &promised[..3000]).unwrap_err();
    bench.drive.flush().unwrap();
    let (found, end, leftover) = bench.survey();
    assert_eq!((found.len(), end, leftover), (1, point, Ok(true)));
    close_end(&mut bench.drive, &vid(), point.block).unwrap();
    assert_eq!(bench.survey(), (found, point, Ok(false)));
    assert!(bench.read(&files[0].0).unwrap() == files[0].1);
}

#[test]
fn what_is_no_file_is_told() {
    let mut bench = Bench::labelled();
    let (files, point) = bench.fill(1024, &[100]);
    let block = |bench: &mut Bench, blocks: &[&[u8]]| {
        bench.drive.locate(point.block).unwrap();
        for block in blocks {
            let _ = bench.drive.write_block(block).unwrap();
        }
        bench.drive.flush().unwrap();
    };
    block(&mut bench, &[b"noise"]);
    bench.told("a block of 5 bytes stands where a label");
    let labels = |fseq, vid: &str| {
        let labels = FileLabels { vid: vid.parse().unwrap(), fseq, file_id: FileId(7), block_bytes: 10 };
        let style = Bench::labelled().style(10);
        labels.headers(today(), &style.writer)
    };
    block(&mut bench, &[&labels(3, "BP0001")[0]]);
    bench.told("label HDR1 says file sequence 3, expected 2");
    block(&mut bench, &[&labels(2, "BP0009")[0]]);
    bench.told("label HDR1 says VSN BP0009, expected BP0001");
    let [hdr1, hdr2, _] = labels(2, "BP0001");
    block(&mut bench, &[&hdr1, &hdr1]);
    assert_eq!(bench.survey().2, Ok(true), "a second label that may be torn is not looked at");
    block(&mut bench, &[&hdr1, &hdr1, &hdr1]);
    bench.told("UHL1");
    block(&mut bench, &[&hdr1, &hdr2, &labels(10_002, "BP0001")[2]]);
    bench.told("label UHL1 says file sequence 10002, expected 2");
    bench.drive.locate(point.block).unwrap();
    let _ = bench.drive.write_filemarks(2).unwrap();
    bench.told("data lie behind the closing mark");
    assert_eq!(bench.survey().0.len(), 1, "what lies before it counts");
    assert!(bench.read(&files[0].0).unwrap() == files[0].1);
}

#[test]
fn a_label_of_an_empty_volume_stands_at_its_beginning_only() {
    let mut bench = Bench::labelled();
    let (_, point) = bench.fill(1024, &[100]);
    let hdr1 = Hdr1 {
        side: Side::Header,
        file: LabelName::Prelabel,
        vsn: vid(),
        sequence: 1,
        created: LabelDate::new(2026, 1).unwrap(),
        expires: today(),
        blocks: 0,
        system: wire::media::label::Text::fitted("X"),
    };
    bench.drive.locate(point.block).unwrap();
    let _ = bench.drive.write_block(&hdr1.encode()).unwrap();
    bench.told("found PRELABEL of volume BP0001 at block");
    bench.drive.locate(1).unwrap();
    for _ in 0..2 {
        let _ = bench.drive.write_block(&hdr1.encode()).unwrap();
    }
    bench.told("found a block of 80 bytes, expected the mark behind PRELABEL");
}

#[test]
fn it_can_be_ended_in_the_middle_of_a_file() {
    let mut bench = Bench::labelled();
    bench.fill(1024, &[5000]);
    let mut left = 2;
    let mut seen = |_: usize| {
        left -= 1;
        if left == 0 { Err(base::Failure::unavailable("time to stop")) } else { Ok(()) }
    };
    let fault = next_file(&mut bench.drive, &vid(), START, &mut seen).unwrap_err();
    assert_eq!((fault.blame, fault.failure.what.as_str()), (Blame::System, "time to stop"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_was_archived_is_found_as_it_was(sizes in prop::collection::vec(0usize..3000, 0..6), block_bytes in 1u32..700) {
        let mut bench = Bench::labelled();
        let (files, point) = bench.fill(block_bytes, &sizes);
        let (found, end, leftover) = bench.survey();
        prop_assert_eq!((end, leftover), (point, Ok(false)));
        prop_assert_eq!(found.len(), files.len());
        prop_assert!(found.iter().zip(&files).all(|(found, (file, _))| is_same(found, file)));
    }

    #[test]
    fn a_cut_volume_has_the_files_before_it(cut in any::<prop::sample::Index>(), block_bytes in 100u32..400) {
        let mut bench = Bench::labelled();
        let (files, _) = bench.fill(block_bytes, &[700, 0, 300]);
        bench.tamper(|image| {
            // VOL1 stays: without it the medium is blank.
            let kept = 86 + cut.index(image.len() - 85);
            image.truncate(kept);
        });
        let (found, point, leftover) = bench.survey();
        for (at, (file, _)) in files.iter().enumerate() {
            prop_assert_eq!(bench.read(file).is_ok(), at < found.len());
        }
        // Appending works behind it, whatever was left.
        let may_have_leftover = leftover.unwrap();
        let point = AppendPoint { may_have_leftover, ..point };
        seek_append(&mut bench.drive, &vid(), point).unwrap();
        bench.drive.locate(point.block).unwrap();
        let more = data(500, 3);
        let style = bench.style(100);
        let new = file(point, &more);
        append_file(&mut bench.drive, &new, &style, &mut super::super::tests::pieces(&more)).unwrap();
        prop_assert_eq!(bench.survey().0.len(), found.len() + 1);
    }

    /// Nothing is read that was not written: a file that is found is one of those, or its data were changed, for which labels
    /// have no sums.
    #[test]
    fn a_changed_byte_makes_no_other_file(at in any::<prop::sample::Index>(), bit in 0u32..8, block_bytes in 1u32..400) {
        let mut bench = Bench::labelled();
        let (files, _) = bench.fill(block_bytes, &[700, 0, 300]);
        bench.tamper(|image| {
            let at = 86 + at.index(image.len() - 86);
            image[at] ^= 1 << bit;
        });
        let (found, ..) = bench.survey();
        for (found, (file, _)) in found.iter().zip(&files) {
            prop_assert_eq!((found.fseq, found.block, found.size), (file.fseq, file.block, file.size));
        }
        prop_assert!(found.len() <= files.len());
    }
}
