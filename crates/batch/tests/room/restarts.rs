//! What the next daemon makes of what the last one left.

use super::{
    RUN, Site, output, support,
    support::{is_alive, until},
};
use base::{JobId, Millis};
use batch::{
    cgroup::V1Parents,
    identity::Identity,
    run_dir::{OutputFiles, RunOrder, RunStore},
    sandbox::{Confinement, Limits},
};
use std::{collections::BTreeMap, fs};
use wire::control::{JobExit, JobRun};

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
        mount: None,
        command: ["sh", "-c", "echo again > runs"].map(str::to_owned).to_vec(),
        environment: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
        directory: None,
        files: OutputFiles::default(),
        wall: Millis(60_000),
        grace: Millis(1000),
        memory_bytes: 0,
        cgroup: None,
        cgroup_v1: V1Parents::default(),
        processors: Vec::new(),
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
        store.run(staged).prepare(&Identity::own(), None).unwrap();
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
    // It is staged anew: after a power cut nobody knows what of its inputs had reached the disk.
    assert_eq!(site.door.get("/out/2").unwrap().0, b"ran\n");
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
