use super::*;
use base::ErrorKind;
use std::os::unix::fs::symlink;

fn tree() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let old = home.path().join("old");
    fs::create_dir(home.path().join("ours")).unwrap();
    fs::create_dir_all(old.join("a/b")).unwrap();
    for name in ["one", "a/two", "a/b/three"] {
        fs::write(old.join(name), name).unwrap();
    }
    (home, old)
}

fn all(walk: &mut Walk) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(step) = walk.advance() {
        steps.push(match step {
            Step::File(found) => found.path.display().to_string(),
            Step::Directory(found) => format!("{}/", found.path.display()),
            Step::Over(found) => format!("/{}", found.path.display()),
            Step::Odd(path, failure) => format!("{}: {failure}", path.display()),
        });
    }
    steps.sort();
    steps
}

#[test]
fn files_of_a_directory_come_in_the_order_of_their_names() {
    let (home, old) = tree();
    for number in (0..500).rev() {
        fs::write(old.join(format!("a/b/{number:03}")), "").unwrap();
    }
    let (mut walk, _) = Walk::new(&[home.path().to_owned()], &old, &home.path().join("ours")).unwrap();
    let mut files = Vec::new();
    while let Some(step) = walk.advance() {
        if let Step::File(found) = step {
            files.push(found.path);
        }
    }
    assert!(files.len() == 503 && files.iter().filter(|path| path.starts_with("a/b")).is_sorted());
}

#[test]
fn everything_comes_once_and_links_are_not_followed() {
    let (home, old) = tree();
    fs::create_dir(home.path().join("secret")).unwrap();
    fs::write(home.path().join("secret/key"), "k").unwrap();
    symlink(home.path().join("secret"), old.join("way")).unwrap();
    symlink("one", old.join("link")).unwrap();
    fs::create_dir(old.join("p")).unwrap();
    fs::write(old.join("p/partition.json"), "{}").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(old.join("socket")).unwrap();
    let (mut walk, metadata) = Walk::new(&[home.path().to_owned()], &old, &home.path().join("ours")).unwrap();
    assert!(metadata.is_dir());
    assert_eq!(
        all(&mut walk),
        [
            "/a",
            "/a/b",
            "a/",
            "a/b/",
            "a/b/three",
            "a/two",
            "link: it is a symbolic link",
            "one",
            "p: it holds partition.json: it belongs to the facility already",
            "socket: it is a socket",
            "way: it is a symbolic link",
        ]
    );
}

#[test]
fn what_is_skipped_is_not_entered() {
    let (home, old) = tree();
    let (mut walk, _) =
        Walk::new(std::slice::from_ref(&old), &old.join("a"), &home.path().join("ours")).unwrap();
    let mut files = Vec::new();
    while let Some(step) = walk.advance() {
        match step {
            Step::Directory(_) => walk.skip(),
            Step::File(found) => files.push(found.path),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(files, [PathBuf::from("two")]);
}

#[test]
fn nothing_outside_of_what_is_allowed_is_opened() {
    let (home, old) = tree();
    let secret = home.path().join("secret");
    fs::create_dir(&secret).unwrap();
    symlink(&secret, old.join("way")).unwrap();
    let allowed = [old.clone()];
    let refused = |directory: &Path| Walk::new(&allowed, directory, &home.path().join("ours")).unwrap_err();
    assert_eq!(refused(&secret).kind, ErrorKind::Permission);
    assert_eq!(refused(home.path()).kind, ErrorKind::Permission);
    assert_eq!(refused(&old.join("../secret")).kind, ErrorKind::Invalid);
    assert_eq!(refused(Path::new("old")).kind, ErrorKind::Invalid);
    assert_eq!(refused(&old.join("one")).kind, ErrorKind::NotDirectory);
    assert_eq!(refused(&old.join("none")).kind, ErrorKind::NotFound);
    assert!(refused(&old.join("way")).what.contains("open"), "a link is not followed");
    fs::write(old.join("a/partition.json"), "{}").unwrap();
    for ours in ["a", "a/b"] {
        assert!(refused(&old.join(ours)).what.ends_with("belongs to the facility already"), "{ours}");
    }
    let inside = Walk::new(&allowed, &old, &old).unwrap_err();
    assert!(inside.what.ends_with("is inside a partition: it belongs to the facility already"), "{inside}");
    let nothing = Walk::new(&[], &old, home.path()).unwrap_err();
    assert!(nothing.what.ends_with("disk.adopt allows none"), "{nothing}");
    assert!(Walk::new(&allowed, &old, Path::new("/proc")).unwrap_err().what.contains("file system"));
}
