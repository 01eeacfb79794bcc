use super::*;
use std::os::unix::fs::MetadataExt;
use wire::media::object::{Holder, Label};

fn partition() -> (tempfile::TempDir, Partition) {
    let directory = tempfile::tempdir().unwrap();
    let partition = Partition::create(&directory.path().join("p"), "f-1", "p").unwrap();
    (directory, partition)
}

fn write(partition: &Partition, object: u64, content: &[u8]) {
    let writer = partition.create_object(ObjectId(object)).unwrap();
    writer.write_at(content, 0).unwrap();
    let (path, holder) = ("/a".parse().unwrap(), Holder::default());
    let label = Label { file: FileId(1), path, generation: object, holder, piece: None };
    writer.commit(&label, None, Timestamp(1)).unwrap();
}

fn all(partition: &Partition) -> Vec<u64> {
    let places = (0..PLACES).flat_map(|place| partition.objects_in(place, ObjectId(0)).unwrap());
    places.map(|object| object.0).collect()
}

#[test]
fn every_object_is_seen_once_as_what_it_is() {
    let (_directory, partition) = partition();
    for object in [1, 2, 3, 0x101] {
        write(&partition, object, b"content");
    }
    let writer = partition.create_object(ObjectId(9)).unwrap();
    assert_eq!(all(&partition), [1, 0x101, 2, 3, 9]);
    assert_eq!(partition.objects_in(1, ObjectId(1)).unwrap(), [ObjectId(0x101)]);
    let shared = &partition.shared;
    // By what is remembered, and by a look at everything.
    let seen = |object| {
        let looked = partition.look(ObjectId(object));
        let without_path = |seen| match seen {
            Seen::Whole(whole) => Seen::Whole(Whole { path: None, ..whole }),
            seen => seen,
        };
        assert_eq!(without_path(walk(&partition, &[object]).remove(0)), without_path(looked.clone()));
        looked
    };
    assert!(matches!(seen(1), Seen::Whole(whole) if whole.size == 7 && whole.path.is_some()));
    assert_eq!((seen(9), seen(77)), (Seen::Writing, Seen::Missing));
    fs::write(shared.data(ObjectId(2)), b"short").unwrap();
    assert!(matches!(seen(2), Seen::Damaged { size: Some(5), .. }));
    fs::remove_file(shared.data(ObjectId(3))).unwrap();
    assert_eq!(seen(3), Seen::Rest);
    write(&partition, 4, b"content");
    let description = fs::read_to_string(shared.description(ObjectId(4))).unwrap();
    fs::write(shared.description(ObjectId(4)), description.replace("\"version\": 2", "\"version\": 1000"))
        .unwrap();
    assert!(matches!(seen(4), Seen::Newer(_)));
    fs::remove_file(shared.description(ObjectId(0x101))).unwrap();
    assert!(matches!(seen(0x101), Seen::Damaged { size: Some(7), .. }));
    // What somebody else has put there is none of ours, wherever it lies.
    fs::write(shared.home(ObjectId(1)).join("note"), b"").unwrap();
    fs::write(shared.home(ObjectId(1)).join("5"), b"").unwrap();
    assert_eq!(all(&partition), [1, 0x101, 2, 3, 4, 9]);
    drop(writer);
}

fn scanner(partition: &Partition) -> ObjectScanner {
    let mut listed: Vec<_> = all(partition).into_iter().map(ObjectId).collect();
    listed.sort_unstable();
    ObjectScanner::new(partition, listed.into(), false)
}

fn walk(partition: &Partition, objects: &[u64]) -> Vec<Seen> {
    let objects: Vec<_> = objects.iter().map(|object| ObjectId(*object)).collect();
    let begun = scanner(partition).begin(&objects);
    begun.into_iter().map(|begun| partition.finish_look(begun)).collect()
}

/// Whether it is read again.
fn is_asked(partition: &Partition, object: u64) -> bool {
    matches!(scanner(partition).begin(&[ObjectId(object)])[0], Begun::Asked(_))
}

/// Writes a file again and again until the clock of the file system has moved on.
fn rewrite(file: &Path, content: &[u8]) {
    let changed = || {
        let data = fs::metadata(file).unwrap();
        (data.ctime(), data.ctime_nsec())
    };
    let before = changed();
    while changed() == before {
        fs::write(file, content).unwrap();
    }
}

#[test]
fn what_nobody_has_changed_is_not_read_again() {
    let (_directory, partition) = partition();
    for object in [1, 2, 0x1_0001] {
        write(&partition, object, b"content");
    }
    assert!(!is_asked(&partition, 1) && !is_asked(&partition, 2) && !is_asked(&partition, 0x1_0001));
    let description = partition.shared.description(ObjectId(1));
    let good = fs::read(&description).unwrap();
    rewrite(&description, b"no description");
    assert!(matches!(&walk(&partition, &[1])[0], Seen::Damaged { .. }));
    rewrite(&description, &good);
    assert!(is_asked(&partition, 1), "it was changed");
    let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("it is whole") };
    assert!(whole.path.is_some() && !whole.is_touched());
    assert!(!is_asked(&partition, 1), "it was seen whole");
    // Whoever has no index reads what is there, and has one then.
    fs::remove_dir_all(partition.directory().join("index")).unwrap();
    let partition = {
        let directory = partition.directory().to_owned();
        drop(partition);
        Partition::open(&directory, "f-1").unwrap()
    };
    assert!(is_asked(&partition, 2));
    walk(&partition, &[1, 2]);
    assert!(!is_asked(&partition, 2) && is_asked(&partition, 0x1_0001));
}

#[test]
fn data_that_somebody_has_changed_stay_touched_until_they_were_read() {
    let (_directory, partition) = partition();
    write(&partition, 1, b"content");
    rewrite(&partition.shared.data(ObjectId(1)), b"CONTENT");
    for _ in 0..2 {
        let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("its size is right") };
        assert!(whole.is_touched());
    }
    assert!(is_damage(&partition.scrub(ObjectId(1), |_| true).unwrap_err()));
    rewrite(&partition.shared.data(ObjectId(1)), b"content");
    let [Seen::Whole(whole)] = &walk(&partition, &[1])[..] else { panic!("its size is right") };
    assert!(whole.is_touched());
    // Who reads all the same does not forget that.
    let mut thorough = ObjectScanner::new(&partition, [ObjectId(1)].into(), true);
    let begun = thorough.begin(&[ObjectId(1)]).remove(0);
    assert!(matches!(partition.finish_look(begun), Seen::Whole(whole) if whole.is_touched()));
    assert!(is_asked(&partition, 1));
    partition.note_read(ObjectId(1), whole);
    assert!(!is_asked(&partition, 1));
    let index = partition.directory().join("index/0");
    let noted = fs::metadata(&index).unwrap().len();
    let begun = ObjectScanner::new(&partition, [ObjectId(1)].into(), true).begin(&[ObjectId(1)]).remove(0);
    assert!(matches!(begun, Begun::Asked(_)), "it reads all");
    assert!(matches!(partition.finish_look(begun), Seen::Whole(_)));
    assert_eq!(fs::metadata(&index).unwrap().len(), noted, "that is known already");
}

#[test]
fn what_was_removed_is_forgotten() {
    let (_directory, partition) = partition();
    for object in [1, 0x1_0001, 0x2_0001] {
        write(&partition, object, b"content");
    }
    partition.remove(ObjectId(0x1_0001)).unwrap();
    partition.tidy_index(&[ObjectId(1), ObjectId(0x2_0001)]);
    let files = fs::read_dir(partition.directory().join("index")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["0", "2"]);
    partition.tidy_index(&[]);
}

#[test]
fn a_scrub_reads_every_byte_and_can_be_ended() {
    let (_directory, partition) = partition();
    let mut content = vec![7; 3 * PIECE_BYTES + 1];
    write(&partition, 1, &content);
    let mut read = 0;
    let info = partition
        .scrub(ObjectId(1), |bytes| {
            read += bytes;
            true
        })
        .unwrap();
    assert_eq!((info.unwrap().size, read), (content.len() as u64, content.len() as u64));
    assert_eq!(partition.scrub(ObjectId(1), |_| false).unwrap(), None);
    content[2 * PIECE_BYTES] = 8;
    fs::write(partition.shared.data(ObjectId(1)), &content).unwrap();
    let failure = partition.scrub(ObjectId(1), |_| true).unwrap_err();
    assert!(is_damage(&failure), "{failure}");
    assert!(!is_damage(&partition.scrub(ObjectId(2), |_| true).unwrap_err()), "nothing is there");
}

#[test]
fn a_partition_whose_file_system_is_gone_is_not_taken_for_an_empty_one() {
    let (directory, partition) = partition();
    write(&partition, 1, b"content");
    partition.check_in_place().unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(partition.directory(), &elsewhere).unwrap();
    fs::create_dir(partition.directory()).unwrap();
    assert_eq!(partition.check_in_place().unwrap_err().kind, ErrorKind::Unavailable);
    assert!(partition.objects().is_err(), "nobody knows what lies there");
    assert!(partition.seen_fence().is_err() && partition.note_fence(1).is_err());
    assert!(fs::read_dir(partition.directory()).unwrap().next().is_none(), "nothing is left there");
    assert!(partition.remove(ObjectId(1)).is_err(), "it is there when the file system is back");
    assert_eq!(partition.remove_all(&[ObjectId(1), ObjectId(2)]), []);
    drop(Partition::create(&directory.path().join("other"), "f-1", "p").unwrap());
    fs::remove_dir(partition.directory()).unwrap();
    fs::rename(directory.path().join("other"), partition.directory()).unwrap();
    assert_eq!(partition.check_in_place().unwrap_err().kind, ErrorKind::Unavailable, "it is another one");
}

#[test]
fn what_is_set_aside_is_kept_and_not_seen_any_more() {
    let (_directory, partition) = partition();
    write(&partition, 1, b"content");
    assert!(partition.changed(ObjectId(1)).unwrap() > Timestamp(1), "it was written just now");
    partition.set_aside(ObjectId(1)).unwrap();
    assert_eq!((all(&partition), partition.look(ObjectId(1))), (vec![], Seen::Missing));
    assert!(partition.open_object(ObjectId(1)).is_err());
    let quarantine = partition.directory().join(QUARANTINE);
    assert_eq!(fs::read(quarantine.join("1")).unwrap(), b"content");
    assert!(quarantine.join("1.json").exists());
    partition.set_aside(ObjectId(1)).unwrap();
    assert_eq!(partition.changed(ObjectId(1)), None);
    // Another one of this number must not replace it.
    write(&partition, 1, b"other");
    assert_eq!(partition.set_aside(ObjectId(1)).unwrap_err().kind, ErrorKind::Exists);
    assert_eq!(fs::read(quarantine.join("1")).unwrap(), b"content");
    let writer = partition.create_object(ObjectId(2)).unwrap();
    assert_eq!(partition.set_aside(ObjectId(2)).unwrap_err().kind, ErrorKind::Busy);
    drop(writer);
}
