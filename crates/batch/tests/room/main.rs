//! The worker against a head and a door of our own, with real shepherds and jobs.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod copies;
mod restarts;
#[path = "../support/mod.rs"]
mod support;

use base::{Checksums, ErrorKind, JobId, Millis};
use batch::{
    WorkerConfig,
    cgroup::V1Parents,
    run_dir::{RunStore, Started},
    run_worker,
    sandbox::Limits,
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
    Delivered, InputSource, JobExit, JobInput, JobOrder, JobOutput, JobRun, JobSpec, Resources, RunDelivery,
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
            mount: None,
            directory: self.root.path().join("worker"),
            name: "w1".to_owned(),
            cpus: 2,
            memory_bytes: 1 << 30,
            labels: Vec::new(),
            shepherd: PathBuf::from(SHEPHERD),
            ca_file: None,
            facility: "http://facility".to_owned(),
            facility_of_owner: None,
            environment: BTreeMap::from(
                ["FROM_SITE", "BOTH"].map(|name| (name.to_owned(), "site".to_owned())),
            ),
            cgroup: None,
            cgroup_v1: V1Parents::default(),
            users: support::policy(),
            limits: Limits::default(),
            slurm: None,
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
                ..JobSpec::default()
            },
            queue: String::new(),
            array: None,
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

#[test]
fn a_script_runs_by_its_first_line_or_by_the_shell() {
    let site = Site::new();
    let room = site.room();
    for (number, script) in
        ["#!/bin/sh\necho \"$# $1\" >&2; exit 3\n", "echo \"$# $1\" >&2; exit 3"].into_iter().enumerate()
    {
        let mut order = Site::order("");
        order.run.attempt = number as u32 + 1;
        order.spec.script = Some(script.to_owned());
        order.spec.command = vec!["a b\n'c'".to_owned(), String::new()];
        let run = order.run;
        site.submit(order);
        let ended = site.head.ended(run);
        assert_eq!(ended.exit, JobExit::Code(3), "{ended:?}");
        assert_eq!(ended.text.stderr, "2 a b\n'c'\n");
    }
    room.stop();
}

#[test]
fn a_job_of_sbatch_knows_its_array_and_prints_to_the_file_that_it_names() {
    let site = Site::new();
    let room = site.room();
    let place = tempfile::tempdir().unwrap();
    let mut order =
        Site::order("echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $BP_ARRAY_INDEX $SLURM_JOB_ID");
    let element = wire::control::ArrayElement { array: JobId(5), index: 3 };
    order.array = Some(wire::control::ArrayOrder { element, count: 4, index_min: 1, index_max: 4 });
    order.spec.dialect = wire::control::JobDialect::Slurm;
    order.spec.directory = Some(place.path().display().to_string());
    order.spec.stdout = Some("%x-%A_%a-%4j.out".to_owned());
    site.submit(order);
    let ended = site.head.ended(RUN);
    assert_eq!((ended.exit, &*ended.text.stdout), (JobExit::Code(0), "5 3 3 7\n"));
    assert_eq!(fs::read_to_string(place.path().join("test-5_3-0007.out")).unwrap(), "5 3 3 7\n");
    room.stop();
}

#[test]
fn signals_and_messages_reach_the_program_once() {
    let site = Site::new();
    let room = site.room();
    let script = "trap 'echo got' USR1; echo $$ >pid; while [ ! -e go ]; do sleep 0.01; done; sleep 0.1";
    site.submit(Site::order(script));
    site.until_in_scratch("pid");
    let deliver = |number, what| RunDelivery { number, run: RUN, what };
    let all = vec![
        deliver(1, Delivered::ToStderr("a word".to_owned())),
        deliver(2, Delivered::Signal(10)),
        deliver(3, Delivered::ToStdout("another".to_owned())),
    ];
    site.head.change(|state| state.deliver = all);
    let stdout = site.run_dir().join("control/stdout");
    until("both", || {
        fs::read_to_string(&stdout).ok().filter(|text| text.contains("got") && text.contains("another"))
    });
    site.head.until("the acknowledgement", |state| (state.delivered == 3).then_some(()));
    room.stop();
    let room = site.room();
    site.head.until("it came again", |state| (state.delivered == 3).then_some(()));
    fs::write(site.scratch().join("go"), "").unwrap();
    let ended = site.head.ended(RUN);
    assert_eq!(ended.exit, JobExit::Code(0));
    assert!(ended.text.stderr.starts_with("a word\n"), "a shell may add what became of its child");
    assert_eq!(ended.text.stdout.matches("got").count(), 1, "{}", ended.text.stdout);
    room.stop();
}

#[test]
fn a_wall_limit_may_change_while_a_job_runs() {
    let site = Site::new();
    let room = site.room();
    site.submit(Site::order("echo >begun; exec sleep 100"));
    site.until_in_scratch("begun");
    let what = Delivered::Wall(Millis(1));
    site.head.change(|state| state.deliver = vec![RunDelivery { number: 1, run: RUN, what }]);
    assert_eq!(site.head.ended(RUN).exit, JobExit::WallLimit);
    room.stop();
}

/// The answer that gave the job to the worker may be lost, and a signal come before the next one.
#[test]
fn what_is_delivered_with_the_order_of_a_run_reaches_it() {
    let site = Site::new();
    let what = Delivered::Wall(Millis(1));
    site.head.change(|state| {
        state.orders.push(Site::order("exec sleep 10"));
        state.deliver = vec![RunDelivery { number: 1, run: RUN, what }];
    });
    let room = site.room();
    assert_eq!(site.head.ended(RUN).exit, JobExit::WallLimit);
    room.stop();
}

#[test]
fn a_message_to_a_pipe_that_nobody_reads_does_not_stop_the_shepherd() {
    let site = Site::new();
    let room = site.room();
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    // As much as a pipe holds.
    let mut order = Site::order("head -c 65536 /dev/zero; echo >begun; exec sleep 100");
    order.spec.stdout = Some(pipe.display().to_string());
    site.submit(order);
    site.until_in_scratch("begun");
    let deliver = |number, what| RunDelivery { number, run: RUN, what };
    site.head.change(|state| {
        state.deliver = vec![
            deliver(1, Delivered::ToStdout("a word".to_owned())),
            deliver(2, Delivered::Wall(Millis(1))),
        ];
    });
    assert_eq!(site.head.ended(RUN).exit, JobExit::WallLimit);
    room.stop();
}
