//! Sessions with bundles of small files.

use super::tests::World;
use crate::drive::{Read, TapeDrive};
use base::ErrorKind;
use std::process::Command;
use wire::control::Blame;

impl World {
    /// Writes one bundle for each list.
    fn bundle(&mut self, bundles: &[&[u64]]) {
        self.sessions += 1;
        let orders = self.head.lock().archive_bundles(self.sessions, &self.disk, bundles);
        self.run(&orders);
    }

    /// Loads the volume anew and reads the data of the first tape file, as people would who have nothing but its labels.
    fn data_of_first_file(&mut self) -> Vec<u8> {
        let drive = &mut self.bay().drive;
        drive.load().unwrap();
        drive.locate(5).unwrap();
        let (mut data, mut block) = (Vec::new(), Vec::new());
        while let Read::Block(_) = drive.read_block(&mut block).unwrap() {
            data.extend_from_slice(&block);
        }
        data
    }
}

const SIZES: [usize; 8] = [0, 1, 511, 512, 513, 3000, 70_000, 5];

#[test]
fn small_files_share_a_tape_file_and_come_back_alone() {
    let mut world = World::new();
    let files = world.files(1, &SIZES);
    world.bundle(&[&files[..5], &files[5..]]);
    assert_eq!((world.head.trouble(), world.head.failed()), (None, Vec::new()));
    assert_eq!(world.acknowledged(), files);
    assert_eq!(world.head.lock().append.unwrap().fseq, 3, "eight files are two on tape");
    // Backward: each is found by its position, not by what was read before it.
    let mut backward = files.clone();
    backward.reverse();
    world.recall(&backward);
    assert_eq!((world.head.trouble(), world.head.failed()), (None, Vec::new()));
    assert!(files.iter().all(|request| world.disk.is_recalled(*request)));
    world.recall(&files[3..4]);
    assert_eq!(world.head.count("file_recalled"), 9);
}

#[test]
fn plain_files_and_bundles_follow_each_other() {
    let mut world = World::new();
    let files = world.files(1, &SIZES);
    world.archive(&files[..2]);
    world.bundle(&[&files[2..6]]);
    world.archive(&files[6..]);
    world.recall(&[files[3], files[7], files[4], files[0], files[2]]);
    assert_eq!((world.head.trouble(), world.head.failed()), (None, Vec::new()));
    assert_eq!(world.head.count("file_recalled"), 5);
}

#[test]
fn a_file_that_cannot_be_read_is_left_out_of_its_bundle() {
    let mut world = World::new();
    let files = world.files(1, &[100, 200, 300]);
    world.disk.lock().believed.insert(2, vec![1; 200]);
    world.bundle(&[&files]);
    assert_eq!(world.head.trouble(), None);
    assert_eq!(world.head.failed(), [(2, Blame::File, ErrorKind::Corrupt)]);
    assert_eq!(world.acknowledged(), [1, 3]);
    world.recall(&[3, 1]);
    assert!(world.disk.is_recalled(1) && world.disk.is_recalled(3));
}

#[test]
fn a_bundle_of_which_nothing_can_be_read_is_not_written() {
    let mut world = World::new();
    let files = world.files(1, &[100, 200]);
    world.disk.lock().believed.extend([(1, vec![1; 100]), (2, vec![1; 200])]);
    world.bundle(&[&files]);
    assert_eq!((world.head.trouble(), world.acknowledged()), (None, Vec::new()));
    let append = world.head.lock().append.unwrap();
    assert_eq!((append.fseq, append.may_have_leftover), (1, false));
}

#[test]
fn servers_that_are_gone_do_not_hold_a_bundle_up() {
    let mut world = World::new();
    let files = world.files(1, &[10; 8]);
    world.disk.lock().gone.extend((2..8).map(|number| format!("source{number}")));
    world.bundle(&[&files]);
    assert_eq!(world.acknowledged(), [1], "what could be read is on tape");
    assert_eq!(world.head.failed().len(), 3, "the others were not tried");
    assert_eq!(world.head.trouble().unwrap().0, Blame::System);
}

#[test]
fn a_survey_finds_the_files_of_a_bundle() {
    let mut world = World::new();
    let files = world.files(1, &SIZES);
    world.archive(&files[..1]);
    world.bundle(&[&files[1..7]]);
    world.archive(&files[7..]);
    let known = world.head.lock().copies.clone();
    world.head.lock().forget();
    let orders = world.head.lock().survey(9, u64::MAX);
    world.run(&orders);
    let found = world.head.lock().found.clone();
    assert_eq!(found.len(), files.len());
    for (request, found) in files.iter().zip(&found) {
        let (copy, file) = (&known[request], world.disk.archive_file(*request));
        assert_eq!((found.file, found.size, found.checksums), (file.file, file.size, file.checksums));
        assert_eq!((found.fseq, found.block, found.end_block), (copy.fseq, copy.block, copy.end_block));
        assert_eq!(found.member, copy.member, "request {request}");
    }
}

#[test]
fn a_damaged_member_is_the_fault_of_the_volume() {
    let mut world = World::new();
    let files = world.files(1, &[2000, 3000]);
    world.bundle(&[&files]);
    world.bay = None;
    let data = world.disk.lock().objects["source2"].clone();
    let mut image = std::fs::read(world.image()).unwrap();
    let at = image.windows(64).position(|window| *window == data[..64]).unwrap();
    image[at + 3] ^= 4;
    std::fs::write(world.image(), image).unwrap();
    world.recall(&files);
    assert!(world.disk.is_recalled(1) && !world.disk.is_recalled(2));
    assert_eq!(world.head.failed(), [(2, Blame::Volume, ErrorKind::Corrupt)]);
}

#[test]
fn a_verification_names_what_is_damaged_and_goes_on() {
    let mut world = World::new();
    let files = world.files(1, &[2000, 3000, 400, 5000]);
    world.bundle(&[&files[..3]]);
    world.archive(&files[3..]);
    world.bay = None;
    let data = world.disk.lock().objects["source2"].clone();
    let mut image = std::fs::read(world.image()).unwrap();
    let at = image.windows(64).position(|window| *window == data[..64]).unwrap();
    image[at + 3] ^= 4;
    std::fs::write(world.image(), image).unwrap();
    let orders = world.head.lock().verify(9, &world.disk, &files);
    world.run(&orders);
    assert_eq!(world.head.trouble(), None, "one damaged file does not end it");
    let log = world.head.lock();
    let told = log.log.iter().filter(|(call, _)| *call == "files_verified");
    let told: Vec<_> = told.map(|(_, report)| report.clone()).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["next_fseq"], 3);
    let damaged = told[0]["damaged"].as_array().unwrap();
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0]["offset"].as_u64(), log.copies[&2].member.map(|member| member.offset));
}

/// What decides is the `tar` of the system.
#[test]
fn tar_reads_a_bundle() {
    let mut world = World::new();
    let files = world.files(1, &SIZES);
    world.bundle(&[&files]);
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("bundle"), world.data_of_first_file()).unwrap();
    let out = Command::new("tar").args(["-x", "-f", "bundle"]).current_dir(home.path()).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    for request in files {
        let extracted = std::fs::read(home.path().join(format!("f{request}"))).unwrap();
        assert!(extracted == world.disk.lock().objects[&format!("source{request}")], "request {request}");
    }
    let index = std::fs::read_to_string(home.path().join(wire::media::bundle::INDEX_NAME)).unwrap();
    assert_eq!(index.lines().count(), 9, "{index}");
    assert!(index.starts_with("{\"format\":\"backplane-bundle\",\"version\":1,\"files\":8}"), "{index}");
}
