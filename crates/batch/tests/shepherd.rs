//! Shepherds as real processes.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use base::{ErrorKind, JobId, Millis};
use batch::run_dir::{ExitRecord, Phase, RunDir, RunOrder, RunStore, Started, TEXT_BYTES_MAX};
use std::{collections::BTreeMap, fs, path::Path, process::Command};
use support::{SHEPHERD, is_alive, until};
use wire::control::{JobExit, JobOrder, JobRun, JobSpec, Resources};

/// A staged run in a directory of its own.
struct Run {
    root: tempfile::TempDir,
    dir: RunDir,
}

fn order(command: &[&str]) -> RunOrder {
    RunOrder {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
        wall: Millis::from_seconds(60),
        grace: Millis::from_seconds(10),
        memory_bytes: 0,
        cgroup: None,
    }
}

fn shell(script: &str) -> RunOrder {
    order(&["sh", "-c", script])
}

impl Run {
    fn staged(order: &RunOrder) -> Self {
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
                inputs: Vec::new(),
                outputs: Vec::new(),
                archive: false,
                environment: BTreeMap::new(),
            },
            inputs: Vec::new(),
            outputs: String::new(),
        };
        let dir = store.accept(&job_order).unwrap();
        assert_eq!(dir.phase(), Phase::Ordered);
        dir.set_staged(order).unwrap();
        assert_eq!(dir.phase(), Phase::Staged);
        Self { root, dir }
    }

    fn started(order: &RunOrder) -> Self {
        let run = Self::staged(order);
        run.start();
        run
    }

    fn start(&self) {
        let outer = Command::new(SHEPHERD).arg("shepherd").arg(self.dir.path()).status().unwrap();
        assert!(outer.success());
    }

    fn exit(&self) -> ExitRecord {
        until("the exit record", || self.dir.exit().unwrap())
    }

    fn shepherd(&self) -> Started {
        until("the shepherd", || self.dir.started().unwrap())
    }

    fn until_in_scratch(&self, name: &str) {
        let file = self.dir.scratch().join(name);
        until(name, || file.exists().then_some(()));
    }

    /// Content of a file in scratch, when the job has written a line to it.
    fn line(&self, name: &str) -> String {
        let file = self.dir.scratch().join(name);
        until(name, || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))).trim().to_owned()
    }
}

fn run(order: &RunOrder) -> (JobExit, Run) {
    let run = Run::started(order);
    (run.exit().exit, run)
}

#[test]
fn a_job_runs_in_scratch_with_its_own_environment_and_nothing_else() {
    let mut order = shell("echo out; echo err >&2; cat; pwd; env | sort; exit 3");
    order.environment.insert("COLOUR".into(), "blue".into());
    let (exit, run) = run(&order);
    assert_eq!(exit, JobExit::Code(3));
    assert_eq!(run.dir.tail("stderr"), "err\n");
    let stdout = run.dir.tail("stdout");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..2], ["out", run.dir.scratch().to_str().unwrap()]);
    let names = lines[2..].iter().map(|line| line.split('=').next().unwrap());
    assert!(names.clone().any(|name| name == "COLOUR"));
    // What a shell adds by itself.
    assert!(
        names.clone().all(|name| ["COLOUR", "PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name)),
        "{stdout}"
    );
    assert_eq!(run.dir.phase(), Phase::Exited);
}

#[test]
fn a_job_starts_with_no_signal_blocked_and_can_be_stopped_by_a_closed_pipe() {
    let (_, run) = run(&order(&["cat", "/proc/self/status"]));
    let status = run.dir.tail("stdout");
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0);
    let sigpipe = 1 << (13 - 1);
    assert_eq!(mask("SigIgn:") & sigpipe, 0);
}

#[test]
fn a_signal_is_reported_as_such() {
    assert_eq!(run(&shell("kill -9 $$")).0, JobExit::Signal(9));
    assert_eq!(run(&shell("exit 127")).0, JobExit::Code(127));
}

#[test]
fn a_program_that_is_not_there_was_not_started() {
    let (exit, _run) = run(&order(&["no-such-program"]));
    let JobExit::NotStarted(failure) = exit else { panic!("{exit:?}") };
    assert_eq!(failure.kind, ErrorKind::NotFound);
    assert!(failure.what.contains("no-such-program") && failure.hint.is_some(), "{failure:?}");
}

#[test]
fn usage_counts_the_whole_tree() {
    // The inner shell loses its parent and is waited for by the shepherd.
    let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("(sh -c '{burn}; echo done > done' &) ; while [ ! -e done ]; do sleep 0.01; done");
    let run = Run::started(&shell(&script));
    let record = run.exit();
    assert_eq!(record.exit, JobExit::Code(0));
    assert!(record.usage.cpu.0 > 0, "{record:?}");
    assert!(record.usage.memory_bytes_max > 100_000, "{record:?}");
    assert!(record.usage.wall.0 > 0, "{record:?}");
}

#[test]
fn the_wall_limit_ends_a_job_that_does_not_listen() {
    let mut order = shell("trap '' TERM; echo $$ > pid; while :; do sleep 1; done");
    order.wall = Millis(300);
    order.grace = Millis(200);
    let run = Run::started(&order);
    let record = run.exit();
    assert_eq!(record.exit, JobExit::WallLimit);
    assert!(record.usage.wall.0 >= 300, "{record:?}");
    // On a very busy host the limit may pass before the first word of the job.
    if let Ok(pid) = fs::read_to_string(run.dir.scratch().join("pid")) {
        assert!(pid.trim().parse().is_ok_and(|pid| !is_alive(pid)));
    }
}

#[test]
fn a_job_that_listens_has_time_to_say_goodbye() {
    let run = Run::started(&shell(
        "trap 'echo bye > last; exit 0' TERM; echo > ready; while :; do sleep 0.02; done",
    ));
    run.until_in_scratch("ready");
    run.dir.cancel().unwrap();
    assert_eq!(run.exit().exit, JobExit::Cancelled);
    assert_eq!(run.line("last"), "bye");
}

#[test]
fn a_run_cancelled_before_it_began_never_runs() {
    let run = Run::staged(&shell("echo ran > ran"));
    run.dir.cancel().unwrap();
    run.start();
    assert_eq!(run.exit().exit, JobExit::Cancelled);
    assert!(!run.dir.scratch().join("ran").exists());
}

#[test]
fn a_grandchild_in_a_session_of_its_own_does_not_survive_the_job() {
    let script = "setsid sh -c '(setsid sh -c \"echo \\$\\$ > pid; sleep 1000\" &)'; \
        while [ ! -s pid ]; do sleep 0.01; done; exit 5";
    let run = Run::started(&shell(script));
    let pid: i32 = run.line("pid").parse().unwrap();
    let record = run.exit();
    assert_eq!(record.exit, JobExit::Code(5));
    assert!(record.left_behind.is_empty());
    assert!(!is_alive(pid));
}

#[test]
fn a_shepherd_that_is_told_to_end_ends_the_job_and_says_how_it_ended() {
    let run = Run::started(&shell("echo > ready; exec sleep 1000"));
    run.until_in_scratch("ready");
    support::send(run.shepherd().pid, "TERM");
    assert_eq!(run.exit().exit, JobExit::Signal(15));
}

#[test]
fn a_killed_shepherd_leaves_no_record_and_no_job() {
    let run = Run::started(&shell("echo $$ > pid; exec sleep 1000"));
    let pid: i32 = run.line("pid").parse().unwrap();
    let shepherd = run.shepherd().pid;
    support::send(shepherd, "KILL");
    until("the end of the job", || (!is_alive(pid) && !is_alive(shepherd)).then_some(()));
    assert_eq!(run.dir.phase(), Phase::Launched);
}

#[test]
fn of_many_shepherds_one_runs_the_job() {
    let run = Run::staged(&shell("echo run >> runs; while [ ! -e go ]; do sleep 0.01; done"));
    for _ in 0..4 {
        run.start();
    }
    run.line("runs");
    fs::write(run.dir.scratch().join("go"), "").unwrap();
    assert_eq!(run.exit().exit, JobExit::Code(0));
    run.start();
    assert_eq!(fs::read_to_string(run.dir.scratch().join("runs")).unwrap(), "run\n");
}

#[test]
fn without_a_control_group_each_process_is_held_to_the_memory_limit_and_that_is_said() {
    // tail keeps its last line: two hundred megabytes without an end of line.
    let mut order = shell("head -c 200000000 /dev/zero | tail -n 1 > /dev/null");
    order.memory_bytes = 50_000_000;
    let run = Run::started(&order);
    let record = run.exit();
    assert!(matches!(record.exit, JobExit::Code(code) if code != 0), "{record:?}");
    assert!(record.not_enforced.iter().any(|limit| limit.contains("memory")), "{record:?}");
}

#[test]
fn the_end_of_long_output_is_kept_as_text() {
    let (_, run) = run(&shell("head -c 200000 /dev/zero | tr '\\0' 'x'; printf 'h\\303\\244llo\\377'"));
    let tail = run.dir.tail("stdout");
    assert!(tail.len() <= TEXT_BYTES_MAX && tail.len() > TEXT_BYTES_MAX - 4, "{}", tail.len());
    assert!(tail.ends_with("xhällo\u{fffd}"));
    assert_eq!(run.dir.tail("nothing"), "");
    assert!(Path::new(run.root.path()).exists());
}
