//! The figures of an example facility.

use super::*;
use crate::doors::console::example;
use base::ErrorKind;
use net::unproven::Unproven;
use std::{
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

fn text() -> String {
    let doors = DoorCounters::default();
    let sessions = net::xrd::Counters { sessions_now: 3.into(), ..net::xrd::Counters::default() };
    doors.sessions.set(Arc::new(sessions)).unwrap();
    let _open = doors.http.connect();
    drop(doors.http.connect());
    doors.http.answer(None);
    doors.http.answer(Some(ErrorKind::NotFound));
    doors.root.traffic.add_in(10);
    doors.root.traffic.add_out(20);
    doors.http.took(Duration::from_millis(3));
    doors.unproven.set(Unproven::default()).unwrap();
    let waits = Waits::default();
    waits.recalls.note(Duration::from_secs(90));
    render(&example::status(), &example::bill(), &doors, &waits)
}

#[test]
fn figures_are_there() {
    let text = text();
    for line in [
        "backplane_head_starts_total 14",
        "backplane_partition_free_bytes{pool=\"main\",partition=\"disk3\"} 316753838080",
        "backplane_partition_available{pool=\"scratch\",partition=\"ssd2\"} 0",
        "backplane_host_here{host=\"disk3\"} 1",
        "backplane_host_here{host=\"tape1\"} 0",
        "backplane_drive_phase{library=\"lib0\",drive=\"drv4\",phase=\"stuck\"} 1",
        "backplane_drive_trouble{library=\"lib0\",drive=\"drv4\"} 1",
        "backplane_volumes{state=\"suspect\"} 1",
        "backplane_tape_requests{kind=\"recall\",state=\"queued\"} 1300",
        "backplane_tape_request_age_max_seconds{kind=\"recall\"} 611",
        "backplane_jobs{state=\"running\"} 1234",
        "backplane_tape_loads_total 2142.75",
        "backplane_door_connections_open{door=\"root\"} 3",
        "backplane_door_connections_open{door=\"http\"} 1",
        "backplane_door_connections_total{door=\"http\"} 2",
        "backplane_door_requests_total{door=\"http\"} 2",
        "backplane_door_errors_total{door=\"http\",kind=\"not_found\"} 1",
        "backplane_door_out_bytes_total{door=\"root\"} 20",
        "backplane_door_request_seconds_bucket{door=\"http\",le=\"0.0025\"} 0",
        "backplane_door_request_seconds_bucket{door=\"http\",le=\"0.005\"} 1",
        "backplane_door_request_seconds_bucket{door=\"http\",le=\"+Inf\"} 1",
        "backplane_door_request_seconds_sum{door=\"http\"} 0.003",
        "backplane_tape_wait_seconds_bucket{kind=\"recall\",le=\"60\"} 0",
        "backplane_tape_wait_seconds_count{kind=\"recall\"} 1",
        "backplane_unproven_connections 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn the_text_is_well_formed() {
    let text = text();
    assert!(text.ends_with('\n'));
    let (mut family, mut families, mut samples) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert!(families.insert(family.clone()), "{family} twice");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let name = series.split('{').next().unwrap();
        let ends = ["", "_bucket", "_sum", "_count"];
        assert!(ends.iter().any(|end| name == format!("{family}{end}")), "{name} in {family}");
        assert!(samples.insert(series.to_owned()), "{series} twice");
    }
}

/// What the tool of Prometheus says of names, help and units, where it is installed.
#[test]
fn promtool_has_nothing_to_say() {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else {
        eprintln!("skipped: promtool is not installed (Debian package prometheus)");
        return;
    };
    tool.stdin.take().unwrap().write_all(text().as_bytes()).unwrap();
    let said = tool.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn only_histograms_end_in_count() {
    for line in text().lines().filter(|line| line.starts_with("# TYPE")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(!name.ends_with("_count") && !name.ends_with("_bool"), "{name}");
    }
}

#[test]
fn labels_are_escaped() {
    let mut status = example::status();
    status.name = "a\"b\\c\nd".into();
    let text = render(&status, &example::bill(), &DoorCounters::default(), &Waits::default());
    assert!(text.contains("name=\"a\\\"b\\\\c\\nd\""));
}
