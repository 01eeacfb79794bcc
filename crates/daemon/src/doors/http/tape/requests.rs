//! Stage requests and their files, and where files are.

use super::{ENDPOINT, TapeRequest};
use crate::doors::http::answer::{Answer, Problem};
use axum::{
    Json,
    body::Bytes,
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{Failure, FilePath, Result};
use wire::{
    auth::token::Right,
    control::{
        CancelStageFiles, DeleteStageRequest, Done, FileLocality, GetLocalities, GetStageRequest,
        LOCALITIES_MAX, ReleaseStageFiles, StageFile, StageRequestId, StageRequestInfo, SubmitStageRequest,
    },
    http::tape::{ArchiveInfo, PathsBody, StageBody, StageCreated, StageStatus, parse_request_id},
};

/// `POST stage`: a new request. Files that cannot be staged fail alone.
pub(super) async fn submit(request: TapeRequest, body: Bytes) -> Response {
    let outcome = submitted(&request, &body).await;
    request.answer(outcome)
}

async fn submitted(request: &TapeRequest, body: &[u8]) -> Answer {
    let body: StageBody = request.parse(body)?;
    let mut files: Vec<StageFile> =
        body.files.into_iter().map(|file| file.into_file(&request.door.sitename)).collect();
    for file in &mut files {
        if let Err(failure) = request.may(Right::Stage, &file.path) {
            file.refused.get_or_insert(failure.what);
        }
    }
    let id = request.call(SubmitStageRequest { files }).await?.id.to_string();
    let location = format!("{}{ENDPOINT}/stage/{id}", request.origin());
    let created = Json(StageCreated { request_id: id });
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], created).into_response())
}

/// The number in a target.
fn id_of(text: &str) -> Result<StageRequestId> {
    parse_request_id(text).ok_or_else(|| {
        Failure::not_found(format!("there is no stage request {text:.80?}"))
            .hint("use the requestId of the answer to `POST stage`")
    })
}

/// A request, for those who may see it and whose token covers its files.
pub(super) async fn look(request: &TapeRequest, id: &str) -> Result<StageRequestInfo> {
    let info = request.call(GetStageRequest { id: id_of(id)? }).await?;
    request.may_all(Right::Look, valid(&info))?;
    Ok(info)
}

/// The paths of a request that are paths: others have failed alone.
fn valid(info: &StageRequestInfo) -> impl Iterator<Item = &String> {
    let is_path = |path: &&String| path.parse::<FilePath>().is_ok();
    info.files.iter().map(|file| &file.path).filter(is_path)
}

/// `GET stage/{id}`: how far a request is.
pub(super) async fn show(request: TapeRequest, Path(id): Path<String>) -> Response {
    let outcome = look(&request, &id).await;
    request.answer(outcome.map(|info| Json(StageStatus::from(info)).into_response()).map_err(Problem::from))
}

/// The answer to what has no content.
fn done(request: &TapeRequest, outcome: Result<Done>) -> Response {
    request.answer(outcome.map(|_| StatusCode::OK.into_response()).map_err(Problem::from))
}

/// `DELETE stage/{id}`: takes a request back and forgets it.
pub(super) async fn delete(request: TapeRequest, Path(id): Path<String>) -> Response {
    let outcome = async {
        let id = id_of(&id)?;
        let info = request.call(GetStageRequest { id }).await?;
        request.may_all(Right::Stage, valid(&info))?;
        request.call(DeleteStageRequest { id }).await
    };
    done(&request, outcome.await)
}

/// `POST stage/{id}/cancel`: takes files of a request back.
pub(super) async fn cancel(request: TapeRequest, Path(id): Path<String>, body: Bytes) -> Response {
    let outcome = async {
        let PathsBody { paths } = request.parse(&body)?;
        let id = id_of(&id)?;
        request.may_all(Right::Stage, &paths)?;
        request.call(CancelStageFiles { id, paths }).await
    };
    done(&request, outcome.await)
}

/// `POST release/{id}`: files of a request are not needed on disk any more.
///
/// Clients that do not know the number send some word instead: then the files are released for all requests of the caller.
pub(super) async fn release(request: TapeRequest, Path(id): Path<String>, body: Bytes) -> Response {
    let outcome = async {
        let PathsBody { paths } = request.parse(&body)?;
        request.may_all(Right::Stage, &paths)?;
        request.call(ReleaseStageFiles { id: parse_request_id(&id), paths }).await
    };
    done(&request, outcome.await)
}

/// `POST archiveinfo`: where files are. A longer list is answered in part, as the API wants it.
pub(super) async fn archive_info(request: TapeRequest, body: Bytes) -> Response {
    let outcome = localities(&request, &body).await;
    request.answer(outcome.map_err(Problem::from))
}

async fn localities(request: &TapeRequest, body: &[u8]) -> Result<Response> {
    let PathsBody { mut paths } = request.parse(body)?;
    paths.truncate(LOCALITIES_MAX);
    let refused: Vec<_> = paths.iter().map(|path| request.may(Right::Look, path).err()).collect();
    let allowed = paths.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    let asked = GetLocalities { paths: allowed.map(|(path, _)| path.clone()).collect() };
    let mut found = request.call(asked).await?.files.into_iter();
    let files: Vec<ArchiveInfo> = paths
        .into_iter()
        .zip(refused)
        .filter_map(|(path, refused)| match refused {
            Some(failure) => Some(FileLocality { path, locality: None, failure: Some(failure) }),
            None => found.next(),
        })
        .map(ArchiveInfo::from)
        .collect();
    Ok(Json(files).into_response())
}
