//! The worker against a head and a door of our own, with real shepherds and jobs.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use base::{Checksums, ErrorKind, JobId, Millis};
use batch::{
    WorkerConfig,
    identity::Identity,
    run_dir::{RunOrder, RunStore, Started},
    run_worker,
    sandbox::{Confinement, Limits},
};
use client::Stop;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    thread::{self, JoinHandle},
};
use support::{SHEPHERD, door::Door, head::Head, is_alive, until};
use wire::control::{
    InputSource, JobEnded, JobExit, JobInput, JobOrder, JobOutput, JobRun, JobSpec, Resources,
};

const RUN: JobRun = JobRun { job: JobId(7), attempt: 1 };

/// A room that can be stopped as a daemon is: its jobs go on.
struct Room {
    stop: Stop,
    thread: Option<JoinHandle<base::Result<()>>>,
}

impl Room {
    fn stop(mut self) {
        self.stop.set();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.stop.set();
    }
}

struct Site {
    head: Head,
    door: Door,
    root: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let (head, door) = (Head::start(), Door::open());
        head.change(|state| state.root.clone_from(&door.root));
        Self { head, door, root: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> WorkerConfig {
        WorkerConfig {
            directory: self.root.path().join("worker"),
            name: "w1".to_owned(),
            cpus: 2,
            memory_bytes: 1 << 30,
            shepherd: PathBuf::from(SHEPHERD),
            ca_file: None,
            facility: "http://facility".to_owned(),
            facility_of_owner: None,
            environment: BTreeMap::from(
                ["FROM_SITE", "BOTH"].map(|name| (name.to_owned(), "site".to_owned())),
            ),
            cgroup: None,
            users: support::policy(),
            limits: Limits::default(),
            log_bytes: 64 << 10,
            hidden: Vec::new(),
            authorities: None,
        }
    }

    fn room(&self) -> Room {
        let stop = Stop::default();
        let (config, control, told) = (self.config(), self.head.control(), stop.clone());
        let thread = thread::spawn(move || run_worker(config, control, told));
        Room { stop, thread: Some(thread) }
    }

    fn order(script: &str) -> JobOrder {
        JobOrder {
            run: RUN,
            owner: "ada".to_owned(),
            is_of_facility_owner: true,
            spec: JobSpec {
                name: "test".to_owned(),
                command: ["sh", "-c", script].map(str::to_owned).to_vec(),
                resources: Resources { cpus: 3, memory_bytes: 0, wall: Millis::from_seconds(60) },
                inputs: Vec::new(),
                outputs: Vec::new(),
                archive: false,
                replace: false,
                environment: BTreeMap::new(),
            },
            inputs: Vec::new(),
            // Stale: the door has moved since.
            outputs: "root://127.0.0.1:1".to_owned(),
        }
    }

    fn submit(&self, order: JobOrder) {
        self.head.change(|state| state.orders.push(order));
    }

    fn run_dir(&self) -> PathBuf {
        self.root.path().join("worker/runs/7.1")
    }

    fn scratch(&self) -> PathBuf {
        self.run_dir().join("scratch")
    }

    fn until_in_scratch(&self, name: &str) -> String {
        let file = self.scratch().join(name);
        until(name, || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')))
    }

    /// The process that wrote its id.
    fn pid_in_scratch(&self) -> i32 {
        let inner = self.until_in_scratch("pid").trim().parse().unwrap();
        support::outside(self.shepherd().pid, inner)
    }

    fn shepherd(&self) -> Started {
        let text = until("the shepherd", || fs::read(self.run_dir().join("control/started.json")).ok());
        serde_json::from_slice(&text).unwrap()
    }

    fn until_forgotten(&self) {
        until("the end of the run directory", || (!self.run_dir().exists()).then_some(()));
    }

    fn input(&self, order: &mut JobOrder, name: &str, content: &[u8]) {
        let path = format!("/data/{name}");
        self.door.put(&path, content);
        order.spec.inputs.push(JobInput { path: path.parse().unwrap(), name: name.to_owned() });
        order.inputs.push(InputSource {
            url: format!("root://127.0.0.1:1/{path}?bp.cap=secret"),
            size: content.len() as u64,
            checksums: Checksums::of(content),
        });
    }
}

fn output(order: &mut JobOrder, name: &str, path: &str) {
    order.spec.outputs.push(JobOutput { name: name.to_owned(), path: path.parse().unwrap() });
}

/// Says that the only input lies on another server than the head's.
fn moved_to(order: &mut JobOrder, root: &str) {
    order.inputs[0].url = order.inputs[0].url.replace("root://127.0.0.1:1", root);
}

#[test]
fn an_input_is_read_where_it_lies() {
    let site = Site::new();
    let (room, remote) = (site.room(), Door::open());
    let mut order = Site::order("cat in");
    site.input(&mut order, "in", b"content");
    moved_to(&mut order, &remote.root);
    remote.put(order.spec.inputs[0].path.as_str(), b"content");
    // The door of the head must not be needed.
    site.door.set_away(true);
    site.submit(order);
    assert_eq!(site.head.ended(RUN).text.stdout, "content");
    room.stop();
}

#[test]
fn an_input_whose_server_is_away_is_read_by_its_name() {
    let site = Site::new();
    let (room, remote) = (site.room(), Door::open());
    remote.set_away(true);
    let mut order = Site::order("cat in");
    site.input(&mut order, "in", b"content");
    moved_to(&mut order, &remote.root);
    site.submit(order);
    assert_eq!(site.head.ended(RUN).text.stdout, "content");
    assert!(remote.refused() > 0);
    room.stop();
}

/// The order is older than the file's move to another server.
#[test]
fn an_input_that_has_moved_since_is_read_by_its_name() {
    let site = Site::new();
    let (room, remote) = (site.room(), Door::open());
    let mut order = Site::order("cat in");
    site.input(&mut order, "in", b"content");
    moved_to(&mut order, &remote.root);
    site.submit(order);
    let ended = site.head.ended(RUN);
    assert_eq!((ended.exit, &*ended.text.stdout), (JobExit::Code(0), "content"));
    room.stop();
}

/// What the head does not know to have begun it gives to another worker when this one is turned away.
#[test]
fn a_run_begins_when_the_head_knows() {
    let site = Site::new();
    site.head.change(|state| state.is_deaf_to_starts = true);
    let room = site.room();
    site.submit(Site::order("true"));
    site.head.until("a second try", |state| (state.refused_calls > 1).then_some(()));
    assert!(!site.run_dir().join("started.json").exists());
    site.head.change(|state| state.is_deaf_to_starts = false);
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(0));
    room.stop();
}

#[test]
fn a_run_that_was_given_up_before_it_began_is_forgotten() {
    let site = Site::new();
    site.head.change(|state| state.given_up.push(RUN));
    let room = site.room();
    site.submit(Site::order("true"));
    site.head.until("the start", |state| (state.refused_calls > 0).then_some(()));
    site.until_forgotten();
    room.stop();
    assert!(site.head.look(|state| state.ended.is_empty() && state.started.is_empty()));
}

#[test]
fn what_jobs_have_is_for_nobody_else() {
    let site = Site::new();
    drop(RunStore::open(&site.config().directory).unwrap());
    for name in ["runs", "trash"] {
        let directory = site.config().directory.join(name);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    drop(RunStore::open(&site.config().directory).unwrap());
    for name in ["runs", "trash"] {
        let mode = fs::metadata(site.config().directory.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
    }
}

#[test]
fn inputs_come_the_job_runs_outputs_go() {
    let site = Site::new();
    let room = site.room();
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 4) as u8).collect();
    let mut order = Site::order(
        "./tool big; echo $BP_JOB_ID.$BP_ATTEMPT $BP_CPUS $BP_FACILITY $COLOUR; echo oops >&2
            echo $(cat $BEARER_TOKEN_FILE) $BP_ROOT $FROM_SITE $BOTH",
    );
    let given = [("COLOUR", "blue"), ("BP_JOB_ID", "99"), ("BOTH", "job"), ("BEARER_TOKEN_FILE", "/other")];
    order.spec.environment = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    site.input(&mut order, "big", &big);
    site.input(&mut order, "tool", b"#!/bin/sh\ntest \"$HOME\" = \"$BP_SCRATCH\" && cp \"$1\" copy\n");
    output(&mut order, "copy", "/out/deep/copy");
    site.submit(order);
    let ended = site.head.ended(RUN);
    assert_eq!(ended.exit, JobExit::Code(0), "{ended:?}");
    let told = format!("7.1 3 http://facility blue\ntoken of 7.1 {} site job\n", site.door.root);
    assert_eq!(ended.text.stdout, told);
    assert_eq!(ended.text.stderr, "oops\n");
    assert!(ended.usage.wall.0 >= 0 && ended.usage.memory_bytes_max > 0);
    let (content, owner) = site.door.get("/out/deep/copy").unwrap();
    assert!(content == big);
    assert_eq!(owner, "ada");
    site.until_forgotten();
    site.head.look(|state| {
        // A job that is over before the head could be told of its start is only reported as ended.
        assert!(state.started.len() <= 1);
        assert_eq!(state.ended.len(), 1);
        let registered = &state.registered[0];
        assert_eq!((registered.worker.as_str(), registered.cpus), ("w1", 2));
        assert!(registered.runs.is_empty() && !registered.not_enforced.is_empty());
    });
    room.stop();
}

#[test]
fn a_job_goes_on_while_the_daemon_is_down_and_its_exit_code_is_recovered() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo > ready; while [ ! -e go ]; do sleep 0.01; done; echo late; exit 42"));
    site.until_in_scratch("ready");
    site.head.until("the start", |state| state.started.first().copied());
    room.stop();
    fs::write(site.scratch().join("go"), "").unwrap();
    until("the exit record", || site.run_dir().join("control/exit.json").exists().then_some(()));
    assert!(site.head.look(|state| state.ended.is_empty()));
    let room = site.room();
    let ended = site.head.ended(RUN);
    assert_eq!(ended.exit, JobExit::Code(42));
    assert_eq!(ended.text.stdout, "late\n");
    site.until_forgotten();
    room.stop();
}

#[test]
fn a_running_job_is_taken_up_by_the_next_daemon() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo > ready; while [ ! -e go ]; do sleep 0.01; done; exit 4"));
    site.until_in_scratch("ready");
    room.stop();
    let room = site.room();
    site.head.until("the second registration", |state| {
        state.registered.get(1).filter(|call| call.runs == [RUN]).map(|_| ())
    });
    fs::write(site.scratch().join("go"), "").unwrap();
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(4));
    room.stop();
}

#[test]
fn a_run_whose_shepherd_is_killed_is_lost_and_leaves_no_process() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("setsid sh -c 'echo $$ > pid; sleep 1000' & wait"));
    let pid = site.pid_in_scratch();
    support::send(site.shepherd().pid, "KILL");
    assert_eq!(site.head.ended(RUN).exit, JobExit::Lost);
    assert!(!is_alive(pid));
    room.stop();
}

#[test]
fn a_shepherd_killed_while_the_daemon_is_down_is_lost_too() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo > ready; exec sleep 1000"));
    site.until_in_scratch("ready");
    let shepherd = site.shepherd().pid;
    room.stop();
    support::send(shepherd, "KILL");
    until("the end of the shepherd", || (!is_alive(shepherd)).then_some(()));
    let room = site.room();
    assert_eq!(site.head.ended(RUN).exit, JobExit::Lost);
    room.stop();
}

#[test]
fn what_a_job_prints_is_told_while_somebody_follows_it() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order(
        "echo €ne; echo err >&2; while [ ! -e go ]; do sleep 0.01; done; echo two; while [ ! -e end ]; do sleep 0.01; done; printf 'three\\342'",
    ));
    until("the first line", || {
        fs::read(site.run_dir().join("control/stderr")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(site.head.look(|state| state.told.len()), 0, "nobody follows it");
    site.head.change(|state| state.followed.push(RUN));
    site.head.until("the first line", |state| {
        (state.text(0) == "€ne\n" && state.text(1) == "err\n").then_some(())
    });
    let first = site.head.look(|state| state.told[0].clone());
    assert_eq!((first.pieces, first.is_all), ([None, None], false), "the head says first where it is");
    fs::write(site.scratch().join("go"), "").unwrap();
    site.head.until("the second line", |state| (state.text(0) == "€ne\ntwo\n").then_some(()));
    fs::write(site.scratch().join("end"), "").unwrap();
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(0));
    // All of it was told before its end was: the last character is cut, and comes all the same.
    assert_eq!(site.head.look(|state| state.text(0)), "€ne\ntwo\nthree\u{fffd}");
    room.stop();
}

#[test]
fn a_room_that_starts_anew_goes_on_telling_where_the_head_is() {
    let site = Site::new();
    let room = site.room();
    site.head.change(|state| state.followed.push(RUN));
    site.submit(Site::order("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exec sleep 1000"));
    site.head.until("the first line", |state| (state.text(0) == "one\n").then_some(()));
    room.stop();
    site.head.change(|state| state.told.clear());
    let room = site.room();
    fs::write(site.scratch().join("go"), "").unwrap();
    site.head.until("the second line", |state| (state.text(0) == "two\n").then_some(()));
    site.head.change(|state| {
        state.followed.clear();
        state.kills.push(RUN);
    });
    site.head.ended(RUN);
    room.stop();
}

#[test]
fn a_run_whose_directory_is_removed_or_replaced_is_lost_and_leaves_no_process() {
    for is_replaced in [false, true] {
        let site = Site::new();
        let room = site.room();
        site.submit(Site::order("echo $$ > pid; exec sleep 1000"));
        let pid = site.pid_in_scratch();
        site.head.until("the start", |state| state.started.contains(&RUN).then_some(()));
        fs::rename(site.run_dir(), site.root.path().join("away")).unwrap();
        if is_replaced {
            fs::create_dir_all(site.scratch()).unwrap();
            fs::write(site.run_dir().join("ended.json"), "{}").unwrap();
        }
        assert_eq!(site.head.ended(RUN).exit, JobExit::Lost, "replaced: {is_replaced}");
        until("the end of the job", || (!is_alive(pid)).then_some(()));
        room.stop();
    }
}

#[test]
fn a_job_has_no_descriptors_but_its_own() {
    let site = Site::new();
    // Inherited by whatever this process starts.
    let inherited = fs::File::create(site.root.path().join("of-the-daemon")).unwrap();
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
    let room = site.room();
    site.submit(Site::order(
        "ls -l /proc/$$/fd > fds; echo end >> fds; while [ ! -e go ]; do sleep 0.01; done",
    ));
    let listed = until("the list", || {
        fs::read_to_string(site.scratch().join("fds")).ok().filter(|text| text.ends_with("end\n"))
    });
    assert!(listed.contains("stderr") && !listed.contains("of-the-daemon"), "{listed}");
    fs::write(site.scratch().join("go"), "").unwrap();
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(0));
    room.stop();
}

#[test]
fn a_cancelled_job_is_ended_and_reported_as_cancelled() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo $$ > pid; exec sleep 1000"));
    let pid = site.pid_in_scratch();
    site.head.change(|state| state.kills.push(RUN));
    assert_eq!(site.head.ended(RUN).exit, JobExit::Cancelled);
    assert!(!is_alive(pid));
    // Of a run that is not here the end is reported as well: the head must not wait for ever.
    let other = JobRun { job: JobId(8), attempt: 2 };
    site.head.change(|state| state.kills.push(other));
    assert_eq!(site.head.ended(other).exit, JobExit::Cancelled);
    room.stop();
}

#[test]
fn a_job_can_be_cancelled_while_its_inputs_are_awaited() {
    let site = Site::new();
    let room = site.room();
    let mut order = Site::order("true");
    site.input(&mut order, "in", b"content");
    site.door.set_away(true);
    site.submit(order);
    until("a try", || (site.door.refused() > 0).then_some(()));
    site.head.change(|state| state.kills.push(RUN));
    assert_eq!(site.head.ended(RUN).exit, JobExit::Cancelled);
    room.stop();
}

#[test]
fn what_the_head_gave_up_is_ended_and_forgotten_without_a_word() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo $$ > pid; exec sleep 1000"));
    let pid = site.pid_in_scratch();
    room.stop();
    site.head.change(|state| state.drops.push(RUN));
    let room = site.room();
    site.until_forgotten();
    until("the end of the job", || (!is_alive(pid)).then_some(()));
    room.stop();
    assert!(site.head.look(|state| state.ended.is_empty()));
}

#[test]
fn a_report_waits_for_the_head_even_across_restarts() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo > ready; while [ ! -e go ]; do sleep 0.01; done; exit 6"));
    site.until_in_scratch("ready");
    site.head.until("the start", |state| state.started.first().copied());
    site.head.change(|state| state.is_down = true);
    fs::write(site.scratch().join("go"), "").unwrap();
    until("the report", || site.run_dir().join("control/ended.json").exists().then_some(()));
    site.head.until("a try", |state| (state.refused_calls > 1).then_some(()));
    room.stop();
    let room = site.room();
    let refused = site.head.look(|state| state.refused_calls);
    site.head.until("another try", |state| (state.refused_calls > refused).then_some(()));
    assert!(site.run_dir().exists());
    site.head.change(|state| state.is_down = false);
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(6));
    site.until_forgotten();
    room.stop();
}

#[test]
fn a_disk_server_that_is_away_for_a_moment_costs_no_job() {
    let site = Site::new();
    let room = site.room();
    let mut order = Site::order("cp in out");
    site.input(&mut order, "in", b"content");
    output(&mut order, "out", "/out/copy");
    site.door.set_away(true);
    site.submit(order);
    until("a try", || (site.door.refused() > 0).then_some(()));
    site.door.set_away(false);
    assert_eq!(site.head.ended(RUN).exit, JobExit::Code(0));
    assert_eq!(site.door.get("/out/copy").unwrap().0, b"content");
    room.stop();
}

#[test]
fn wrong_bytes_never_reach_a_job() {
    let site = Site::new();
    let room = site.room();
    let mut order = Site::order("echo ran");
    site.input(&mut order, "in", b"content");
    site.door.put("/data/in", b"CONTENT");
    site.submit(order);
    let ended = site.head.ended(RUN);
    let JobExit::NotStarted(failure) = &ended.exit else { panic!("{ended:?}") };
    assert_eq!(failure.kind, ErrorKind::Corrupt);
    assert!(failure.what.contains("/data/in") && !failure.what.contains("secret"), "{failure}");
    assert_eq!(ended.text.stdout, "");
    room.stop();
}

#[test]
fn an_output_that_is_missing_or_refused_fails_the_run_but_a_bad_exit_stores_nothing() {
    let site = Site::new();
    let room = site.room();
    let end_of = |job: u64, script: &str, name: &str, path: &str| -> JobEnded {
        let mut order = Site::order(script);
        order.run.job = JobId(job);
        output(&mut order, name, path);
        let run = order.run;
        site.submit(order);
        site.head.ended(run)
    };
    let kind_of = |ended: JobEnded| match ended.exit {
        JobExit::OutputFailed(failure) => failure.kind,
        exit => panic!("{exit:?}"),
    };
    assert_eq!(kind_of(end_of(1, "true", "out", "/out/a")), ErrorKind::NotFound);
    assert_eq!(kind_of(end_of(2, "echo x > out", "out", "/forbidden/a")), ErrorKind::Permission);
    assert_eq!(kind_of(end_of(3, "ln -s /etc/passwd out", "out", "/out/b")), ErrorKind::Permission);
    assert_eq!(end_of(4, "echo x > out; exit 1", "out", "/out/c").exit, JobExit::Code(1));
    assert!(site.door.get("/out/b").is_none() && site.door.get("/out/c").is_none());
    room.stop();
}

#[test]
fn names_that_leave_the_scratch_directory_are_refused() {
    let site = Site::new();
    let room = site.room();
    let bad = ["../evil", "a/b", "a/../b", "..", ".", "", "/etc/passwd"];
    for (job, name) in bad.into_iter().enumerate() {
        for is_input in [true, false] {
            // Outputs may lie in directories of the job.
            if name == "a/b" && !is_input {
                continue;
            }
            let mut order = Site::order("echo ran");
            order.run.job = JobId(100 + 2 * job as u64 + u64::from(is_input));
            if is_input {
                site.input(&mut order, "in", b"content");
                order.spec.inputs[0].name = name.to_owned();
            } else {
                output(&mut order, name, "/out/x");
            }
            let run = order.run;
            site.submit(order);
            let exit = site.head.ended(run).exit;
            assert!(
                matches!(&exit, JobExit::NotStarted(failure) if failure.kind == ErrorKind::Invalid),
                "{exit:?}"
            );
        }
    }
    room.stop();
}

/// Which release left a run.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// All files beside the scratch directory.
    Old,
    Today,
}

/// The directory of a run as a daemon that died in some phase left it.
fn leave_behind(site: &Site, layout: Layout, job: u64, files: &[(&str, &str)]) -> JobRun {
    let mut order = Site::order("echo ran >> runs");
    order.run.job = JobId(job);
    output(&mut order, "runs", &format!("/out/{job}"));
    let directory = site.config().directory.join(format!("runs/{job}.1"));
    let control = if layout == Layout::Old { directory.clone() } else { directory.join("control") };
    for part in [&control, &directory.join("scratch")] {
        fs::create_dir_all(part).unwrap();
    }
    fs::write(control.join("order.json"), serde_json::to_vec(&order).unwrap()).unwrap();
    for (name, text) in files {
        let parent = if name.starts_with("scratch/") { &directory } else { &control };
        fs::write(parent.join(name), text).unwrap();
    }
    order.run
}

const STARTED: &str = r#"{"pid":999999,"start_ticks":1,"at":0,"holds_memory":false}"#;

fn exited(by: &str) -> String {
    format!(
        r#"{{"exit":{{"code":0}},"usage":{{"cpu":5,"wall":6,"memory_bytes_max":7}},"not_enforced":[],"left_behind":[]{by}}}"#
    )
}

/// What a shepherd runs, as a release of `layout` writes it.
fn staged(layout: Layout) -> String {
    let confinement = Confinement {
        identity: Identity::own(),
        namespaces: support::namespaces(),
        hidden: Vec::new(),
        limits: Limits::default(),
    };
    let order = RunOrder {
        command: ["sh", "-c", "echo again > runs"].map(str::to_owned).to_vec(),
        environment: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
        wall: Millis(60_000),
        grace: Millis(1000),
        memory_bytes: 0,
        cgroup: None,
        confinement: Some(confinement),
    };
    let mut order = serde_json::to_value(&order).unwrap();
    if layout == Layout::Old {
        order.as_object_mut().unwrap().remove("confinement");
    }
    order.to_string()
}

fn goes_on(layout: Layout) {
    const ENDED: &str = r#"{"run":{"job":5,"attempt":1},"exit":{"code":9},
        "usage":{"cpu":0,"wall":0,"memory_bytes_max":0},"text":{"stdout":"","stderr":""}}"#;
    let site = Site::new();
    let worker = site.config().directory;
    let store = RunStore::open(&worker).unwrap();
    let (staged_order, by) = (staged(layout), if layout == Layout::Old { "" } else { r#","by":[999999,1]"# });
    let ordered = leave_behind(&site, layout, 1, &[("scratch/half-an-input", "x")]);
    let staged = leave_behind(&site, layout, 2, &[("run.json", &staged_order)]);
    if layout == Layout::Today {
        let order = store.run(staged).order().unwrap().unwrap();
        assert_eq!(order.run, staged);
        store.run(staged).furnish(&Identity::own(), None).unwrap();
    }
    let launched = leave_behind(&site, layout, 3, &[("run.json", &staged_order), ("started.json", STARTED)]);
    let files = [("started.json", STARTED), ("exit.json", &exited(by)), ("scratch/runs", "before\n")];
    let exited = leave_behind(&site, layout, 4, &files);
    let ended = leave_behind(&site, layout, 5, &[("ended.json", ENDED)]);
    let cancelled = leave_behind(&site, layout, 6, &[("run.json", &staged_order), ("cancel", "")]);
    let damaged = leave_behind(&site, layout, 7, &[("order.json", "{")]);
    let torn = leave_behind(&site, layout, 8, &[("exit.json", "{")]);
    fs::create_dir_all(worker.join("runs/9.1/scratch")).unwrap();
    fs::create_dir_all(worker.join("trash/10.1/scratch")).unwrap();
    drop(store);

    let room = site.room();
    assert_eq!(site.head.ended(ordered).exit, JobExit::Code(0));
    assert_eq!(site.door.get("/out/1").unwrap().0, b"ran\n");
    assert_eq!(site.head.ended(staged).exit, JobExit::Code(0));
    // What an older release staged has no user yet: it is staged anew.
    let written: &[u8] = if layout == Layout::Old { b"ran\n" } else { b"again\n" };
    assert_eq!(site.door.get("/out/2").unwrap().0, written);
    assert_eq!(site.head.ended(launched).exit, JobExit::Lost);
    let stored = site.head.ended(exited);
    assert_eq!((stored.exit, stored.usage.memory_bytes_max), (JobExit::Code(0), 7));
    assert_eq!(site.door.get("/out/4").unwrap().0, b"before\n");
    assert_eq!(site.head.ended(ended).exit, JobExit::Code(9));
    assert_eq!(site.head.ended(cancelled).exit, JobExit::Cancelled);
    assert_eq!(site.head.ended(torn).exit, JobExit::Lost);
    // The head counts what is not named as lost; a person finds what is left of it.
    let registered = site.head.until("the registration", |state| state.registered.first().cloned());
    assert!(!registered.runs.contains(&damaged));
    until("the end of all but one", || {
        let left: Vec<_> =
            fs::read_dir(worker.join("runs")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        (left == ["7.1"]).then_some(())
    });
    until("the empty trash", || (fs::read_dir(worker.join("trash")).unwrap().count() == 0).then_some(()));
    room.stop();
}

#[test]
fn every_run_goes_on_where_the_last_daemon_left_it() {
    goes_on(Layout::Today);
}

#[test]
fn every_run_goes_on_that_an_older_release_left() {
    goes_on(Layout::Old);
}

#[test]
fn a_record_counts_only_if_the_shepherd_of_the_run_wrote_it() {
    let site = Site::new();
    let mut runs = Vec::new();
    let by = ["", r#","by":[999999,2]"#, r#","by":[1,1]"#, r#","by":null"#];
    for (job, by) in by.into_iter().enumerate() {
        let files = [("started.json", STARTED), ("exit.json", &exited(by)), ("scratch/runs", "forged\n")];
        runs.push(leave_behind(&site, Layout::Today, job as u64, &files));
    }
    let never_began = [("exit.json", &*exited(r#","by":[999999,1]"#)), ("scratch/runs", "forged\n")];
    runs.push(leave_behind(&site, Layout::Today, 9, &never_began));
    let room = site.room();
    for run in runs {
        assert_eq!(site.head.ended(run).exit, JobExit::Lost, "{run:?}");
        assert!(site.door.get(&format!("/out/{}", run.job)).is_none());
    }
    room.stop();
}

/// The job of the review: it writes the record of its end itself, and goes on.
fn forges_its_end(site: &Site, control: &std::path::Path) {
    let script =
        format!("echo '{}' > {}/exit.json; echo $$ > pid; exec sleep 1000", exited(""), control.display());
    site.submit(Site::order(&script));
}

#[test]
fn a_forged_record_is_not_believed_and_the_job_can_be_cancelled() {
    let site = Site::new();
    let room = site.room();
    forges_its_end(&site, &site.run_dir().join("control"));
    let pid = site.pid_in_scratch();
    // Even one that is there: the job runs on.
    fs::write(site.run_dir().join("control/exit.json"), exited("")).unwrap();
    site.head.change(|state| state.kills.push(RUN));
    assert_eq!(site.head.ended(RUN).exit, JobExit::Cancelled);
    assert!(!is_alive(pid));
    room.stop();
}

#[test]
fn a_missing_shepherd_is_reported_not_waited_for() {
    let site = Site::new();
    let stop = Stop::default();
    let config = WorkerConfig { shepherd: PathBuf::from("/no/such/shepherd"), ..site.config() };
    let (control, told) = (site.head.control(), stop.clone());
    let room = Room { stop, thread: Some(thread::spawn(move || run_worker(config, control, told))) };
    site.submit(Site::order("true"));
    let exit = site.head.ended(RUN).exit;
    assert!(
        matches!(&exit, JobExit::NotStarted(failure) if failure.what.contains("such/shepherd")),
        "{exit:?}"
    );
    room.stop();
}

#[test]
fn two_rooms_never_share_a_directory() {
    let site = Site::new();
    let room = site.room();
    site.head.until("the registration", |state| (!state.registered.is_empty()).then_some(()));
    let second = run_worker(site.config(), site.head.control(), Stop::default());
    assert_eq!(second.unwrap_err().kind, ErrorKind::Busy);
    room.stop();
}

#[test]
fn many_short_jobs_all_come_back() {
    let site = Site::new();
    let room = site.room();
    let runs: Vec<JobRun> = (0..40).map(|job| JobRun { job: JobId(1000 + job), attempt: 1 }).collect();
    for (code, run) in runs.iter().enumerate() {
        let mut order = Site::order(&format!("exit {code}"));
        order.run = *run;
        site.submit(order);
    }
    for (code, run) in runs.iter().enumerate() {
        assert_eq!(site.head.ended(*run).exit, JobExit::Code(code as i32));
    }
    until("the end of all run directories", || {
        (fs::read_dir(site.root.path().join("worker/runs")).unwrap().count() == 0).then_some(())
    });
    room.stop();
}
