//! Calls by which hosts join: the only ones that the door answers itself.

use crate::{
    doors::http::{HttpDoor, answer::Refused, api::calls, guard::caller::Caller},
    hosts::JoinService,
};
use axum::{Extension, Json, Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use base::{Failure, Result};
use std::sync::Arc;
use tracing::info;
use wire::control::{
    AuthorityCertificate, Call, Done, GetAuthority, HostCertificate, HostHere, Invite, Invited, JoinFacility,
    Membership, RemoveHost, RenewCertificate,
};

type Door = State<Arc<HttpDoor>>;
type Answer<T> = Result<Json<T>, Refused>;
type By = Extension<Caller>;

pub(in crate::doors::http) fn routes(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let at = |name: &str| format!("/api/v1/{name}");
    router
        .route(&at(GetAuthority::NAME), post(authority))
        .route(&at(Invite::NAME), post(invite))
        .route(&at(JoinFacility::NAME), post(join))
        .route(&at(RenewCertificate::NAME), post(renew))
        .route(&at(RemoveHost::NAME), post(remove))
        .route(&at(HostHere::NAME), post(here))
}

/// Goes on when the client leaves: what the head has noted of hosts must be known here.
async fn unbroken<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let ended = tokio::spawn(work).await;
    ended.map_err(|cause| Failure::internal(format!("the call failed unexpectedly: {cause}")))?
}

fn join_service(door: &HttpDoor) -> Result<&JoinService> {
    door.join_service.as_ref().ok_or_else(|| Failure::unsupported("hosts cannot join here"))
}

async fn authority(State(door): Door) -> Answer<AuthorityCertificate> {
    let certificate = join_service(&door)?.authority_certificate().await?;
    Ok(Json(AuthorityCertificate { certificate }))
}

async fn invite(
    State(door): Door,
    Extension(caller): By,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<Invited> {
    let wish: Invite = calls::parse(&headers, &body)?;
    let invited = join_service(&door)?.invite(door.files.head()?, &caller.who, wish.clone()).await;
    door.note_call(&caller, &wish, invited.as_ref());
    Ok(Json(invited?))
}

async fn join(
    State(door): Door,
    Extension(caller): By,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<Membership> {
    let wish: JoinFacility = calls::parse(&headers, &body)?;
    let (name, roles) = (wish.name.clone(), wish.roles.clone());
    let (own, asked) = (Arc::clone(&door), wish.clone());
    let membership = unbroken(async move {
        let membership = join_service(&own)?.admit(own.files.head()?, asked).await?;
        own.roster.reload(own.files.head()?).await?;
        Ok(membership)
    });
    let membership = membership.await;
    door.note_call(&caller, &wish, membership.as_ref());
    let membership = membership?;
    info!(host = name, ?roles, "host joined");
    Ok(Json(membership))
}

async fn renew(
    State(door): Door,
    Extension(caller): By,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<HostCertificate> {
    let wish: RenewCertificate = calls::parse(&headers, &body)?;
    let shown = caller.peer.and_then(|peer| peer.certificate).map(|shown| shown.sha256);
    let renewed = match (caller.host.clone(), shown) {
        (Some(member), Some(shown)) => {
            let (own, asked) = (Arc::clone(&door), wish.clone());
            let renewed = unbroken(async move {
                let renewed = join_service(&own)?.renew(own.files.head()?, (&member, shown), asked).await?;
                own.roster.reload(own.files.head()?).await?;
                info!(host = member.name, "issued a new certificate to a host");
                Ok(renewed)
            });
            renewed.await
        }
        _ => Err(Failure::permission("only a host that joined can renew its certificate")),
    };
    door.note_call(&caller, &wish, renewed.as_ref());
    Ok(Json(renewed?))
}

/// A host says that it is there, and where: it is asked there when a connection of it breaks.
async fn here(State(door): Door, Extension(caller): By, headers: HeaderMap, body: Bytes) -> Answer<Done> {
    let call: HostHere = calls::parse(&headers, &body)?;
    let who = caller.principal_for::<HostHere>()?;
    let done = door.files.head()?.call(&who, call.clone()).await?;
    if let Some(prober) = door.files.prober() {
        prober.note(&call.server, call.boot);
    }
    Ok(Json(done))
}

async fn remove(State(door): Door, Extension(caller): By, headers: HeaderMap, body: Bytes) -> Answer<Done> {
    let call: RemoveHost = calls::parse(&headers, &body)?;
    let (who, name) = (caller.who.clone(), call.name.clone());
    let (own, asked) = (Arc::clone(&door), call.clone());
    let done = unbroken(async move {
        let done = own.files.head()?.call(&who, asked).await;
        // Also if it is refused: an earlier order may have been carried out without our knowing.
        own.roster.reload(own.files.head()?).await?;
        done
    });
    let done = done.await;
    door.note_call(&caller, &call, done.as_ref());
    let done = done?;
    info!(host = name, "host removed from the facility");
    Ok(Json(done))
}
