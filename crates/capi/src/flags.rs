//! The meaning of the flags of `open` for a file on a server.

use crate::fault::{Fault, Result};
use libc::c_int;

/// What an open file may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) can_read: bool,
    pub(crate) can_write: bool,
    /// Every write goes to the end.
    pub(crate) is_append: bool,
}

/// How the server is asked for the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be changed.
    Update,
    /// An existing file, or a new one.
    UpdateOrCreate,
    /// A file that must not exist.
    Create,
    /// A file that takes the place of what is there.
    Replace,
    /// As before, but something must be there.
    ReplaceExisting,
}

/// Converts the flags of `open`. Flags that only make sense on this host (`O_CLOEXEC`, `O_DIRECT`, …) have no effect.
pub(crate) fn understand(flags: c_int) -> Result<(Access, OpenMode)> {
    let has = |flag| flags & flag == flag;
    let (can_read, can_write) = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => (true, false),
        libc::O_WRONLY => (false, true),
        libc::O_RDWR => (true, true),
        _ => return Err(Fault::invalid(format!("open flags {flags:#o} contain no access mode"))),
    };
    if has(libc::O_DIRECTORY) {
        return Err(
            Fault::invalid("a directory on a server is not opened as a file").hint("rfio_opendir reads it")
        );
    }
    if has(libc::O_PATH) {
        return Err(Fault::invalid("O_PATH names a file of this host only"));
    }
    let (create, truncate) = (has(libc::O_CREAT), has(libc::O_TRUNC));
    if !can_write && (create || truncate) {
        return Err(
            Fault::invalid("O_CREAT and O_TRUNC need write access").hint("open it with O_WRONLY or O_RDWR")
        );
    }
    let open_mode = match (can_write, create, truncate) {
        (false, ..) => OpenMode::Read,
        (true, true, _) if has(libc::O_EXCL) => OpenMode::Create,
        (true, true, true) => OpenMode::Replace,
        (true, true, false) => OpenMode::UpdateOrCreate,
        (true, false, true) => OpenMode::ReplaceExisting,
        (true, false, false) => OpenMode::Update,
    };
    Ok((Access { can_read, can_write, is_append: can_write && has(libc::O_APPEND) }, open_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::{O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
    use proptest::prelude::*;

    #[test]
    fn flags_mean_what_posix_says() {
        let open_mode = |flags| understand(flags).unwrap().1;
        assert_eq!(open_mode(O_RDONLY | O_CLOEXEC), OpenMode::Read);
        assert_eq!(open_mode(O_WRONLY | O_CREAT | O_TRUNC), OpenMode::Replace);
        assert_eq!(open_mode(O_RDWR | O_CREAT), OpenMode::UpdateOrCreate);
        assert_eq!(open_mode(O_RDWR | O_CREAT | O_EXCL | O_TRUNC), OpenMode::Create);
        assert_eq!(open_mode(O_WRONLY | O_TRUNC), OpenMode::ReplaceExisting);
        assert_eq!(open_mode(O_WRONLY), OpenMode::Update);
        let access = understand(O_WRONLY | O_APPEND).unwrap().0;
        assert_eq!(access, Access { can_read: false, can_write: true, is_append: true });
        for odd in [O_RDONLY | O_TRUNC, O_RDONLY | O_CREAT, libc::O_ACCMODE, libc::O_DIRECTORY, libc::O_PATH]
        {
            assert_eq!(understand(odd).unwrap_err().errno, libc::EINVAL, "{odd:#o}");
        }
    }

    proptest! {
        #[test]
        fn any_flags_are_answered(flags: c_int) {
            if let Ok((access, open_mode)) = understand(flags) {
                prop_assert_eq!(access.can_write, open_mode != OpenMode::Read);
            }
        }
    }
}
