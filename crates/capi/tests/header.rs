//! The header that C programs include is what the calls are.

use std::{env, fs, path::Path};

#[test]
fn the_header_is_up_to_date() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(home.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config).with_src(home.join("src/calls.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let file = home.join("include/backplane/rfio.h");
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read(&file).unwrap_or_default();
    assert!(kept == made, "rfio.h is not what the calls are: UPDATE_HEADER=1 cargo test -p capi");
}
