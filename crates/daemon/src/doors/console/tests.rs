//! Renders the example; the result can be looked at in `target/console.html`.

use super::*;
use base::Timestamp;
use wire::control::{JobExit, JobState};

fn text(markup: Markup) -> String {
    markup.into_string()
}

#[test]
fn the_page_shows_everything() {
    let page = text(page(&example::shown()));
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    std::fs::create_dir_all(target).unwrap();
    std::fs::write(format!("{target}/console.html"), &page).unwrap();
    for part in [
        "backplane-lab",
        "incarnation",
        "3 d 1 h",
        "disk3",
        "stopped 40 s ago",
        "is silent, last heard 1 min",
        "unavailable",
        "drv4",
        "unload failed",
        "BP0034",
        "suspect",
        "stream-03.parquet",
        "waits for 20 GiB",
        "and 1\u{2009}360 more",
        "select-run4712",
        "wall limit",
        "node02",
        "not enforced: memory",
        "production",
        "bp drive up drv4",
        "bp operator done 3",
        "host.stopped",
        "host disk3 has stopped",
        "bp events",
        "silent",
        "an exclusive lock for its process 4711",
        "mount 3 of carol on node02:/mnt has to return its grant",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = text(page(&example::shown()));
    for foreign in ["<script src", "<link rel=\"stylesheet\"", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn an_empty_facility_says_so() {
    let mut status = example::status();
    status.pools.clear();
    status.drives.clear();
    status.volumes.clear();
    status.hosts.clear();
    status.requests.clear();
    status.requests_len = 0;
    status.workers.clear();
    status.jobs.clear();
    let mounts = Mounts { now: status.now, mounts: vec![], files: vec![] };
    let page = text(page(&Shown { status, bill: Bill { lines: vec![] }, mounts, events: vec![] }));
    assert!(!page.contains("Needs a person"));
    assert_eq!(page.matches("class=\"nothing\"").count(), 9);
}

/// Puts a text that would run if it were not escaped wherever outside text can be.
fn hostile() -> Shown {
    const EVIL: &str = "<script>alert(1)</script>\"'&\r\nx";
    let (mut status, mut bill) = (example::status(), example::bill());
    let evil = || EVIL.to_owned();
    let path = || "/<script>alert(1)</script>\"'&".parse().unwrap();
    status.name = evil();
    status.version = evil();
    status.root = evil();
    for pool in &mut status.pools {
        pool.name = evil();
        pool.partitions.iter_mut().for_each(|partition| partition.name = evil());
    }
    for drive in &mut status.drives {
        (drive.name, drive.library, drive.trouble, drive.path) = (evil(), evil(), Some(evil()), Some(path()));
        drive.host = evil();
        drive.device.model = evil();
    }
    for volume in &mut status.volumes {
        (volume.library, volume.reason, volume.drive) = (evil(), Some(evil()), Some(evil()));
    }
    for request in &mut status.requests {
        (request.owner, request.reason, request.path) = (evil(), evil(), path());
    }
    for worker in &mut status.workers {
        (worker.name, worker.host, worker.not_enforced) = (evil(), evil(), vec![evil()]);
    }
    for job in &mut status.jobs {
        (job.owner, job.spec.name, job.spec.command) = (evil(), evil(), vec![evil()]);
        (job.worker, job.reason) = (Some(evil()), Some(evil()));
        job.exit = Some(JobExit::NotStarted(base::Failure::io(EVIL, &std::io::Error::other(EVIL))));
    }
    bill.lines.iter_mut().for_each(|line| line.owner = evil());
    let mut events = example::events();
    for event in &mut events {
        (event.subject, event.what) = (evil(), evil());
    }
    let mut mounts = example::mounts();
    mounts.mounts.iter_mut().for_each(|mount| (mount.user, mount.host) = (evil(), evil()));
    mounts.files[0].waits[0].why = evil();
    Shown { status, bill, mounts, events }
}

#[test]
fn outside_text_is_escaped() {
    let page = text(page(&hostile()));
    assert_eq!(page.matches("<script").count(), 1, "only our own");
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains("\"'&\r"), "quotes are escaped in attributes");
}

#[test]
fn an_event_has_no_carriage_return() {
    assert!(!event_data(&hostile()).contains('\r'));
    assert!(event_data(&example::shown()).contains("drv1"));
}

#[test]
fn the_page_stays_bounded() {
    let mut status = example::status();
    status.jobs = status.jobs.iter().cycle().take(200).cloned().collect();
    status.requests = status.requests.iter().cycle().take(1000).cloned().collect();
    status.volumes = status.volumes.iter().cycle().take(1000).cloned().collect();
    status.counts.volumes[0].volumes = 123_456;
    let page = text(page(&Shown { status, ..example::shown() }));
    assert!(page.len() < 400_000, "{}", page.len());
    assert!(page.contains("bp volumes") && page.contains("bp jobs"));
    // What is counted is not what is listed.
    for part in ["123\u{2009}485 volumes", "1\u{2009}234", "40\u{2009}000 queued", "41\u{2009}251 active"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_newest_event_comes_first_and_old_ones_are_counted() {
    let page = text(page(&example::shown()));
    let place = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(place("host disk3 has stopped") < place("drive drv4 has failed"));
    assert!(page.contains("and 40 more: <code>bp events"));
}

#[test]
fn a_drive_is_named_without_its_library() {
    let mut status = example::status();
    status.volumes[6].drive = Some("lib0.drive1".into());
    assert!(text(page(&Shown { status, ..example::shown() })).contains("in drive1<"));
}

#[test]
fn odd_figures_do_not_break_the_page() {
    let mut status = example::status();
    status.now = Timestamp(i64::MIN);
    status.started = Timestamp(i64::MAX);
    status.volumes.iter_mut().for_each(|volume| (volume.live_bytes, volume.capacity_bytes) = (u64::MAX, 0));
    status.pools[0].partitions[0].free_bytes = status.pools[0].partitions[0].total_bytes + 1;
    status.drives[0].bytes_done = status.drives[0].bytes_total + 1;
    status.jobs[0].state = JobState::Running;
    status.jobs[0].started = Some(Timestamp(i64::MAX));
    assert!(!text(page(&Shown { status, ..example::shown() })).contains("NaN"));
}
