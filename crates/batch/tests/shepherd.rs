//! Shepherds as real processes.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use base::{ErrorKind, Millis};
use batch::run_dir::{Phase, TEXT_BYTES_MAX};
use std::{fs, path::Path};
use support::{
    is_alive, outside,
    run::{Run, order, run, shell},
    until,
};
use wire::control::JobExit;

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

/// Affinity binds it everywhere, a group so that it cannot free itself; both show in the same line.
#[test]
fn a_job_has_the_processors_that_it_was_given() {
    let mut order = order(&["grep", "Cpus_allowed_list", "/proc/self/status"]);
    order.processors = vec![0];
    let (exit, run) = run(&order);
    assert_eq!(exit, JobExit::Code(0));
    assert_eq!(run.dir.tail("stdout"), "Cpus_allowed_list:\t0\n");
    order.processors = vec![1023];
    assert_eq!(self::run(&order).0, JobExit::Code(0), "a processor that is gone keeps no job from running");
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
    let mut order = shell("trap '' TERM; while :; do sleep 1; done");
    order.wall = Millis(300);
    order.grace = Millis(200);
    let run = Run::started(&order);
    let record = run.exit();
    assert_eq!(record.exit, JobExit::WallLimit);
    assert!(record.usage.wall.0 >= 300, "{record:?}");
    assert!(record.left_behind.is_empty());
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
        while [ ! -e seen ]; do sleep 0.01; done; exit 5";
    let run = Run::started(&shell(script));
    let pid = outside(run.shepherd().pid, run.line("pid").parse().unwrap());
    fs::write(run.dir.scratch().join("seen"), "").unwrap();
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
    let shepherd = run.shepherd().pid;
    let pid = outside(shepherd, run.line("pid").parse().unwrap());
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
