//! The door driven by the field's own clients: they decide what is correct.

use crate::door::{Door, sample};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

const MIB: usize = 1 << 20;

/// Whether the clients are here; says so if not.
fn has_clients() -> bool {
    let found =
        |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_here = ["xrdcp", "xrdfs"].iter().all(|name| found(name).is_ok());
    if !is_here {
        eprintln!("skipped: xrdcp and xrdfs are not installed");
    }
    is_here
}

fn run(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(args).envs(environment.iter().copied());
    // One lost answer fails the test within seconds rather than half an hour.
    command.env("XRD_REQUESTTIMEOUT", "60").env("XRD_STREAMTIMEOUT", "60").env("XRD_CONNECTIONRETRY", "1");
    command.output().unwrap()
}

fn succeed(program: &str, args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = run(program, args, environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn fail(program: &str, args: &[&str]) -> String {
    let output = run(program, args, &[]);
    assert!(!output.status.success(), "{program} {args:?} should fail");
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn url(door: &Door, name: &str) -> String {
    format!("root://{}//{name}", door.address)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Puts and gets files around the sizes of pages and segments.
fn put_and_get(environment: &[(&str, &str)], more: &[&str]) {
    let (door, local) = (Door::open(), tempfile::tempdir().unwrap());
    for size in [0, 1, 4096, 4097, MIB, 3 * MIB + 5, 70 * MIB + 1] {
        let (name, bytes) = (format!("f{size}"), sample(size));
        let (here, back) = (local.path().join(&name), local.path().join("back"));
        fs::write(&here, &bytes).unwrap();
        let place = url(&door, &name);
        succeed("xrdcp", &[more, &["-f", "-s", text(&here), &place]].concat(), environment);
        assert!(fs::read(door.path(&name)).unwrap() == bytes, "{size} bytes differ after the upload");
        succeed("xrdcp", &[more, &["-f", "-s", &place, text(&back)]].concat(), environment);
        assert!(fs::read(&back).unwrap() == bytes, "{size} bytes differ after the download");
    }
}

#[test]
fn files_travel_in_pages_with_checksums() {
    if has_clients() {
        put_and_get(&[], &[]);
    }
}

#[test]
fn files_travel_plain() {
    if has_clients() {
        put_and_get(&[("XRD_CPUSEPGWRTRD", "0")], &[]);
    }
}

#[test]
fn parallel_streams_fall_back_to_one() {
    if has_clients() {
        put_and_get(&[], &["-S", "4"]);
    }
}

#[test]
fn names_are_listed_made_moved_and_removed() {
    if !has_clients() {
        return;
    }
    let door = Door::open();
    let server = format!("root://{}", door.address);
    let xrdfs = |args: &[&str]| succeed("xrdfs", &[&[server.as_str()], args].concat(), &[]);
    let refused = |args: &[&str]| fail("xrdfs", &[&[server.as_str()], args].concat());
    xrdfs(&["mkdir", "-p", "/a/b c/d"]);
    fs::write(door.path("a/ü.dat"), sample(1234)).unwrap();
    let listing = xrdfs(&["ls", "-l", "/a"]);
    assert!(
        listing.contains("1234") && listing.contains("/a/ü.dat") && listing.contains("/a/b c"),
        "{listing}"
    );
    assert_eq!(xrdfs(&["ls", "/a/b c/d"]), "");
    assert!(xrdfs(&["stat", "/a/ü.dat"]).contains("Size:   1234"));
    assert!(xrdfs(&["stat", "/a"]).contains("IsDir"));
    xrdfs(&["mv", "/a/ü.dat", "/a/b c/e"]);
    xrdfs(&["truncate", "/a/b c/e", "100"]);
    assert_eq!(fs::metadata(door.path("a/b c/e")).unwrap().len(), 100);
    let sum = base::Adler32::of(&sample(1234)[..100]);
    assert_eq!(xrdfs(&["query", "checksum", "/a/b c/e"]).trim(), format!("adler32 {sum}"));
    assert!(refused(&["query", "checksum", "/a/b c/e?cks.type=nosuch"]).contains("offered: adler32, crc32c"));
    assert_eq!(xrdfs(&["query", "config", "readv_iov_max"]).trim(), "1024");
    assert!(refused(&["rmdir", "/a/b c"]).contains("3018"));
    assert!(refused(&["rm", "/a/none"]).contains("3011"));
    assert!(refused(&["stat", "/a/../etc"]).contains("ERROR"));
    xrdfs(&["rm", "/a/b c/e"]);
    xrdfs(&["rmdir", "/a/b c/d"]);
    assert!(xrdfs(&["locate", "/a"]).contains("Server"));
    assert!(xrdfs(&["prepare", "-s", "/a"]).contains("test-1"));
    xrdfs(&["xattr", "/a", "set", "color=red"]);
    assert!(xrdfs(&["xattr", "/a", "get", "color"]).contains("red"));
}

#[test]
fn a_long_directory_is_listed_in_parts() {
    if !has_clients() {
        return;
    }
    let door = Door::open();
    fs::create_dir(door.path("many")).unwrap();
    for index in 0..2500 {
        fs::write(door.path(&format!("many/a-rather-long-name-{index:06}.root")), b"").unwrap();
    }
    let server = format!("root://{}", door.address);
    for options in [&["ls"][..], &["ls", "-l"]] {
        let listing = succeed("xrdfs", &[&[server.as_str()], options, &["/many"]].concat(), &[]);
        assert_eq!(listing.lines().count(), 2500);
    }
}

#[test]
fn a_recall_is_announced_and_another_client_goes_on() {
    if !has_clients() {
        return;
    }
    let (door, local) = (Door::announcing(), tempfile::tempdir().unwrap());
    let bytes = sample(5 * MIB);
    for name in ["tape.dat", "disk.dat"] {
        fs::write(door.path(name), &bytes).unwrap();
    }
    let copy = |name: &str| {
        let back = local.path().join(name);
        succeed("xrdcp", &["-f", "-s", &url(&door, name), text(&back)], &[]);
        assert!(fs::read(&back).unwrap() == bytes, "{name} differs");
    };
    thread::scope(|scope| {
        scope.spawn(|| copy("tape.dat"));
        copy("disk.dat");
        door.service.recall();
    });
}

#[test]
fn an_existing_file_is_kept_unless_forced() {
    if !has_clients() {
        return;
    }
    let (door, local) = (Door::open(), tempfile::tempdir().unwrap());
    let here = local.path().join("new");
    fs::write(&here, b"new").unwrap();
    fs::write(door.path("old"), b"old").unwrap();
    assert!(fail("xrdcp", &["-s", text(&here), &url(&door, "old")]).contains("file exists"));
    assert_eq!(fs::read(door.path("old")).unwrap(), b"old");
    succeed("xrdcp", &["-s", "-f", text(&here), &url(&door, "old")], &[]);
    assert_eq!(fs::read(door.path("old")).unwrap(), b"new");
}

#[test]
fn a_full_disk_is_told_and_nothing_is_kept() {
    if !has_clients() {
        return;
    }
    let (door, local) = (Door::open(), tempfile::tempdir().unwrap());
    let here = local.path().join("big");
    fs::write(&here, sample(9 * MIB)).unwrap();
    let told = fail("xrdcp", &["-s", text(&here), &url(&door, "full")]);
    assert!(told.contains("disk is full"), "{told}");
    door.stop();
    assert!(door.pending() == 0 && !door.path("full").exists());
}

#[test]
fn opens_are_sent_to_another_server_with_a_capability() {
    if !has_clients() {
        return;
    }
    let (head, disk, local) = (Door::open(), Door::open(), tempfile::tempdir().unwrap());
    let (here, back, bytes) = (local.path().join("f"), local.path().join("back"), sample(2 * MIB + 1));
    fs::write(&here, &bytes).unwrap();
    head.service.redirect(disk.address.port(), "c0ffee");
    succeed("xrdcp", &["-f", "-s", text(&here), &url(&head, "f")], &[]);
    assert!(fs::read(disk.path("f")).unwrap() == bytes && !head.path("f").exists());
    assert_eq!(disk.service.capability().as_deref(), Some("c0ffee"));
    // Clients ask the head for attributes first.
    fs::write(head.path("f"), &bytes).unwrap();
    succeed("xrdcp", &["-f", "-s", &url(&head, "f"), text(&back)], &[]);
    assert!(fs::read(&back).unwrap() == bytes);
    assert_eq!(disk.service.capability().as_deref(), Some("c0ffee"));
}
