//! Calls by which hosts join: the only ones that the door answers itself.

use super::{HttpDoor, Peer, answer::Refused, calls, guard::HostRooms};
use crate::hosts::Reception;
use axum::{Extension, Json, Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use base::{Failure, Result};
use std::sync::Arc;
use tracing::info;
use wire::control::{
    AuthorityCertificate, Call, Done, GetAuthority, HostCertificate, Invite, Invited, JoinFacility,
    Membership, RemoveHost, RenewCertificate,
};

type Door = State<Arc<HttpDoor>>;
type Answer<T> = Result<Json<T>, Refused>;
type Seen = Option<Extension<Peer>>;

fn near(peer: Seen) -> Option<Peer> {
    peer.map(|Extension(peer)| peer)
}

pub(super) fn routes(router: Router<Arc<HttpDoor>>) -> Router<Arc<HttpDoor>> {
    let at = |name: &str| format!("/api/v1/{name}");
    router
        .route(&at(GetAuthority::NAME), post(authority))
        .route(&at(Invite::NAME), post(invite))
        .route(&at(JoinFacility::NAME), post(join))
        .route(&at(RenewCertificate::NAME), post(renew))
        .route(&at(RemoveHost::NAME), post(remove))
}

/// Goes on when the client leaves: what the head has noted of hosts must be known here.
async fn unbroken<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let ended = tokio::spawn(work).await;
    ended.map_err(|cause| Failure::internal(format!("the call ended badly: {cause}")))?
}

fn reception(door: &HttpDoor) -> Result<&Reception> {
    door.reception.as_ref().ok_or_else(|| Failure::unsupported("hosts cannot join here"))
}

async fn authority(State(door): Door) -> Answer<AuthorityCertificate> {
    let certificate = reception(&door)?.authority_certificate().await?;
    Ok(Json(AuthorityCertificate { certificate }))
}

async fn invite(State(door): Door, peer: Seen, headers: HeaderMap, body: Bytes) -> Answer<Invited> {
    let wish: Invite = calls::parse(&headers, &body)?;
    let who = door.principal(&headers);
    let invited = reception(&door)?.invite(door.files.head()?, &who, wish.clone()).await;
    door.note_call((&who.name, near(peer)), &wish, invited.as_ref());
    Ok(Json(invited?))
}

async fn join(State(door): Door, peer: Seen, headers: HeaderMap, body: Bytes) -> Answer<Membership> {
    let wish: JoinFacility = calls::parse(&headers, &body)?;
    let (name, roles) = (wish.name.clone(), wish.roles.clone());
    let (own, asked) = (Arc::clone(&door), wish.clone());
    let membership = unbroken(async move {
        let membership = reception(&own)?.admit(own.files.head()?, asked).await?;
        own.roster.reload(own.files.head()?).await?;
        Ok(membership)
    });
    let membership = membership.await;
    door.note_call((&door.principal(&headers).name, near(peer)), &wish, membership.as_ref());
    let membership = membership?;
    info!(host = name, ?roles, "host joined");
    Ok(Json(membership))
}

async fn renew(
    State(door): Door,
    host: Option<Extension<HostRooms>>,
    peer: Seen,
    headers: HeaderMap,
    body: Bytes,
) -> Answer<HostCertificate> {
    let wish: RenewCertificate = calls::parse(&headers, &body)?;
    let shown = near(peer).and_then(|peer| peer.certificate).map(|shown| shown.sha256);
    let user = host.as_ref().map_or_else(
        || door.principal(&headers).name,
        |Extension(HostRooms(member))| head::Principal::host(&member.name).name,
    );
    let renewed = match (host, shown) {
        (Some(Extension(HostRooms(member))), Some(shown)) => {
            let (own, asked) = (Arc::clone(&door), wish.clone());
            let renewed = unbroken(async move {
                let renewed = reception(&own)?.renew(own.files.head()?, (&member, shown), asked).await?;
                own.roster.reload(own.files.head()?).await?;
                info!(host = member.name, "host has a new certificate");
                Ok(renewed)
            });
            renewed.await
        }
        _ => Err(Failure::permission("only a host that joined can renew its certificate")),
    };
    door.note_call((&user, near(peer)), &wish, renewed.as_ref());
    Ok(Json(renewed?))
}

async fn remove(State(door): Door, peer: Seen, headers: HeaderMap, body: Bytes) -> Answer<Done> {
    let call: RemoveHost = calls::parse(&headers, &body)?;
    let (who, name) = (door.principal(&headers), call.name.clone());
    let user = who.name.clone();
    let (own, asked) = (Arc::clone(&door), call.clone());
    let done = unbroken(async move {
        let done = own.files.head()?.call(&who, asked).await;
        // Also if it is refused: an earlier order may have been carried out without our knowing.
        own.roster.reload(own.files.head()?).await?;
        done
    });
    let done = done.await;
    door.note_call((&user, near(peer)), &call, done.as_ref());
    let done = done?;
    info!(host = name, "host turned away");
    Ok(Json(done))
}
