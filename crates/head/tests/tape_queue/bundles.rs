//! Small files that share tape files.

use super::{reported, support::*};
use base::ErrorKind;
use sim::{Mishap, World};
use wire::control::{TapeMember, TapeSession, TapeWork};

/// Three small files and a large one that wait to be archived, on a labelled volume.
fn waiting() -> (World, TapeSession) {
    let mut world = world();
    world.bundle_small_files();
    put_archived(&mut world, "/first", 3000);
    for (name, size) in [("/a", 10), ("/large", 3000), ("/b", 20), ("/c", 30)] {
        put(&mut world, name, size);
        ask_archive(&mut world, name).unwrap();
    }
    let session = next_session(&mut world).unwrap();
    (world, session)
}

#[test]
fn small_files_of_a_session_are_one_tape_file() {
    let (_, session) = waiting();
    let TapeWork::Archive { files, .. } = &session.work else { panic!("the session writes") };
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/large", "/a", "/b", "/c"]);
    assert_eq!(files[0].bundle, None);
    let bundle = files[1].bundle.expect("the small ones share a tape file");
    assert!(wire::media::bundle::number_of(bundle).is_some());
    assert!(files[1..].iter().all(|file| file.bundle == Some(bundle)));
}

#[test]
fn a_report_that_divides_a_tape_file_otherwise_is_refused() {
    let (mut world, session) = waiting();
    let mut report = reported(&session);
    report.copies[1].fseq = report.copies[0].fseq;
    (report.copies[1].block, report.copies[1].end_block) =
        (report.copies[0].block, report.copies[0].end_block);
    assert_eq!(refusal(world.room(report.clone())), ErrorKind::Corrupt, "no bundle holds the two");
    let TapeWork::Archive { files, .. } = &session.work else { panic!("the session writes") };
    let bundle = files[1].bundle.unwrap();
    report.copies.remove(0);
    for (copy, offset) in report.copies.iter_mut().zip([512, 1536, 2560]) {
        copy.member = Some(TapeMember { bundle, offset });
    }
    let mut apart = report.clone();
    for copy in &mut apart.copies {
        copy.fseq = report.copies[0].fseq;
    }
    assert_eq!(refusal(world.room(apart)), ErrorKind::Corrupt, "the same tape file lies at one position");
}

#[test]
fn each_file_of_a_bundle_comes_back_alone_and_all_in_the_order_of_the_tape() {
    let (mut world, _) = waiting();
    // The orders never reached the drive.
    run_drive(&mut world);
    let copy = |world: &mut World, name: &str| stat(world, name).unwrap().copies.remove(0);
    let names = ["/c", "/a", "/b"];
    let fseq = copy(&mut world, "/a").fseq;
    assert!(names.iter().all(|name| copy(&mut world, name).fseq == fseq));
    assert_ne!(copy(&mut world, "/large").fseq, fseq);
    for name in names {
        evict(&mut world, name).unwrap();
        stage(&mut world, name, None).unwrap();
    }
    let session = next_session(&mut world).unwrap();
    let TapeWork::Recall { files } = &session.work else { panic!("the session reads") };
    let order: Vec<_> = files.iter().map(|file| file.path.as_str().to_owned()).collect();
    assert_eq!(order, ["/a", "/b", "/c"]);
    assert!(files.iter().all(|file| file.member.is_some()));
    while world.drive(DRIVE, Mishap::None) {}
    assert!(names.iter().all(|name| state(&mut world, name).is_online()));
}
