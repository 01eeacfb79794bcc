use super::*;
use proptest::prelude::*;

fn key(identity: &str, column: u32) -> Key {
    (identity.into(), 3, column)
}

fn floats(count: usize, value: f32) -> Values {
    Array::F32(vec![value; count]).into()
}

fn samples() -> Vec<Values> {
    let list = |array| Values { array, present: Some(vec![1, 0]), offsets: Some(Arc::new(vec![0, 2, 2])) };
    vec![
        floats(3, f32::NAN.copysign(-1.0)),
        Array::F64(vec![1.5, f64::INFINITY]).into(),
        list(Array::I32(vec![-1, 7])),
        list(Array::I64(vec![i64::MIN, 0])),
        Values { present: Some(vec![0]), ..Array::Bool(vec![1]).into() },
        Array::Bool(vec![]).into(),
    ]
}

#[test]
fn a_column_survives_and_nothing_else_is_taken_for_it() {
    for values in samples() {
        let bytes = encode(&key("f", 1), &values);
        let read = decode(&key("f", 1), &bytes).unwrap();
        assert_eq!(
            (format!("{:?}", read.array), &read.present),
            (format!("{:?}", values.array), &values.present)
        );
        assert_eq!(read.offsets, values.offsets);
        for other in [key("g", 1), key("f", 2), key("ff", 1)] {
            assert!(decode(&other, &bytes).is_none());
        }
        for at in 0..bytes.len() {
            assert!(decode(&key("f", 1), &bytes[..at]).is_none(), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(decode(&key("f", 1), &damaged).is_none(), "damaged at {at}");
        }
    }
}

#[test]
fn the_next_process_finds_what_this_one_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let tier = DiskTier::open(folder.path(), 1 << 20).unwrap();
    assert_eq!(tier.get(&key("f", 0)), None);
    tier.put(&key("f", 0), &floats(10, 1.0));
    let again = DiskTier::open(folder.path(), 1 << 20).unwrap();
    assert_eq!(again.get(&key("f", 0)), Some(floats(10, 1.0)));
    assert_eq!(again.get(&key("f2", 0)), None);
    let held = encode(&key("f", 0), &floats(10, 1.0)).len() as u64;
    assert_eq!(again.use_now(), DiskUse { capacity_bytes: 1 << 20, held_bytes: held, hits: 1, misses: 1 });
    // What is damaged is removed and decoded again.
    let path = again.path(&key("f", 0));
    fs::write(&path, b"bpcolumn").unwrap();
    assert_eq!(again.get(&key("f", 0)), None);
    assert!(!path.exists());
}

#[test]
fn the_directory_is_bounded_and_the_longest_unused_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let length = encode(&key("f", 0), &floats(250, 0.0)).len() as u64;
    let capacity = 32 * length;
    let tier = DiskTier::open(folder.path(), capacity).unwrap();
    let mut clock = SystemTime::UNIX_EPOCH;
    for column in 0..100 {
        tier.put(&key("f", column), &floats(250, 0.0));
        // A clock of the file system may not step between two writes.
        for used in [0, column] {
            clock += std::time::Duration::from_secs(1);
            if let Ok(file) = File::open(tier.path(&key("f", used))) {
                file.set_modified(clock).unwrap();
            }
        }
        let held: u64 =
            fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().metadata().unwrap().len()).sum();
        assert!(held <= capacity, "{held} of {capacity}");
    }
    assert!(tier.get(&key("f", 0)).is_some(), "it was used all the time");
    assert!(tier.get(&key("f", 99)).is_some() && tier.get(&key("f", 1)).is_none());
    tier.put(&key("huge", 0), &floats(100_000, 0.0));
    assert!(tier.get(&key("huge", 0)).is_none());
}

#[test]
fn what_killed_processes_left_goes_after_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let begin = |name: &str, age: Duration| {
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    begin("17.0.part", 2 * PART_AGE_MAX);
    begin("17.1.part", PART_AGE_MAX / 2);
    begin("film.1.part", 2 * PART_AGE_MAX);
    begin("17.part", 2 * PART_AGE_MAX);
    DiskTier::open(folder.path(), 1 << 20).unwrap();
    let names = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name());
    let mut left: Vec<_> = names.collect();
    left.sort();
    assert_eq!(left, ["17.1.part", "17.part", "film.1.part"]);
}

#[test]
fn a_directory_where_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/cache");
    DiskTier::open(&place, 1000).unwrap();
    assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    let failure = DiskTier::open(&place, 1000).err().unwrap();
    assert!(failure.what.contains("others may write in the directory"), "{failure}");
}

proptest! {
    #[test]
    fn any_bytes_never_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_disk_column(&data);
    }
}
