//! Paths with a slash at their end (spec/xrootd.md §2): they are those of directories, whatever is asked of them. A file is never made,
//! replaced, renamed or removed by such a path.

use super::{Service, calls::Context};
use base::{ErrorKind, Failure, FilePath, Result};
use wire::xrd::Target;

/// The checked path of something that must be a file, or is to become one.
pub(super) fn file_path(target: &Target) -> Result<FilePath> {
    let path: FilePath = target.path.parse()?;
    if target.names_directory() {
        return Err(Failure::new(ErrorKind::IsDirectory, format!("{} names a directory", target.path))
            .hint("the path of a file has no slash at its end"));
    }
    Ok(path)
}

impl<S: Service> Context<S> {
    /// The checked path of something that is there.
    pub(super) async fn path_of(&self, session: &S::Session, target: &Target) -> Result<FilePath> {
        let path: FilePath = target.path.parse()?;
        if target.names_directory() {
            self.require_directory(session, &path, target).await?;
        }
        Ok(path)
    }

    /// The checked new path of something that is now at `from`.
    pub(super) async fn new_path(
        &self,
        session: &S::Session,
        target: &Target,
        from: &FilePath,
    ) -> Result<FilePath> {
        let path: FilePath = target.path.parse()?;
        if target.names_directory() {
            self.require_directory(session, from, target).await?;
        }
        Ok(path)
    }

    /// Refuses a `path` that is no directory, because `target` says that it is, or is to be one.
    async fn require_directory(&self, session: &S::Session, path: &FilePath, target: &Target) -> Result<()> {
        if self.stat(session, path.clone(), target).await?.is_directory() {
            return Ok(());
        }
        let what = format!("{} names a directory, and {path} is a file", target.path);
        Err(Failure::new(ErrorKind::NotDirectory, what).hint("remove the slash at the end"))
    }
}
