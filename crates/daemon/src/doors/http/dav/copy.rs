//! `MOVE`, and `COPY` within this door.

use crate::doors::http::{
    answer::{Answer, Problem},
    dav::{
        properties::{href, report},
        tree,
    },
    file::claims::check_path,
    paths::{PathRequest, is_directory},
    tpc,
};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure, FilePath};
use wire::{
    control::{Disposition, Entry, Mkdir, Remove, Rename},
    http::dav::{Depth, Place, parse_depth, parse_overwrite, parse_place},
};

/// What the fields of a `COPY` or `MOVE` say.
struct CopyRequest {
    to: FilePath,
    source: Entry,
    /// What has the new name now.
    target: Option<Entry>,
}

fn destination(request: &PathRequest) -> Result<Place, Problem> {
    let field = request
        .field("destination")
        .ok_or_else(|| Failure::invalid(format!("{} without a Destination field", request.method)))?;
    Ok(parse_place(field)?)
}

/// Refuses a place for a file whose path is that of a directory.
pub(in crate::doors::http) fn refuse_slashed(place: &Place) -> Result<(), Problem> {
    if !place.names_directory() {
        return Ok(());
    }
    let what = format!("{} names a directory", place.target.split('?').next().unwrap_or_default());
    let failure = Failure::new(ErrorKind::IsDirectory, what);
    Err(Problem::with_status(
        failure.hint("the path of a file has no slash at its end"),
        StatusCode::CONFLICT,
    ))
}

/// Checks what can be checked before anything changes.
async fn wish(request: &PathRequest, place: &Place) -> Result<CopyRequest, Problem> {
    let (from, to) = (&request.path, place.path()?);
    let is_overwriting = parse_overwrite(request.field("overwrite"))?;
    let source = request.entry(from).await?;
    request.require_conditions(Some(&source))?;
    if from.is_root() || to.is_root() || to == *from {
        return Err(Failure::permission(format!("{from} cannot become {to}")).into());
    }
    if from.is_within(&to) || is_directory(&source) && to.is_within(from) {
        return Err(Failure::permission(format!("{from} and {to} lie inside each other")).into());
    }
    let missing = || {
        let failure = Failure::not_found(format!("the directory that would hold {to} does not exist"));
        Problem::with_status(failure.hint("make it with MKCOL"), StatusCode::CONFLICT)
    };
    let parent = to.parent().unwrap_or_else(FilePath::root);
    let mut is_missing = false;
    match request.find(&parent).await {
        Ok(Some(entry)) if is_directory(&entry) => {}
        Ok(None) if request.makes_parents => is_missing = true,
        Ok(_) => return Err(missing()),
        Err(failure) if failure.kind == ErrorKind::NotDirectory => return Err(missing()),
        Err(failure) => return Err(failure.into()),
    }
    let target = request.find(&to).await?;
    // RFC 4918 §9.8.4: a collection is overwritten, too. But whoever leaves the field out means to put the file into it.
    let is_told = request.field("overwrite").is_some() && target.as_ref().is_some_and(is_directory);
    if !is_directory(&source) && !is_told {
        refuse_slashed(place)?;
    }
    if target.is_some() && !is_overwriting {
        return Err(Problem::precondition(format!("{to} exists, and the request says Overwrite: F")));
    }
    if is_missing {
        request.call(Mkdir { path: parent, mode: 0o755, parents: true }).await?;
    }
    Ok(CopyRequest { to, source, target })
}

/// Removes a directory that is to be replaced, or a file that a directory replaces. A file that a file replaces stays
/// until the moment it is replaced.
async fn make_room(request: &PathRequest, wish: &CopyRequest) -> Result<Option<Response>, Problem> {
    match &wish.target {
        Some(target) if is_directory(target) => match tree::remove(request, &wish.to).await {
            Ok(()) => Ok(None),
            Err(trouble) => report(request, trouble).map(Some),
        },
        Some(_) if is_directory(&wish.source) => {
            request.call(Remove { path: wish.to.clone() }).await?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn done(wish: &CopyRequest) -> Response {
    if wish.target.is_some() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let place = href(&wish.to, is_directory(&wish.source));
    (StatusCode::CREATED, [(header::LOCATION, place)]).into_response()
}

/// `MOVE`: within the namespace only.
pub(in crate::doors::http) async fn rename(request: &PathRequest) -> Answer {
    let place = destination(request)?;
    if !request.is_here(&place) {
        let failure = Failure::unsupported(format!("MOVE to another server, {}", place.authority()));
        return Err(Problem::with_status(
            failure.hint("COPY it there, then DELETE it"),
            StatusCode::BAD_GATEWAY,
        ));
    }
    let wish = wish(request, &place).await?;
    if let Some(answer) = make_room(request, &wish).await? {
        return Ok(answer);
    }
    let is_new = !parse_overwrite(request.field("overwrite"))?;
    let call = Rename { from: request.path.clone(), to: wish.to.clone(), is_new, parents: false };
    request.call(call).await?;
    Ok(done(&wish))
}

/// `COPY` to a place of this door, or to another server.
pub(in crate::doors::http) async fn copy(request: PathRequest) -> Answer {
    let place = destination(&request)?;
    if !request.is_here(&place) {
        return tpc::push(request, place).await;
    }
    if tpc::is_third_party(&request) {
        refuse_slashed(&place)?;
        let to = place.path()?;
        return tpc::local(request, place, to).await;
    }
    copy_here(&request, &place).await
}

async fn copy_here(request: &PathRequest, place: &Place) -> Answer {
    let from = &request.path;
    let depth = parse_depth(request.field("depth"))?;
    if depth == Depth::One {
        return Err(Failure::invalid("COPY has depth 0 or infinity, not 1").into());
    }
    let wish = wish(request, place).await?;
    if !is_directory(&wish.source) && wish.source.checksums.is_none() {
        return Err(Failure::locked(format!("{from} is being written")).into());
    }
    if !is_directory(&wish.source) {
        check_path(request, from).await.map_err(|failure| match failure.kind {
            ErrorKind::Corrupt => Problem::with_status(failure, StatusCode::BAD_REQUEST),
            _ => failure.into(),
        })?;
    }
    if let Some(answer) = make_room(request, &wish).await? {
        return Ok(answer);
    }
    if is_directory(&wish.source) {
        let outcome = tree::copy(request, from, &wish.to, depth == Depth::Infinity).await;
        return outcome.map_or_else(|trouble| report(request, trouble), |()| Ok(done(&wish)));
    }
    let is_replacing = wish.target.as_ref().is_some_and(|target| !is_directory(target));
    let disposition = if is_replacing { Disposition::Replace } else { Disposition::CreateNew };
    tree::copy_file(request, from, &wish.to, disposition, |_| {}).await?;
    Ok(done(&wish))
}
