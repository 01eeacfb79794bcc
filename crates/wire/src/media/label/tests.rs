use super::*;
use base::{FileId, Timestamp, Vid};
use proptest::prelude::*;

fn vid() -> Vid {
    "BP0001".parse().unwrap()
}

fn text<const N: usize>(text: &str) -> Text<N> {
    Text::new(text).unwrap()
}

fn writer() -> Writer {
    Writer {
        system: text("BACKPLANE 0.1"),
        site: text("LAB"),
        host: text("TAPE01"),
        vendor: text("VIRTUAL"),
        model: text("AWSTAPE"),
        serial: text("0000"),
    }
}

/// The label as text with `|` after each field, as the drawings of `spec/tape.md` have it.
fn drawn(label: &Label, widths: &[usize]) -> String {
    assert_eq!(widths.iter().sum::<usize>(), LABEL_BYTES);
    let mut text = std::str::from_utf8(label).unwrap();
    let mut drawn = String::new();
    for width in widths {
        let (field, rest) = text.split_at(*width);
        drawn += field;
        drawn += "|";
        text = rest;
    }
    drawn
}

#[test]
fn vol1_looks_as_drawn() {
    let label = Vol1 { vsn: vid(), owner: text("BACKPLANE"), protection: BlockProtection::Off };
    let expected = format!("VOL1|BP0001| |{0:13}|{0:13}|BACKPLANE     |{0:26}|00|3|", "");
    assert_eq!(drawn(&label.encode(), &[4, 6, 1, 13, 13, 14, 26, 2, 1]), expected);
    assert_eq!(Vol1::decode(&label.encode()), Ok(label));
}

#[test]
fn file_labels_look_as_drawn() {
    let labels = FileLabels { vid: vid(), fseq: 12_345, file_id: FileId(0xabc_def0), block_bytes: 262_144 };
    let today = LabelDate::new(2026, 325).unwrap();
    let [hdr1, hdr2, uhl1] = labels.headers(today, &writer());
    let widths = [4, 17, 6, 4, 4, 4, 2, 6, 6, 1, 6, 13, 7];
    let expected =
        "HDR1|ABCDEF0          |BP0001|0001|2345|0001|00|026325|026325| |000000|BACKPLANE 0.1|       |";
    assert_eq!(drawn(&hdr1, &widths), expected);
    let expected = format!("HDR2|F|00000|00000| |{0:18}|  |{0:14}|00|{0:28}|", "");
    assert_eq!(drawn(&hdr2, &[4, 1, 5, 5, 1, 18, 2, 14, 2, 28]), expected);
    let widths = [4, 10, 10, 10, 8, 10, 8, 8, 12];
    let expected =
        "UHL1|0000012345|0000262144|0000262144|LAB     |TAPE01    |VIRTUAL |AWSTAPE |0000        |";
    assert_eq!(drawn(&uhl1, &widths), expected);
    let [eof1, eof2, utl1] = labels.trailers(7_000_008, today, &writer());
    assert_eq!((&eof1[..4], &eof1[54..60]), (&b"EOF1"[..], &b"000008"[..]));
    assert_eq!((&eof2[..4], &utl1[..4]), (&b"EOF2"[..], &b"UTL1"[..]));
}

#[test]
fn block_lengths_from_100000_are_not_in_hdr2() {
    assert_eq!(Hdr2::new(Side::Header, 99_999, false).encode()[5..10], *b"99999");
    assert_eq!(Hdr2::new(Side::Header, 100_000, false).encode()[5..10], *b"00000");
}

#[test]
fn dates_of_all_centuries() {
    let date = |days| LabelDate::from_days_since_epoch(days).encode();
    assert_eq!(date(0), " 70001");
    assert_eq!(date(10_956), " 99365");
    assert_eq!(date(10_957), "000001");
    assert_eq!(date(11_016), "000060");
    assert_eq!(date(i64::MAX), "999365");
    assert_eq!(date(i64::MIN), " 00001");
    let noon = Timestamp(1_795_262_400_000);
    assert_eq!(LabelDate::from_timestamp(noon).to_string(), "2026-325");
    for bad in ["", "026366", "026000", "x26001", "0260010", "+26001", "02é01"] {
        assert_eq!(LabelDate::decode(bad), None, "{bad:?}");
    }
}

#[test]
fn a_label_of_another_file_is_noticed() {
    let labels = FileLabels { vid: vid(), fseq: 2, file_id: FileId(77), block_bytes: 32_768 };
    let today = LabelDate::new(2026, 1).unwrap();
    let others = [
        FileLabels { vid: "BP0002".parse().unwrap(), ..labels.clone() },
        FileLabels { fseq: 10_002, ..labels.clone() },
        FileLabels { file_id: FileId(78), ..labels.clone() },
        FileLabels { block_bytes: 262_144, ..labels.clone() },
    ];
    let passes = |labels: &FileLabels, written: &[Label; 3], side, blocks| {
        written.iter().enumerate().all(|(i, label)| labels.check(side, i, label, blocks).is_ok())
    };
    for other in &others {
        assert!(!passes(&labels, &other.headers(today, &writer()), Side::Header, 0), "{other:?}");
    }
    let trailers = labels.trailers(3, today, &writer());
    assert!(passes(&labels, &trailers, Side::Trailer, 3));
    assert!(passes(&labels, &trailers, Side::Trailer, 1_000_003));
    let wrong = labels.check(Side::Trailer, 0, &trailers[0], 4).unwrap_err();
    assert_eq!(wrong.to_string(), "label EOF1 says block count 3, expected 4");
    assert!(labels.check(Side::Header, 0, &trailers[0], 0).is_err());
}

#[test]
fn errors_name_label_and_field() {
    let mut label = Vol1 { vsn: vid(), owner: text("X"), protection: BlockProtection::Crc32c }.encode();
    label[30] = 0xff;
    let error = Vol1::decode(&label).unwrap_err().to_string();
    assert_eq!(error, "label VOL1: field implementation holds \"      ?      \", which is not spaces");
    assert_eq!(Vol1::decode(&label[..79]), Err(LabelError::Length { length: 79 }));
    let error = Hdr1::decode(&label).unwrap_err().to_string();
    assert_eq!(error, "\"VOL1\" stands where label HDR1 or EOF1 is expected");
}

#[test]
fn texts_are_made_to_fit() {
    assert_eq!(Text::<10>::fitted("  tape-server-07.example ").as_str(), "TAPE-SERVE");
    assert_eq!(Text::<4>::fitted("grün").as_str(), "GR_N");
    assert_eq!(Text::<3>::fitted("ab cd").as_str(), "AB");
    assert!(Text::<3>::new("abcd").is_err());
    assert!(Text::<3>::new("a ").is_err());
}

/// One of each label, with these numbers in it.
fn labels(fseq: u32, id: u64, blocks: u64, block_bytes: u32, days: i64) -> Vec<Label> {
    let labels = FileLabels { vid: vid(), fseq, file_id: FileId(id), block_bytes };
    let date = LabelDate::from_days_since_epoch(days);
    let vol1 = Vol1 { vsn: vid(), owner: text("BACKPLANE"), protection: BlockProtection::Off };
    let mut all = vec![vol1.encode()];
    all.extend(labels.headers(date, &writer()));
    all.extend(labels.trailers(blocks, date, &writer()));
    all
}

proptest! {
    #[test]
    fn a_date_survives(days in -25_567i64..376_200) {
        let date = LabelDate::from_days_since_epoch(days);
        prop_assert_eq!(date.days_since_epoch(), days);
        prop_assert_eq!(LabelDate::decode(&date.encode()), Some(date));
    }

    #[test]
    fn labels_of_a_file_pass_their_own_check(
        fseq: u32, id: u64, blocks: u64, block_bytes: u32, days in -25_567i64..376_200,
    ) {
        let written = labels(fseq, id, blocks, block_bytes, days);
        let expected = FileLabels { vid: vid(), fseq, file_id: FileId(id), block_bytes };
        for index in 0..3 {
            prop_assert_eq!(expected.check(Side::Header, index, &written[1 + index], 0), Ok(()));
            prop_assert_eq!(expected.check(Side::Trailer, index, &written[4 + index], blocks), Ok(()));
        }
    }

    #[test]
    fn changed_labels_never_panic(
        numbers: (u32, u64, u64, u32), which in 0usize..7,
        changes in prop::collection::vec((0usize..LABEL_BYTES, any::<u8>()), 0..4),
    ) {
        let (fseq, id, blocks, block_bytes) = numbers;
        let mut label = labels(fseq, id, blocks, block_bytes, 20_000)[which];
        fuzz_label(&label);
        for (at, value) in changes {
            label[at] = value;
        }
        fuzz_label(&label);
    }

    #[test]
    fn random_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzz_label(&data);
    }
}
