//! Runs the real `bp` without a facility: help, errors, and replies of a canned management API.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod canned;
mod replies;
mod submit;

use canned::{Answer, Canned};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The verbs, as `bp --help` lists them below its headings.
fn verbs() -> Vec<String> {
    let help = stdout(&run(&["--help"]));
    let listed = help.lines().take_while(|line| *line != "Options:").filter(|line| line.starts_with("  "));
    let verbs = listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    verbs.filter(|verb| verb != "help").collect()
}

/// Who runs this, as the user database says: nobody is told by the environment.
fn this_user() -> String {
    let uid = nix::unistd::Uid::current();
    nix::unistd::User::from_uid(uid).unwrap().map_or_else(|| format!("uid{uid}"), |user| user.name)
}

fn bp() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bp"));
    command.env_clear().stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    bp().args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs `bp` against `server`; exit code, output, error output.
fn with(server: &Canned, args: &[&str]) -> (i32, String, String) {
    let output = bp().arg("--facility").arg(&server.http).args(args).output().unwrap();
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

/// Finding a facility by its endpoint asks for its status.
fn with_status(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Canned {
    Canned::start(
        move |name, body| {
            if name == "status" { (200, replies::status()) } else { answer(name, body) }
        },
    )
}

/// Compares with the file in `help/`; `UPDATE_SNAPSHOTS=1` writes it instead.
fn is_snapshot(name: &str, text: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bp/help").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; UPDATE_SNAPSHOTS=1 accepts it", path.display());
}

#[test]
fn help_is_as_agreed() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    is_snapshot("bp.txt", &stdout(&help));
    for verb in verbs() {
        let help = run(&[&verb, "--help"]);
        assert!(help.status.success(), "{verb}");
        let text = stdout(&help);
        // What is the same everywhere is agreed once.
        let own = text.split("\nEverywhere:").next().unwrap();
        is_snapshot(&format!("{verb}.txt"), own);
    }
}

#[test]
fn a_value_that_is_refused_comes_with_the_next_step() {
    for (arguments, hint) in [
        (&["submit", "--memory", "64", "--", "x"][..], "hint: write 64MiB or 64GiB\n"),
        (&["submit", "--program", "./fit"], "hint: give a path in the facility: ./fit:/programs/\n"),
        (&["submit", "--program", "\x1b[2J"], "facility: \\x1b[2J:/programs/\n"),
        (&["submit", "--output", "o", "--", "x"], "hint: NAME is relative to the scratch directory"),
    ] {
        let refused = run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let text = stderr(&refused);
        assert!(text.contains(hint) && text.ends_with("try '--help'.\n"), "{text}");
        assert!(!text.contains('\x1b'), "{text:?}");
    }
    assert!(!stderr(&run(&["--nonsense"])).contains("hint:"));
}

#[test]
fn every_page_of_the_manual_is_written() {
    let directory = tempfile::tempdir().unwrap();
    assert!(run(&["man", directory.path().to_str().unwrap()]).status.success());
    for verb in verbs() {
        let page = std::fs::read_to_string(directory.path().join(format!("bp-{verb}.1"))).unwrap();
        assert!(page.contains(&verb));
    }
    assert!(stdout(&run(&["man"])).contains(".TH bp 1"));
}

#[test]
fn completions_know_the_verbs() {
    let verbs = verbs();
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completion", shell]));
        assert!(verbs.iter().all(|verb| script.contains(verb.as_str())), "{shell}");
    }
}

#[test]
fn without_a_facility_the_next_step_is_said() {
    let output = run(&["ls"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "error: no facility is given\n\
         hint: add --facility DIR or set BP_FACILITY; `bp up DIR --create` makes and starts one\n"
    );
    let output = run(&["-f", "/nonexistent", "status"]);
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(
        stderr(&output),
        "error: no facility runs in /nonexistent\nhint: `bp up /nonexistent` starts it\n"
    );
    let output = run(&["-f", "root://host", "status"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for args in [
        &["wait", "/a"][..],
        &["wait", "--online", "--archived", "/a"],
        &["rm", "relative"],
        &["rm", "/a/../b"],
        &["chmod", "999", "/a"],
        &["put", "one"],
        &["adopt", "/data/old"],
        &["adopt", "/data/old", "old"],
        &["adopt", "status", "/data/old"],
        &["get", "/a"],
        &["get", "--pool", "raw", "/a"],
        &["get", "--size", "1GB", "/a"],
        &["get", "--pool", "raw", "--size", "1GB", "/a", "/b"],
        &["get", "--pool", "raw", "--size", "1GB", "--replace", "/a"],
        &["cancel", "seven"],
        &["submit", "--"],
        &["submit", "--input", "x", "--", "true"],
        &["stage", "--pin", "long", "/a"],
        &["admin", "volume", "set", "toolongvid", "full"],
        &["nonsense"],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).starts_with("error: "), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_facility_that_does_not_exist_is_not_started() {
    let directory = tempfile::tempdir().unwrap();
    let blank = directory.path().to_str().unwrap();
    let output = run(&["up", blank, "--detach"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("hint: add --create to make one"));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "nothing is left behind");
    assert_eq!(stdout(&run(&["down", blank])), format!("{blank} was not running\n"));
}

#[test]
fn status_shows_the_facility() {
    let server = with_status(|name, _| panic!("{name}"));
    let (code, out, err) = with(&server, &["status"]);
    assert_eq!(code, 0);
    for hint in ["`bp doctor` says", "it knows no others", "`bp why ID` says"] {
        assert!(err.contains(hint), "{hint}: {err}");
    }
    is_snapshot("../status.txt", &out.replace(&server.http, "http://HOST"));
    assert!(server.made("status").iter().all(|call| call.user == this_user()));
    let (_, out, _) = with(&server, &["--json", "status"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), replies::status());
    for (verb, lines) in [("queue", 3), ("volumes", 2), ("drives", 6)] {
        let (code, out, _) = with(&server, &[verb]);
        assert_eq!((code, out.lines().count()), (0, lines), "{verb}: {out}");
    }
}

#[test]
fn a_catalogue_that_went_back_is_told_and_settled_by_who_has_seen_what_is_unknown() {
    let found =
        |object: u64, described: Value| json!({ "object": object, "size": 2048, "described": described });
    let late = json!({
        "label": { "file": 3, "path": "/data/late", "generation": 7,
                   "holder": { "owner": "ada", "group": "ada", "mode": 420 } },
        "checksums": { "adler32": "00000001", "crc32c": "00000000" }, "written": 1_795_252_000_000u64,
    });
    let mut status = replies::status();
    status["restored"] = json!({
        "epoch": 1, "noticed": 1_795_255_200_000u64, "taken": 1_795_250_000_000u64,
        "reason": "restored from a backup", "volumes": 2,
        "partitions": [
            { "partition": "disk1", "is_complete": true, "objects": 5, "bytes": 10_240,
              "shown": [found(7, late), found(9, Value::Null)] },
            { "partition": "d2-disk1", "is_complete": false, "objects": 0, "bytes": 0, "shown": [] },
        ],
    });
    let server = Canned::start(move |name, body| match name {
        "status" => (200, status.clone()),
        "settle_catalogue" => {
            assert_eq!(*body, json!({ "unknown": 5, "without_absent": true }));
            (200, json!({}))
        }
        other => panic!("{other}"),
    });
    let (code, out, _) = with(&server, &["status"]);
    assert_eq!(code, 0);
    let told = "The catalogue was restored to an older state: restored from a backup, of 2026-11-21 08:33:20 UTC.\n\
                Nothing is deleted on disks until `bp admin settle`. Objects missing from it: 5 objects, 10.0 KiB.\n\
                Volumes that may hold files missing from it: 2 volumes; run `bp admin volume survey --all`.\n\
                Disk servers that have not reported yet: d2-disk1.\n";
    assert!(out.contains(told), "{out}");
    let (_, out, _) = with(&server, &["admin", "settle"]);
    for part in
        [told, "/data/late", "description unreadable", "and 3 more", "bp admin recover", "--unknown 5"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, _, err) = with(&server, &["admin", "settle", "--unknown", "5", "--without-absent"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(with(&server, &["admin", "settle", "--without-absent"]).0, 2);
}

#[test]
fn surveys_are_ordered_for_all_volumes_or_for_those_that_are_named() {
    let server = with_status(|name, body| {
        assert_eq!(name, "survey_volumes");
        let vids = if body["all"] == true { json!(["BP0001", "BP0002"]) } else { json!([]) };
        (200, json!({ "vids": vids }))
    });
    let (code, out, err) = with(&server, &["admin", "volume", "survey", "--all"]);
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(out, "2 volumes will be surveyed; `bp volumes` shows the progress: BP0001 BP0002\n");
    let (_, out, _) = with(&server, &["--json", "admin", "volume", "survey", "BP0003"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!({ "vids": [] }));
    assert_eq!(server.made("survey_volumes")[1].body, json!({ "vids": ["BP0003"], "all": false }));
    assert_eq!(with(&server, &["admin", "volume", "survey"]).0, 2, "somebody must say which");
}

#[test]
fn listings() {
    let server = with_status(|name, body| match (name, body["path"].as_str().unwrap()) {
        ("stat", "/data") => (200, replies::info("/data", "directory")),
        ("list", "/data") if body["after"] == "" => {
            let entries = [replies::entry("sub", "directory"), replies::entry("a b.root", "file")];
            (200, json!({ "entries": entries, "is_partial": true }))
        }
        ("list", "/data") => (200, json!({ "entries": [replies::entry("z", "file")], "is_partial": false })),
        (_, path) => (404, json!({ "kind": "not_found", "what": format!("{path} does not exist") })),
    });
    assert_eq!(with(&server, &["ls", "/data"]), (0, "sub/\na b.root\nz\n".into(), String::new()));
    assert_eq!(server.made("list")[1].body["after"], "a b.root");
    let (_, out, _) = with(&server, &["ls", "-l", "/data"]);
    is_snapshot("../ls-l.txt", &out);
    let (code, out, err) = with(&server, &["ls", "/none", "/data"]);
    assert_eq!((code, err.as_str()), (3, "error: /none does not exist\n"));
    assert!(out.contains("z\n"), "the rest is still listed");
}

#[test]
fn wildcards_mean_files_of_the_facility() {
    let server = with_status(|name, _| match name {
        "list" => {
            let names = ["run1.parquet", "run2.parquet", ".run3.parquet", "notes"];
            let mut entries: Vec<Value> = names.iter().map(|name| replies::entry(name, "file")).collect();
            entries.push(replies::entry("run4.parquet", "directory"));
            (200, json!({ "entries": entries, "is_partial": false }))
        }
        "stat" => missing(),
        "remove" => (200, json!({})),
        name => panic!("{name}"),
    });
    assert_eq!(with(&server, &["rm", "/data/run?.*"]).0, 0);
    let removed: Vec<Value> = server.made("remove").iter().map(|call| call.body["path"].clone()).collect();
    assert_eq!(removed, ["/data/run1.parquet", "/data/run2.parquet"]);
    let (code, _, err) = with(&server, &["rm", "/data/x*"]);
    assert_eq!((code, err.as_str()), (3, "error: nothing matches /data/x*\n"));
}

/// The answer of a facility that does not have what is asked for.
fn missing() -> Answer {
    (404, json!({ "kind": "not_found", "what": "it does not exist" }))
}

#[test]
fn a_file_with_the_name_of_a_pattern_is_that_file() {
    for name in ["run*", "run?", "*"] {
        let path = format!("/data/{name}");
        let server = with_status(move |call, body| match call {
            "stat" if body["path"] == format!("/data/{name}") => {
                (200, replies::info(&format!("/data/{name}"), "file"))
            }
            "remove" => (200, json!({})),
            call => panic!("{call}"),
        });
        assert_eq!(with(&server, &["rm", &path]).0, 0);
        assert_eq!(server.made("remove")[0].body["path"], path);
    }
}

#[test]
fn an_input_whose_name_has_a_colon_is_that_file() {
    let server = with_status(|call, body| match call {
        "stat" if body["path"] == "/data/run:12" => (200, replies::info("/data/run:12", "file")),
        "stat" => missing(),
        "submit" => (200, json!({ "job": 7 })),
        call => panic!("{call}"),
    });
    let inputs = ["/data/run:12", "/data/run:12:in", "/data/other:13"];
    let words: Vec<&str> = inputs.iter().flat_map(|input| ["--input", input]).collect();
    let words = [&["submit"], &words[..], &["--", "/bin/true"]].concat();
    assert_eq!(with(&server, &words).0, 0);
    let expected = json!([
        { "path": "/data/run:12", "name": "run:12" },
        { "path": "/data/run:12", "name": "in" },
        { "path": "/data/other", "name": "13" },
    ]);
    assert_eq!(server.made("submit")[0].body["spec"]["inputs"], expected);
}

#[test]
fn a_reservation_prints_the_url_alone() {
    let server = with_status(|name, body| {
        assert_eq!(name, "allocate");
        let mut reply = json!({ "path": body["path"], "outcome": "new", "pool": body["pool"], "partitions": ["p"],
            "size": body["size"], "until": 1_795_255_200_000i64, "is_begun": false });
        if body["path"] == "/old" {
            (reply["outcome"], reply["until"]) = (json!("written"), Value::Null);
        }
        (200, reply)
    });
    let words = ["get", "--pool", "raw", "--size", "20GB", "--for", "12h", "-p", "/data/run7.root"];
    let (code, out, err) = with(&server, &words);
    assert_eq!((code, out.as_str()), (0, "root://127.0.0.1:1094//data/run7.root\n"));
    assert_eq!(err, "/data/run7.root: 18.6 GiB reserved in pool raw until 2026-11-21 10:00:00 UTC\n");
    let call = &server.made("allocate")[0].body;
    assert_eq!((&call["size"], &call["lifetime"]), (&json!(20_000_000_000u64), &json!(43_200_000)));
    let (_, out, err) = with(&server, &["get", "--pool", "raw", "--size", "1KiB", "/old"]);
    assert_eq!(out, "root://127.0.0.1:1094//old\n");
    assert_eq!(err, "/old exists: 1.00 KiB in pool raw\n");
    let (_, out, err) = with(&server, &["--json", "get", "--pool", "raw", "--size", "1KiB", "/old"]);
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&line["url"], &line["outcome"]), (&json!("root://127.0.0.1:1094//old"), &json!("written")));
    assert_eq!(err, "");
}

#[test]
fn an_adoption_is_followed_to_its_end_and_what_was_left_alone_is_told() {
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let server = with_status(move |name, body| match name {
        "start_adoption" => (200, json!({ "partition": "disk1", "adoption": 3 })),
        "adoptions" => {
            let is_over = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
            let info = json!({ "partition": "disk1", "adoption": 3, "directory": "/data/old", "path": "/old",
                "state": if is_over { "done" } else { "running" }, "is_moving": true, "started": 1, "updated": 2,
                "total": { "files": 3, "bytes": 4096 }, "seen": { "files": 3, "bytes": 4096 },
                "adopted": { "files": 2, "bytes": 2048 }, "left_alone": 1, "unowned": 2, "trouble": null });
            (200, json!({ "adoptions": [info] }))
        }
        "left_alone" => {
            assert_eq!(*body, json!({ "partition": "disk1", "after": 0 }));
            let failure = json!({ "kind": "unsupported", "what": "it is a symbolic link" });
            (200, json!({ "left": [{ "name": "a/link", "failure": failure }], "next": null }))
        }
        other => panic!("{other}"),
    });
    let (code, out, err) = with(&server, &["adopt", "--move", "/data/old", "/old"]);
    assert_eq!((code, err.as_str()), (2, "error: a/link: it is a symbolic link\n"));
    let whose = "2 now belong to the owner of the facility, because that host does not know their users";
    assert_eq!(out, format!("/old: 2 files adopted, 2.00 KiB, 1 skipped; {whose}\n"));
    let call = &server.made("start_adoption")[0].body;
    assert_eq!((&call["directory"], &call["is_moving"]), (&json!("/data/old"), &json!(true)));
    assert_eq!(call["bytes_per_s"], 200_000_000);
    let (code, out, _) = with(&server, &["adopt", "status"]);
    assert_eq!((code, out.lines().count()), (0, 2), "{out}");
}

#[test]
fn one_failure_does_not_stop_the_rest() {
    let server = with_status(|name, body| match (name, body["path"].as_str()) {
        ("remove", Some("/b")) => {
            (403, json!({ "kind": "permission", "what": "/b belongs to bob", "hint": "ask bob" }))
        }
        ("remove", _) => (200, json!({ "bytes": 5, "restorable_for": 86_400_000 })),
        other => panic!("{other:?}"),
    });
    let (code, out, err) = with(&server, &["rm", "/a", "/b", "/c"]);
    assert_eq!((code, err.as_str()), (5, "error: /b belongs to bob\nhint: ask bob\n"));
    assert_eq!(out, "2 files, 10 B; in the trash for a day\n");
    assert_eq!(server.made("remove").len(), 3);
}

#[test]
fn staging_says_what_it_waits_for() {
    let server = with_status(|name, body| {
        let path = &body["paths"][0];
        match name {
            "stage" => {
                (200, json!({ "files": [{ "path": path, "state": "nearline", "waits": "volume BP0001" }] }))
            }
            "await" => (200, json!({ "files": [{ "path": path, "state": "both" }] })),
            name => panic!("{name}"),
        }
    });
    let (code, out, _) = with(&server, &["stage", "--pin", "1d", "/a"]);
    assert_eq!((code, out.as_str()), (0, "/a  nearline: volume BP0001\n"));
    assert_eq!(server.made("stage")[0].body["pin"], 86_400_000);
    assert_eq!(with(&server, &["stage", "--wait", "/a"]), (0, "/a  both\n".into(), String::new()));
    assert_eq!(with(&server, &["-q", "wait", "--online", "/a"]), (0, String::new(), String::new()));
}

#[test]
fn waiting_prints_each_change_once() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = with_status(move |_, _| {
        let files = match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => {
                json!([{ "path": "/a", "state": "nearline", "waits": "a drive" }, { "path": "/b", "state": "both" }])
            }
            2 => {
                json!([{ "path": "/a", "state": "nearline", "waits": "drive drv1" }, { "path": "/b", "state": "both" }])
            }
            _ => json!([{ "path": "/a", "state": "both" }, { "path": "/b", "state": "both" }]),
        };
        (200, json!({ "files": files }))
    });
    let (code, out, _) = with(&server, &["wait", "--online", "/a", "/b"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "/a  nearline: a drive\n/b  both\n/a  nearline: drive drv1\n/a  both\n")
    );
}

#[test]
fn a_wait_gives_up_and_a_lost_file_fails() {
    let server = with_status(|_, body| match body["paths"][0].as_str() {
        Some("/lost") => {
            let failure = json!({ "kind": "corrupt", "what": "the only copy of /lost is damaged" });
            (200, json!({ "files": [{ "path": "/lost", "state": "nearline", "failure": failure }] }))
        }
        path => (200, json!({ "files": [{ "path": path, "state": "nearline", "waits": "a drive" }] })),
    });
    let (code, _, err) = with(&server, &["wait", "--online", "--timeout", "0s", "/a"]);
    assert_eq!(code, 6);
    assert!(err.starts_with("error: gave up waiting: 0 of 1 file online\nhint: "), "{err}");
    let (code, _, err) = with(&server, &["wait", "--online", "/lost"]);
    assert_eq!((code, err.as_str()), (8, "error: the only copy of /lost is damaged\n"));
}

#[test]
fn a_job_is_submitted_as_written_and_its_code_is_ours() {
    let server = with_status(|name, _| match name {
        "stat" => missing(),
        "submit" => (200, json!({ "job": 7 })),
        "await_jobs" => (200, json!({ "jobs": [replies::job(7, "failed", &json!({ "code": 3 }))] })),
        "follow_job" => (200, json!({ "state": "failed", "attempt": 1, "pieces": [[], []], "is_all": true })),
        "job_log" => (200, json!({ "stdout": "out\n", "stderr": "err\n" })),
        name => panic!("{name}"),
    });
    let command = [
        "submit",
        "--cpus",
        "2",
        "--memory",
        "1GiB",
        "--wall",
        "10m",
        "--input",
        "/data/a:in",
        "--output",
        "h:/out/h",
        "--env",
        "A=b",
        "--archive",
        "--",
        "/usr/bin/python3",
        "--flag",
        "x",
    ];
    assert_eq!(with(&server, &command), (0, "7\n".into(), String::new()));
    let expected = json!({
        "name": "python3",
        "command": ["/usr/bin/python3", "--flag", "x"],
        "resources": { "cpus": 2, "memory_bytes": 1u64 << 30, "wall": 600_000 },
        "inputs": [{ "path": "/data/a", "name": "in" }],
        "outputs": [{ "name": "h", "path": "/out/h" }],
        "archive": true,
        "replace": false,
        "environment": { "A": "b" },
    });
    assert_eq!(server.made("submit")[0].body["spec"], expected);
    let (code, out, err) = with(&server, &["submit", "--wait", "--", "false"]);
    assert_eq!((code, out.as_str()), (3, "job 7\njob 7  failed\n"));
    assert_eq!(err, "error: job 7 failed: exit 3\nhint: `bp log 7` shows what it printed\n");
    assert_eq!(with(&server, &["log", "7"]), (0, "out\n".into(), "err\n".into()));
    assert_eq!(with(&server, &["--json", "log", "7"]).1, "{\"stdout\":\"out\\n\",\"stderr\":\"err\\n\"}\n");
}

#[test]
fn what_is_no_facility_is_told_apart() {
    let server = Canned::start(|_, _| (404, json!("not here")));
    let (code, _, err) = with(&server, &["status"]);
    assert_eq!(code, 6);
    assert!(err.contains("hint: is that address a Backplane facility?"), "{err}");
}

#[test]
fn a_closed_pipe_is_silent() {
    let server = with_status(|name, _| match name {
        "stat" => (200, replies::info("/data", "directory")),
        "list" => {
            let entries: Vec<Value> =
                (0..20_000).map(|n| replies::entry(&format!("file-{n:05}"), "file")).collect();
            (200, json!({ "entries": entries, "is_partial": false }))
        }
        name => panic!("{name}"),
    });
    let mut child = bp()
        .args(["-f", &server.http, "ls", "-l", "/data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_key_is_shown_replaced_and_revoked() {
    let generation = |number: u32, state: &str, until: Option<i64>| {
        let shown =
            json!({"number": number, "made": 1_800_000_000_000_i64 * i64::from(number > 1), "state": state});
        let mut shown = shown;
        if let Some(until) = until {
            shown["until"] = json!(until);
        }
        shown
    };
    let keys = json!({"generations": [
        generation(1, "revoked", Some(1_800_000_100_000)),
        generation(2, "verifies", Some(1_800_600_000_000)),
        generation(3, "current", None),
    ]});
    let server = with_status(move |name, _| match name {
        "keys" | "rotate_key" | "revoke_key" => (200, keys.clone()),
        _ => panic!("{name}"),
    });
    let (code, out, _) = with(&server, &["key", "list"]);
    assert_eq!(code, 0);
    assert_eq!(
        out,
        "generation  made                     state     until\n         \
         1  with the facility        revoked   2027-01-15 08:01:40 UTC\n         \
         2  2027-01-15 08:00:00 UTC  verifies  2027-01-22 06:40:00 UTC\n         \
         3  2027-01-15 08:00:00 UTC  signs\n"
    );
    let (code, out, _) = with(&server, &["key", "rotate"]);
    assert_eq!((code, out.contains("generation 3 signs from now on")), (0, true), "{out}");
    assert_eq!(server.made("rotate_key")[0].body, json!({"grace": 7 * 86_400_000}));
    let (code, out, _) = with(&server, &["key", "revoke", "1"]);
    assert_eq!((code, out.contains("generation 1 is revoked")), (0, true), "{out}");
    assert_eq!(server.made("revoke_key")[0].body, json!({"generation": 1}));
    for bad in
        [&["key"][..], &["key", "revoke"], &["key", "revoke", "one"], &["key", "rotate", "--grace", "long"]]
    {
        assert_eq!(with(&server, bad).0, 2, "{bad:?}");
    }
}
