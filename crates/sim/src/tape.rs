//! The simulated tape server: labels, order and checks as the real one, media as lists.

use crate::{Content, DRIVES, World};
use base::{Failure, FileId, Timestamp, Vid};
use std::collections::BTreeMap;
use wire::{
    control::{
        AppendPoint, ArchiveFile, ArchivedCopy, Blame, DamagedFile, DriveContent, EndTapeSession,
        FileRecalled, FilesArchived, FilesFound, FilesVerified, FoundFile, NextTapeSession, RecallFile,
        RequestFailed, TapeMember, TapePhase, TapeProgress, TapeSession, TapeWork, VerifyFile,
        VolumeSurveyed,
    },
    media::label::LabelDate,
};

/// Logical blocks of a simulated tape file: labels and marks around one data block.
const BLOCKS_PER_FILE: u64 = 10;

/// A file on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeFile {
    pub(crate) file: FileId,
    /// The tape file; those of a bundle have the same.
    pub(crate) fseq: u32,
    pub(crate) member: Option<TapeMember>,
    pub(crate) block: u64,
    pub(crate) content: Content,
    /// It cannot be read any more.
    pub is_damaged: bool,
    /// The beginning of the day on which it was written.
    pub(crate) created: Timestamp,
}

/// A cartridge.
#[derive(Debug, Clone, Default)]
pub struct Volume {
    /// Whether VOL1 is there.
    pub is_labelled: bool,
    /// Files in the order of the tape, whether the catalogue knows them or not.
    pub files: Vec<TapeFile>,
}

/// What can go wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// One file cannot be copied this time.
    FileFails,
    /// The session ends early without anybody's fault.
    SessionEnds,
    /// The drive does not hear the answer to its report and reports again.
    AnswerLost,
    /// The daemon dies after half of the session, between a file and its report.
    Crash,
}

/// What ended a session early, and who is at fault.
type Trouble = Option<(Blame, Failure)>;

/// Drives and cartridges.
pub struct Library {
    /// All cartridges.
    pub volumes: BTreeMap<Vid, Volume>,
    loaded: BTreeMap<&'static str, Option<Vid>>,
    capacity: u64,
}

impl Library {
    pub(crate) fn new(volumes: u32, capacity: u64) -> Self {
        let vid = |n| format!("SIM{n:03}").parse().expect("a legal volume id");
        let volumes = (1..=volumes).map(|n| (vid(n), Volume::default())).collect();
        Self { volumes, loaded: DRIVES.map(|drive| (drive, None)).into(), capacity }
    }

    pub(crate) fn drives(&self) -> Vec<DriveContent> {
        let content = |(drive, loaded): (&&str, &Option<Vid>)| DriveContent {
            drive: (*drive).to_owned(),
            loaded: loaded.clone(),
            device: wire::control::DriveDevice::default(),
        };
        self.loaded.iter().map(content).collect()
    }

    /// Sequence number of the next tape file.
    fn next_fseq(&self, vid: &Vid) -> u32 {
        self.volumes[vid].files.last().map_or(1, |file| file.fseq + 1)
    }

    fn used(&self, vid: &Vid) -> u64 {
        self.volumes[vid].files.iter().map(|file| file.content.size + 100).sum()
    }
}

impl World {
    /// Lets a drive ask for a session and run it. True if there was one.
    pub fn drive(&mut self, drive: &'static str, mishap: Mishap) -> bool {
        let loaded = self.library.loaded[drive].clone();
        let ask = NextTapeSession { drive: drive.into(), loaded };
        let Some(session) = self.room(ask).expect("a registered drive may ask").session else {
            return false;
        };
        let is_load = self.library.loaded[drive].as_ref() != Some(&session.vid);
        for (other, loaded) in &self.library.loaded {
            assert!(
                *other == drive || loaded.as_ref() != Some(&session.vid),
                "{} is in two drives",
                session.vid
            );
        }
        self.library.loaded.insert(drive, Some(session.vid.clone()));
        let phase = TapePhase::Transferring;
        let progress = TapeProgress { session: session.id, phase, request: None, bytes_done: 0 };
        self.room(progress).expect("a drive may report its progress");
        let Some(trouble) = self.work(&session, mishap) else {
            self.crash();
            return true;
        };
        let end = EndTapeSession { session: session.id, loads: u32::from(is_load), trouble };
        self.room(end).expect("a drive may end its session");
        true
    }

    /// Does the work. The inner `None` is a good end; the outer one is a crash.
    fn work(&mut self, session: &TapeSession, mishap: Mishap) -> Option<Trouble> {
        match &session.work {
            TapeWork::Label => {
                let volume = self.library.volumes.get_mut(&session.vid).expect("a known volume");
                // Its own label without a file is what a crash after labelling leaves; writing it again is harmless.
                assert!(volume.files.is_empty(), "{} holds files", session.vid);
                volume.is_labelled = true;
                (mishap != Mishap::Crash).then_some(None)
            }
            TapeWork::Archive { append, files } => self.archive(session, *append, files, mishap),
            TapeWork::Recall { files } => self.recall(session, files, mishap),
            TapeWork::Survey { from, .. } => self.survey(session, *from, mishap),
            TapeWork::Verify { files } => self.verify(session, files, mishap),
        }
    }

    fn archive(
        &mut self,
        session: &TapeSession,
        append: AppendPoint,
        files: &[ArchiveFile],
        mishap: Mishap,
    ) -> Option<Trouble> {
        let vid = &session.vid;
        let volume = self.library.volumes.get_mut(vid).expect("a known volume");
        assert!(volume.is_labelled, "{vid} is written without a label");
        let last = volume.files.last().map_or(0, |file| file.fseq);
        assert!(last + 1 >= append.fseq, "{vid}: the catalogue knows files that are not there");
        assert!(last + 1 == append.fseq || append.may_have_leftover, "{vid}: leftover nobody expected");
        volume.files.retain(|file| file.fseq < append.fseq);
        let tape_files: Vec<_> =
            files.chunk_by(|one, next| one.bundle.is_some() && one.bundle == next.bundle).collect();
        for (done, files) in tape_files.iter().enumerate() {
            match mishap {
                Mishap::SessionEnds if done == tape_files.len() / 2 => {
                    return Some(Some((Blame::System, Failure::unavailable("the disk server went away"))));
                }
                Mishap::FileFails if done == 0 => {
                    self.fail(session, files[0].request);
                    if files.len() > 1 {
                        self.append(session, &files[1..], Mishap::None)?;
                    }
                    continue;
                }
                _ => {}
            }
            let mishap = if done >= tape_files.len() / 2 { mishap } else { Mishap::None };
            self.append(session, files, mishap)?;
        }
        Some(None)
    }

    /// Writes one tape file.
    fn append(&mut self, session: &TapeSession, files: &[ArchiveFile], mishap: Mishap) -> Option<()> {
        let (vid, fseq) = (&session.vid, self.library.next_fseq(&session.vid));
        let block = 1 + u64::from(fseq - 1) * BLOCKS_PER_FILE;
        let created = LabelDate::from_timestamp(self.now).begins();
        let (mut copies, mut written, mut offset) = (Vec::new(), Vec::new(), 512);
        for file in files {
            let Some(object) = self.disk.objects.get(&self.object(&file.source)).copied() else {
                // Removed while the session ran.
                self.fail(session, file.request);
                continue;
            };
            assert_eq!((object.content.size, object.content.sums), (file.size, file.checksums));
            let member = file.bundle.map(|bundle| TapeMember { bundle, offset });
            offset += file.size + 512;
            let content = object.content;
            let is_damaged = false;
            written.push(TapeFile { file: file.file, fseq, member, block, content, is_damaged, created });
            let end_block = block + BLOCKS_PER_FILE;
            copies.push(ArchivedCopy { request: file.request, fseq, block, end_block, member });
        }
        let bytes: u64 = written.iter().map(|file| file.content.size).sum();
        if let Some(first) = copies.first()
            && self.library.used(vid) + bytes > self.library.capacity
        {
            let (request, failure) = (first.request, Failure::no_space(format!("volume {vid} is full")));
            let call = RequestFailed { session: session.id, request, blame: Blame::Volume, failure };
            self.room(call).expect("a drive may report a failure");
            return Some(());
        }
        self.library.volumes.get_mut(vid).expect("a known volume").files.extend(written);
        if mishap == Mishap::Crash {
            return None;
        }
        let report = FilesArchived { session: session.id, copies, used_bytes: self.library.used(vid) };
        if mishap == Mishap::AnswerLost {
            self.room(report.clone()).expect("copies may be reported");
        }
        self.room(report).expect("copies may be reported, also twice");
        Some(())
    }

    /// Reports one file after the other; a mishap comes in the middle.
    fn survey(&mut self, session: &TapeSession, from: AppendPoint, mishap: Mishap) -> Option<Trouble> {
        let volume = self.library.volumes[&session.vid].clone();
        let used_bytes = self.library.used(&session.vid);
        let tape_files: Vec<_> = volume.files.chunk_by(|one, next| one.fseq == next.fseq).collect();
        let (known, all) = (from.fseq as usize - 1, tape_files.len());
        for (at, files) in tape_files.iter().enumerate().skip(known) {
            let is_middle = at == usize::midpoint(known, all);
            match mishap {
                Mishap::SessionEnds if is_middle => {
                    return Some(Some((Blame::System, Failure::unavailable("the tape server is stopping"))));
                }
                Mishap::Crash if is_middle => return None,
                _ => {}
            }
            let files = files.iter().map(found).collect();
            let report = FilesFound { session: session.id, files, used_bytes };
            if mishap == Mishap::AnswerLost {
                self.room(report.clone()).expect("found files may be reported");
            }
            self.room(report).expect("found files may be reported, also twice");
        }
        let fseq = self.library.next_fseq(&session.vid);
        let block = 1 + u64::from(fseq - 1) * BLOCKS_PER_FILE;
        let end = AppendPoint { fseq, block, may_have_leftover: false };
        let end = volume.is_labelled.then_some(end);
        let surveyed = VolumeSurveyed { session: session.id, end, used_bytes };
        self.room(surveyed).expect("the end may be reported");
        Some(None)
    }

    fn recall(&mut self, session: &TapeSession, files: &[RecallFile], mishap: Mishap) -> Option<Trouble> {
        for (done, file) in files.iter().enumerate() {
            match mishap {
                Mishap::SessionEnds if done == files.len() / 2 => {
                    return Some(Some((Blame::System, Failure::unavailable("the disk server went away"))));
                }
                Mishap::FileFails if done == 0 => {
                    self.fail(session, file.request);
                    continue;
                }
                _ => {}
            }
            let is_it = |found: &&TapeFile| (found.fseq, found.file) == (file.fseq, file.file);
            let volume = &self.library.volumes[&session.vid];
            let found = *volume.files.iter().find(is_it).expect("the copy is on the volume");
            assert_eq!((found.block, found.member), (file.block, file.member), "labels do not match");
            assert_eq!((found.content.size, found.content.sums), (file.size, file.checksums));
            let object = self.object(&file.sink);
            self.disk.write(object, file.file, found.content);
            if mishap == Mishap::Crash && done >= files.len() / 2 {
                return None;
            }
            let report = FileRecalled { session: session.id, request: file.request };
            if mishap == Mishap::AnswerLost {
                self.room(report.clone()).expect("a recalled file may be reported");
            }
            self.room(report).expect("a recalled file may be reported, also twice");
        }
        Some(None)
    }

    fn verify(&mut self, session: &TapeSession, files: &[VerifyFile], mishap: Mishap) -> Option<Trouble> {
        let mut damaged = Vec::new();
        for file in files {
            let is_it = |found: &&TapeFile| (found.fseq, found.file) == (file.fseq, file.file);
            let found = self.library.volumes[&session.vid].files.iter().find(is_it);
            let is_good =
                found.is_some_and(|found| found.content.sums == file.checksums && !found.is_damaged);
            if !is_good {
                let (fseq, offset) = (file.fseq, file.member.map_or(0, |member| member.offset));
                damaged.push(DamagedFile { fseq, offset, failure: Failure::corrupt("checksums differ") });
            }
        }
        if mishap == Mishap::Crash {
            return None;
        }
        let next_fseq = files.last().map_or(1, |file| file.fseq + 1);
        let report = FilesVerified { session: session.id, next_fseq, damaged };
        if mishap == Mishap::AnswerLost {
            self.room(report.clone()).expect("a verification may be reported");
        }
        self.room(report).expect("a verification may be reported, also twice");
        Some(None)
    }

    fn fail(&mut self, session: &TapeSession, request: base::RequestId) {
        let failure = Failure::new(base::ErrorKind::Io, "read error that goes away");
        let call = RequestFailed { session: session.id, request, blame: Blame::File, failure };
        self.room(call).expect("a drive may report a failure");
    }
}

/// What a survey says of a file.
fn found(file: &TapeFile) -> FoundFile {
    let TapeFile { file, fseq, member, block, content, created, .. } = *file;
    let (size, checksums, end_block) = (content.size, content.sums, block + BLOCKS_PER_FILE);
    FoundFile { file, fseq, block, end_block, size, checksums, created, member }
}
