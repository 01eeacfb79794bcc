//! What users do, and what they are told.

use crate::{Content, World};
use base::{FilePath, JobId, Result};
use wire::control::{
    AbandonWrite, CommitWrite, Disposition, FreeSpace, JobInput, JobOutput, JobSpec, OpenWrite, Remove,
    Rename, Submit, Want,
};

impl World {
    /// Writes a file and remembers that it was acknowledged.
    pub fn write(&mut self, path: &FilePath, content: Content) -> Result<()> {
        let open = OpenWrite {
            path: path.clone(),
            mode: 0o644,
            disposition: Disposition::Replace,
            parents: true,
            expected_bytes: content.size,
            source_modified: None,
        };
        let grant = self.user(open)?;
        if self.disk.free() < content.size {
            // As a disk server does it: what the head evicts for the write is deleted, and the write goes on.
            let _ = self.room(FreeSpace { object: grant.object, bytes: content.size });
            self.clean(false);
        }
        if self.disk.free() < content.size {
            self.room(AbandonWrite { object: grant.object })?;
            return Err(base::Failure::no_space("disk is full"));
        }
        self.disk.write(grant.object, grant.file, content);
        self.room(CommitWrite {
            object: grant.object,
            size: content.size,
            checksums: content.sums,
            mirrors: Vec::new(),
            pieces: Vec::new(),
        })?;
        self.acknowledged.insert(path.clone(), content);
        Ok(())
    }

    /// Begins to write a file and dies: before or after the object is durable.
    pub fn write_and_crash(&mut self, path: &FilePath, content: Content) {
        let open = OpenWrite {
            path: path.clone(),
            mode: 0o644,
            disposition: Disposition::Replace,
            parents: true,
            expected_bytes: content.size,
            source_modified: None,
        };
        if let Ok(grant) = self.user(open) {
            self.disk.write(grant.object, grant.file, content);
            if self.rng.chance(1, 2)
                && let Some(object) = self.disk.objects.get_mut(&grant.object)
            {
                object.is_durable = false;
            }
        }
        self.crash();
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &FilePath) -> Result<()> {
        self.user(Remove { path: path.clone() })?;
        self.acknowledged.remove(path);
        Ok(())
    }

    /// Renames a file.
    pub fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.user(Rename { from: from.clone(), to: to.clone(), is_new: false, parents: false })?;
        if let Some(content) = self.acknowledged.remove(from) {
            self.acknowledged.insert(to.clone(), content);
        }
        Ok(())
    }

    /// Submits a job that reads `inputs` and writes `output`, to be archived.
    pub fn submit(&mut self, inputs: &[FilePath], output: &FilePath) -> Result<JobId> {
        let input =
            |(index, path): (usize, &FilePath)| JobInput { path: path.clone(), name: format!("in{index}") };
        let spec = JobSpec {
            name: "sim".into(),
            command: vec!["true".into()],
            resources: wire::control::Resources::default(),
            inputs: inputs.iter().enumerate().map(input).collect(),
            outputs: vec![JobOutput { name: "out".into(), path: output.clone() }],
            archive: true,
            replace: true,
            ..JobSpec::default()
        };
        self.user(Submit::new(spec)).map(|submitted| submitted.job)
    }

    /// Whether a file is as wanted now.
    pub fn is(&mut self, path: &FilePath, want: Want) -> bool {
        let info = self.user(wire::control::Stat { path: path.clone() });
        let state = info.ok().and_then(|info| info.entry.state);
        state.is_some_and(|state| match want {
            Want::Online => state.is_online(),
            Want::Archived => state.is_archived(),
        })
    }
}
