//! Requests on names whose answers are plain bytes.

use super::{Context, path};
use crate::xrd::{
    NameRequest, OpenFile, PrepareAction, PrepareRequest, Service, SpaceInfo, slash::file_path,
};
use base::{Failure, FilePath, Result};
use std::sync::Arc;
use wire::xrd::{Location, Mkdir, Prepare, PrepareOptions, Request, Stat, Subject, Target};

impl<S: Service> Context<S> {
    /// Calls whose answers are plain bytes.
    pub(super) async fn change(&self, session: &S::Session, request: Request) -> Result<Vec<u8>> {
        let done = |()| Vec::new();
        match request {
            Request::Stat(request) => self.stat_text(session, request).await,
            Request::Statx(targets) => self.flags(session, targets).await,
            Request::Truncate(request) => {
                let Subject::Path(target) = request.subject else {
                    return Err(no_path("truncate"));
                };
                let (path, size) = (file_path(&target)?, request.size);
                self.ask(session, NameRequest::Truncate { path, size }).await.map(done)
            }
            Request::Mkdir(Mkdir { mode, make_path, target }) => {
                let (path, mode) = (path(&target)?, u32::from(mode) & 0o777 | MKDIR_MODE);
                self.ask(session, NameRequest::Mkdir { path, mode, make_path }).await.map(done)
            }
            Request::Rm(target) => {
                let path = self.path_of(session, &target).await?;
                self.ask(session, NameRequest::Remove { path }).await.map(done)
            }
            Request::Rmdir(target) => {
                self.ask(session, NameRequest::Rmdir { path: path(&target)? }).await.map(done)
            }
            Request::Mv(request) => {
                let from = self.path_of(session, &request.from).await?;
                let to = self.new_path(session, &request.to, &from).await?;
                self.ask(session, NameRequest::Rename { from, to }).await.map(done)
            }
            Request::Chmod(request) => {
                let path = self.path_of(session, &request.target).await?;
                let mode = u32::from(request.mode) & 0o777;
                self.ask(session, NameRequest::Chmod { path, mode }).await.map(done)
            }
            Request::Locate(request) => self.locate(session, &request.target).await,
            Request::Sync(handle) => {
                let handle = self.handles.get(handle).map_err(|refusal| {
                    refusal.to_failure().unwrap_or_else(|| Failure::invalid("no such open file"))
                })?;
                Arc::clone(&handle.file).sync_slowly().await.map(done)
            }
            Request::Prepare(request) => self.prepare(session, request).await,
            Request::Fattr(request) => self.fattr(session, request).await,
            other => Err(Failure::internal(format!("{:?} is not a call", other.code()))),
        }
    }

    /// Attributes of a path, or of the file systems below it, as text.
    async fn stat_text(&self, session: &S::Session, request: Stat) -> Result<Vec<u8>> {
        let Subject::Path(target) = request.subject else {
            return Err(no_path("stat"));
        };
        let text = if request.is_filesystem {
            let request = NameRequest::Space { path: path(&target)? };
            self.ask::<SpaceInfo>(session, request).await?.to_filesystem_text()
        } else {
            let path = self.path_of(session, &target).await?;
            self.stat(session, path, &target).await?.to_string()
        };
        Ok(format!("{text}\0").into_bytes())
    }

    /// One byte of flags for each path.
    async fn flags(&self, session: &S::Session, targets: Vec<Target>) -> Result<Vec<u8>> {
        let (mut flags, is_one) = (Vec::with_capacity(targets.len()), targets.len() == 1);
        for target in targets {
            let stat = async {
                let path = self.path_of(session, &target).await?;
                self.stat(session, path, &target).await
            };
            let stat = stat.await;
            // The others are here, perhaps.
            flags.push(stat.map_err(|failure| failure.only_here(!is_one))?.flags_byte());
        }
        Ok(flags)
    }

    async fn locate(&self, session: &S::Session, target: &Target) -> Result<Vec<u8>> {
        // `*path` asks for every server that has it, `*` for every server.
        let text = target.path.strip_prefix('*').unwrap_or(&target.path);
        let path = match text {
            "" => FilePath::root(),
            text => self.path_of(session, &Target::new(text)).await?,
        };
        let request = NameRequest::Locate { path: path.clone(), local: self.local.clone() };
        let locations: Vec<Location> = self.ask(session, request).await?;
        if locations.is_empty() {
            return Err(Failure::not_found(format!("{path} is not on any server")));
        }
        let words: Vec<_> = locations.iter().map(Location::to_string).collect();
        Ok(format!("{}\0", words.join(" ")).into_bytes())
    }

    async fn prepare(&self, session: &S::Session, request: Prepare) -> Result<Vec<u8>> {
        let mut lines = request.lines.iter();
        let action = if request.options.contains(PrepareOptions::CANCEL) {
            PrepareAction::Cancel(lines.next().cloned().unwrap_or_default())
        } else if request.is_evict {
            PrepareAction::Evict
        } else if request.options.contains(PrepareOptions::STAGE) {
            PrepareAction::Stage { priority: request.priority.min(3) }
        } else {
            PrepareAction::Touch
        };
        let mut paths = Vec::with_capacity(lines.len());
        for line in lines {
            paths.push(self.path_of(session, &Target::from_text(line)).await?);
        }
        let request = NameRequest::Prepare(PrepareRequest { action, paths });
        self.ask(session, request).await.map(String::into_bytes)
    }
}

pub(super) fn no_path(what: &str) -> Failure {
    Failure::invalid(format!("{what} names neither a path nor an open file"))
}

/// What the owner of a new directory may do with it, whatever the request says: as with a new file.
const MKDIR_MODE: u32 = 0o700;
