//! What `bpd shepherd` is: the tests need real processes.

use std::{env, path::Path, process::exit};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (directory, stage) = match words.as_slice() {
        ["shepherd", directory] => (directory, batch::Stage::Outer),
        ["shepherd", directory, "--stage", stage] => (directory, stage.parse().unwrap_or_default()),
        _ => exit(2),
    };
    exit(batch::shepherd_main(Path::new(directory), stage));
}
