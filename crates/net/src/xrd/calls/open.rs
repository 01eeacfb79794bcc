//! Opens: what the flags ask for, and the handle of what was opened.

use super::Context;
use crate::xrd::{
    Access, Disposition, OpenFile, OpenRequest, Opened, Service, handles::Handle, slash::file_path,
};
use base::{Failure, Result};
use std::sync::Arc;
use wire::xrd::{Answer, Opaque, Open, OpenAnswer, OpenFlags, OpenFlags2};

impl<S: Service> Context<S> {
    /// Opens a file and gives it its handle.
    pub(in crate::xrd) async fn open(self: Arc<Self>, open: Open) -> Answer {
        let work = async {
            let request = open_request(&open)?;
            let reserved = self.handles.reserve()?;
            let opened = self.service.open(&self.session, &request).await;
            drop(reserved);
            let file = match opened? {
                Opened::Here(file) => file,
                Opened::Redirect(redirect) => return Ok(Answer::Redirect(redirect)),
            };
            let stat = wants_stat(&open).then(|| file.stat()).transpose()?;
            let handle = Handle::new(file, request.path, request.access == Access::Update);
            let handle = self.handles.insert(handle)?;
            Ok(Answer::Ok(OpenAnswer { handle, stat }.encode()))
        };
        work.await.unwrap_or_else(|failure: Failure| Answer::failure(&failure))
    }
}

/// What the owner of a new file may do with it, whatever the request says: clients of the field send mode 0 if their user names
/// none.
const OPEN_MODE: u32 = 0o600;

/// What the flags of an open mean (spec/xrootd.md §4.3).
fn open_request(request: &Open) -> Result<OpenRequest> {
    let flags = request.flags;
    let for_writing =
        OpenFlags::UPDATE | OpenFlags::APPEND | OpenFlags::WRITE_ONLY | OpenFlags::NEW | OpenFlags::DELETE;
    let disposition = if flags.contains(OpenFlags::DELETE) {
        Disposition::Replace
    } else if flags.contains(OpenFlags::NEW) {
        Disposition::CreateNew
    } else {
        Disposition::Existing
    };
    if OpenFlags2(request.flags2).intersects(OpenFlags2::DUP | OpenFlags2::SAME_FILE_SYSTEM) {
        let what = format!("{}: opening a file by the handle of another is not offered", request.target.path);
        return Err(Failure::unsupported(what));
    }
    let opaque: Opaque = request.target.opaque.clone();
    Ok(OpenRequest {
        path: file_path(&request.target)?,
        opaque,
        access: if flags.intersects(for_writing) { Access::Update } else { Access::Read },
        disposition,
        make_path: flags.contains(OpenFlags::MAKE_PATH),
        is_persist_on_close: flags.contains(OpenFlags::PERSIST_ON_CLOSE),
        mode: u32::from(request.mode) & 0o777 | OPEN_MODE,
    })
}

/// Whether the answer to an open is to say what the file is.
fn wants_stat(request: &Open) -> bool {
    request.flags.contains(OpenFlags::RETURN_STAT)
}
