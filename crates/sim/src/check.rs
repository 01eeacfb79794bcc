//! Checkers: what must hold after every step.

use crate::{World, tape::TapeFile};
use base::FilePath;
use wire::control::{FileInfo, JobState, Jobs, Stat};

impl World {
    /// No acknowledged byte is lost: every acknowledged file is in the catalogue with its size and sums, and its bytes
    /// are on disk or on tape where the catalogue says.
    ///
    /// Panics with the name of the file that is not.
    pub fn check(&mut self) {
        let files: Vec<_> = self.acknowledged.clone().into_iter().collect();
        for (path, content) in files {
            let info = self.user(Stat { path: path.clone() });
            let info = info.unwrap_or_else(|failure| panic!("acknowledged file is gone: {failure}"));
            let sums = info.entry.checksums.unwrap_or_else(|| panic!("{path} has no checksums"));
            assert_eq!((info.entry.size, sums), (content.size, content.sums), "{path} has other content");
            let on_disk = self.is_on_disk(&info);
            let on_tape = self.is_on_tape(&path, &info);
            let state = info.entry.state.unwrap_or_else(|| panic!("{path} has no state"));
            assert_eq!(state.is_online(), on_disk, "{path}: the catalogue and the disk disagree");
            assert!(on_disk || on_tape, "{path} is neither on disk nor on tape");
        }
    }

    fn is_on_disk(&self, info: &FileInfo) -> bool {
        if info.replicas.is_empty() {
            return false;
        }
        let sums = info.entry.checksums;
        let mut objects = self.disk.objects.values().filter(|object| object.file == info.entry.id);
        objects.any(|object| Some(object.content.sums) == sums)
    }

    fn is_on_tape(&self, path: &FilePath, info: &FileInfo) -> bool {
        for copy in &info.copies {
            let volume = &self.library.volumes[&copy.vid];
            let is_it = |file: &&TapeFile| (file.fseq, file.file) == (copy.fseq, info.entry.id);
            let found = volume.files.iter().find(is_it);
            let found =
                found.unwrap_or_else(|| panic!("{path}: {} has it not as file {}", copy.vid, copy.fseq));
            assert_eq!(Some(found.content.sums), info.entry.checksums, "{path}: the copy has other content");
        }
        !info.copies.is_empty()
    }

    /// Jobs that are not over.
    pub fn jobs_active(&mut self) -> usize {
        let jobs = self.user(Jobs { active_only: true, ..Jobs::default() }).expect("jobs can be listed").jobs;
        assert!(jobs.iter().all(|job| job.state != JobState::Done));
        jobs.len()
    }
}
