//! `bp trust`: prints or copies the certificates that clients need to trust the facility.

use crate::context::{Context, Run};
use base::{Failure, Result};
use serde::Serialize;
use std::{
    fs::{self, OpenOptions, Permissions},
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Print the settings by which clients trust the facility
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The output is for a shell: eval \"$(bp trust)\". Other users and hosts need a copy of the \
        certificates: `bp trust DIR`\nmakes one that everyone may read. If the servers use certificates of the \
        site ([tls] in facility.toml), skip this."
)]
pub(crate) struct Args {
    /// Copy the certificates into this directory, for other users and hosts
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Certificates of a facility's authority.
#[derive(Debug, Serialize)]
struct Authority {
    /// One file.
    file: PathBuf,
    /// A directory as OpenSSL wants it.
    directory: PathBuf,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    context.restore_umask();
    let place = Path::new(context.place()?);
    if !place.is_dir() {
        return Err(Failure::invalid(format!("{} is not the directory of a facility", place.display()))
            .hint("the certificates are on the facility's host: ask its operator for a copy made with `bp trust DIR`")
            .into());
    }
    let place =
        place.canonicalize().map_err(|cause| Failure::io(format!("look at {}", place.display()), &cause))?;
    let mut authority = Authority { file: place.join("tls/ca.pem"), directory: place.join("tls/trust") };
    if !authority.file.is_file() {
        return Err(Failure::not_found(format!("{} does not exist", authority.file.display()))
            .hint("it is made when the facility starts: `bp up`")
            .into());
    }
    if let Some(target) = &args.directory {
        authority = copy(&authority, target)?;
    }
    if context.output.is_json() {
        context.output.json(&authority)?;
        return Ok(0);
    }
    for line in lines(&authority) {
        context.output.line(line)?;
    }
    Ok(0)
}

/// What a shell is told.
fn lines(authority: &Authority) -> [String; 4] {
    let (file, directory) = (quoted(&authority.file), quoted(&authority.directory));
    [
        format!("export BP_CA_FILE={file}         # bp, Python, the C library"),
        format!("export X509_CERT_DIR={directory}   # xrdcp, gfal, ROOT: these authorities and no others"),
        format!("# curl --cacert {file} https://…"),
        format!("# export REQUESTS_CA_BUNDLE={file}    # Python's requests: this authority and no others"),
    ]
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Names of certificates with one hash, as OpenSSL counts them.
const SAME_HASH_MAX: u32 = 10;

/// Puts copies into `target`, beside what is there.
fn copy(authority: &Authority, target: &Path) -> Result<Authority> {
    let failed = |what: &Path| {
        let what = format!("write {}", what.display());
        move |cause: std::io::Error| Failure::io(what, &cause)
    };
    if !target.is_dir() {
        fs::create_dir_all(target).map_err(failed(target))?;
        // Whatever the umask is: the copy is made for others.
        fs::set_permissions(target, Permissions::from_mode(0o755)).map_err(failed(target))?;
    }
    let target = target.canonicalize().map_err(failed(target))?;
    let file = target.join("ca.pem");
    if !put(&authority.file, &file)? {
        return Err(Failure::exists(format!("{} exists, with other certificates", file.display()))
            .hint("name another directory, or remove the file"));
    }
    for entry in fs::read_dir(&authority.directory).map_err(failed(&authority.directory))? {
        let source = entry.map_err(failed(&authority.directory))?.path();
        let Some(hash) = source.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let mut is_there = false;
        for number in 0..SAME_HASH_MAX {
            is_there = put(&source, &target.join(format!("{hash}.{number}")))?;
            if is_there {
                break;
            }
        }
        if !is_there {
            let what = format!("{} has {SAME_HASH_MAX} other authorities of the same name", target.display());
            return Err(Failure::exists(what).hint("name another directory"));
        }
    }
    Ok(Authority { file, directory: target })
}

/// Copies a file that anybody may read; whether it is there, rather than another one of its name.
fn put(source: &Path, target: &Path) -> Result<bool> {
    let failed = |what: &Path, cause| Failure::io(format!("copy {}", what.display()), &cause);
    let content = fs::read(source).map_err(|cause| failed(source, cause))?;
    match OpenOptions::new().write(true).create_new(true).open(target) {
        Ok(mut file) => file
            .write_all(&content)
            .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
            .map_err(|cause| failed(target, cause))?,
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            return Ok(fs::read(target).map_err(|cause| failed(target, cause))? == content);
        }
        Err(cause) => return Err(failed(target, cause)),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted(Path::new("/srv/a-b_1.pem")), "/srv/a-b_1.pem");
        assert_eq!(quoted(Path::new("/srv/a b's")), r"'/srv/a b'\''s'");
    }

    #[test]
    fn copies_replace_nothing() {
        let top = tempfile::tempdir().unwrap();
        let from = top.path().join("tls");
        fs::create_dir_all(from.join("trust")).unwrap();
        let authority = Authority { file: from.join("ca.pem"), directory: from.join("trust") };
        fs::write(&authority.file, "new").unwrap();
        fs::write(authority.directory.join("0a1b2c3d.0"), "new").unwrap();
        let target = top.path().join("site/trust");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("0a1b2c3d.0"), "old").unwrap();
        for _ in 0..2 {
            let copied = copy(&authority, &target).unwrap();
            assert_eq!(fs::read(copied.file).unwrap(), b"new");
            assert_eq!(fs::read(target.join("0a1b2c3d.0")).unwrap(), b"old");
            assert_eq!(fs::read(target.join("0a1b2c3d.1")).unwrap(), b"new");
            assert_eq!(fs::read_dir(&target).unwrap().count(), 3);
            let mode = fs::metadata(target.join("ca.pem")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o644);
        }
        fs::write(target.join("ca.pem"), "other").unwrap();
        assert!(copy(&authority, &target).unwrap_err().what.contains("other certificates"));
    }
}
