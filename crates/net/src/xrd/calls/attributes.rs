//! User attributes of files.

use super::{Context, no_path};
use crate::xrd::{Attributes, NameRequest, Service};
use base::{ErrorKind, FilePath, Result};
use wire::xrd::{ErrorCode, Fattr, FattrAction, Subject, encode_fattr_list, encode_fattr_results};

impl<S: Service> Context<S> {
    pub(super) async fn fattr(&self, session: &S::Session, request: Fattr) -> Result<Vec<u8>> {
        let path = match &request.subject {
            Subject::Path(target) => self.path_of(session, target).await?,
            Subject::Handle(handle) => match self.handles.get(*handle) {
                Ok(handle) => handle.path.clone(),
                Err(_) => return Err(no_path("fattr")),
            },
        };
        let all =
            async || self.ask::<Attributes>(session, NameRequest::Attributes { path: path.clone() }).await;
        match request.action {
            FattrAction::List { with_values } => Ok(encode_fattr_list(&all().await?, with_values)),
            FattrAction::Get(names) => {
                let all = all().await?;
                let find = |name: &String| all.iter().find(|pair| pair.0 == *name).map(|pair| pair.1.clone());
                let results: Vec<_> = names
                    .into_iter()
                    .map(|name| (name.clone(), find(&name).ok_or(ErrorCode::AttrNotFound)))
                    .collect();
                Ok(encode_fattr_results(&results, true))
            }
            FattrAction::Set { is_new, pairs } => {
                let changes = pairs.into_iter().map(|(name, value)| (name, Some(value))).collect();
                self.set_attributes(session, &path, changes, is_new).await
            }
            FattrAction::Remove(names) => {
                // A path that is not there is another matter than an attribute that is not.
                all().await?;
                let changes = names.into_iter().map(|name| (name, None)).collect();
                self.set_attributes(session, &path, changes, false).await
            }
        }
    }

    async fn set_attributes(
        &self,
        session: &S::Session,
        path: &FilePath,
        changes: Vec<(String, Option<Vec<u8>>)>,
        is_new: bool,
    ) -> Result<Vec<u8>> {
        let mut results = Vec::with_capacity(changes.len());
        for (name, value) in changes {
            let is_removal = value.is_none();
            let (path, change) = (path.clone(), name.clone());
            let request = NameRequest::SetAttribute { path, name: change, value, is_new };
            let result = match self.ask(session, request).await {
                Ok(()) => Ok(Vec::new()),
                Err(failure) if failure.kind == ErrorKind::Unsupported => return Err(failure),
                Err(failure) if failure.kind == ErrorKind::NotFound && is_removal => {
                    Err(ErrorCode::AttrNotFound)
                }
                Err(failure) => Err(ErrorCode::of(failure.kind)),
            };
            results.push((name, result));
        }
        Ok(encode_fattr_results(&results, false))
    }
}
