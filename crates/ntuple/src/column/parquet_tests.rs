use super::{
    super::{
        Array,
        testing::{Data, Layout, source, write},
    },
    *,
};
use ::parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use proptest::prelude::*;

fn some<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    values.iter().map(|value| Some(*value)).collect()
}

fn sample(layout: &Layout) -> Vec<u8> {
    let floats: Vec<f32> = (0..2500u16).map(f32::from).collect();
    let longs: Vec<i64> = (0..2500).map(|i| i << 33).collect();
    write(
        &[
            ("a", "required float", Data::F32(some(&floats))),
            (
                "b",
                "optional double",
                Data::F64(floats.iter().map(|x| (*x as i32 % 3 != 0).then_some(f64::from(*x))).collect()),
            ),
            ("c", "optional int64", Data::I64(some(&longs))),
            ("d", "optional int32", Data::I32((0..2500).map(|i| (i != 1700).then_some(i)).collect())),
            ("e", "required boolean", Data::Bool((0..2500).map(|i| Some(i % 2 == 1)).collect())),
            ("f", "required binary", Data::Text(vec![Some("x"); 2500])),
        ],
        layout,
    )
}

fn layouts() -> Vec<Layout> {
    [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::try_new(1).unwrap()),
        Compression::GZIP(GzipLevel::try_new(6).unwrap()),
        Compression::BROTLI(BrotliLevel::try_new(1).unwrap()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ]
    .into_iter()
    .flat_map(|compression| [(compression, false), (compression, true)])
    .map(|(compression, is_version_2)| Layout { compression, is_version_2, ..Layout::default() })
    .collect()
}

fn kinds(file: &ParquetFile) -> Vec<Result<Kind, &str>> {
    file.columns().iter().map(FileColumn::kind).collect()
}

#[test]
fn every_kind_of_column_is_read() {
    for layout in layouts() {
        let file = ParquetFile::open(source("f.parquet", sample(&layout))).unwrap();
        assert_eq!((file.entries(), file.row_groups(), file.rows(2)), (2500, 3, 500));
        let text = Err("is text or bytes, not numbers");
        let numbers = [Kind::F32, Kind::F64, Kind::I64, Kind::I32, Kind::Bool].map(Ok);
        assert_eq!(kinds(&file), [&numbers[..], &[text]].concat());
        let all = |array: Array| Values::from(array);
        assert_eq!(file.read(2, 0).unwrap(), all(Array::F32((2000..2500u16).map(f32::from).collect())));
        let Values { array: Array::F64(b), present: None, .. } = file.read(1, 1).unwrap() else {
            panic!("b")
        };
        assert!((0..1000).all(|i| if (1000 + i) % 3 == 0 {
            b[i].is_nan()
        } else {
            b[i] == (1000 + i) as f64
        }));
        assert_eq!(file.read(0, 2).unwrap(), all(Array::I64((0..1000).map(|i| i << 33).collect())));
        assert_eq!(file.read(0, 3).unwrap(), all(Array::I32((0..1000).collect())));
        let d = file.read(1, 3).unwrap();
        let Values { array: Array::I32(values), present: Some(present), .. } = d else { panic!("d") };
        assert!((0..1000).all(|i| present[i] == u8::from(i != 700)));
        assert!((0..1000).all(|i| i == 700 || values[i] == 1000 + i as i32));
        assert_eq!(file.read(0, 4).unwrap(), all(Array::Bool((0..1000).map(|i| (i % 2) as u8).collect())));
        assert_eq!(file.read(0, 5).unwrap_err().kind, ErrorKind::Unsupported);
    }
}

#[test]
fn types_do_not_depend_on_statistics() {
    let open = |has_statistics| {
        let layout = Layout { has_statistics, ..Layout::default() };
        ParquetFile::open(source("f.parquet", sample(&layout))).unwrap()
    };
    let (with, without) = (open(true), open(false));
    assert_eq!(kinds(&with), kinds(&without));
    let optional = |file: &ParquetFile| -> Vec<bool> {
        file.columns().iter().map(|column| column.is_optional).collect()
    };
    assert_eq!(optional(&with), [false, true, true, true, false, false]);
    assert_eq!(optional(&with), optional(&without));
    assert_eq!(with.read(1, 3).unwrap(), without.read(1, 3).unwrap());
}

#[test]
fn two_columns_of_one_name_are_not_supported() {
    let x = ("x", "required float", Data::F32(some(&[1.0])));
    let columns = [x.clone(), ("y", "required float", Data::F32(some(&[2.0]))), x];
    let file = ParquetFile::open(source("f", write(&columns, &Layout::default()))).unwrap();
    let twice = Err("is there 2 times; give each a name of its own");
    assert_eq!(kinds(&file), [twice, Ok(Kind::F32), twice]);
}

#[test]
fn what_is_encrypted_is_not_damaged() {
    let mut bytes = sample(&Layout::default());
    let end = bytes.len();
    bytes[end - 1] = b'E';
    let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
    assert_eq!((failure.kind, &*failure.what), (ErrorKind::Unsupported, "f: is encrypted"));
}

/// `bytes` of an uncompressed file, with the codec of column `name` in the footer replaced.
fn with_codec(bytes: &mut [u8], name: &str, codec: u8) {
    let mut head = vec![0x19, 0x18, name.len() as u8];
    head.extend(name.as_bytes());
    head.push(0x15);
    let places: Vec<usize> =
        (0..bytes.len() - head.len()).filter(|at| bytes[*at..].starts_with(&head)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at + head.len()] = codec << 1;
    }
}

#[test]
fn codecs_that_are_not_read_are_named() {
    let layout = Layout { compression: Compression::UNCOMPRESSED, ..Layout::default() };
    let mut bytes = sample(&layout);
    with_codec(&mut bytes, "c", 3);
    let file = ParquetFile::open(source("f", bytes.clone())).unwrap();
    assert_eq!(kinds(&file)[2], Err("is compressed with LZO, which is not supported"));
    assert_eq!(file.read(0, 0).unwrap().array.len(), 1000);
    with_codec(&mut bytes, "c", 9);
    let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Unsupported);
    assert_eq!(failure.what, "f: column \"c\" is compressed with codec 9, which is not known");
}

#[test]
fn a_column_chunk_before_the_file_is_damaged_and_quiet() {
    let columns = [("x", "required double", Data::F64(some(&[1.0])))];
    let layout = Layout { has_statistics: false, ..Layout::default() };
    let mut bytes = write(&columns, &layout);
    // data_page_offset, or dictionary_page_offset: 4 as a zigzag number, in the footer.
    let footer =
        bytes.len() - 8 - u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let at =
        (footer..bytes.len() - 1).find(|at| [[0x26, 8], [0x36, 8]].contains(&[bytes[*at], bytes[at + 1]]));
    bytes[at.unwrap() + 1] = 7;
    let failure = ParquetFile::open(source("f", bytes)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.starts_with("f: footer: column \"x\" begins before the file"), "{failure}");
}

#[test]
fn deeper_columns_are_refused_with_a_reason() {
    let schema = "message m { repeated group v { repeated group w { required float x; } } }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    parquet::file::writer::SerializedFileWriter::new(&mut bytes, schema, Arc::default())
        .unwrap()
        .close()
        .unwrap();
    let file = ParquetFile::open(source("n", bytes)).unwrap();
    assert!(kinds(&file)[0].unwrap_err().starts_with("is a list of lists"));
}

#[test]
fn what_is_no_parquet_file_is_corrupt() {
    for bytes in [
        vec![],
        vec![0; 11],
        vec![0; 100],
        b"PAR1\xff\xff\xff\x7fPAR1".to_vec(),
        b"PAR1\x04\0\0\0PAR1".to_vec(),
    ] {
        let failure = ParquetFile::open(source("g", bytes)).unwrap_err();
        assert_eq!(failure.kind, base::ErrorKind::Corrupt, "{failure}");
        assert!(failure.what.starts_with("g: "));
    }
    let mut cut = sample(&Layout::default());
    cut.drain(4..5000);
    assert!(ParquetFile::open(source("h", cut)).and_then(|file| file.read(2, 0)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_never_panic(mut data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_parquet(&data);
        data.extend(b"\x20\0\0\0PAR1");
        fuzz_parquet(&data);
    }

    #[test]
    fn damaged_files_never_panic(
        which in 0usize..14,
        at in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        byte: u8,
        in_footer: bool,
    ) {
        let mut bytes = sample(&layouts()[which]);
        let length = bytes.len();
        let footer = u32::from_le_bytes(bytes[length - 8..length - 4].try_into().unwrap()) as usize;
        for at in at {
            let place = if in_footer { length - 8 - footer + at.index(footer) } else { at.index(length) };
            bytes[place] = byte;
        }
        fuzz_parquet(&bytes);
    }
}
