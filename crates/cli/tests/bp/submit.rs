//! `bp submit` with a script.

use super::{with, with_status};
use serde_json::json;

#[test]
fn options_of_a_script_yield_to_those_of_the_command_line() {
    let server = with_status(|name, _| match name {
        "submit" => (200, json!({ "job": 7 })),
        name => panic!("{name}"),
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fit.sh");
    let file = file.to_str().unwrap();
    let text = "#!/bin/sh\n#BP --cpus 4 --wall 10m --hold\ntrue\n";
    std::fs::write(file, text).unwrap();
    let words = ["submit", "--cpus", "2", "--script", file, "--", "x"];
    assert_eq!(with(&server, &words), (0, "7\n".into(), String::new()));
    let spec = server.made("submit")[0].body["spec"].clone();
    assert_eq!(spec["resources"], json!({ "cpus": 2, "memory_bytes": 0, "wall": 600_000 }));
    assert_eq!([&spec["held"], &spec["script"]], [&json!(true), &json!(text)]);
    assert_eq!([&spec["name"], &spec["command"]], [&json!("fit.sh"), &json!(["x"])]);
    std::fs::write(file, "#BP --nope\n").unwrap();
    let (code, _, err) = with(&server, &["submit", "--script", file]);
    assert_eq!(code, 2);
    let what = format!("error: #BP line of script {file}: unexpected argument '--nope' found\nhint: ");
    assert!(err.starts_with(&what), "{err}");
}
