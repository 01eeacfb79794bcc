//! Files that nobody else on the host may read: the directory of a facility, and all that the daemon writes.

use base::{Failure, Result};
use nix::sys::stat::{Mode, umask};
use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// Mode of a directory that only its owner enters.
const OWNER_ONLY: u32 = 0o700;

/// From here on what this process and its children make is for their user alone, unless they say otherwise.
pub fn make_files_private() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// Closes a directory to others.
pub(crate) fn close(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, fs::Permissions::from_mode(OWNER_ONLY))
}

/// Refuses a facility that somebody else can look into, or that belongs to another user than the one who runs it.
///
/// Only the directory and what lies directly in it are looked at: nobody gets past those.
pub(crate) fn check(directory: &Path) -> Result<()> {
    let failed = |cause: io::Error| Failure::io(format!("look at {}", directory.display()), &cause);
    check_one(directory, directory)?;
    for entry in fs::read_dir(directory).map_err(failed)? {
        check_one(directory, &entry.map_err(failed)?.path())?;
    }
    Ok(())
}

fn check_one(directory: &Path, path: &Path) -> Result<()> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // A link to nothing is nobody's; what is missing is noticed where it is needed.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(Failure::io(format!("look at {}", path.display()), &cause)),
    };
    let (own, mode) = (rustix::process::geteuid().as_raw(), found.mode() & 0o7777);
    if found.uid() != own {
        let what =
            format!("{} belongs to uid {}, but uid {own} runs the facility", path.display(), found.uid());
        return Err(Failure::permission(what)
            .hint(format!("run it as that user, or `chown -R {own} {}`", directory.display())));
    }
    if mode & OTHERS != 0 {
        let what = format!("other users of this host can reach {}: its mode is {mode:04o}", path.display());
        return Err(Failure::permission(what)
            .hint(format!("`chmod go= {0} {0}/*` closes the facility to them", directory.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_reach_is_refused_with_the_command_that_mends_it() {
        let home = tempfile::tempdir().unwrap();
        let (directory, key) = (home.path(), home.path().join("key"));
        fs::write(&key, "secret").unwrap();
        std::os::unix::fs::symlink("nowhere", directory.join("link")).unwrap();
        close(directory).unwrap();
        mode(&key, 0o600);
        check(directory).unwrap();
        for (path, wide) in [(directory, 0o755), (directory, 0o710), (&*key, 0o644), (&*key, 0o620)] {
            let tight = fs::metadata(path).unwrap().mode() & 0o777;
            mode(path, wide);
            let refused = check(directory).unwrap_err();
            assert!(refused.what.contains(&format!("{wide:04o}")), "{refused}");
            assert!(refused.hint.unwrap().contains("chmod go= "));
            mode(path, tight);
        }
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if rustix::process::geteuid().as_raw() != 0 {
            println!("skipped: only root gives directories away");
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), None).unwrap();
        assert!(check(home.path()).unwrap_err().what.contains("belongs to uid 65534"));
    }
}
