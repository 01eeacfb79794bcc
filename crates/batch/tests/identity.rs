//! Jobs of other users than the worker's: real processes with real uids. Only root can become somebody else.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use batch::{
    identity::{Identity, Kind},
    run_dir::RunOrder,
    sandbox::Namespaces,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};
use support::{
    is_alive, outside,
    run::{Run, shell},
    until,
};
use wire::control::JobExit;

/// Nobody on a usual host has these.
const USER: u32 = 2_000_000_011;
const SLOT: u32 = 2_000_000_012;
const GROUP: u32 = 2_000_000_013;

/// Whether this test can run: it needs root.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        // Said by the runner with `--nocapture`; the other tests of this crate run as anybody.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: only root can become another user\n",
        );
    }
    is_root
}

fn user(uid: u32) -> Identity {
    Identity { kind: Kind::User, uid, gid: uid, groups: vec![GROUP], name: uid.to_string() }
}

fn slot() -> Identity {
    Identity { kind: Kind::Slot, uid: SLOT, gid: SLOT, groups: Vec::new(), name: SLOT.to_string() }
}

fn as_user(identity: Identity, script: &str) -> RunOrder {
    let mut order = shell(script);
    order.confinement.as_mut().unwrap().identity = identity;
    order
}

/// Runs a script to its end; returns what it printed.
#[track_caller]
fn output_of(order: &RunOrder) -> (String, Run) {
    let run = Run::started(order);
    let record = run.exit();
    let (out, err) = (run.dir.tail("stdout"), run.dir.tail("stderr"));
    assert_eq!(record.exit, JobExit::Code(0), "{out}{err}");
    (out, run)
}

fn status_of(text: &str, field: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim_matches([':', '\t', ' ']).to_owned()
}

#[test]
fn a_job_is_its_user_for_good() {
    if !is_root() {
        return;
    }
    let (out, run) =
        output_of(&as_user(user(USER), "cat /proc/self/status; touch made; stat -c %u:%g made ."));
    let ids = |number: u32| [number; 4].map(|id| id.to_string()).join("\t");
    assert_eq!(status_of(&out, "Uid"), ids(USER));
    assert_eq!(status_of(&out, "Gid"), ids(USER));
    assert_eq!(status_of(&out, "Groups"), GROUP.to_string());
    assert_eq!(status_of(&out, "NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status_of(&out, set).trim_matches('0'), "", "{set}");
    }
    assert!(out.ends_with(&format!("{USER}:{USER}\n{USER}:{USER}\n")), "{out}");
    let control = run.dir.file("run.json").metadata().unwrap();
    assert_eq!((control.uid(), control.mode() & 0o777), (0, 0o600));
}

#[test]
fn a_job_of_the_workers_own_user_keeps_no_capability() {
    let (out, _run) = output_of(&shell("cat /proc/self/status"));
    let uid = rustix::process::geteuid().as_raw();
    assert!(status_of(&out, "Uid").starts_with(&format!("{uid}\t")), "{out}");
    assert_eq!(status_of(&out, "NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status_of(&out, set).trim_matches('0'), "", "{set}");
    }
}

#[test]
fn a_job_sees_its_own_processes_only() {
    if !is_root() {
        return;
    }
    let other = Run::started(&as_user(user(USER), "echo $$ > pid; exec sleep 1000"));
    let pid = outside(other.shepherd().pid, other.line("pid").parse().unwrap());
    let script = format!(
        "ls /proc | grep -c '^[0-9]*$'; test ! -e /proc/{pid} && ! kill -0 {pid} && tr '\\0' ' ' < /proc/1/cmdline"
    );
    // The same user: nothing but the namespace keeps them apart.
    let (out, _run) = output_of(&as_user(user(USER), &script));
    let count: u32 = out.lines().next().unwrap().parse().unwrap();
    assert!(count <= 6, "{out}");
    assert!(out.contains("--stage init"), "{out}");
    other.dir.cancel().unwrap();
    assert_eq!(other.exit().exit, JobExit::Cancelled);
    assert!(!is_alive(pid));
}

#[test]
fn a_job_finds_nothing_of_the_facility_but_what_is_its_own() {
    let others = if is_root() { vec![user(USER), slot()] } else { Vec::new() };
    for identity in others.into_iter().chain([Identity::own()]) {
        let mut order = as_user(identity, "");
        let run = Run::staged(&order);
        let facility = run.root.path().to_owned();
        for (name, mode) in [("key", 0o644), ("catalogue.sqlite", 0o666)] {
            fs::write(facility.join(name), "secret").unwrap();
            fs::set_permissions(facility.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(facility.join("runs/8.1/scratch")).unwrap();
        // Not in /tmp, which the job does not see in any case.
        let elsewhere = tempfile::NamedTempFile::with_prefix_in("secret", env!("CARGO_TARGET_TMPDIR"));
        let elsewhere = elsewhere.ok().map(tempfile::NamedTempFile::into_temp_path);
        let secret = elsewhere.as_deref().map_or_else(|| facility.join("key"), Path::to_owned);
        fs::write(&secret, "secret").unwrap();
        let confinement = order.confinement.as_mut().unwrap();
        confinement.hidden = vec![facility.clone(), secret.clone()];
        let (dir, secret) = (facility.display(), secret.display());
        order.command[2] = format!(
            "find {dir} | sort; cat {dir}/key {dir}/catalogue.sqlite {dir}/runs/7.1/control/run.json; cat {secret}; \
             touch {dir}/new; rm -r {dir}/runs; umount {dir}; unshare -Urm umount {dir}; echo x > own; \
             cat {dir}/key {secret}; ls {dir}/runs/7.1; exit 0"
        );
        run.dir.set_staged(&order).unwrap();
        run.start();
        let exit = run.exit().exit;
        let (out, err) = (run.dir.tail("stdout"), run.dir.tail("stderr"));
        assert_eq!(exit, JobExit::Code(0), "{err}");
        assert!(!out.contains("secret") && !out.contains("control") && !out.contains("8.1"), "{out}");
        assert!(out.contains("/runs/7.1/scratch\n") && out.contains("/runs/7.1/credentials\n"), "{out}");
        assert!(!facility.join("new").exists() && run.dir.scratch().join("own").exists(), "{err}");
    }
}

#[test]
fn temporary_directories_are_the_jobs_own_and_go_with_it() {
    if !is_root() {
        return;
    }
    let mark = format!("bp-test-{}", std::process::id());
    let script =
        format!("for d in /tmp /var/tmp /dev/shm; do ls -A $d; echo x > $d/{mark}; stat -c %a $d; done");
    let (out, run) = output_of(&as_user(user(USER), &script));
    // Where the test's own directory is in /tmp, the way to scratch is there.
    assert!(out.lines().filter(|line| *line == "1777").count() == 3, "{out}");
    assert!(!out.contains("pytest") && !out.contains(&mark), "{out}");
    for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert!(!Path::new(directory).join(&mark).exists(), "{directory}");
    }
    assert!(run.dir.path().join("tmp").join(&mark).exists(), "counted as scratch, and deleted with it");
}

#[test]
fn a_slot_user_can_write_nowhere_else() {
    if !is_root() {
        return;
    }
    let script = "find / -xdev -type d -perm -0002 2>/dev/null > all; \
        for d in $(cat all) /run/lock /var/spool /var/crash /; do echo x > $d/mine 2>/dev/null && echo $d; done; exit 0";
    let (out, run) = output_of(&as_user(slot(), script));
    let scratch = run.dir.scratch();
    let allowed = ["/tmp", "/var/tmp", "/dev/shm", scratch.to_str().unwrap()];
    for line in out.lines() {
        assert!(allowed.iter().any(|allowed| line.starts_with(allowed)), "{line} is writable");
    }
}

#[test]
fn what_prints_once_more_by_name_prints() {
    if !is_root() {
        return;
    }
    let (out, run) =
        output_of(&as_user(user(USER), "echo one; echo two > /dev/stdout; echo three > /dev/stderr"));
    // A shell truncates what it opens.
    assert!(out.contains("two"), "{out}");
    assert!(run.dir.tail("stderr").contains("three"));
}

#[test]
fn system_v_memory_is_gone_with_the_job() {
    if !is_root() {
        return;
    }
    let (out, _run) = output_of(&as_user(user(USER), "ipcmk -M 4096 > /dev/null; ipcs -m | grep -c 4096"));
    assert_eq!(out, "1\n");
    let left = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    assert!(!left.contains(&USER.to_string()), "{left}");
}

#[test]
fn a_process_that_leaves_everything_behind_ends_with_the_job() {
    if !is_root() {
        return;
    }
    let script = "setsid -f env -i sh -c 'cd /; exec >/dev/null 2>&1; echo $$ > /tmp/pid; exec sleep 1000'; \
        until [ -s /tmp/pid ]; do sleep 0.01; done; cp /tmp/pid pid; until [ -e seen ]; do sleep 0.01; done";
    let run = Run::started(&as_user(user(USER), script));
    let pid = outside(run.shepherd().pid, run.line("pid").parse().unwrap());
    support::send(run.shepherd().pid, "KILL");
    until("the end of the process", || (!is_alive(pid)).then_some(()));
}

#[test]
fn too_much_of_anything_ends_the_job_with_a_reason() {
    let limited = |script: &str, set: fn(&mut batch::sandbox::Limits)| {
        let mut order = shell(script);
        set(&mut order.confinement.as_mut().unwrap().limits);
        Run::started(&order).exit().exit
    };
    let what = |exit: JobExit| match exit {
        JobExit::Limit(what) => what,
        exit => panic!("{exit:?}"),
    };
    let long = limited("yes", |limits| limits.output_bytes = 100_000);
    assert!(what(long).contains("standard output is longer than"));
    let long = limited("yes >&2", |limits| limits.output_bytes = 100_000);
    assert!(what(long).contains("standard error is longer than"));
    let fill = "i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > f$i; sleep 0.05; done";
    assert!(what(limited(fill, |limits| limits.scratch_bytes = 1 << 20)).contains("hold more than 1MiB"));
    // The kernel holds one file to it at once.
    let exit = limited("head -c 10000000 /dev/zero > f", |limits| limits.scratch_bytes = 1 << 20);
    assert!(matches!(exit, JobExit::Code(code) if code != 0), "{exit:?}");
}

#[test]
fn a_job_may_start_so_many_processes() {
    if !is_root() {
        return;
    }
    let mut order = as_user(slot(), "i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done; exit 0");
    order.confinement.as_mut().unwrap().limits.processes = 20;
    let run = Run::started(&order);
    assert!(matches!(run.exit().exit, JobExit::Code(code) if code != 0));
    assert!(run.dir.tail("stderr").to_lowercase().contains("fork"), "{}", run.dir.tail("stderr"));
}

#[test]
fn without_a_proc_of_its_own_a_job_still_touches_no_other_process() {
    if !is_root() {
        return;
    }
    let other = Run::started(&as_user(user(USER), "echo $$ > pid; exec sleep 1000"));
    let pid = outside(other.shepherd().pid, other.line("pid").parse().unwrap());
    let mut order =
        as_user(user(USER), &format!("ls /proc/{pid} > /dev/null && ! kill -0 {pid}; kill -9 -1; exit 5"));
    order.confinement.as_mut().unwrap().namespaces.proc = false;
    assert_eq!(Run::started(&order).exit().exit, JobExit::Code(5));
    assert!(is_alive(pid));
    other.dir.cancel().unwrap();
    assert_eq!(other.exit().exit, JobExit::Cancelled);
}

#[test]
fn without_namespaces_the_same_stages_run() {
    let mut order = shell(
        "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while [ ! -e seen ]; do sleep 0.01; done; exit 4",
    );
    order.confinement.as_mut().unwrap().namespaces = Namespaces::default();
    let run = Run::started(&order);
    let pid: i32 = run.line("pid").parse().unwrap();
    assert!(is_alive(pid));
    fs::write(run.dir.scratch().join("seen"), "").unwrap();
    let record = run.exit();
    assert_eq!((record.exit, record.left_behind), (JobExit::Code(4), Vec::new()));
    assert!(!is_alive(pid));
}

/// A directory that only `uid` may enter, outside of /tmp, which jobs do not see.
fn home_of(uid: u32) -> tempfile::TempDir {
    let home = tempfile::tempdir_in("/run").unwrap();
    std::os::unix::fs::chown(home.path(), Some(uid), Some(uid)).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    home
}

fn printing_to(identity: Identity, file: &Path, script: &str) -> RunOrder {
    let mut order = as_user(identity, script);
    order.files.stdout = Some(file.to_owned());
    order.files.stderr = Some(file.to_owned());
    order
}

#[test]
fn files_of_the_host_belong_to_the_user_and_show_both_outputs_in_order() {
    if !is_root() {
        return;
    }
    let home = home_of(USER);
    let file = home.path().join("out");
    fs::write(&file, "before\n").unwrap();
    std::os::unix::fs::chown(&file, Some(USER), Some(USER)).unwrap();
    let order = printing_to(user(USER), &file, "echo one; echo two >&2; echo three");
    let (out, run) = output_of(&order);
    assert_eq!(out, "one\ntwo\nthree\n", "what the file held before is not of this job");
    assert_eq!(run.dir.tail("stderr"), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before\none\ntwo\nthree\n");
    let mut order = printing_to(user(USER), &home.path().join("new"), "echo again; echo apart >&2");
    order.files.truncate = true;
    order.files.stderr = Some(home.path().join("errors"));
    let (_, run) = output_of(&order);
    assert_eq!(run.dir.tail("stderr"), "apart\n");
    let made = home.path().join("new").metadata().unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (USER, USER, 0o644));
}

#[test]
fn no_file_is_opened_that_the_user_may_not_write() {
    if !is_root() {
        return;
    }
    let (mine, other) = (home_of(USER), home_of(0));
    let secret = other.path().join("secret");
    fs::write(&secret, "secret\n").unwrap();
    let link = mine.path().join("link");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    for file in [&secret, &link, &other.path().join("new"), &mine.path().join("missing/out")] {
        let run = Run::started(&printing_to(user(USER), file, "echo gone wrong"));
        let JobExit::NotStarted(failure) = run.exit().exit else { panic!("{}", file.display()) };
        assert!(failure.what.contains(&*file.to_string_lossy()) && failure.hint.is_some(), "{failure:?}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret\n");
    let run = Run::started(&printing_to(slot(), &mine.path().join("out"), "echo"));
    assert!(matches!(run.exit().exit, JobExit::NotStarted(_)), "a slot user leaves nothing on the host");
}

/// What its user puts in the place of an output later must not be shown.
#[test]
fn an_output_that_was_replaced_is_not_shown() {
    if !is_root() {
        return;
    }
    let home = home_of(USER);
    let file = home.path().join("out");
    let script = format!("echo mine; ln -sf /etc/shadow {}", file.display());
    let (out, _) = output_of(&printing_to(user(USER), &file, &script));
    assert!(out.contains("replaced") && !out.contains("root:"), "{out}");
}

/// When the job is over nothing keeps the number of its file: somebody else's new file may have it.
#[test]
fn an_output_is_read_with_the_rights_of_the_user() {
    if !is_root() {
        return;
    }
    let home = home_of(USER);
    let file = home.path().join("out");
    let (out, run) = output_of(&printing_to(user(USER), &file, "echo mine"));
    assert_eq!(out, "mine\n");
    std::os::unix::fs::chown(&file, Some(0), Some(0)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let out = run.dir.tail("stdout");
    assert!(out.contains("denied") && !out.contains("mine"), "{out}");
    assert!(rustix::process::geteuid().is_root(), "the reader is who it was");
}

#[test]
fn the_working_directory_is_entered_as_the_user() {
    if !is_root() {
        return;
    }
    let (mine, other) = (home_of(USER), home_of(0));
    let mut order = as_user(user(USER), "pwd; echo made >made");
    order.directory = Some(mine.path().to_owned());
    let (out, _) = output_of(&order);
    assert_eq!(out, format!("{}\n", mine.path().display()));
    assert_eq!(mine.path().join("made").metadata().unwrap().uid(), USER);
    order.directory = Some(other.path().to_owned());
    let JobExit::NotStarted(failure) = Run::started(&order).exit().exit else { panic!("entered") };
    assert!(failure.what.contains("working directory"), "{failure:?}");
}

/// Each job has a /tmp of its own; a working directory below it is the one that its user knows.
#[test]
fn a_working_directory_below_tmp_is_that_of_the_host() {
    if !is_root() || !support::namespaces().mounts {
        return;
    }
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(directory.path(), Some(USER), Some(USER)).unwrap();
    let mut order = as_user(user(USER), "echo made >made; ls -A /tmp");
    order.directory = Some(directory.path().to_owned());
    let (out, run) = output_of(&order);
    assert_eq!(fs::read_to_string(directory.path().join("made")).unwrap(), "made\n");
    let mut seen =
        [directory.path(), run.root.path()].map(|path| path.file_name().unwrap().to_str().unwrap());
    seen.sort_unstable();
    let mut names: Vec<&str> = out.lines().collect();
    names.sort_unstable();
    assert_eq!(names, seen, "of the rest of the host's /tmp it sees nothing");
    let closed = home_of(0);
    std::os::unix::fs::symlink(closed.path(), directory.path().join("way")).unwrap();
    fs::create_dir(closed.path().join("open")).unwrap();
    order.directory = Some(directory.path().join("way/open"));
    assert!(matches!(Run::started(&order).exit().exit, JobExit::NotStarted(_)));
}

/// What the stages do as the job's user must not undo that they end with the shepherd.
#[test]
fn a_job_in_a_directory_below_tmp_ends_with_its_shepherd() {
    if !is_root() || !support::namespaces().mounts {
        return;
    }
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(directory.path(), Some(USER), Some(USER)).unwrap();
    let mut order = as_user(user(USER), "echo $$ > pid; exec sleep 1000");
    order.directory = Some(directory.path().to_owned());
    let run = Run::started(&order);
    let file = directory.path().join("pid");
    let written = || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    let pid = outside(run.shepherd().pid, until("the job", written).trim().parse().unwrap());
    support::send(run.shepherd().pid, "KILL");
    until("the end of the job", || (!is_alive(pid)).then_some(()));
}
