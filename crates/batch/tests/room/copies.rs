//! Inputs and outputs: copied, tried again, refused.

use super::{
    RUN, Site, output,
    support::{door::Door, until},
};
use base::{ErrorKind, JobId};
use wire::control::{JobEnded, JobExit, JobOrder};

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
