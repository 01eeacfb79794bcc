use super::*;
use crate::{changer::element_of, drive::TapeDrive};
use base::ErrorKind;

fn vid(text: &str) -> Vid {
    text.parse().unwrap()
}

/// A library of two drives, three slots and two volumes.
fn library(dir: &Path) -> VirtualLibrary {
    VirtualLibrary::create(dir.join("lib"), 2, 3, &[vid("BP0001"), vid("BP0002")]).unwrap()
}

fn where_is(library: &mut VirtualLibrary, volume: &str) -> String {
    element_of(&library.inventory().unwrap(), &vid(volume)).unwrap().name.clone()
}

#[test]
fn the_state_is_what_lies_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = library(dir.path());
    let drive = first.drive_address("lib.drive1").unwrap();
    first.move_medium(ElementAddress(1001), drive).unwrap();
    assert!(dir.path().join("lib/drive/1/BP0001.aws").exists());
    let mut again = VirtualLibrary::open(dir.path().join("lib")).unwrap();
    assert_eq!(where_is(&mut again, "BP0001"), "drive/1");
    assert_eq!(where_is(&mut again, "BP0002"), "slot/0002");
    assert_eq!(again.inventory().unwrap(), first.inventory().unwrap());
    assert_eq!(again.drive_numbers().unwrap(), [0, 1]);
    let kinds: Vec<_> = again.inventory().unwrap().iter().map(|element| element.kind).collect();
    let (import, drive, slot) = (ElementKind::ImportExport, ElementKind::Drive, ElementKind::Slot);
    assert_eq!(kinds, [import, drive, drive, slot, slot, slot]);
}

#[test]
fn creating_again_completes_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = library(dir.path());
    first.move_medium(ElementAddress(1001), ElementAddress(500)).unwrap();
    fs::write(dir.path().join("lib/drive/0/BP0001.aws"), b"data").unwrap();
    let volumes = [vid("BP0001"), vid("BP0003"), vid("BP0002")];
    let mut more = VirtualLibrary::create(dir.path().join("lib"), 1, 4, &volumes).unwrap();
    assert_eq!(more.drive_numbers().unwrap(), [0, 1]);
    assert_eq!(where_is(&mut more, "BP0001"), "drive/0");
    assert_eq!(where_is(&mut more, "BP0003"), "slot/0001");
    assert_eq!(fs::read(dir.path().join("lib/drive/0/BP0001.aws")).unwrap(), b"data");
    let volumes: Vec<_> = (1..=9).map(|n| vid(&format!("BP000{n}"))).collect();
    let refused = VirtualLibrary::create(dir.path().join("lib"), 1, 4, &volumes).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NoSpace);
}

#[test]
fn moves_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut library = library(dir.path());
    let kind = |answer: Result<()>| answer.unwrap_err().kind;
    let mut moves = |from, to| library.move_medium(ElementAddress(from), ElementAddress(to));
    assert_eq!(kind(moves(1003, 500)), ErrorKind::NotFound);
    assert_eq!(kind(moves(1001, 1002)), ErrorKind::Exists);
    assert_eq!(kind(moves(1001, 1001)), ErrorKind::Exists);
    assert_eq!(kind(moves(1001, 999)), ErrorKind::NotFound);
    assert_eq!(kind(moves(77, 500)), ErrorKind::NotFound);
    moves(1001, 11).unwrap();
    assert_eq!(where_is(&mut library, "BP0001"), "import/0001");
    assert_eq!(kind(library.drive_address("lib.drive7").map(|_| ())), ErrorKind::NotFound);
}

#[test]
fn a_loaded_medium_stays_in_its_drive() {
    let dir = tempfile::tempdir().unwrap();
    let mut library = library(dir.path());
    library.move_medium(ElementAddress(1001), ElementAddress(500)).unwrap();
    let mut drive = library.drive(0).unwrap();
    drive.load().unwrap();
    let failure = library.move_medium(ElementAddress(500), ElementAddress(1001)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Busy);
    assert_eq!(failure.what, "library lib: volume BP0001 is loaded in drive/0");
    drive.unload().unwrap();
    library.move_medium(ElementAddress(500), ElementAddress(1001)).unwrap();
    assert_eq!(drive.load().unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_drive_is_opened_once() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let drive = library.drive(0).unwrap();
    let failure = library.drive(0).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Busy);
    assert!(failure.what.starts_with("drive lib.drive0 (") && failure.hint.is_some(), "{failure}");
    drop(drive);
    library.drive(0).unwrap();
    assert_eq!(library.drive(9).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn what_makes_no_sense_on_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut library = library(dir.path());
    let at = |name: &str| dir.path().join("lib").join(name);
    // What is not the library's is left alone.
    fs::write(at("slot/0003/README"), b"").unwrap();
    fs::create_dir(at("slot/spare")).unwrap();
    assert!(library.inventory().is_ok());
    fs::write(at("slot/0003/BP0001.aws"), b"").unwrap();
    let failure = library.inventory().unwrap_err();
    assert_eq!(failure.what, "library lib: volume BP0001 lies in slot/0001 and in slot/0003");
    fs::rename(at("slot/0003/BP0001.aws"), at("slot/0002/BP0009.aws")).unwrap();
    let failure = library.inventory().unwrap_err();
    assert!(failure.what.contains("BP0009") && failure.what.contains("BP0002"), "{failure}");
    fs::rename(at("slot/0002/BP0009.aws"), at("slot/0003/lower.aws")).unwrap();
    assert_eq!(library.inventory().unwrap_err().kind, ErrorKind::Invalid);
    fs::remove_file(at("slot/0003/lower.aws")).unwrap();
    fs::create_dir(at("slot/1")).unwrap();
    assert!(library.inventory().unwrap_err().what.contains("slot/0001"));
    let nothing = VirtualLibrary::open(dir.path().join("nowhere")).unwrap_err();
    assert_eq!(nothing.kind, ErrorKind::NotFound);
}
