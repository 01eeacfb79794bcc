//! A run with a real shepherd, without a room.

use super::{SHEPHERD, until};
use base::{JobId, Millis};
use batch::{
    cgroup::V1Parents,
    identity::Identity,
    run_dir::{ExitRecord, OutputFiles, Phase, RunDir, RunOrder, RunStore, Started},
    sandbox::{Confinement, Limits},
};
use std::{collections::BTreeMap, fs, process::Command};
use wire::control::{JobExit, JobOrder, JobRun, JobSpec, Resources};

/// A staged run in a directory of its own.
pub(crate) struct Run {
    pub(crate) root: tempfile::TempDir,
    pub(crate) dir: RunDir,
}

pub(crate) fn order(command: &[&str]) -> RunOrder {
    RunOrder {
        mount: None,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
        directory: None,
        files: OutputFiles::default(),
        wall: Millis::from_seconds(60),
        grace: Millis::from_seconds(10),
        memory_bytes: 0,
        cgroup: None,
        cgroup_v1: V1Parents::default(),
        processors: Vec::new(),
        confinement: Some(Confinement {
            identity: Identity::own(),
            namespaces: super::namespaces(),
            hidden: Vec::new(),
            limits: Limits::default(),
        }),
    }
}

pub(crate) fn shell(script: &str) -> RunOrder {
    order(&["sh", "-c", script])
}

impl Run {
    pub(crate) fn staged(order: &RunOrder) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = RunStore::open(root.path()).unwrap();
        let job_order = JobOrder {
            run: JobRun { job: JobId(7), attempt: 1 },
            owner: "ada".to_owned(),
            is_of_facility_owner: false,
            spec: JobSpec {
                name: "test".to_owned(),
                command: order.command.clone(),
                resources: Resources::default(),
                ..JobSpec::default()
            },
            queue: String::new(),
            array: None,
            inputs: Vec::new(),
            outputs: String::new(),
        };
        let dir = store.accept(&job_order).unwrap();
        assert_eq!(dir.phase(), Phase::Ordered);
        let identity = &order.confinement.as_ref().unwrap().identity;
        dir.set_identity(identity).unwrap();
        dir.prepare(identity, None).unwrap();
        dir.set_staged(order).unwrap();
        assert_eq!(dir.phase(), Phase::Staged);
        Self { root, dir }
    }

    pub(crate) fn started(order: &RunOrder) -> Self {
        let run = Self::staged(order);
        run.start();
        run
    }

    pub(crate) fn start(&self) {
        let outer = Command::new(SHEPHERD).arg("shepherd").arg(self.dir.path()).status().unwrap();
        assert!(outer.success());
    }

    pub(crate) fn exit(&self) -> ExitRecord {
        until("the exit record", || self.dir.exit().unwrap())
    }

    pub(crate) fn shepherd(&self) -> Started {
        until("the shepherd", || self.dir.started().unwrap())
    }

    pub(crate) fn until_in_scratch(&self, name: &str) {
        let file = self.dir.scratch().join(name);
        until(name, || file.exists().then_some(()));
    }

    /// Content of a file in scratch, when the job has written a line to it.
    pub(crate) fn line(&self, name: &str) -> String {
        let file = self.dir.scratch().join(name);
        until(name, || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))).trim().to_owned()
    }
}

pub(crate) fn run(order: &RunOrder) -> (JobExit, Run) {
    let run = Run::started(order);
    (run.exit().exit, run)
}
